"""Functions of users: stream-exec-process-table-function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.errors import FunctionUnavailable
from operators.process_function import ProcessFunctionSpec, find_function
from service.plan.errors import InvalidExpression
from service.plan.rex import Call, Literal, TableArgument, parse_rex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.runtime.specs import StatefulNode


def process_function_spec(at: StatefulNode) -> ProcessFunctionSpec:
    """The operator of a call of a function that is installed here.

    The call has tables, then the function's other arguments, then a row time of the tables
    (`on_time`) and a uid, which is Flink's.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: A table is not partitioned, or is ordered; an argument is no literal.
        FunctionUnavailable: The function is not installed.
        InvalidSpec: It cannot be called so, or does not give what the plan has.
    """
    given = at.properties
    call = parse_rex(given.value.get("functionCall"), given.at("functionCall"))
    if not isinstance(call, Call) or call.origin not in ("system", "catalog"):
        raise at.refuse("a function that is not called by name", "functionCall")
    name = call.name.rpartition(".")[2].strip("`")
    try:
        function = find_function(name)
    except FunctionUnavailable as error:
        error.path = given.at("functionCall")
        raise
    tables = [each for each in call.operands if isinstance(each, TableArgument)]
    others = [each for each in call.operands if not isinstance(each, TableArgument)]
    by_input = sorted(tables, key=lambda each: each.index)
    if not tables or [each.index for each in by_input] != list(range(len(at.inputs))):
        raise at.refuse("a call whose tables are not its inputs", "functionCall", "operands")
    if not all(each.partition_keys for each in tables) or any(each.order_keys for each in tables):
        raise at.refuse("tables without PARTITION BY, or with ORDER BY", "functionCall", "operands")
    for table in tables:
        columns = (*table.partition_keys, *table.order_keys)
        if any(each >= at.width(table.index) for each in columns):
            raise InvalidExpression("a table has no such column", path=table.path)
    names = list(function.arguments)
    if len(others) < len(names):
        raise at.refuse(f"{name} takes {len(names)} arguments", "functionCall", "operands")
    arguments = {each: _value(at, given) for each, given in zip(names, others, strict=False)}
    return ProcessFunctionSpec.build(
        inputs=tuple(at.input(each.index, each.partition_keys) for each in by_input),
        function=name,
        arguments=arguments,
        time_columns=_times(at, others[len(names) :]),
        **at.common,
    )


def _value(at: StatefulNode, given: Rex) -> Any:
    """The value of an argument; null where it is left out."""
    if isinstance(given, Literal):
        return given.value
    if isinstance(given, Call) and given.name == "DEFAULT":
        return None
    raise at.refuse("arguments that are neither tables nor literals", "functionCall", "operands")


def _times(at: StatefulNode, rest: Sequence[Rex]) -> tuple[int | None, ...]:
    """The row time of each table, where `on_time` names columns; else none."""
    described = [each for each in rest if isinstance(each, Call) and each.name == "DESCRIPTOR"]
    if not described:
        return ()
    named = {each.value for each in described[0].operands if isinstance(each, Literal)}
    found: list[int | None] = []
    for table in at.inputs:
        mine = [at for at, name in enumerate(table.output_type.field_names) if name in named]
        found.append(mine[0] if mine else None)
    if None in found:
        raise at.refuse("a row time that not every table has", "functionCall", "operands")
    return tuple(found)
