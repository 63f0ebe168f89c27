"""ANY, SOME and ALL: what is IN becomes it, and ALL of a query becomes NOT of ANY.

before   v = ANY (SELECT ..)      v <> ALL (SELECT ..)      v > ALL (SELECT ..)
after    v IN (SELECT ..)         NOT v IN (SELECT ..)      NOT v <= ANY (SELECT ..)

before   v = ANY (1, 2)           v <> ALL (1, 2)
after    v IN (1, 2)              NOT v IN (1, 2)

Source: Calcite `SqlQuantifyOperator`, `SqlToRelConverter` (Flink 2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql.errors import UnsupportedSql

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.sql.errors import Position

_OPPOSITES: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
}
_OF_LISTS = {"SOME": exp.Any, "ALL": exp.All}


def without_quantifiers(
    tree: exp.Expression, place: Callable[[exp.Expression], Position]
) -> exp.Expression:
    """The tree whose quantified comparisons are with ANY of a query, ANY or ALL of a list.

    Raises:
        UnsupportedSql: A quantifier stands anywhere but on the right of a comparison.
    """
    for function in list(tree.find_all(exp.Anonymous)):
        # So reads sqlglot SOME and ALL of a list, but not ANY.
        kind = _OF_LISTS.get(function.name.upper())
        if kind is not None and type(function.parent) in _OPPOSITES:
            function.replace(kind(this=exp.Tuple(expressions=function.expressions)))
    # From the inside out, so that what is put elsewhere has been changed already.
    for node in reversed(list(tree.find_all(exp.Any, exp.All))):
        comparison = node.parent
        if type(comparison) not in _OPPOSITES or comparison.expression is not node:
            raise UnsupportedSql(
                "ANY, SOME and ALL are supported on the right of =, <>, <, <=, > and >= only",
                place(node),
            )
        made = _of_query(comparison, node) if _is_query(node.this) else _of_list(comparison, node)
        if comparison is tree:
            return made
        comparison.replace(made)
    return tree


def is_quantified(node: exp.Expression) -> bool:
    """Whether a node of a tree without other quantifiers compares with ANY of a query."""
    quantifier = node.expression if type(node) in _OPPOSITES else None
    return isinstance(quantifier, exp.Any) and _is_query(quantifier.this)


def values_of(quantifier: exp.Expression) -> list[exp.Expression]:
    """The values that a quantifier with a list has."""
    given = quantifier.this
    return list(given.expressions) if isinstance(given, exp.Tuple) else [given.this]


def _is_query(node: exp.Expression) -> bool:
    return isinstance(_bare(node), (exp.Subquery, exp.Query))


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _of_query(comparison: exp.Expression, node: exp.Expression) -> exp.Expression:
    query, kind = _bare(node.this), type(comparison)
    if not isinstance(query, exp.Subquery):
        query = exp.Subquery(this=query)
    is_all = isinstance(node, exp.All)
    kind = _OPPOSITES[kind] if is_all else kind
    made: exp.Expression = (
        exp.In(this=comparison.this, query=query)
        if kind is exp.EQ
        else kind(this=comparison.this, expression=exp.Any(this=query))
    )
    return exp.Not(this=made) if is_all else made


def _of_list(comparison: exp.Expression, node: exp.Expression) -> exp.Expression:
    is_any = isinstance(node, exp.Any)
    if type(comparison) is not (exp.EQ if is_any else exp.NEQ):
        return comparison
    found = exp.In(this=comparison.this, expressions=values_of(node))
    return found if is_any else exp.Not(this=found)
