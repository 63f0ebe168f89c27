"""The state of one epoch: what was read of it, what is to be written, and the handles to it.

A session lives as long as a transaction. Handles read through its cache and write into it; nothing
is stored before the epoch's `writes()` are committed, which hold only what changed. What an epoch
is known to need can be prefetched in one round trip; everything else is asked for by requests,
which whoever drives the operations executes together.

    session = StateSession(transaction, clock=TtlClock(stamp.time_ms))
    counts = session.value(ValueDescriptor(name="counts", codec=JSON))
    session.prefetch([(counts.descriptor, keys)])
    for key, key_group in keys:
        session.set_key(key, key_group)
        run_now(count_one(counts), session)
    session.clean_up(key_groups)
    transaction.commit(session.writes())

Adding a kind of state
----------------------
1. A descriptor in `state.descriptors` with a `kind` of its own and the names of its codecs.
2. A cell, a subclass of `state.primitives.cells.Cell`: `reads` (the reads that it needs for its
   key), `take` (load from the replies; never when `is_loaded`), `write` (give what changed to the
   batch), `oldest_ms` (the oldest stamp: the key's score in the expiry index must not be above it)
   and `clean` (remove what is expired). In `take` it sets `indexed_ms`, which the score that is
   stored is not above: the oldest stamp of what it loaded, or what it read of the index. It is made
   by the handle's `new_cell`. Where a handle has `judged`, by which clean-up settles keys that have
   no cell, the cell has `empty`.
3. A handle, a subclass of `state.primitives.handle.StateHandle`, with `async def` operations:
   `cell = await self.loaded()` gives the current key's cell; what else an operation needs it asks
   for by `await self.answered(request)`, with any object that has `reads` and `take`.
4. A factory here: one line that calls `open`.

The session then does the rest: it merges reads, keeps own writes visible, writes, keeps the expiry
index and cleans up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from state.backends.interface import HashGet, SortedScores
from state.errors import InvalidName
from state.multiset.strategy import Thresholds
from state.primitives.cells import stored_key
from state.primitives.expiry import Look, clean_up, looks_ahead
from state.primitives.handle import StateHandle
from state.primitives.lists import ListHandle
from state.primitives.maps import MapHandle
from state.primitives.merging import AggregatingHandle, ReducingHandle
from state.primitives.multisets import MultisetHandle
from state.primitives.sorted import SortedMapHandle
from state.primitives.timers import TimersHandle
from state.primitives.value import ValueHandle
from state.primitives.write_batch import WriteBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from state.backends.interface import EpochTransaction, Read, TransactionStatistics, Write
    from state.descriptors import (
        AggregatingDescriptor,
        ListDescriptor,
        MapDescriptor,
        MultisetDescriptor,
        ReducingDescriptor,
        SortedMapDescriptor,
        StateDescriptor,
        TimersDescriptor,
        ValueDescriptor,
    )
    from state.execution.requests import Request
    from state.ttl import TtlClock

__all__ = ["KeyContext", "SessionStatistics", "StateSession", "stored_key"]

A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")
H = TypeVar("H", bound=StateHandle[Any])

Writes: TypeAlias = "dict[int, list[Write]]"
"""What an epoch commits, by key group."""

PRIMITIVE_THRESHOLDS: Final = Thresholds(high=64, low=48)
"""When a collection of a primitive is spread, and packed again."""


class KeyContext(NamedTuple):
    """What operations are about: set by whoever drives them, before each resume."""

    stored_key: bytes
    key_group: int
    event_ms: int | None


@dataclass(frozen=True, slots=True)
class SessionStatistics:
    """What a session holds and has cost so far."""

    cells: int
    """Keys in states that the epoch knows of, but those that were loaded many at once."""
    requests: int
    """Requests that were executed; those of a prefetch count, too."""
    cleaned: int
    """Elements that clean-up removed."""
    transaction: TransactionStatistics


class StateSession:
    """Cache and handles of one epoch over some key groups of one node; a `StateExecutor`.

    Characteristics:
        round trips   one an `execute`, however many requests
        memory        what the epoch touched, until the session is dropped
        thread-safe   no
    """

    def __init__(
        self,
        transaction: EpochTransaction,
        *,
        clock: TtlClock,
        thresholds: Thresholds = PRIMITIVE_THRESHOLDS,
        is_local: bool = False,
    ) -> None:
        """Begin; no round trip.

        Args:
            transaction: Reads go through it; whoever made it commits `writes()`.
            clock: The times of the epoch.
            thresholds: Layout of collections whose descriptor names none.
            is_local: Whether reads cost no round trip (heap): then no operation ever suspends.
        """
        self.thresholds = thresholds
        self.is_local = is_local
        self.key = b""
        """The current key, without the namespace."""
        self.stored_key = b""
        self.key_group = -1
        self.event_ms: int | None = None
        self._transaction = transaction
        self._clock = clock
        self._handles: dict[str, StateHandle[Any]] = {}
        self._requests = 0
        self._cleaned = 0
        self._notes: list[tuple[int, Write]] = []
        self._ahead: list[Look] = []
        self._records: Counter[int] | None = None

    @property
    def clock(self) -> TtlClock:
        """The times of the epoch.

        May be set between operations, by tests and replays that give each its own time.
        """
        return self._clock

    @clock.setter
    def clock(self, clock: TtlClock) -> None:
        self._clock = clock
        self._ahead = []
        for handle in self._handles.values():
            handle.set_clock(clock)

    def set_key(self, key: bytes, key_group: int, *, event_ms: int | None = None) -> None:
        """Make this the current key, in the empty namespace.

        Args:
            key: Its canonical text: no tab or newline.
            key_group: Where its state is; one of the transaction's.
            event_ms: Event time of the current record, where it has one.
        """
        self.key = self.stored_key = key
        self.key_group = key_group
        self.event_ms = event_ms
        if self._records is not None:
            self._records[key_group] += 1

    def counted_records(self) -> Counter[int]:
        """How often `set_key` is called from now on, by key group: for clean-up by records."""
        if self._records is None:
            self._records = Counter()
        return self._records

    def set_namespace(self, namespace: bytes) -> None:
        """Let operations be about this namespace of the current key (Flink: windows)."""
        self.stored_key = stored_key(self.key, namespace)

    @property
    def context(self) -> KeyContext:
        """Current key, namespace and event time: to be kept with a suspended operation."""
        return KeyContext(self.stored_key, self.key_group, self.event_ms)

    @context.setter
    def context(self, context: KeyContext) -> None:
        self.stored_key, self.key_group, self.event_ms = context
        self.key = self.stored_key.partition(b"\t")[0]

    def open(
        self,
        handle_type: type[H],
        descriptor: Any,  # of the handle's type, which Python cannot say
    ) -> H:
        """The handle of a state, of this type; the same one for the same descriptor.

        Raises:
            InvalidName: Another state of this name was opened.
        """
        handle = self._handles.get(descriptor.name)
        if handle is None:
            handle = self._handles[descriptor.name] = handle_type(self, descriptor)
        if not isinstance(handle, handle_type) or handle.descriptor != descriptor:
            raise InvalidName(f"two different states are named {descriptor.name!r}")
        return handle

    def value(self, descriptor: ValueDescriptor[T]) -> ValueHandle[T]:
        """The handle of a value state."""
        return self.open(ValueHandle, descriptor)

    def reducing(self, descriptor: ReducingDescriptor[T]) -> ReducingHandle[T]:
        """The handle of a reducing state."""
        return self.open(ReducingHandle, descriptor)

    def aggregating(self, descriptor: AggregatingDescriptor[T, A, R]) -> AggregatingHandle[T, A, R]:
        """The handle of an aggregating state."""
        return self.open(AggregatingHandle, descriptor)

    def list(self, descriptor: ListDescriptor[T]) -> ListHandle[T]:
        """The handle of a list state."""
        return self.open(ListHandle, descriptor)

    def map(self, descriptor: MapDescriptor[K, T]) -> MapHandle[K, T]:
        """The handle of a map state."""
        return self.open(MapHandle, descriptor)

    def sorted_map(self, descriptor: SortedMapDescriptor[K, T]) -> SortedMapHandle[K, T]:
        """The handle of a sorted map state."""
        return self.open(SortedMapHandle, descriptor)

    def multiset(self, descriptor: MultisetDescriptor[T]) -> MultisetHandle[T]:
        """The handle of a sequenced multiset."""
        return self.open(MultisetHandle, descriptor)

    def timers(self, descriptor: TimersDescriptor) -> TimersHandle:
        """The timers of one domain."""
        return self.open(TimersHandle, descriptor)

    def execute(self, requests: Sequence[Request]) -> None:
        """Read for all requests in one round trip; see `StateExecutor`.

        Cost: reads of one hash, or of scores of one sorted set, share a command.
        """
        if not requests:
            return
        merged = _MergedReads()
        for request in requests:
            merged.add(request.reads)
        self._requests += len(requests)
        replies = merged.replies(self._transaction.fetch(merged.reads))
        for request, count in zip(requests, merged.counts, strict=True):
            request.take([next(replies) for _ in range(count)])

    def prefetch(
        self,
        wanted: Iterable[tuple[StateDescriptor, Sequence[tuple[bytes, int]]]],
        *,
        at_once: bool = False,
        key_groups: Sequence[int] = (),
    ) -> None:
        """Load keys before operations ask for them: one round trip for all.

        The first one of an epoch also asks for what `clean_up` will.

        Args:
            wanted: For each descriptor, whose handle was made before, stored keys (`stored_key`)
                with their key groups.
            at_once: They will be read and written many at once, where their kind of state can do
                that. Nothing of the epoch came before.
            key_groups: Where `clean_up` will look.

        Raises: As `EpochTransaction.fetch`, and what is wrong with what is stored.
        """
        requests: list[Request] = []
        count = 0
        for descriptor, keys in wanted:
            handle = self._handles[descriptor.name]
            if at_once and (loads := handle.loads_at_once(keys)) is not None:
                requests += loads
                count += len(keys)
                continue
            missing = handle.missing(keys)
            requests += handle.first_loads(missing)
            count += len(missing)
        looks = [] if self._ahead else looks_ahead(self._handles.values(), key_groups)
        self._ahead += looks
        self.execute([*requests, *looks])
        self._requests += count - len(requests)

    def clean_up(self, key_groups: Sequence[int]) -> None:
        """Remove some of what is expired; at the end of an epoch, before `writes`.

        Bounds and cost: `state.primitives.expiry`. An epoch without a record needs it, too.

        Args:
            key_groups: Where to look: those of the transaction.

        Raises: As `EpochTransaction.fetch`, and what is wrong with what is stored.
        """
        ahead, self._ahead = self._ahead, []
        done = clean_up(self, self._handles.values(), key_groups, ahead)
        self._cleaned += done.removed
        self._notes += done.notes

    def writes(self) -> Writes:
        """What must be committed, by key group: only what changed; the same whenever asked."""
        batch = WriteBatch()
        for handle in self._handles.values():
            held = handle.cells
            cells = [held[key] for key in sorted(held)]
            handle.write_all(cells, batch)
            handle.write_cleaned(batch)
        for key_group, note in self._notes:
            batch.add(key_group, note)
        return batch.writes()

    def close(self) -> None:
        """Let go of all that was read and changed, when the epoch is committed.

        Handles and cells refer to each other: what is not taken apart here waits for the collector
        of garbage. Handles are of no use any more.
        """
        for handle in self._handles.values():
            handle.close()
        self._handles = {}

    def statistics(self) -> SessionStatistics:
        """What it holds, and what it has cost so far."""
        cells = sum(len(each.cells) for each in self._handles.values())
        transaction = self._transaction.statistics()
        return SessionStatistics(cells, self._requests, self._cleaned, transaction)


class _MergedReads:
    """Reads of many requests; those that can share a command do."""

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.counts: list[int] = []
        """How many reads each request has."""
        self._places: list[tuple[int, int, int]] = []
        """For each read asked for: which one it became, and what part of its reply is its own."""
        self._shared: dict[tuple[type, int, bytes], tuple[int, list[bytes]]] = {}

    def add(self, reads: Sequence[Read]) -> None:
        """Add the reads of the next request."""
        self.counts.append(len(reads))
        for read in reads:
            if isinstance(read, HashGet | SortedScores):
                self._share(read)
            else:
                self._places.append((len(self.reads), -1, -1))
                self.reads.append(read)

    def replies(self, replies: Sequence[Any]) -> Iterator[Any]:
        """The reply of each read asked for, in order."""
        for at, start, end in self._places:
            reply = replies[at]
            # What shares its command with nothing is not copied: that would touch each text.
            is_own = start < 0 or end - start == len(reply)
            yield reply if is_own else reply[start:end]

    def _share(self, read: HashGet | SortedScores) -> None:
        asked = read.fields if isinstance(read, HashGet) else read.members
        kind = type(read)
        shared = self._shared.get((kind, read.key_group, read.name))
        if shared is None:
            shared = self._shared[kind, read.key_group, read.name] = len(self.reads), []
            self.reads.append(kind(read.key_group, read.name, shared[1]))
        at, members = shared
        self._places.append((at, len(members), len(members) + len(asked)))
        members += asked
