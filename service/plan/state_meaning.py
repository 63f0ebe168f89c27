"""What a plan's states, tables and sources mean: by it one tells what another plan finds of them.

Nodes are numbered anew whenever a plan is compiled, and the form of what is stored does not tell a
sum of one column from that of another. So nothing is known by its number or its form, but by what
it is made of:

    rows       which rows a node gives: those of its tables that pass every condition on the way,
               and what joins, groups and ranks make of them
    columns    what each column of these rows is: a column of a table, and all that is computed on
               the way, whatever it is called and wherever it stands
    time       how event time comes about, for nodes that go by it

    SELECT k, SUM(x) .. WHERE y > 1     rows of `t` with y > 1, and `x` of table `t`
    SELECT k, SUM(z) .. WHERE y > 1     the node's own properties and its rows are the same
    SELECT k, SUM(x) .. WHERE y > 2     the node's own properties and its columns are the same

A state means the node's own properties, but for those that only say what it emits, and rows and
columns of its inputs. A table means the rows and columns that are written to it. A savepoint keeps
all this in place of the plan (`to_json`), and `continuation` compares two of them.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from service.plan.deadline import check_time
from service.plan.local_zone import common_zone, is_utc, said_zone, zone_readers
from service.plan.nodes import Sink, TableScan, Values, WatermarkAssigner
from service.plan.rex import ZONE_MARK
from service.plan.type_json import parse_type_json
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
    from state.types import LogicalType

Meaning = dict[str, str]
"""By property: a digest of its value."""
VERSION: Final = 2
"""Of the way to take meanings: those of two versions are not compared."""
_UNNAMED: Final = frozenset(
    {
        "global-window-aggregate", "group-window-aggregate", "interval-join", "over-aggregate",
        "process-table-function", "temporal-join", "temporal-sort", "window-aggregate",
        "window-deduplicate", "window-join", "window-rank",
    }
)  # fmt: skip  # a list of names, several a line
"""Types of nodes whose state a plan has no name and no time to live for."""
_SAID: Final = frozenset(
    {
        "asyncOptions", "configuration", "description", "generateUpdateBefore", "id",
        "inputChangelogMode", "inputChangelogModes", "inputProperties", "outputChangelogMode",
        "outputType", "retryOptions", "state", "type", "upsertMaterializeStrategy",
    }
)  # fmt: skip  # a list of names, several a line
"""Properties that say how a node works, for how long or in which layout it keeps what it does, or
that follow from others."""
_EMITTED: Final = _SAID | {
    "condition", "filterCondition", "filterOnTemporalTable", "joinCondition", "joinConditions",
    "multiJoinCondition", "namedWindowProperties", "nonEquiCondition", "outputRowNumber",
}  # fmt: skip  # a list of names, several a line
"""Those and the ones that say what a node emits, which makes no difference to what it keeps."""
_COUNTING: Final = ("join", "interval-join")
"""Joins that keep of their rows, unless they are inner, what they have met."""
_ROW_TYPES: Final = frozenset({"localAggInputRowType", "partialLocalAggInputRowType"})
"""Properties that are types of rows, whose columns may have any names."""
_OF_SINKS: Final = ("inputUpsertKey", "requireUpsertMaterialize", "conflictStrategy")
_PASSING: Final = frozenset(
    {"drop-update-before", "exchange", "mini-batch-assigner", "watermark-assigner"}
)
"""Nodes that give the rows that they get."""
_TIMED: Final = frozenset(
    {
        "global-window-aggregate", "group-window-aggregate", "interval-join",
        "local-window-aggregate", "over-aggregate", "process-table-function", "temporal-join",
        "temporal-sort", "window-aggregate", "window-deduplicate", "window-join", "window-rank",
        "window-table-function",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes that go by event time: what is late for them depends on watermarks."""
_OF_READING: Final = frozenset({"ProjectPushDown", "ReadingMetadata", "WatermarkPushDown"})
"""Abilities of a scan that make no difference to which rows it gives."""
_CONSTRAINTS: Final = (
    "table.exec.sink.not-null-enforcer",
    "table.exec.sink.type-length-enforcer",
)
"""Options by which a sink leaves rows out, or writes them otherwise."""
_PLACES: Final = {"filesystem": "path", "jdbc": "table-name", "kafka": "topic"} | {
    "upsert-kafka": "topic"
}
"""By connector: the option that says what is read or written, whatever the table is called."""


