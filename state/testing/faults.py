"""Connections and backends that fail exactly where a test says so.

A `FaultPlan` counts the commands that pass, over all connections that share it, and strikes at the
numbers it is given. A batch in which something happens is sent one command at a time, because a
server that dies, or a connection that breaks, may have carried out any beginning of it.

    plan = FaultPlan({7: Fault.REPLY_LOST})
    transport = FaultyTransport(RedisTransport(client), plan)
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from state.backends.interface import EpochTransaction, Ledger, StateBackend
from state.errors import StateUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from state.backends.interface import (
        Effect,
        EpochCheck,
        EpochStamp,
        Marker,
        Read,
        StateVersion,
        TransactionStatistics,
        Write,
    )
    from state.backends.transport import Command, Transport

T = TypeVar("T")


class Fault(Enum):
    """What happens at a command."""

    NOT_SENT = "not sent"
    """The connection breaks before it; the caller is told."""
    REPLY_LOST = "reply lost"
    """It is carried out, then the connection breaks; the caller is told the same."""
    DEATH = "death"
    """It is carried out, and the calling process ends before it does anything else."""
    REPEATED = "repeated"
    """Its reply is lost, and the transport sends a repeatable batch again, unseen by the caller."""


class ProcessDied(Exception):
    """The process that called is gone; nothing but its supervisor may catch this."""


class FaultPlan:
    """Counts commands and knows at which ones something happens."""

    def __init__(self, faults: Mapping[int, Fault] | None = None) -> None:
        self._faults = dict(faults or {})
        self._lock = threading.RLock()
        self._visits: dict[int, Callable[[], None]] = {}
        self.passed = 0
        """Commands so far, the one under way included."""
        self.is_counting = True

    def visit(self, number: int, visitor: Callable[[], None]) -> None:
        """Call somebody else before the command of this number."""
        self._visits[number] = visitor

    @property
    def unspent(self) -> bool:
        """Whether something that was to happen has not happened."""
        return bool(self._faults or self._visits)

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let commands pass uncounted, and unharmed."""
        was, self.is_counting = self.is_counting, False
        yield
        self.is_counting = was

    def is_quiet(self, commands: int) -> bool:
        """Whether nothing happens at the next so many commands."""
        if not self.is_counting:
            return True
        struck = (*self._faults, *self._visits)
        return not any(self.passed < each <= self.passed + commands for each in struck)

    def pass_quietly(self, commands: int, carry_out: Callable[[], T]) -> T:
        """Let so many commands pass at once."""
        if self.is_counting:
            self.passed += commands
        return carry_out()

    def step(self, carry_out: Callable[[], T]) -> T:
        """Let one command pass, or not.

        Raises:
            StateUnavailable: `NOT_SENT` or `REPLY_LOST`.
            ProcessDied: `DEATH`.
            BatchBroken: `REPEATED`.
        """
        if not self.is_counting:
            return carry_out()
        self.passed += 1
        if visitor := self._visits.pop(self.passed, None):
            with self.resting():
                visitor()
        fault = self._faults.pop(self.passed, None)
        if fault is Fault.NOT_SENT:
            raise StateUnavailable("the connection broke, as planned")
        result = carry_out()
        if fault is Fault.REPLY_LOST:
            raise StateUnavailable("the reply is lost, as planned")
        if fault is Fault.DEATH:
            raise ProcessDied
        if fault is Fault.REPEATED:
            raise BatchBroken
        return result


class BatchBroken(Exception):
    """A batch broke off in a way that its transport may hide by repeating it."""


