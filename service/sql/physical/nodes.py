"""The nodes of a plan while it is made: what each one is, typed, before it is JSON.

A node has a specification (one class a kind, below and in `window_specs`), inputs, columns, and the
changes that it sends. Nodes are immutable and compared by value, so that equal parts of a plan are
one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from service.sql.deadline import check_time
from service.sql.physical.window_specs import (
    GroupWindowsSpec,
    WindowAggregateSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
    WindowTableSpec,
)

if TYPE_CHECKING:
    from service.plan.rex import Call, Rex
    from service.plan.rex import Literal as RexLiteral
    from service.sql.catalogue import CatalogTable
    from service.sql.intervals import WindowBounds
    from service.sql.rex import Frame, OverCall
    from service.sql.terms import AggregateCall, JoinKind, LookupRetries, Ordering, RankRange, Row

Updates = Literal["NONE", "AFTER", "BOTH"]
Deletes = Literal["NONE", "KEY", "FULL"]
ChosenStrategy = Literal["AppendFast", "Retract", "UpdateFast"]
Strategy = Literal["Undefined", ChosenStrategy]
RankKind = Literal["rank", "limit", "sort-limit"]
BatchMode = Literal["ProcTime", "RowTime"]


_DELETE_NAMES = {"NONE": "DELETE", "FULL": "DELETE", "KEY": "~DELETE"}


@dataclass(frozen=True, slots=True)
class Changes:
    """What a node sends: which kinds, and how much of updates and deletes."""

    inserts: bool = True
    updates: Updates = "NONE"
    deletes: Deletes = "NONE"
    has_updates: bool = False
    """Whether there are updates, before it is settled how they are sent."""
    has_deletes: bool = False

    @property
    def is_insert_only(self) -> bool:
        """Whether nothing is ever updated or deleted."""
        return not self.has_updates and not self.has_deletes

    @property
    def names(self) -> list[str]:
        """The kinds as a plan lists them; `~DELETE` carries the key alone."""
        return [
            *(["INSERT"] if self.inserts else []),
            *(["UPDATE_BEFORE"] if self.updates == "BOTH" else []),
            *(["UPDATE_AFTER"] if self.updates != "NONE" else []),
            *([_DELETE_NAMES[self.deletes]] if self.has_deletes else []),
        ]


@dataclass(frozen=True, slots=True)
class ScanSpec:
    """Reads a table."""

    table: CatalogTable


@dataclass(frozen=True, slots=True)
class ValuesSpec:
    """Rows that stand in the plan."""

    rows: tuple[tuple[RexLiteral, ...], ...]


@dataclass(frozen=True, slots=True)
class CalcSpec:
    """Projects, after a filter if there is one."""

    projection: tuple[Rex, ...]
    condition: Rex | None


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """Brings rows with equal keys together; without keys, all rows."""

    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """Declares event time."""

    column: int
    expression: Rex


@dataclass(frozen=True, slots=True)
class MiniBatchSpec:
    """Marks the ends of mini-batches."""

    interval_ms: int
    mode: BatchMode


@dataclass(frozen=True, slots=True)
class NormalizeSpec:
    """Makes a full changelog of upserts."""

    keys: tuple[int, ...]
    condition: Rex | None = None
    is_shared: bool = False
    """Its source is read more than once: nothing goes below it, so that one node serves all."""


@dataclass(frozen=True, slots=True)
class DropUpdateBeforeSpec:
    """Leaves out -U."""


@dataclass(frozen=True, slots=True)
class UnionSpec:
    """All changes of all inputs."""


@dataclass(frozen=True, slots=True)
class ExpandSpec:
    """Repeats rows."""

    projects: tuple[tuple[Rex, ...], ...]


@dataclass(frozen=True, slots=True)
class CorrelateSpec:
    """Each row beside the rows that a table function makes of it."""

    kind: JoinKind
    call: Call
    condition: Rex | None
    row: Row
    """How the query names its columns, which the function of UNNEST goes by."""


@dataclass(frozen=True, slots=True)
class AggregateSpec:
    """A row for each group."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl: str | None = None


@dataclass(frozen=True, slots=True)
class LocalAggregateSpec:
    """The first phase, before the exchange."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    retracts: bool
    call_retracts: tuple[bool, ...]
    """For each call, whether it must be able to take a row back."""


@dataclass(frozen=True, slots=True)
class GlobalAggregateSpec:
    """The second phase, of what the first one gives."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    retracts: bool
    call_retracts: tuple[bool, ...]
    local_input: Row
    count_star: int | None
    """Which call counts rows, for a node whose input is incremental."""
    ttl: str | None = None


