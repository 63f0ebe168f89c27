"""Lines of a spread history's index, as far as an epoch knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.multiset.index import LINE_BYTES, numbers_in, parse_lines
from state.multiset.spread import block_of, spans_of_blocks
from state.multiset.vectors import distinct_counts, is_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.multiset.index import Characters
    from state.multiset.numbered import Numbered

    Integers = NDArray[np.int64]


@dataclass(slots=True)
class KnownIndex:
    """The buckets of one index that were read."""

    read: list[int]
    """Their numbers."""
    lines: Characters
    bucket: Integers
    """Per line: the number of its bucket."""
    numbers: Integers
    """Per line: the sequence number of the entry."""
    matches: Numbered | None = None
    """Per line: the match columns of the entry, where all of them are known as numbers."""
    is_ascending: bool = False
    """Whether the lines are known to be in the order of their sequence numbers."""

    @classmethod
    def of(cls, read: list[int], texts: Sequence[bytes | None]) -> KnownIndex:
        """From the texts of buckets."""
        known = [text for text in texts if text is not None]
        counts = [0 if text is None else len(text) // LINE_BYTES for text in texts]
        lines = parse_lines(known)
        return cls(read, lines, np.repeat(np.array(read, np.int64), counts), numbers_in(lines))

    def by_number(self) -> KnownIndex:
        """The same lines in the order of their sequence numbers."""
        if self.is_ascending:
            return self
        if (self.numbers[1:] >= self.numbers[:-1]).all():
            self.is_ascending = True
            return self
        lines, matches = np.argsort(self.numbers), self.matches
        return KnownIndex(
            self.read,
            self.lines[lines],
            self.bucket[lines],
            self.numbers[lines],
            None if matches is None else matches.with_values(matches.values[lines]),
            is_ascending=True,
        )

    def learn(self, read: Sequence[int], texts: Sequence[bytes | None]) -> None:
        """Take more buckets."""
        more = KnownIndex.of(list(read), texts)
        self.read += more.read
        self.lines = np.concatenate([self.lines, more.lines])
        self.bucket = np.concatenate([self.bucket, more.bucket])
        self.numbers = np.concatenate([self.numbers, more.numbers])
        self.matches, self.is_ascending = None, False

    def entry_counts(self, blocks: Integers) -> Integers:
        """How many entries these blocks have, where the index is known as a whole.

        Args:
            blocks: Their numbers, ascending; each has some.
        """
        if self.is_ascending:
            low, high = spans_of_blocks(self.numbers, blocks)
            return high - low
        held = block_of(self.numbers)
        return distinct_counts(held[is_among(held, blocks)])[1]

    @property
    def bytes(self) -> int:
        """How many bytes it takes."""
        known = 0 if self.matches is None else self.matches.values.nbytes
        return self.lines.nbytes + self.bucket.nbytes + self.numbers.nbytes + known
