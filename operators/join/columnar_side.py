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
import pyarrow as pa

from operators.arrow_columns import of_types, plain_numbers
from operators.codes import units_cut
from operators.join.side_state import CountPerRow, OneRow, RowPerUniqueKey
from state.errors import StateCorrupt
from state.primitives.many_cells import ManyCells
from state.primitives.many_maps import ManyMaps
from state.primitives.value_entries import UNNAMED, ValueEntries
from state.types import TypeRoot, arrow_type

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from numpy.typing import NDArray

    from operators.join.side_state import SideState
    from operators.keyed_columns import KeyedColumns
    from operators.spec import InputSpec
    from state.codec import RowCodec
    from state.descriptors import MapDescriptor, ValueDescriptor
    from state.execution.requests import Request
    from state.primitives.many_maps import Entries
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
        unique_key: Columns of a unique key of these rows; None: none is known.
        leaves_replaced: Leave keys of which a row takes the place of another one that nothing took
            back: what they meet may differ.
    """

    def __init__(
        self,
        row: InputSpec,
        state: SideState,
        unique_key: Sequence[int] | None,
        *,
        leaves_replaced: bool,
    ) -> None:
        self.leaves_replaced = leaves_replaced
        self.codec: RowCodec = row.codec()
        self.columns = range(len(row.types))
        self._types = row.types
        self._may_return_otherwise = any(
            _may_return_otherwise(each) for each in row.types if units_cut(each) == 1
        )
        """But for columns that are times, at which a look tells."""
        self.is_counted = isinstance(state, CountPerRow)
        """Whether entries tell how often a row is there, not which one it is."""
        self._map: MapDescriptor[bytes, Any] | None = None
        self._value: ValueDescriptor[Any] | None = None
        self._unique_key = tuple(unique_key or ())
        self._key_codec: RowCodec | None = None
        if isinstance(state, OneRow):
            self._value = state.descriptor
        elif isinstance(state, RowPerUniqueKey | CountPerRow):
            self._map = state.descriptor
        if isinstance(state, RowPerUniqueKey):
            self._key_codec = row.part(self._unique_key).codec()

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

    def table(self, changes: KeyedColumns, stored: Sequence[bytes]) -> tuple[list[pa.Array], int]:
        """The rows of the batch, as they are and as they come back from state, and stored ones.

        Args:
            changes: Of the batch.
            stored: Canonical rows.

        Returns:
            The columns; and how far behind their places in `Met` the rows stand that are not the
            changes' own: by the length of the batch where what comes back from state may differ,
            since there entries of maps are in order, and times have the digits of their type.
        """
        columns = changes.columns
        types = [*map(arrow_type, self._types)]
        own = of_types(columns.arrays, types)
        parts = [own]
        if self._may_return_otherwise or any(map(_has_cut_digits, own, self._types)):
            texts = columns.encoded(self.codec, np.arange(columns.count), self.columns)
            parts.append(of_types(self.codec.decode_columns(texts), types))
        shift = len(changes.batch) if len(parts) > 1 else 0
        if stored:
            parts.append(of_types(self.codec.decode_columns(stored), types))
        if len(parts) == 1:
            return own, 0
        return [pa.concat_arrays(each) for each in zip(*parts, strict=True)], shift

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
    """Which row each stay is: of the epoch's batch, and of the stored ones behind them."""
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
        self.replaces: NDArray[np.bool_] = np.zeros(len(changes.batch), np.bool_)
        """By row: whether it takes the place of another one, which nothing took back."""

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

    def decide(self, left: set[int], others: Iterable[int]) -> None:
        """Find what becomes of all keys; add to `left` those that the other path is to see.

        Args:
            left: Numbers of keys.
            others: Numbers of the keys with changes on the other side. Here they alter nothing.
        """
        for number, places, retracts in zip(
            self.numbers, self._places, self._retracts, strict=True
        ):
            if number in left:
                continue
            names = self._names[places.start : places.stop]
            found = zip(names, self._entries.held(number, names), strict=True)
            held = {name: value for name, value in found if value is not None}
            count = sum(self._is_retraction[places.start : places.stop]) if retracts else 0
            if self.may_be_packed(number, count) or not self._follow(
                number, held, places, retracts=retracts
            ):
                left.add(number)

    def may_be_packed(self, number: int, retraction_count: int) -> bool:
        """Whether a key's spread rows may be packed meanwhile.

        Or at last, where they were written with another threshold.
        """
        size = self._entries.size_if_spread(number)
        return size is not None and size - retraction_count <= self._entries.packs_at

    def apply(self, left: Collection[int]) -> None:
        """Change the state of all keys but those that are left, which the handles take over."""
        for number, become in self._becomes.items():
            if number not in left:
                self._entries.change(number, become.held, become.values)
        for number in left:
            self._entries.give_back(number)

    def met(self, kept: Sequence[int]) -> Met:
        """The stays of these keys, for changes of the other side."""
        entries = self._entries.entries(kept)
        names, _, counts = entries
        rows, times = self._read(kept, entries)
        behind = len(self.changes.batch)
        if not any(each in self.at for each in kept):
            source = np.arange(behind, behind + len(rows))
            return Met(rows, source, np.array(times, np.int64), counts)
        found: list[Stay] = []
        by_key: list[int] = []
        start = 0
        for number, count in zip(kept, counts, strict=True):
            places = range(start, start + count)
            start += count
            stays = [(names[each], behind + each, times[each], -1, _EVER) for each in places]
            if number in self.at:
                stays = self._stays(number, stays)
                stays.sort(key=itemgetter(0))
            found += stays
            by_key.append(len(stays))
        table = np.array([each[1:] for each in found], np.int64).reshape(-1, 4)
        return Met(rows, table[:, 0], table[:, 1], by_key, table[:, 2], table[:, 3])

    def _read(self, kept: Sequence[int], entries: Entries) -> tuple[Sequence[bytes], list[int]]:
        """The stored rows of these keys, and how often each is there."""
        if self.layout.is_counted:
            return entries.fields, _times(entries.values)
        return entries.values, [1] * len(entries.values)

    def _stays(self, number: int, stored: list[Stay]) -> list[Stay]:
        """The stays of a key that changes."""
        places = self._places[self.at[number]]
        rows = self.changes.row_of[places.start : places.stop]
        ranks = self.changes.batch.order[rows].tolist()
        names = self._names[places.start : places.stop]
        if self._adds_up(number):
            return [*stored, *zip(names, rows.tolist(), repeat(1), ranks, repeat(_EVER))]
        stays = []
        now = {each[0]: each for each in stored}
        retracts = self._is_retraction[places.start : places.stop]
        for name, row, rank, is_gone in zip(names, rows.tolist(), ranks, retracts, strict=True):
            before = now.get(name)
            times = 0 if before is None else before[2]
            if before is not None and times:
                stays.append((*before[:4], rank))
            if not self.layout.is_counted:
                now[name] = (name, row, 0 if is_gone else 1, rank, _EVER)
            elif is_gone and before is not None:
                # As it was brought last, once less.
                now[name] = (name, before[1], times - 1, rank, _EVER)
            else:
                now[name] = (name, row, times + 1, rank, _EVER)
        return stays + [each for each in now.values() if each[2]]

    def _adds_up(self, number: int) -> bool:
        """Whether the changes of a key are stays beside what is there, and end nothing."""
        return not self.takes_back(number)

    def _notes(self, replacing: Sequence[int], places: range) -> bool:
        """Note which changes of a key replace a row; False: the other path is to see them."""
        if replacing:
            if self.layout.leaves_replaced:
                return False
            self.replaces[self.changes.row_of[places.start : places.stop][replacing]] = True
        return True

    def _follow(
        self, number: int, held: dict[bytes, bytes], places: range, *, retracts: bool
    ) -> bool:
        """Note what becomes of a key; False: the other path is to see it."""
        names = self._names[places.start : places.stop]
        texts = self._texts[places.start : places.stop]
        values: dict[bytes, bytes | None] | None
        if not self.layout.is_counted:
            is_retraction = self._is_retraction[places.start : places.stop]
            found = replaced_rows(held, names, texts, is_retraction)
            values = None if found is None else found[0]
            if found is not None and not self._notes(found[1], places):
                return False
        elif not retracts and not held and len({*names}) == len(names):
            values = dict.fromkeys(names, _ONCE)
        else:
            is_retraction = self._is_retraction[places.start : places.stop]
            values = _counted(held, names, is_retraction)
        if values is not None:
            self._becomes[number] = _Become(held, values)
        return values is not None


