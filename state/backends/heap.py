"""State in dictionaries of this process: for tests, what-if, replay and benchmarks.

It keeps the same protocol as Redis (`state/backends/tailrace.lua` tells its rules), pending writes
and fencing included, so that what is tested on it holds there. Writes are kept as they are given,
without a copy: whoever commits them does not alter them afterwards.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from zlib import crc32

from state.backends.chunks import check_write
from state.backends.heap_structures import Space, glob
from state.backends.interface import (
    ApplyStaged,
    EpochCheck,
    EpochTransaction,
    HashAdd,
    HashPut,
    HashScan,
    Ledger,
    Marker,
    StateBackend,
    StateVersion,
    StateView,
    TransactionStatistics,
)
from state.backends.names import REGISTRY, key_group_prefix, slot_prefix
from state.backends.rules import (
    ahead_of_marker,
    as_name,
    check_epoch,
    named_in_slot,
    offsets_json,
    size_of,
    slot_name,
    staged_gone,
    stale_or_lost,
)
from state.errors import Fenced, InvariantViolation, StateLost, ViewMoved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.backends.interface import Effect, EpochStamp, Read, Write


class HeapStore:
    """What survives an attempt, a worker or a run: the counterpart of a Redis server."""

    def __init__(self) -> None:
        self.key_groups: dict[tuple[str, int], _KeyGroup] = {}
        """By node and number."""
        self.slot = Space()
        self.staged: dict[bytes, list[Write]] = {}
        self.run = 0
        self.marker = Marker()
        self.identity = object()
        """What no other store has."""

    def key_group(self, node: str, number: int) -> _KeyGroup:
        """A key group, made at its first touch."""
        return self.key_groups.setdefault((node, number), _KeyGroup())


class HeapBackend(StateBackend):
    """Keyed state in a `HeapStore`.

    Characteristics:
        round trips   none, but counted as Redis would need them
        durability    none; the store lives as long as something refers to it
        thread-safe   no
    """

    def __init__(self, store: HeapStore | None = None, *, pipeline: str = "heap") -> None:
        slot_prefix(pipeline)
        self.store = store or HeapStore()

    def begin(self, node: str, stamp: EpochStamp, key_groups: Sequence[int]) -> EpochTransaction:
        """Begin an attempt of an epoch; nothing is looked at before the first call."""
        key_group_prefix("heap", node, 0)
        return _HeapTransaction(self.store, node, stamp, key_groups)

    def ledger(self) -> HeapLedger:
        """The ledger of the pipeline in this store."""
        return HeapLedger(self.store)

    def view(self, node: str) -> HeapView:
        """Committed state of a node."""
        return HeapView(self.store, node)

    def close(self) -> None:
        """Nothing to let go of."""


class _KeyGroup:
    """State, and what waits beside it."""

    __slots__ = ("chunks", "epoch", "pending", "run", "space")

    def __init__(self) -> None:
        self.space = Space()
        self.epoch = 0
        """Last applied one."""
        self.run = -1
        """The newest run that was here; -1: none."""
        self.pending: int | None = None
        """Epoch of the pending writes."""
        self.chunks: list[Write] = []

    def begin(self, epoch: int, run: int) -> None:
        self.fence(epoch, run)
        if run > self.run:
            if self.pending == epoch:
                self.discard()
            self.run = run
        self.promote(epoch - 1)

    def fence(self, epoch: int, run: int) -> None:
        if self.run > run:
            raise Fenced(f"run {self.run} owns the key group, this is run {run}")
        if self.epoch >= epoch or (self.pending or 0) > epoch:
            raise _Passed(max(self.epoch, self.pending or 0))

    def commit(self, epoch: int, run: int, writes: list[Write]) -> None:
        self.fence(epoch, run)
        if self.run != run:
            raise _Passed(self.epoch)
        if self.pending is None:
            self.pending, self.chunks = epoch, writes
        elif self.pending != epoch:
            raise InvariantViolation("a commit without a begin")
        elif not _same(self.chunks, writes):
            raise InvariantViolation("two attempts of one epoch wrote different state")

    def promote(self, marker: int) -> None:
        if self.pending is None or self.pending > marker:
            return
        self.space.verify(self.chunks, self.pending)
        self.space.carry_out(self.chunks, self.pending)
        self.epoch = self.pending
        self.discard()

    def discard(self) -> None:
        self.pending, self.chunks = None, []

    def own(self, run: int, marker: int) -> None:
        """Give the key group to a new run."""
        if self.run > run:
            raise Fenced(f"run {self.run} owns the key group, this is run {run}")
        if self.epoch > marker:
            raise _Passed(self.epoch)
        self.promote(marker)
        self.discard()
        self.run = run


class _Passed(Exception):
    """A key group is at an epoch where the caller does not expect it."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.epoch = epoch


