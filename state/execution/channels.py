"""How requests leave the controller and come back.

The controller sends contexts in batches and is given them back, in any order and at any time, once
their requests are executed: a `Channel`. State is read by a `StateExecutor`, which is done when it
returns; `BlockingChannel` makes a channel of one. `RetryingExecutor` stands before it where a
backend that was away for a moment shall not fail the epoch.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import tenacity

from state.errors import StateUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.execution.record_context import RecordContext
    from state.execution.requests import Request, StateExecutor


@runtime_checkable
class Channel(Protocol):
    """Where batches go. Used by one thread."""

    def send(self, batch: Sequence[RecordContext]) -> None:
        """Begin to execute the requests (`context.request`) of a batch.

        Raises:
            StateError: They cannot be executed; the controller fails.
        """

    def receive(self, wait_ms: int) -> Sequence[RecordContext]:
        """Contexts whose requests were executed since the last call, each given once.

        Args:
            wait_ms: If there is none yet, wait so long for the first one; 0 does not wait.

        Raises:
            StateError: A request failed; the controller fails.
        """


class BlockingChannel:
    """A channel whose batches are executed when `send` returns: one round trip each."""

    __slots__ = ("_done", "_executor")

    def __init__(self, executor: StateExecutor) -> None:
        self._executor = executor
        self._done: list[RecordContext] = []

    def send(self, batch: Sequence[RecordContext]) -> None:
        """Execute a batch in place."""
        self._executor.execute([context.request for context in batch])
        self._done += batch

    def receive(self, wait_ms: int) -> Sequence[RecordContext]:
        """What was sent since the last call."""
        done, self._done = self._done, []
        return done


class RetryingExecutor:
    """Tries a batch again, within limits, when the backend did not answer.

    Only reads go through an executor, so a batch has no effect until its replies are taken, and an
    executor takes none unless it has all. What may not be repeated is told by `may_retry`: once the
    epoch's writes have been sent, an unanswered call must fail the attempt. A transaction is of no
    use after an error; `renew` gives the executor another one, begun anew. Redis that restarted
    (`IncarnationChanged`), a fence and everything else that is no mere absence is never retried.
    """

    def __init__(
        self,
        executor: StateExecutor,
        *,
        renew: Callable[[], None],
        may_retry: Callable[[], bool],
        attempts_max: int = 3,
        backoff_ms: int = 50,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Stand before an executor.

        Args:
            executor: What reads.
            renew: Called before each further attempt.
            may_retry: Whether nothing of the epoch was written yet.
            attempts_max: Of one batch, the first one counted.
            backoff_ms: Before the second attempt; doubled before each further one.
            sleep: Waits for so many seconds.
        """
        self._executor = executor
        self._renew = renew
        self._may_retry = may_retry
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(self._is_passing),
            stop=tenacity.stop_after_attempt(attempts_max),
            wait=tenacity.wait_exponential(multiplier=backoff_ms / 1_000),
            sleep=sleep,
            before_sleep=lambda _: self._count(),
            reraise=True,
        )
        self.retries = 0
        """How often a batch was tried again."""

    def execute(self, requests: Sequence[Request]) -> None:
        """Execute a batch, more than once if it must be.

        Raises: What the last attempt raised.
        """
        for attempt in self._retrying:
            with attempt:
                if attempt.retry_state.attempt_number > 1:
                    self._renew()
                self._executor.execute(requests)

    def _is_passing(self, error: BaseException) -> bool:
        return isinstance(error, StateUnavailable) and self._may_retry()

    def _count(self) -> None:
        self.retries += 1


def channel_of(where: Channel | StateExecutor) -> Channel:
    """A channel as it is; an executor, which has `execute` only, behind one that blocks."""
    return where if isinstance(where, Channel) else BlockingChannel(where)
