"""The ledger of a pipeline in Redis: its runs, its last closed epoch, what its sinks have taken.

A run begins with `open_run`, on the side that starts the query. Tasks ask `check` before each
epoch. Sinks leave their rows with `stage`; when all tasks of an epoch are done, the side that
commits it calls `close_epoch` and then `promote_all`. What can go wrong in between, and why the
result is still the same, is told in docs/adr/0001-pending-and-promote.md.

    ledger = EpochLedger(client, "orders")
    run = ledger.open_run(["3_sink-materializer"], 128)
    incarnation = ledger.incarnation          # goes to the tasks, together with the run
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgpack
from redis.exceptions import ResponseError

from state.backends.chunks import encode_chunks
from state.backends.interface import ApplyStaged, EpochCheck, EpochStamp, Ledger, Marker
from state.backends.names import (
    ANSWERS,
    OFFERED,
    REGISTRY,
    every_key_pattern,
    key_group_prefix,
    offered_names,
    part_name,
    slot_prefix,
)
from state.backends.rules import (
    ahead_of_marker,
    as_name,
    check_epoch,
    marker_lost,
    named_in_slot,
    offsets_json,
    slot_name,
    stale_or_lost,
)
from state.backends.transport import checked, function, translate, transport_of
from state.errors import Fenced, StagedWritesGone, StateCorrupt, StateLost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import redis

    from state.backends.interface import Effect, Write
    from state.backends.transport import ClientSettings, Command, Transport
    from state.errors import StateError

__all__ = ["ApplyStaged", "EpochCheck", "EpochLedger", "EpochStamp", "Ledger", "Marker"]

_CALLS_PER_TRIP = 1_000
_KEYS_PER_SCAN = 1_000
_CHUNKS_PER_PUSH = 64
_OF_COMMITS = (b":meta", b":pending")
"""How names end without which nothing can be promoted."""

# Both reply 0 where another run was opened. Of a cluster the second unlinks keys in many slots.
_TAKE_NUMBER = """
if ARGV[1] ~= '' and (redis.call('GET', KEYS[1]) or '0') ~= ARGV[1] then return 0 end
return redis.call('INCR', KEYS[1])
"""
_UNLINK_AS = """#!lua flags=allow-cross-slot-keys,allow-oom
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
for i = 2, #ARGV do redis.call('UNLINK', ARGV[i]) end
return 1
"""


class EpochLedger(Ledger):
    """The ledger of one pipeline.

    Characteristics:
        round trips   one each; `open_run` and `promote_all` one for 1,000 key groups
        thread-safe   yes
    """

    def __init__(
        self,
        source: redis.Redis | ClientSettings | Transport,
        pipeline: str,
        incarnation: str | None = None,
    ) -> None:
        """Connect at first use.

        Args:
            source: Where Redis is; a client lends its address and credentials.
            pipeline: Whose ledger.
            incarnation: Redis's run id when the run began; None takes that of the first connection,
                which is right for the side that calls `open_run` and only there.
        """
        self._transport = transport_of(source, incarnation)
        self._pipeline = pipeline
        self._prefix = slot_prefix(pipeline)

    @property
    def incarnation(self) -> str:
        """The run id of the Redis that all calls of this ledger went to."""
        return self._transport.incarnation

    def open_run(self, nodes: Sequence[str], max_parallelism: int) -> int:
        """Begin a new run; see `Ledger.open_run`.

        Every key group of the nodes is marked with the run, also those that hold nothing, so that
        no worker of an earlier run can begin in one.

        Raises:
            StateLost: A key group has an epoch that was never closed.
            Fenced: Another run was opened meanwhile.
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        # From here on the earlier run can close nothing more, so the marker stands still.
        run = int(self._ask(("INCR", self._key(b"run"))))
        marker = self.marker().epoch
        self._forget_staged()
        self._forget_offered(nodes, max_parallelism)
        for places, commands in self._calls("own", nodes, max_parallelism, run, marker):
            replies = self._transport.exchange(commands, is_repeatable=True)
            for place, reply in zip(places, replies, strict=True):
                if isinstance(reply, ResponseError):
                    raise _owning_error(reply, place, run, marker) from reply
        return run

    def marker(self) -> Marker:
        """The last closed epoch.

        Raises:
            StateCorrupt: What is stored is no marker.
        """
        names = ("epoch", "run", "closed_ms", "offsets")
        held = self._ask(("HMGET", self._key(b"marker"), *names))
        if held[0] is None:
            return Marker()
        try:
            epoch, run, closed_ms = map(int, held[:3])
            return Marker(epoch, run, closed_ms, held[3].decode())
        except (TypeError, ValueError, AttributeError) as error:
            raise StateCorrupt(f"the marker of {self._pipeline} cannot be read") from error

    def check(self, epoch: int) -> EpochCheck:
        """Whether a task may run this epoch; see `Ledger.check`."""
        held = self._ask(("HGET", self._key(b"marker"), "epoch"))
        return check_epoch(Marker(int(held or 0)), epoch)

    def require_run(self, stamp: EpochStamp) -> None:
        """See that a run owns the pipeline; see `Ledger.require_run`."""
        newest = int(self._ask(("GET", self._key(b"run"))) or 0)
        if newest != stamp.run:
            raise stale_or_lost("", stamp, at=-1, newest_run=newest, marker=0)

    def stage(self, name: bytes | str, writes: Sequence[Write]) -> int:
        """Store a sink's writes of one task; see `Ledger.stage`.

        Raises:
            InvariantViolation: A write is malformed, or writes what belongs to the protocol.
            StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
        """
        named = [named_in_slot(each, self._prefix) for each in writes]
        chunks, _ = encode_chunks([each for each in named if not isinstance(each, ApplyStaged)])
        self.stage_items(name, chunks)
        return len(chunks)

    def stage_items(self, name: bytes | str, items: Sequence[bytes]) -> None:
        """Store what a task leaves for a sink elsewhere until the epoch is closed.

        Args:
            name: Unique for each attempt of a task; in the pipeline's slot.
            items: Bytes of any kind; nothing here looks into them.

        Raises:
            InvariantViolation: The name belongs to the protocol.
            StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
        """
        short = slot_name(as_name(name), self._prefix)
        key = self._key(short)
        # Registered first, so that whatever comes of it, the next close or run removes it.
        commands: list[Command] = [("SADD", self._key(b"stages"), short), ("UNLINK", key)]
        starts = range(0, len(items), _CHUNKS_PER_PUSH)
        commands += [("RPUSH", key, *items[at : at + _CHUNKS_PER_PUSH]) for at in starts]
        checked(self._transport.exchange(commands, is_repeatable=True))

    def staged_items(self, name: bytes | str, start: int, end: int) -> list[bytes]:
        """Items that `stage_items` stored, from one position to before another.

        Raises:
            StagedWritesGone: One of them is not there.
            StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
        """
        key = self._key(slot_name(as_name(name), self._prefix))
        items: list[bytes] = self._ask(("LRANGE", key, start, end - 1))
        if len(items) != end - start:
            raise StagedWritesGone(
                f"a staged list has {start + len(items)} items, its task left at least {end}"
            )
        return items

    def close_epoch(
        self, stamp: EpochStamp, offsets: Mapping[str, Any], effects: Sequence[Effect]
    ) -> bool:
        """Apply effects and set the marker in one call; see `Ledger.close_epoch`."""
        chunks: list[bytes] = []
        for effect in effects:
            named = named_in_slot(effect, self._prefix)
            if isinstance(named, ApplyStaged):
                order = [[b"STAGED", named.name, named.chunks]]
                chunks.append(msgpack.packb(order, use_bin_type=False))
            else:
                chunks += encode_chunks([named])[0]
        keys = (self._key(b"run"), self._key(b"marker"), self._key(b"stages"))
        given = (stamp.run, stamp.epoch, offsets_json(offsets), *chunks)
        command = ("FCALL", function("close"), len(keys), *keys, *given)
        (reply,) = self._transport.exchange([command])
        if isinstance(reply, ResponseError):
            raise _closing_error(reply, stamp) from reply
        return bool(reply == b"OK")

    def promote_all(self, nodes: Sequence[str], max_parallelism: int) -> None:
        """Apply pending writes of closed epochs; see `Ledger.promote_all`.

        Raises:
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        marker = self.marker().epoch
        for _, commands in self._calls("promote", nodes, max_parallelism, marker):
            checked(self._transport.exchange(commands, is_repeatable=True))

    def registered(self) -> dict[bytes, bytes]:
        """What is registered; see `Ledger.registered`.

        Raises:
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        flat = self._ask(("HGETALL", self._key(REGISTRY)))
        return dict(zip(flat[0::2], flat[1::2], strict=True))

    def register(self, entries: Mapping[bytes, bytes]) -> None:
        """Set entries; see `Ledger.register`.

        Raises:
            StateUnavailable, StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        pairs = (each for pair in entries.items() for each in pair)
        self._ask(("HSET", self._key(REGISTRY), *pairs))

    def add_registered(self, field: bytes, by: int) -> int:
        """Add to an entry; see `Ledger.add_registered`. It is sent once only.

        Raises:
            StateUnavailable: Unknown whether it was added.
            StateAccessDenied, IncarnationChanged, StateCorrupt: As everywhere.
        """
        command = ("HINCRBY", self._key(REGISTRY), field, by)
        return int(checked(self._transport.exchange([command]))[0])

    def drop(self, run: int | None = None, *, keep: Sequence[bytes] = ()) -> None:
        """Remove all but the run counter and answers, in bounded batches; see `Ledger.drop`.

        Args:
            run: The newest one that the caller knows of; None: whichever it is.
            keep: Names in the pipeline's slot that stay, too.

        Raises:
            Fenced: Another run was opened, or another drop begun: what lies there now is its.
            StateUnavailable, StateAccessDenied, IncarnationChanged: As everywhere.
        """
        kept = self._key(b"run")
        known = b"" if run is None else run
        # Repeated with a run it would take itself for another one.
        taking = [("EVAL", _TAKE_NUMBER, 1, kept, known)]
        (number,) = checked(self._transport.exchange(taking, is_repeatable=run is None))
        _require_own(number)
        # What waits goes first: an orphan that begins could promote it into state that is gone.
        self._drop(number, lambda key: key.endswith(_OF_COMMITS))
        answers = self._key(ANSWERS)
        stays = {kept, *map(self._key, keep)}
        self._drop(number, lambda key: key not in stays and not key.startswith(answers))

    def _drop(self, number: int, is_wanted: Callable[[bytes], bool]) -> None:
        """Remove those keys of the pipeline that are wanted, in bounded batches."""
        pattern = every_key_pattern(self._pipeline)
        cursor = 0
        while True:
            cursor, keys = self._ask(("SCAN", cursor, "MATCH", pattern, "COUNT", _KEYS_PER_SCAN))
            gone = [each for each in keys if is_wanted(each)]
            _require_own(self._ask(("EVAL", _UNLINK_AS, 1, self._key(b"run"), number, *gone)))
            if int(cursor) == 0:
                return

    def _forget_staged(self) -> None:
        """Remove what tasks of earlier runs staged."""
        registry = self._key(b"stages")
        if names := self._ask(("SMEMBERS", registry)):
            self._ask(("UNLINK", registry, *(self._key(each) for each in names)))

    def _forget_offered(self, nodes: Sequence[str], max_parallelism: int) -> None:
        """Remove what commits brought that never came to their end."""
        for node in nodes:
            prefixes = [
                key_group_prefix(self._pipeline, node, number) for number in range(max_parallelism)
            ]
            # Where there is anything, there is the list, or a first part if a commit took the list.
            asked: list[Command] = [
                ("EXISTS", each + OFFERED, part_name(each + OFFERED, 1)) for each in prefixes
            ]
            found = checked(self._transport.exchange(asked, is_repeatable=True))
            gone: list[Command] = [
                ("UNLINK", *offered_names(prefix))
                for prefix, is_there in zip(prefixes, found, strict=True)
                if is_there
            ]
            checked(self._transport.exchange(gone, is_repeatable=True))

    def _calls(
        self, name: str, nodes: Sequence[str], max_parallelism: int, *arguments: int
    ) -> Iterator[tuple[list[str], list[Command]]]:
        """A function call for each key group, in batches, with the words for where it goes."""
        places: list[str] = []
        commands: list[Command] = []
        for node in nodes:
            for number in range(max_parallelism):
                prefix = key_group_prefix(self._pipeline, node, number)
                keys = (prefix + b"meta", prefix + b"pending")
                commands.append(("FCALL", function(name), len(keys), *keys, *arguments))
                places.append(f"key group {number} of {node}")
                if len(commands) == _CALLS_PER_TRIP:
                    yield places, commands
                    places, commands = [], []
        if commands:
            yield places, commands

    def _ask(self, command: Command) -> Any:
        """One command that may be repeated; its reply."""
        return checked(self._transport.exchange([command], is_repeatable=True))[0]

    def _key(self, name: bytes) -> bytes:
        return self._prefix + name


def _require_own(reply: int) -> None:
    if not reply:
        raise Fenced("another run was opened while the pipeline was dropped")


def _owning_error(reply: ResponseError, place: str, run: int, marker: int) -> StateError:
    """Why a key group was not given to a new run."""
    code, _, detail = str(reply).partition(" ")
    if code == "FENCED":
        return Fenced(f"run {detail} owns {place}, this is run {run}")
    if code == "PASSED":
        return ahead_of_marker(place, int(detail), marker)
    return translate(reply)


def _closing_error(reply: ResponseError, stamp: EpochStamp) -> StateError:
    """Why an epoch was not closed."""
    code, _, detail = str(reply).partition(" ")
    match code:
        case "RUN":
            return stale_or_lost("", stamp, at=-1, newest_run=int(detail), marker=0)
        case "CLOSED":
            return marker_lost(int(detail), stamp.epoch)
        case "OFFSETS":
            return StateLost(f"epoch {stamp.epoch} was closed with other offsets")
        case "STAGED":
            return StagedWritesGone(f"a staged list has {detail} chunks, its task left others")
        case _:
            return translate(reply)
