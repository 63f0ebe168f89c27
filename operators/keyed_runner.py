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
from dataclasses import asdict
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from operators.batch import ChangeBatch, EpochOutput
from operators.changelog import Row, RowKind
from operators.columnar import is_ascending
from operators.keyed import WATERMARK_MAX, FiredTimer, InputChange, OpenEpoch, RowTexts
from operators.orphans import Orphan, late_writes, orphans_of_rows
from state.arrow_values import python_values, to_column
from state.execution.controller import Controller
from state.execution.limits import ControllerLimits
from state.execution.site import Site
from state.multiset.vectors import bytes_of
from state.primitives.session import StateSession
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    import pyarrow as pa

    from operators.keyed import EpochTimes, KeyedOperator
    from operators.spec import InputSpec, OperatorSpec
    from state.backends.interface import EpochTransaction
    from state.codec import RowCodec
    from state.execution.channels import Channel
    from state.execution.statistics import ControllerStatistics
    from state.execution.timers import Timer
    from state.types import LogicalType

_KINDS = tuple(RowKind)
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
    """

    def __init__(
        self,
        spec: OperatorSpec,
        node: str,
        *,
        channel_of: Callable[[StateSession], Channel] | None = None,
        prefetches: bool = True,
    ) -> None:
        self.spec = spec
        self.node = node
        self.prefetches = prefetches
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

    def run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        *,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
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
            is_local: Whether reads cost no round trip (heap).

        Returns:
            What is emitted, by order. Each emission has the order number of its cause; what timers
            in processing time emit comes before all, what those in event time emit after all.

        Raises:
            StateError: As the backend raises.
            OperatorFailed: The operator raised.
        """
        with _without_collection():
            return self._run_epoch(batches, transaction, epoch, times, key_groups, is_local)

    def _run_epoch(
        self,
        batches: Sequence[ChangeBatch],
        transaction: EpochTransaction,
        epoch: int,
        times: EpochTimes,
        key_groups: Sequence[int],
        is_local: bool,
    ) -> EpochOutput:
        started_ns = time.perf_counter_ns()
        run = _Epoch(self, transaction, epoch, times, is_local=is_local)
        changes = self._changes(batches, run.out.changes.append)
        if self.prefetches:
            run.prefetch(changes)
        run.fire_processing_timers(key_groups)
        run.process(changes, bundles=self.takes_bundles)
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
        order = np.sort(np.concatenate([np.zeros(0, np.int64), *(b.order for b in batches)]))
        output = self._output(run.out, order)
        statistics = {
            "rows_in": len(changes),
            "rows_out": len(output),
            "orphans": len(orphans),
            "late": len(late),
            "keys": len({each.stored_key for each in changes}),
            "expired": expired,
            "migrations": 0,
            **asdict(transaction.statistics()),
            "epoch_ns": time.perf_counter_ns() - started_ns,
            **_gauges(run.controller.statistics()),
        }
        return EpochOutput(output, statistics)

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

    def _output(self, out: _Emissions, order: np.ndarray) -> ChangeBatch:
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


class _Emissions:
    """What an epoch emits, each with its cause."""

    __slots__ = ("changes", "event", "processing")

    def __init__(self) -> None:
        self.changes: list[tuple[int, RowKind, Row]] = []
        self.processing: list[tuple[tuple[int, bytes], RowKind, Row]] = []
        self.event: list[tuple[tuple[int, bytes], RowKind, Row]] = []


class _Epoch:
    """One epoch on its way."""

    def __init__(
        self,
        runner: KeyedRunner,
        transaction: EpochTransaction,
        epoch: int,
        times: EpochTimes,
        *,
        is_local: bool,
    ) -> None:
        self._runner = runner
        self._operator = runner.operator
        self._times = times
        clock = TtlClock(times.time_ms, times.watermark_ms, runner.spec.ttl_extension_ms)
        self.session = StateSession(transaction, clock=clock, is_local=is_local)
        self.out = _Emissions()
        self._late_orphans: list[tuple[tuple[int, bytes], Orphan]] = []
        self._operator.open(OpenEpoch(self.session, times))
        site = Site(runner.spec.kind, runner.node, epoch)
        process: Any = self._operator.process
        if runner.takes_bundles:
            process = self._operator.process_bundle
        channel = runner.channel(self.session)
        self.controller = Controller(process, channel, self.session, site, limits=runner.limits)

    def prefetch(self, changes: Sequence[InputChange]) -> None:
        """Load what nearly every change reads."""
        if self._operator.prefetched and changes:
            keys = {each.stored_key: each.key_group for each in changes}
            pairs = list(keys.items())
            self.session.prefetch([(each, pairs) for each in self._operator.prefetched])

    def process(self, changes: Sequence[InputChange], *, bundles: bool) -> None:
        """Run all changes through the controller."""
        submit = self.controller.submit
        if bundles:
            for key, bundle in _bundles(changes).items():
                submit(bundle, key, bundle[0].key_group)
        else:
            for each in changes:
                submit(each, each.stored_key, each.key_group)
        self.controller.drain()

    def late_orphans(self) -> list[Orphan]:
        """The retractions of which timers found that they match nothing, in their order."""
        return [orphan for _, orphan in sorted(self._late_orphans, key=op.itemgetter(0))]

    def fire_processing_timers(self, key_groups: Sequence[int]) -> None:
        """Fire what is due by the epoch's time."""
        descriptor = self._operator.processing_timers
        if descriptor is not None:
            self._fire(
                self.session.timers(descriptor),
                key_groups,
                self._times.time_ms,
                self._operator.on_processing_timer,
                self.out.processing.append,
            )

    def fire_event_timers(self, key_groups: Sequence[int]) -> None:
        """Fire what is due by the watermark that comes after the epoch's changes."""
        descriptor = self._operator.event_timers
        after_ms = self._times.next_watermark_ms
        # Behind the end of all inputs no watermark moves any more, and what still comes is due.
        moves = after_ms > self._times.watermark_ms or after_ms == WATERMARK_MAX
        if descriptor is not None and moves:
            self._fire(
                self.session.timers(descriptor),
                key_groups,
                self._times.next_watermark_ms,
                self._operator.on_event_timer,
                self.out.event.append,
            )

    def _fire(
        self,
        timers: Any,
        key_groups: Sequence[int],
        until_ms: int,
        on_timer: Callable[[FiredTimer], Coroutine[Any, None, None]],
        out: Callable[[Any], None],
    ) -> None:
        timers.load(key_groups, until_ms)

        async def fired(timer: Timer) -> None:
            key = self._runner.key_of(timer.key)

            def orphan(kind: RowKind, row: Row) -> None:
                place = (timer.time_ms, timer.key)
                text = self._runner.row_codec(0).encode(row)
                found = Orphan(timer.key_group, timer.key, text, kind, 0)
                self._late_orphans.append((place, found))

            await on_timer(FiredTimer(out, orphan, timer.time_ms, timer.key, key, timer.namespace))

        self.controller.non_record(
            lambda: None, lambda: self.controller.fire(timers, until_ms, fired)
        )
        self.controller.drain()


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


def _bundles(changes: Sequence[InputChange]) -> dict[bytes, list[InputChange]]:
    """The changes of each key, in order; keys by their first change."""
    bundles: dict[bytes, list[InputChange]] = {}
    for each in changes:
        bundle = bundles.get(each.stored_key)
        if bundle is None:
            bundles[each.stored_key] = [each]
        else:
            bundle.append(each)
    return bundles


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
