"""Whether the updates that each node sends carry the old row (-U).

A node asks its inputs for what it needs; one that cannot send what it is asked for says so, and
whoever asked tries again with more.
"""

from __future__ import annotations

from dataclasses import replace

from operators.changelog import RowKind
from service.sql.physical.connectors import source_mode
from service.sql.physical.keys import smallest, unfiltered_keys, upsert_keys
from service.sql.physical.monotonicity import is_monotonic
from service.sql.physical.nodes import (
    INSERT_ONLY,
    AggregateSpec,
    CalcSpec,
    Changes,
    ChosenStrategy,
    DropUpdateBeforeSpec,
    JoinSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    Strategy,
    TemporalJoinSpec,
    UnionSpec,
    Updates,
    ValuesSpec,
    rebuilt,
)
from service.sql.physical.window_specs import GroupWindowsSpec, WindowAggregateSpec
from service.sql.rex import conjuncts, inputs_of_all


def with_updates(node: Node, wanted: Updates) -> Node | None:
    """The node sending updates as it was asked to; None: it cannot."""
    spec = node.spec
    match spec:
        case ScanSpec():
            return _scan_updates(node, wanted)
        case ValuesSpec():
            return _with(node, node.inputs, "NONE")
        case AggregateSpec() | WindowAggregateSpec() | GroupWindowsSpec():
            return _asking(node, [before_and_after(node.input.changes)], wanted)
        case RankSpec() if spec.kind == "limit":
            strategy: Strategy = "AppendFast" if node.input.changes.is_insert_only else "Retract"
            limit = replace(node, spec=replace(spec, strategy=strategy))
            return _asking(limit, [before_and_after(node.input.changes)], wanted)
        case RankSpec():
            return _rank_updates(node, spec, wanted)
        case OverSpec():
            needed = before_and_after(node.input.changes)
            return _asking(node, [needed], wanted if node.changes.has_updates else "NONE")
        case _ if isinstance(spec, INSERT_ONLY):
            return _asking(node, ["NONE" for _ in node.inputs], wanted)
        case NormalizeSpec():
            # A filter below it may have to see -U, which takes the row back as a delete does.
            given = node.input.changes
            return _asking(node, [after_only(given)], wanted) or _asking(
                node, [before_and_after(given)], wanted
            )
        case JoinSpec() | MultiJoinSpec():
            return _join_updates(node, wanted)
        case TemporalJoinSpec():
            return _temporal_updates(node, wanted)
        case CalcSpec() if wanted == "AFTER" and filters_values(node, spec):
            # A filter may drop +U, and the row before it would stay: it must see -U.
            return None
        case UnionSpec():
            return _union_updates(node, wanted)
        case _:
            return _forwarding(node, wanted)


def joined_on(node: Node) -> tuple[tuple[int, ...], ...]:
    """For each input of a join, the columns that it is joined on."""
    spec = node.spec
    if isinstance(spec, MultiJoinSpec):
        return spec.common_keys
    assert isinstance(spec, JoinSpec), "only joins are asked"
    return spec.keys.left, spec.keys.right


def filters_values(node: Node, spec: CalcSpec) -> bool:
    """Whether a filter reads more than the upsert key, which is all that such a delete has."""
    used = inputs_of_all(conjuncts(spec.condition))
    return spec.condition is not None and not any(used <= key for key in upsert_keys(node.input))


def before_and_after(changes: Changes) -> Updates:
    """All updates that there are, with the old rows."""
    return "BOTH" if changes.has_updates else "NONE"


def after_only(changes: Changes) -> Updates:
    """All updates that there are, without the old rows."""
    return "AFTER" if changes.has_updates else "NONE"


def _with(node: Node, made: tuple[Node, ...], sent: Updates) -> Node:
    below = rebuilt(node, made)
    return below.sending(replace(below.changes, updates=sent))


def _fits(made: Node, wanted: Updates) -> bool:
    return made.changes.updates == wanted


def _asking(node: Node, needed: list[Updates], sent: Updates) -> Node | None:
    """The node over inputs that send what it needs."""
    below = []
    for each, wanted in zip(node.inputs, needed, strict=True):
        made = with_updates(each, wanted)
        if made is None or not _fits(made, wanted):
            return None
        below.append(made)
    return _with(node, tuple(below), sent)


