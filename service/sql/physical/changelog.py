"""What each node sends, and who must send what a row was before an update.

Three passes, each from the sink down. First which kinds of change there are. Then whether updates
carry the old row (-U): a node asks its inputs for what it needs, and a pass that cannot be met is
tried again with more. Last whether deletes may carry the key alone; there a ChangelogNormalize that
nobody needs is left out.

Source: Flink `FlinkChangelogModeInferenceProgram` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from operators.changelog import RowKind
from service.sql.errors import PlanningError
from service.sql.physical.connectors import deletes_by_key, sink_mode, source_mode
from service.sql.physical.keys import smallest, unfiltered_keys, upsert_keys
from service.sql.physical.monotonicity import is_monotonic
from service.sql.physical.nodes import (
    AggregateSpec,
    CalcSpec,
    Changes,
    Deletes,
    DropUpdateBeforeSpec,
    ExchangeSpec,
    ExpandSpec,
    IntervalJoinSpec,
    JoinSpec,
    LookupJoinSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    SinkSpec,
    Strategy,
    TemporalJoinSpec,
    TemporalSortSpec,
    UnionSpec,
    Updates,
    ValuesSpec,
    WatermarkSpec,
    WindowAggregateSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
    WindowTableSpec,
    rebuilt,
)
from service.sql.physical.ranks import first_rows_only
from service.sql.rex import conjuncts, inputs_of_all

if TYPE_CHECKING:
    from service.sql.options import Options

_ALL = Changes(has_updates=True, has_deletes=True)
_INSERTS = Changes()
_FORWARDING = (CalcSpec, ExchangeSpec, ExpandSpec, WatermarkSpec, WindowTableSpec, LookupJoinSpec)
_ATTACHED = (WindowRankSpec, WindowDeduplicateSpec, WindowJoinSpec)
_INSERT_ONLY = (IntervalJoinSpec, TemporalSortSpec, *_ATTACHED)


def infer_changes(sink: Node, options: Options) -> Node:
    """The sink and all below it, with what each node sends.

    Raises:
        PlanningError: A node or the sink cannot take what its input sends.
    """
    known = _kinds(sink, options)
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "every plan ends in a sink"
    mode = sink_mode(spec.table)
    if mode == "append":
        _require_inserts(known.input, f"Table sink '{spec.table.summary}'")
    for updates in _sink_updates(known, spec):
        made = _updates(known.input, updates)
        if made is not None:
            break
    else:
        raise PlanningError("Can't generate a valid execution plan for the given query")
    accepts_keys = mode == "upsert" and deletes_by_key(spec.table)
    keys_fit = not spec.table.primary_key or _has_key(known)
    wanted: list[Deletes] = ["KEY", "FULL"] if accepts_keys and keys_fit else ["FULL"]
    for deletes in wanted:
        final = _deletes(made, deletes if made.changes.has_deletes else "NONE")
        if final is not None:
            return known.over(final)
    raise PlanningError("Can't generate a valid execution plan for the given query")


# --- which kinds ------------------------------------------------------------------------------


def _kinds(node: Node, options: Options) -> Node:
    made = node.over(*(_kinds(each, options) for each in node.inputs))
    return made.sending(_kinds_of(made, options))


def _kinds_of(node: Node, options: Options) -> Changes:
    given = [each.changes for each in node.inputs]
    spec = node.spec
    if isinstance(spec, _FORWARDING):
        return given[0]
    if isinstance(spec, _INSERT_ONLY):
        for each in node.inputs:
            _require_inserts(each, _name(node))
        return _INSERTS
    match spec:
        case ScanSpec():
            return _source_kinds(spec)
        case ValuesSpec():
            return _INSERTS
        case NormalizeSpec():
            return _ALL
        case AggregateSpec():
            return Changes(has_updates=True, has_deletes=not given[0].is_insert_only)
        case WindowAggregateSpec():
            return _INSERTS
        case OverSpec():
            _require_inserts(node.input, _name(node))
            return _INSERTS
        case RankSpec():
            return _rank_kinds(node, spec, options)
        case TemporalJoinSpec():
            return given[0]
        case JoinSpec():
            return _merged(given) if spec.keys.kind in ("INNER", "SEMI") else _ALL
        case MultiJoinSpec():
            return _ALL if "LEFT" in spec.kinds else _merged(given)
        case UnionSpec() | SinkSpec():
            return _merged(given)
        case _:
            raise AssertionError(f"{type(spec).__name__} is made later")


def _source_kinds(spec: ScanSpec) -> Changes:
    kinds = source_mode(spec.table).kinds
    return Changes(has_updates=RowKind.UPDATE_AFTER in kinds, has_deletes=RowKind.DELETE in kinds)


def _rank_kinds(node: Node, spec: RankSpec, options: Options) -> Changes:
    is_insert_only = node.input.changes.is_insert_only
    if spec.kind == "limit":
        return _INSERTS if is_insert_only else _ALL
    if is_insert_only and first_rows_only(spec, options):
        return _INSERTS
    return _ALL


def _merged(given: list[Changes]) -> Changes:
    return Changes(
        has_updates=any(each.has_updates for each in given),
        has_deletes=any(each.has_deletes for each in given),
    )


def _require_inserts(node: Node, requester: str) -> None:
    """Refuse updates and deletes that reach a node that takes none."""
    changes = node.changes
    if changes.is_insert_only:
        return
    kinds = [
        name
        for name, is_there in (("update", changes.has_updates), ("delete", changes.has_deletes))
        if is_there
    ]
    source = node
    while isinstance(source.spec, (*_FORWARDING, UnionSpec)):
        source = next(each for each in source.inputs if not each.changes.is_insert_only)
    from service.sql.physical.descriptions import describe

    raise PlanningError(
        f"{requester} doesn't support consuming {' and '.join(kinds)} changes which is produced "
        f"by node {describe(source)}"
    )


def _name(node: Node) -> str:
    names = {"OverSpec": "OverAggregate"}
    kind = type(node.spec).__name__
    return f"StreamPhysical{names.get(kind, kind.removesuffix('Spec'))}"


# --- who sends -U -----------------------------------------------------------------------------


def _both(changes: Changes) -> Updates:
    return "BOTH" if changes.has_updates else "NONE"


def _after(changes: Changes) -> Updates:
    return "AFTER" if changes.has_updates else "NONE"


def _sink_updates(sink: Node, spec: SinkSpec) -> list[Updates]:
    """What a sink may be sent, the best first."""
    changes = sink.input.changes
    match sink_mode(spec.table):
        case "append":
            return ["NONE"]
        case "retract":
            return [_both(changes)]
        case "upsert":
            if spec.table.primary_key and not _has_key(sink):
                return [_both(changes)]
            return [_after(changes), _both(changes)]


def _has_key(sink: Node) -> bool:
    """Whether the sink's primary key is an upsert key of what enters it."""
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "only sinks are asked"
    return key_of(spec) in upsert_keys(sink.input)


