"""ChangelogNormalize nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog_normalize import ChangelogNormalizeSpec
from service.runtime.specs.join_spec import condition_of
from service.runtime.specs.orders import MINI_BATCH, is_enabled

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def changelog_normalize_spec(at: StatefulNode) -> OperatorSpec:
    """A ChangelogNormalize node.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The filter that it took over is not evaluated by operators.
    """
    given = at.properties
    return ChangelogNormalizeSpec.build(
        inputs=(at.partitioned(given, "uniqueKeys"),),
        update_before=given.flag("generateUpdateBefore"),
        condition=condition_of(at, at.node.raw.get("filterCondition"), "filterCondition"),
        bundles=is_enabled(at, MINI_BATCH),
        **at.common,
    )
