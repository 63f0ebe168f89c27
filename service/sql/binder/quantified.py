"""What `v > ANY (query)` is, given counts of the query's rows and its smallest or largest value.

    c   how many rows there are        m   the smallest value for > and >=, else the largest
    d   how many are not NULL          of <>, all three are of the distinct values

Source: Calcite `SubQueryRemoveRule.rewriteSome` (Flink 2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Literal as Constant
from service.sql import types
from service.sql.algebra import Aggregate, Project, Relation
from service.sql.rex import OPPOSITES, call, literal, ref, type_of
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.rex import Rex
    from service.sql.binder.marked_subqueries import Asked
    from state.types import LogicalType

QUANTIFIED = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<=", exp.NEQ: "<>"}
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


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A comparison with ANY of a query's rows."""

    value: Rex
    """What is compared."""
    operator: str
    """Not `=`, which is IN."""
    places: Mapping[str, Rex]
    """The columns c, d and m."""
    nullable: bool
    """Whether it may be UNKNOWN."""

    def condition(self, how: Asked) -> Rex:
        """It, asked for being true, for being false (NOT of what makes it so), or for its value."""
        return self._other(how) if self.operator == "<>" else self._beyond(how)

    def _beyond(self, how: Asked) -> Rex:
        count, compared = self.places["c"], self._compared(self.operator)
        if how == "TRUE":
            return _and(_not_zero(count), compared)
        has_null = call(">", [count, self.places["d"]], _NOT_NULL)
        if how == "FALSE":
            may_be_true = call("OR", [compared, has_null], types.BOOLEAN)
            is_false = _and(
                self._compared(OPPOSITES[self.operator]),
                call("IS NOT TRUE", [may_be_true], _NOT_NULL),
            )
            return _not(_or(_is_zero(count), is_false))
        is_true = call("IS TRUE", [compared], _NOT_NULL)
        return self._case([_is_zero(count), _FALSE, is_true, _TRUE, has_null, _UNKNOWN, compared])

    def _other(self, how: Asked) -> Rex:
        count, known = self.places["c"], self.places["d"]
        compared = self._compared(self.operator)
        has_null = call("<>", [known, count], _NOT_NULL)
        is_one = call("=", [known, _ONE], _NOT_NULL)
        no_null = call("=", [known, count], _NOT_NULL)
        is_several = call(">", [known, _ONE], _NOT_NULL)
        few = call("<=", [known, _ONE], _NOT_NULL)
        may_be_null = type_of(self.value).nullable
        if how == "TRUE":
            single = _and(_or(_and(has_null, few), is_one), compared)
            is_not_one = call("<>", [known, _ONE], _NOT_NULL)
            several = [_or(no_null, is_several), is_not_one]
            several += [call("IS NOT NULL", [self.value], _NOT_NULL)] if may_be_null else []
            return _and(_not_zero(count), _or(single, _and(*several)))
        if how == "FALSE":
            is_false = _or(
                _is_zero(count), _and(is_one, self._compared(OPPOSITES[self.operator]), no_null)
            )
            if self.nullable:
                # What follows of the query alone is a filter below the join.
                is_false = _and(_or(_is_zero(count), _and(is_one, no_null)), is_false)
            return _not(is_false)
        cases: list[Rex] = [_is_zero(count), _FALSE]
        if may_be_null:
            cases += [call("IS NULL", [self.value], _NOT_NULL), _UNKNOWN]
        cases += [_and(has_null, few), _or(compared, _UNKNOWN), is_one, compared, _TRUE]
        return self._case(cases)

    def _compared(self, operator: str) -> Rex:
        return call(operator, [self.value, self.places["m"]], types.BOOLEAN)

    def _case(self, parts: list[Rex]) -> Rex:
        return call("CASE", parts, types.BOOLEAN.with_nullable(self.nullable))


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
