"""A group aggregation over all changes of an epoch at once.

For COUNT, SUM, $SUM0, AVG, MIN and MAX over whole numbers (`operators.aggregate.running`). What is
emitted, and what is stored, is what `GroupAggregate` defines, change by change; here a change costs
some passes over columns in place of some calls of functions, and state is read, decoded, encoded
and written once for all keys together.

Groups that come to an end within the epoch, and retractions of no group, are left to the other
path: they are few, and all that is particular happens there.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from operators.aggregate.running import Running, Steps, Values, running
from operators.arrow_columns import of_types
from operators.batch import ChangeBatch
from operators.changelog import RowKind
from operators.keyed_columns import DoneOnColumns
from operators.spec import unique
from state.orders import stable_order
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from operators.aggregate.aggregates import Accumulators
    from operators.aggregate.call import AggregateCall
    from operators.aggregate.group_aggregate import GroupAggregateSpec
    from operators.aggregate.running import Parts
    from operators.keyed_columns import KeyedColumns
    from state.primitives.value import ValueHandle

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class ColumnarAggregate:
    """The columnar path of a group aggregation.

    Args:
        spec: The aggregation.
        calls: Its calls on columns.
    """

    def __init__(self, spec: GroupAggregateSpec, calls: Sequence[Running]) -> None:
        self._spec = spec
        self._calls = calls
        self._retracts = spec.needs_retraction
        self._emits_equal = spec.ttl_of(0).is_enabled
        names = unique(("rows", *(call.name for call in spec.calls)))
        labels = [orjson.dumps(name) + b":" for name in names]
        self._labels = [b"{" + labels[0], *(b"," + label for label in labels[1:])]
        self._types = [arrow_type(each) for each in spec.output.types]

    @classmethod
    def of(cls, spec: GroupAggregateSpec) -> ColumnarAggregate | None:
        """The path of an aggregation; None: something in it cannot be done on columns."""
        if spec.is_two_phase or spec.partial_calls or not spec.inputs[0].types:
            return None
        calls = [running(each) for each in spec.calls]
        known = [each for each in calls if each is not None]
        return cls(spec, known) if len(known) == len(calls) else None

    def open(self, group: ValueHandle[Accumulators]) -> None:
        """Take the handle of the state of accumulators for an epoch."""
        self._group = group

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        if not self._retracts and (changes.batch.kinds & 1).any():
            return None
        stored = self._group.read_all(changes.keys)
        found = self._loaded(stored)
        if found is None:
            return None
        held, rows, parts = found
        left = np.zeros(len(changes.keys), np.bool_)
        if self._retracts:
            behind = _steps(changes, None, ()).sums(_signs(changes), rows)
            left = np.minimum.reduceat(behind, changes.first) < 1
        left |= held & (rows < 1)
        if not self._spec.inputs[0].key:
            # A total begins with no rows.
            left |= ~held
        left_rows = changes.rows_of(left)
        if left.any():
            kept = ~left
            changes = changes.without(left)
            held, rows = held[kept], rows[kept]
            parts = [tuple(each[kept] for each in part) for part in parts]
        if not changes.keys:
            return DoneOnColumns(_none_of(self._types), left_rows)
        ends = [
            call.running(_steps(changes, call_of, changes.columns.arrays), part)
            for call, call_of, part in zip(self._calls, self._spec.calls, parts, strict=True)
        ]
        if self._retracts:
            rows = _steps(changes, None, ()).sums(_signs(changes), rows)[changes.last]
        else:
            rows = np.ones(len(changes.keys), np.int64)
        last = [tuple(each[changes.last] for each in part) for part in ends]
        self._group.write_all_json(changes.keys, self._encoded(rows, last))
        return DoneOnColumns(self._emitted(changes, held, parts, ends), left_rows)

    def _loaded(self, stored: Sequence[bytes | None]) -> tuple[Flags, Integers, list[Parts]] | None:
        """By key: whether there is a group, its rows, its accumulators; None: not all are read."""
        count = len(stored)
        texts = [each for each in stored if each is not None]
        held = np.fromiter((each is not None for each in stored), np.bool_, count)
        try:
            groups = [[*each.values()] for each in orjson.loads(b"[" + b",".join(texts) + b"]")]
            if any(len(each) != len(self._calls) + 1 for each in groups):
                return None
            known = list(zip(*groups, strict=True)) or [()] * (len(self._calls) + 1)
            rows = _spread(np.array(known[0], np.int64), held, 0)
            parts = []
            for call, mine in zip(self._calls, known[1:], strict=True):
                begins = zip(call.loaded(mine), call.nothing(), strict=True)
                parts.append(tuple(_spread(each, held, nothing) for each, nothing in begins))
        except (ValueError, TypeError, AttributeError, IndexError, OverflowError):  # of any bytes
            # The other path says what is wrong with them.
            return None
        return held, rows, parts

    def _encoded(self, rows: Integers, last: Sequence[Parts]) -> list[bytes]:
        """Accumulators as they are stored: `AccumulatorCodec` says how."""
        texts = [[b"%d" % each for each in rows.tolist()]]
        texts += [call.texts(part) for call, part in zip(self._calls, last, strict=True)]
        pieces: list[Iterable[bytes]] = []
        for label, mine in zip(self._labels, texts, strict=True):
            pieces += [repeat(label), mine]
        return [b"".join(each) for each in zip(*pieces, repeat(b"}"), strict=False)]

    def _emitted(
        self, changes: KeyedColumns, held: Flags, begins: Sequence[Parts], ends: Sequence[Parts]
    ) -> ChangeBatch:
        """What the changes emit, by rank."""
        before, after, places = self._around(changes, begins, ends)
        if self._spec.bundles:
            is_new = ~held
        else:
            is_new = np.zeros(places.size, np.bool_)
            is_new[changes.first] = ~held
        emits = is_new.copy()
        if self._emits_equal:
            emits[:] = True
        else:
            for old, new in zip(before, after, strict=True):
                emits |= _differ(old, new)
        with_before = emits & ~is_new & self._spec.generate_update_before
        by_rank = stable_order(changes.row_of[places], len(changes.batch))
        times = emits.astype(np.int64) + with_before
        at = np.repeat(by_rank, times[by_rank])
        is_before = np.zeros(at.size, np.bool_)
        is_before[:-1] = at[:-1] == at[1:]
        kinds = np.where(is_new[at], int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
        kinds[is_before] = int(RowKind.UPDATE_BEFORE)
        rows = changes.row_of[places[at]]
        key = changes.columns.take(rows, self._spec.inputs[0].key)
        results = [
            _column(_chosen(old, new, at, is_before))
            for old, new in zip(before, after, strict=True)
        ]
        columns = tuple(of_types([*key, *results], self._types))
        ranks = changes.batch.order[rows]
        return ChangeBatch(columns, kinds.astype(np.int8), ranks, np.zeros(at.size, np.int32))

    def _around(
        self, changes: KeyedColumns, begins: Sequence[Parts], ends: Sequence[Parts]
    ) -> tuple[list[Values], list[Values], Integers]:
        """Results before and after each emission that may be, and the place of its cause."""
        begun, ended = [], []
        for call, begin, end in zip(self._calls, begins, ends, strict=True):
            first = call.values(begin)
            after = call.values(end)
            if self._spec.bundles:
                begun.append(first)
                ended.append(_at(after, changes.last))
            else:
                begun.append(_shifted(after, first, changes.first))
                ended.append(after)
        places = changes.last if self._spec.bundles else np.arange(changes.key_of.size)
        return begun, ended, places


def _signs(changes: KeyedColumns) -> Integers:
    """1 for a change that adds a row, -1 for one that takes one back, by place."""
    kinds = changes.batch.kinds[changes.row_of]
    signs: Integers = 1 - 2 * (kinds & 1).astype(np.int64)
    return signs


def _steps(changes: KeyedColumns, call: AggregateCall | None, columns: Sequence[pa.Array]) -> Steps:
    """What the changes do to a call's accumulator; None: to the count of rows."""
    weights = _signs(changes)
    addends = np.zeros(weights.size, np.int64)
    if call is not None:
        for argument in call.arguments:
            if columns[argument].null_count:
                weights *= (
                    columns[argument].is_valid().to_numpy(zero_copy_only=False)[changes.row_of]
                )
        if call.filter is not None:
            passes = columns[call.filter].fill_null(False).to_numpy(zero_copy_only=False)
            weights *= passes[changes.row_of]
        if call.arguments and call.function != "COUNT":
            argued = columns[call.arguments[0]]
            argued = argued.fill_null(0) if argued.null_count else argued
            addends = argued.to_numpy(zero_copy_only=False).astype(np.int64)[changes.row_of]
    return Steps(changes.key_of, changes.first, weights, addends)