def _forwarding(node: Node, wanted: Updates) -> Node | None:
    made = with_updates(node.input, wanted)
    if made is None or not _fits(made, wanted):
        return None
    return _with(node, (made,), made.changes.updates)


def _scan_updates(node: Node, wanted: Updates) -> Node | None:
    spec = node.spec
    assert isinstance(spec, ScanSpec), "only scans are asked"
    kinds = source_mode(spec.table).kinds
    sent: Updates = "NONE"
    if RowKind.UPDATE_AFTER in kinds:
        sent = "BOTH" if RowKind.UPDATE_BEFORE in kinds else "AFTER"
    made = _with(node, (), sent)
    if sent == "BOTH" and wanted == "AFTER":
        dropped = Node(DropUpdateBeforeSpec(), (made,), node.row, made.changes)
        return dropped.sending(replace(made.changes, updates="AFTER"))
    return made


def _rank_updates(node: Node, spec: RankSpec, wanted: Updates) -> Node | None:
    for strategy, keys in _strategies(node, spec):
        chosen = replace(node, spec=replace(spec, strategy=strategy, strategy_keys=keys))
        needed = _taken_by(strategy, node.input.changes)
        made = _asking(chosen, [needed], wanted)
        if made is not None:
            return made
    return None


def _taken_by(strategy: ChosenStrategy, changes: Changes) -> Updates:
    """The updates that a way to keep rows takes."""
    match strategy:
        case "AppendFast":
            return "NONE"
        case "UpdateFast":
            return "AFTER"
        case "Retract":
            return before_and_after(changes)


def _strategies(node: Node, spec: RankSpec) -> list[tuple[ChosenStrategy, tuple[int, ...]]]:
    """How a rank may keep its rows, the cheapest first."""
    if node.input.changes.is_insert_only:
        return [("AppendFast", ())]
    keys = [key for key in unfiltered_keys(node.input) if frozenset(spec.partition) <= key]
    key = smallest(frozenset(keys))
    if key is not None and is_monotonic(node.input, spec.order):
        return [("UpdateFast", key), ("Retract", ())]
    return [("Retract", ())]


def _join_updates(node: Node, wanted: Updates) -> Node | None:
    """A side may send +U alone only if its key contains what is joined on.

    Nor may it where a condition reads other columns: +U may meet less than the row before it met,
    and what that row was joined with would stay. Flink 2.3 plans it (FLINK-38579).
    """
    if wanted == "AFTER" and _compares_values(node):
        return None
    needed: list[Updates] = []
    for side, columns in zip(node.inputs, joined_on(node), strict=True):
        if wanted != "AFTER":
            needed.append(before_and_after(side.changes))
            continue
        contains = any(frozenset(columns) <= key for key in unfiltered_keys(side))
        if side.changes.has_updates and not contains:
            return None
        needed.append(after_only(side.changes))
    return _asking(node, needed, wanted)


def _compares_values(node: Node) -> bool:
    """Whether a join's rows meet by more than the columns that it is joined on."""
    spec = node.spec
    assert isinstance(spec, JoinSpec | MultiJoinSpec), "only joins are asked"
    conditions = spec.conditions if isinstance(spec, MultiJoinSpec) else conjuncts(spec.keys.rest)
    known, begin = set[int](), 0
    for side, columns in zip(node.inputs, joined_on(node), strict=True):
        known |= {begin + each for each in columns}
        begin += len(side.row.names)
    return not inputs_of_all(conditions) <= known and any(
        side.changes.has_updates for side in node.inputs
    )


def _temporal_updates(node: Node, wanted: Updates) -> Node | None:
    left, right = node.inputs
    needed = before_and_after(left.changes) if wanted == "BOTH" else after_only(left.changes)
    made_left = with_updates(left, needed)
    made_right = with_updates(right, after_only(right.changes)) or with_updates(
        right, before_and_after(right.changes)
    )
    if made_left is None or made_right is None:
        return None
    return _with(node, (made_left, made_right), made_left.changes.updates)


def _union_updates(node: Node, wanted: Updates) -> Node | None:
    below = []
    for each in node.inputs:
        made = with_updates(each, wanted if each.changes.has_updates else "NONE")
        if made is None:
            return None
        below.append(made)
    sent = {made.changes.updates for made in below} - {"NONE"}
    if len(sent) > 1:
        return None
    return _with(node, tuple(below), sent.pop() if sent else "NONE")
