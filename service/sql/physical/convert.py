"""Choosing nodes: from relations to the nodes that compute them, exchanges between them.

Keyed nodes get an exchange below them that brings equal keys together; a source of upserts gets a
ChangelogNormalize. What each node sends is settled later.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef
from service.sql.algebra import (
    Aggregate,
    Correlate,
    Expand,
    Filter,
    Join,
    MultiJoin,
    Project,
    Relation,
    Scan,
    Sort,
    Union,
    Values,
    VersionJoin,
    Watermark,
    inputs,
)
from service.sql.errors import PlanningError, ValidationError
from service.sql.intervals import window_bounds
from service.sql.join_keys import equal_columns, meets_null
from service.sql.physical.attached import attached_aggregate, window_join, window_rank
from service.sql.physical.calc import calc
from service.sql.physical.connectors import is_upsert_source, source_mode
from service.sql.physical.lookup import lookup_join
from service.sql.physical.nodes import (
    AggregateSpec,
    CorrelateSpec,
    ExchangeSpec,
    ExpandSpec,
    IntervalJoinSpec,
    JoinKeys,
    JoinSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    TemporalJoinSpec,
    TemporalSortSpec,
    UnionSpec,
    ValuesSpec,
    WatermarkSpec,
)
from service.sql.physical.over import check_over
from service.sql.physical.window_specs import GroupWindowsSpec, WindowTableSpec
from service.sql.physical.windows import window_aggregate
from service.sql.rex import conjunction, conjuncts, inputs_of, ref, substitute, type_of
from service.sql.terms import JoinKind, RankRange, Row, join_row
from service.sql.window_relations import GroupWindows, Over, Rank, WindowTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.sql.catalogue import CatalogTable
    from service.sql.options import Options
    from service.sql.physical.nodes import RankKind


def convert(relation: Relation, options: Options) -> Node:
    """The nodes of a relation.

    Raises:
        PlanningError: There are none for it in a stream.
        ValidationError: A table lacks what its changes need.
    """
    return _Converter(options, _read_often(relation)).node(relation)


class _Converter:
    def __init__(self, options: Options, shared: frozenset[CatalogTable]) -> None:
        self._options = options
        self._shared = shared if options.reuses_plans else frozenset()

    def node(self, relation: Relation) -> Node:
        match relation:
            case Project() | Filter():
                return self._calc(relation)
            case Scan():
                return self._normalized(_scan(relation), relation)
            case Values():
                return Node(ValuesSpec(relation.rows), (), relation.row)
            case Watermark():
                return self._watermark(relation)
            case Join():
                return self._join(relation)
            case MultiJoin():
                return self._multi_join(relation)
            case VersionJoin():
                return self._version_join(relation)
            case Aggregate():
                return self._aggregate(relation)
            case Sort():
                return self._sort(relation)
            case _:
                return self._other(relation)

    def _other(self, relation: Relation) -> Node:
        match relation:
            case Union():
                sides = tuple(map(self.node, relation.inputs))
                return Node(UnionSpec(), sides, relation.row)
            case Expand():
                below = self.node(relation.input)
                return Node(ExpandSpec(tuple(relation.projects())), (below,), relation.row)
            case Correlate():
                return self._correlate(relation)
            case Over():
                return self._over(relation)
            case Rank():
                windowed = window_rank(relation, self.node)
                if windowed is not None:
                    return windowed
                below = exchange(self.node(relation.input), relation.partition)
                has_number = relation.number_name is not None
                spec = RankSpec(
                    "rank", relation.partition, relation.order, relation.range, has_number
                )
                return Node(spec, (below,), relation.planned_row)
            case GroupWindows():
                return self._group_windows(relation)
            case WindowTable():
                below = self.node(relation.input)
                if relation.spec.kind == "SESSION":
                    below = exchange(below, relation.spec.partition)
                return Node(WindowTableSpec(relation.spec), (below,), relation.row)
            case _:
                raise AssertionError(f"no nodes for {type(relation).__name__}")

    def _correlate(self, relation: Correlate) -> Node:
        below = self.node(relation.input)
        made = Row(relation.plan_names, relation.made.types)
        spec = CorrelateSpec(relation.kind, relation.call, relation.condition, relation.row)
        return Node(spec, (below,), join_row(below.row, made, relation.kind))

    def _calc(self, relation: Project | Filter) -> Node:
        """Projections and filters that follow each other are one node."""
        row = relation.row
        outputs: Sequence[Rex] = tuple(map(ref, range(len(row)), row.types))
        parts: list[Rex] = []
        below: Relation = relation
        while isinstance(below, (Project, Filter)):
            if isinstance(below, Filter):
                parts = list(dict.fromkeys([*conjuncts(below.condition), *parts]))
            else:
                outputs = [substitute(rex, below.scalars) for rex in outputs]
                parts = [substitute(part, below.scalars) for part in parts]
            below = below.input
        base = self.node(below)
        named, names = _numbered(base, below, outputs, row.names, parts)
        made = calc(named, outputs, names, conjunction(parts))
        return base if made is named else made

    def _watermark(self, relation: Watermark) -> Node:
        """Event time of upserts is declared before they are normalized."""
        if isinstance(relation.input, Scan):
            below = _scan(relation.input)
        else:
            below = self.node(relation.input)
        spec = WatermarkSpec(relation.column, relation.expression)
        made = Node(spec, (below,), relation.row)
        if isinstance(relation.input, Scan):
            return self._normalized(made, relation.input)
        return made

    def _normalized(self, node: Node, scan: Scan) -> Node:
        made = _normalized(node, scan, self._options)
        if isinstance(made.spec, NormalizeSpec) and scan.table in self._shared:
            return replace(made, spec=replace(made.spec, is_shared=True))
        return made

    def _join(self, relation: Join) -> Node:
        width = len(relation.left.row)
        bounds = window_bounds(relation)
        parts = conjuncts(relation.condition) if bounds is None else bounds[1]
        keys = join_keys(relation.kind, parts, width)
        windowed = window_join(relation, keys, self.node) if bounds is None else None
        if windowed is not None:
            return windowed
        left, right = self.node(relation.left), self.node(relation.right)
        sides = (exchange(left, keys.left), exchange(right, keys.right))
        if bounds is not None:
            return Node(IntervalJoinSpec(keys, bounds[0]), sides, relation.row)
        return Node(JoinSpec(keys, relation.ttl), sides, relation.row)

    def _multi_join(self, relation: MultiJoin) -> Node:
        sides = tuple(
            exchange(self.node(side), keys)
            for side, keys in zip(relation.inputs, relation.common_keys, strict=True)
        )
        spec = MultiJoinSpec(
            relation.kinds,
            relation.conditions,
            relation.common_keys,
            relation.attributes(),
            relation.ttl,
        )
        return Node(spec, sides, relation.row)

    def _version_join(self, relation: VersionJoin) -> Node:
        left = self.node(relation.left)
        if type_of(relation.time).time_attribute == "PROCTIME":
            return lookup_join(left, relation, self._options)
        right = self.node(relation.right)
        width = len(relation.left.row)
        parts = conjuncts(relation.condition)
        keys = join_keys(relation.kind, parts, width)
        times = [
            index
            for index, kind in enumerate(relation.right.row.types)
            if kind.time_attribute == "ROWTIME"
        ]
        if not times or not keys.left:
            raise PlanningError(
                "FOR SYSTEM_TIME AS OF needs a table with event time and equality on its key"
            )
        left_time = next(iter(inputs_of(relation.time)))
        sides = (exchange(left, keys.left), exchange(right, keys.right))
        return Node(TemporalJoinSpec(keys, left_time, times[0]), sides, relation.row)

    def _aggregate(self, relation: Aggregate) -> Node:
        windowed = window_aggregate(relation, self.node, self._options)
        if windowed is not None:
            return windowed
        attached = attached_aggregate(relation, self.node, self._options)
        if attached is not None:
            return attached
        below = exchange(self.node(relation.input), relation.grouping)
        spec = AggregateSpec(relation.grouping, relation.calls, relation.ttl)
        return Node(spec, (below,), relation.row)

    def _group_windows(self, relation: GroupWindows) -> Node:
        below = exchange(self.node(relation.input), relation.grouping)
        begin = len(relation.grouping) + len(relation.calls)
        spec = GroupWindowsSpec(
            relation.grouping,
            relation.calls,
            relation.spec,
            below.row.names[relation.spec.time_column],
            below.row.types[relation.spec.time_column],
            relation.row.names[begin:],
        )
        return Node(spec, (below,), relation.row)

    def _over(self, relation: Over) -> Node:
        check_over(relation)
        below = exchange(self.node(relation.input), relation.partition)
        spec = OverSpec(relation.calls, relation.partition, relation.order, relation.frame)
        return Node(spec, (below,), relation.row)

    def _sort(self, relation: Sort) -> Node:
        if relation.fetch == 0:
            return Node(ValuesSpec(()), (), relation.row)
        below = self.node(relation.input)
        is_single = isinstance(below.spec, RankSpec) and below.spec.kind != "rank"
        below = below if is_single else exchange(below, ())
        if relation.fetch is not None:
            bounds = RankRange(relation.offset + 1, relation.offset + relation.fetch)
            kind: RankKind = "sort-limit" if relation.order else "limit"
            spec = RankSpec(kind, (), relation.order, bounds, False)
            return Node(spec, (below,), relation.row)
        first = relation.order[0] if relation.order else None
        kinds = relation.row.types
        if first is None or kinds[first.column].time_attribute is None:
            raise PlanningError("Sort on a non-time-attribute field is not supported.")
        if relation.offset or not first.is_ascending:
            raise PlanningError(
                "Sort on a non-time-attribute field is not supported.",
                hint="rows can be sorted by time ascending only, all of them",
            )
        return Node(TemporalSortSpec(relation.order), (below,), relation.row)


def exchange(below: Node, keys: tuple[int, ...]) -> Node:
    """Rows with equal keys in one place; without keys, all rows."""
    return Node(ExchangeSpec(keys), (below,), below.row)


def join_keys(kind: JoinKind, parts: list[Rex], width: int) -> JoinKeys:
    """What a join compares, of its condition's parts."""
    pairs, rest = equal_columns(parts, width)
    plain, _ = equal_columns([part for part in parts if not meets_null(part)], width)
    left = tuple(pair[0] for pair in pairs)
    right = tuple(pair[1] for pair in pairs)
    return JoinKeys(kind, left, right, tuple(pair in plain for pair in pairs), conjunction(rest))


