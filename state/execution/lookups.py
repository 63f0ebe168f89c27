"""Keyed, ordered, asynchronous look-ups on the controller's core, without state (FLIP-519).

A look-up join asks something outside (a table, a service) for each record. Answers take their time
and come in any order; records of a key must still leave in the order in which they came, since they
may be an update of one another. That is what the controller does, so the core is the same: a
look-up is a request, records of one key wait for each other, watermarks for what precedes them.
What is added: look-ups go out one by one as soon as there is room, they have a deadline and are
tried again (`state.execution.lookup_channel`), and the output can be put back into the order of the
input.

    async def join(order, look_up):
        customer = await look_up(order.customer)
        return [(order, customer)]

    lookups = Lookups(join, ThreadedSource(fetch_customer, threads_max=8), emit, site)
    lookups.submit(order, key, key_group)
    lookups.drain()

Source: FLIP-519 and Flink's `table.exec.async-lookup.*` options, whose defaults `LookupLimits` has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from state.execution.controller import Controller
from state.execution.limits import ControllerLimits
from state.execution.lookup_channel import Lookup, LookupChannel, LookupLimits
from state.execution.stretches import StretchMode

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from state.execution.lookup_channel import LookupSource
    from state.execution.site import Site
    from state.execution.statistics import ControllerStatistics

    LookUp = Callable[[Any], Lookup]
    Join = Callable[[Any, LookUp], Coroutine[Any, None, Iterable[Any]]]

_DEFAULTS = LookupLimits()


class LookupOrder(Enum):
    """In which order output leaves."""

    BY_INPUT = "by-input"
    """In that of the input, watermarks included. Flink: output mode ORDERED."""
    BY_KEY = "by-key"
    """For each key in that of the input, as soon as it is there. Flink: key-ordered."""


class _NoState:
    """A key context of processes without state."""

    context: object = None

    def set_key(self, key: bytes, key_group: int, *, event_ms: int | None = None) -> None:
        """There is nothing that would act on it."""

    def set_namespace(self, namespace: bytes) -> None:
        """Nor on this."""


@dataclass(frozen=True, slots=True)
class LookupStatistics:
    """What look-ups hold and have done."""

    controller: ControllerStatistics
    not_emitted: int
    """Records and watermarks whose output was not emitted."""
    retries: int
    timeouts: int
    late: int
    """Answers that came after their look-up had ended."""


class Lookups:
    """Looks records up and emits what comes of it, in order.

    Guarantees:
        order      that of `LookupOrder`; a watermark never before the output of what precedes it
        capacity   at most so many records whose output was not emitted; `submit` waits beyond it
        an end     each look-up is over after `timeout_ms`
    """

    def __init__(
        self,
        join: Join,
        source: LookupSource,
        emit: Callable[[Any], None],
        site: Site,
        *,
        order: LookupOrder = LookupOrder.BY_INPUT,
        limits: LookupLimits = _DEFAULTS,
        is_miss: Callable[[Any], bool] = lambda _: False,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """Make them.

        Args:
            join: `async def join(record, look_up)`; awaits `look_up(argument)`, any number of
                times, and returns what is to be emitted.
            source: Where look-ups are answered.
            emit: Takes output, one by one.
            site: For errors.
            order: Of the output.
            limits: Bounds.
            is_miss: Whether an answer is none, and worth another attempt (Flink: lookup_miss).
            clock: Milliseconds that only grow.
        """
        self._join = join
        self._emit = emit
        self._limits = limits
        self._is_by_input = order is LookupOrder.BY_INPUT
        self._channel = LookupChannel(source, limits, is_miss, clock)
        self._taken = self._emitted = 0
        self._results: dict[int, Callable[[], None]] = {}
        """What is to be emitted, by place in the input; bounded by the capacity."""
        bounds = ControllerLimits(
            in_flight_max=limits.capacity,
            batch_max=1,
            timeout_ms=0,
            wait_max_ms=limits.timeout_ms + 1_000,
        )
        self._controller = Controller(
            self._process,
            self._channel,
            _NoState(),
            site,
            limits=bounds,
            mode=StretchMode.PARALLEL_BETWEEN_EPOCH,
            clock=clock,
        )

    def submit(self, record: object, key: bytes, key_group: int = 0) -> None:
        """Look a record up; waits for room.

        Raises:
            LookupTimedOut: A look-up was not answered in time, and `join` did not catch it.
            OperatorFailed: `join` raised.
        """
        self._make_room()
        self._controller.submit((self._next_place(), record), key, key_group)
        self._controller.poll()

    def watermark(self, emit: Callable[[], None]) -> None:
        """Emit a non-record after all that precedes it.

        Raises: As `submit`.
        """
        self._make_room()
        place = self._next_place()
        self._controller.non_record(lambda: self._result(place, emit))

    def poll(self) -> None:
        """Emit what is there, without waiting.

        Raises: As `submit`.
        """
        self._controller.poll()

    def drain(self) -> None:
        """Wait until everything is emitted.

        Raises: As `submit`.
        """
        self._controller.drain()

    def cancel(self) -> None:
        """Give up what is in flight."""
        self._controller.cancel()

    def statistics(self) -> LookupStatistics:
        """What they hold and have done."""
        channel = self._channel
        return LookupStatistics(
            self._controller.statistics(),
            self._taken - self._emitted,
            channel.retries,
            channel.timeouts,
            channel.late,
        )

    async def _process(self, placed: tuple[int, Any]) -> None:
        place, record = placed
        output = await self._join(record, Lookup)

        def emit() -> None:
            for each in output:
                self._emit(each)

        self._result(place, emit)

    def _next_place(self) -> int:
        self._taken += 1
        return self._taken - 1

    def _make_room(self) -> None:
        while self._taken - self._emitted >= self._limits.capacity:
            self._controller.step_forward()

    def _result(self, place: int, emit: Callable[[], None]) -> None:
        """Emit at once, or once everything before it in the input was emitted."""
        if not self._is_by_input:
            self._emitted += 1
            emit()
            return
        self._results[place] = emit
        while (following := self._results.pop(self._emitted, None)) is not None:
            self._emitted += 1
            following()
