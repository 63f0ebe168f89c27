"""One side of a join on columns: its changes of an epoch, what its state becomes, and its stays.

All layouts of `operators.join.side_state` are entries of a key, which have a name and a value:

    CountPerRow        the row -> how often it is there
    RowPerUniqueKey    the unique key -> the row
    OneRow             no name -> the row

A **stay** is a row that is there from one change of the epoch on until another one of the same
name replaces it or takes it back.

    +I a (rank 0)    +I b (rank 2)    -D a (rank 3)
    stays: a from 0 until 3, b from 2 on. So what comes on the other side with rank 1 meets a.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from operators.join.side_state import CountPerRow, OneRow, RowPerUniqueKey
from state.errors import StateCorrupt
from state.primitives.many_cells import ManyCells
from state.primitives.many_maps import ManyMaps
from state.primitives.value_entries import UNNAMED, ValueEntries
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from operators.join.side_state import SideState
    from operators.keyed_columns import KeyedColumns
    from operators.spec import InputSpec
    from state.codec import RowCodec
    from state.descriptors import MapDescriptor, ValueDescriptor
    from state.execution.requests import Request
    from state.primitives.session import StateSession
    from state.types import LogicalType

    Integers = NDArray[np.int64]
    ManyEntries = ManyMaps | ValueEntries | ManyCells
    Stay = tuple[bytes, int, int, int, int]
    """A name, where the row's columns are, how often it is there, the rank from which on and the
    one until which."""

_EVER = 1 << 62
"""The rank until which a row is there that nothing takes back."""
_ONCE = b"1"


class SideLayout:
    """How the rows of a side are kept, for whole epochs.

    Args:
        row: The side's rows.
        state: What keeps them change by change.
        unique_key: Columns of a unique key of these rows; empty: there is none.
    """

    def __init__(self, row: InputSpec, state: SideState, unique_key: Sequence[int]) -> None:
        self.codec: RowCodec = row.codec()
        self.columns = range(len(row.types))
        self._has_maps = any(map(_has_map, row.types))
        self.is_counted = isinstance(state, CountPerRow)
        """Whether entries tell how often a row is there, not which one it is."""
        self._map: MapDescriptor[bytes, Any] | None = None
        self._value: ValueDescriptor[Any] | None = None
        self._unique_key = unique_key
        self._key_codec: RowCodec | None = None
        if isinstance(state, OneRow):
            self._value = state.descriptor
        elif isinstance(state, RowPerUniqueKey | CountPerRow):
            self._map = state.descriptor
        if isinstance(state, RowPerUniqueKey):
            self._key_codec = row.part(tuple(unique_key)).codec()

    def entries_of(
        self, session: StateSession, keys: Sequence[bytes], key_groups: Sequence[int]
    ) -> ManyEntries:
        """The entries of an epoch's keys."""
        if self._value is not None:
            return ValueEntries(session.value(self._value), keys, key_groups)
        assert self._map is not None  # there is no fourth layout
        handle = session.map(self._map)
        if handle.may_have_stamps:
            return ManyCells(handle, keys, key_groups)
        return ManyMaps(handle, keys, key_groups)

    def as_stored(self, changes: KeyedColumns) -> Sequence[pa.Array]:
        """The columns of the batch as they come back from state: entries of maps in its order."""
        columns = changes.columns
        if not self._has_maps:
            return columns.arrays
        texts = columns.encoded(self.codec, np.arange(columns.count), self.columns)
        return self.codec.decode_columns(texts)

    def names(self, changes: KeyedColumns, texts: list[bytes]) -> list[bytes]:
        """The names of changed rows, by place, whose canonical texts are these."""
        if self.is_counted:
            return texts
        if self._key_codec is None:
            return [UNNAMED] * len(texts)
        return changes.columns.encoded(self._key_codec, changes.row_of, self._unique_key)