@dataclass(frozen=True, slots=True)
class IncrementalAggregateSpec:
    """The middle of a split aggregation: the partial one ends, the final one begins."""

    partial_grouping: tuple[int, ...]
    final_grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    retracts: bool
    local_input: Row
    ttl: str | None = None


@dataclass(frozen=True, slots=True)
class OverSpec:
    """Appends functions over windows of rows."""

    calls: tuple[OverCall, ...]
    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    frame: Frame


@dataclass(frozen=True, slots=True)
class RankSpec:
    """The first rows of each partition; a limit or sort-limit has one partition."""

    kind: RankKind
    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    range: RankRange
    has_number: bool
    strategy: Strategy = "Undefined"
    strategy_keys: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TemporalSortSpec:
    """Orders rows by time."""

    order: tuple[Ordering, ...]


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """What a join compares."""

    kind: JoinKind
    left: tuple[int, ...]
    right: tuple[int, ...]
    filter_nulls: tuple[bool, ...]
    rest: Rex | None


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """A regular join."""

    keys: JoinKeys
    ttl: tuple[str | None, str | None]


@dataclass(frozen=True, slots=True)
class IntervalJoinSpec:
    """A join of rows whose times are close."""

    keys: JoinKeys
    bounds: WindowBounds


@dataclass(frozen=True, slots=True)
class TemporalJoinSpec:
    """A join with the version of a table at a time."""

    keys: JoinKeys
    left_time: int
    right_time: int


@dataclass(frozen=True, slots=True)
class LookupJoinSpec:
    """A join with what another system answers."""

    kind: JoinKind
    table: CatalogTable
    table_row: Row
    lookup_keys: tuple[tuple[int, int | RexLiteral], ...]
    """Column of the table, and column of the input or constant."""
    condition: Rex | None
    pre_filter: Rex | None
    """What a left row must meet to be looked up at all."""
    projection: tuple[Rex, ...] | None
    filter: Rex | None
    contains_primary_key: bool
    materializes: bool = False
    retries: LookupRetries | None = None


@dataclass(frozen=True, slots=True)
class MultiJoinSpec:
    """A join of several inputs on one key."""

    kinds: tuple[JoinKind, ...]
    conditions: tuple[Rex, ...]
    common_keys: tuple[tuple[int, ...], ...]
    attributes: tuple[tuple[tuple[int, int, int, int], ...], ...]
    """For each input: left input, its column, right input, its column."""
    ttl: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """Writes a table."""

    table: CatalogTable
    conflict: str | None
    target_columns: tuple[int, ...] | None
    materializes: bool = False
    first_key: tuple[int, ...] | None = None
    """Of several statements with one sink: the upsert key of the first, which Flink tells."""


Spec: TypeAlias = (
    ScanSpec
    | ValuesSpec
    | CalcSpec
    | ExchangeSpec
    | WatermarkSpec
    | MiniBatchSpec
    | NormalizeSpec
    | DropUpdateBeforeSpec
    | UnionSpec
    | ExpandSpec
    | CorrelateSpec
    | AggregateSpec
    | LocalAggregateSpec
    | GlobalAggregateSpec
    | IncrementalAggregateSpec
    | WindowAggregateSpec
    | GroupWindowsSpec
    | WindowTableSpec
    | WindowRankSpec
    | WindowDeduplicateSpec
    | OverSpec
    | RankSpec
    | TemporalSortSpec
    | JoinSpec
    | IntervalJoinSpec
    | WindowJoinSpec
    | TemporalJoinSpec
    | LookupJoinSpec
    | MultiJoinSpec
    | SinkSpec
)


INSERT_ONLY = (
    IntervalJoinSpec,
    TemporalSortSpec,
    WindowRankSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
)
"""What takes inserts only, and sends nothing else."""


@dataclass(frozen=True)
class Node:
    """A node of the plan."""

    spec: Spec
    inputs: tuple[Node, ...]
    row: Row
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        check_time()  # whatever goes through a tree of nodes makes some

    @property
    def input(self) -> Node:
        """The only input."""
        return self.inputs[0]

    def over(self, *given: Node) -> Node:
        """The same node over other inputs."""
        return replace(self, inputs=given)

    def sending(self, changes: Changes) -> Node:
        """The same node, known to send these changes."""
        return replace(self, changes=changes)


def rebuilt(node: Node, made: tuple[Node, ...]) -> Node:
    """The node over these inputs; itself if they are its own."""
    same = all(old is new for old, new in zip(node.inputs, made, strict=True))
    return node if same else node.over(*made)