@dataclass(frozen=True, slots=True)
class StateMeaning:
    """What the state of a node means."""

    node: int
    type: str
    """As the plan writes it, without the version."""
    parts: Meaning


@dataclass(frozen=True, slots=True)
class TableMeaning:
    """What a sink writes, and where."""

    node: int
    table: str
    """Its identifier."""
    connector: str
    place: str
    """Empty where the table itself is kept here, under its name."""
    parts: Meaning
    """Of the rows that it writes."""
    states: tuple[int, ...]
    """Nodes whose state these rows follow from."""
    sources: tuple[str, ...]
    """What they come from, by `SourceMeaning.key`."""

    @property
    def is_kept_here(self) -> bool:
        """Whether the pipeline itself keeps the table, so that it may get another name."""
        return not self.place


@dataclass(frozen=True, slots=True)
class SourceMeaning:
    """What is read."""

    node: int
    key: str
    """A table's identifier; of rows that stand in the plan, what tells them from others."""
    connector: str
    place: str


@dataclass(frozen=True, slots=True)
class PlanMeaning:
    """All that a plan's states, tables and sources mean."""

    states: tuple[StateMeaning, ...]
    tables: tuple[TableMeaning, ...]
    sources: tuple[SourceMeaning, ...]
    """One for each node that reads."""
    clocks: tuple[tuple[int, str], ...]
    """Nodes that assign watermarks, and what these mean."""

    def to_json(self) -> dict[str, Any]:
        """What `meaning_from` reads."""
        return {"version": VERSION, **asdict(self)}


def meaning_from(told: Mapping[str, Any]) -> PlanMeaning | None:
    """What `PlanMeaning.to_json` gave; None: it was taken in another way, and tells nothing."""
    if told.get("version") != VERSION:
        return None
    return PlanMeaning(
        tuple(StateMeaning(**each) for each in told["states"]),
        tuple(
            TableMeaning(
                **{**each, "states": tuple(each["states"]), "sources": tuple(each["sources"])}
            )
            for each in told["tables"]
        ),
        tuple(SourceMeaning(**each) for each in told["sources"]),
        tuple((node, clock) for node, clock in told["clocks"]),
    )


def keeps_state(node: ExecNode) -> bool:
    """Whether a node keeps state, named in the plan or not."""
    if node.node_type.short == "window-table-function":
        window = node.raw.get("windowing", {}).get("window", {})
        return isinstance(window, dict) and window.get("type") == "SessionWindow"
    return node.has_state or node.node_type.short in _UNNAMED


def plan_meaning(plan: CompiledPlan) -> PlanMeaning:
    """What the states, tables and sources of a plan mean."""
    return _Reading(plan).meaning()


@dataclass(frozen=True, slots=True)
class _Given:
    """What a node gives."""

    rows: str
    """Which rows, before the conditions."""
    conditions: frozenset[str]
    """What all of them meet: filters one behind the other are one."""
    columns: tuple[str, ...]
    time: str
    """How their event time comes about."""
    states: frozenset[int]
    """Nodes with state that they follow from."""
    sources: frozenset[str]

    @property
    def all_rows(self) -> str:
        """Which rows."""
        return _digest([self.rows, sorted(self.conditions)]) if self.conditions else self.rows


