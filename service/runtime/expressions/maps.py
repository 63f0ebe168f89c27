"""Maps made of other values, and what is in them, in the order of the keys.

Spark's keys come in the order in which they were written, which is another one for a map that was
kept in state.

Source: Flink `functions.scalar.Map*Function` (2.3), checked by running it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql.connect import functions as sf

from operators.expressions.operand_rules import NO_MAP, check_keys, exact_key, map_entries
from service.runtime.expressions.casts import convert
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all, failing
from service.runtime.expressions.spark_types import spark_type
from state.types import LogicalType, TypeRoot


def _ordered(site: Site) -> Column:
    """The entries of the map, by key."""
    exact_key(site)
    return sf.array_sort(sf.map_entries(site[0].column), _by_key)


def _by_key(left: Column, right: Column) -> Column:
    a, b = left.getField("key"), right.getField("key")
    return sf.when(a < b, sf.lit(-1)).when(a > b, sf.lit(1)).otherwise(sf.lit(0))


def keys(site: Site) -> Column:
    """MAP_KEYS."""
    exact_key(site)
    return sf.sort_array(sf.map_keys(site[0].column))


def values(site: Site) -> Column:
    """MAP_VALUES, in the order of the keys."""
    return sf.transform(_ordered(site), lambda entry: entry.getField("value"))


def entries(site: Site) -> Column:
    """MAP_ENTRIES: rows of key and value."""
    return _ordered(site)


def from_arrays(site: Site) -> Column:
    """MAP_FROM_ARRAYS(keys, values)."""
    check_keys(site)
    return bind_all(site.operands, lambda names, found: _of_pairs(site, names, found))


def map_of(site: Site) -> Column:
    """MAP[key, value, ...]."""
    key_type, value_type = site.type.children
    pairs = [
        (
            convert(site, key, key_type).cast(spark_type(key_type)),
            convert(site, value, value_type).cast(spark_type(value_type)),
        )
        for key, value in map_entries(site)
    ]
    if all(key.is_literal for key in site.operands[::2]):
        return sf.create_map(*(part for pair in pairs for part in pair))
    names, found = (sf.array(*parts) for parts in zip(*pairs, strict=True))
    arrays = [LogicalType(TypeRoot.ARRAY, children=(each,)) for each in site.type.children]
    values = [Value(names, arrays[0], len(site)), Value(found, arrays[1], len(site))]
    return bind_all(values, lambda names, found: _of_pairs(site, names, found))


def _of_pairs(site: Site, names: Column, found: Column) -> Column:
    size = sf.cardinality(names)
    is_none = (
        (size != sf.cardinality(found))
        | (size != sf.cardinality(sf.array_distinct(names)))
        | sf.exists(names, lambda name: name.isNull())
    )
    # Of NULL there is no map, and no failure.
    known = names.isNotNull() & found.isNotNull()
    return sf.when(known & is_none, failing(NO_MAP, site.type)).otherwise(
        sf.map_from_arrays(names, found)
    )


def union(site: Site) -> Column:
    """MAP_UNION: of a key that is in several, the last map's value."""
    for at in range(len(site)):
        exact_key(site, at)
    maps = [Value(convert(site, each, site.type), site.type, each.weight) for each in site.operands]
    return reduce(_union, maps).column


def _union(left: Value, right: Value) -> Value:
    def joined(later: Column) -> Column:
        earlier = sf.map_filter(
            left.column, lambda key, _: ~sf.array_contains(sf.map_keys(later), key)
        )
        return sf.map_concat(earlier, later)

    return Value(bind(right, joined), left.type, left.weight + right.weight)
