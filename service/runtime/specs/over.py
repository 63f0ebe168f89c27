"""OVER aggregation: stream-exec-over-aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.lag_lead import OFFSET_MAX, LagLeadSpec, Neighbour
from operators.over.calls import Constant
from operators.over.ordered_over import OrderedOverSpec
from operators.over.over_aggregate import OverSpec
from operators.spec import RowSpec
from service.plan.changelog_modes import node_modes, over_updates
from service.plan.type_json import parse_type_json
from service.runtime.specs.aggregate_calls import NEIGHBOURS, neighbour_calls, over_calls
from service.runtime.specs.orders import order_of, takes_back, time_columns
from state.codec import CodecError
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from operators.aggregate import AggregateCall
    from operators.over.positions import PositionCall
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode
    from service.runtime.specs.aggregate_calls import NeighbourCall

_NOTHING: Final = LogicalType(TypeRoot.BOOLEAN)
"""The type of a constant that no call names."""
_NEIGHBOURS: Final = frozenset(f"${name}$1" for name in NEIGHBOURS)


def over_spec(at: StatefulNode) -> OperatorSpec:
    """The operator of an OVER aggregation.

    In the order of time over inserts it is `OverAggregate`. Elsewhere rows change when others come
    or go: LAG and LEAD have `LagLead`, other functions `OrderedOver`.

    Raises:
        UnsupportedNode: The frame is one that Flink has not over streams, or a function is.
    """
    over = at.node.raw["overSpec"]
    groups = over["groups"]
    if len(groups) != 1:
        raise at.refuse("windows of several frames", "overSpec", "groups")
    names = {each.get("internalName") for each in groups[0]["aggCalls"]}
    is_final = not over_updates(at.node, node_modes(at.plan)[at.inputs[0].id])
    if not is_final and names & _NEIGHBOURS:
        return _lag_lead(at, groups[0])
    if _is_by_time(at, groups[0]) and not takes_back(at):
        return _over_time(at, groups[0])
    return _ordered(at, groups[0])


def _over_time(at: StatefulNode, group: Mapping[str, Any]) -> OverSpec:
    """Functions of rows in the order of time, each of which is final."""
    over = at.node.raw["overSpec"]
    time_column = _time_column(at, group, at.inputs[0].output_type.children)
    preceding = _preceding(at, group, over.get("constants") or (), _width(at))
    types = _types(at)
    calls = tuple(over_calls(at, types, retracts=preceding is not None))
    return OverSpec.build(
        inputs=(at.input(0, over["partition"]["fields"]),),
        calls=calls,
        constants=_constants(at, calls),
        time_column=time_column,
        is_rows=bool(group["isRows"]),
        preceding=preceding,
        **at.common,
    )


def _ordered(at: StatefulNode, group: Mapping[str, Any]) -> OrderedOverSpec:
    """Functions of rows in the order of columns, where rows come and go anywhere."""
    over = at.node.raw["overSpec"]
    place = ("overSpec", "groups", 0, "orderBy")
    if _is_by_time(at, group):
        raise at.refuse("OVER by a time attribute, over updates or deletes", *place)
    if _preceding(at, group, over.get("constants") or (), _width(at)) is not None:
        raise at.refuse("a frame with a beginning, in an order that is no time", "overSpec")
    row = at.input(0, over["partition"]["fields"])
    order = order_of(at, row, group["orderBy"], place)
    if not order:
        raise at.refuse("a window without an order", *place)
    calls = tuple(over_calls(at, _types(at), retracts=False))
    return OrderedOverSpec.build(
        inputs=(row,),
        calls=calls,
        constants=_constants(at, calls),
        order=order,
        is_rows=bool(group["isRows"]),
        proctime=time_columns(at, "PROCTIME"),
        **at.common,
    )


def _lag_lead(at: StatefulNode, group: Mapping[str, Any]) -> LagLeadSpec:
    """LAG and LEAD where rows come and go: in processing time, the order of arrival."""
    row = at.input(0, at.node.raw["overSpec"]["partition"]["fields"])
    order = order_of(at, row, group["orderBy"], ("overSpec", "groups", 0, "orderBy"))
    if not order:
        raise at.refuse("a window without an order", "overSpec", "groups", 0, "orderBy")
    types = at.inputs[0].output_type.children
    by_arrival = types[order[0].column].time_attribute == "PROCTIME"
    if by_arrival and (len(order) > 1 or order[0].descending):
        raise at.refuse("an order by processing time and more, or descending", "overSpec")
    return LagLeadSpec.build(
        inputs=(row,),
        neighbours=tuple(
            _neighbour(at, each, number)
            for number, each in enumerate(neighbour_calls(at, _types(at)))
        ),
        order=() if by_arrival else order,
        proctime=time_columns(at, "PROCTIME"),
        **at.common,
    )


def _neighbour(at: StatefulNode, call: NeighbourCall, number: int) -> Neighbour:
    place = ("overSpec", "groups", 0, "aggCalls", number)
    width, constants = _width(at), at.node.raw["overSpec"].get("constants") or ()
    column, *given = call.arguments
    if column >= width or any(each < width for each in given):
        raise at.refuse("LAG or LEAD of a constant, or by a column", *place, "argList")
    literals = [constants[each - width] for each in given]
    offset = literals[0]["value"] if literals else 1
    if not isinstance(offset, int) or not 0 <= offset <= OFFSET_MAX:
        raise at.refuse(f"an offset that is not from 0 to {OFFSET_MAX}", *place)
    default = None
    if len(literals) > 1:
        logical = call.result_type.with_nullable(True)
        default = _constant(at, literals[1], given[1] - width, logical)
    return Neighbour(function=call.function, column=column, offset=offset, default=default)


def _is_by_time(at: StatefulNode, group: Mapping[str, Any]) -> bool:
    """Whether the first column of the order is a time attribute."""
    fields = group["orderBy"]["fields"]
    types = at.inputs[0].output_type.children
    return bool(fields) and types[int(fields[0]["index"])].time_attribute is not None


def _time_column(
    at: StatefulNode, group: Mapping[str, Any], types: Sequence[LogicalType]
) -> int | None:
    """The row time that rows are ordered by; None: processing time."""
    fields = group["orderBy"]["fields"]
    place = ("overSpec", "groups", 0, "orderBy")
    if len(fields) != 1 or not fields[0]["isAscending"]:
        raise at.refuse("another order than by one time, ascending", *place)
    column = int(fields[0]["index"])
    return None if types[column].time_attribute == "PROCTIME" else column


def _preceding(
    at: StatefulNode, group: Mapping[str, Any], constants: Sequence[Any], width: int
) -> int | None:
    """Where the frame begins: rows, or ms, before the current row; None: it does not."""
    lower, upper = group["lowerBound"], group["upperBound"]
    if upper["kind"] != "CURRENT_ROW":
        raise at.refuse("a frame that ends elsewhere than at the current row", "overSpec")
    if lower["kind"] == "UNBOUNDED_PRECEDING":
        return None
    if lower["kind"] == "CURRENT_ROW":
        return 0
    if lower["kind"] != "BOUNDED_WINDOW" or not lower.get("isPreceding"):
        raise at.refuse("a frame that begins after the current row", "overSpec")
    offset = lower["offset"]
    literal = constants[offset["inputIndex"] - width] if "inputIndex" in offset else offset
    root = parse_type_json(literal["type"], at.node.path).root
    if root not in INTEGER_BITS and root is not TypeRoot.INTERVAL_DAY_TIME:
        raise at.refuse("a frame of months, or of a fraction", "overSpec", "constants")
    return int(literal["value"])


def _width(at: StatefulNode) -> int:
    """How many columns the input has: constants stand behind them."""
    return int(at.node.raw["overSpec"]["originalInputFields"])


def _types(at: StatefulNode) -> list[LogicalType]:
    """Columns of the input, and constants behind them."""
    columns = RowSpec.of(at.inputs[0].output_type).types
    constants = at.node.raw["overSpec"].get("constants") or ()
    return [
        *(each.with_nullable(True) for each in columns),
        *(_type_of(at, each, number) for number, each in enumerate(constants)),
    ]


def _type_of(at: StatefulNode, literal: Mapping[str, Any], number: int) -> LogicalType:
    path = f"{at.node.path}/overSpec/constants/{number}/type"
    return parse_type_json(literal["type"], path).with_nullable(True)


def _constants(
    at: StatefulNode, calls: Sequence[AggregateCall | PositionCall]
) -> tuple[Constant, ...]:
    """The constants as calls take them; one that only says where the frame begins is not kept."""
    named = {column for call in calls for column in call.arguments}
    width = len(at.inputs[0].output_type.children)
    return tuple(
        _constant(at, each, number, _type_of(at, each, number))
        if width + number in named
        else Constant(type=_NOTHING, text="[null]")
        for number, each in enumerate(at.node.raw["overSpec"].get("constants") or ())
    )


def _constant(
    at: StatefulNode, literal: Mapping[str, Any], number: int, logical: LogicalType
) -> Constant:
    """A constant as a value of a type."""
    codec = RowSpec(types=(logical,), names=("value",)).codec()
    try:
        text = codec.encode(codec.decode_json([literal["value"]])).decode()
    except CodecError as error:
        raise at.refuse("a constant of this form", "overSpec", "constants", number) from error
    return Constant(type=logical, text=text)