class _Reading:
    """One walk through a plan."""

    def __init__(self, plan: CompiledPlan) -> None:
        self._plan = plan
        self._common = common_zone(plan.document["nodes"])
        self._given: dict[int, _Given] = {}
        self._states: list[StateMeaning] = []
        self._tables: list[TableMeaning] = []
        self._sources: list[SourceMeaning] = []
        self._clocks: list[tuple[int, str]] = []

    def meaning(self) -> PlanMeaning:
        """All of it."""
        for node in self._plan.nodes:
            check_time()
            inputs = self._plan.inputs(node.id)
            given = [self._given[each.id] for each in inputs]
            if keeps_state(node):
                parts = self._state(node, inputs, given)
                self._states.append(StateMeaning(node.id, node.type, parts))
            if isinstance(node.view, Sink):
                self._tables.append(self._table(node, node.view, given))
            self._given[node.id] = self._gives(node, inputs, given)
        return PlanMeaning(
            tuple(self._states), tuple(self._tables), tuple(self._sources), tuple(self._clocks)
        )

    def _zone(self, node: ExecNode) -> str | None:
        return said_zone(node.raw) or self._common

    def _state(
        self, node: ExecNode, inputs: Sequence[ExecNode], given: Sequence[_Given]
    ) -> Meaning:
        columns = [each.columns for each in given]
        timed = {"time": _digest([each.time for each in given])} if _is_timed(node) else {}
        return {
            **_own(node, inputs),
            **_matches(node, columns, self._zone(node)),
            **timed,
            "input types": _digest([_types(each.output_type) for each in inputs]),
            "input columns": _digest(columns),
            "input rows": _digest([each.all_rows for each in given]),
        }

    def _table(self, node: ExecNode, sink: Sink, given: Sequence[_Given]) -> TableMeaning:
        written = [[each.name, format_type(each.type)] for each in sink.columns if each.type]
        connector = sink.table.options.get("connector", "")
        states = frozenset[int]().union(*(each.states for each in given))
        key = [sink.columns[at].name for at in sink.primary_key]
        place = _place(connector, sink.table.options)
        described = node.raw.get("dynamicTableSink", {})
        return TableMeaning(
            node.id,
            sink.table.identifier,
            connector,
            place,
            {
                "key": _digest(key),
                "names and types": _digest(written),
                "constraints": _digest([node.configuration.get(each) for each in _CONSTRAINTS]),
                "conflicts": _digest(node.raw.get("conflictStrategy")),
                "abilities": _digest(_plain(described.get("abilities"))),
                "target columns": _digest(node.raw.get("targetColumns")),
                "rows": _digest([each.all_rows for each in given]),
                "columns": _digest([each.columns for each in given]),
                "time": _digest([each.time for each in given]) if sink.settles_conflicts else "",
            },
            tuple(sorted(states | ({node.id} if keeps_state(node) else frozenset()))),
            tuple(sorted(frozenset[str]().union(*(each.sources for each in given)))),
        )

    def _gives(self, node: ExecNode, inputs: Sequence[ExecNode], given: Sequence[_Given]) -> _Given:
        columns = tuple(_columns(node, inputs, [each.columns for each in given], self._zone(node)))
        rows, conditions = self._rows(node, inputs, given)
        states = frozenset[int]().union(*(each.states for each in given))
        if keeps_state(node):
            states |= {node.id}
        sources = frozenset[str]().union(*(each.sources for each in given))
        if not inputs:
            sources |= {self._read(node).key}
        times = [each.time for each in given]
        time = times[0] if len(times) == 1 else _digest(times)
        watermark = self._watermark(node, given, columns)
        if watermark:
            time = _digest([rows, sorted(conditions), watermark])
            self._clocks.append((node.id, time))
        return _Given(rows, conditions, columns, time, states, sources)

    def _rows(
        self, node: ExecNode, inputs: Sequence[ExecNode], given: Sequence[_Given]
    ) -> tuple[str, frozenset[str]]:
        """Which rows a node gives: some others, and the conditions on them."""
        kind = node.node_type.short
        if kind in _PASSING:
            return given[0].rows, given[0].conditions
        none = frozenset[str]()
        if isinstance(node.view, TableScan):
            table = _plain(node.raw["scanTableSource"]["table"])
            taken = [
                _plain(dict(each.value))
                for each in node.view.abilities
                if each.type not in _OF_READING
            ]
            return _digest([kind, table, taken]), none
        if isinstance(node.view, Values):
            return _digest([kind, node.raw.get("tuples")]), none
        if kind == "calc":
            condition = node.raw.get("condition")
            met = _conjuncts(condition) if condition is not None else []
            zone = self._zone(node)
            added = {_expression(each, given[0].columns, zone) for each in met}
            return given[0].rows, given[0].conditions | added
        behind = [each.all_rows for each in given]
        if kind == "union":
            return _digest([kind, behind]), none
        if kind == "expand":
            return _digest([kind, behind, len(node.raw["projects"])]), none
        columns = [each.columns for each in given]
        if kind == "correlate":
            # Names of columns stand in its calls.
            call = _expression(node.raw["functionCall"], columns[0], self._zone(node))
            condition = _plain(node.raw.get("condition"), _SAID)
            return _digest([kind, node.raw["joinType"], call, condition, behind]), none
        timed = [each.time for each in given] if _is_timed(node) else []
        own = _own(node, inputs, hidden=_SAID)
        return _digest([kind, own, behind, columns, timed]), none

    def _read(self, node: ExecNode) -> SourceMeaning:
        if isinstance(node.view, TableScan):
            table = node.view.table
            connector = table.options.get("connector", "")
            place = _place(connector, table.options)
            found = SourceMeaning(node.id, table.identifier, connector, place)
        else:
            key = f"values {_digest(node.raw.get('tuples'))}"
            found = SourceMeaning(node.id, key, "", "")
        self._sources.append(found)
        return found

    def _watermark(
        self, node: ExecNode, given: Sequence[_Given], columns: Sequence[str]
    ) -> str | None:
        """What the watermarks that a node assigns follow from."""
        raw = node.raw.get("watermarkExpr")
        if isinstance(node.view, WatermarkAssigner):
            return _expression(raw, given[0].columns, self._zone(node))
        if isinstance(node.view, TableScan) and node.view.watermark is not None:
            pushed = [
                _over(dict(each.value), columns)
                for each in node.view.abilities
                if each.type == "WatermarkPushDown"
            ]
            return _digest(pushed)
        return None