class Met(NamedTuple):
    """Stays that changes of the other side may meet, by key; those of a key by their names."""

    stored: Sequence[bytes]
    """Canonical rows from before the epoch."""
    source: Integers
    """Which row each stay is: of the epoch's changes, and of the stored ones behind them."""
    times: Integers
    """How often it is there."""
    counts: Sequence[int]
    """How many stays each key has."""
    since: Integers | None = None
    """The rank of the change that brought it; None: all were stored, and stay."""
    until: Integers | None = None
    """The rank of the change that takes it back."""


@dataclass(slots=True)
class _Become:
    """What becomes of the entries of a key."""

    held: dict[bytes, bytes]
    values: dict[bytes, bytes | None]


class ColumnarSide:
    """One side in an epoch: the changes of an input whose keys may have a match, and their state.

    Args:
        layout: How rows are kept.
        changes: The changes.
        numbers: By key of `changes`: its number among the keys of both inputs.
        entries: What is kept, by those numbers.
    """

    def __init__(
        self,
        layout: SideLayout,
        changes: KeyedColumns,
        numbers: list[int],
        entries: ManyEntries,
    ) -> None:
        self.layout = layout
        self.changes = changes
        self.numbers = numbers
        self.at = {each: at for at, each in enumerate(numbers)}
        """By number: which of the keys of `changes` it is."""
        self._entries = entries
        self._texts = changes.columns.encoded(layout.codec, changes.row_of, layout.columns)
        self._names = layout.names(changes, self._texts)
        kinds = changes.batch.kinds[changes.row_of]
        self._is_retraction: list[bool] = ((kinds & 1) > 0).tolist()
        self._retracts: list[bool] = []
        if numbers:
            self._retracts = (np.maximum.reduceat(kinds & 1, changes.first) > 0).tolist()
        self._places = [*map(range, changes.first.tolist(), (changes.last + 1).tolist())]
        self._becomes: dict[int, _Become] = {}

    def first_loads(self) -> list[Request]:
        """Requests for what is stored of all keys, as far as it is in one field."""
        return self._entries.first_loads()

    @property
    def refused(self) -> set[int]:
        """Numbers of keys whose state cannot be looked at here."""
        return self._entries.refused

    def more_loads(self, other: ColumnarSide) -> list[Request]:
        """Requests for the rest: all that changes of the other side meet, and what is changed."""
        fields = {}
        for number in self.numbers:
            if number not in other.at and self._entries.size_if_spread(number) is not None:
                places = self._places[self.at[number]]
                fields[number] = self._names[places.start : places.stop]
        return self._entries.more(other.numbers, fields)

    def count_of(self, number: int) -> int:
        """How many changes of a key there are."""
        return len(self._places[self.at[number]])

    def takes_back(self, number: int) -> bool:
        """Whether changes of a key may end what others brought."""
        return not self.layout.is_counted or self._retracts[self.at[number]]

    def decide(self, left: set[int]) -> None:
        """Find what becomes of all keys; add to `left` those that the other path is to see."""
        for number, places, retracts in zip(
            self.numbers, self._places, self._retracts, strict=True
        ):
            if number in left:
                continue
            become = self._decided(number, places, retracts=retracts)
            if become is None:
                left.add(number)
            else:
                self._becomes[number] = become

    def apply(self, left: Collection[int]) -> None:
        """Change the state of all keys but those that are left, which the handles take over."""
        for number, become in self._becomes.items():
            if number not in left:
                self._entries.change(number, become.held, become.values)
        for number in left:
            self._entries.give_back(number)

    def met(self, kept: Sequence[int]) -> Met:
        """The stays of these keys, for changes of the other side."""
        names, values, counts = self._entries.entries(kept)
        rows, times = values, [1] * len(values)
        if self.layout.is_counted:
            rows, times = names, _times(values)
        if not any(each in self.at for each in kept):
            return Met(rows, np.arange(len(rows)), np.array(times, np.int64), counts)
        behind = len(self.changes.batch)
        found: list[Stay] = []
        by_key: list[int] = []
        start = 0
        for number, count in zip(kept, counts, strict=True):
            places = range(start, start + count)
            start += count
            stays = [(names[each], behind + each, times[each], -1, _EVER) for each in places]
            if number in self.at:
                stays = self._stays(number, stays)
            found += stays
            by_key.append(len(stays))
        table = np.array([each[1:] for each in found], np.int64).reshape(-1, 4)
        return Met(rows, table[:, 0], table[:, 1], by_key, table[:, 2], table[:, 3])

    def _stays(self, number: int, stored: list[Stay]) -> list[Stay]:
        """The stays of a key that changes, by name."""
        places = self._places[self.at[number]]
        rows = self.changes.row_of[places.start : places.stop]
        ranks = self.changes.batch.order[rows].tolist()
        names = self._names[places.start : places.stop]
        if not self.takes_back(number):
            stays = [*stored, *zip(names, rows.tolist(), repeat(1), ranks, repeat(_EVER))]
        else:
            stays = []
            now = {each[0]: each for each in stored}
            retracts = self._is_retraction[places.start : places.stop]
            for name, row, rank, is_gone in zip(names, rows.tolist(), ranks, retracts, strict=True):
                before = now.get(name)
                times = 0 if before is None else before[2]
                if before is not None and times:
                    stays.append((*before[:4], rank))
                if self.layout.is_counted:
                    source = before[1] if before is not None and times else row
                    now[name] = (name, source, times + (-1 if is_gone else 1), rank, _EVER)
                else:
                    now[name] = (name, row, 0 if is_gone else 1, rank, _EVER)
            stays += [each for each in now.values() if each[2]]
        stays.sort(key=itemgetter(0))
        return stays

    def _decided(self, number: int, places: range, *, retracts: bool) -> _Become | None:
        """What becomes of a key; None: the other path is to see it."""
        names = self._names[places.start : places.stop]
        found = zip(names, self._entries.held(number, names), strict=True)
        held = {name: value for name, value in found if value is not None}
        is_retraction = self._is_retraction[places.start : places.stop]
        size = self._entries.size_if_spread(number)
        if size is not None and size - sum(is_retraction) <= self._entries.packs_at:
            # It may be packed meanwhile, or at last, where it was written with another threshold.
            return None
        if not retracts:
            if not self.layout.is_counted:
                texts = self._texts[places.start : places.stop]
                return _Become(held, dict(zip(names, texts, strict=True)))
            if not held and len({*names}) == len(names):
                return _Become(held, dict.fromkeys(names, _ONCE))
        values: dict[bytes, bytes | None] | None
        if self.layout.is_counted:
            values = _counted(held, names, is_retraction)
        else:
            values = _replaced(held, names, self._texts[places.start : places.stop], is_retraction)
        return None if values is None else _Become(held, values)


