"""An epoch of a keyed operator: changes through the controller, emissions in order, one commit.

What is hard is order. The controller lets changes of different keys overtake each other, so that
their state requests share round trips. Each emission therefore remembers its cause (the rank of a
change in the epoch, or time and key of a timer), and is sorted by it at the end; what one cause
emitted stays in order, since sorting is stable.
"""

from __future__ import annotations

import gc
import operator as op
import time
from contextlib import contextmanager
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from operators.batch import ChangeBatch, EpochOutput, SetAside
from operators.changelog import Row, RowKind
from operators.codes import is_ascending
from operators.keyed import InputChange, RowTexts
from operators.keyed_columns import DoneOnSides, KeyedColumns, merged, ranked, rows_at
from operators.orphans import Orphan, late_writes, orphans_of_rows
from operators.running_epoch import RunningEpoch
from state.arrow_values import python_values, to_column
from state.execution.limits import ControllerLimits
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from operators.keyed import EpochTimes, KeyedOperator
    from operators.running_epoch import Emissions
    from operators.spec import InputSpec, OperatorSpec
    from state.backends.interface import EpochTransaction
    from state.codec import RowCodec
    from state.execution.channels import Channel
    from state.execution.statistics import ControllerStatistics
    from state.primitives.session import StateSession
    from state.types import LogicalType

_KINDS = tuple(RowKind)
COLUMNS_FROM: Final = 64
"""From so many changes on an epoch is worth an operator's columnar path, whose cost is that of some
hundred calls of NumPy and Arrow, however few the changes are."""
_LATE: Final = "late: the watermark has passed its event time, or it has none"
FIRING_ROUNDS_MAX: Final = 100_000
"""Timers may register the next one as they fire, as windows do: so often before one watermark. At a
jump a window that hops by a minute over a month takes 43,200 rounds."""


