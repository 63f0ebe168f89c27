"""From the files of a savepoint into a pipeline that has nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from state.backends.names import (
    REGISTRY,
    RESTORING,
    STATE_FORMAT,
    every_key_pattern,
    key_group_prefix,
    slot_prefix,
    waiting_names,
)
from state.backends.transport import Command, checked
from state.errors import (
    SavepointCorrupt,
    SavepointMismatch,
    SavepointTargetInUse,
)
from state.registry import EXTENSION
from state.savepoint.files import SWEPT, Record, bytes_of, check_files, read_records
from state.savepoint.fitting import Moves, restored_states
from state.savepoint.restore_fence import RestoreFence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from state.backends.transport import Transport
    from state.descriptors import StateDescriptor
    from state.savepoint.files import Manifest, SavedState

    Place = Callable[[str, bytes], int]
    """The key group of a node's key."""

_FIELDS_PER_TRIP: Final = 4_000
_BYTES_PER_TRIP: Final = 1024 * 1024
_GROUPS_PER_TRIP: Final = 500
_NONE: Final = "0-0"


def restore_state(
    transport: Transport,
    pipeline: str,
    folder: Path,
    manifest: Manifest,
    *,
    wanted: Mapping[str, Sequence[StateDescriptor]],
    max_parallelism: int,
    place: Place | None = None,
    allow_non_restored_state: bool = False,
    moves: Moves | None = None,
    before_end: Callable[[RestoreFence], None] = lambda _: None,
) -> None:
    """Let a pipeline without state have that of a savepoint.

    Until it is through no run of the pipeline can begin; a restore that died is made again from its
    beginning. One that was through is left as it is.

    Args:
        transport: All goes through it; it must know the incarnation of Redis.
        pipeline: What to restore into; it need not have the name that it had.
        folder: The savepoint's.
        manifest: Of the same folder.
        wanted: What the pipeline's operators will keep.
        max_parallelism: Its key groups.
        place: Tells the key group of a key; needed where the savepoint has another number of them.
        allow_non_restored_state: Whether state of no operator is dropped.
        moves: Where what it holds goes; None: all stays where it was.
        before_end: Called when everything is there but the marker, with what tells whether the
            restore is still ours.

    Raises:
        SavepointMismatch, CodecMismatch, SavepointTargetInUse: It does not fit; nothing was
            written.
        SavepointCorrupt, FormatVersionMismatch: A file cannot be used; nothing was written.
        Fenced: Another restore, a run or a drop has begun; it has changed nothing since.
        StateUnavailable, StateAccessDenied, IncarnationChanged: It stopped half-way: restore again.
    """
    taken = restored_states(
        manifest,
        wanted,
        allow_non_restored_state=allow_non_restored_state,
        moves=moves,
    )
    moves = moves or Moves.none(manifest, wanted)
    if manifest.max_parallelism != max_parallelism and place is None:
        raise SavepointMismatch(
            f"the savepoint has {manifest.max_parallelism} key groups, the pipeline "
            f"{max_parallelism}, and where keys belong is not known",
            hint=f"restore with max_parallelism {manifest.max_parallelism}",
        )
    check_files(folder, manifest)
    target = _Target(transport, pipeline, manifest, moves, max_parallelism)
    if target.is_restored():
        return
    nodes = sorted({*(each.node for each in taken), *wanted})
    fence = target.begin(nodes)
    loader = _Loader(fence, pipeline, None if place is None else _Placing(place))
    if manifest.max_parallelism == max_parallelism:
        loader.placing = None
    fields = {each.field for each in taken}
    for record in read_records(folder, manifest.parts):
        moved = _moved(record, moves)
        if moved is not None and _is_taken(moved, fields, nodes):
            loader.load(moved)
    loader.finish()
    target.check(taken)
    fence.write()
    before_end(fence)
    target.end(fence, taken)


