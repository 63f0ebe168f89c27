"""OVER aggregation: stream-exec-over-aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.over.calls import Constant
from operators.over.over_aggregate import OverSpec
from operators.spec import RowSpec
from service.plan.type_json import parse_type_json
from service.runtime.specs.aggregate_calls import over_calls
from state.codec import CodecError
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.runtime.specs import StatefulNode

_NOTHING: Final = LogicalType(TypeRoot.BOOLEAN)
"""The type of a constant that no call names."""


def over_spec(at: StatefulNode) -> OverSpec:
    """The operator of an OVER aggregation over a time attribute.

    Raises:
        UnsupportedNode: The frame is one that Flink has not over streams, or a function is.
    """
    over = at.node.raw["overSpec"]
    groups = over["groups"]
    if len(groups) != 1:
        raise at.refuse("windows of several frames", "overSpec", "groups")
    group = groups[0]
    row = at.inputs[0].output_type
    time_column = _time_column(at, group, row.children)
    constants = over.get("constants") or ()
    preceding = _preceding(at, group, constants, int(over["originalInputFields"]))
    types = [
        *(each.with_nullable(True) for each in RowSpec.of(row).types),
        *(_type_of(at, each, number) for number, each in enumerate(constants)),
    ]
    calls = over_calls(at, types, retracts=preceding is not None)
    named = {column for call in calls for column in call.arguments}
    width = len(row.children)
    return OverSpec.build(
        inputs=(at.input(0, over["partition"]["fields"]),),
        calls=tuple(calls),
        constants=tuple(
            _constant(at, each, number, is_named=width + number in named)
            for number, each in enumerate(constants)
        ),
        time_column=time_column,
        is_rows=bool(group["isRows"]),
        preceding=preceding,
        **at.common,
    )


def _time_column(
    at: StatefulNode, group: Mapping[str, Any], types: Sequence[LogicalType]
) -> int | None:
    """The row time that rows are ordered by; None: processing time."""
    fields = group["orderBy"]["fields"]
    place = ("overSpec", "groups", 0, "orderBy")
    if len(fields) != 1 or not fields[0]["isAscending"]:
        raise at.refuse("another order than by one time, ascending", *place)
    column = int(fields[0]["index"])
    attribute = types[column].time_attribute
    if attribute is None:
        raise at.refuse("an order by a column that is no time attribute", *place)
    return None if attribute == "PROCTIME" else column


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


def _type_of(at: StatefulNode, literal: Mapping[str, Any], number: int) -> LogicalType:
    path = f"{at.node.path}/overSpec/constants/{number}/type"
    return parse_type_json(literal["type"], path).with_nullable(True)


def _constant(
    at: StatefulNode, literal: Mapping[str, Any], number: int, *, is_named: bool
) -> Constant:
    """A constant as calls take it; one that only says where the frame begins is not kept."""
    logical = _type_of(at, literal, number)
    if not is_named:
        return Constant(type=_NOTHING, text="[null]")
    codec = RowSpec(types=(logical,), names=("value",)).codec()
    try:
        text = codec.encode(codec.decode_json([literal["value"]])).decode()
    except CodecError as error:
        raise at.refuse("a constant of this form", "overSpec", "constants", number) from error
    return Constant(type=logical, text=text)
