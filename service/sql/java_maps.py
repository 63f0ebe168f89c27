"""The order of Java's hash maps, in which Flink lists keys, and options of tables.

Source: `java.util.HashMap` (17), whose places are twice as many once three quarters are taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.hashes import code_of_text

if TYPE_CHECKING:
    from collections.abc import Collection

_PLACES_MIN = 16
_LOW_32 = 0xFFFFFFFF


def place_of(code: int, places: int = _PLACES_MIN) -> int:
    """Where a key with this hash code stands among so many places, a power of two."""
    code &= _LOW_32
    return (code ^ code >> 16) & (places - 1)


def in_map_order(texts: Collection[str]) -> list[str]:
    """Texts in the order of a map that has them as keys; of one place as they were put in.

    >>> in_map_order(["path", "format", "connector"])
    ['path', 'connector', 'format']
    """
    places = _PLACES_MIN
    while len(texts) > places * 3 // 4:
        places *= 2
    return sorted(texts, key=lambda text: place_of(code_of_text(text), places))
