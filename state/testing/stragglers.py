"""Calls that stand still between their commands, and go on when they are let."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from state.testing.faults import FaultPlan, ProcessDied

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Straggler:
    """A call that runs on in its own thread, but only when it is let, so many commands at a time.

    Nothing runs at the same time: whoever lets it go on waits until it stands again or has ended.
    """

    def __init__(self, call: Callable[[FaultPlan], object]) -> None:
        self._may_go = threading.Semaphore(0)
        self._stands = threading.Semaphore(0)
        self._budget = 0
        self._is_abandoned = False
        self._plan = _Turnstile(self)
        self.error: BaseException | None = None
        """What it ended with."""
        self.has_ended = False
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()
        self._stands.acquire()

    def go_on(self, commands: int | None = None) -> None:
        """Let it carry out so many more commands; None lets it run to its end."""
        self._budget = 1_000_000 if commands is None else commands
        if self.has_ended or not self._budget:
            return
        self._may_go.release()
        self._stands.acquire()

    def abandon(self) -> None:
        """End it where it stands, as a process that is killed; what it has sent arrives."""
        self._is_abandoned = True
        if not self.has_ended:
            self._may_go.release()
        self._thread.join(timeout=30)
        self._plan.deliver()

    def may_pass(self, commands: int) -> bool:
        """Whether it may carry out so many commands without standing still in between."""
        return self._budget >= commands

    def wait_for_turn(self) -> None:
        """Called in its thread before each command."""
        if self._budget == 0:
            self._stands.release()
            self._may_go.acquire()
        if self._is_abandoned:
            raise ProcessDied
        self._budget -= 1

    def spend(self, commands: int) -> None:
        """It carries out so many commands."""
        self._budget -= commands

    def _run(self, call: Callable[[FaultPlan], object]) -> None:
        try:
            call(self._plan)
        except BaseException as error:  # reported: the test that let it run decides
            self.error = error
        self.has_ended = True
        self._stands.release()


class _Turnstile(FaultPlan):
    """A plan without faults that stops its thread before each command."""

    def __init__(self, straggler: Straggler) -> None:
        super().__init__()
        self._straggler = straggler

    def is_quiet(self, commands: int) -> bool:
        return self._straggler.may_pass(commands)

    def pass_quietly(self, commands: int, carry_out: Callable[[], T]) -> T:
        self._straggler.spend(commands)
        return super().pass_quietly(commands, carry_out)

    def step(self, carry_out: Callable[[], T]) -> T:
        self._straggler.wait_for_turn()
        return super().step(carry_out)
