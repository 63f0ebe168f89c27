"""Aggregate calls of OVER and window nodes, out of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from operators.aggregate.call import ARGUMENTS, AggregateCall
from operators.over.positions import PositionCall, PositionFunction
from service.plan.type_json import parse_type_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.specs import StatefulNode
    from state.types import LogicalType

_POSITIONS: Final[tuple[str, ...]] = get_args(PositionFunction)


def aggregate_calls(
    at: StatefulNode, calls: Any, types: Sequence[LogicalType], path: str, *, retracts: bool
) -> list[AggregateCall]:
    """The aggregate functions of a node.

    Args:
        at: The node.
        calls: The value of the property that lists them.
        types: Columns that they name.
        path: The property's place, below the node.
        retracts: Whether rows are taken back.

    Raises:
        UnsupportedNode: One of them is not run, or of a catalog.
    """
    made = over_calls(at, calls, types, path, retracts=retracts, positions=())
    return [each for each in made if isinstance(each, AggregateCall)]


def over_calls(
    at: StatefulNode,
    calls: Any,
    types: Sequence[LogicalType],
    path: str,
    *,
    retracts: bool,
    positions: Sequence[str] = _POSITIONS,
) -> list[AggregateCall | PositionCall]:
    """The same with the functions that only OVER has; see `aggregate_calls`."""
    made: list[AggregateCall | PositionCall] = []
    for number, call in enumerate(calls):
        name = str(call.get("internalName", ""))
        function = name[1:].rpartition("$")[0]
        if function not in ARGUMENTS and function not in positions:
            shown = function or call.get("catalogName") or call.get("class") or "?"
            raise at.refuse(f"the function {shown}", f"{path}/{number}")
        if call.get("approximate"):
            raise at.refuse("APPROX functions", f"{path}/{number}/approximate")
        result = parse_type_json(call["type"], f"{at.node.path}/{path}/{number}/type")
        arguments = tuple(call.get("argList", ()))
        filter_column = call.get("filterArg", -1)
        common: dict[str, Any] = {
            "function": function,
            "name": call.get("name") or f"{function.strip('$').lower()}_{number}",
            "arguments": arguments,
            "result_type": result,
            "filter": filter_column if filter_column >= 0 else None,
        }
        try:
            if function in positions:
                made.append(PositionCall(**common))
            else:
                made.append(
                    AggregateCall(
                        **common,
                        argument_types=tuple(types[column] for column in arguments),
                        is_distinct=bool(call.get("distinct")),
                        needs_retraction=retracts,
                        ignores_null=function != "ARRAY_AGG" or bool(call.get("ignoreNulls")),
                    )
                )
        except ValidationError as error:
            found = error.errors(include_input=False, include_url=False)[0]
            raise at.refuse(
                found["msg"].removeprefix("Value error, "), f"{path}/{number}"
            ) from error
    return made
