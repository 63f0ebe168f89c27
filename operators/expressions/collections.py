"""Arrays, maps and rows: making them and taking them apart.

Their elements are values as rows have them; they change form when they are taken out.

Source: Flink `ScalarOperatorGens` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.expressions.casts import convert
from operators.expressions.operand_rules import (
    EXACT_ROOTS,
    check_row,
    map_entries,
    texts_to_join,
)
from operators.expressions.representation import pairs_of, to_inside, to_row
from operators.expressions.site import Site, Value, lifted
from operators.expressions.units import from_units, to_units
from state.types import INTEGER_BITS, MAP_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from operators.expressions.representation import Pairs, Row, Run


def as_element(site: Site, value: Value, logical: LogicalType) -> Run:
    """The operand as an element of this type."""
    converted = convert(site, value, logical)
    outside = to_row(logical)
    return converted.run if outside is None else lifted(outside, converted)


def taken(run: Run, logical: LogicalType) -> Run:
    """An element in the form that expressions compute with."""
    inside = to_inside(logical)
    return run if inside is None else lifted(inside, Value(run, logical))


def array(site: Site) -> Run:
    """ARRAY[...]."""
    element = site.type.children[0]
    runs = [as_element(site, value, element) for value in site.operands]
    return lambda row: [run(row) for run in runs]


def map_of(site: Site) -> Run:
    """MAP[key, value, ...]; a row in which two keys are equal, or one is NULL, ends the query."""
    key_type, value_type = site.type.children
    entries = map_entries(site)
    pairs = [
        (as_element(site, key, key_type), as_element(site, value, value_type))
        for key, value in entries
    ]
    if all(key.is_literal for key, _ in entries):
        return lambda row: [(key(row), value(row)) for key, value in pairs]

    def run(row: Row) -> Pairs:
        names = [key(row) for key, _ in pairs]
        return pairs_of(names, [value(row) for _, value in pairs])

    return run


def row_of(site: Site) -> Run:
    """ROW(...), with the declared names."""
    check_row(site)
    pairs = zip(site.operands, site.type.children, strict=True)
    runs = [as_element(site, value, kind) for value, kind in pairs]
    return lambda row: tuple([run(row) for run in runs])


def item(site: Site) -> Run:
    """collection[x]: an element from 1, or the value of a key; NULL where there is none."""
    value, key = site.operands
    if value.type.root is TypeRoot.MAP:
        key_type, value_type = value.type.children
        if key_type.root not in EXACT_ROOTS:
            site.refuse_types()
        found = Value(as_element(site, key, key_type), key_type)
        return taken(lifted(_value_of, value, found), value_type)
    if value.type.root is not TypeRoot.ARRAY or key.type.root not in INTEGER_BITS:
        site.refuse_types()
    return taken(lifted(_element_at, value, key), value.type.children[0])


def _value_of(pairs: list[tuple[Any, Any]], key: object) -> Any:
    for name, value in pairs:
        if name == key:
            return value
    return None


def _element_at(elements: list[Any], index: int) -> Any:
    return elements[index - 1] if 1 <= index <= len(elements) else None


def cardinality(site: Site) -> Run:
    """CARDINALITY: the number of elements or pairs."""
    if site[0].type.root is not TypeRoot.ARRAY and site[0].type.root not in MAP_ROOTS:
        site.refuse_types()
    return lifted(len, site[0])


def split(site: Site) -> Run:
    """SPLIT(x, separator): the parts of a text; none of an empty one."""
    return lifted(_split, site.of_type(0, STRING_ROOTS), site.of_type(1, STRING_ROOTS))


def _split(text: str, between: str) -> list[str]:
    if not text:
        return []
    # Without a separator there is one between any two UTF-16 units.
    return text.split(between) if between else list(map(from_units, to_units(text)))


def array_join(site: Site) -> Run:
    """ARRAY_JOIN(texts, separator[, for NULL]): leaves NULLs out if nothing stands for them."""
    return lifted(_joined, *texts_to_join(site))


def _joined(texts: list[str | None], between: str, missing: str | None = None) -> str:
    found = [missing if text is None else text for text in texts]
    return between.join([text for text in found if text is not None])
