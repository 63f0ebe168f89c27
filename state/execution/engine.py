"""The way of a record through the controller: begin, hold its key, wait, go on, end.

This is the machine below `state.execution.controller`, which says what it is for. Every step is
taken by one of a few methods, and each leaves a record in exactly one place:

    _hold_or_block   the key was free: `_holding`; else BLOCKED behind its holder
    _holding         READY
    _go_on           RUNNING, until the process ends (`_end`) or waits (`_wait`: ACTIVE, its
                     request gathers)
    _send            ACTIVE -> EXECUTING, a batch at a time
    _collect         EXECUTING -> READY
    _end             DISPOSED; the next record of the key goes on

Nothing here calls itself through a process: a record that can go on is put into the ready queue,
and one loop (`_settle`) empties it. The only nesting is that of a trigger action, which begins
timers from inside that loop; it may wait for room, one level deep.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn

from state.errors import InvariantViolation, OperatorFailed, StateError, StateUnavailable
from state.execution.buffers import ActiveBuffer, BlockingBuffer
from state.execution.channels import channel_of
from state.execution.key_accounting import KeyAccounting, hashed
from state.execution.key_context import NO_KEY, NO_KEY_GROUP
from state.execution.limits import DEFAULT_LIMITS
from state.execution.processes import Resumable
from state.execution.record_context import Phase, RecordContext
from state.execution.stretches import Stretches, StretchMode
from state.execution.sync_point import SYNC_POINT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from state.execution.channels import Channel
    from state.execution.key_context import KeyContext
    from state.execution.limits import ControllerLimits
    from state.execution.record_context import Process
    from state.execution.requests import StateExecutor
    from state.execution.site import Site
    from state.execution.stretches import Stretch


class RecordOrder(Enum):
    """From where on records of a key are in order; Flink's names."""

    RECORD_ORDER = "record"
    """A process begins when its record holds the key."""
    FIRST_REQUEST_ORDER = "first-request"
    """A process begins at once; the order is that of first requests (`hold_key`)."""


_RUNNING, _BLOCKED, _ACTIVE, _EXECUTING, _READY, _DISPOSED = Phase
"""Looking a member up in its enumeration costs as much as a step of ours."""

ENDED = RecordContext()


