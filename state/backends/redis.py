"""State in Redis: pending writes beside the state, promoted once their epoch is closed.

What `redis-cli` shows, for a pipeline `orders` with a node `3_sink-materializer`:

    > HGETALL tailrace:{orders:3_sink-materializer:17}:meta
    format 4  epoch 41  pending 42  chunks 1  run 3
        format    of what is stored here; 5 while parts wait
        epoch     the last one that is part of the state
        pending   the one whose writes wait, absent if none does; with chunks, the list's length
        run       the newest run of the pipeline that was here; older ones are fenced off
    > LRANGE tailrace:{orders:3_sink-materializer:17}:pending 0 -1
        the writes that wait: commands as msgpack, long values as they are
        (`state/backends/chunks.py`); beside it, `pending#1` and so on, hashes that wait to replace
        others
    > HGET tailrace:{orders:3_sink-materializer:17}:history '["N14228"]'
        state: names and forms are the operator's; canonical keys and rows, readable as they are
    > GET tailrace:{orders}:run
        how many runs there were; stays when the pipeline is dropped
    > HGETALL tailrace:{orders}:marker
    epoch 41  run 3  closed_ms 1767225600123  offsets {"orders":{...}}
        the last closed epoch: a key group's pending writes are state, for readers, up to here
    > SMEMBERS tailrace:{orders}:stages
        names of lists that sinks staged for the epoch under way

All keys of a key group have one hash tag, so each function call stays in one slot of a cluster.
This client talks to one Redis, though: a cluster's nodes would need a pool and a run id each, and
commits of several key groups, which share a transaction, one for each slot.

Cost of an epoch over any number of key groups: one round trip for begin and the first reads, one
for each further `fetch`, one for the commit; one function call for each key group in the first and
the last, which is a transaction where much is written; about a microsecond for a field, and two
nanoseconds for a byte.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from state.backends.chunks import encode_commit
from state.backends.interface import (
    EpochTransaction,
    StateBackend,
    StateVersion,
    TransactionStatistics,
)
from state.backends.names import (
    OFFERED,
    key_group_prefix,
    offered_names,
    part_name,
    slot_prefix,
)
from state.backends.reads import command_of, value_of
from state.backends.rules import size_of, stale_or_lost
from state.backends.transport import as_one, checked, function, translate, transport_of
from state.backends.wire import is_together
from state.errors import Fenced, InvariantViolation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import redis

    from state.backends.chunks import PackedWrites
    from state.backends.interface import EpochStamp, Read, Write
    from state.backends.transport import Ahead, ClientSettings, Command, Transport
    from state.errors import StateError


_GIVEN_BYTES_MAX = 4_096
"""Up to here a commit is one function call, beyond it a transaction."""
_ITEMS_PER_PUSH = 100_000


class RedisBackend(StateBackend):
    """Keyed state of one pipeline in Redis.

    Characteristics:
        durability    Redis's: run it append-only; a restart within an epoch fails the run
        thread-safe   yes; a transaction belongs to one thread
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
            pipeline: Whose state.
            incarnation: Redis's run id when the run began; None takes that of the first connection.
        """
        self._transport = transport_of(source, incarnation)
        self._pipeline = pipeline
        slot_prefix(pipeline)

    def begin(self, node: str, stamp: EpochStamp, key_groups: Sequence[int]) -> EpochTransaction:
        """Begin an attempt of an epoch; no round trip, the first `fetch` carries it."""
        return _RedisTransaction(self._transport, self._pipeline, node, stamp, key_groups)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


def _in_pieces(name: str, key: bytes, arguments: Sequence[bytes]) -> Iterator[Command]:
    for at in range(0, len(arguments), _ITEMS_PER_PUSH):
        yield (name, key, *arguments[at : at + _ITEMS_PER_PUSH])


@dataclass(eq=False, slots=True)
class _Request:
    """Reads on their way."""

    reads: Sequence[Read]
    are_sent: list[bool]
    """Whether there is a command for each; one that asks for nothing has none."""
    begins: int
    """How many of the commands, the first ones, begin."""
    commands: list[Command]
    values: list[Any] = field(default_factory=list)


class _RedisTransaction(EpochTransaction):
    def __init__(
        self,
        transport: Transport,
        pipeline: str,
        node: str,
        stamp: EpochStamp,
        key_groups: Sequence[int],
    ) -> None:
        self._transport = transport
        self._slot = slot_prefix(pipeline)
        self._node = node
        self._stamp = stamp
        self._prefixes = {
            each: key_group_prefix(pipeline, node, each) for each in dict.fromkeys(key_groups)
        }
        self._has_begun = False
        self._is_done = False
        self._ahead: Ahead | None = None
        self._asked: list[_Request] = []
        """What was asked for and not waited for, in the order in which it was sent."""
        self._applied: dict[int, int] = {}
        """By key group: the epoch that its state is of, once it was begun."""
        self._reads = self._writes = self._commands = self._round_trips = self._commit_ns = 0

    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        request = self._request(reads)
        if self._asked:
            self._ask(request)
            return self._values(request)
        # Beginning twice is beginning once, and reads have no effect.
        self._take([request], self._exchange(request.commands, is_repeatable=True))
        return request.values

    def expect(self, reads: Sequence[Read]) -> Callable[[], list[Any]]:
        request = self._request(reads)
        self._ask(request)
        return partial(self._values, request)

    def _request(self, reads: Sequence[Read]) -> _Request:
        self._require_open()
        self._require_own(each.key_group for each in reads)
        begins = self._begins()
        commands = [command_of(each, self._prefixes[each.key_group]) for each in reads]
        sent = [*begins, *(each for each in commands if each is not None)]
        return _Request(reads, [each is not None for each in commands], len(begins), sent)

    def _ask(self, request: _Request) -> None:
        """Send a request behind those that were sent before, whose replies nobody waits for yet."""
        if not self._asked:
            self._ahead = self._transport.ahead()
        if self._ahead is not None:
            self._ahead.send(request.commands)
        self._asked.append(request)

    def _values(self, request: _Request) -> list[Any]:
        if request in self._asked:
            self._settle()
        return request.values

    def _settle(self) -> None:
        """Wait for the replies to all that was asked for."""
        asked, self._asked = self._asked, []
        ahead, self._ahead = self._ahead, None
        commands = [each for request in asked for each in request.commands]
        replies = None if ahead is None or not commands else ahead.replies()
        if replies is None:
            replies = self._exchange(commands, is_repeatable=True)
        else:
            self._count(commands)
        self._take(asked, replies)

    def _take(self, requests: Sequence[_Request], replies: Sequence[Any]) -> None:
        """Give each request its values, or raise the first error among the replies."""
        end = 0
        for each in requests:
            start, end = end, end + len(each.commands)
            begun = start + each.begins
            if each.begins:
                self._take_begun(replies[start:begun])
            given = iter(checked(replies[begun:end]))
            each.values = [
                value_of(read, next(given) if is_sent else None)
                for read, is_sent in zip(each.reads, each.are_sent, strict=True)
            ]
            self._reads += sum(map(size_of, each.values))

    def _take_begun(self, replies: Sequence[Any]) -> None:
        self._check(replies, self._prefixes)
        self._applied = dict(zip(self._prefixes, replies, strict=True))

    def version_read(self, key_group: int) -> StateVersion | None:
        self._require_own([key_group])
        if self._asked:
            self._settle()
        if not self._has_begun:
            self.fetch([])
        return self._version(key_group, self._applied[key_group])

    def version_written(self, key_group: int) -> StateVersion | None:
        return self._version(key_group, self._stamp.epoch)

    def _version(self, key_group: int, epoch: int) -> StateVersion:
        place = (self._transport.place, self._prefixes[key_group])
        return StateVersion(place, self._stamp.run, epoch)

    def commit(self, writes: Mapping[int, Sequence[Write]]) -> None:
        numbers, commands = self._commits(writes)
        started = time.perf_counter_ns()
        self._check(self._exchange(commands, is_repeatable=False), numbers)
        self._commit_ns = time.perf_counter_ns() - started

    def committing(self, writes: Mapping[int, Sequence[Write]]) -> Callable[[], None]:
        numbers, commands = self._commits(writes)
        started = time.perf_counter_ns()
        # What is short is stored before anything else could be done.
        ahead = self._transport.ahead() if any(map(is_together, commands)) else None
        if ahead is not None:
            ahead.send(commands)

        def wait() -> None:
            replies = None if ahead is None else ahead.replies()
            if replies is None:
                # What was stored already is compared with what comes, and found to be the same.
                replies = self._exchange(commands, is_repeatable=False)
            else:
                self._count(commands)
            self._check(replies, numbers)
            self._commit_ns = time.perf_counter_ns() - started

        return wait

    def _commits(self, writes: Mapping[int, Sequence[Write]]) -> tuple[list[int], list[Command]]:
        """The last commands of this transaction, and the key group of each."""
        self._require_open()
        self._require_own(writes)
        numbers, commits = [], []
        for number, group in writes.items():
            packed = encode_commit(group)
            self._writes += packed.fields
            if packed.items:
                numbers.append(number)
                commits.append(self._commit(number, packed))
        self._is_done = True
        if self._asked:
            self._settle()
        begins = self._begins()
        return [*(self._prefixes if begins else ()), *numbers], [*begins, *commits]

    def statistics(self) -> TransactionStatistics:
        return TransactionStatistics(
            reads=self._reads,
            writes=self._writes,
            commands=self._commands,
            round_trips=self._round_trips,
            commit_ns=self._commit_ns,
        )

    def _begins(self) -> list[Command]:
        """The calls that begin in every key group, once."""
        if self._has_begun:
            return []
        self._has_begun = True
        return [self._call("begin", each) for each in self._prefixes]

    def _commit(self, number: int, packed: PackedWrites) -> Command:
        """The commit of a key group; what is long goes around Lua, which is slow to take bytes."""
        items, parts = packed.items, packed.parts
        if not parts and sum(map(len, items)) <= _GIVEN_BYTES_MAX:
            return self._call("commit", number, *items)
        prefix = self._prefixes[number]
        offered = prefix + OFFERED
        return as_one(
            # A transaction whose function was not loaded yet has left what it brought behind.
            ("UNLINK", *(offered_names(prefix) if parts else (offered,))),
            *_in_pieces("RPUSH", offered, items),
            *chain.from_iterable(
                _in_pieces("HSET", part_name(offered, at), pairs)
                for at, pairs in enumerate(parts, start=1)
            ),
            self._call("commit", number, len(items), len(parts), others=(offered,)),
        )

    def _call(
        self, name: str, number: int, *given: bytes | int, others: Sequence[bytes] = ()
    ) -> Command:
        prefix, stamp = self._prefixes[number], self._stamp
        keys = (prefix + b"meta", prefix + b"pending", *others)
        return ("FCALL", function(name), len(keys), *keys, stamp.epoch, stamp.run, *given)

    def _exchange(self, commands: Sequence[Command], *, is_repeatable: bool) -> list[Any]:
        if not commands:
            return []
        self._count(commands)
        return self._transport.exchange(commands, is_repeatable=is_repeatable)

    def _count(self, commands: Sequence[Command]) -> None:
        self._commands += len(commands)
        self._round_trips += 1

    def _check(self, replies: Sequence[Any], numbers: Iterable[int]) -> None:
        for reply, number in zip(replies, numbers, strict=True):
            if isinstance(reply, ResponseError):
                raise self._error(reply, number) from reply

    def _error(self, reply: ResponseError, number: int) -> StateError:
        """What a function's refusal means."""
        code, _, detail = str(reply).partition(" ")
        where = f"key group {number} of {self._node}"
        match code:
            case "FENCED":
                return Fenced(f"run {detail} owns {where}, this is run {self._stamp.run}")
            case "PASSED" | "GONE":
                slot = [("GET", self._slot + b"run"), ("HGET", self._slot + b"marker", "epoch")]
                newest_run, marker = checked(self._transport.exchange(slot, is_repeatable=True))
                return stale_or_lost(
                    where,
                    self._stamp,
                    at=int(detail) if detail else -1,
                    newest_run=int(newest_run or 0),
                    marker=int(marker or 0),
                )
            case "IMPURE":
                return InvariantViolation(f"two attempts of one epoch wrote {where} differently")
            case "UNBEGUN":
                return InvariantViolation(f"a commit without a begin in {where}")
            case _:
                return translate(reply)

    def _require_open(self) -> None:
        if self._is_done:
            raise InvariantViolation("a transaction is used after its commit")

    def _require_own(self, key_groups: Iterable[int]) -> None:
        if foreign := set(key_groups) - self._prefixes.keys():
            raise InvariantViolation(f"key groups {sorted(foreign)} are not of this transaction")
