"""How requests leave the controller and come back.

The controller sends contexts in batches and is given them back, in any order and at any time, once
their requests are executed: a `Channel`. State is read by a `StateExecutor`, which is done when it
returns; `BlockingChannel` makes a channel of one.

What is tried again when a backend does not answer is settled below, where it is known what may be
repeated: reads, within limits (`state.backends.transport`), and nothing any more once the epoch's
writes were sent. What comes up here fails the epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.execution.record_context import RecordContext
    from state.execution.requests import StateExecutor


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


def channel_of(where: Channel | StateExecutor) -> Channel:
    """A channel as it is; an executor, which has `execute` only, behind one that blocks."""
    return where if isinstance(where, Channel) else BlockingChannel(where)
