"""Which kinds of change each node sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind
from service.sql.errors import PlanningError
from service.sql.physical.connectors import could_insert_only, source_mode
from service.sql.physical.descriptions import describe
from service.sql.physical.nodes import (
    INSERT_ONLY,
    AggregateSpec,
    CalcSpec,
    Changes,
    CorrelateSpec,
    ExchangeSpec,
    ExpandSpec,
    JoinSpec,
    LookupJoinSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    SinkSpec,
    TemporalJoinSpec,
    UnionSpec,
    ValuesSpec,
    WatermarkSpec,
)
from service.sql.physical.over import sends_updates
from service.sql.physical.ranks import first_rows_only, stays_in_flink
from service.sql.physical.window_specs import GroupWindowsSpec, WindowAggregateSpec, WindowTableSpec

if TYPE_CHECKING:
    from service.sql.options import Options

_ALL = Changes(has_updates=True, has_deletes=True)
_INSERTS = Changes()
_FORWARDING = (
    CalcSpec,
    CorrelateSpec,
    ExchangeSpec,
    ExpandSpec,
    WatermarkSpec,
    WindowTableSpec,
    LookupJoinSpec,
)


def with_kinds(node: Node, options: Options, *, may_overwrite: bool = False) -> Node:
    """The node and all below it, with the kinds that each sends.

    Args:
        node: A sink, or what is below it.
        options: What the session set.
        may_overwrite: Whether a first row may be said to stay that another one replaces, as Flink
            says, since whoever gets it keeps one row of each partition.

    Raises:
        PlanningError: A node cannot take what its input sends.
    """
    # What is below a rank is given to the rank, which keeps all that it is not told to forget.
    below = may_overwrite and not isinstance(node.spec, RankSpec)
    made = node.over(*(with_kinds(each, options, may_overwrite=below) for each in node.inputs))
    if may_overwrite and stays_in_flink(made, options):
        return made.sending(_INSERTS)
    return made.sending(_kinds_of(made, options))


def require_inserts(node: Node, requester: str, otherwise: str = "") -> None:
    """Refuse updates and deletes that reach a node that takes none.

    Args:
        node: What sends them.
        requester: Who takes none.
        otherwise: What the requester would have to be to take them.

    Raises:
        PlanningError: Some do; the hint names the option of a source that could do without.
    """
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
    raise PlanningError(
        f"{requester} doesn't support consuming {' and '.join(kinds)} changes which is produced "
        f"by node {describe(source)}",
        hint="; ".join(filter(None, (_hint(source), otherwise))),
    )


def _hint(source: Node) -> str:
    """What the user may do where a node is given changes that it does not take."""
    if not isinstance(source.spec, ScanSpec) or not could_insert_only(source.spec.table):
        return ""
    return f"if {source.spec.table.names[-1]} has inserts only, give it 'changelog-mode' = 'I'"


def _kinds_of(node: Node, options: Options) -> Changes:
    given = [each.changes for each in node.inputs]
    spec = node.spec
    if isinstance(spec, _FORWARDING):
        return given[0]
    if isinstance(spec, INSERT_ONLY):
        for each in node.inputs:
            require_inserts(each, _name(node))
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
        case WindowAggregateSpec() | GroupWindowsSpec():
            return _INSERTS
        case OverSpec() if sends_updates(node, spec):
            return _ALL
        case OverSpec():
            require_inserts(node.input, _name(node))
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
    if spec.kind == "limit":
        return _INSERTS if node.input.changes.is_insert_only else _ALL
    return _INSERTS if first_rows_only(node, spec, options) else _ALL


def _merged(given: list[Changes]) -> Changes:
    return Changes(
        has_updates=any(each.has_updates for each in given),
        has_deletes=any(each.has_deletes for each in given),
    )


def _name(node: Node) -> str:
    names = {"OverSpec": "OverAggregate"}
    kind = type(node.spec).__name__
    return f"StreamPhysical{names.get(kind, kind.removesuffix('Spec'))}"
