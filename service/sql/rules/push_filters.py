"""Move conditions down to where the rows come from.

    before   Filter[l.v = 'a' AND r.w = 'b'](Join[l.k = r.k](l, r))
    after    Join[l.k = r.k](Filter[v = 'a'](l), Filter[w = 'b'](r))

A condition may pass an operator only if the operator gives the same rows for what is kept: it
passes projections, the grouping columns of an aggregate, unions, and the sides of a join whose
rows are not padded. A condition that cannot be true for a padded row makes an outer join an inner
one. What is asked of a column that must equal one of the other side is asked of that one, too. It
does not pass event time, windows, limits, ranks, nor versions of a table in event time.

Source: Calcite `FilterJoinRule`, `FilterProjectTransposeRule`, `FilterAggregateTransposeRule`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, Rex
from service.sql.algebra import (
    Aggregate,
    Correlate,
    Filter,
    Join,
    KeepAll,
    Project,
    Relation,
    Sort,
    Union,
    VersionJoin,
    inputs,
    with_inputs,
)
from service.sql.rex import (
    call,
    cast,
    conjunction,
    conjuncts,
    has_over,
    inputs_of,
    is_true,
    ref,
    remap,
    shift,
    substitute,
    type_of,
)
from service.sql.types import PROCTIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.terms import JoinKind


def push_filters(relation: Relation) -> Relation:
    """The relation with every condition as far down as it may go."""
    return _push(relation, [])


def _push(relation: Relation, parts: list[Rex]) -> Relation:
    """The relation, of whose rows only those that meet the conditions are kept."""
    match relation:
        case Filter():
            both = dict.fromkeys([*conjuncts(relation.condition), *parts])
            return _push(relation.input, list(both))
        case Project() if not has_over(relation.expressions):
            moved = [substitute(part, relation.scalars) for part in parts]
            return with_inputs(relation, (_push(relation.input, moved),))
        case Join():
            return _push_join(relation, parts)
        case VersionJoin() if type_of(relation.time).time_attribute == PROCTIME.time_attribute:
            return _push_lookup(relation, parts)
        case Aggregate() if relation.grouping and not relation.sets:
            return _push_aggregate(relation, parts)
        case Correlate():
            return _push_correlate(relation, parts)
        case KeepAll():
            return with_inputs(relation, tuple(_push(side, parts) for side in inputs(relation)))
        case Union():
            sides = tuple(_push(side, list(parts)) for side in relation.inputs)
            return with_inputs(relation, sides)
        case Sort() if relation.fetch is None and not relation.offset:
            return with_inputs(relation, (_push(relation.input, parts),))
        case _:
            below = tuple(_push(each, []) for each in inputs(relation))
            return _kept(with_inputs(relation, below), parts)


def _kept(relation: Relation, parts: Sequence[Rex]) -> Relation:
    condition = conjunction([part for part in parts if not is_true(part)])
    return relation if condition is None else Filter(relation, condition)


def _push_aggregate(relation: Aggregate, parts: list[Rex]) -> Relation:
    width = len(relation.grouping)
    passing = [part for part in parts if inputs_of(part) and max(inputs_of(part)) < width]
    positions = dict(enumerate(relation.grouping))
    moved = [remap(part, positions) for part in passing]
    below = _push(relation.input, moved)
    return _kept(with_inputs(relation, (below,)), [part for part in parts if part not in passing])


def _push_correlate(relation: Correlate, parts: list[Rex]) -> Relation:
    """Conditions on the input go below; those on what is made of it join the condition."""
    width = len(relation.input.row)
    below = [part for part in parts if _is_left(part, width)]
    made = []
    if relation.kind == "INNER":
        made = [part for part in parts if _is_right(part, width)]
    own = [*conjuncts(relation.condition), *(shift(part, -width) for part in made)]
    moved = replace(relation, input=_push(relation.input, below), condition=conjunction(own))
    return _kept(moved, [part for part in parts if part not in below and part not in made])


def _push_lookup(relation: VersionJoin, parts: list[Rex]) -> Relation:
    """Conditions on the left go below; those on the looked-up table join the condition."""
    width = len(relation.left.row)
    own = conjuncts(relation.condition)
    left = [part for part in parts if _is_left(part, width)]
    rest = [part for part in parts if part not in left]
    kind: JoinKind = relation.kind
    if kind == "LEFT" and any(
        _rejects_null(part, range(width, len(relation.row))) for part in rest
    ):
        kind = "INNER"
    above = rest if kind == "LEFT" else []
    own += [part for part in rest if kind == "INNER"]
    made = replace(
        relation,
        left=_push(relation.left, left),
        right=_push(relation.right, []),
        kind=kind,
        condition=conjunction(own),
    )
    return _kept(_as_before(made, relation), above)


def _push_join(relation: Join, parts: list[Rex]) -> Relation:
    width = len(relation.left.row)
    kind = _reduced(relation, parts)
    own = conjuncts(relation.condition)
    above: list[Rex] = []
    if kind == "INNER":
        own, parts = own + [part for part in parts if part not in own], []
        own = _with_constants(own, width)
        own += _transferred(own, own, width)
    left, right, rest = _split(own, width, kind)
    for part in parts:
        if _is_left(part, width) and kind in ("LEFT", "SEMI", "ANTI"):
            left.append(part)
        elif _is_right(part, width) and kind == "RIGHT":
            right.append(shift(part, -width))
        else:
            above.append(part)
    if kind in ("LEFT", "RIGHT"):
        compared = [part for part in parts if part not in above and _is_comparison(part)]
        for part in _transferred(compared, own, width):
            (right if kind == "LEFT" else left).append(
                shift(part, -width) if kind == "LEFT" else part
            )
    made = replace(
        relation,
        left=_push(relation.left, left),
        right=_push(relation.right, right),
        kind=kind,
        condition=conjunction(rest),
    )
    return _kept(_as_before(made, relation), above)


def _is_comparison(part: Rex) -> bool:
    """Whether a condition compares, but for a column that is tied to one value."""
    is_known = isinstance(part, Call) and part.name in ("=", "<>", "<", ">", "<=", ">=")
    return is_known and constant_of(part) is None


def _split(own: list[Rex], width: int, kind: JoinKind) -> tuple[list[Rex], list[Rex], list[Rex]]:
    """A join's own conditions: what its sides can check, and the rest."""
    left = [part for part in own if _is_left(part, width) and kind in ("INNER", "RIGHT", "SEMI")]
    right = [part for part in own if _is_right(part, width) and kind in ("INNER", "LEFT", "SEMI")]
    rest = [part for part in own if part not in left and part not in right]
    return left, [shift(part, -width) for part in right], rest


