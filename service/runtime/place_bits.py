"""How much of a place (`_seq`, 62 bits) each correlate takes, and what it leaves to stages before.

A correlate puts the number of a row that it made behind the place of that row's cause. So where
several follow each other their numbers stand side by side, and together with what the stage before
them gave they have to fit. How many follow each other is known from the plan; how many rows each
makes of one is not, so each gets an equal share.

    from a source   places begin as 0: all bits are for the correlates
    behind a stage  the stage's emissions need some; it gives no more than what is left
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from operators.wire import PLACE_BITS
from service.plan.nodes import Correlate
from service.runtime.dataflow_errors import UnsupportedNode

if TYPE_CHECKING:
    from collections.abc import Collection

    from service.plan import CompiledPlan

CORRELATE_BITS_MAX = 20
"""A million rows made of one row, where no other correlate needs the room."""
_CORRELATE_BITS_MIN = 4
_BEHIND_STAGE = 36
"""Bits for all correlates between a stage and the next: the stage keeps 26, for 67 million changes
of an epoch that it has no room to put in the order of their causes."""


@dataclass(frozen=True, slots=True)
class PlaceBits:
    """The shares of a plan's nodes."""

    correlates: dict[int, int] = field(default_factory=dict)
    """By correlate: bits of the numbers of rows that it makes of one row."""
    followers: dict[int, int] = field(default_factory=dict)
    """By correlate: how many follow each other where it stands, itself among them."""
    stages: dict[int, int] = field(default_factory=dict)
    """By node with a stage: bits of the places that it may give its emissions."""


def place_bits(plan: CompiledPlan, stages: Collection[int]) -> PlaceBits:
    """The shares of all correlates and stages.

    Args:
        plan: Its nodes come in the order of their edges.
        stages: Nodes whose operators number what they emit anew.

    Raises:
        UnsupportedNode: More correlates follow each other than can be told apart.
    """
    before: dict[int, int] = {}
    after = {node.id: 0 for node in plan.nodes}
    is_behind_stage: dict[int, bool] = {}
    inputs = {node.id: [each.id for each in plan.inputs(node.id)] for node in plan.nodes}
    adds = {node.id: int(isinstance(node.view, Correlate)) for node in plan.nodes}
    for node in plan.nodes:
        is_stage = node.id in stages
        known = [] if is_stage else inputs[node.id]
        before[node.id] = max((before[each] for each in known), default=0) + adds[node.id]
        is_behind_stage[node.id] = is_stage or any(is_behind_stage[each] for each in known)
    for node in reversed(plan.nodes):
        for each in () if node.id in stages else inputs[node.id]:
            after[each] = max(after[each], after[node.id] + adds[node.id])

    found = PlaceBits()
    for node in plan.nodes:
        if adds[node.id]:
            count = before[node.id] + after[node.id]
            room = _BEHIND_STAGE if is_behind_stage[node.id] else PLACE_BITS
            bits = min(CORRELATE_BITS_MAX, room // count)
            if bits < _CORRELATE_BITS_MIN:
                raise UnsupportedNode(
                    f"{count} calls of UNNEST or other table functions follow each other",
                    hint="write the result of the first ones to a table of another pipeline",
                    node_id=node.id,
                    path=node.path,
                )
            found.correlates[node.id], found.followers[node.id] = bits, count
    taken = {node.id: 0 for node in plan.nodes}
    for node in reversed(plan.nodes):
        for each in () if node.id in stages else inputs[node.id]:
            own = found.correlates.get(node.id, 0)
            taken[each] = max(taken[each], taken[node.id] + own)
    found.stages.update({each: PLACE_BITS - taken[each] for each in stages})
    return found
