"""Match columns that a whole number tells apart: found in a history without their digests.

Where all match columns of an epoch but one are the same in all of its changes, and that one is a
whole number, the texts of match columns, as histories are indexed by them, are equal where these
numbers are. A worker remembers the numbers of a history's entries beside its index, so that digests
are only made for the lines that are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_SPAN_MAX = 1 << 16
"""A table of numbers has so many places at most."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Texts of match columns as numbers, and what stands around these in all of the texts."""

    before: bytes
    behind: bytes
    values: Integers
    """A number for each text; written in decimal digits there."""

    def is_like(self, other: Numbered) -> bool:
        """Whether texts of these and those are equal where the numbers are."""
        return self.before == other.before and self.behind == other.behind

    def with_values(self, values: Integers) -> Numbered:
        """Others of the same kind."""
        return Numbered(self.before, self.behind, values)

    def read(self, texts: Sequence[bytes]) -> Integers | None:
        """The numbers of texts that are of this kind; None if one is not."""
        start, end = len(self.before), -len(self.behind) or None
        numbers = np.empty(len(texts), np.int64)
        for place, text in enumerate(texts):
            digits = text[start:end]
            if not digits.removeprefix(b"-").isdigit():
                return None
            if text != b"".join((self.before, digits, self.behind)):
                return None
            numbers[place] = int(digits)
        return numbers


def find_numbers(wanted: Integers, held: Integers) -> Integers:
    """Per held number: the place among those wanted, which differ, that has it; -1 where none."""
    if not wanted.size:
        return np.full(held.size, -1, np.int64)
    low, high = int(wanted.min()), int(wanted.max())
    if high - low < _SPAN_MAX:
        # The place behind the end stands for all that is outside.
        table = np.full(high - low + 2, -1, np.int64)
        table[wanted - low] = np.arange(wanted.size)
        # As unsigned numbers those below are large, too.
        place = np.minimum((held - low).view(np.uint64), np.uint64(high - low + 1))
        found: Integers = table.take(place.view(np.int64))
        return found
    by_value = np.argsort(wanted)
    ordered = wanted[by_value]
    place = np.minimum(ordered.searchsorted(held), wanted.size - 1)
    return np.where(ordered[place] == held, by_value[place], -1)