class FaultyTransport:
    """A transport whose commands pass a plan one by one."""

    def __init__(self, inner: Transport, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    @property
    def incarnation(self) -> str:
        """The server's run id."""
        return self._inner.incarnation

    def exchange(self, commands: Sequence[Command], *, is_repeatable: bool = False) -> list[Any]:
        """Send commands; see `Transport.exchange`."""
        count = len(commands)
        if self._plan.is_quiet(count):
            whole = partial(self._inner.exchange, commands, is_repeatable=is_repeatable)
            return self._plan.pass_quietly(count, whole)
        try:
            return self._one_by_one(commands)
        except BatchBroken as broken:
            if is_repeatable:
                return self._one_by_one(commands)
            raise StateUnavailable("the reply is lost, as planned") from broken

    def ahead(self) -> None:
        """None: each command passes the plan when its reply is wanted, one way or another."""

    def close(self) -> None:
        """Close the inner one."""
        self._inner.close()

    def _one_by_one(self, commands: Sequence[Command]) -> list[Any]:
        def send(command: Command) -> Any:
            return self._inner.exchange([command])[0]

        return [self._plan.step(partial(send, each)) for each in commands]


class FaultyBackend(StateBackend):
    """A backend whose calls pass a plan; for backends without commands."""

    def __init__(self, inner: StateBackend, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    def begin(self, node: str, stamp: EpochStamp, key_groups: Sequence[int]) -> EpochTransaction:
        """Begin; no call yet."""
        return _FaultyTransaction(self._inner.begin(node, stamp, key_groups), self._plan)

    def close(self) -> None:
        """Close the inner one."""
        self._inner.close()


class _FaultyTransaction(EpochTransaction):
    def __init__(self, inner: EpochTransaction, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    def fetch(self, reads: Sequence[Read]) -> list[Any]:
        return _passing(self._plan, lambda: self._inner.fetch(reads))

    def commit(self, writes: Mapping[int, Sequence[Write]]) -> None:
        _passing(self._plan, lambda: self._inner.commit(writes))

    def version_read(self, key_group: int) -> StateVersion | None:
        return _passing(self._plan, lambda: self._inner.version_read(key_group))

    def version_written(self, key_group: int) -> StateVersion | None:
        return self._inner.version_written(key_group)

    def statistics(self) -> TransactionStatistics:
        return self._inner.statistics()


class FaultyLedger(Ledger):
    """A ledger whose calls pass a plan."""

    def __init__(self, inner: Ledger, plan: FaultPlan) -> None:
        self._inner = inner
        self._plan = plan

    def open_run(self, nodes: Sequence[str], max_parallelism: int) -> int:
        """See `Ledger.open_run`."""
        return _passing(self._plan, lambda: self._inner.open_run(nodes, max_parallelism))

    def marker(self) -> Marker:
        """See `Ledger.marker`."""
        return _passing(self._plan, self._inner.marker)

    def check(self, epoch: int) -> EpochCheck:
        """See `Ledger.check`."""
        return _passing(self._plan, lambda: self._inner.check(epoch))

    def stage(self, name: bytes | str, writes: Sequence[Write]) -> int:
        """See `Ledger.stage`."""
        return _passing(self._plan, lambda: self._inner.stage(name, writes))

    def close_epoch(
        self, stamp: EpochStamp, offsets: Mapping[str, Any], effects: Sequence[Effect]
    ) -> bool:
        """See `Ledger.close_epoch`."""
        return _passing(self._plan, lambda: self._inner.close_epoch(stamp, offsets, effects))

    def promote_all(self, nodes: Sequence[str], max_parallelism: int) -> None:
        """See `Ledger.promote_all`."""
        _passing(self._plan, lambda: self._inner.promote_all(nodes, max_parallelism))

    def registered(self) -> dict[bytes, bytes]:
        """See `Ledger.registered`."""
        return _passing(self._plan, self._inner.registered)

    def register(self, entries: Mapping[bytes, bytes]) -> None:
        """See `Ledger.register`."""
        _passing(self._plan, lambda: self._inner.register(entries))

    def add_registered(self, field: bytes, by: int) -> int:
        """See `Ledger.add_registered`."""
        return _passing(self._plan, lambda: self._inner.add_registered(field, by))

    def drop(self) -> None:
        """See `Ledger.drop`."""
        _passing(self._plan, self._inner.drop)


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
        """End it where it stands, as a process that is killed."""
        self._is_abandoned = True
        if not self.has_ended:
            self._may_go.release()
        self._thread.join(timeout=30)

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
        except BaseException as error:
            # Reported, whatever it is: the test that let it run decides what may be.
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
        self.passed += 1
        return carry_out()


def _passing(plan: FaultPlan, call: Callable[[], T]) -> T:
    """A call that passes as one command; what may be repeated is not known here."""
    try:
        return plan.step(call)
    except BatchBroken as broken:
        raise StateUnavailable("the reply is lost, as planned") from broken
