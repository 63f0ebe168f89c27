"""One epoch of a keyed operator on its way: its session, its controller, its timers, what it emits.

`operators.keyed_runner` makes one of these for each epoch, and calls its methods in their order.
"""

from __future__ import annotations

import operator as op
from typing import TYPE_CHECKING, Any

from operators.keyed import WATERMARK_MAX, FiredTimer, OpenEpoch
from operators.orphans import Orphan
from state.execution.controller import Controller
from state.execution.site import Site
from state.execution.sync import run_now
from state.primitives.session import StateSession
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from operators.changelog import Row, RowKind
    from operators.keyed import EpochTimes, InputChange
    from operators.keyed_runner import KeyedRunner
    from state.backends.interface import EpochTransaction
    from state.execution.timers import Timer


class Emissions:
    """What an epoch emits, each with its cause."""

    __slots__ = ("changes", "event", "processing")

    def __init__(self) -> None:
        self.changes: list[tuple[int, RowKind, Row]] = []
        self.processing: list[tuple[tuple[int, bytes], RowKind, Row]] = []
        self.event: list[tuple[tuple[int, bytes], RowKind, Row]] = []


class RunningEpoch:
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
        self.out = Emissions()
        self._late_orphans: list[tuple[tuple[int, bytes], Orphan]] = []
        self._operator.open(OpenEpoch(self.session, times))
        site = Site(runner.spec.kind, runner.node, epoch)
        process: Any = self._operator.process  # of a change, or of a bundle: handed on as it is
        if runner.takes_bundles:
            process = self._operator.process_bundle
        channel = runner.channel(self.session)
        self.controller = Controller(process, channel, self.session, site, limits=runner.limits)

    def prefetch(self, changes: Sequence[InputChange], key_groups: Sequence[int]) -> None:
        """Load what nearly every change reads, and what the clean-up of these key groups does."""
        keys = {each.stored_key: each.key_group for each in changes}
        self._prefetch(list(keys.items()), key_groups, at_once=False)

    def prefetch_keys(self, pairs: Sequence[tuple[bytes, int]], key_groups: Sequence[int]) -> None:
        """The same for a columnar path and these keys; before anything else of the epoch."""
        self._prefetch(pairs, key_groups, at_once=True)

    def _prefetch(
        self, pairs: Sequence[tuple[bytes, int]], key_groups: Sequence[int], *, at_once: bool
    ) -> None:
        if self._operator.prefetched and pairs:
            wanted = [(each, pairs) for each in self._operator.prefetched]
            self.session.prefetch(wanted, at_once=at_once, key_groups=key_groups)

    def process(self, changes: Sequence[InputChange], *, bundles: bool) -> None:
        """Run all changes through the controller."""
        submit = self.controller.submit
        if bundles:
            for key, bundle in bundles_of(changes).items():
                submit(bundle, key, bundle[0].key_group)
        else:
            for each in changes:
                submit(each, each.stored_key, each.key_group)
        self.controller.drain()

    def end_total(self, key_group: int) -> None:
        """Let the key of no columns, which is of this key group, be there."""
        key = self._runner.spec.inputs[0].key_row.codec().encode(())
        self.session.set_key(key, key_group)

        def emit(kind: RowKind, row: Row) -> None:
            self.out.event.append(((self._times.time_ms, key), kind, row))

        run_now(self._operator.end_total(emit), self.session)

    def late_orphans(self) -> list[Orphan]:
        """The retractions of which timers found that they match nothing, in their order."""
        return [orphan for _, orphan in sorted(self._late_orphans, key=op.itemgetter(0))]

    def fire_processing_timers(self, key_groups: Sequence[int]) -> None:
        """Fire what is due by the epoch's time."""
        descriptor = self._operator.processing_timers
        if descriptor is not None:
            timers = self.session.timers(descriptor)
            timers.load(key_groups, self._times.time_ms)
            self._plan_untimed(timers.untimed_keys())
            self._fire(
                timers,
                self._times.time_ms,
                self._operator.on_processing_timer,
                self.out.processing.append,
            )

    def _plan_untimed(self, keys: Sequence[tuple[bytes, int]]) -> None:
        """Let keys that were there before there was a TTL go by it, as if they came now.

        Before the epoch changes anything: a key that is there is one that was stored.
        """
        if self._operator.planned is None or not keys:
            return
        self.session.prefetch([(self._operator.planned, keys)])
        for key, key_group in keys:
            self.session.set_key(key, key_group)
            run_now(self._operator.on_untimed_key(), self.session)

    def fire_event_timers(self, key_groups: Sequence[int]) -> None:
        """Fire what is due by the watermark that comes after the epoch's changes."""
        descriptor = self._operator.event_timers
        after_ms = self._times.next_watermark_ms
        # Behind the end of all inputs no watermark moves any more, and what still comes is due.
        moves = after_ms > self._times.watermark_ms or after_ms == WATERMARK_MAX
        if descriptor is not None and moves:
            timers = self.session.timers(descriptor)
            timers.load(key_groups, self._times.next_watermark_ms)
            self._fire(
                timers,
                self._times.next_watermark_ms,
                self._operator.on_event_timer,
                self.out.event.append,
            )

    def _fire(
        self,
        timers: Any,  # timers of processing or of event time: what is asked of them here is alike
        until_ms: int,
        on_timer: Callable[[FiredTimer], Coroutine[Any, None, None]],
        out: Callable[[Any], None],
    ) -> None:
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


def bundles_of(changes: Sequence[InputChange]) -> dict[bytes, list[InputChange]]:
    """The changes of each key, in order; keys by their first change."""
    bundles: dict[bytes, list[InputChange]] = {}
    for each in changes:
        bundle = bundles.get(each.stored_key)
        if bundle is None:
            bundles[each.stored_key] = [each]
        else:
            bundle.append(each)
    return bundles