class KeyedRunner:
    """Runs epochs of one operator; keeps codecs, and nothing of an epoch.

    Args:
        spec: The operator.
        node: The operator's id, for errors.
        channel_of: Makes the channel of a session's requests; None: in place. For tests.
        prefetches: Load what nearly every change reads before the first one begins; False: each
            change asks for its state by itself. For tests.
        columns_from: From so many changes on an epoch goes the operator's columnar path, if it has
            one and all is prefetched.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        node: str,
        *,
        channel_of: Callable[[StateSession], Channel] | None = None,
        prefetches: bool = True,
        columns_from: int = COLUMNS_FROM,
    ) -> None:
        self.spec = spec
        self.node = node
        self.prefetches = prefetches
        self.columns_from = columns_from
        self.operator: KeyedOperator = spec.operator()
        self.limits = ControllerLimits(**spec.limits, firing_rounds_max=FIRING_ROUNDS_MAX)
        self._channel_of = channel_of
        self._key_codecs = [each.key_row.codec() for each in spec.inputs]
        self._row_codecs: list[RowCodec | None] = [None] * len(spec.inputs)

    @property
    def input_count(self) -> int:
        """How many inputs it has."""
        return len(self.spec.inputs)

    @property
    def output_types(self) -> Sequence[LogicalType]:
        """Columns of what it emits."""
        return self.spec.output.types

    @property
    def takes_bundles(self) -> bool:
        """Whether all changes of a key are handed over at once."""
        return self.spec.bundles or self.operator.takes_bundles

    @property
    def uses_every_epoch(self) -> bool:
        """Whether an epoch has work in key groups without changes: what expires, or timers."""
        has_ttl = any(each.ttl.is_enabled for each in self.operator.descriptors)
        timers = (self.operator.event_timers, self.operator.processing_timers)
        return has_ttl or any(each is not None for each in timers)

    @property
    def has_total(self) -> bool:
        """Whether it has one key, of no columns, which has work in every epoch."""
        return self.operator.has_total

    def run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        *,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
        total_group: int | None = None,
        is_local: bool = False,
    ) -> EpochOutput:
        """Apply an epoch's changes to the state and commit it.

        Args:
            batches: The changes of each input. Order numbers are comparable across inputs; of
                equal ones the earlier input comes first.
            transaction: The open epoch of this operator, for all of `key_groups`.
            epoch: Its number.
            times: The epoch's times.
            key_groups: Key groups that this call is responsible for.
            total_group: Of a key of no columns, if it is one of them.
            is_local: Whether reads cost no round trip (heap).

        Returns:
            What is emitted, by order. Each emission has the order number of its cause; what timers
            in processing time emit comes before all, what those in event time emit after all.

        Raises:
            StateError: As the backend raises.
            OperatorFailed: The operator raised.
        """
        with _without_collection():
            return self._run_epoch(
                batches, transaction, epoch, times, key_groups, total_group, is_local
            )

    def _run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
        total_group: int | None,
        is_local: bool,
    ) -> EpochOutput:
        started_ns = time.perf_counter_ns()
        rows_in = sum(map(len, batches))
        batches, untimed = self._without_missing_times(batches)
        run = RunningEpoch(self, transaction, epoch, times, is_local=is_local)
        done = self._on_columns(batches, run, key_groups)
        changes = self._changes(batches if done is None else done.left, run.out.changes.append)
        if self.prefetches:
            run.prefetch(changes, key_groups)
        run.fire_processing_timers(key_groups)
        run.process(changes, bundles=self.takes_bundles)
        if self.has_total and total_group is not None:
            run.end_total(total_group)
        run.fire_event_timers(key_groups)
        run.session.clean_up(key_groups)
        writes = run.session.writes()
        orphans = [
            Orphan(each.key_group, each.stored_key, each.text, each.kind, each.input)
            for each in changes
            if each.is_orphan
        ]
        orphans += run.late_orphans()
        for key_group, write in orphans_of_rows(
            orphans,
            times.time_ms,
            self.spec.orphans_max,
            inputs=len(self.spec.inputs),
        ):
            writes.setdefault(key_group, []).append(write)
        late = [each.key_group for each in changes if each.is_late]
        for key_group, write in late_writes(late):
            writes.setdefault(key_group, []).append(write)
        transaction.commit(writes)
        expired = run.session.statistics().cleaned
        run.session.close()
        given = batches if done is None else done.left
        order = np.sort(np.concatenate([np.zeros(0, np.int64), *(b.order for b in given)]))
        output = self._output(run.out, order)
        if done is not None:
            output = merged((done.output, output), done.orders)
        statistics = {
            "rows_in": rows_in,
            "rows_out": len(output),
            "orphans": len(orphans),
            "late": len(late),
            "keys": len({each.stored_key for each in changes}) if done is None else done.keys,
            "expired": expired,
            "migrations": 0,
            **transaction.statistics().counts(),
            "epoch_ns": time.perf_counter_ns() - started_ns,
            **_gauges(run.controller.statistics()),
        }
        untimed += [
            SetAside(int(order[each.rank]), each.stored_key, each.set_aside_as or _LATE)
            for each in changes
            if each.set_aside_as or (each.is_late and self.spec.sets_aside_late)
        ]
        return EpochOutput(output, statistics, tuple(untimed))

    def _without_missing_times(
        self, batches: Sequence[ChangeBatch]
    ) -> tuple[Sequence[ChangeBatch], list[SetAside]]:
        """The changes that have all event times, and those that lack one if they are set aside."""
        found: list[SetAside] = []
        if not self.spec.sets_aside_missing_times:
            return batches, found
        kept = list(batches)
        for number, column in self.spec.needed_times:
            batch = kept[number]
            values = batch.columns[column]
            if not values.null_count:
                continue
            is_missing = values.is_null().to_numpy(zero_copy_only=False)
            spec = self.spec.inputs[number]
            gone = rows_at(batch, np.flatnonzero(is_missing))
            keys = self._key_codecs[number].encode_columns(
                [gone.columns[at] for at in spec.key], length=len(gone)
            )
            reason = f'event time "{spec.names[column]}" is NULL'
            found += [
                SetAside(order, key, reason)
                for order, key in zip(gone.order.tolist(), bytes_of(keys), strict=True)
            ]
            kept[number] = rows_at(batch, np.flatnonzero(~is_missing))
        return kept, found

    def _on_columns(
        self, batches: Sequence[ChangeBatch], run: RunningEpoch, key_groups: Sequence[int]
    ) -> _OnColumns | None:
        """Have the operator's columnar path take what it takes; None: it takes nothing."""
        path, sides = self.operator.columnar, self.operator.columnar_sides
        is_worth_it = self.prefetches and sum(map(len, batches)) >= self.columns_from
        if not is_worth_it or (path is None and sides is None):
            return None
        given, orders = ranked(batches)
        changes = [*map(KeyedColumns.of, given, self.spec.inputs, self._key_codecs)]
        if sides is not None:
            joined = sides.run(changes)
            return None if joined is None else _OnColumns(given, orders, joined)
        if path is None:
            return None
        (only,) = changes
        run.prefetch_keys(only.pairs, key_groups)
        done = path.run(only)
        if done is None:
            return None
        return _OnColumns(given, orders, DoneOnSides(done.output, (done.left,), len(only.keys)))

    def _changes(
        self, batches: Sequence[ChangeBatch], out: Callable[[Any], None]
    ) -> list[InputChange]:
        """All changes in order, with their keys."""
        order = np.concatenate([batch.order for batch in batches])
        by_order = np.argsort(order, kind="stable")
        ranks = np.empty_like(by_order)
        ranks[by_order] = np.arange(by_order.size)
        found: list[InputChange] = []
        for number, batch in enumerate(batches):
            rows, keys, stored_keys = _read(
                self.spec.inputs[number], self._key_codecs[number], batch
            )
            texts = RowTexts(partial(self._texts_of, number), batch.columns, len(batch))
            first = len(found)
            found += map(
                InputChange,
                repeat(out),
                ranks[first : first + len(batch)].tolist(),
                repeat(number),
                map(_KINDS.__getitem__, batch.kinds.tolist()),
                rows,
                keys,
                stored_keys,
                batch.key_groups.tolist(),
                repeat(texts),
                range(len(batch)),
            )
        if is_ascending(order):
            return found
        return [found[at] for at in by_order.tolist()]

    def _texts_of(self, number: int, columns: Sequence[pa.Array], length: int) -> list[bytes]:
        """The canonical texts of an input's rows."""
        return bytes_of(self.row_codec(number).encode_columns(columns, length=length))

    def key_of(self, text: bytes) -> Row:
        """The key's columns, out of a canonical key."""
        return self._key_codecs[0].decode(text)

    def channel(self, session: StateSession) -> Channel | StateSession:
        """Where requests are executed."""
        return session if self._channel_of is None else self._channel_of(session)

    def row_codec(self, number: int) -> RowCodec:
        """The codec of an input's rows, made when it is first needed."""
        codec = self._row_codecs[number]
        if codec is None:
            codec = self._row_codecs[number] = self.spec.inputs[number].codec()
        return codec

    def _output(self, out: Emissions, order: np.ndarray) -> ChangeBatch:
        """Emissions as columns; order numbers are those of causes."""
        out.changes.sort(key=op.itemgetter(0))
        early = sorted(out.processing, key=op.itemgetter(0))
        late = sorted(out.event, key=op.itemgetter(0))
        emitted = [*early, *out.changes, *late]
        first = int(order[0]) if order.size else 0
        last = int(order[-1]) if order.size else 0
        places = np.concatenate(
            [
                np.full(len(early), first - 1, np.int64),
                order[np.fromiter((each[0] for each in out.changes), np.int64)],
                np.full(len(late), last + 1, np.int64),
            ]
        )
        types = self.spec.output.types
        rows = [each[2] for each in emitted]
        columns = zip(*rows, strict=True) if rows else ((),) * len(types)
        return ChangeBatch(
            columns=tuple(
                to_column(kind, values) for kind, values in zip(types, columns, strict=True)
            ),
            kinds=np.fromiter((each[1] for each in emitted), np.int8, len(emitted)),
            order=places,
            key_groups=np.zeros(len(emitted), np.int32),
        )


