"""ChangelogNormalize nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.unavailable import PLACEHOLDER
from service.plan.nodes import DropUpdateBefore, Exchange, TableScan
from service.runtime.sources.formats import DEBEZIUM, UNAVAILABLE
from service.runtime.specs.join_spec import condition_of
from service.runtime.specs.orders import MINI_BATCH, is_enabled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def changelog_normalize_spec(at: StatefulNode) -> OperatorSpec:
    """A ChangelogNormalize node.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The filter that it took over is not evaluated by operators.
    """
    given = at.properties
    options = _source_options(at)
    is_debezium = options.get("format") == DEBEZIUM
    return ChangelogNormalizeSpec.build(
        inputs=(at.partitioned(given, "uniqueKeys"),),
        update_before=given.flag("generateUpdateBefore"),
        condition=condition_of(at, at.node.raw.get("filterCondition"), "filterCondition"),
        bundles=is_enabled(at, MINI_BATCH),
        placeholder=options.get(UNAVAILABLE, PLACEHOLDER) if is_debezium else None,
        fails_on_unavailable=at.options is not None and at.options.on_malformed == "fail",
        **at.common,
    )


def _source_options(at: StatefulNode) -> Mapping[str, str]:
    """The options of the table that the node normalizes; empty if it is not a table alone."""
    (node,) = at.inputs
    while isinstance(node.view, DropUpdateBefore | Exchange):
        (node,) = at.plan.inputs(node.id)
    if not isinstance(node.view, TableScan):
        return {}
    # Of `kafka` formats may be those of values.
    given = node.view.table.options
    return {name.removeprefix("value."): text for name, text in given.items()}
