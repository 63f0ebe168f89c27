"""ChangelogNormalize nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog_normalize import ChangelogNormalizeSpec
from service.plan.rex import parse_rex
from service.runtime.specs.orders import MINI_BATCH, is_enabled

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def changelog_normalize_spec(at: StatefulNode) -> OperatorSpec:
    """A ChangelogNormalize node."""
    raw = at.node.raw
    return ChangelogNormalizeSpec.build(
        inputs=(at.input(0, raw["uniqueKeys"]),),
        update_before=raw["generateUpdateBefore"],
        condition=_condition(at),
        bundles=is_enabled(at, MINI_BATCH),
        **at.common,
    )


def _condition(at: StatefulNode) -> Any:
    """The filter that the node took over, for the spec."""
    declared = at.node.raw.get("filterCondition")
    if declared is None:
        return None
    # It comes with another branch: the ignore goes when both are merged.
    from operators.expressions import rex_to_json

    return rex_to_json(parse_rex(declared, f"{at.node.path}/filterCondition"))
