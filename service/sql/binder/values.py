"""VALUES: rows that stand in the statement.

Where every member is a literal, the rows are one relation of constants; else each row is a
projection of its own over one row, and all of them are united.

Source: Calcite `SqlToRelConverter.convertValuesImpl`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Call, Literal
from service.sql import types
from service.sql.algebra import Project, Relation, Union, Values
from service.sql.dialect import position_of
from service.sql.errors import ValidationError
from service.sql.expressions import ExpressionBinder
from service.sql.rex import cast, literal, type_of
from service.sql.scope import Scope
from service.sql.terms import Row
from state.types import NUMBER_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.sql.source_text import Fragment


def one_row() -> Values:
    """A row for what reads no table."""
    zero = literal(0, types.INT.with_nullable(False))
    return Values(((zero,),), Row(("ZERO",), (types.INT.with_nullable(False),)))


def bind_values(node: exp.Values, fragment: Fragment) -> Relation:
    """The rows of VALUES.

    Raises:
        ValidationError: Rows differ in length, or the members of a column have no common type.
    """
    binder = ExpressionBinder(Scope(()), fragment)
    rows: list[list[Rex]] = []
    for entry in node.expressions:
        members = entry.expressions if isinstance(entry, exp.Tuple) else [entry]
        rows.append([_signed(binder.rex(member)) for member in members])
    position = position_of(node, fragment)
    if len({len(row) for row in rows}) != 1:
        raise ValidationError("the rows of VALUES differ in length", position)
    kinds: list[LogicalType] = []
    for column in zip(*rows, strict=True):
        if any(type_of(each).root is TypeRoot.NULL for each in column):
            raise ValidationError("Illegal use of 'NULL'", position)
        common = types.common_type([type_of(each) for each in column])
        if common is None:
            raise ValidationError("a column of VALUES has no common type", position)
        kinds.append(common)
    names = tuple(f"EXPR${index}" for index in range(len(kinds)))
    constants = [
        tuple(each for each in row if isinstance(each, Literal) and each.value is not None)
        for row in rows
    ]
    if all(len(row) == len(kinds) for row in constants):
        return Values(tuple(constants), Row(names, tuple(kinds)))
    united = tuple(Project(one_row(), _cast(row, kinds), names) for row in rows)
    return united[0] if len(united) == 1 else Union(united)


def _cast(row: Sequence[Rex], kinds: Sequence[LogicalType]) -> tuple[Rex, ...]:
    return tuple(
        each if type_of(each) == kind else cast(each, kind)
        for each, kind in zip(row, kinds, strict=True)
    )


def _signed(rex: Rex) -> Rex:
    """A fraction with a minus before it is a literal, too."""
    if not isinstance(rex, Call) or rex.name != "-" or len(rex.operands) != 1:
        return rex
    (operand,) = rex.operands
    if not isinstance(operand, Literal) or operand.type.root not in NUMBER_ROOTS:
        return rex
    return literal(f"-{operand.value}", operand.type) if isinstance(operand.value, str) else rex
