"""Rank nodes: the first rows of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.rank.spec import RankSpec
from service.runtime.specs.orders import order_of, time_columns

if TYPE_CHECKING:
    from operators.spec import InputSpec, OperatorSpec
    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode

_STRATEGIES: Final = {"AppendFast": "append", "UpdateFast": "update", "Retract": "retract"}
_UNLIMITED: Final = (1 << 63) - 1
"""How a plan writes OFFSET without a limit."""


def rank_spec(at: StatefulNode) -> OperatorSpec:
    """A Rank node.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: RANK and DENSE_RANK, which Flink refuses on streams, too; no strategy.
    """
    given = at.properties
    if given.text("rankType") != "ROW_NUMBER":
        raise at.refuse("on a stream rows are ranked by ROW_NUMBER only", "rankType")
    row = at.partitioned(given.object("partition"), "fields")
    return ranked(at, row, with_number=given.flag("outputRowNumber"))


def ranked(at: StatefulNode, row: InputSpec, *, with_number: bool) -> OperatorSpec:
    """What Rank, Limit and SortLimit nodes have in common, over this input."""
    given = at.properties
    declared = given.object("rankStrategy")
    strategy = _STRATEGIES.get(name := declared.text("type"))
    if strategy is None:
        raise at.refuse(f"strategy {name} cannot be run", "rankStrategy", "type")
    return RankSpec.build(
        inputs=(row,),
        strategy=strategy,
        unique_key=declared.columns("primaryKeys", at.width()) if strategy == "update" else (),
        with_number=with_number,
        update_before=given.flag("generateUpdateBefore"),
        **_order(at, row, strategy),
        **_range(at),
        **at.common,
    )


def _order(at: StatefulNode, row: InputSpec, strategy: str) -> dict[str, Any]:
    """The order without processing time: that says nothing but who came first.

    In Flink such a column is null in a rank, so all rows are equal by it.
    """
    order = order_of(at, row)
    proctime = time_columns(at, "PROCTIME")
    others = tuple(each for each in order if each.column not in proctime)
    newest_first = strategy == "retract" and not others and bool(order) and order[0].descending
    return {"order": others, "proctime": proctime, "newest_first": newest_first}


def _range(at: StatefulNode) -> dict[str, Any]:
    declared = at.properties.object("rankRange")
    match declared.text("type"):
        case "Constant":
            end = declared.long("end", 0)
            return {"start": _start(declared), "end": None if end >= _UNLIMITED else end}
        case "Variable":
            return {"end_column": declared.column("endIndex", at.width())}
        case "ConstantWithoutEnd":
            return {"start": _start(declared)}
        case other:
            raise at.refuse(f"a range of type {other} cannot be run", "rankRange", "type")


def _start(declared: JsonObject) -> int:
    """The first rank; there is none before 1, which is what a missing 0 means, too."""
    return max(1, declared.long("start", 0))
