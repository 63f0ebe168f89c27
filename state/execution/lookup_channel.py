"""How look-ups leave and come back: sources, deadlines, retries.

A source is given a ticket for each attempt and answers by it, so that an answer to an attempt that
has been given up is told from one to the attempt after it. No thread here waits for a clock: what
is due is looked at whenever the controller asks for answers.
"""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from state.errors import LookupTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from concurrent.futures import Future

    from state.execution.record_context import RecordContext


@dataclass(frozen=True, slots=True)
class LookupLimits:
    """Bounds of look-ups.

    Raises:
        ValueError: A bound is below what look-ups can work with.
    """

    capacity: int = 100
    """Records whose output was not emitted. Flink: table.exec.async-lookup.buffer-capacity."""
    timeout_ms: int = 180_000
    """Of a look-up, retries included. Flink: table.exec.async-lookup.timeout."""
    attempts_max: int = 1
    """How often a look-up is tried that raises, or whose answer is a miss."""
    retry_delay_ms: int = 0
    """Before each further attempt."""

    def __post_init__(self) -> None:
        if min(self.capacity, self.timeout_ms, self.attempts_max) < 1 or self.retry_delay_ms < 0:
            raise ValueError("capacity, timeout and attempts begin at 1, the retry delay at 0")


class Answer(NamedTuple):
    """What came back for a ticket: a value, or an error."""

    ticket: int
    value: object = None
    error: BaseException | None = None


class LookupSource(Protocol):
    """What is asked."""

    def start(self, ticket: int, argument: object) -> None:
        """Begin a look-up; does not wait. A ticket is used once."""

    def wait(self, wait_ms: int) -> Sequence[Answer]:
        """Answers since the last call; without any, waits so long for the first one."""

    def close(self) -> None:
        """Let go of what it holds; look-ups under way are of no interest any more."""


class ThreadedSource:
    """Asks by a function that blocks, in threads.

    A thread cannot be ended: a look-up that timed out keeps its thread until it returns, and what
    it returns is dropped. The function should have a timeout of its own, below that of the limits.
    """

    def __init__(self, function: Callable[[Any], Any], threads_max: int) -> None:
        self._function = function
        self._threads = ThreadPoolExecutor(threads_max, thread_name_prefix="lookup")
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()

    def start(self, ticket: int, argument: object) -> None:
        """Hand it to a thread, or to the queue of those that wait for one."""

        def answered(future: Future[Any]) -> None:
            if not future.cancelled():
                error = future.exception()
                value = None if error else future.result()
                self._answers.put(Answer(ticket, value, error))

        self._threads.submit(self._function, argument).add_done_callback(answered)

    def wait(self, wait_ms: int) -> Sequence[Answer]:
        """Take what has come."""
        answers: list[Answer] = []
        try:
            if wait_ms > 0:
                answers.append(self._answers.get(timeout=wait_ms / 1_000))
            while True:
                answers.append(self._answers.get_nowait())
        except queue.Empty:
            return answers

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Lookup:
    """One look-up of a record; awaited, it gives the answer.

    Raises:
        LookupTimedOut: There was none in time.
        Exception: What the last attempt raised.
    """

    __slots__ = (
        "argument",
        "attempts",
        "context",
        "deadline_ms",
        "error",
        "retry_ms",
        "ticket",
        "value",
    )
    reads = ()
    context: RecordContext

    def __init__(self, argument: object) -> None:
        self.argument = argument
        self.value: object = None
        self.error: BaseException | None = None
        self.attempts = 0
        self.ticket = 0
        self.deadline_ms = self.retry_ms = 0

    def take(self, replies: Sequence[Any]) -> None:
        """A look-up reads no state."""

    def __await__(self) -> Generator[Lookup, None, Any]:
        yield self
        if self.error is not None:
            raise self.error
        return self.value


class LookupChannel:
    """Carries look-ups to a source: deadlines, retries, and answers that come too late.

    All deadlines are equally far away, so the first look-up that was started is due first.
    """

    def __init__(
        self,
        source: LookupSource,
        limits: LookupLimits,
        is_miss: Callable[[Any], bool],
        clock: Callable[[], int],
    ) -> None:
        self._source = source
        self._limits = limits
        self._is_miss = is_miss
        self._clock = clock
        self._next_ticket = 0
        self._asked: dict[int, Lookup] = {}
        """By the ticket of the attempt under way."""
        self._open: dict[Lookup, None] = {}
        """Not answered, in the order in which they were started."""
        self._retries: deque[Lookup] = deque()
        """To be tried again, in the order of their time."""
        self._done: list[RecordContext] = []
        self.retries = self.timeouts = self.late = 0

    def send(self, batch: Sequence[RecordContext]) -> None:
        """Start look-ups."""
        deadline_ms = self._clock() + self._limits.timeout_ms
        for context in batch:
            lookup: Lookup = context.request
            lookup.context = context
            lookup.deadline_ms = deadline_ms
            self._open[lookup] = None
            self._ask(lookup)

    def receive(self, wait_ms: int) -> Sequence[RecordContext]:
        """Records whose look-ups are over: answered, failed or timed out."""
        now = self._clock()
        end = now + wait_ms
        while True:
            self._settle(now)
            if self._done or now >= end or not self._open:
                self._take(self._source.wait(0))
                done, self._done = self._done, []
                return done
            waited = max(1, self._until(end) - now)
            answers = self._source.wait(waited)
            # A source that came back empty has waited, whatever the clock says.
            now = self._clock() if answers else max(self._clock(), now + waited)
            self._take(answers)

    def _until(self, end: int) -> int:
        """When there is something to do, if nothing comes back before."""
        retry = self._retries[0].retry_ms if self._retries else end
        return min(end, retry, next(iter(self._open)).deadline_ms)

    def _ask(self, lookup: Lookup) -> None:
        lookup.attempts += 1
        self._next_ticket += 1
        lookup.ticket = self._next_ticket
        self._asked[lookup.ticket] = lookup
        self._source.start(lookup.ticket, lookup.argument)

    def _take(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            lookup = self._asked.pop(answer.ticket, None)
            if lookup is None:
                self.late += 1
                continue
            failed = answer.error is not None or self._is_miss(answer.value)
            if failed and lookup.attempts < self._limits.attempts_max:
                self.retries += 1
                lookup.retry_ms = self._clock() + self._limits.retry_delay_ms
                self._retries.append(lookup)
            else:
                lookup.value, lookup.error = answer.value, answer.error
                self._finish(lookup)

    def _settle(self, now: int) -> None:
        """Time out what is due, and try again what may be."""
        while self._open and (first := next(iter(self._open))).deadline_ms <= now:
            self.timeouts += 1
            first.error = LookupTimedOut(
                f"a look-up had no answer within {self._limits.timeout_ms} ms"
                f" and {first.attempts} attempts"
            )
            self._finish(first)
        while self._retries and self._retries[0].retry_ms <= now:
            lookup = self._retries.popleft()
            if lookup in self._open:
                self._ask(lookup)

    def _finish(self, lookup: Lookup) -> None:
        del self._open[lookup]
        self._asked.pop(lookup.ticket, None)
        self._done.append(lookup.context)