def _moved(record: Record, moves: Moves) -> Record | None:
    """A record with the place that it goes to; None: it is left behind."""
    of, names = ("slot", moves.slot) if "slot" in record else ("node", moves.nodes)
    name = names.get(record.get(of, ""))
    return None if name is None else {**record, of: name}


def _is_taken(record: Record, fields: set[str], nodes: Sequence[str]) -> bool:
    """Whether a record is of the slot, of a state that is taken, or beside one."""
    if "slot" in record:
        return True
    if "state" in record:
        return f"{record.get('node')}/{record['state']}" in fields
    return record.get("node") in nodes


class _Target:
    """The pipeline that is restored into: begun, checked and ended."""

    def __init__(
        self,
        transport: Transport,
        pipeline: str,
        manifest: Manifest,
        moves: Moves,
        max_parallelism: int,
    ) -> None:
        self._transport = transport
        self._pipeline = pipeline
        self._prefix = slot_prefix(pipeline)
        self._manifest = manifest
        self._moves = moves
        self._max_parallelism = max_parallelism

    def is_restored(self) -> bool:
        """Whether a restore of this savepoint went through before.

        Raises:
            SavepointTargetInUse: There is state of another origin.
        """
        epoch, origin = self._ask(("HMGET", self._prefix + b"marker", "epoch", "restored"))[0]
        if epoch is None:
            return False
        if origin != self._manifest.id.encode():
            raise SavepointTargetInUse(
                f"{self._pipeline} has state already, of epoch {int(epoch)}",
                hint="restore into a new pipeline, or delete this one first",
            )
        return True

    def begin(self, nodes: Sequence[str]) -> RestoreFence:
        """Make the pipeline unusable until `end`, and remove what an unfinished restore left.

        Raises:
            SavepointTargetInUse: The pipeline was started already.
        """
        manifest = self._manifest
        told = orjson.dumps({"savepoint": manifest.id, "slot": [*self._moves.slot.values()]})
        fence = RestoreFence(self._transport, self._pipeline, told)
        if fence.unfinished:
            self._clear(fence, orjson.loads(fence.unfinished)["slot"])
        # From here on no run can begin: key groups are ahead of the marker, which is not there. Nor
        # can what lives on of a pipeline that had this name, or what it left here be promoted.
        meta = ("format", STATE_FORMAT, "epoch", manifest.epoch, "run", fence.run)
        for prefixes in self._prefixes(nodes):
            commands = list[Command]()
            for each in prefixes:
                commands += (
                    ("UNLINK", *waiting_names(each)),
                    ("HSET", each + b"meta", *meta),
                )
            fence.write(commands)
        return fence

    def check(self, taken: Sequence[SavedState]) -> None:
        """See that there are as many keys as were saved.

        Raises:
            SavepointCorrupt: There are not.
        """
        for state in taken:
            size = "ZCARD" if state.kind == "timers" else "HLEN"
            name = state.name.encode()
            found = sum(
                int(each)
                for prefixes in self._prefixes([state.node])
                for each in self._ask(*((size, prefix + name) for prefix in prefixes))
            )
            if found != state.keys:
                raise SavepointCorrupt(
                    f"{state.field} has {found} keys after the restore, {state.keys} were saved"
                )

    def end(self, fence: RestoreFence, taken: Sequence[SavedState]) -> None:
        """Register the states and set the marker, in one transaction: the restore is through."""
        manifest = self._manifest
        registry: list[Any] = [EXTENSION, manifest.extension_ms]
        for state in taken:
            registry += (state.field, state.registered)
        marker = {
            "epoch": manifest.epoch,
            "run": manifest.run,
            "closed_ms": manifest.closed_ms,
            "offsets": self._moves.offsets,
            "restored": manifest.id,
        }
        flat = [each for pair in marker.items() for each in pair]
        fence.write(
            [
                ("HSET", self._prefix + REGISTRY, *registry),
                ("HSET", self._prefix + b"marker", *flat),
                ("DEL", self._prefix + RESTORING),
            ]
        )

    def _clear(self, fence: RestoreFence, slot: Sequence[str]) -> None:
        """Remove all key groups, and what an unfinished restore may have put into the slot."""
        groups = self._prefix.removesuffix(b"}:") + b":"
        pattern = every_key_pattern(self._pipeline)
        cursor = 0
        while True:
            ((cursor, keys),) = self._ask(("SCAN", cursor, "MATCH", pattern, "COUNT", 1_000))
            fence.write([("UNLINK", each) for each in keys if each.startswith(groups)])
            if int(cursor) == 0:
                break
        fence.write([("UNLINK", self._prefix + each.encode()) for each in slot])

    def _prefixes(self, nodes: Sequence[str]) -> Iterator[list[bytes]]:
        """Prefixes of all key groups, as many at a time as go into one round trip."""
        for node in nodes:
            for start in range(0, self._max_parallelism, _GROUPS_PER_TRIP):
                end = min(start + _GROUPS_PER_TRIP, self._max_parallelism)
                yield [key_group_prefix(self._pipeline, node, each) for each in range(start, end)]

    def _ask(self, *commands: Command) -> list[Any]:
        # Reads alone.
        return checked(self._transport.exchange(commands, is_repeatable=True))