def _numbered(
    node: Node, relation: Relation, outputs: Sequence[Rex], names: tuple[str, ...], parts: list[Rex]
) -> tuple[Node, tuple[str, ...]]:
    """A rank below a projection: what its number is called, in it and above.

    A projection that only leaves columns out, or none, says nothing new of the number: both call it
    as the OVER function was called. Any other one names it for the rank, too.
    """
    if not isinstance(relation, Rank) or relation.number_name is None:
        return node, names
    number = len(relation.input.row)
    own = node.row.names[number]
    places = [rex.index for rex in outputs if isinstance(rex, InputRef)]
    is_plain = len(places) == len(outputs)
    if is_plain and places == sorted(set(places)) and relation.range.end_column is None:
        is_whole = len(places) == len(node.row) and not parts
        renamed = (own if at == number else name for at, name in zip(places, names, strict=True))
        return node, names if is_whole else tuple(renamed)
    found = [
        name
        for rex, name in zip(outputs, names, strict=True)
        if isinstance(rex, InputRef) and rex.index == number
    ]
    if not found or (is_plain and places == [*range(len(node.row))]):
        return node, names
    return replace(node, row=replace(relation, number_name=found[-1]).row), names


def _read_often(relation: Relation) -> frozenset[CatalogTable]:
    """The tables that are read in more than one place."""
    seen: set[CatalogTable] = set()
    often: set[CatalogTable] = set()
    waiting = [relation]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Scan):
            (often if each.table in seen else seen).add(each.table)
        waiting += inputs(each)
    return frozenset(often)


def _scan(relation: Scan) -> Node:
    return Node(ScanSpec(relation.table), (), relation.row)


def _normalized(node: Node, scan: Scan, options: Options) -> Node:
    """The node, made a full changelog if its source sends upserts, or changes more than once."""
    is_upsert = is_upsert_source(scan.table)
    if not is_upsert and not (
        options.has_duplicate_changes and not source_mode(scan.table).is_insert_only
    ):
        return node
    if not scan.table.primary_key and not is_upsert:
        raise PlanningError(
            "Configuration 'table.exec.source.cdc-events-duplicate' is enabled which requires the "
            f"changelog sources to define a PRIMARY KEY. However, table '{scan.table.summary}' "
            "doesn't have a primary key."
        )
    if not scan.table.primary_key:
        raise ValidationError(
            f"Table '{scan.table.summary}' produces a changelog stream contains UPDATE_AFTER, no "
            "UPDATE_BEFORE. This requires to define primary key constraint on the table."
        )
    keys = tuple(scan.row.names.index(name) for name in scan.table.primary_key)
    return Node(NormalizeSpec(keys), (exchange(node, keys),), node.row)
