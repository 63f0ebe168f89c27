"""What a state backend offers: epochs of reads and writes over key groups, and their closing.

State is bytes: hashes, sorted sets and streams under a name, in a key group of a node. Operators
think in epochs, so a backend has no single get and put. An epoch's task reads what its keys need in
as few round trips as possible, works in memory, and commits once:

    transaction = backend.begin(node, stamp, key_groups)
    values = transaction.fetch([HashGet(kg, b"history", keys), ...])     # one round trip
    transaction.commit({kg: [HashPut(b"history", pairs), ...], ...})     # one round trip

What is committed is **pending**: state stays that of the epoch before until the pipeline's `Ledger`
has closed the epoch, so an attempt may die anywhere and another one sees what the first one saw.
Attempts of one epoch in one run must write the same (an epoch is a pure function of the state
before it and its input); the first one to commit counts, and a different second one is reported.

The rules that hold between runs, attempts and epochs are told in `state/backends/tailrace.lua` and
in docs/adr/0001-pending-and-promote.md. `HeapBackend` and `RedisBackend` pass one conformance
suite, `state.testing.conformance`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from state.backends.accesses import (
    ApplyStaged,
    CounterAdd,
    Drop,
    Effect,
    HashAdd,
    HashDelete,
    HashGet,
    HashKeys,
    HashLength,
    HashPut,
    HashReplace,
    HashScan,
    LexCount,
    LexRange,
    LexRemove,
    Read,
    ScoreRemove,
    SortedLength,
    SortedPut,
    SortedRange,
    SortedRemove,
    SortedScores,
    SortedTop,
    StreamAppend,
    StreamLength,
    StreamScan,
    Write,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

__all__ = [
    "ApplyStaged",
    "CounterAdd",
    "Drop",
    "Effect",
    "EpochCheck",
    "EpochStamp",
    "EpochTransaction",
    "HashAdd",
    "HashDelete",
    "HashGet",
    "HashKeys",
    "HashLength",
    "HashPut",
    "HashReplace",
    "HashScan",
    "Ledger",
    "LexCount",
    "LexRange",
    "LexRemove",
    "Marker",
    "Read",
    "ScoreRemove",
    "SortedLength",
    "SortedPut",
    "SortedRange",
    "SortedRemove",
    "SortedScores",
    "SortedTop",
    "StateBackend",
    "StateVersion",
    "StateView",
    "StreamAppend",
    "StreamLength",
    "StreamScan",
    "TransactionStatistics",
    "Write",
]


@dataclass(frozen=True, slots=True)
class EpochStamp:
    """Which epoch is run, by which run of the pipeline, and the time that it is run at."""

    epoch: int
    """Spark's batch id + 1."""
    run: int
    """From `Ledger.open_run`; a larger one fences off this one."""
    time_ms: int
    """The epoch's processing time: Spark's batch timestamp, the same when it is run again."""

    def __post_init__(self) -> None:
        if self.epoch < 1 or self.run < 0:
            raise ValueError(f"no such epoch or run: {self.epoch}, {self.run}")


class StateVersion(NamedTuple):
    """Which state of a key group is meant: equal versions have equal bytes."""

    place: Hashable
    """The key group, and the database of a server, or the process, that has it."""
    run: int
    epoch: int
    """The last epoch that wrote there."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The last closed epoch of a pipeline."""

    epoch: int = 0
    """0: nothing was closed yet."""
    run: int = 0
    """The run that closed it."""
    closed_ms: int = 0
    """When it was closed, by the backend's clock."""
    offsets: str = "{}"
    """What the sources had consumed by its end: a JSON object with sorted keys."""


class EpochCheck(Enum):
    """May a task run an epoch?"""

    PROCEED = "proceed"
    """It is the one after the marker."""
    CLOSED = "closed"
    """It is the marker: all its effects are there; run it without any."""


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """What a transaction has cost so far."""

    reads: int = 0
    """Fields, members and entries that came back."""
    writes: int = 0
    """Fields, members and entries that were committed."""
    commands: int = 0
    round_trips: int = 0
    commit_ns: int = 0
    """How long the commit took, in nanoseconds."""

    def counts(self) -> dict[str, int]:
        """All of it by name; `dataclasses.asdict` takes some forty times as long."""
        return {
            "reads": self.reads,
            "writes": self.writes,
            "commands": self.commands,
            "round_trips": self.round_trips,
            "commit_ns": self.commit_ns,
        }


class EpochTransaction(ABC):
    """One attempt of one epoch over some key groups of one node.

    It is used by one thread, and is of no use any more once one of its calls has raised.
    """

    @abstractmethod
    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        """Read state as it was after the epoch before; one round trip whatever the number.

        Returns:
            A value for each read, in order; its type is told at the read.

        Raises:
            Fenced: A newer run owns a key group, or the epoch is closed there.
            StateUnavailable: Redis did not answer within its limits.
            IncarnationChanged: Redis restarted since the run began.
            StateCorrupt: A name holds another type, or another version wrote here.
            InvariantViolation: A read is of another key group, or after the commit.
        """

    def expect(self, reads: Sequence[Read]) -> Callable[[], list[Any]]:
        """Ask now and wait later: `fetch` in two halves, so that the backend works meanwhile.

        Without reads, only what beginning costs is under way. What is expected before a `fetch`,
        or before another call of this, shares its round trip.

        Returns:
            What waits for the values and gives them, once; it raises as `fetch`.
        """
        return partial(self.fetch, reads)

    @abstractmethod
    def commit(self, writes: Mapping[int, Sequence[Write]]) -> None:
        """Store the writes, by key group, as the epoch's pending ones; one round trip.

        After an error it is unknown which key groups have theirs: the attempt has failed, and the
        next one of the same epoch begins anew.

        Raises:
            Fenced: A newer run owns a key group, or the epoch is closed there.
            InvariantViolation: Another attempt of this run has committed other writes, a write is
                malformed or of another key group, or this is a second commit.
            StateUnavailable, IncarnationChanged, StateCorrupt: As for `fetch`.
        """

    def committing(self, writes: Mapping[int, Sequence[Write]]) -> Callable[[], None]:
        """Store the writes now and wait later: `commit` in two halves.

        Nothing of the epoch may leave its task before the wait is over.

        Returns:
            What waits until they are stored; it raises as `commit`, which this may do, too.
        """
        return partial(self.commit, writes)

    def version_read(self, key_group: int) -> StateVersion | None:
        """Which state it reads in a key group; None if the backend does not tell.

        Whatever is under way is waited for, as by `fetch`, which it raises like.
        """
        return None

    def version_written(self, key_group: int) -> StateVersion | None:
        """Which state its writes make of a key group, once they are stored and the epoch is closed.

        Only for a key group to which something is written. What the epoch before wrote in this run
        has the version that is one epoch lower.
        """
        return None

    @abstractmethod
    def statistics(self) -> TransactionStatistics:
        """What it has cost so far."""