def _with_constants(own: list[Rex], width: int) -> list[Rex]:
    """`a = b AND a = 1` is `a = 1 AND b = 1`: both sides are filtered, and nothing is compared."""
    constants = dict(pair for part in own if (pair := constant_of(part)) is not None)
    made: list[Rex] = []
    for part in own:
        sides = _equal_columns(part)
        if sides is None or not _crosses(sides, width):
            made.append(part)
            continue
        first, second = (constants.get(side.index) for side in sides)
        known = first or second
        if known is None or (first is not None and second is not None and first != second):
            # Of two constants: they are spelt differently, or nothing meets all three conditions.
            made.append(part)
        elif first is None or second is None:
            other = sides[0] if first is None else sides[1]
            made.append(call("=", [other, known], type_of(part)))
    return made


def _transferred(parts: Sequence[Rex], own: Sequence[Rex], width: int) -> list[Rex]:
    """Conditions on one column, asked of the column of the other side that it must be equal to.

    Of the same type only: equal numbers of two scales are not equal as texts.

    Source: Flink `JoinConditionEqualityTransferRule`.
    """
    equal: dict[int, InputRef] = {}
    for part in own:
        sides = _equal_columns(part)
        if (
            sides is not None
            and _crosses(sides, width)
            and sides[0].type.with_nullable(True) == sides[1].type.with_nullable(True)
        ):
            equal[sides[0].index], equal[sides[1].index] = sides[1], sides[0]
    made: list[Rex] = []
    for part in parts:
        used = inputs_of(part)
        if len(used) == 1 and (other := equal.get(next(iter(used)))) is not None:
            made.append(_asked_of(part, other))
    return [part for part in made if part not in own]


