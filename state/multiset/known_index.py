"""Lines of a spread history's index, as far as an epoch knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.multiset.index import LINE_BYTES, buckets_of, numbers_in, origin_of, parse_lines
from state.multiset.spread import block_of, spans_of_blocks
from state.multiset.vectors import distinct_counts, is_among, taken

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.multiset.index import Characters
    from state.multiset.numbered import Numbered
    from state.multiset.touched import Matching
    from state.multiset.vectors import Places

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


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


def split_buckets(index: KnownIndex, buckets: int, was: int, changed: Flags) -> Integers:
    """The bucket of each line where there are more buckets than there were.

    Args:
        index: As it was.
        buckets: How many buckets there are now.
        was: How many there were.
        changed: By bucket; set for those that are split, and those that gain by it.
    """
    bucket = index.bucket.copy()
    is_split = np.zeros(was, np.bool_)
    is_split[[origin_of(each, was) for each in range(was, buckets)]] = True
    splits = is_split[bucket].nonzero()[0]
    split_bucket = buckets_of(index.lines.take(splits, axis=0), buckets)
    changed[bucket[splits]] = changed[split_bucket] = True
    bucket[splits] = split_bucket
    return bucket


def matches_after(
    before: Numbered | None, kept: Places, matching: Matching, groups: Integers
) -> Numbered | None:
    """Match columns of the lines that are kept and of those of groups that are new, as numbers."""
    if before is None:
        return None
    if not groups.size:
        # A copy: a slice would keep all that there was.
        return before.with_values(taken(before.values, kept).copy())
    new = matching.numbered(groups)
    if new is None or not new.is_like(before):
        return None
    return before.with_values(np.concatenate([taken(before.values, kept), new.values]))