def _spread(known: Integers, held: Flags, nothing: int) -> Integers:
    """Values of the keys that have a group, among those of all keys."""
    spread = np.full(held.size, nothing, np.int64)
    spread[held] = known
    return spread


def _shifted(after: Values, first: Values, starts: Integers) -> Values:
    """Results before each change: those behind the one before, or what the key began with."""
    numbers = np.roll(after.numbers, 1)
    numbers[starts] = first.numbers
    if after.is_null is None or first.is_null is None:
        return Values(numbers, None)
    is_null = np.roll(after.is_null, 1)
    is_null[starts] = first.is_null
    return Values(numbers, is_null)


def _at(values: Values, places: Integers) -> Values:
    is_null = values.is_null
    return Values(values.numbers[places], None if is_null is None else is_null[places])


def _differ(one: Values, other: Values) -> Flags:
    differ: Flags = one.numbers != other.numbers
    if one.is_null is None or other.is_null is None:
        return differ
    differ &= ~(one.is_null & other.is_null)
    differ |= one.is_null != other.is_null
    return differ


def _chosen(before: Values, after: Values, at: Integers, is_before: Flags) -> Values:
    """The result of each emission."""
    numbers = np.where(is_before, before.numbers[at], after.numbers[at])
    if before.is_null is None or after.is_null is None:
        return Values(numbers, None)
    return Values(numbers, np.where(is_before, before.is_null[at], after.is_null[at]))


def _column(values: Values) -> pa.Array:
    return pa.array(values.numbers, pa.int64(), mask=values.is_null)


def _none_of(types: Sequence[Any]) -> ChangeBatch:
    return ChangeBatch.of([pa.array([], each) for each in types], [])
