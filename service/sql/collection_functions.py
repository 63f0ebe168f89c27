"""Functions of arrays and maps: the types that they give, and those that they take.

What they take is a function of the arguments' types that gives the types which these are brought
to, or None where the function does not take them.

Source: Flink `BuiltInFunctionDefinitions`, `SpecificInputTypeStrategies` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql import types
from state.types import LogicalType, TypeRoot, row_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Taken = Callable[[Sequence[LogicalType]], Sequence[LogicalType] | None]


def array_and(*others: LogicalType) -> Taken:
    """An array, and up to so many other arguments of these types."""

    def taken(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return [given[0], *others[: len(given) - 1]] if _are(TypeRoot.ARRAY, given[:1]) else None

    return taken


def array_and_element(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
    """An array, and what is an element of it."""
    return [given[0], given[0].children[0]] if _are(TypeRoot.ARRAY, given[:1]) else None


def arrays(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
    """Arrays of any types."""
    return given if _are(TypeRoot.ARRAY, given) else None


def arrays_alike(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
    """Arrays whose elements have a common type, to which none needs a cast."""
    made = _common(given) if _are(TypeRoot.ARRAY, given) else None
    return None if made is None else [made] * len(given)


def maps_alike(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
    """The same of maps."""
    made = _common(given) if _are(TypeRoot.MAP, given) else None
    return None if made is None else [made] * len(given)


def one_map(given: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
    """A map."""
    return given if _are(TypeRoot.MAP, given) else None


def _are(root: TypeRoot, given: Sequence[LogicalType]) -> bool:
    return all(each.root is root for each in given)


def _common(given: Sequence[LogicalType]) -> LogicalType | None:
    """The type of arrays, or maps, that holds the elements of all."""
    if len(set(given)) == 1:
        return given[0]
    columns = zip(*(each.children for each in given), strict=True)
    children = []
    for column in columns:
        alike = len({each.with_nullable(True) for each in column}) == 1
        made = column[0] if alike else types.common_type(column)
        if made is None:
            return None
        children.append(made.with_nullable(types.any_nullable(column)))
    nullable = types.any_nullable(given)
    return LogicalType(given[0].root, nullable=nullable, children=tuple(children))


def alike(given: Sequence[LogicalType]) -> LogicalType:
    """What holds the elements of all arrays, or maps; NULL if one is."""
    made = _common(given)
    assert made is not None, "the arguments were taken"
    return made


def itself(given: Sequence[LogicalType]) -> LogicalType:
    """The first argument's type, whatever the others are."""
    return given[0]


def with_element(given: Sequence[LogicalType]) -> LogicalType:
    """The array with an element that may be NULL; itself NULL, so they say, if that is."""
    nullable = types.any_nullable(given)
    element = given[0].children[0]
    element = element.with_nullable(element.nullable or given[1].nullable)
    return LogicalType(TypeRoot.ARRAY, nullable=nullable, children=(element,))


def element(given: Sequence[LogicalType]) -> LogicalType:
    """An element, or NULL."""
    return given[0].children[0].with_nullable(True)


def of_keys(given: Sequence[LogicalType]) -> LogicalType:
    """The keys of a map."""
    return _array(given[0].children[0], given)


def of_values(given: Sequence[LogicalType]) -> LogicalType:
    """The values of a map."""
    return _array(given[0].children[1], given)


def of_entries(given: Sequence[LogicalType]) -> LogicalType:
    """Rows of key and value."""
    return _array(row_type(("key", "value"), given[0].children), given)


def _array(element: LogicalType, given: Sequence[LogicalType]) -> LogicalType:
    nullable = types.any_nullable(given)
    return LogicalType(TypeRoot.ARRAY, nullable=nullable, children=(element,))


def map_of_arrays(given: Sequence[LogicalType]) -> LogicalType:
    """A map of the elements of two arrays."""
    nullable = types.any_nullable(given)
    children = (given[0].children[0], given[1].children[0])
    return LogicalType(TypeRoot.MAP, nullable=nullable, children=children)
