"""Which rows of a node are in one partition already, because an operator before it needed them so.

A sink with a primary key wants all changes of a key in one partition, in order. Behind an operator
that is keyed by some of the key's columns they are: then another exchange would move every row
through the JVM and a shuffle for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.aggregate.group_aggregate import GroupAggregateSpec
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.deduplicate.spec import DeduplicateSpec
from operators.rank.spec import RankSpec
from service.plan.nodes import Calc, DropUpdateBefore, Exchange, Sink
from service.plan.rex import InputRef
from service.runtime.node_options import LENGTH_OPTION, enumerated

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.operators import OperatorInfo

_KEEPS_COLUMNS = (ChangelogNormalizeSpec, DeduplicateSpec, RankSpec)
"""Operators whose rows begin with the columns of their input."""


def is_together(
    plan: CompiledPlan,
    operators: Mapping[int, OperatorInfo],
    identities: Set[int],
    node: ExecNode,
) -> bool:
    """Whether all rows of each primary key of a sink come to it in one partition anyway.

    Args:
        plan: The plan.
        operators: By id of their nodes.
        identities: Ids of nodes that pass on what they get.
        node: The sink's.
    """
    sink = node.view
    if not isinstance(sink, Sink) or enumerated(node, LENGTH_OPTION) != "IGNORE":
        # Texts that are cut may become one key.
        return False
    (source,) = plan.inputs(node.id)
    columns = _together_by(plan, operators, identities, source)
    return columns is not None and columns <= set(sink.primary_key)


def _together_by(
    plan: CompiledPlan,
    operators: Mapping[int, OperatorInfo],
    identities: Set[int],
    node: ExecNode,
) -> frozenset[int] | None:
    """Columns by which equal rows of a node are in one partition; None: none are known."""
    operator = operators.get(node.id)
    if operator is not None:
        spec = operator.spec
        if isinstance(spec, GroupAggregateSpec):
            return frozenset(range(len(spec.inputs[0].key)))
        return frozenset(spec.inputs[0].key) if isinstance(spec, _KEEPS_COLUMNS) else None
    if node.id not in identities and not isinstance(node.view, Calc | DropUpdateBefore | Exchange):
        return None
    (source,) = plan.inputs(node.id)
    columns = _together_by(plan, operators, identities, source)
    if columns is None or not isinstance(node.view, Calc):
        return columns
    places = {
        rex.index: at for at, rex in enumerate(node.view.projection) if isinstance(rex, InputRef)
    }
    if not columns <= places.keys():
        return None
    return frozenset(places[each] for each in columns)