def key_of(spec: SinkSpec) -> frozenset[int]:
    """The columns of a sink's input that are its primary key."""
    names = [column.name for column in spec.table.persisted]
    return frozenset(names.index(name) for name in spec.table.primary_key)


def _updates(node: Node, wanted: Updates) -> Node | None:
    """The node sending updates as it was asked to; None: it cannot."""
    spec = node.spec
    if isinstance(spec, _INSERT_ONLY):
        return _asking(node, ["NONE" for _ in node.inputs], wanted)
    match spec:
        case ScanSpec():
            return _scan_updates(node, wanted)
        case ValuesSpec():
            return _with(node, node.inputs, "NONE")
        case AggregateSpec() | WindowAggregateSpec():
            return _asking(node, [_both(node.input.changes)], wanted)
        case RankSpec() if spec.kind == "limit":
            strategy: Strategy = "AppendFast" if node.input.changes.is_insert_only else "Retract"
            limit = replace(node, spec=replace(spec, strategy=strategy))
            return _asking(limit, [_both(node.input.changes)], wanted)
        case RankSpec():
            return _rank_updates(node, spec, wanted)
        case OverSpec():
            needed = _both(node.input.changes)
            return _asking(node, [needed], needed)
        case NormalizeSpec():
            return _asking(node, [_after(node.input.changes)], wanted)
        case JoinSpec() | MultiJoinSpec():
            return _join_updates(node, wanted)
        case TemporalJoinSpec():
            return _temporal_updates(node, wanted)
        case CalcSpec() if wanted == "AFTER" and _filters_values(node, spec):
            # A filter may drop +U, and the row before it would stay: it must see -U.
            return None
        case UnionSpec():
            return _union_updates(node, wanted)
        case _:
            return _forwarding(node, wanted)


