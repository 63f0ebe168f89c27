"""Maps made of other values, and what is in them, in the order of the keys.

Spark's keys come in the order in which they were written, which is another one for a map that was
kept in state.

Source: Flink `functions.scalar.Map*Function` (2.3), checked by running it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql.connect import functions as sf

from operators.expressions.operand_rules import NO_MAP, check_keys, exact_key
from service.runtime.expressions.casts import convert
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all, failing


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

    def made(names: Column, found: Column) -> Column:
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

    return bind_all(site.operands, made)


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