def _may_return_otherwise(logical: LogicalType) -> bool:
    """Whether a value, or a part of it, may come back from state otherwise than it went there.

    Entries of maps are in no order before; a time may have more digits than its type.
    """
    is_map = logical.root in (TypeRoot.MAP, TypeRoot.MULTISET)
    return is_map or units_cut(logical) > 1 or any(map(_may_return_otherwise, logical.children))


def _has_cut_digits(array: pa.Array, logical: LogicalType) -> bool:
    """Whether a time has digits below its type's last one: canonical texts are without them.

    Args:
        array: Of `arrow_type(logical)`.
        logical: The type; of one that is no time there are none.
    """
    unit = units_cut(logical)
    if unit == 1:
        return False
    finer = plain_numbers(array, np.int64 if array.type.bit_width == 64 else np.int32) % unit != 0
    if array.null_count:
        finer &= array.is_valid().to_numpy(zero_copy_only=False)
    return bool(finer.any())


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


def replaced_rows(
    held: dict[bytes, bytes],
    names: Sequence[bytes],
    texts: Sequence[bytes],
    is_retraction: Sequence[bool],
) -> tuple[dict[bytes, bytes | None], list[int]] | None:
    """The row of each name behind changes, and which changes replace one.

    None: a row is taken back that is not there, or not as it is.
    """
    values: dict[bytes, bytes | None] = dict(held)
    replacing = []
    for at, (name, text, retracts) in enumerate(zip(names, texts, is_retraction, strict=True)):
        before = values.get(name)
        if retracts and before != text:
            return None
        if not retracts and before is not None:
            replacing.append(at)
        values[name] = None if retracts else text
    return values, replacing


def _times(values: Iterable[bytes]) -> list[int]:
    """How often rows are there, as it is stored.

    Raises:
        StateCorrupt: One is no number, or below 1.
    """
    try:
        found = [*map(int, values)]
    except ValueError:
        raise StateCorrupt("a stored row has no number beside it") from None
    if found and min(found) < 1:
        raise StateCorrupt("a stored row is there less than once")
    return found