class StateBackend(ABC):
    """Where the keyed state of one pipeline is."""

    @abstractmethod
    def begin(self, node: str, stamp: EpochStamp, key_groups: Sequence[int]) -> EpochTransaction:
        """Begin an attempt of an epoch; no round trip, the first `fetch` carries it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections; state stays."""


class StateView(ABC):
    """Committed state of one node as of one closed epoch: what HTTP and tests look at.

    The first call settles the epoch; later ones of the same view raise `ViewMoved` once the
    pipeline has closed another one, so that what a view gave always belongs together.
    """

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The closed epoch that this view shows; 0 before the first one."""

    @abstractmethod
    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        """As `EpochTransaction.fetch`, in any key groups; no limit on the number of calls.

        Raises:
            ViewMoved: Another epoch was closed since the view's first call.
            StateUnavailable: Redis did not answer within its limits.
            StateCorrupt: A name holds another type, or another version wrote here.
        """

    @abstractmethod
    def scan_hash(
        self,
        key_group: int,
        name: bytes,
        cursor: int = 0,
        match: bytes | None = None,
        count: int = 100,
    ) -> tuple[int, list[tuple[bytes, bytes]]]:
        """A page of a hash: the next cursor (0: this was the last page) and fields with values.

        Args:
            key_group: Where the hash is.
            name: Its name.
            cursor: 0, or what the page before gave. It stays good when epochs close in between:
                a field that is there all the time is given at least once.
            match: A glob pattern that fields must match.
            count: About how many fields to look at.

        Raises: As for `fetch`.
        """


class Ledger(ABC):
    """Which run owns a pipeline, which epoch was closed last, and what its sinks have taken."""

    @abstractmethod
    def open_run(self, nodes: Sequence[str], max_parallelism: int) -> int:
        """Begin a new run: the number to give to its tasks. Earlier runs are fenced off.

        Pending writes of the closed epoch are promoted, those of a later one discarded, since the
        epoch will be run again as a whole.
        """

    @abstractmethod
    def marker(self) -> Marker:
        """The last closed epoch."""

    @abstractmethod
    def check(self, epoch: int) -> EpochCheck:
        """Whether a task may run this epoch; to be asked before each one.

        Raises:
            StateLost: The marker is neither this epoch nor the one before: Redis was lost or
                restored, or the checkpoint was rewound or replaced.
        """

    @abstractmethod
    def require_run(self, stamp: EpochStamp) -> None:
        """See that a run owns the pipeline: before effects that no close can hold back.

        Raises:
            Fenced: A newer run does.
            StateLost: The run counter is behind: Redis was restored, or is another one.
        """

    @abstractmethod
    def stage(self, name: bytes | str, writes: Sequence[Write]) -> int:
        """Store a sink's writes of one task until the epoch is closed.

        Args:
            name: Unique for each attempt of a task; in the pipeline's slot.
            writes: They are carried out in the slot, too.

        Returns:
            What `ApplyStaged` asks for as `chunks`.
        """

    @abstractmethod
    def close_epoch(
        self, stamp: EpochStamp, offsets: Mapping[str, Any], effects: Sequence[Effect]
    ) -> bool:
        """Apply the sinks' effects and set the marker, all or nothing.

        All staged writes of the pipeline, used or not, are removed with it.

        Returns:
            False if the epoch was closed already with the same offsets: nothing was done.

        Raises:
            StateLost: It was closed with other offsets, or the marker is elsewhere.
            StagedWritesGone: A staged list is missing or short; nothing was applied.
            Fenced: A newer run owns the pipeline.
            StateCorrupt: An effect does not fit what is stored; nothing was applied.
            StateUnavailable: Unknown whether it was closed; closing it again is safe.
        """

    @abstractmethod
    def promote_all(self, nodes: Sequence[str], max_parallelism: int) -> None:
        """Apply pending writes of closed epochs; without it the next begin or reader does."""

    @abstractmethod
    def registered(self) -> dict[bytes, bytes]:
        """What is registered with the pipeline, beside its runs: see `state.registry`."""

    @abstractmethod
    def register(self, entries: Mapping[bytes, bytes]) -> None:
        """Set entries of what is registered; for the side that opens a run."""

    @abstractmethod
    def add_registered(self, field: bytes, by: int) -> int:
        """Add to an entry that holds an integer (0 if absent); its new value."""

    @abstractmethod
    def drop(self) -> None:
        """Remove everything of the pipeline but its run counter, which fences off what lives on."""
