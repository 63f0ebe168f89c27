"""Stretches: the records between two non-records, and what happens when all of them are done.

A non-record (a watermark, a status, a marker) must not pass records that came before it, and what
it brings about (timers) must not come too early. Records that come after it need not wait for it.
FLIP-425 calls the records between two non-records an *epoch*. Here an epoch is a micro-batch of the
pipeline, which may hold many of these, so they have another word: **stretch**.

    OPEN       records join it
    CLOSED     its non-record has come; it waits until its records are done
    FINISHING  its trigger action runs (timers fire), until everything that this began is done
    FINISHED   its final action has run (the non-record was emitted)

Stretches finish strictly in the order in which they were closed. So the output of a record comes
before every non-record that the record precedes; it may come before one that it follows, which a
watermark allows.

Source: Flink `EpochManager` (FLIP-425). A trigger action is here called again until it begins
nothing more, because a timer may register one that is due as well.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

from state.errors import InvariantViolation, OperatorFailed

if TYPE_CHECKING:
    from collections.abc import Callable

    TriggerAction = Callable[[], int]
    """Advance time; returns how many records it began, and is called again until that is 0."""
    FinalAction = Callable[[], None]
    """Emit the non-record."""


class StretchPhase(Enum):
    """Where a stretch is between its first record and its non-record."""

    OPEN = "open"
    CLOSED = "closed"
    FINISHING = "finishing"
    FINISHED = "finished"


class StretchMode(Enum):
    """Whether records of different stretches may be in flight together; Flink's names."""

    SERIAL_BETWEEN_EPOCH = "serial"
    """A non-record waits at once until everything before it is done. Flink 2.3 always does this."""
    PARALLEL_BETWEEN_EPOCH = "parallel"
    """Later records go on; the non-record follows when its own stretch is done.

    Then a timer may fire after a later record of its key has run, and which of them it is depends
    on what came back when. Not for operators whose timers and records touch the same state."""


class Stretch:
    """The records between two non-records."""

    __slots__ = ("final_action", "number", "ongoing", "phase", "rounds", "trigger_action")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ongoing = 0
        """Records of it in flight."""
        self.phase = StretchPhase.OPEN
        self.rounds = 0
        """How often the trigger action was called."""
        self.trigger_action: TriggerAction | None = None
        self.final_action: FinalAction | None = None


class Stretches:
    """The stretch that records join, and those that wait to finish."""

    __slots__ = ("_closed", "_is_advancing", "_rounds_max", "_triggering", "active")

    def __init__(self, rounds_max: int) -> None:
        self._rounds_max = rounds_max
        self.active = Stretch(0)
        self._closed: deque[Stretch] = deque()
        self._triggering: Stretch | None = None
        self._is_advancing = False

    @property
    def closed_count(self) -> int:
        """How many non-records have come and were not emitted."""
        return len(self._closed)

    @property
    def joined(self) -> Stretch:
        """The stretch of a record that begins now: inside a trigger action, the finishing one."""
        return self._triggering or self.active

    @property
    def can_advance(self) -> bool:
        """Whether the oldest closed stretch has no record in flight."""
        return bool(self._closed) and not self._is_advancing and not self._closed[0].ongoing

    def leave(self, stretch: Stretch) -> None:
        """Count a record of a stretch as done.

        Raises:
            InvariantViolation: It has none in flight.
        """
        if stretch.ongoing < 1:
            raise InvariantViolation(f"stretch {stretch.number} completes a record it has not")
        stretch.ongoing -= 1

    def close(self, trigger_action: TriggerAction | None, final_action: FinalAction) -> None:
        """End the active stretch with its non-record, and open the next."""
        ended = self.active
        ended.phase = StretchPhase.CLOSED
        ended.trigger_action = trigger_action
        ended.final_action = final_action
        self._closed.append(ended)
        self.active = Stretch(ended.number + 1)

    def advance(self) -> None:
        """Finish, oldest first, every closed stretch that has no record in flight.

        Raises:
            OperatorFailed: Timers go on registering timers that are due at once.
        """
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._closed and not self._closed[0].ongoing:
                self._advance(self._closed[0])
        finally:
            self._is_advancing = False

    def _advance(self, stretch: Stretch) -> None:
        stretch.phase = StretchPhase.FINISHING
        if stretch.trigger_action is not None and self._trigger(stretch, stretch.trigger_action):
            return
        stretch.phase = StretchPhase.FINISHED
        self._closed.popleft()
        assert stretch.final_action is not None  # set by close
        stretch.final_action()

    def _trigger(self, stretch: Stretch, action: TriggerAction) -> int:
        if stretch.rounds >= self._rounds_max:
            raise OperatorFailed(
                f"timers were still due after {stretch.rounds} rounds before a non-record",
                hint="a timer registers another one that is due, again and again",
            )
        stretch.rounds += 1
        self._triggering = stretch
        try:
            return action()
        finally:
            self._triggering = None
