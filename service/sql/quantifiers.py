"""ANY, SOME and ALL of a query: those that are IN, or NOT IN, become it.

before   v = ANY (SELECT ..)      v <> ALL (SELECT ..)
after    v IN (SELECT ..)         NOT v IN (SELECT ..)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql.errors import UnsupportedSql

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.sql.errors import Position


def without_quantifiers(
    tree: exp.Expression, place: Callable[[exp.Expression], Position]
) -> exp.Expression:
    """The tree with IN in the place of quantified comparisons.

    Raises:
        UnsupportedSql: One compares otherwise than IN.
    """
    for node in list(tree.find_all(exp.Any, exp.All)):
        comparison, query = node.parent, node.this
        while isinstance(query, exp.Paren):
            query = query.this
        is_any = isinstance(node, exp.Any)
        if not isinstance(comparison, exp.EQ if is_any else exp.NEQ) or not isinstance(
            query, (exp.Subquery, exp.Query)
        ):
            raise UnsupportedSql(
                "of ANY, SOME and ALL only = ANY (query) and <> ALL (query) are supported",
                place(node),
                hint="compare with SELECT MIN(..) or MAX(..) of the query",
            )
        if not isinstance(query, exp.Subquery):
            query = exp.Subquery(this=query)
        made: exp.Expression = exp.In(this=comparison.this, query=query)
        made = made if is_any else exp.Not(this=made)
        if comparison is tree:
            return made
        comparison.replace(made)
    return tree