def _is_timed(node: ExecNode) -> bool:
    return node.node_type.short in _TIMED or (
        isinstance(node.view, Sink) and node.view.settles_conflicts
    )


def _place(connector: str, options: Mapping[str, str]) -> str:
    option = _PLACES.get(connector)
    return "" if option is None else options.get(option) or connector


def _conjuncts(condition: object) -> list[object]:
    """The conditions that AND joins, one by one."""
    if isinstance(condition, dict) and condition.get("internalName") == "$AND$1":
        return [each for part in condition["operands"] for each in _conjuncts(part)]
    return [condition]


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The properties in which two fingerprints differ."""
    names = dict.fromkeys((*before, *after))
    return [name for name in names if before.get(name) != after.get(name)]


def _own(
    node: ExecNode, inputs: Sequence[ExecNode], *, hidden: frozenset[str] = _EMITTED
) -> Meaning:
    """Of the properties of a node itself, but for those that are hidden."""
    if isinstance(node.view, Sink):
        named = {name: node.raw[name] for name in _OF_SINKS if node.raw.get(name) is not None}
        named["primary key"] = list(node.view.primary_key)
        named["constraints"] = [node.configuration.get(each) for each in _CONSTRAINTS]
    else:
        named = {name: value for name, value in node.raw.items() if name not in hidden}
        for name in _ROW_TYPES & named.keys():
            named[name] = _types(parse_type_json(named[name], f"{node.path}/{name}"))
        if node.node_type.short == "group-window-aggregate":
            named["window"] = _with_time_column(named.get("window"), inputs[0])
    found = {
        name: _digest(_plain(value, hidden)) for name, value in named.items() if value is not None
    }
    zone = said_zone(node.raw)
    if zone is not None and not is_utc(zone):
        found["time zone"] = _digest(zone)
    return found


def _with_time_column(window: object, given: ExecNode) -> object:
    """A group window with the index of the column that its time has by name, as Flink reads it.

    A plan may be compared that no pipeline is made of: what is no window stays as it is.
    """
    field = window.get("timeField") if isinstance(window, dict) else None
    names = given.output_type.field_names
    if not isinstance(window, dict) or not isinstance(field, dict):
        return window
    if field.get("fieldName") not in names:
        return window
    return {**window, "timeField": {**field, "fieldIndex": names.index(field["fieldName"])}}


def _matches(node: ExecNode, given: Sequence[Sequence[str]], zone: str | None) -> Meaning:
    """Of a join that keeps how many rows each row has met, or whether any: by what they meet."""
    if node.node_type.short not in _COUNTING:
        return {}
    spec = node.raw.get("intervalJoinSpec", node.raw)["joinSpec"]
    condition = spec.get("nonEquiCondition")
    if spec["joinType"] == "INNER" or condition is None:
        return {}
    return {"nonEquiCondition": _expression(condition, [*given[0], *given[1]], zone)}


def _types(row: LogicalType) -> list[str]:
    return [format_type(each) for each in row.children]


def _plain(value: object, hidden: frozenset[str] = _EMITTED) -> Any:
    """A property without names of calls and columns, options of tables, and what is hidden."""
    if isinstance(value, list):
        return [_plain(each, hidden) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("identifier"), str):
        return value["identifier"]
    unseen = (hidden - {"type", "description"}) | {"fieldName"}
    named = {"name"} if "argList" in value else set()
    return {
        name: _plain(each, hidden) for name, each in value.items() if name not in unseen | named
    }


def _columns(
    node: ExecNode, inputs: Sequence[ExecNode], given: Sequence[Sequence[str]], zone: str | None
) -> list[str]:
    """What each column of a node's output is, where expressions that read a zone read this one."""
    width = len(node.output_type.children)
    raw = node.raw
    kind = node.node_type.short
    if kind == "table-source-scan":
        table = _plain(raw["scanTableSource"]["table"])
        keys = node.view.metadata_keys if isinstance(node.view, TableScan) else ()
        names = node.output_type.field_names[: width - len(keys)]
        # Metadata comes last, and is the same under another name.
        physical = [_digest([table, name]) for name in names]
        return [*physical, *(_digest([table, "METADATA", key]) for key in keys)]
    if kind == "calc":
        return [_expression(each, given[0], zone) for each in raw["projection"]]
    if kind == "expand":
        rows = [[_expression(each, given[0], zone) for each in row] for row in raw["projects"]]
        return [_one_of(column) for column in zip(*rows, strict=False)]
    if kind == "correlate":
        call = _expression(raw["functionCall"], given[0], zone)
        made = range(width - len(given[0]))
        return [*given[0], *(_digest([kind, call, at]) for at in made)]
    if kind == "union":
        return [_one_of(column) for column in zip(*given, strict=False)]
    groups = raw.get("finalAggGrouping", raw.get("grouping"))
    if isinstance(groups, list):
        passed = [_at(given[0], each) for each in groups]
    elif len(given) > 1:
        # A table that is joined with itself has each column twice.
        sides = enumerate(given)
        passed = [_digest([at, column]) for at, side in sides for column in side][:width]
    else:
        passed = [column for side in given for column in side][:width]
    read: Sequence[object] | str = given
    if kind == "window-table-function":
        # Windows are of a time, whatever else stands beside it.
        read = _at(given[0], raw.get("windowing", {}).get("timeAttributeIndex", 0))
    own = _digest([kind, _own(node, inputs), read])
    return [*passed, *(_digest([own, at]) for at in range(width - len(passed)))]


