"""The asynchronous execution controller: many records in flight, in order within each key.

What a change waits for, on remote state, is round trips. The controller drives each record's
process, a coroutine, by hand: until it asks for state that is not here, then on to the next record.
Requests gather and go out as one batch when it is full, when its time has passed, or when nothing
else can run. The code after an `await` is the callback of FLIP-425.

What is hard, and how it is held:

- **Order.** One record of a key at a time. Others of it wait, first come first served (but those of
  higher priority pass). Output of a key is that of a synchronous run, whatever the backend does.
- **Cost.** Most records on a warm cache never wait. Those take one path without an allocation of
  ours: a spare context is lent to each, and is used up only by a record that has to wait.
- **Non-records** (watermarks) follow the records before them: `state.execution.stretches`.
- **An end.** Each queue has a bound and each wait a limit (`ControllerLimits`). An error closes
  every coroutine in flight and ends the controller, with nothing half applied: writes are in the
  session's cache until the epoch commits.

Everything runs in the caller's thread; there is no event loop. Which records share a batch never
alters what a key gives, but it does alter the order *between* keys: whoever needs one order for all
output gives it the order numbers of its changes and sorts.

Source: Flink `AsyncExecutionController` (FLIP-425). Two differences: the limit is never passed by
ordinary records (Flink: by one), and `hold_key` marks the first request in FIRST_REQUEST_ORDER.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.errors import InvariantViolation, OperatorFailed, StateCorrupt
from state.execution.engine import ENDED, RecordEngine
from state.execution.keeping import Keeper
from state.execution.processes import DeclaredProcess
from state.execution.statistics import ControllerStatistics
from state.execution.stretches import StretchMode
from state.execution.sync_point import SYNC_POINT
from state.execution.timers import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from state.execution.processes import KeptRecord, Position
    from state.execution.record_context import Process, RecordContext
    from state.execution.stretches import FinalAction, TriggerAction
    from state.execution.timers import Timer, TimerService


class Controller(RecordEngine):
    """Runs the records of one task through one process.

    Guarantees:
        order       records and timers of a key begin and end one after the other, as they came
        in flight   at most `in_flight_max` records; timers and records begun by records may add
                    `overdraft_max`
        non-records emitted after everything that came before them
        errors      the first one ends the controller; each context is disposed exactly once
        waiting     never longer than `wait_max_ms` for one answer

    It is used by one thread. A process must not call it, except for `context` and `with_key`.
    """

    # What an operator's task calls

    def submit(
        self, record: object, key: bytes, key_group: int, event_ms: int | None = None
    ) -> None:
        """Begin a record, or put it behind those of its key.

        It may wait, for room, while other records go on.

        Args:
            record: What the process is given.
            key: What state is kept by.
            key_group: Of the key.
            event_ms: Event time, where the record has one.

        Raises:
            OperatorFailed: A process raised; not necessarily this record's.
            StateError: State could not be read, or a rule was broken.
        """
        if self._current is not None:
            raise self._refusal()
        if self._in_flight or self._begins_unheld:
            self._before_submit()
            if self._begins_unheld or key in self._holders:
                self._submit_unheld(record, key, key_group, event_ms)
                return
        context = self._spare
        context.record = record
        context.key = key
        context.key_group = key_group
        context.event_ms = event_ms
        self._current = context
        try:
            self._set_key(key, key_group, event_ms=event_ms)
            coroutine = self._process(record)
            request = coroutine.send(None)
        except StopIteration:
            if context is self._spare:
                self._current = None
                self._never_waited += 1
                return
            self._end(context)
        except BaseException as error:  # whatever it is, coroutines must be closed first
            self._fail(error, context)
        else:
            context.coroutine = coroutine
            self._adopt(context)
            if request is SYNC_POINT:
                self._go_on(context, request)
            else:
                self._wait(context, request)
        self._settle_if_needed()

    def non_record(
        self,
        final_action: FinalAction,
        trigger_action: TriggerAction | None = None,
        mode: StretchMode | None = None,
    ) -> None:
        """Close the stretch of the records so far.

        Args:
            final_action: Emits the non-record, after everything before it.
            trigger_action: Runs when all records before it are done (fires timers); called again
                until it returns 0.
            mode: Other than the controller's own.

        Raises: As `submit`.
        """
        self._require_idle()
        self._stretches.close(trigger_action, final_action)
        if (mode or self._mode) is StretchMode.SERIAL_BETWEEN_EPOCH:
            self.drain()
            return
        self._settle()
        while self._stretches.closed_count > self._in_flight_max:
            self.step_forward()

    def fire(
        self,
        timers: TimerService,
        until_ms: int,
        on_timer: Callable[[Timer], Coroutine[Any, None, None]],
    ) -> int:
        """Give every due timer its turn, in the order of the records of its key.

        Inside a trigger action the turns belong to the stretch that finishes, and returning what
        this returns makes sure that timers which timers register are fired as well.

        Args:
            timers: Of one time domain.
            until_ms: Timers up to here are due.
            on_timer: What happens when one fires; its key and namespace are current.

        Returns:
            How many timers were due.

        Raises: As `submit`.
        """
        self._require_idle()

        async def turn(of: Turn) -> None:
            timer = timers.take(of.key, of.key_group, until_ms)
            if timer is not None:
                self._key_context.set_namespace(timer.namespace)
                await on_timer(timer)

        due = timers.due(until_ms)
        for key, key_group in due:
            self._make_room_for_overdraft()
            context = self._new_context(Turn(key, key_group), key, key_group)
            context.process = turn
            self._enter_and_begin(context)
        return len(due)

    def drain(self) -> None:
        """Wait until nothing is in flight and every non-record is emitted.

        Raises: As `submit`.
        """
        self._require_idle()
        self._settle()
        while self._in_flight or self._stretches.closed_count:
            self.step_forward()

    def poll(self) -> None:
        """Go on with whatever can, without waiting; send a batch whose time has passed."""
        self._require_idle()
        self._send_if_due()
        self._collect(0)
        self._settle()

    def flush(self) -> None:
        """Send a batch although it is not full, and go on with what has come back."""
        self._require_idle()
        self._send()
        self._collect(0)
        self._settle()

    def cancel(self) -> None:
        """Close every coroutine in flight and end the controller; calling it twice is allowed.

        A process sees it as `GeneratorExit` at the place where it waits.

        Raises:
            InvariantViolation: A process that it runs calls it.
        """
        if self._current is not None and self._current is not ENDED:
            raise InvariantViolation("a process cancels the controller that runs it")
        self._dispose_all()

    def statistics(self) -> ControllerStatistics:
        """What it holds and has done."""
        return ControllerStatistics(
            in_flight=self._in_flight,
            active=len(self._active),
            executing=self._executing,
            blocking=len(self.blocking),
            blocking_keys=self.blocking.keys_count,
            held_keys=len(self._holders),
            closed_stretches=self._stretches.closed_count,
            in_flight_peak=self._in_flight_peak,
            active_peak=max(self._active.peak, len(self._active)),
            blocking_peak=self.blocking.peak,
            blocking_keys_peak=self.blocking.keys_peak,
            completed=self._completed + self._never_waited,
            never_waited=self._never_waited,
            batches=self._active.sequence,
            requests=self._requests,
            timeouts=self._timeouts,
        )

    # What a process calls

    @property
    def context(self) -> RecordContext:
        """The context of the record that runs; from now on it is one in flight.

        Raises:
            InvariantViolation: No record runs.
        """
        current = self._current
        if current is None or current is ENDED:
            raise InvariantViolation("no record runs")
        self._adopt(current)
        return current

    def with_key(
        self, record: object, key: bytes, key_group: int, process: Process | None = None
    ) -> None:
        """Begin a record of any key from inside a process; it runs once this one waits or ends.

        It belongs to the stretch of the record that runs, shares its variables, and passes records
        of lower priority that wait for its key.

        Args:
            record: What the process is given.
            key: What state is kept by.
            key_group: Of the key.
            process: Other than the controller's own.

        Raises:
            OperatorFailed: More than `overdraft_max` beyond the limit are in flight already.
        """
        parent = self.context
        if self._in_flight >= self._in_flight_max + self._limits.overdraft_max:
            raise OperatorFailed(
                f"{self._site.operator} has {self._in_flight} records in flight and begins more",
                hint="raise overdraft_max, or begin fewer records from one",
            )
        if parent.variables is None:
            parent.variables = {}
        context = self._new_context(record, key, key_group)
        context.process = process
        context.variables = parent.variables
        context.priority = parent.priority + 1
        assert parent.stretch is not None  # set by `context`
        self._enter(context, parent.stretch)
        self._hold_or_block(context)

    # Keeping what has not run

    def keep(self) -> list[KeptRecord]:
        """Finish what must be, and give the rest as data: the faster drain of FLIP-425.

        Kept are records that have not begun, and those of a declared process whose block waits for
        its first request. Requests under way are waited for; other records are run on until they
        end or can be kept. Turns of timers that have not begun are dropped: their timers are still
        registered. Non-records are emitted before anything is kept.

        Returns:
            Those of one key in order. Nothing is in flight any more.

        Raises:
            ValueError: In FIRST_REQUEST_ORDER, where processes that wait have begun already.
            StateError: As `submit`.
        """
        self._require_idle()
        if self._begins_unheld:
            raise ValueError("records can be kept in RECORD_ORDER only")
        self._settle()
        while self._stretches.closed_count:
            self.step_forward()
        keeper = Keeper(self)
        for context in self._active.take_all():
            if not keeper.take(context):
                self._active.add(context)
        self._set_aside = keeper.take
        while self._in_flight:
            self.step_forward()
        self._set_aside = None
        return keeper.kept

    def resume(
        self, kept: Iterable[KeptRecord], processes: Mapping[str, DeclaredProcess] | None = None
    ) -> None:
        """Go on with what `keep` gave, before new records are submitted.

        Args:
            kept: Those of one key in order.
            processes: By name; the controller's own need not be given.

        Raises:
            StateCorrupt: A record was kept in a process or block that there is none of.
            StateError: As `submit`.
        """
        self._require_idle()
        known = dict(processes or {})
        if isinstance(self._process, DeclaredProcess):
            known[self._process.name] = self._process
        for each in kept:
            context = self._new_context(each.record, each.key, each.key_group, each.event_ms)
            if each.position is not None:
                context.position = each.position
                context.process = _process_of(each.position, known)
            self._before_submit()
            self._enter_and_begin(context)


def _process_of(position: Position, known: Mapping[str, DeclaredProcess]) -> Process:
    process = known.get(position.process)
    if process is None:
        raise StateCorrupt(f"records were kept in process {position.process!r}, which is not given")
    return process.at(position)