def _has_map(logical: LogicalType) -> bool:
    """Whether a type is one whose entries have no order, or has such a part."""
    return logical.root in (TypeRoot.MAP, TypeRoot.MULTISET) or any(map(_has_map, logical.children))


def _counted(
    held: dict[bytes, bytes], names: Sequence[bytes], is_retraction: Sequence[bool]
) -> dict[bytes, bytes | None] | None:
    """How often rows are there behind changes; None: one is taken back that is not there."""
    counts = Counter(dict(zip(held, _times(held.values()), strict=True)))
    for name, retracts in zip(names, is_retraction, strict=True):
        if not retracts:
            counts[name] += 1
        elif counts[name] < 1:
            return None
        else:
            counts[name] -= 1
    return {name: b"%d" % times if times else None for name, times in counts.items()}


def _replaced(
    held: dict[bytes, bytes],
    names: Sequence[bytes],
    texts: Sequence[bytes],
    is_retraction: Sequence[bool],
) -> dict[bytes, bytes | None] | None:
    """The row of each name behind changes; None: one is taken back that is not there."""
    values: dict[bytes, bytes | None] = dict(held)
    for name, text, retracts in zip(names, texts, is_retraction, strict=True):
        if retracts and values.get(name) is None:
            return None
        values[name] = None if retracts else text
    return values


def _times(values: Iterable[bytes]) -> list[int]:
    """How often rows are there, as it is stored.

    Raises:
        StateCorrupt: One is no number.
    """
    try:
        return [*map(int, values)]
    except ValueError:
        raise StateCorrupt("a stored row has no number beside it") from None
