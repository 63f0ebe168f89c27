"""What `v > ANY (query)` is, given counts of the query's rows and its smallest or largest value.

    c   how many rows there are        m   the smallest value for > and >=, else the largest
    d   how many are not NULL          of <>, all three are of the distinct values

Source: Calcite `SubQueryRemoveRule.rewriteSome` (Flink 2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Literal as Constant
from service.sql import types
from service.sql.algebra import Aggregate, Project, Relation
from service.sql.rex import call, literal, ref, type_of
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.rex import Rex
    from service.sql.binder.marked_subqueries import Asked
    from state.types import LogicalType

QUANTIFIED = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.NEQ: "<>"}
_OPPOSITES = {">": "<=", ">=": "<", "<": ">=", "<=": ">", "<>": "="}
_COUNT = types.BIGINT.with_nullable(False)
_NOT_NULL = types.BOOLEAN.with_nullable(False)
_ZERO, _ONE = (literal(each, types.INT.with_nullable(False)) for each in (0, 1))
_TRUE, _FALSE = (Constant(each, _NOT_NULL, "") for each in (True, False))
_UNKNOWN = literal(None, types.BOOLEAN)


def ends_and_counts(right: Relation, operator: str) -> Relation:
    """The columns m, c and d of a query, in Flink's order: c, d and m for `<>`.

    Where nothing is NULL the rows are counted once.
    """
    kind = right.row.types[0]
    end = "MIN" if operator in (">", ">=") else "MAX"
    calls = [AggregateCall("COUNT", (), _COUNT, "c")]
    if kind.nullable:
        calls.append(AggregateCall("COUNT", (0,), _COUNT, "d"))
    least = AggregateCall(end, (0,), kind.with_nullable(True), "m")
    calls = [*calls, least] if operator == "<>" else [least, *calls]
    counted = Aggregate(right, (), tuple(calls))
    if kind.nullable:
        return counted
    columns = [ref(at, each.type) for at, each in enumerate(calls)]
    names = list(counted.row.names)
    at = names.index("c")
    columns.insert(at + 1, columns[at])
    names.insert(at + 1, "d")
    return Project(counted, tuple(columns), tuple(names))


def any_of(
    value: Rex, operator: str, places: Mapping[str, Rex], how: Asked, *, nullable: bool
) -> Rex:
    """The condition, as it is asked.

    Args:
        value: What is compared.
        operator: The comparison; not `=`, which is IN.
        places: The columns c, d and m.
        how: For being true, for being false (the condition then is NOT of what makes it so), or
            for its value.
        nullable: Whether the value may be UNKNOWN.
    """
    compared = call(operator, [value, places["m"]], types.BOOLEAN)
    made = _other if operator == "<>" else _beyond
    return made(value, operator, compared, places, how, nullable)


def _beyond(
    value: Rex,
    operator: str,
    compared: Rex,
    places: Mapping[str, Rex],
    how: Asked,
    nullable: bool,
) -> Rex:
    count = places["c"]
    if how == "TRUE":
        return _and(_not_zero(count), compared)
    has_null = call(">", [count, places["d"]], _NOT_NULL)
    if how == "FALSE":
        opposite = call(_OPPOSITES[operator], [value, places["m"]], types.BOOLEAN)
        may_be_true = call("OR", [compared, has_null], types.BOOLEAN)
        is_false = _and(opposite, call("IS NOT TRUE", [may_be_true], _NOT_NULL))
        return _not(_or(_is_zero(count), is_false))
    is_true = call("IS TRUE", [compared], _NOT_NULL)
    return _case([_is_zero(count), _FALSE, is_true, _TRUE, has_null, _UNKNOWN, compared], nullable)


def _other(
    value: Rex,
    operator: str,
    compared: Rex,
    places: Mapping[str, Rex],
    how: Asked,
    nullable: bool,
) -> Rex:
    count, known = places["c"], places["d"]
    has_null = call("<>", [known, count], _NOT_NULL)
    is_one = call("=", [known, _ONE], _NOT_NULL)
    no_null, is_several = call("=", [known, count], _NOT_NULL), call(">", [known, _ONE], _NOT_NULL)
    few = call("<=", [known, _ONE], _NOT_NULL)
    may_be_null = type_of(value).nullable
    if how == "TRUE":
        single = _and(_or(_and(has_null, few), is_one), compared)
        is_not_one = call("<>", [known, _ONE], _NOT_NULL)
        several = [_or(no_null, is_several), is_not_one]
        several += [call("IS NOT NULL", [value], _NOT_NULL)] if may_be_null else []
        return _and(_not_zero(count), _or(single, _and(*several)))
    if how == "FALSE":
        same = call(_OPPOSITES[operator], [value, places["m"]], types.BOOLEAN)
        is_false = _or(_is_zero(count), _and(is_one, same, no_null))
        if nullable:
            # What follows of the query alone is a filter below the join.
            is_false = _and(_or(_is_zero(count), _and(is_one, no_null)), is_false)
        return _not(is_false)
    cases: list[Rex] = [_is_zero(count), _FALSE]
    if may_be_null:
        cases += [call("IS NULL", [value], _NOT_NULL), _UNKNOWN]
    cases += [_and(has_null, few), _or(compared, _UNKNOWN), is_one, compared, _TRUE]
    return _case(cases, nullable)


def _case(parts: list[Rex], nullable: bool) -> Rex:
    return call("CASE", parts, types.BOOLEAN.with_nullable(nullable))


def _is_zero(count: Rex) -> Rex:
    return call("=", [count, _ZERO], _NOT_NULL)


def _not_zero(count: Rex) -> Rex:
    return call("<>", [count, _ZERO], _NOT_NULL)


def _and(*parts: Rex) -> Rex:
    return call("AND", list(parts), _nullable_as(parts))


def _or(*parts: Rex) -> Rex:
    return call("OR", list(parts), _nullable_as(parts))


def _not(part: Rex) -> Rex:
    return call("NOT", [part], type_of(part))


def _nullable_as(parts: tuple[Rex, ...]) -> LogicalType:
    return types.BOOLEAN.with_nullable(types.any_nullable([type_of(each) for each in parts]))