def _with(node: Node, made: tuple[Node, ...], sent: Updates) -> Node:
    below = rebuilt(node, made)
    return below.sending(replace(below.changes, updates=sent))


def _fits(made: Node, wanted: Updates) -> bool:
    return made.changes.updates == wanted


def _asking(node: Node, needed: list[Updates], sent: Updates) -> Node | None:
    """The node over inputs that send what it needs."""
    below = []
    for each, wanted in zip(node.inputs, needed, strict=True):
        made = _updates(each, wanted)
        if made is None or not _fits(made, wanted):
            return None
        below.append(made)
    return _with(node, tuple(below), sent)


def _forwarding(node: Node, wanted: Updates) -> Node | None:
    made = _updates(node.input, wanted)
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
        needed: Updates = {"UpdateFast": "AFTER", "Retract": "BOTH", "AppendFast": "NONE"}[strategy]  # type: ignore[assignment]
        if strategy == "Retract":
            needed = _both(node.input.changes)
        chosen = replace(node, spec=replace(spec, strategy=strategy, strategy_keys=keys))  # type: ignore[arg-type]
        made = _asking(chosen, [needed], wanted)
        if made is not None:
            return made
    return None


def _strategies(node: Node, spec: RankSpec) -> list[tuple[str, tuple[int, ...]]]:
    """How a rank may keep its rows, the cheapest first."""
    if node.input.changes.is_insert_only:
        return [("AppendFast", ())]
    keys = [key for key in unfiltered_keys(node.input) if frozenset(spec.partition) <= key]
    key = smallest(frozenset(keys))
    if key is not None and is_monotonic(node.input, spec.order):
        return [("UpdateFast", key), ("Retract", ())]
    return [("Retract", ())]


def _join_updates(node: Node, wanted: Updates) -> Node | None:
    """A side may send +U alone only if its key contains what is joined on."""
    needed: list[Updates] = []
    for side, columns in zip(node.inputs, _joined_on(node), strict=True):
        if wanted != "AFTER":
            needed.append(_both(side.changes))
            continue
        contains = any(frozenset(columns) <= key for key in unfiltered_keys(side))
        if side.changes.has_updates and not contains:
            return None
        needed.append(_after(side.changes))
    return _asking(node, needed, wanted)


def _joined_on(node: Node) -> tuple[tuple[int, ...], ...]:
    spec = node.spec
    if isinstance(spec, MultiJoinSpec):
        return spec.common_keys
    assert isinstance(spec, JoinSpec), "only joins are asked"
    return spec.keys.left, spec.keys.right


def _temporal_updates(node: Node, wanted: Updates) -> Node | None:
    left, right = node.inputs
    needed = _both(left.changes) if wanted == "BOTH" else _after(left.changes)
    made_left = _updates(left, needed)
    made_right = _updates(right, _after(right.changes)) or _updates(right, _both(right.changes))
    if made_left is None or made_right is None:
        return None
    return _with(node, (made_left, made_right), made_left.changes.updates)


