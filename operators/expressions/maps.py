"""Maps made of other values, and what is in them, in the order of the keys.

Flink promises no order of keys and values: it has that in which they came. A map that was kept in
state has another order than one that came over the wire, so here the keys say it.

Source: Flink `functions.scalar.Map*Function` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.casts import convert
from operators.expressions.operand_rules import check_keys, exact_key
from operators.expressions.representation import Pairs, pairs_of
from operators.expressions.site import Site, lifted

if TYPE_CHECKING:
    from operators.expressions.representation import Run


def _ordered(pairs: Pairs) -> Pairs:
    return sorted(pairs, key=lambda pair: pair[0])


def keys(site: Site) -> Run:
    """MAP_KEYS."""
    exact_key(site)
    return lifted(lambda pairs: [key for key, _ in _ordered(pairs)], site[0])


def values(site: Site) -> Run:
    """MAP_VALUES, in the order of the keys."""
    exact_key(site)
    return lifted(lambda pairs: [value for _, value in _ordered(pairs)], site[0])


def entries(site: Site) -> Run:
    """MAP_ENTRIES: rows of key and value."""
    exact_key(site)
    return lifted(_ordered, site[0])


def from_arrays(site: Site) -> Run:
    """MAP_FROM_ARRAYS(keys, values)."""
    check_keys(site)
    return lifted(pairs_of, *site.operands)


def union(site: Site) -> Run:
    """MAP_UNION: of a key that is in several, the last map's value."""
    for at in range(len(site)):
        exact_key(site, at)
    return lifted(_union, *(convert(site, each, site.type) for each in site.operands))


def _union(*maps: Pairs) -> Pairs:
    return list(dict(pair for pairs in maps for pair in pairs).items())
