"""Deduplicate nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from operators.deduplicate.spec import DeduplicateSpec
from service.runtime.specs.orders import MINI_BATCH, is_enabled, takes_back, time_columns

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode

_SENSITIVE: Final = "table.exec.deduplicate.insert-update-after-sensitive-enabled"
_COMPACT: Final = (
    "table.exec.deduplicate.mini-batch.compact-changes-enabled",
    "table.exec.deduplicate.mini-batch.compact-changes",
)
"""The option, and its name in older plans."""


def deduplicate_spec(at: StatefulNode) -> OperatorSpec:
    """A Deduplicate node. Its input takes rows back in plans that Flink would not make.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: There is no column of event time; or first rows of a changelog are to be
            emitted for good.
    """
    given = at.properties
    keeps_last, retracts = given.flag("keepLastRow"), takes_back(at)
    rowtime = None
    if given.flag("isRowtime"):
        columns = time_columns(at, "ROWTIME")
        if not columns:
            raise at.refuse("its input has no column of event time", "isRowtime")
        rowtime = columns[0]
    insert_only = given.flag("outputInsertOnly")
    if insert_only and retracts:
        raise at.refuse(
            "a first row cannot be final while the input takes rows back", "outputInsertOnly"
        )
    return DeduplicateSpec.build(
        inputs=(at.partitioned(given, "uniqueKeys"),),
        keeps_last=keeps_last,
        rowtime=rowtime,
        proctime=time_columns(at, "PROCTIME"),
        once=insert_only and rowtime is not None,
        update_before=given.flag("generateUpdateBefore"),
        tells_inserts=is_enabled(at, _SENSITIVE, default=True),
        compacts=any(is_enabled(at, each) for each in _COMPACT),
        retracts=retracts,
        bundles=is_enabled(at, MINI_BATCH),
        **at.common,
    )
