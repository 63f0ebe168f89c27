"""See the first rows of each partition in ROW_NUMBER and a condition on it.

    before   Filter[rn <= 2](Project[k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS rn](t))
    after    Project[k, v, rn](Rank[partition k, order v, 1..2](t))

The bound may be a column of the partition. Conditions that do not limit the number stay above; that
it is not null is always so.

Source: Flink `FlinkLogicalRankRule`, `RankUtil.extractRankRange`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, Rex, SargLiteral
from service.sql.algebra import Filter, Project, Relation, inputs, with_inputs
from service.sql.rex import (
    OverCall,
    call,
    conjunction,
    conjuncts,
    inputs_of,
    is_true,
    ref,
    type_of,
)
from service.sql.rules.window_input import split_over
from service.sql.terms import RankRange
from service.sql.window_relations import Rank

if TYPE_CHECKING:
    from collections.abc import Sequence

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def recognize_rank(relation: Relation) -> Relation:
    """The relation with ranks where a condition limits ROW_NUMBER."""
    below = tuple(recognize_rank(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Filter) and isinstance(made.input, Project):
        found = _rank(made, made.input)
        if found is not None:
            return found
    return made


def _rank(condition: Filter, project: Project) -> Relation | None:
    numbers = [
        position
        for position, rex in enumerate(project.expressions)
        if isinstance(rex, OverCall) and rex.name in ("ROW_NUMBER", "RANK", "DENSE_RANK")
    ]
    overs = [rex for rex in project.expressions if isinstance(rex, OverCall)]
    if len(numbers) != 1 or len(overs) != 1 or overs[0].name != "ROW_NUMBER":
        return None
    number = numbers[0]
    parts = conjuncts(condition.condition)
    rest = [part for part in parts if number not in inputs_of(part)]
    asked = [
        each for part in parts if number in inputs_of(part) for each in _comparisons(part, number)
    ]
    limits = [each for each in asked if _bound(each, number) is not None]
    rest += [each for each in asked if each not in limits and not _is_not_null(each, number)]
    split = split_over(project, merges=True)
    bounds = _range(limits, number)
    if bounds is None or len(split.overs) != 1:
        return None
    over = split.overs[0]
    if bounds.end_column is not None:
        column = split.outputs[bounds.end_column]
        if not isinstance(column, InputRef):
            return None
        bounds = RankRange(end_column=column.index)
    alone = bounds.start == bounds.end
    width = len(split.below.row)
    name = None if alone else project.names[number]
    rank = Rank(split.below, over.partition, over.order, bounds, name)
    outputs = list(split.outputs)
    if alone:
        outputs[number] = Literal(bounds.start, overs[0].type, "")
    else:
        outputs[number] = ref(width, overs[0].type)
    above: Relation = Project(rank, tuple(outputs), project.names)
    kept = conjunction([part for part in rest if not is_true(part)])
    return above if kept is None else Filter(above, kept)


def _range(limits: Sequence[Rex], number: int) -> RankRange | None:
    """The ranks that the conditions leave; None if they are not a range."""
    start, end = 1, None
    end_column = None
    for part in limits:
        bound = _bound(part, number)
        if bound is None:
            return None
        operator, value = bound
        if isinstance(value, InputRef):
            if operator != "<=" or end_column is not None:
                return None
            end_column = value.index
            continue
        assert isinstance(value, Literal), "the caller lets nothing else through"
        assert isinstance(value.value, int), "the caller lets nothing else through"
        limit = value.value
        if operator in ("<", "<=", "="):
            last = limit - 1 if operator == "<" else limit
            end = last if end is None else min(end, last)
        if operator in (">", ">=", "="):
            start = max(start, limit + 1 if operator == ">" else limit)
    if end_column is not None:
        return RankRange(end_column=end_column) if end is None and start == 1 else None
    return None if end is None or end < start else RankRange(start, end)


def _comparisons(part: Rex, number: int) -> list[Rex]:
    """The condition, as two where it says that the number is between two."""
    if not isinstance(part, Call) or part.name != "SEARCH":
        return [part]
    value, ranges = part.operands
    if value != ref(number, type_of(value)) or not isinstance(ranges, SargLiteral):
        return [part]
    if len(ranges.ranges) != 1:
        return [part]
    (only,) = ranges.ranges
    bounds = ((">", only.lower), ("<", only.upper))
    return [
        call(
            f"{operator}=" if bound.is_inclusive else operator,
            [value, Literal(bound.value, ranges.type, "")],
            type_of(part),
        )
        for operator, bound in bounds
        if bound is not None
    ]


def _is_not_null(part: Rex, number: int) -> bool:
    """Whether a condition asks for no more than that there is a number."""
    return (
        isinstance(part, Call)
        and part.name == "IS NOT NULL"
        and isinstance(part.operands[0], InputRef)
        and part.operands[0].index == number
    )


def _bound(part: Rex, number: int) -> tuple[str, Rex] | None:
    """A comparison of the number: operator and what it is compared with."""
    if not isinstance(part, Call) or part.name not in _MIRRORED:
        return None
    left, right = part.operands
    operator = part.name
    if isinstance(right, InputRef) and right.index == number:
        left, right, operator = right, left, _MIRRORED[operator]
    if not (isinstance(left, InputRef) and left.index == number):
        return None
    is_number = isinstance(right, Literal) and isinstance(right.value, int)
    return (operator, right) if is_number or isinstance(right, InputRef) else None
