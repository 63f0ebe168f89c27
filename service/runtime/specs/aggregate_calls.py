"""A plan's aggregate calls, as operators take them.

Source: Flink's `AggregateCallJsonSerializer` and `AggregateCallJsonDeserializer`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from operators.aggregate.call import ARGUMENTS, AggregateCall
from service.plan.type_json import parse_type_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.specs import StatefulNode
    from state.types import LogicalType

_INTERNAL_NAME = re.compile(r"\$(.+)\$\d+")


def aggregate_calls(
    at: StatefulNode, name: str, types: Sequence[LogicalType], retractions: str | None = None
) -> tuple[AggregateCall, ...]:
    """The calls in a property of a node.

    Args:
        at: The node.
        name: The property: `aggCalls`, for example.
        types: Columns of the rows that the calls are about; constants behind them, where the node
            has some.
        retractions: The property that says of each call whether rows may be taken back; None: of
            none.

    Raises:
        UnsupportedNode: A function, or how it is called, is not run.
    """
    given = at.node.raw.get(name)
    flags = at.node.raw.get(retractions) if retractions else None
    if not isinstance(given, list):
        raise at.refuse("aggregate calls must be a list", name)
    if flags is None:
        flags = [False] * len(given)
    if not isinstance(flags, list) or len(flags) != len(given):
        raise at.refuse("there must be one flag for each aggregate call", retractions or name)
    pairs = zip(given, flags, strict=True)
    return tuple(
        _call(at, each, types, (name, place), needs_retraction=flag is True)
        for place, (each, flag) in enumerate(pairs)
    )


def columns(at: StatefulNode, name: str, count: int, *, given: Any = None) -> tuple[int, ...]:
    """A property that is a list of columns of a row with so many.

    Raises:
        UnsupportedNode: It is none.
    """
    found = at.node.raw.get(name) if given is None else given
    if not isinstance(found, list) or not all(_is_column(each, count) for each in found):
        raise at.refuse(f"it must be a list of columns below {count}", name)
    return tuple(found)


def flag(at: StatefulNode, name: str, *, default: bool = False) -> bool:
    """A property that is true or false.

    Raises:
        UnsupportedNode: It is neither.
    """
    found = at.node.raw.get(name, default)
    if not isinstance(found, bool):
        raise at.refuse("it must be true or false", name)
    return found


def _call(
    at: StatefulNode,
    given: Any,
    types: Sequence[LogicalType],
    place: tuple[str, int],
    *,
    needs_retraction: bool,
) -> AggregateCall:
    if not isinstance(given, dict):
        raise at.refuse("an aggregate call must be an object", *place)
    function = _function(at, given, place)
    if given.get("approximate"):
        raise at.refuse("approximate aggregates", *place, "approximate")
    arguments = columns(at, "argList", len(types), given=given.get("argList") or [])
    chosen = given.get("filterArg", -1)
    if chosen != -1 and not _is_column(chosen, len(types)):
        raise at.refuse("the filter is not a column of the input", *place, "filterArg")
    path = "/".join([at.node.path, *map(str, place), "type"])
    # A time attribute says how a value came about, not what it is.
    result = replace(parse_type_json(given.get("type"), path), time_attribute=None)
    # The other functions ignore null whether the call says so or not.
    ignores_null = function != "ARRAY_AGG" or bool(given.get("ignoreNulls", False))
    try:
        return AggregateCall(
            function=function,
            name=given.get("name") or function.strip("$").lower(),
            arguments=arguments,
            argument_types=tuple(types[each] for each in arguments),
            result_type=result,
            is_distinct=bool(given.get("distinct", False)),
            filter=None if chosen == -1 else chosen,
            needs_retraction=needs_retraction,
            ignores_null=ignores_null,
        )
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False)[0]
        raise at.refuse(found["msg"].removeprefix("Value error, "), *place) from error


def _function(at: StatefulNode, given: dict[str, Any], place: tuple[str, int]) -> str:
    for key in ("catalogName", "class", "systemName"):
        if key in given:
            raise at.refuse("functions of users do not aggregate here yet", *place, key)
    named = _INTERNAL_NAME.fullmatch(str(given.get("internalName")))
    if named is None or named[1] not in ARGUMENTS:
        shown = named[1] if named else "without a name"
        raise at.refuse(f"aggregate function {shown}", *place, "internalName")
    return named[1]


def _is_column(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
