"""Plan no operators over rows that no condition lets through.

    before   Project[k](Join[k = k](Filter[FALSE](t), u))
    after    Values[]

A condition is looked at where its constants alone decide it. An aggregate without groups has a row
also of no rows: it is written down where that is what Flink does.

Source: Flink `FlinkPruneEmptyRules`, Calcite `AggregateValuesRule` (2.3).
"""

from __future__ import annotations

import operator

from service.plan.rex import Call, InputRef, Literal, Rex
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Sort,
    Union,
    Values,
    inputs,
    with_inputs,
)
from service.sql.rex import conjunction, conjuncts, has_over
from state.types import STRING_ROOTS, TypeRoot


def prune_empty(relation: Relation) -> Relation:
    """The relation, or no rows where it can have none."""
    below = tuple(prune_empty(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Filter):
        made = _filtered(made)
    if isinstance(made, Union):
        return _union(made)
    if isinstance(made, Aggregate) and _is_empty(made.input):
        made = _of_nothing(made)
    if isinstance(made, Project) and isinstance(made.input, Values) and made.input.rows:
        made = _chosen(made, made.input)
    return Values((), made.row) if _has_no_rows(made) else made


def _filtered(relation: Filter) -> Relation:
    """Without conditions that are always true; without rows if one never is."""
    parts = conjuncts(relation.condition)
    kept = [part for part in parts if _constant(part) is not True]
    if any(map(_is_never, kept)) or _contradict(kept):
        return Values((), relation.row)
    if len(kept) == len(parts):
        return relation
    condition = conjunction(kept)
    return relation.input if condition is None else Filter(relation.input, condition)


def _contradict(parts: list[Rex]) -> bool:
    """Whether no whole number meets all that is asked of one column."""
    asked: dict[int, list[tuple[str, int]]] = {}
    for part in parts:
        if not isinstance(part, Call) or part.name not in _COMPARISONS or part.name == "<>":
            continue
        first, second = part.operands
        value = _plain(second)
        if isinstance(first, InputRef) and type(value) is int:
            asked.setdefault(first.index, []).append((part.name, value))
    return any(map(_is_empty_range, asked.values()))


def _is_empty_range(asked: list[tuple[str, int]]) -> bool:
    lows = [(value, name == ">") for name, value in asked if name in ("=", ">", ">=")]
    highs = [(value, name == "<") for name, value in asked if name in ("=", "<", "<=")]
    if not lows or not highs:
        return False
    (low, is_above), (high, is_below) = max(lows), min(highs, key=lambda end: (end[0], not end[1]))
    return low > high or (low == high and (is_above or is_below))


def _is_never(part: Rex) -> bool:
    return _constant(part) in (False, None)


_UNDECIDED = "undecided"


def _constant(rex: Rex) -> bool | str | None:
    """What a condition is, whatever row it is asked of; None is UNKNOWN."""
    if isinstance(rex, Literal):
        return rex.value if rex.value is None or isinstance(rex.value, bool) else _UNDECIDED
    if not isinstance(rex, Call):
        return _UNDECIDED
    if rex.name in ("CAST", "TRY_CAST"):
        # Of a constant that is no text, and of NULL.
        return _constant(rex.operands[0])
    if rex.name == "NOT":
        found = _constant(rex.operands[0])
        return not found if isinstance(found, bool) else found
    if rex.name in ("AND", "OR"):
        decides = rex.name == "OR"
        found_all = [_constant(each) for each in rex.operands]
        if decides in found_all:
            return decides
        if _UNDECIDED in found_all:
            return _UNDECIDED
        return None if None in found_all else not decides
    return _compared(rex)


def _compared(rex: Call) -> bool | str | None:
    """Two whole numbers that are compared, or two texts, for equality."""
    compare = _COMPARISONS.get(rex.name)
    if compare is None:
        return _UNDECIDED
    first, second = (_plain(each) for each in rex.operands)
    if isinstance(first, str) and isinstance(second, str) and rex.name in ("=", "<>"):
        return (first == second) == (rex.name == "=")
    if type(first) is type(second) is int:
        return bool(compare(first, second))
    return _UNDECIDED


def _plain(rex: Rex) -> int | str | None:
    """A constant that is a whole number or a text, also one that was made a longer text."""
    if isinstance(rex, Literal):
        if isinstance(rex.value, str):
            return rex.value if rex.type.root in STRING_ROOTS else None
        return rex.value if isinstance(rex.value, int) else None
    if isinstance(rex, Call) and rex.name == "CAST" and rex.type is not None:
        found = _plain(rex.operands[0])
        fits = rex.type.root is TypeRoot.VARCHAR and isinstance(found, str)
        return found if fits and len(str(found)) <= (rex.type.length or 0) else None
    return None


_COMPARISONS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _of_nothing(relation: Aggregate) -> Relation:
    """The one row of an aggregate of no rows: counts are 0, sums and extremes NULL."""
    functions = {each.function for each in relation.calls}
    if relation.grouping or relation.sets or not functions <= _ZERO | _NULL:
        return relation
    row = tuple(
        Literal(0 if each.function in _ZERO else None, each.type, "") for each in relation.calls
    )
    return Values((row,), relation.row)


_ZERO, _NULL = frozenset({"COUNT", "$SUM0"}), frozenset({"SUM", "MIN", "MAX"})


def _chosen(relation: Project, rows: Values) -> Relation:
    """Rows of which columns are chosen and named."""
    places = [each.index for each in relation.expressions if isinstance(each, InputRef)]
    if len(places) < len(relation.expressions):
        return relation
    made = tuple(tuple(row[place] for place in places) for row in rows.rows)
    return Values(made, relation.row)


def _is_empty(relation: Relation) -> bool:
    return isinstance(relation, Values) and not relation.rows


def _has_no_rows(relation: Relation) -> bool:
    match relation:
        case Project():
            return not has_over(relation.expressions) and _is_empty(relation.input)
        case Filter() | Sort():
            return _is_empty(relation.input)
        case Aggregate():
            return bool(relation.grouping) and not relation.sets and _is_empty(relation.input)
        case Join(kind="INNER" | "SEMI"):
            sides = _is_empty(relation.left) or _is_empty(relation.right)
            return sides or any(_is_never(part) for part in conjuncts(relation.condition))
        case Join(kind="LEFT" | "ANTI"):
            return _is_empty(relation.left)
        case Join(kind="RIGHT"):
            return _is_empty(relation.right)
        case _:
            return False


def _union(relation: Union) -> Relation:
    kept = tuple(each for each in relation.inputs if not _is_empty(each))
    if len(kept) == len(relation.inputs):
        return relation
    if not kept:
        return Values((), relation.row)
    if len(kept) == 1 and kept[0].row == relation.row:
        return kept[0]
    return with_inputs(relation, kept) if len(kept) > 1 else relation
