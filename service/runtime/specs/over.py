"""OVER aggregation: stream-exec-over-aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.over.calls import Constant
from operators.over.over_aggregate import OverSpec
from operators.spec import RowSpec
from service.plan.errors import InvalidExpression
from service.plan.rex import InputRef, Literal, parse_rex
from service.runtime.specs.aggregate_calls import over_calls
from service.runtime.specs.orders import sort_columns
from state.codec import CodecError
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode

_NOTHING: Final = LogicalType(TypeRoot.BOOLEAN)
"""The type of a constant that no call names."""


def over_spec(at: StatefulNode) -> OverSpec:
    """The operator of an OVER aggregation over a time attribute.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The frame is one that Flink has not over streams, or a function is.
    """
    over = at.properties.object("overSpec")
    groups = over.objects("groups", "a group of calls")
    if len(groups) != 1:
        raise at.refuse("windows of several frames", "overSpec", "groups")
    group = groups[0]
    row = at.inputs[0].output_type
    time_column = _time_column(at, group, row.children)
    constants = [_literal(entry, path) for entry, path in over.items("constants")]
    preceding = _preceding(at, group, constants, over.integer("originalInputFields", default=0))
    types = [
        *(each.with_nullable(True) for each in RowSpec.of(row).types),
        *(each.type.with_nullable(True) for each in constants),
    ]
    calls = over_calls(at, group, types, retracts=preceding is not None)
    named = {column for call in calls for column in call.arguments}
    width = len(row.children)
    return OverSpec.build(
        inputs=(at.partitioned(over.object("partition"), "fields"),),
        calls=tuple(calls),
        constants=tuple(
            _constant(at, each, number, is_named=width + number in named)
            for number, each in enumerate(constants)
        ),
        time_column=time_column,
        is_rows=group.flag("isRows"),
        preceding=preceding,
        **at.common,
    )


def _time_column(at: StatefulNode, group: JsonObject, types: Sequence[LogicalType]) -> int | None:
    """The row time that rows are ordered by; None: processing time."""
    fields = sort_columns(group.object("orderBy"), len(types))
    place = ("overSpec", "groups", 0, "orderBy")
    if len(fields) != 1 or fields[0].descending:
        raise at.refuse("another order than by one time, ascending", *place)
    column = fields[0].column
    attribute = types[column].time_attribute
    if attribute is None:
        raise at.refuse("an order by a column that is no time attribute", *place)
    return None if attribute == "PROCTIME" else column


def _preceding(
    at: StatefulNode, group: JsonObject, constants: Sequence[Literal], width: int
) -> int | None:
    """Where the frame begins: rows, or ms, before the current row; None: it does not."""
    lower, upper = group.object("lowerBound"), group.object("upperBound")
    if upper.text("kind") != "CURRENT_ROW":
        raise at.refuse("a frame that ends elsewhere than at the current row", "overSpec")
    kind = lower.text("kind")
    if kind == "UNBOUNDED_PRECEDING":
        return None
    if kind == "CURRENT_ROW":
        return 0
    if kind != "BOUNDED_WINDOW" or not lower.flag("isPreceding"):
        raise at.refuse("a frame that begins after the current row", "overSpec")
    literal = _offset(lower, constants, width)
    root = literal.type.root
    if root not in INTEGER_BITS and root is not TypeRoot.INTERVAL_DAY_TIME:
        raise at.refuse("a frame of months, or of a fraction", "overSpec", "constants")
    try:
        return int(str(literal.value))
    except ValueError as error:
        raise InvalidExpression("it says no beginning of a frame", path=literal.path) from error


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


def _literal(entry: Any, path: str) -> Literal:
    found = parse_rex(entry, path)
    if not isinstance(found, Literal):
        raise InvalidExpression("a constant of a window is a literal", path=path)
    return found


def _constant(at: StatefulNode, literal: Literal, number: int, *, is_named: bool) -> Constant:
    """A constant as calls take it; one that only says where the frame begins is not kept."""
    logical = literal.type.with_nullable(True)
    if not is_named:
        return Constant(type=_NOTHING, text="[null]")
    codec = RowSpec(types=(logical,), names=("value",)).codec()
    try:
        text = codec.encode(codec.decode_json([literal.value])).decode()
    except CodecError as error:
        raise at.refuse("a constant of this form", "overSpec", "constants", number) from error
    return Constant(type=logical, text=text)
