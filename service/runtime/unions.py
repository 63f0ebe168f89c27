"""Unions of unions as one: SQL's UNION ALL of many inputs is planned as unions of two.

Each union spreads order numbers, so that those of its inputs never meet: one of n multiplies them
by n, one behind the other of two by two each. Order numbers of Kafka's records leave no room for
twenty of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.nodes import Union

if TYPE_CHECKING:
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode


def is_merged(plan: CompiledPlan, node: ExecNode) -> bool:
    """Whether a node is a union whose rows go to another one only, which takes its inputs."""
    following = plan.outputs(node.id)
    return (
        isinstance(node.view, Union)
        and len(following) == 1
        and isinstance(following[0].view, Union)
    )


def united(plan: CompiledPlan, node: ExecNode) -> list[int]:
    """Ids of the nodes whose rows a union brings together, those of merged ones in their place."""
    found: list[int] = []
    waiting = [*reversed(plan.inputs(node.id))]
    while waiting:
        each = waiting.pop()
        if is_merged(plan, each):
            waiting += reversed(plan.inputs(each.id))
        else:
            found.append(each.id)
    return found