class RecordEngine:
    """What moves records. `Controller` is what is used."""

    def __init__(
        self,
        process: Process,
        requests: Channel | StateExecutor,
        key_context: KeyContext,
        site: Site,
        *,
        limits: ControllerLimits = DEFAULT_LIMITS,
        order: RecordOrder = RecordOrder.RECORD_ORDER,
        mode: StretchMode = StretchMode.SERIAL_BETWEEN_EPOCH,
        clock: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        """Make one for a task's epoch.

        Args:
            process: Begins a record: `async def process(change)`.
            requests: Where requests are executed.
            key_context: Is told the key before each step of a process.
            site: For errors.
            limits: Bounds of queues and waits.
            order: From where on records of a key are in order.
            mode: Whether records of different stretches may be in flight together.
            clock: Milliseconds that only grow; for the timeout of the active buffer.
        """
        self._process = process
        self._channel = channel_of(requests)
        self._key_context = key_context
        self._set_key = key_context.set_key
        self._site = site
        self._limits = limits
        self._in_flight_max = limits.in_flight_max
        self._begins_unheld = order is RecordOrder.FIRST_REQUEST_ORDER
        self._mode = mode
        self._accounting = KeyAccounting()
        self._holders: Mapping[bytes, RecordContext] = self._accounting.holders
        self._active = ActiveBuffer(limits, clock)
        self.blocking = BlockingBuffer()
        self._stretches = Stretches(limits.firing_rounds_max)
        self._ready: deque[RecordContext] = deque()
        self._spare = RecordContext()
        self._current: RecordContext | None = None
        self._set_aside: Callable[[RecordContext], bool] | None = None
        """Set while records are kept: takes one out of flight, if it can be kept."""
        self._in_flight = self._executing = self._in_flight_peak = 0
        self._completed = self._never_waited = self._requests = self._timeouts = 0

    # A record's way

    def _before_submit(self) -> None:
        if self._send_if_due():
            self._collect(0)
            self._settle()
        while self._in_flight >= self._in_flight_max:
            self.step_forward()

    def _make_room_for_overdraft(self) -> None:
        """Make room as far as that needs no waiting, then use the overdraft; wait beyond it."""
        while self._in_flight >= self._in_flight_max and self._step_without_waiting():
            pass
        while self._in_flight >= self._in_flight_max + self._limits.overdraft_max:
            self.step_forward()

    def _submit_unheld(
        self, record: object, key: bytes, key_group: int, event_ms: int | None
    ) -> None:
        """A record that does not hold its key when it comes."""
        context = self._new_context(record, key, key_group, event_ms)
        if self._begins_unheld:
            self._go_on(context)
        else:
            self._enter(context, self._stretches.joined)
            self._hold_or_block(context)
        self._settle_if_needed()

    def _new_context(
        self, record: object, key: bytes, key_group: int, event_ms: int | None = None
    ) -> RecordContext:
        context = RecordContext()
        context.record = record
        context.key = key
        context.key_group = key_group
        context.event_ms = event_ms
        return context

    def _enter_and_begin(self, context: RecordContext) -> None:
        self._enter(context, self._stretches.joined)
        self._hold_or_block(context)
        self._settle()

    def _enter(self, context: RecordContext, stretch: Stretch) -> None:
        """Count a record as in flight."""
        if context is self._spare:
            self._spare = RecordContext()
        context.stretch = stretch
        stretch.ongoing += 1
        self._in_flight += 1
        if self._in_flight > self._in_flight_peak:
            self._in_flight_peak = self._in_flight

    def _adopt(self, context: RecordContext) -> None:
        """Count a record that runs on the spare context as in flight, and let it hold its key."""
        if context.stretch is None:
            self._enter(context, self._stretches.joined)
        if not self._begins_unheld and not context.holds_key:
            context.holds_key = self._accounting.occupy(context, context.key)

    def _hold_or_block(self, context: RecordContext) -> None:
        """Take the key for a record that holds it not, or put the record behind its holder."""
        if self._accounting.occupy(context, context.key):
            self._holding(context)
        else:
            context.phase = _BLOCKED
            self.blocking.add(context)

    def _block(self, context: RecordContext) -> None:
        """Put a record that has begun without its key behind the one that holds it."""
        if context.request is not SYNC_POINT:
            rule = "a process must await hold_key() before state in FIRST_REQUEST_ORDER"
            self._fail(InvariantViolation(rule), context)
        context.phase = _BLOCKED
        self.blocking.add(context)

    def _holding(self, context: RecordContext) -> None:
        """A record that now holds its key goes on."""
        context.holds_key = True
        context.phase = _READY
        self._ready.append(context)

    def _go_on(self, context: RecordContext, request: object = None) -> None:
        """Run a process until it waits or ends.

        Args:
            context: Whose.
            request: What it already waits for, if its first step is done.
        """
        self._current = context
        context.phase = _RUNNING
        try:
            if request is None:
                request = self._step(context)
            if request is SYNC_POINT:
                request = self._pass_sync_points(context)
        except StopIteration:
            self._end(context)
        except BaseException as error:  # whatever it is, coroutines must be closed first
            self._fail(error, context)
        else:
            self._wait(context, request)

    def _step(self, context: RecordContext) -> Any:
        if context.holds_key:
            if context.place is None:
                self._set_key(context.key, context.key_group, event_ms=context.event_ms)
            else:
                self._key_context.context = context.place
        else:
            self._set_key(NO_KEY, NO_KEY_GROUP)
        if context.coroutine is None:
            process = context.process or self._process
            context.coroutine = process(context.record)
        return context.coroutine.send(None)

    def _pass_sync_points(self, context: RecordContext) -> Any:
        """Answer `hold_key` as long as that needs no waiting; what the process asks for next."""
        assert context.coroutine is not None  # it has just asked
        request: object = SYNC_POINT
        while request is SYNC_POINT:
            if context.holds_key:
                request = context.coroutine.send(None)
            elif self._takes_key(context):
                request = self._step(context)
            else:
                break
        return request

    def _takes_key(self, context: RecordContext) -> bool:
        """Let a record that has begun without its key have it, if it is free."""
        if context.stretch is None:
            self._enter(context, self._stretches.joined)
        context.holds_key = self._accounting.occupy(context, context.key)
        return context.holds_key

    def _wait(self, context: RecordContext, request: object) -> None:
        """Put a record where its request belongs."""
        self._current = None
        context.position = None
        if type(request) is Resumable:
            context.position = request.position
            request = request.request
        context.request = request
        if not context.holds_key:
            self._block(context)
            return
        context.place = self._key_context.context
        if self._set_aside is None or not self._set_aside(context):
            context.phase = _ACTIVE
            self._active.add(context)

    def _end(self, context: RecordContext) -> None:
        """The process of a record has ended."""
        self._current = None
        if context.stretch is None:
            self._never_waited += 1
        else:
            self._completed += 1
            self.dispose(context)

    def dispose(self, context: RecordContext) -> None:
        """Count a record as done and let the next of its key go on.

        Raises:
            InvariantViolation: It is done already.
        """
        if context.phase is _DISPOSED or context.stretch is None:
            raise InvariantViolation(f"a record of key {hashed(context.key)} is disposed twice")
        context.phase = _DISPOSED
        self._stretches.leave(context.stretch)
        self._in_flight -= 1
        if context.holds_key:
            self._let_go(context, context.key)

    def _let_go(self, context: RecordContext, key: bytes) -> None:
        """Give the key of a record to the next one that waits for it."""
        following = self.blocking.take(key)
        if following is None or (self._set_aside is not None and self._set_aside(following)):
            self._accounting.release(context, key)
        else:
            self._accounting.hand_over(context, following, key)
            self._holding(following)

    # Batches

    def _settle_if_needed(self) -> None:
        if self._ready or self._active.is_full or self._stretches.can_advance:
            self._settle()

    def _settle(self) -> None:
        """Go on with all that needs no waiting for state: ready records, full batches, actions."""
        while True:
            while self._ready:
                self._go_on(self._ready.popleft())
            if self._active.is_full:
                self._send()
                self._collect(0)
            elif self._stretches.can_advance:
                self._advance_stretches()
            if not (self._ready or self._active.is_full or self._stretches.can_advance):
                return

    def _advance_stretches(self) -> None:
        try:
            self._stretches.advance()
        except BaseException as error:  # what a watermark makes run is an operator's, too
            self._fail(error)

    def _step_without_waiting(self) -> bool:
        """Bring something forward if that needs no waiting; whether there was anything."""
        if self._ready or self._stretches.can_advance:
            self._settle()
            return True
        if self._executing and self._collect(0):
            return True
        if len(self._active):
            self._send()
            self._collect(0)
            return True
        return False

    def step_forward(self) -> None:
        """Bring something forward; wait for an answer if nothing else is left.

        Raises:
            StateUnavailable: There was none within `wait_max_ms`.
            StateError: As `Controller.submit`.
        """
        if self._step_without_waiting():
            return
        if not self._executing:
            self._fail(InvariantViolation(f"{self._in_flight} records in flight wait for nothing"))
        if not self._collect(self._limits.wait_max_ms):
            self._fail(
                StateUnavailable(
                    f"none of {self._executing} state requests was answered"
                    f" within {self._limits.wait_max_ms} ms"
                )
            )

    def _send_if_due(self) -> bool:
        """Send the requests whose time has passed; whether it had."""
        if not self._active.is_due():
            return False
        self._timeouts += 1
        self._send()
        return True

    def _send(self) -> None:
        if not len(self._active):
            return
        batch = self._active.take()
        for context in batch:
            context.phase = _EXECUTING
        self._executing += len(batch)
        self._requests += len(batch)
        try:
            self._channel.send(batch)
        except BaseException as error:  # records end with their requests, at an interrupt, too
            self._fail(error)

    def _collect(self, wait_ms: int) -> bool:
        """Take what has come back; whether there was anything."""
        try:
            answered = self._channel.receive(wait_ms)
        except BaseException as error:  # as where they are sent
            self._fail(error)
        for context in answered:
            if context.phase is not _EXECUTING:
                self._fail(InvariantViolation("a request is answered that was not sent"))
            context.phase = _READY
        self._executing -= len(answered)
        self._ready.extend(answered)
        return bool(answered)

    # Ends

    def _require_idle(self) -> None:
        if self._current is not None:
            raise self._refusal()

    def _refusal(self) -> InvariantViolation:
        if self._current is ENDED:
            return InvariantViolation("the controller has failed or was cancelled")
        return InvariantViolation("a process calls the controller that runs it")

    def _fail(self, error: BaseException, context: RecordContext | None = None) -> NoReturn:
        """End the controller with its first error.

        Errors of state stay what they are, since their code is acted on; they learn where.
        """
        if self._current is ENDED:
            raise error
        self._dispose_all()
        where = self._site.where(None if context is None else context.key)
        if isinstance(error, StateError):
            error.where = where
            error.add_note(f"in {where}")
            raise error
        if isinstance(error, Exception):
            raise OperatorFailed(f"{type(error).__name__} in {where}") from error
        raise error

    def _dispose_all(self) -> None:
        """Close what is in flight. Errors of coroutines that are closed are not the first one."""
        contexts = [*self._holders.values(), *self.blocking.take_all()]
        self._active.take_all()
        self._ready.clear()
        for context in contexts:
            _close(context)
            context.phase = _DISPOSED
        self._accounting.holders.clear()
        self._stretches = Stretches(self._limits.firing_rounds_max)
        self._in_flight = self._executing = 0
        self._current = ENDED


def _close(context: RecordContext) -> None:
    """End a coroutine where it waits."""
    if context.coroutine is not None:
        with suppress(Exception):  # nobody is left to tell: the epoch has failed already
            context.coroutine.close()
