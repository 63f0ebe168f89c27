"""A side of a join on columns that keeps associations, see `operators.join.side_state`.

How many rows of the other side a row was joined with is counted from the change that brought it on,
so by its **source**: the row of the batch, or the stored one, as `Met` numbers them. A row that is
there several times is one stay; brought once more, it is counted anew, for each of its times; taken
back once, it goes on with what it has.

Changes of the other side alter what is kept here, so a key may have something to write that has no
change of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import orjson

from operators.join.columnar_side import ColumnarSide, replaced_rows
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from operators.join.columnar_side import ManyEntries, SideLayout
    from operators.keyed_columns import KeyedColumns
    from state.primitives.many_maps import Entries

    Integers = NDArray[np.int64]

_STORED = -1
"""In place of a change: the row goes on with the associations that are stored."""


class _Ends(NamedTuple):
    """What changes of a key leave of the rows that they name."""

    held: dict[bytes, bytes]
    rows: dict[bytes, tuple[int, int]]
    """By name: how often the row is there, and the place of the change that brought it last."""


class OuterSide(ColumnarSide):
    """One side in an epoch, as `ColumnarSide`, whose rows' associations are counted."""

    def __init__(
        self,
        layout: SideLayout,
        changes: KeyedColumns,
        numbers: list[int],
        entries: ManyEntries,
    ) -> None:
        super().__init__(layout, changes, numbers, entries)
        self.associations: Integers = np.zeros(len(changes.batch), np.int64)
        """By source: how many a row has, as far as the epoch was followed."""
        self.is_met: NDArray[np.bool_] = np.zeros(len(changes.batch), np.bool_)
        """By source: whether a change of the other side met it."""
        self._ends: dict[int, _Ends] = {}
        self._stored_at: dict[int, range] = {}
        """By number: which of the stored rows that may be met are of the key."""
        self._stored_names: Sequence[bytes] = ()
        self._stored_values: Sequence[bytes] = ()
        self._stored_rows: Sequence[bytes] = ()
        self._stored_times: Sequence[int] = ()

    def takes_back(self, number: int) -> bool:
        """Whether changes of a key may end what others brought, if only to bring it again."""
        if super().takes_back(number):
            return True
        places = self._places[self.at[number]]
        return len({*self._names[places.start : places.stop]}) < len(places)

    def decide(self, left: set[int], others: Iterable[int]) -> None:
        """As of any side; changes of the other one alter what is kept."""
        left.update(
            number
            for number in others
            if number not in self.at and self.may_be_packed(number, retraction_count=0)
        )
        super().decide(left, others)

    def apply(self, left: Collection[int]) -> None:
        """Change the state of all keys but those that are left, which the handles take over."""
        associations = self.associations.tolist()
        is_met: list[bool] = self.is_met.tolist()
        for number in {**self._ends, **self._stored_at}:
            if number not in left:
                held, values = self._written(number, associations, is_met)
                if values:
                    self._entries.change(number, held, values)
        for number in left:
            self._entries.give_back(number)

    def _read(self, kept: Sequence[int], entries: Entries) -> tuple[Sequence[bytes], list[int]]:
        """The stored rows of these keys, and how often each is there; all of it is kept."""
        values = entries.values
        rows, times = entries.fields, [1] * len(values)
        if self.layout.is_counted:
            times, associations = _pairs_of(values)
        else:
            associations, rows = _counted_rows(values)
        start = 0
        for number, count in zip(kept, entries.counts, strict=True):
            self._stored_at[number] = range(start, start + count)
            start += count
        self._stored_names, self._stored_values = entries.fields, values
        self._stored_rows, self._stored_times = rows, times
        own = np.zeros(len(self.changes.batch), np.int64)
        self.associations = np.concatenate([own, np.array(associations, np.int64)])
        self.is_met = np.zeros(self.associations.size, np.bool_)
        return rows, times

    def _adds_up(self, number: int) -> bool:
        """Never: a row that comes once more is counted anew."""
        return False

    def _follow(
        self, number: int, held: dict[bytes, bytes], places: range, *, retracts: bool
    ) -> bool:
        """Note what becomes of a key; False: the other path is to see it."""
        names = self._names[places.start : places.stop]
        is_counted = self.layout.is_counted
        if not retracts and not held and len({*names}) == len(names):
            rows = {name: (1, place) for name, place in zip(names, places, strict=True)}
            self._ends[number] = _Ends(held, rows)
            return True
        is_retraction = self._is_retraction[places.start : places.stop]
        if not is_counted:
            rows_before = dict(zip(held, _counted_rows([*held.values()])[1], strict=True))
            texts = self._texts[places.start : places.stop]
            replaced = replaced_rows(rows_before, names, texts, is_retraction)
            if replaced is None or not self._notes(replaced[1], places):
                return False
        rows = {}
        if is_counted:
            for name, times in zip(held, _pairs_of([*held.values()])[0], strict=True):
                rows[name] = times, _STORED
        else:
            rows = dict.fromkeys(held, (1, _STORED))
        for name, place, is_gone in zip(names, places, is_retraction, strict=True):
            times, brought = rows.get(name, (0, _STORED))
            if is_gone and not times:
                return False
            if is_gone:
                rows[name] = times - 1, brought
            else:
                rows[name] = (times + 1 if is_counted else 1), place
        self._ends[number] = _Ends(held, rows)
        return True

    def _written(
        self, number: int, associations: Sequence[int], is_met: Sequence[bool]
    ) -> tuple[Mapping[bytes, bytes], Mapping[bytes, bytes | None]]:
        """What the entries that are touched of a key have now, and what they are to have."""
        ends = self._ends.get(number)
        held, rows = (dict[bytes, bytes](), {}) if ends is None else ends
        values: dict[bytes, bytes | None] = {}
        lasting: dict[bytes, int] = {}
        row_of = self.changes.row_of
        for name, (times, place) in rows.items():
            if not times:
                values[name] = None
            elif place == _STORED:
                lasting[name] = times
            else:
                values[name] = self._value(times, associations[row_of[place]], self._texts[place])
        behind = len(self.changes.batch)
        for at in self._stored_at.get(number, ()):
            name, count = self._stored_names[at], associations[behind + at]
            if name in lasting:
                values[name] = self._value(lasting.pop(name), count, b"")
            elif is_met[behind + at] and name not in rows:
                held[name] = self._stored_values[at]
                values[name] = self._value(self._stored_times[at], count, self._stored_rows[at])
        for name, times in lasting.items():
            (count,) = _pairs_of([held[name]])[1]
            values[name] = self._value(times, count, b"")
        return held, values

    def _value(self, times: int, associations: int, row: bytes) -> bytes:
        """An entry as it is stored."""
        if self.layout.is_counted:
            return b"[%d,%d]" % (times, associations)
        return b"[%d,%b]" % (associations, row)


def _pairs_of(values: Sequence[bytes]) -> tuple[list[int], list[int]]:
    """How often rows are there, and their associations, as they are stored.

    Raises:
        StateCorrupt: One is no such pair, or its first number is below 1.
    """
    if not values:
        return [], []
    try:
        found = np.array(orjson.loads(b"[%b]" % b",".join(values)))
    except ValueError:
        # Also of lists that differ in length.
        found = np.zeros(0)
    if found.shape != (len(values), 2) or found.dtype != np.int64:
        raise StateCorrupt("a stored row has no two numbers beside it")
    if found[:, 0].min() < 1:
        raise StateCorrupt("a stored row is there less than once")
    return found[:, 0].tolist(), found[:, 1].tolist()


def _counted_rows(values: Sequence[bytes]) -> tuple[list[int], list[bytes]]:
    """Associations, and the rows behind them, as they are stored.

    Raises:
        StateCorrupt: One has no number.
    """
    parts = [each[1:-1].partition(b",") for each in values]
    try:
        return [int(each[0]) for each in parts], [each[2] for each in parts]
    except ValueError:
        raise StateCorrupt("a stored row has no number beside it") from None
