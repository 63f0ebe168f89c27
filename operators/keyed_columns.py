"""A second way through an epoch of a keyed operator: all its changes at once, on columns.

An operator may have such a path for what it can do so (`KeyedOperator.columnar`). It does not have
to take everything: whatever needs a closer look it leaves, by whole keys, and the changes of those
go one by one through the controller. A key is of one path in an epoch, so that nothing depends on
which one ran first, and both give the same changes and the same bytes: tests hold one to the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.codes import dense, is_ascending
from operators.columnar import Columns
from state.orders import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from numpy.typing import NDArray

    from operators.spec import InputSpec
    from state.codec import RowCodec

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """The changes of an epoch by key, those of a key in their order; keys are numbered."""

    batch: ChangeBatch
    """The changes in order, each with its rank as order number."""
    columns: Columns
    """Of the batch."""
    row_of: Integers
    """Row of the batch, by place."""
    key_of: Integers
    """Number of the key, by place; ascending."""
    first: Integers
    """By key: the place of its first change."""
    last: Integers
    """By key: the place of its last change."""
    keys: list[bytes]
    """Canonical texts, by key."""
    key_groups: list[int]
    """By key."""

    @classmethod
    def of(cls, batch: ChangeBatch, spec: InputSpec, key_codec: RowCodec) -> Self:
        """The changes of a batch, which has columns.

        Args:
            batch: In order, each change with its rank as order number.
            spec: Its columns.
            key_codec: Of the key's columns.
        """
        columns = Columns(batch.columns, spec.types)
        if not len(batch):
            none = np.zeros(0, np.int64)
            return cls(batch, columns, none, none, none, none, [], [])
        codes = dense(columns.codes(spec.key))
        count = len(batch)
        row_of = np.arange(count) if codes.bound == 1 else stable_order(codes.values, codes.bound)
        key_of = codes.values[row_of]
        first = np.searchsorted(key_of, np.arange(codes.bound))
        rows = row_of[first]
        keys = columns.encoded(key_codec, rows, spec.key) if spec.key else [key_codec.encode(())]
        return cls(
            batch=batch,
            columns=columns,
            row_of=row_of,
            key_of=key_of,
            first=first,
            last=np.append(first[1:], count) - 1,
            keys=keys,
            key_groups=batch.key_groups[rows].tolist(),
        )

    @property
    def pairs(self) -> list[tuple[bytes, int]]:
        """The keys with their key groups, as a prefetch takes them."""
        return list(zip(self.keys, self.key_groups, strict=True))

    def without(self, left: Flags) -> KeyedColumns:
        """The changes of those keys that are not left to the other path."""
        kept = ~left
        places = kept[self.key_of]
        number = np.cumsum(kept) - 1
        key_of = number[self.key_of[places]]
        first = np.searchsorted(key_of, np.arange(int(kept.sum())))
        return KeyedColumns(
            batch=self.batch,
            columns=self.columns,
            row_of=self.row_of[places],
            key_of=key_of,
            first=first,
            last=np.append(first, key_of.size)[1:] - 1,
            keys=[key for key, keeps in zip(self.keys, kept, strict=True) if keeps],
            key_groups=[each for each, keeps in zip(self.key_groups, kept, strict=True) if keeps],
        )

    def rows_of(self, keys: Flags) -> Integers:
        """The rows of all changes of some keys, in order."""
        is_one = np.zeros(len(self.batch), np.bool_)
        is_one[self.row_of[keys[self.key_of]]] = True
        return is_one.nonzero()[0]

    def growing(self) -> tuple[KeyedColumns, Integers]:
        """The changes of those keys of which no row is taken back, and the rows of the others'."""
        left = self.taken_back()
        if not left.any():
            return self, np.zeros(0, np.int64)
        return self.without(left), self.rows_of(left)

    def taken_back(self) -> Flags:
        """By key: whether a row of it is taken back."""
        retracts = (self.batch.kinds & 1).astype(np.bool_)
        if not retracts.any():
            return np.zeros(len(self.keys), np.bool_)
        found: Flags = np.logical_or.reduceat(retracts[self.row_of], self.first)
        return found

    def one_each(self, places: Integers) -> KeyedColumns:
        """One change of each key alone, by its place."""
        numbers = np.arange(len(self.keys))
        return KeyedColumns(
            batch=self.batch,
            columns=self.columns,
            row_of=self.row_of[places],
            key_of=numbers,
            first=numbers,
            last=numbers,
            keys=self.keys,
            key_groups=self.key_groups,
        )


@dataclass(frozen=True, slots=True)
class DoneOnColumns:
    """What a columnar path did."""

    output: ChangeBatch
    """What it emits, by order; each has the rank of its cause as order number."""
    left: Integers
    """Rows of the changes that it leaves, in order: all of their keys."""


class ColumnarPath(Protocol):
    """An operator's second path."""

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; the state of their keys is loaded.

        Returns:
            None if it takes none of them: then nothing was changed.

        Raises: As the operator's `process`.
        """


@dataclass(frozen=True, slots=True)
class DoneOnSides:
    """What a columnar path of several inputs did."""

    output: ChangeBatch
    """As of `DoneOnColumns`."""
    left: Sequence[Integers]
    """Of each input, rows of the changes that it leaves, in order: all of their keys."""
    keys: int
    """How many keys the epoch touches, with those that are left."""


class ColumnarSides(Protocol):
    """A second path of an operator of several inputs."""

    def run(self, given: Sequence[KeyedColumns]) -> DoneOnSides | None:
        """Process an epoch's changes, of each input; it reads the state of their keys itself.

        Ranks are comparable across inputs, and no two changes have the same.

        Returns:
            None if it takes none of them: then nothing was changed.

        Raises: As the operator's `process`.
        """


def rows_at(batch: ChangeBatch, rows: Integers) -> ChangeBatch:
    """Some rows of a batch."""
    places = pa.array(rows)
    return ChangeBatch(
        columns=tuple(each.take(places) for each in batch.columns),
        kinds=batch.kinds[rows],
        order=batch.order[rows],
        key_groups=batch.key_groups[rows],
    )


def ranked(batches: Sequence[ChangeBatch]) -> tuple[list[ChangeBatch], Integers]:
    """Batches in order, each change with its rank as order number; and order numbers by rank.

    Ranks count the changes of all batches; of equal order numbers the earlier batch comes first.
    """
    given = [each.in_order() for each in batches]
    orders = np.concatenate([each.order for each in given])
    by_order = np.arange(orders.size) if is_ascending(orders) else orders.argsort(kind="stable")
    ranks = np.empty_like(by_order)
    ranks[by_order] = np.arange(by_order.size)
    found = []
    for each in given:
        mine, ranks = ranks[: len(each)], ranks[len(each) :]
        found.append(ChangeBatch(each.columns, each.kinds, mine, each.key_groups))
    return found, orders[by_order]


def merged(parts: Sequence[ChangeBatch], orders: Integers) -> ChangeBatch:
    """What two paths emit, by rank; then with order numbers in place of ranks.

    Args:
        parts: Of one or two paths; no rank is a cause in both.
        orders: Order numbers by rank.
    """
    filled = [each for each in parts if len(each)] or list(parts[:1])
    whole = filled[0]
    for more in filled[1:]:
        whole = more.after(whole).in_order()
    return ChangeBatch(whole.columns, whole.kinds, orders[whole.order], whole.key_groups)