def _one_of(column: tuple[str, ...]) -> str:
    """What a column is in rows of several kinds, which their order tells apart."""
    return column[0] if len(set(column)) == 1 else _digest(column)


def _at(given: Sequence[str], index: object) -> str:
    """A column; of a plan that names one that is not there, something of its own."""
    if isinstance(index, int) and 0 <= index < len(given):
        return given[index]
    return _digest(index)


def _expression(value: object, given: Sequence[str], zone: str | None) -> str:
    """What an expression gives: of a column alone what the column is."""
    if isinstance(value, dict) and value.get("kind") == "INPUT_REF":
        return _at(given, value.get("inputIndex"))
    is_zoned = zone is not None and not is_utc(zone) and any(zone_readers(value, ""))
    return _digest([zone if is_zoned else None, _over(value, given)])


def _over(value: object, given: Sequence[str]) -> Any:
    """An expression with what its columns are in their place."""
    if isinstance(value, list):
        return [_over(each, given) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "INPUT_REF":
        return {"column": _at(given, value.get("inputIndex"))}
    if value.get("kind") == "FIELD_ACCESS" and value["expr"].get("kind") == "CORREL_VARIABLE":
        fields = parse_type_json(value["expr"]["type"], "").field_names
        return {"column": _at(given, fields.index(value["name"]))}
    return {name: _over(each, given) for name, each in value.items() if name != ZONE_MARK}


def _digest(value: object) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=8).hexdigest()
