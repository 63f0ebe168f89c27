"""Make one join of a chain of joins on one key.

    before   Join[a.k = c.k](Join[a.k = b.k](a, b), c)
    after    MultiJoin[a.k = b.k, a.k = c.k](a, b, c)

Only inner and left joins, and only where every input has a column that must equal the same one.
With the option for all joins, with a hint for those that it names.

Source: Flink `JoinToMultiJoinRule` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql.algebra import Join, MultiJoin, Relation, inputs, with_inputs
from service.sql.intervals import window_bounds
from service.sql.join_keys import equal_columns
from service.sql.rex import TRUE, conjuncts

if TYPE_CHECKING:
    from service.sql.options import Options


def merge_joins(relation: Relation, options: Options) -> Relation:
    """The relation with multi-joins, where the options or hints ask for them."""
    below = tuple(merge_joins(each, options) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Join) or not (options.multi_join or made.is_multi):
        return made
    if made.kind not in ("INNER", "LEFT") or window_bounds(made) is not None:
        return made
    pairs, _ = equal_columns(conjuncts(made.condition), len(made.left.row))
    if not pairs or made.condition is None:
        return made
    return _merged(made, pairs)


def _merged(join: Join, pairs: list[tuple[int, int]]) -> Relation:
    left = join.left
    condition = join.condition
    assert condition is not None, "the caller has checked it"
    if isinstance(left, MultiJoin) and join.kind in ("INNER", "LEFT"):
        common = _common(left, pairs)
        if common is not None:
            return MultiJoin(
                (*left.inputs, join.right),
                (*left.kinds, join.kind),
                (*left.conditions, condition),
                (*left.common_keys, common),
                (*left.ttl, join.ttl[1]),
            )
    return MultiJoin(
        (left, join.right),
        ("INNER", join.kind),
        (TRUE, condition),
        (tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)),
        join.ttl,
    )


def _common(left: MultiJoin, pairs: list[tuple[int, int]]) -> tuple[int, ...] | None:
    """The columns of a new input that equal the common key, if it has them all."""
    places = {}
    begin = 0
    for side, keys in zip(left.inputs, left.common_keys, strict=True):
        for position, column in enumerate(keys):
            places[begin + column] = position
        begin += len(side.row)
    found = {places[first]: second for first, second in pairs if first in places}
    if len(found) != len(left.common_keys[0]):
        return None
    return tuple(found[position] for position in sorted(found))