class _HeapTransaction(EpochTransaction):
    def __init__(
        self, store: HeapStore, node: str, stamp: EpochStamp, key_groups: Sequence[int]
    ) -> None:
        self._store = store
        self._node = node
        self._stamp = stamp
        self._key_groups = frozenset(key_groups)
        self._has_begun = False
        self._is_done = False
        self._reads = self._writes = self._commands = self._round_trips = self._commit_ns = 0

    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        self._require_open()
        self._require_own({each.key_group for each in reads})
        begins = self._begin()
        replies = [self._group(each.key_group).space.read(each) for each in reads]
        self._commands += begins + len(reads)
        self._reads += sum(map(size_of, replies))
        self._round_trips += 1
        return replies

    def commit(self, writes: Mapping[int, Sequence[Write]]) -> None:
        self._require_open()
        self._require_own(writes)
        fields = 0
        effective: dict[int, list[Write]] = {}
        for number, group in writes.items():
            counts = [check_write(each) for each in group]
            fields += sum(counts)
            effective[number] = [e for e, count in zip(group, counts, strict=True) if count]
        self._is_done = True
        started = time.perf_counter_ns()
        begins = self._begin()
        commands = begins
        for number, group in effective.items():
            if group:
                commands += 1
                self._guarded(number, group)
        self._commit_ns += time.perf_counter_ns() - started
        self._commands += commands
        self._writes += fields
        self._round_trips += 1 if commands else 0

    def version_read(self, key_group: int) -> StateVersion | None:
        self._require_own([key_group])
        self._commands += self._begin()
        return self._version(key_group, self._group(key_group).epoch)

    def version_written(self, key_group: int) -> StateVersion | None:
        return self._version(key_group, self._stamp.epoch)

    def _version(self, key_group: int, epoch: int) -> StateVersion:
        return StateVersion((self._store.identity, self._node, key_group), self._stamp.run, epoch)

    def statistics(self) -> TransactionStatistics:
        return TransactionStatistics(
            reads=self._reads,
            writes=self._writes,
            commands=self._commands,
            round_trips=self._round_trips,
            commit_ns=self._commit_ns,
        )

    def _begin(self) -> int:
        """Begin in every key group, once; how many commands Redis would need."""
        if self._has_begun:
            return 0
        self._has_begun = True
        for number in self._key_groups:
            self._guarded(number, None)
        return len(self._key_groups)

    def _guarded(self, number: int, writes: list[Write] | None) -> None:
        """Begin or commit in one key group."""
        epoch, run = self._stamp.epoch, self._stamp.run
        try:
            if writes is None:
                self._group(number).begin(epoch, run)
            else:
                self._group(number).commit(epoch, run, writes)
        except _Passed as passed:
            where = f"key group {number} of {self._node}"
            newest, marker = self._store.run, self._store.marker.epoch
            raise stale_or_lost(
                where, self._stamp, at=passed.epoch, newest_run=newest, marker=marker
            ) from None

    def _group(self, number: int) -> _KeyGroup:
        return self._store.key_group(self._node, number)

    def _require_open(self) -> None:
        if self._is_done:
            raise InvariantViolation("a transaction is used after its commit")

    def _require_own(self, key_groups: Iterable[int]) -> None:
        if foreign := set(key_groups) - self._key_groups:
            raise InvariantViolation(f"key groups {sorted(foreign)} are not of this transaction")


