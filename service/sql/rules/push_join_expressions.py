"""Compute what a join compares below it, so that columns are compared.

    before   Join[UPPER(l.k) = r.k](l, r)
    after    Join[$f1 = k](Project[.., UPPER(k) AS $f1](l), r)

Columns of different types are compared in the type that holds both.

    before   Join[id = bid](l(id INT), r(bid BIGINT))
    after    Join[id0 = bid](Project[id, CAST(id AS BIGINT) AS id0](l), r)

The right side of a join FOR SYSTEM_TIME AS OF is asked by its own columns, so there it is the left
value that gets the other type, and NULL, which meets nothing, where that type cannot hold it.

    before   VersionJoin[bid = id](l(bid BIGINT), r(id INT))
    after    VersionJoin[$f1 = id](Project[bid, CASE WHEN CAST(CAST(bid AS INT) AS BIGINT) = bid
             THEN CAST(bid AS INT) END AS $f1](l), r)

Source: Flink `FlinkJoinPushExpressionsRule`, `JoinConditionTypeCoerceRule`, Calcite
`RelOptUtil.pushDownJoinConditions`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, Rex
from service.sql.algebra import Join, Project, Relation, VersionJoin, inputs, with_inputs
from service.sql.rex import (
    call,
    conjunction,
    conjuncts,
    inputs_of,
    literal,
    ref,
    remap,
    shift,
    type_of,
)
from service.sql.terms import unique_names
from service.sql.types import BOOLEAN, common_type, regular
from state.types import BINARY_ROOTS, FLOAT_ROOTS, INTEGER_BITS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.types import LogicalType


def push_join_expressions(relation: Relation) -> Relation:
    """The relation with joins that compare columns."""
    below = tuple(push_join_expressions(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, (Join, VersionJoin)) and made.condition is not None:
        return _pushed(made)
    return made


def _pushed(join: Join | VersionJoin) -> Relation:
    width = len(join.left.row)
    added: tuple[list[Rex], list[Rex]] = ([], [])
    parts = conjuncts(join.condition)
    of_one_type = _of_one_type if isinstance(join, Join) else _of_right_type
    parts = [of_one_type(part, width) for part in parts]
    for part in parts:
        sides = _sides(part, width)
        for side in (0, 1) if sides is not None else ():
            assert sides is not None, "the loop does not run for other conditions"
            rex = sides[side]
            if not isinstance(rex, InputRef) and rex not in added[side]:
                added[side].append(rex)
    if not added[0] and not added[1]:
        return join
    if isinstance(join, VersionJoin) and added[1]:
        return join
    left = _with(join.left, added[0])
    right = _with(join.right, [shift(rex, -width) for rex in added[1]])
    begin = len(left.row)
    place = {rex: ref(width + at, type_of(rex)) for at, rex in enumerate(added[0])}
    right_begin = begin + len(join.right.row)
    place |= {rex: ref(right_begin + at, type_of(rex)) for at, rex in enumerate(added[1])}
    moved = [_replaced(part, width, place, begin - width) for part in parts]
    made = replace(join, left=left, right=right, condition=conjunction(moved))
    if join.kind in ("SEMI", "ANTI"):
        return _columns(made, range(width), join)
    kept = [*range(width), *range(len(left.row), len(left.row) + len(join.right.row))]
    return _columns(made, kept, join)


def _columns(made: Relation, kept: range | list[int], old: Relation) -> Relation:
    """The columns that were there before."""
    row = made.row
    return Project(made, tuple(ref(each, row.types[each]) for each in kept), old.row.names)


def _with(relation: Relation, added: list[Rex]) -> Relation:
    if not added:
        return relation
    row = relation.row
    columns = tuple(map(ref, range(len(row)), row.types))
    names = row.names
    for rex in added:
        source = rex.operands[0] if isinstance(rex, Call) and rex.name == "CAST" else None
        name = row.names[source.index] if isinstance(source, InputRef) else f"$f{len(names)}"
        names += unique_names(names, [name])
    return Project(relation, (*columns, *added), names)


def _of_one_type(part: Rex, width: int) -> Rex:
    """An equality of a left and a right value, over one type."""
    if not isinstance(part, Call) or _sides(part, width) is None:
        return part
    kinds = [regular(type_of(operand)) for operand in part.operands]
    common = common_type(kinds)
    if common is None or kinds[0].with_nullable(True) == kinds[1].with_nullable(True):
        return part
    operands = tuple(
        operand
        if kind.with_nullable(True) == common.with_nullable(True)
        else call("CAST", [operand], common.with_nullable(kind.nullable))
        for operand, kind in zip(part.operands, kinds, strict=True)
    )
    return replace(part, operands=operands)


def _of_right_type(part: Rex, width: int) -> Rex:
    """An equality of a left value and a right column, over the column's type."""
    sides = _sides(part, width)
    if sides is None or not isinstance(sides[1], InputRef):
        return part
    left, right = sides
    given, wanted = (regular(type_of(each)).with_nullable(True) for each in sides)
    common = common_type([given, wanted])
    if common is None or _is_held_alike(given, wanted):
        return part
    nullable = type_of(left).nullable
    if wanted == common.with_nullable(True):
        return _equal(call("CAST", [left], wanted.with_nullable(nullable)), right)
    if common.root in FLOAT_ROOTS and not _is_exact(wanted, common):
        return part
    narrow = call("CAST", [left], wanted)
    wide = left if given == common.with_nullable(True) else call("CAST", [left], common)
    is_held = _equal(call("CAST", [narrow], common.with_nullable(True)), wide)
    return _equal(call("CASE", [is_held, narrow, literal(None, wanted)], wanted), right)


def _equal(left: Rex, right: Rex) -> Rex:
    nullable = type_of(left).nullable or type_of(right).nullable
    return call("=", [left, right], BOOLEAN.with_nullable(nullable))


def _is_exact(narrow: LogicalType, floating: LogicalType) -> bool:
    """Whether no two numbers of a type become one as a FLOAT or DOUBLE."""
    digits = 24 if floating.root is TypeRoot.FLOAT else 53
    return narrow.root in FLOAT_ROOTS or INTEGER_BITS.get(narrow.root, 64) <= digits


def _is_held_alike(left: LogicalType, right: LogicalType) -> bool:
    """Whether equal values of both types are the same to who compares them."""
    is_text = left.root in STRING_ROOTS | BINARY_ROOTS and left.root is right.root
    return is_text or left == right


def _sides(part: Rex, width: int) -> tuple[Rex, Rex] | None:
    """The left and the right side of an equality, if each reads one side only."""
    if not isinstance(part, Call) or part.name != "=":
        return None
    first, second = part.operands
    if isinstance(first, Literal) or isinstance(second, Literal):
        return None
    for left, right in ((first, second), (second, first)):
        own, other = inputs_of(left), inputs_of(right)
        if own and other and max(own) < width <= min(other):
            return left, right
    return None


def _replaced(part: Rex, width: int, place: Mapping[Rex, Rex], grown: int) -> Rex:
    """A condition over the wider sides."""
    places = {index: index if index < width else index + grown for index in inputs_of(part)}
    if _sides(part, width) is None or not isinstance(part, Call):
        return remap(part, places)
    operands = tuple(
        place[operand] if operand in place else remap(operand, places) for operand in part.operands
    )
    return replace(part, operands=operands)