def _asked_of(rex: Rex, column: InputRef) -> Rex:
    """A condition on one column, asked of another, which may be NULL where the first is not."""
    if isinstance(rex, InputRef):
        return column
    if not isinstance(rex, Call):
        return rex
    operands = tuple(_asked_of(each, column) for each in rex.operands)
    kind = type_of(rex)
    is_null = kind.nullable or (column.type.nullable and not rex.name.startswith("IS "))
    return replace(rex, operands=operands, type=kind.with_nullable(is_null))


def constant_of(part: Rex) -> tuple[int, Literal] | None:
    """The column that a condition ties to one value, and the value."""
    if not isinstance(part, Call) or part.name != "=":
        return None
    first, second = part.operands
    if isinstance(second, InputRef):
        first, second = second, first
    if isinstance(first, InputRef) and isinstance(second, Literal) and second.value is not None:
        return first.index, second
    return None


def _equal_columns(part: Rex) -> tuple[InputRef, InputRef] | None:
    if isinstance(part, Call) and part.name == "=":
        first, second = part.operands
        if isinstance(first, InputRef) and isinstance(second, InputRef):
            return first, second
    return None


def _crosses(sides: tuple[InputRef, InputRef], width: int) -> bool:
    return (sides[0].index < width) != (sides[1].index < width)


def _reduced(relation: Join, parts: list[Rex]) -> JoinKind:
    """The kind of join that is left when conditions above it reject its padded rows."""
    width, total = len(relation.left.row), len(relation.row)
    rejects_left = any(_rejects_null(part, range(width)) for part in parts)
    rejects_right = any(_rejects_null(part, range(width, total)) for part in parts)
    match relation.kind:
        case "LEFT" if rejects_right:
            return "INNER"
        case "RIGHT" if rejects_left:
            return "INNER"
        case "FULL" if rejects_left and rejects_right:
            return "INNER"
        case "FULL" if rejects_left:
            return "LEFT"
        case "FULL" if rejects_right:
            return "RIGHT"
        case kind:
            return kind


_REJECTING = frozenset({"=", "<>", "<", ">", "<=", ">=", "LIKE", "IS NOT NULL", "IS TRUE"})


def _rejects_null(part: Rex, columns: range) -> bool:
    """Whether a condition cannot be true where all of these columns are NULL."""
    if not isinstance(part, Call) or part.name not in _REJECTING:
        return False
    return any(_is_null_with(operand, columns) for operand in part.operands)


_STRICT = frozenset({"+", "-", "*", "/", "CAST"})
"""What is NULL where an operand is."""


def _is_null_with(rex: Rex, columns: range) -> bool:
    """Whether an expression is NULL where all of these columns are."""
    if isinstance(rex, Call) and rex.name in _STRICT:
        return any(_is_null_with(operand, columns) for operand in rex.operands)
    return isinstance(rex, InputRef) and rex.index in columns


def _as_before(made: Join | VersionJoin, old: Join | VersionJoin) -> Relation:
    """What a join of a stricter kind gives, with the types that it had before."""
    before, after = old.row, made.row
    if before.types == after.types:
        return made
    expressions = tuple(
        cast(ref(index, given), wanted)
        for index, (given, wanted) in enumerate(zip(after.types, before.types, strict=True))
    )
    return Project(made, expressions, before.names)


def _is_left(part: Rex, width: int) -> bool:
    used = inputs_of(part)
    return bool(used) and max(used) < width


def _is_right(part: Rex, width: int) -> bool:
    used = inputs_of(part)
    return bool(used) and min(used) >= width
