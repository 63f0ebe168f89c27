"""Which pairs of rows belong together, beyond that they share the key of the join.

The key is compared by canonical bytes, so null equals null there. SQL's `=` says otherwise: a key
with a null in a column that is compared by `=` (Flink: `filterNulls`) has no match at all.

Source: Flink's `JoinConditionWithNullFilters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row

RexJson = list[Any]
"""An expression over the columns of the rows one behind the other: `rex_to_json` wrote it."""


def compile_condition(
    condition: RexJson | None,
    width: int,
    now_ms: Callable[[], int] | None = None,
) -> Callable[[Row], bool] | None:
    """A condition as a function of the concatenated row; None where all pairs belong together.

    Args:
        condition: The expression.
        width: Columns of the concatenated row.
        now_ms: The epoch's time, for NOW and the like.

    Raises:
        UnsupportedExpression: Something in it is not computed here.
    """
    if condition is None:
        return None
    # Most joins have none, and need not load what evaluates expressions.
    from operators.expressions import compile_predicate, rex_from_json

    return compile_predicate(rex_from_json(condition), width=width, now_ms=now_ms)


def unmatchable(filter_nulls: Sequence[bool]) -> Callable[[Row], bool]:
    """Whether a key has a null where it must not, so that no row of the other side matches.

    >>> has_no_match = unmatchable([True, False])
    >>> has_no_match((None, 1)), has_no_match((1, None))
    (True, False)
    """
    columns = [at for at, is_filtered in enumerate(filter_nulls) if is_filtered]
    if len(columns) == 1:
        (only,) = columns
        return lambda key: key[only] is None
    return lambda key: any(key[at] is None for at in columns)


def compile_projection(
    projection: Sequence[RexJson] | None,
    width: int,
    now_ms: Callable[[], int] | None = None,
) -> Callable[[Row], Row] | None:
    """Expressions as a function of a row; None where a row stays as it is.

    Raises: As `compile_condition`.
    """
    if projection is None:
        return None
    from operators.expressions import compile_rex, rex_from_json

    columns = [compile_rex(rex_from_json(each), width=width, now_ms=now_ms) for each in projection]
    return lambda row: tuple([column(row) for column in columns])