class HeapLedger(Ledger):
    """The ledger of a pipeline in a `HeapStore`."""

    def __init__(self, store: HeapStore, *, pipeline: str = "heap") -> None:
        self._store = store
        self._prefix = slot_prefix(pipeline)

    def open_run(self, nodes: Sequence[str], max_parallelism: int) -> int:
        """Begin a new run; see `Ledger.open_run`."""
        self._store.run += 1
        self._store.staged.clear()
        marker = self._store.marker.epoch
        for node in nodes:
            for number in range(max_parallelism):
                try:
                    self._store.key_group(node, number).own(self._store.run, marker)
                except _Passed as passed:
                    where = f"key group {number} of {node}"
                    raise ahead_of_marker(where, passed.epoch, marker) from None
        return self._store.run

    def marker(self) -> Marker:
        """The last closed epoch."""
        return self._store.marker

    def check(self, epoch: int) -> EpochCheck:
        """Whether a task may run this epoch; see `Ledger.check`."""
        return check_epoch(self._store.marker, epoch)

    def require_run(self, stamp: EpochStamp) -> None:
        """See that a run owns the pipeline; see `Ledger.require_run`."""
        newest = self._store.run
        if newest != stamp.run:
            raise stale_or_lost("", stamp, at=-1, newest_run=newest, marker=0)

    def stage(self, name: bytes | str, writes: Sequence[Write]) -> int:
        """Keep a sink's writes until the close; see `Ledger.stage`."""
        kept = [self._effect(each) for each in writes]
        effective = [each for each in kept if not isinstance(each, ApplyStaged)]
        self._store.staged[slot_name(as_name(name), self._prefix)] = effective
        return len(effective)

    def close_epoch(
        self, stamp: EpochStamp, offsets: Mapping[str, Any], effects: Sequence[Effect]
    ) -> bool:
        """Apply effects and set the marker; see `Ledger.close_epoch`."""
        store, text = self._store, offsets_json(offsets).decode()
        named = [self._effect(each) for each in effects]
        self.require_run(stamp)
        if check_epoch(store.marker, stamp.epoch) is EpochCheck.CLOSED:
            if store.marker.offsets != text:
                raise StateLost(f"epoch {stamp.epoch} was closed with other offsets")
            store.staged.clear()
            return False
        writes = self._staged_in(named)
        store.slot.verify(writes, stamp.epoch)
        store.slot.carry_out(writes, stamp.epoch)
        store.staged.clear()
        now_ms = time.time_ns() // 1_000_000
        store.marker = Marker(stamp.epoch, stamp.run, now_ms, text)
        return True

    def promote_all(self, nodes: Sequence[str], max_parallelism: int) -> None:
        """Apply pending writes of closed epochs; see `Ledger.promote_all`."""
        for (node, number), key_group in self._store.key_groups.items():
            if node in nodes and number < max_parallelism:
                key_group.promote(self._store.marker.epoch)

    def registered(self) -> dict[bytes, bytes]:
        """What is registered; see `Ledger.registered`."""
        held: dict[bytes, bytes] = self._store.slot.read(HashScan(0, REGISTRY))
        return held

    def register(self, entries: Mapping[bytes, bytes]) -> None:
        """Set entries; see `Ledger.register`."""
        pairs = [each for pair in entries.items() for each in pair]
        self._store.slot.carry_out([HashPut(REGISTRY, pairs)], 0)

    def add_registered(self, field: bytes, by: int) -> int:
        """Add to an entry; see `Ledger.add_registered`."""
        self._store.slot.carry_out([HashAdd(REGISTRY, field, by)], 0)
        return int(self.registered()[field])

    def drop(self) -> None:
        """Remove all but the run counter; see `Ledger.drop`."""
        self._store.run += 1
        self._store.marker = Marker()
        self._store.slot.structures.clear()
        self._store.staged.clear()
        self._store.key_groups.clear()

    def _effect(self, effect: Effect) -> Effect:
        named = named_in_slot(effect, self._prefix)
        if not isinstance(named, ApplyStaged):
            check_write(named)
        return named

    def _staged_in(self, effects: Sequence[Effect]) -> list[Write]:
        """All writes, staged ones in their place."""
        writes: list[Write] = []
        for effect in effects:
            if not isinstance(effect, ApplyStaged):
                writes.append(effect)
            elif len(staged := self._store.staged.get(as_name(effect.name), [])) == effect.chunks:
                writes += staged
            else:
                raise staged_gone(effect, len(staged))
        return writes


class HeapView(StateView):
    """Committed state of one node in a `HeapStore`."""

    def __init__(self, store: HeapStore, node: str) -> None:
        self._store = store
        self._node = node
        self._epoch: int | None = None

    @property
    def epoch(self) -> int:
        """The closed epoch that this view shows."""
        if self._epoch is None:
            self._epoch = self._store.marker.epoch
        return self._epoch

    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        """Read committed state; see `StateView.fetch`."""
        self._settle()
        return [self._space(each.key_group).read(each) for each in reads]

    def scan_hash(
        self,
        key_group: int,
        name: bytes,
        cursor: int = 0,
        match: bytes | None = None,
        count: int = 100,
    ) -> tuple[int, list[tuple[bytes, bytes]]]:
        """A page of a hash; see `StateView.scan_hash`. The cursor is a hash of a field."""
        self._settle()
        held = self._space(key_group).read(HashScan(key_group, name))
        # In an order of their own, fields that come and go between pages shift no others.
        rest = sorted((crc32(field), field) for field in held if crc32(field) >= cursor)
        end = min(count, len(rest))
        while 0 < end < len(rest) and rest[end][0] == rest[end - 1][0]:
            end += 1
        following = rest[end][0] if end < len(rest) else 0
        page = [(field, held[field]) for _, field in rest[:end]]
        if match is not None:
            wanted = glob(match)
            page = [each for each in page if wanted.fullmatch(each[0])]
        return following, page

    def _settle(self) -> None:
        marker = self._store.marker.epoch
        if self.epoch != marker:
            raise ViewMoved(f"the view is of epoch {self.epoch}, the pipeline is at {marker}")

    def _space(self, number: int) -> Space:
        key_group = self._store.key_groups.get((self._node, number))
        if key_group is None:
            return Space()
        key_group.promote(self.epoch)
        return key_group.space


def _same(one: Sequence[Write], other: Sequence[Write]) -> bool:
    """Equal writes; as plain tuples, writes of different kinds could be equal."""
    return [*map(type, one)] == [*map(type, other)] and list(one) == list(other)
