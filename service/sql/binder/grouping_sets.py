"""GROUPING SETS, ROLLUP and CUBE: which columns each repetition groups by.

Several of them in one GROUP BY, and plain columns beside them, are combined, each with each. Sets
are in the order of their numbers (`algebra.set_number`), as Calcite keeps them.

Source: Calcite `SqlValidatorUtil.analyzeGroupItem`, `ImmutableBitSet.ORDERING`.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql.algebra import set_number
from service.sql.errors import UnsupportedSql

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.sql.errors import Position

SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)
SETS_MAX = 64
"""Sets of one GROUP BY: each repeats every row once more."""


def grouping_sets(
    nodes: Sequence[exp.Expression],
    place: Callable[[exp.Expression], int],
    position: Position,
) -> tuple[frozenset[int], ...]:
    """The columns of each set; none where there is but one group for all.

    Args:
        nodes: The entries of GROUP BY, in order.
        place: Gives the column of an expression.
        position: Of GROUP BY.

    Raises:
        UnsupportedSql: A set comes twice, or there are too many.
    """
    if prod(map(_count, nodes)) > SETS_MAX:
        raise UnsupportedSql(f"GROUPING SETS of more than {SETS_MAX} sets", position)
    choices = [
        _chosen(node, place) if isinstance(node, SETS) else [frozenset(map(place, members(node)))]
        for node in nodes
    ]
    if not any(isinstance(node, SETS) for node in nodes):
        return ()
    sets = [frozenset[int]().union(*parts) for parts in product(*choices)]
    if len(set(sets)) < len(sets):
        raise UnsupportedSql("GROUPING SETS with one set twice are not supported", position)
    if len(sets) == 1:
        return ()
    groups = tuple(sorted(frozenset[int]().union(*sets)))
    return tuple(sorted(sets, key=lambda chosen: set_number(groups, chosen)))


def _count(node: exp.Expression) -> int:
    """How many sets an entry has, before any is made: CUBE has two to the power of its columns."""
    parts = len(node.expressions)
    if isinstance(node, exp.Cube):
        return 1 << parts
    if isinstance(node, exp.Rollup):
        return parts + 1
    return parts if isinstance(node, exp.GroupingSets) else 1


def _chosen(node: exp.Expression, place: Callable[[exp.Expression], int]) -> list[frozenset[int]]:
    """The sets of one entry."""
    parts = [frozenset(map(place, members(entry))) for entry in node.expressions]
    if isinstance(node, exp.GroupingSets):
        return parts
    if isinstance(node, exp.Rollup):
        kept = [parts[:count] for count in range(len(parts), -1, -1)]
    else:
        takes = product((True, False), repeat=len(parts))
        kept = [[part for part, is_in in zip(parts, each, strict=True) if is_in] for each in takes]
    return [frozenset[int]().union(*each) for each in kept]


def members(entry: exp.Expression) -> list[exp.Expression]:
    """The expressions of an entry, of which brackets may hold several, or none."""
    if isinstance(entry, exp.Tuple):
        return list(entry.expressions)
    return [entry.this if isinstance(entry, exp.Paren) else entry]