class _Placing:
    """Where records go when the number of key groups is another one."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._listed: dict[tuple[str, str], list[tuple[tuple[int, int], int, Any]]] = {}

    def group_of(self, node: str, stored_key: bytes) -> int:
        """The key group of a stored key, with its namespace or without."""
        return self._place(node, stored_key.partition(b"\t")[0])

    def keep(self, record: Record) -> None:
        """Remember a stream's entries: those of several key groups become one stream."""
        node, name = record["node"], record["piece"]
        listed = self._listed.setdefault((node, name), [])
        for identity, flat in record["stream"]:
            fields = dict(zip(flat[0::2], flat[1::2], strict=True))
            first, second = identity.split("-")
            group = self.group_of(node, bytes_of(fields["key"]))
            listed.append(((int(first), int(second)), group, flat))

    def records(self) -> Iterator[Record]:
        """Streams by their new key groups, ids of equal epochs counted anew."""
        for (node, name), listed in self._listed.items():
            last: dict[int, tuple[int, int]] = {}
            for (epoch, _), group, flat in sorted(listed, key=lambda each: each[:2]):
                before = last.get(group, (-1, 0))
                last[group] = (epoch, before[1] + 1 if before[0] == epoch else 0)
                identity = "{}-{}".format(*last[group])
                yield {"node": node, "group": group, "piece": name, "stream": [[identity, flat]]}


