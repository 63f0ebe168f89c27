"""`stream-exec-join`: a regular join of two changelogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from service.runtime.specs.join_spec import (
    JoinKeys,
    condition_of,
    joined_inputs,
    keys_of,
    unique_key,
)

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode

_ASSIGNER = "stream-exec-mini-batch-assigner"


def join_spec(at: StatefulNode) -> OperatorSpec:
    """The spec of a join.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: It compares columns of different types, or its condition is not evaluated.
    """
    given = at.properties
    join = given.object("joinSpec")
    join_type = join.text("joinType")
    keys = JoinKeys.of(join).each_once()
    declared = join.value.get("nonEquiCondition")
    # Before 2.0 they are named unique keys.
    of_left = keys_of(given, ("leftUpsertKeys", "leftUniqueKeys"), at.width(0))
    of_right = keys_of(given, ("rightUpsertKeys", "rightUniqueKeys"), at.width(1))
    fields = {
        **at.common,
        "inputs": joined_inputs(at, keys, "joinSpec"),
        "join_type": join_type,
        "unique_keys": (unique_key(of_left, keys.left), unique_key(of_right, keys.right)),
        "filter_nulls": keys.filter_nulls,
        "equalities": keys.equalities,
        "null_equalities": keys.null_equalities,
        "condition": condition_of(at, declared, "joinSpec", "nonEquiCondition"),
    }
    if join_type in ("SEMI", "ANTI"):
        return SemiAntiJoinSpec.build(**fields)
    # The node's configuration does not tell whether mini-batch was on; its assigners do.
    bundles = any(node.type == _ASSIGNER for node in at.plan.nodes)
    return StreamingJoinSpec.build(**fields, bundles=bundles)
