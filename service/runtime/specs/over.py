"""OVER aggregation: stream-exec-over-aggregate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from operators.lag_lead import OFFSET_MAX, LagLeadSpec, Neighbour
from operators.over.calls import Constant
from operators.over.ordered_over import OrderedOverSpec
from operators.over.over_aggregate import OverSpec
from operators.spec import RowSpec
from service.plan.changelog_modes import node_modes, over_updates
from service.plan.errors import InvalidExpression
from service.plan.rex import InputRef, Literal, parse_rex
from service.runtime.specs.aggregate_calls import NEIGHBOURS, neighbour_calls, over_calls
from service.runtime.specs.orders import check_order, sort_columns, takes_back, time_columns
from state.codec import CodecError
from state.types import INTEGER_BITS, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import AggregateCall
    from operators.ordering import SortColumn
    from operators.over.positions import PositionCall
    from operators.spec import InputSpec, OperatorSpec
    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode
    from service.runtime.specs.aggregate_calls import NeighbourCall

_NOTHING: Final = LogicalType(TypeRoot.BOOLEAN)
"""The type of a constant that no call names."""
_NEIGHBOURS: Final = frozenset(f"${name}$1" for name in NEIGHBOURS)
_ORDER: Final = ("overSpec", "groups", 0, "orderBy")


def over_spec(at: StatefulNode) -> OperatorSpec:
    """The operator of an OVER aggregation.

    In the order of time over inserts it is `OverAggregate`. Elsewhere rows change when others come
    or go: LAG and LEAD have `LagLead`, other functions `OrderedOver`.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The frame is one that is not run, or a function is.
    """
    window = _Window.of(at)
    names = {
        each.get("internalName") for each in window.group.list("aggCalls") if isinstance(each, dict)
    }
    is_final = not over_updates(at.node, node_modes(at.plan)[at.inputs[0].id])
    if not is_final and names & _NEIGHBOURS:
        return _lag_lead(window)
    if window.is_by_time and not takes_back(at):
        return _over_time(window)
    return _ordered(window)


@dataclass(frozen=True, slots=True)
class _Window:
    """The only window of a node."""

    at: StatefulNode
    group: JsonObject
    """Its frame, order and calls."""
    row: InputSpec
    """The input, by partition."""
    constants: tuple[Literal, ...]
    """Behind the columns of the input."""
    order: tuple[SortColumn, ...]

    @classmethod
    def of(cls, at: StatefulNode) -> _Window:
        """The window of a node.

        Raises:
            PlanError: There is none.
            UnsupportedNode: There are several.
        """
        over = at.properties.object("overSpec")
        groups = over.objects("groups", "a group of calls")
        if len(groups) != 1:
            raise at.refuse("windows of several frames", "overSpec", "groups")
        row = at.partitioned(over.object("partition"), "fields")
        constants = tuple(_literal(entry, path) for entry, path in over.items("constants"))
        order = sort_columns(groups[0].object("orderBy"), len(row.types))
        return cls(at, groups[0], row, constants, order)

    @property
    def width(self) -> int:
        """How many columns stand before the constants."""
        return self.at.properties.object("overSpec").integer("originalInputFields", default=0)

    @property
    def types(self) -> list[LogicalType]:
        """Columns of the input, and constants behind them."""
        return [
            *(each.with_nullable(True) for each in self.row.types),
            *(each.type.with_nullable(True) for each in self.constants),
        ]

    @property
    def time_attribute(self) -> str | None:
        """What the first column of the order is, if it is a time."""
        types = self.at.inputs[0].output_type.children
        return types[self.order[0].column].time_attribute if self.order else None

    @property
    def is_by_time(self) -> bool:
        """Whether the first column of the order is a time attribute."""
        return self.time_attribute is not None

    @property
    def frame(self) -> dict[str, Any]:
        """What a spec of OVER has of the node, but its order."""
        return {"inputs": (self.row,), "is_rows": self.group.flag("isRows"), **self.at.common}

    def checked_order(self) -> tuple[SortColumn, ...]:
        """The order, of which sorted state can be kept.

        Raises:
            UnsupportedNode: It has no columns, or values of one have no order.
        """
        if not self.order:
            raise self.at.refuse("a window without an order", *_ORDER)
        return check_order(self.at, self.row, self.order, _ORDER)

    def constants_of(self, calls: Sequence[AggregateCall | PositionCall]) -> tuple[Constant, ...]:
        """The constants as calls take them; one that only says where the frame begins is not."""
        named = {column for call in calls for column in call.arguments}
        width = len(self.row.types)
        return tuple(
            _constant(self.at, each, number, each.type.with_nullable(True))
            if width + number in named
            else Constant(type=_NOTHING, text="[null]")
            for number, each in enumerate(self.constants)
        )


def _over_time(window: _Window) -> OverSpec:
    """Functions of rows in the order of time, each of which is final."""
    at, order = window.at, window.order
    if len(order) != 1 or order[0].descending:
        raise at.refuse("an order other than by one time, ascending", *_ORDER)
    preceding = _preceding(window)
    calls = tuple(over_calls(at, window.group, window.types, retracts=preceding is not None))
    return OverSpec.build(
        calls=calls,
        constants=window.constants_of(calls),
        time_column=None if window.time_attribute == "PROCTIME" else order[0].column,
        preceding=preceding,
        **window.frame,
    )


def _ordered(window: _Window) -> OrderedOverSpec:
    """Functions of rows in the order of columns, where rows come and go anywhere."""
    at = window.at
    if window.is_by_time:
        raise at.refuse("OVER by a time attribute, over updates or deletes", *_ORDER)
    if _preceding(window) is not None:
        raise at.refuse("a frame with a start, in an order that is not a time", "overSpec")
    calls = tuple(over_calls(at, window.group, window.types, retracts=False))
    return OrderedOverSpec.build(
        calls=calls,
        constants=window.constants_of(calls),
        order=window.checked_order(),
        proctime=time_columns(at, "PROCTIME"),
        **window.frame,
    )


def _lag_lead(window: _Window) -> LagLeadSpec:
    """LAG and LEAD where rows come and go: in processing time, the order of arrival."""
    at, order = window.at, window.checked_order()
    by_arrival = window.time_attribute == "PROCTIME"
    if by_arrival and (len(order) > 1 or order[0].descending):
        raise at.refuse("an order by processing time and more, or descending", *_ORDER)
    calls = neighbour_calls(at, window.group, window.types)
    return LagLeadSpec.build(
        inputs=(window.row,),
        neighbours=tuple(_neighbour(window, each, number) for number, each in enumerate(calls)),
        order=() if by_arrival else order,
        proctime=time_columns(at, "PROCTIME"),
        **at.common,
    )


def _neighbour(window: _Window, call: NeighbourCall, number: int) -> Neighbour:
    at, width = window.at, len(window.row.types)
    place = ("overSpec", "groups", 0, "aggCalls", number)
    column, *given = call.arguments
    if column >= width or any(each < width for each in given[:1]):
        raise at.refuse("LAG or LEAD of a constant, or by a column", *place, "argList")
    own = given[1] if len(given) > 1 and given[1] < width else None
    types = at.inputs[0].output_type.children
    if own is not None and not _are_alike(types[own], types[column]):
        raise at.refuse("a default of another type than the column's", *place, "argList", 2)
    literals = [window.constants[each - width] for each in given if each >= width]
    offset = literals[0].value if literals else 1
    if not isinstance(offset, int) or not 0 <= offset <= OFFSET_MAX:
        raise at.refuse(f"an offset that is not from 0 to {OFFSET_MAX}", *place)
    default = None
    if len(literals) > 1:
        logical = call.result_type.with_nullable(True)
        default = _constant(at, literals[1], given[1] - width, logical)
    return Neighbour(
        function=call.function,
        column=column,
        offset=offset,
        default=default,
        default_column=own,
    )


def _are_alike(one: LogicalType, other: LogicalType) -> bool:
    """Whether values of both are stored alike; of processing time none are stored."""
    if "PROCTIME" in (one.time_attribute, other.time_attribute):
        return False
    if one.root in STRING_ROOTS:
        return other.root in STRING_ROOTS
    first, second = (replace(e, nullable=True, time_attribute=None) for e in (one, other))
    return first == second


def _preceding(window: _Window) -> int | None:
    """Where the frame begins: rows, or ms, before the current row; None: it does not."""
    at = window.at
    lower, upper = window.group.object("lowerBound"), window.group.object("upperBound")
    if upper.text("kind") != "CURRENT_ROW":
        raise at.refuse("a frame that does not end at the current row", "overSpec")
    kind = lower.text("kind")
    if kind == "UNBOUNDED_PRECEDING":
        return None
    if kind == "CURRENT_ROW":
        return 0
    if kind != "BOUNDED_WINDOW" or not lower.flag("isPreceding"):
        raise at.refuse("a frame that begins after the current row", "overSpec")
    literal = _offset(lower, window.constants, window.width)
    root = literal.type.root
    if root not in INTEGER_BITS and root is not TypeRoot.INTERVAL_DAY_TIME:
        raise at.refuse("a frame of months, or of a fraction", "overSpec", "constants")
    try:
        return int(str(literal.value))
    except ValueError as error:
        raise InvalidExpression("it gives no start of a frame", path=literal.path) from error


def _offset(bound: JsonObject, constants: Sequence[Literal], width: int) -> Literal:
    """The constant that says how far a bound is, which it may refer to as a column."""
    found = parse_rex(bound.value.get("offset"), bound.at("offset"))
    if isinstance(found, InputRef):
        at = found.index - width
        if not 0 <= at < len(constants):
            raise bound.fail("offset", f"there is no constant {at}")
        return constants[at]
    if not isinstance(found, Literal):
        raise bound.fail("offset", "a bound is a constant")
    return found


def _literal(entry: object, path: str) -> Literal:
    found = parse_rex(entry, path)
    if not isinstance(found, Literal):
        raise InvalidExpression("a constant of a window is a literal", path=path)
    return found


def _constant(at: StatefulNode, literal: Literal, number: int, logical: LogicalType) -> Constant:
    """A constant as a value of a type."""
    codec = RowSpec(types=(logical,), names=("value",)).codec()
    try:
        text = codec.encode(codec.decode_json([literal.value])).decode()
    except CodecError as error:
        raise at.refuse("a constant of this form", "overSpec", "constants", number) from error
    return Constant(type=logical, text=text)
