"""QUALIFY: keeps the rows of a select list for which a condition over OVER functions is true.

    QUALIFY f() OVER (..) <= 2      is        a column q = f() OVER (..), and WHERE q <= 2 above it

Source: Calcite `SqlToRelConverter.convertSelectImpl`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Call, InputRef
from service.sql.algebra import Filter, Project, Relation
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.rex import Expression, OverCall, as_operand, has_over, ref, type_of
from service.sql.terms import unique_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.sql.expressions import ExpressionBinder


def qualified(
    relation: Relation,
    node: exp.Select,
    expressions: Sequence[Expression],
    names: Sequence[str],
    binder: ExpressionBinder,
) -> Relation:
    """The columns of a select list, then others, of the rows that QUALIFY keeps.

    Raises:
        UnsupportedSql: The query has groups, too.
        ValidationError: The condition has no OVER function, or means nothing.
    """
    clause = node.args["qualify"]
    if node.args.get("group") is not None:
        raise UnsupportedSql("QUALIFY with GROUP BY is not supported", binder.position(clause))
    condition = binder.condition(_without_aliases(clause.this, node))
    if not has_over([condition]):
        raise ValidationError(
            f"QUALIFY expression '{clause.this.sql()}' must contain a window function",
            binder.position(clause),
        )
    columns = list(expressions)
    kept = as_operand(_above(condition, columns))
    made = [*names, *(f"QUALIFY${at}" for at in range(len(columns) - len(names)))]
    return Filter(Project(relation, tuple(columns), unique_names((), made)), kept)


def _without_aliases(condition: exp.Expression, node: exp.Select) -> exp.Expression:
    """The condition, where names of select items stand for what they name."""
    meant = {item.alias: item.this for item in node.expressions if isinstance(item, exp.Alias)}

    def spelt(part: exp.Expression) -> exp.Expression:
        is_name = isinstance(part, exp.Column) and not part.table and part.name in meant
        return meant[part.name].copy() if is_name else part

    found: exp.Expression = condition.transform(spelt)
    return found


def _above(expression: Expression, columns: list[Expression]) -> Expression:
    """The expression over columns, to which OVER functions and columns below are appended."""
    if isinstance(expression, (OverCall, InputRef)):
        if expression not in columns:
            columns.append(expression)
        return ref(columns.index(expression), type_of(expression))
    if isinstance(expression, Call):
        operands: list[Rex] = [as_operand(_above(each, columns)) for each in expression.operands]
        return replace(expression, operands=tuple(operands))
    return expression
