"""A plan's calls of aggregate functions, as operators take them.

Source: Flink's `AggregateCallJsonSerializer` and `AggregateCallJsonDeserializer`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from operators.aggregate.call import ARGUMENTS, AggregateCall
from operators.over.positions import PositionCall, PositionFunction
from service.plan.properties import JsonObject
from service.plan.type_json import parse_type_json

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from service.runtime.specs import StatefulNode
    from state.types import LogicalType

Place = tuple[str | int, ...]
"""Of a call, below its node."""
NEIGHBOURS: Final = frozenset({"LAG", "LEAD"})
CallT = TypeVar("CallT", bound=BaseModel)
_INTERNAL_NAME = re.compile(r"\$(.+)\$\d+")
_POSITIONS: Final = frozenset(get_args(PositionFunction))


class NeighbourCall(NamedTuple):
    """A call of LAG or LEAD."""

    function: Literal["LAG", "LEAD"]
    arguments: tuple[int, ...]
    """Columns of the value, the offset and the default: of constants behind the input's."""
    result_type: LogicalType


def aggregate_calls(
    at: StatefulNode, name: str, types: Sequence[LogicalType], retracts: str | bool
) -> tuple[AggregateCall, ...]:
    """The calls in a property of a node.

    Args:
        at: The node.
        name: The property: `aggCalls`, for example.
        types: Columns of the rows that the calls are about.
        retracts: Whether rows may be taken back, or the property that says so of each call.

    Raises:
        UnsupportedNode: A function, or how it is called, is not run.
    """
    given = at.node.raw.get(name)
    if not isinstance(given, list):
        raise at.refuse("aggregate calls must be a list", name)
    flags = _flags(at, retracts, len(given)) if isinstance(retracts, str) else None
    made: list[AggregateCall] = []
    for number, each in enumerate(given):
        place: Place = (name, number)
        fields = _fields(at, each, types, place, ARGUMENTS)
        takes_back = retracts is True if flags is None else flags[number]
        made.append(_aggregate(at, each, types, place, fields, retracts=takes_back))
    return tuple(made)


def _flags(at: StatefulNode, name: str, count: int) -> list[bool]:
    """A list of so many flags; null in it is false, as in Flink."""
    given = at.properties
    found = [
        JsonObject({name: each}, given.path, given.node_id).flag(name)
        for each in given.list(name, is_optional=True)
    ]
    if found and len(found) != count:
        raise at.refuse("there must be one flag for each aggregate call", name)
    return found or [False] * count


def over_calls(
    at: StatefulNode, group: JsonObject, types: Sequence[LogicalType], *, retracts: bool
) -> list[AggregateCall | PositionCall]:
    """The calls of an OVER node of one frame, which may be of functions that only OVER has.

    Args:
        at: The node.
        group: The frame and its calls.
        types: Columns of its input, and constants behind them.
        retracts: Whether rows leave the frame.

    Raises:
        UnsupportedNode: A function, or how it is called, is not run.
    """
    made: list[AggregateCall | PositionCall] = []
    for number, each in enumerate(group.list("aggCalls")):
        place: Place = ("overSpec", "groups", 0, "aggCalls", number)
        fields = _fields(at, each, types, place, _POSITIONS | ARGUMENTS.keys())
        if fields["function"] in _POSITIONS:
            made.append(_made(PositionCall, at, place, fields))
        else:
            made.append(_aggregate(at, each, types, place, fields, retracts=retracts))
    return made


def neighbour_calls(
    at: StatefulNode, group: JsonObject, types: Sequence[LogicalType]
) -> list[NeighbourCall]:
    """The calls of an OVER node that has LAG and LEAD alone.

    Args:
        at: The node.
        group: The frame and its calls.
        types: Columns of its input, and constants behind them.

    Raises:
        UnsupportedNode: It has other functions, or one of them has a filter.
    """
    made: list[NeighbourCall] = []
    for number, each in enumerate(group.list("aggCalls")):
        place: Place = ("overSpec", "groups", 0, "aggCalls", number)
        fields = _fields(at, each, types, place, NEIGHBOURS)
        if fields["filter"] is not None:
            raise at.refuse("LAG or LEAD with a filter", *place, "filterArg")
        if not 1 <= len(fields["arguments"]) <= 3:
            raise at.refuse("LAG and LEAD take 1 to 3 arguments", *place, "argList")
        made.append(NeighbourCall(fields["function"], fields["arguments"], fields["result_type"]))
    return made


def columns(at: StatefulNode, name: str, count: int, *, given: object = None) -> tuple[int, ...]:
    """A property that is a list of columns of a row with so many.

    Raises:
        UnsupportedNode: It is none.
    """
    found = at.node.raw.get(name) if given is None else given
    if isinstance(found, list):
        # As Flink reads it.
        found = [0 if each is None else each for each in found]
    if not isinstance(found, list) or not all(_is_column(each, count) for each in found):
        raise at.refuse(f"it must be a list of columns below {count}", name)
    return tuple(found)


def flag(at: StatefulNode, name: str) -> bool:
    """A property that is true or false; false where it is missing, as in Flink.

    Raises:
        PlanError: It is neither.
    """
    return at.properties.flag(name)


def _aggregate(
    at: StatefulNode,
    given: Mapping[str, Any],
    types: Sequence[LogicalType],
    place: Place,
    fields: dict[str, Any],
    *,
    retracts: bool,
) -> AggregateCall:
    if given.get("approximate"):
        raise at.refuse("approximate aggregates", *place, "approximate")
    more = {
        "argument_types": tuple(types[each] for each in fields["arguments"]),
        "is_distinct": bool(given.get("distinct", False)),
        "needs_retraction": retracts,
        # The other functions ignore null whether the call says so or not.
        "ignores_null": fields["function"] != "ARRAY_AGG" or bool(given.get("ignoreNulls", False)),
    }
    return _made(AggregateCall, at, place, fields | more)


def _fields(
    at: StatefulNode,
    given: Mapping[str, Any],
    types: Sequence[LogicalType],
    place: Place,
    known: Container[str],
) -> dict[str, Any]:
    """What is said of a call of any function."""
    function = _function(at, given, place, known)
    arguments = columns(at, "argList", len(types), given=given.get("argList") or [])
    chosen = given.get("filterArg", -1)
    if chosen != -1 and not _is_column(chosen, len(types)):
        raise at.refuse("the filter is not a column of the input", *place, "filterArg")
    path = "/".join([at.node.path, *map(str, place), "type"])
    return {
        "function": function,
        "name": given.get("name") or function.strip("$").lower(),
        "arguments": arguments,
        # A time attribute says how a value came about, not what it is.
        "result_type": replace(parse_type_json(given.get("type"), path), time_attribute=None),
        "filter": None if chosen == -1 else chosen,
    }


def _made(kind: type[CallT], at: StatefulNode, place: Place, fields: dict[str, Any]) -> CallT:
    try:
        return kind(**fields)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        raise at.refuse(found["msg"].removeprefix("Value error, "), *place) from error


def _function(at: StatefulNode, given: object, place: Place, known: Container[str]) -> str:
    if not isinstance(given, dict):
        raise at.refuse("an aggregate call must be an object", *place)
    for key in ("catalogName", "class", "systemName"):
        if key in given:
            raise at.refuse("functions of users do not aggregate here yet", *place, key)
    named = _INTERNAL_NAME.fullmatch(str(given.get("internalName")))
    if named is None or named[1] not in known:
        shown = named[1] if named else "without a name"
        raise at.refuse(f"the function {shown}", *place, "internalName")
    return named[1]


def _is_column(value: object, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
