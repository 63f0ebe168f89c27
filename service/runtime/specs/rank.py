"""Rank nodes: the first rows of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.rank.spec import RankSpec
from service.runtime.specs.orders import order_of, time_columns

if TYPE_CHECKING:
    from operators.spec import InputSpec, OperatorSpec
    from service.runtime.specs import StatefulNode

_STRATEGIES: Final = {"AppendFast": "append", "UpdateFast": "update", "Retract": "retract"}
_UNLIMITED: Final = (1 << 63) - 1
"""How a plan writes OFFSET without a limit."""


def rank_spec(at: StatefulNode) -> OperatorSpec:
    """A Rank node; Limit and SortLimit have the same properties.

    Raises:
        UnsupportedNode: RANK and DENSE_RANK, which Flink refuses on streams, too; no strategy.
    """
    raw = at.node.raw
    if raw.get("rankType", "ROW_NUMBER") != "ROW_NUMBER":
        raise at.refuse("on a stream rows are ranked by ROW_NUMBER only", "rankType")
    declared = raw["rankStrategy"]
    strategy = _STRATEGIES.get(declared.get("type"))
    if strategy is None:
        raise at.refuse(f"strategy {declared.get('type')} cannot be run", "rankStrategy", "type")
    row = at.input(0, (raw.get("partition") or {}).get("fields", ()))
    return RankSpec.build(
        inputs=(row,),
        strategy=strategy,
        unique_key=tuple(declared["primaryKeys"]) if strategy == "update" else (),
        with_number=raw.get("outputRowNumber", False),
        update_before=raw.get("generateUpdateBefore", True),
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
    declared = at.node.raw["rankRange"]
    match declared.get("type"):
        case "Constant":
            end = declared["end"]
            return {"start": declared["start"], "end": None if end >= _UNLIMITED else end}
        case "Variable":
            return {"end_column": declared["endIndex"]}
        case "ConstantWithoutEnd":
            return {"start": declared["start"]}
        case other:
            raise at.refuse(f"a range of type {other} cannot be run", "rankRange", "type")