class _OnColumns:
    """What an epoch's columnar path did, and left."""

    __slots__ = ("keys", "left", "orders", "output")

    def __init__(
        self, batches: Sequence[ChangeBatch], orders: np.ndarray, done: DoneOnSides
    ) -> None:
        self.output = done.output
        self.left = [*map(rows_at, batches, done.left)]
        """The changes of each input that are left; their ranks are order numbers."""
        self.orders = orders
        """Order numbers by rank."""
        self.keys = done.keys
        """How many the epoch touches."""


def _read(
    spec: InputSpec, key_codec: RowCodec, batch: ChangeBatch
) -> tuple[list[Row], list[Row], list[bytes]]:
    """Rows, keys and canonical keys of a batch."""
    count = len(batch)
    values = [
        python_values(kind, column) for kind, column in zip(spec.types, batch.columns, strict=True)
    ]
    rows: list[Row] = list(zip(*values, strict=True)) if values else [()] * count
    keyed = [values[at] for at in spec.key]
    keys: list[Row] = list(zip(*keyed, strict=True)) if keyed else [()] * count
    texts = key_codec.encode_columns([batch.columns[at] for at in spec.key], length=count)
    return rows, keys, bytes_of(texts)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Let no garbage be looked for meanwhile.

    An epoch makes objects by the hundred thousand and lets nearly all of them go at its end, when
    the session is taken apart. The collector would walk all that live again and again meanwhile:
    up to a third of the epoch's processor time, measured.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _gauges(of: ControllerStatistics) -> dict[str, int]:
    """What is shown of the controller: sums and peaks of the epoch."""
    return {
        "in_flight_peak": of.in_flight_peak,
        "active_peak": of.active_peak,
        "blocking_peak": of.blocking_peak,
        "blocking_keys_peak": of.blocking_keys_peak,
        "batches": of.batches,
        "requests": of.requests,
        "cache_hits": of.never_waited,
    }
