"""Timers between an operator, its state and the controller.

Timers are registered synchronously: `register` returns at once, and what it registered is seen by
the next look, whoever holds which key. They fire through the controller, so that a timer of a key
waits for the records of that key before it, and those after it wait for the timer.

What is hard is their order within a key. Firing one may register or remove others of the same key,
also such as are due before those still to come, and between the two any number of requests may be
under way. So the controller does not carry timers but **turns**: one for each due timer, without
saying which. When a turn holds its key it fires the timer of that key that is due first at that
moment. What is still due when all turns are over gets another round, before the watermark moves on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Timer(NamedTuple):
    """A timer that fires."""

    time_ms: int
    key: bytes
    key_group: int
    namespace: bytes


class Turn(NamedTuple):
    """One due timer of a key, whichever is first when its turn comes."""

    key: bytes
    key_group: int


class TimerService(Protocol):
    """The timers of one domain, of all keys of a task.

    It is the plain noun of two parts: the timers of this epoch, in memory, and those of the epochs
    before, which whoever implements it has read by the time that `due` is called.
    """

    def register(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        """Have a timer; one that is registered twice is there once."""

    def remove(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        """Have it no more, if it was there."""

    def due(self, until_ms: int) -> Sequence[tuple[bytes, int]]:
        """Key and key group of every timer with `time_ms <= until_ms`, ordered by time, then key.

        A key comes once for each of its timers.
        """

    def take(self, key: bytes, key_group: int, until_ms: int) -> Timer | None:
        """Remove the first due timer of a key (by time, then namespace) and give it."""
