"""Arrays, maps and rows in expressions: making them, and taking an element out.

Source: Calcite `SqlArrayValueConstructor`, `SqlMapValueConstructor`, `SqlItemOperator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Literal, Rex
from service.sql import types
from service.sql.coercion import as_branch
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.rex import call, type_of
from state.types import INTEGER_BITS, STRING_ROOTS, LogicalType, TypeRoot, row_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.errors import Position


def array_of(elements: Sequence[Rex], position: Position) -> Rex:
    """ARRAY[...].

    Raises:
        ValidationError: It has no elements, or they have no common type.
    """
    if not elements:
        raise ValidationError("Require at least 1 argument", position)
    made, kind = _alike(elements, "the elements of ARRAY", position)
    array = LogicalType(TypeRoot.ARRAY, nullable=False, children=(kind,))
    return call("ARRAY", made, array, syntax="SPECIAL")


def map_of(parts: Sequence[Rex], position: Position) -> Rex:
    """MAP[key, value, ...].

    Raises:
        ValidationError: A key has no value, or keys or values have no common type.
    """
    if not parts or len(parts) % 2:
        raise ValidationError("MAP requires an even number of arguments", position)
    keys, key = _alike(parts[::2], "the keys of MAP", position)
    values, value = _alike(parts[1::2], "the values of MAP", position)
    pairs = [each for pair in zip(keys, values, strict=True) for each in pair]
    made = LogicalType(TypeRoot.MAP, nullable=False, children=(key, value))
    return call("MAP", pairs, made, syntax="SPECIAL")


def row_of(values: Sequence[Rex]) -> Rex:
    """ROW(...), whose fields have no names of their own."""
    names = tuple(f"EXPR${at}" for at in range(len(values)))
    made = row_type(names, tuple(map(type_of, values)), nullable=False)
    return call("ROW", values, made, syntax="SPECIAL")


def item(collection: Rex, key: Rex, position: Position) -> Rex:
    """collection[key]: an element of an array, from 1, or the value of a key.

    Raises:
        ValidationError: It is no array or map, or cannot have such a key.
    """
    kind, given = type_of(collection), type_of(key)
    is_array = kind.root is TypeRoot.ARRAY and given.root in INTEGER_BITS
    if not is_array and (kind.root is not TypeRoot.MAP or not _is_key(kind.children[0], given)):
        raise ValidationError(
            f"Cannot apply 'ITEM' to arguments of type 'ITEM(<{kind.root.value}>, "
            f"<{given.root.value}>)'.",
            position,
        )
    if is_array and isinstance(key, Literal) and isinstance(key.value, int) and key.value < 1:
        raise ValidationError(
            f"Array element access needs an index starting at 1 but was {key.value}.", position
        )
    return call("ITEM", [collection, key], kind.children[-1].with_nullable(True), syntax="SPECIAL")


def _is_key(wanted: LogicalType, given: LogicalType) -> bool:
    same = wanted.root is given.root or {wanted.root, given.root} <= STRING_ROOTS
    return same or {wanted.root, given.root} <= INTEGER_BITS.keys()


def _alike(values: Sequence[Rex], what: str, position: Position) -> tuple[list[Rex], LogicalType]:
    """The values in the type that holds them all, and that."""
    kinds = [type_of(each) for each in values]
    if all(each.root is TypeRoot.ROW for each in kinds) and len(set(kinds)) > 1:
        raise UnsupportedSql(f"{what} are rows of different types", position)
    common = kinds[0] if len(set(kinds)) == 1 else types.common_type(kinds)
    if common is None or common.root is TypeRoot.NULL:
        raise ValidationError(f"{what} have no common type", position)
    made = types.regular(common).with_nullable(types.any_nullable(kinds))
    return [as_branch(each, made) for each in values], made
