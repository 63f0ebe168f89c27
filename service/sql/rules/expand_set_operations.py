"""Make INTERSECT ALL and EXCEPT ALL counts of equal rows, and as many rows as they say.

    before   KeepAll[INTERSECT](a(k), b(k))
    after    Project[k](Correlate[REPLICATE_ROWS(n, k)](Project[IF(l > r, r, l) AS n, k](
                 Filter[l >= 1 AND r >= 1](Aggregate[k; COUNT(left) AS l, COUNT(right) AS r](
                     Union(Project[k, TRUE AS left, NULL AS right](a),
                           Project[k, NULL AS left, TRUE AS right](b)))))))

EXCEPT ALL sums 1 for a row of the left and -1 for one of the right.

Source: Flink `ReplaceIntersectWithSemiJoinRule`'s siblings `RewriteIntersectAllRule` and
`RewriteMinusAllRule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.correlate import REPLICATE
from service.sql.algebra import (
    Aggregate,
    Correlate,
    Filter,
    KeepAll,
    Project,
    Relation,
    Union,
    inputs,
    with_inputs,
)
from service.sql.rex import call, literal, ref
from service.sql.terms import AggregateCall, Row
from service.sql.types import BIGINT, BOOLEAN, INT
from state.types import row_type

if TYPE_CHECKING:
    from service.plan.rex import Rex

_COUNT = BIGINT.with_nullable(False)
_IS = BOOLEAN.with_nullable(False)
_WHOLE = INT.with_nullable(False)


def expand_set_operations(relation: Relation) -> Relation:
    """The relation without INTERSECT ALL and EXCEPT ALL."""
    below = tuple(expand_set_operations(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    return _expanded(made) if isinstance(made, KeepAll) else made


def _expanded(relation: KeepAll) -> Relation:
    counted = _more_of_left(relation) if relation.is_except else _in_both(relation)
    row = relation.row
    columns = tuple(ref(at, kind) for at, kind in enumerate(counted.row.types))
    made = Row(row.names, counted.row.types[1:])
    replicate = call(REPLICATE, columns, row_type(made.names, made.types, nullable=False))
    repeated = Correlate(counted, "INNER", replicate, made, made.names)
    width = len(row)
    last = tuple(ref(width + 1 + at, kind) for at, kind in enumerate(made.types))
    return Project(repeated, last, row.names)


def _in_both(relation: KeepAll) -> Relation:
    """How often each row is in both, before the row."""
    there, not_there = literal(True, _IS), literal(None, BOOLEAN)
    names = ("vcol_left_marker", "vcol_right_marker")
    both = Union(
        (
            _marked(relation.left, (there, not_there), names),
            _marked(relation.right, (not_there, there), names),
        )
    )
    width = len(relation.row)
    calls = tuple(
        AggregateCall("COUNT", (width + at,), _COUNT, name)
        for at, name in enumerate(("vcol_left_cnt", "vcol_right_cnt"))
    )
    counted = Aggregate(both, tuple(range(width)), calls)
    left, right = ref(width, _COUNT), ref(width + 1, _COUNT)
    one = literal(1, _WHOLE)
    kept = call("AND", [call(">=", [each, one], _IS) for each in (left, right)], _IS)
    less = call("IF", [call(">", [left, right], _IS), right, left], _COUNT)
    return _before_row(Filter(counted, kept), less, "$f0", width)


def _more_of_left(relation: KeepAll) -> Relation:
    """How much oftener each row is in the left than in the right, before the row."""
    names = ("vcol_marker",)
    both = Union(
        (
            _marked(relation.left, (literal(1, _COUNT),), names),
            _marked(relation.right, (literal(-1, _COUNT),), names),
        )
    )
    width = len(relation.row)
    total = AggregateCall("SUM", (width,), _COUNT, "sum_vcol_marker")
    counted = Aggregate(both, tuple(range(width)), (total,))
    more = ref(width, _COUNT)
    kept = Filter(counted, call(">", [more, literal(0, _WHOLE)], _IS))
    return _before_row(kept, more, "sum_vcol_marker", width)


def _marked(side: Relation, marks: tuple[Rex, ...], names: tuple[str, ...]) -> Relation:
    columns = tuple(map(ref, range(len(side.row)), side.row.types))
    return Project(side, (*columns, *marks), (*side.row.names, *names))


def _before_row(counted: Relation, count: Rex, name: str, width: int) -> Relation:
    row = counted.row
    columns = tuple(map(ref, range(width), row.types))
    return Project(counted, (count, *columns), (name, *row.names[:width]))
