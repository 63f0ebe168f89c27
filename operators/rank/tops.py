"""The first rows of many partitions at once, while rows come to them: a table, a line a partition.

Rows are numbers: one that says which row it is, and a code that says where it stands in the order
(`operators.sort_codes`). What is hard is that what one row does depends on those before it in its
partition. So rows come in rounds, of each partition at most one, and a round is a few passes over
the lines of those partitions. Between rounds all rows are thrown away that the last row of their
partition keeps out; of random rows nearly all are, and of ten rows in a hundred partitions and of
a thousand rows in one there are some tens of rounds in either case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from operators.sort_codes import CODE_MAX
from state.orders import stable_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_BLOCK: Final = 16
"""So many rows of a partition come before others are thrown away; then twice as many, and so on:
of those of a block, in random order, about as many are left as a partition shows."""
_ROUNDS_MAX: Final = 64
_FEW: Final = 8
"""Partitions for which alone more rounds of a block are not worth while: one row at a time costs
less than a round."""


@dataclass(frozen=True, slots=True)
class Round:
    """Rows that came into their partitions' lines, of each partition at most one."""

    rows: Integers
    places: Integers
    """By row: where it stands now, from 0."""
    counts: Integers
    """By row: how many rows its partition had before; at most as many as it shows."""
    before: Integers
    """By row: the line before, -1 where there was no row."""
    after: Integers
    """By row: the line that it stands in."""


class Tops:
    """The first rows of partitions.

    Args:
        partitions: How many there are; they are numbered.
        end: How many rows are shown of each.
    """

    def __init__(self, partitions: int, end: int) -> None:
        self._end = end
        self._codes = np.full((partitions, end), CODE_MAX, np.int64)
        self.rows = np.full((partitions, end), -1, np.int64)
        """By partition: its rows in order, -1 behind them."""
        self.counts = np.zeros(partitions, np.int64)
        """By partition: how many rows it has."""
        self.left = np.zeros(partitions, np.bool_)
        """By partition: whether it was given up: not all of its rows have come."""
        self.changed = np.zeros(partitions, np.bool_)
        """By partition: whether a row came into its line."""

    def begin(self, partition: Integers, place: Integers, codes: Integers, rows: Integers) -> None:
        """Let partitions have rows, each at a place; those of a partition fill the first ones."""
        self._codes[partition, place] = codes
        self.rows[partition, place] = rows
        self.counts += np.bincount(partition, minlength=self.counts.size)

    def come(self, partition: Integers, codes: Integers) -> Iterator[Round]:
        """Let rows come in their order, numbered from 0; equal ones stand as they come.

        Args:
            partition: Of each row, ascending.
            codes: Of each row.

        Yields:
            What came into lines. All partitions that have as much to do are worked on together.
        """
        starts = np.searchsorted(partition, partition)
        number = np.arange(partition.size) - starts
        rest, upto = np.arange(partition.size), _BLOCK
        while rest.size:
            comes = number[rest] < upto
            block = rest[comes]
            yield from self._block(block[self._enters(block, partition, codes)], partition, codes)
            rest = rest[~comes]
            rest = rest[self._enters(rest, partition, codes)]
            upto *= 2

    def _enters(self, rows: Integers, partition: Integers, codes: Integers) -> Flags:
        """Whether the last row of its partition lets a row in."""
        mine = partition[rows]
        enters: Flags = codes[rows] < self._codes[mine, -1]
        return enters & ~self.left[mine]

    def _block(self, rows: Integers, partition: Integers, codes: Integers) -> Iterator[Round]:
        if not rows.size:
            return
        mine = partition[rows]
        number = np.arange(rows.size) - np.searchsorted(mine, mine)
        rounds = int(number.max()) + 1
        by_number = rows[stable_order(number, rounds)]
        ends = np.cumsum(np.bincount(number, minlength=rounds)).tolist()
        begin = 0
        for at, end in enumerate(ends):
            if at >= _ROUNDS_MAX and end - begin < _FEW:
                self.left[partition[by_number[begin:end]]] = True
                return
            due = by_number[begin:end]
            begin = end
            enters = self._enters(due, partition, codes)
            if not enters.all():
                due = due[enters]
            if due.size:
                yield self._round(due, partition[due], codes[due])

    def _round(self, rows: Integers, partition: Integers, codes: Integers) -> Round:
        old_codes, before = self._codes[partition], self.rows[partition]
        places = (old_codes <= codes[:, None]).sum(axis=1)
        columns = np.arange(self._end)
        at, behind = columns == places[:, None], columns > places[:, None]
        new_codes, after = old_codes.copy(), before.copy()
        new_codes[:, 1:] = np.where(behind[:, 1:], old_codes[:, :-1], old_codes[:, 1:])
        after[:, 1:] = np.where(behind[:, 1:], before[:, :-1], before[:, 1:])
        new_codes[at], after[at] = codes, rows
        counts = self.counts[partition]
        self._codes[partition], self.rows[partition] = new_codes, after
        self.counts[partition] = np.minimum(counts + 1, self._end)
        self.changed[partition] = True
        return Round(rows, places, counts, before, after)
