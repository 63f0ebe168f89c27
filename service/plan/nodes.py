"""Nodes of a compiled plan, and typed views of those that are run without an operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from operators.expressions.rex import InputRef, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.changelog_mode import ChangelogMode
    from service.plan.node_types import NodeType
    from service.plan.rex import Call, Rex
    from service.plan.rex import Literal as RexLiteral
    from service.plan.tables import Column, Table
    from state.types import LogicalType

MaterializeStrategy = Literal["LEGACY", "VALUE", "MAP", "ADAPTIVE"]
JoinKind = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]
ConflictBehavior = Literal["DEDUPLICATE", "ERROR", "NOTHING"]


@dataclass(frozen=True, slots=True)
class StateMetadata:
    """What a plan says of the state of one input of a node."""

    index: int
    """The input that the state is of, from 0."""
    ttl_ms: int
    """Time to live in ms, cut off to whole ones; 0: kept for ever."""
    ttl_text: str
    """The time to live as the plan writes it."""
    name: str
    """For people: `leftState`, `sinkMaterializeState`, ..."""
    path: str


@dataclass(frozen=True, slots=True)
class Ability:
    """What a source took over from the plan, or a sink."""

    type: str
    """ProjectPushDown, FilterPushDown, WatermarkPushDown, ..."""
    value: Mapping[str, Any]
    path: str


@dataclass(frozen=True, slots=True)
class PushedFilter:
    """A filter that a source took over."""

    ability: Ability
    predicates: tuple[Rex, ...]
    """All must hold; over the columns that follow."""
    columns: tuple[str, ...]
    """Names of the columns that the abilities before it leave."""

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that it reads."""
        parts = (part for rex in self.predicates for part in walk(rex))
        found = {part.index for part in parts if isinstance(part, InputRef)}
        return tuple(self.columns[each] for each in sorted(found))


@dataclass(frozen=True, slots=True)
class TableScan:
    """Reads a table."""

    table: Table
    abilities: tuple[Ability, ...]
    projected_fields: tuple[tuple[int, ...], ...] | None
    """What ProjectPushDown leaves: paths of indexes into the physical columns; None: all."""
    metadata_keys: tuple[str, ...]
    """What ReadingMetadata appends."""
    watermark: Rex | None
    """What WatermarkPushDown took over, on the scan's output."""
    idle_timeout_ms: int = 0
    """How long it may have no rows before it holds no watermark back; 0: nothing is said."""
    filters: tuple[PushedFilter, ...] = ()
    """What FilterPushDown took over; `pushed` says which of them nobody asks again."""


@dataclass(frozen=True, slots=True)
class Values:
    """Rows that stand in the plan."""

    rows: tuple[tuple[RexLiteral, ...], ...]


@dataclass(frozen=True, slots=True)
class Calc:
    """Projects, after a filter if there is one."""

    projection: tuple[Rex, ...]
    condition: Rex | None


@dataclass(frozen=True, slots=True)
class Expand:
    """Gives several rows for each: one for every projection, in this order."""

    projections: tuple[tuple[Rex, ...], ...]


@dataclass(frozen=True, slots=True)
class Correlate:
    """Joins each row with the rows that a table function makes of it."""

    kind: JoinKind
    """INNER or LEFT where it is run: LEFT pads a row of which nothing is made."""
    call: Call
    """The function; its operands are over the input's columns."""
    condition: Rex | None
    """What a row that is made must meet, over its own columns."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """Brings rows together as the next node needs them."""

    distribution: str
    """HASH, SINGLETON, BROADCAST, ANY, UNKNOWN or KEEP_INPUT_AS_IS."""
    keys: tuple[int, ...]
    """Of HASH: columns of the input."""


@dataclass(frozen=True, slots=True)
class WatermarkAssigner:
    """Declares a column the event time and says how far time has come."""

    expression: Rex
    rowtime_index: int


@dataclass(frozen=True, slots=True)
class DropUpdateBefore:
    """Leaves out -U, which whoever follows does not need."""


@dataclass(frozen=True, slots=True)
class Union:
    """All changes of all inputs."""


@dataclass(frozen=True, slots=True)
class Sink:
    """Writes a table."""

    table: Table
    abilities: tuple[Ability, ...]
    metadata_keys: tuple[str, ...]
    """What WritingMetadata takes behind the physical columns."""
    columns: tuple[Column, ...]
    """Of the sink's input, with the types that it takes."""
    primary_key: tuple[int, ...]
    """Columns of the sink's input; empty if the table has no key."""
    input_changelog_mode: ChangelogMode
    require_upsert_materialize: bool
    strategy: MaterializeStrategy
    """How the materializer keeps its histories: LEGACY where the plan does not say."""
    input_upsert_key: tuple[int, ...] | None
    """Columns that say which row a change is about; None: only the whole row does."""
    conflict_behavior: ConflictBehavior | None
    """What ON CONFLICT says; None without the clause."""

    @property
    def settles_conflicts(self) -> bool:
        """Whether a watermark-compacting materializer stands before it, in any other's place."""
        return self.conflict_behavior in ("ERROR", "NOTHING")


NodeView: TypeAlias = (
    TableScan
    | Values
    | Calc
    | Expand
    | Correlate
    | Exchange
    | WatermarkAssigner
    | DropUpdateBefore
    | Union
    | Sink
)


@dataclass(frozen=True, slots=True)
class ExecNode:
    """A node of a plan."""

    id: int
    node_type: NodeType
    version: int
    description: str
    output_type: LogicalType
    """A ROW; of a sink, that of its input."""
    state: tuple[StateMetadata, ...]
    """By index; empty where the node has none, or the plan leaves it to the default."""
    configuration: Mapping[str, str]
    """Options that were in force at compile time: they count instead of those of today."""
    raw: Mapping[str, Any]
    view: NodeView | None
    """The node's properties, typed; None where an operator's builder reads them
    (`service.runtime.specs`), and where the node is not run."""
    path: str

    @property
    def type(self) -> str:
        """Name without version: `stream-exec-calc`."""
        return self.node_type.name

    @property
    def type_text(self) -> str:
        """As the plan writes it: `stream-exec-calc_1`."""
        return f"{self.node_type.name}_{self.version}"

    @property
    def has_state(self) -> bool:
        """Whether the node keeps state whose time to live the plan can set."""
        rule = self.node_type.state
        return rule == "always" or (
            rule == "materializer" and self.raw.get("requireUpsertMaterialize") in (True, "true")
        )


@dataclass(frozen=True, slots=True)
class Edge:
    """The way of changes from a node to another."""

    source: int
    target: int
    shuffle: str
    """FORWARD in every plan that Flink writes for streams."""
    index: int
    """Position in the document; orders the inputs of a node."""