def _union_updates(node: Node, wanted: Updates) -> Node | None:
    below = []
    for each in node.inputs:
        made = _updates(each, wanted if each.changes.has_updates else "NONE")
        if made is None:
            return None
        below.append(made)
    sent = {made.changes.updates for made in below} - {"NONE"}
    if len(sent) > 1:
        return None
    return _with(node, tuple(below), sent.pop() if sent else "NONE")


# --- how much of a delete ---------------------------------------------------------------------


def _full(changes: Changes) -> Deletes:
    return "FULL" if changes.has_deletes else "NONE"


def _deletes(node: Node, wanted: Deletes) -> Node | None:
    """The node sending deletes as it was asked to; None: it cannot."""
    spec = node.spec
    match spec:
        case ScanSpec():
            sent = "KEY" if deletes_by_key(spec.table) else "FULL"
            return _deleting(node, (), sent if node.changes.has_deletes else "NONE")  # type: ignore[arg-type]
        case NormalizeSpec():
            return _normalize_deletes(node, spec, wanted)
        case CalcSpec() if wanted == "KEY" and _filters_values(node, spec):
            return None
        case CalcSpec() | ExchangeSpec() | ExpandSpec() | DropUpdateBeforeSpec():
            made = _deletes(node.input, wanted)
            if made is None or made.changes.deletes != wanted:
                return None
            return _deleting(node, (made,), made.changes.deletes)
        case JoinSpec() | MultiJoinSpec():
            return _join_deletes(node, wanted)
        case UnionSpec():
            return _union_deletes(node, wanted)
        case _:
            below = []
            for each in node.inputs:
                made = _deletes(each, _full(each.changes))
                if made is None:
                    return None
                below.append(made)
            return _deleting(node, tuple(below), _full(node.changes))


def _deleting(node: Node, made: tuple[Node, ...], sent: Deletes) -> Node:
    below = rebuilt(node, made)
    return below.sending(replace(below.changes, deletes=sent))


def _normalize_deletes(node: Node, spec: NormalizeSpec, wanted: Deletes) -> Node | None:
    is_needed = node.changes.updates == "BOTH" or spec.condition is not None
    has_deletes = node.input.changes.has_deletes
    if not is_needed and has_deletes:
        made = _deletes(node.input, wanted)
        if made is not None and made.changes.deletes == wanted:
            return made.input
    choices: list[Deletes] = ["KEY", "FULL"] if has_deletes else ["NONE"]
    for choice in choices:
        made = _deletes(node.input, choice)
        if made is not None and made.changes.deletes == choice:
            return _deleting(node, (made,), _full(node.changes))
    return None


def _filters_values(node: Node, spec: CalcSpec) -> bool:
    """Whether a filter reads more than the upsert key, which is all that such a delete has."""
    used = inputs_of_all(conjuncts(spec.condition))
    return spec.condition is not None and not any(used <= key for key in upsert_keys(node.input))


def _join_deletes(node: Node, wanted: Deletes) -> Node | None:
    below = []
    for side, columns in zip(node.inputs, _joined_on(node), strict=True):
        supports = any(frozenset(columns) <= key for key in unfiltered_keys(side))
        full = _full(side.changes)
        made = None
        if supports and wanted == "KEY" and full != "NONE":
            made = _deletes(side, "KEY")
        made = made or _deletes(side, full)
        if made is None:
            return None
        below.append(made)
    has_keys = any(made.changes.deletes == "KEY" for made in below)
    sent: Deletes = "KEY" if has_keys else _full(node.changes)
    return _deleting(node, tuple(below), sent)


def _union_deletes(node: Node, wanted: Deletes) -> Node | None:
    below = []
    for each in node.inputs:
        made = _deletes(each, wanted if each.changes.has_deletes else "NONE")
        if made is None:
            return None
        below.append(made)
    sent = {made.changes.deletes for made in below}
    merged: Deletes = "KEY" if "KEY" in sent else "FULL" if "FULL" in sent else "NONE"
    return _deleting(node, tuple(below), merged)