class _Loader:
    """Records as commands, some thousand fields a round trip."""

    def __init__(self, fence: RestoreFence, pipeline: str, placing: _Placing | None) -> None:
        self.placing = placing
        """None: key groups stay as they were."""
        self._fence = fence
        self._pipeline = pipeline
        self._slot = slot_prefix(pipeline)
        self._merged: dict[tuple[str, bytes], list[Any]] = {}
        """HSET and ZADD, by command and key: they may be sent twice."""
        self._others: list[Command] = []
        """They may not."""
        self._size = self._bytes = 0

    def load(self, record: Record) -> None:
        """Take a record.

        Raises:
            SavepointCorrupt: It is none of ours.
        """
        try:
            if "slot" in record:
                self._load_structure(self._slot + record["slot"].encode(), record)
            else:
                self._load_of_group(record)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SavepointCorrupt("a record of the savepoint is not as we write it") from error
        if self._size >= _FIELDS_PER_TRIP or self._bytes >= _BYTES_PER_TRIP:
            self._flush()

    def finish(self) -> None:
        """Send what is left."""
        for record in () if self.placing is None else self.placing.records():
            prefix = key_group_prefix(self._pipeline, record["node"], record["group"])
            self._load_structure(prefix + record["piece"].encode(), record)
        self._flush()

    def _load_of_group(self, record: Record) -> None:
        node, group = record["node"], record["group"]
        key = None if "key" not in record else bytes_of(record["key"])
        placing = self.placing
        if placing is not None:
            if record.get("piece") == SWEPT:
                # It is of a key group that is none any more: the walk is made again.
                return
            if "stream" in record:
                placing.keep(record)
                return
            if key is not None:
                group = placing.group_of(node, key)
            elif "sorted" in record:
                self._load_timers(record, placing)
                return
            else:
                self._add_counters(node, record)
                return
        prefix = key_group_prefix(self._pipeline, node, group)
        if "value" not in record:
            parts = [record.get("state"), key, record.get("piece")]
            named = [each.encode() if isinstance(each, str) else each for each in parts if each]
            self._load_structure(prefix + b":".join(named), record)
            return
        state = prefix + record["state"].encode()
        assert key is not None
        self._merge("HSET", state, (key, bytes_of(record["value"])))
        if "oldest" in record:
            self._merge("ZADD", state + b":expiry", (record["oldest"], key))

    def _load_timers(self, record: Record, placing: _Placing) -> None:
        flat = record["sorted"]
        for member, score in zip(flat[0::2], flat[1::2], strict=True):
            timer = bytes_of(member)
            group = placing.group_of(record["node"], timer)
            prefix = key_group_prefix(self._pipeline, record["node"], group)
            self._merge("ZADD", prefix + record["state"].encode(), (score, timer))

    def _add_counters(self, node: str, record: Record) -> None:
        """Counters are sums over key groups: any one may have them."""
        name = key_group_prefix(self._pipeline, node, 0) + record["piece"].encode()
        flat = record["hash"]
        for field, count in zip(flat[0::2], flat[1::2], strict=True):
            self._others.append(("HINCRBY", name, bytes_of(field), int(count)))
            self._size += 1

    def _load_structure(self, key: bytes, record: Record) -> None:
        if "hash" in record:
            self._merge("HSET", key, [bytes_of(each) for each in record["hash"]])
        elif "sorted" in record:
            flat = record["sorted"]
            for member, score in zip(flat[0::2], flat[1::2], strict=True):
                self._merge("ZADD", key, (score, bytes_of(member)))
        elif "list" in record:
            self._other(("RPUSH", key, *(bytes_of(each) for each in record["list"])))
        elif "string" in record:
            self._other(("SET", key, bytes_of(record["string"])))
        elif "stream" in record:
            for identity, flat in record["stream"]:
                self._other(("XADD", key, identity, *(bytes_of(each) for each in flat)))
        elif record["last"] != _NONE:
            # An id that was given out must not be given again, though its entry is gone.
            last = record["last"]
            self._other(("XADD", key, _after(last), "x", ""))
            self._other(("XDEL", key, _after(last)))

    def _merge(self, command: str, key: bytes, arguments: Sequence[Any]) -> None:
        self._merged.setdefault((command, key), []).extend(arguments)
        self._count(arguments)

    def _other(self, command: Command) -> None:
        self._others.append(command)
        self._count(command)

    def _count(self, arguments: Iterable[Any]) -> None:
        for each in arguments:
            self._size += 1
            self._bytes += len(each) if isinstance(each, bytes) else 8

    def _flush(self) -> None:
        merged = [(command, key, *flat) for (command, key), flat in self._merged.items()]
        for commands, is_repeatable in ((merged, True), (self._others, False)):
            if commands:
                self._fence.write(commands, is_repeatable=is_repeatable)
        self._merged, self._others = {}, []
        self._size = self._bytes = 0


def _after(identity: str) -> str:
    """The id behind one.

    >>> _after("16-3")
    '16-4'
    """
    first, _, second = identity.partition("-")
    return f"{first}-{int(second) + 1}"
