"""Connections and backends that fail exactly where a test says so.

A `FaultPlan` counts the commands that pass, over all connections that share it, and strikes at the
numbers it is given. A batch in which something happens is sent one command at a time, because a
server that dies, or a connection that breaks, may have carried out any beginning of it.

    plan = FaultPlan({7: Fault.REPLY_LOST})
    transport = FaultyTransport(RedisTransport(client), plan)

Of commands that are sent ahead it is not known when the server carries them out. A transport shows
the two extremes, `Ahead.AT_ONCE` and `Ahead.WHEN_AWAITED`; with the second one, what nobody waits
for is carried out all the same, later, as a dead process's bytes are. The wait is a moment of its
own, at which a plan may strike.
"""

from __future__ import annotations

import contextlib
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from state.backends.interface import EpochTransaction, Ledger, StateBackend
from state.errors import IncarnationChanged, StateError, StateUnavailable

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
    LATE = "late"
    """The connection breaks, and the caller is told; but it is on its way, with what was sent
    behind it, and the server carries it out some commands later."""


class ProcessDied(Exception):
    """The process that called is gone; nothing but its supervisor may catch this."""


class FaultPlan:
    """Counts commands and knows at which ones something happens."""

    def __init__(
        self, faults: Mapping[int, Fault] | None = None, *, late_by: int | None = None
    ) -> None:
        """Make one.

        Args:
            faults: By number of the command, from 1.
            late_by: So many commands later comes what is late; None: when `deliver` is called.
        """
        self._late_by = late_by
        self._late: dict[int, tuple[int | None, Callable[[], object]]] = {}
        """What is on its way, by when it was put off: before which command it comes, and it."""
        self.has_put_off = False
        """Whether anything was ever put off."""
        self.begin(faults or {})

    def begin(self, faults: Mapping[int, Fault]) -> None:
        """Count anew, with these faults and no visits."""
        self._faults = dict(faults)
        self._visits: dict[int, Callable[[], None]] = {}
        self.passed = 0
        """Commands so far, the one under way included."""
        self.is_counting = True

    def visit(self, number: int, visitor: Callable[[], None]) -> None:
        """Call somebody else before the command of this number."""
        self._visits[number] = visitor

    def put_off(self, carry_out: Callable[[], object]) -> int:
        """Let something happen later; what takes it back."""
        due = None if self._late_by is None else self.passed + self._late_by
        number = max(self._late, default=0) + 1
        self._late[number] = (due, carry_out)
        self.has_put_off = True
        return number

    def take_back(self, number: int) -> bool:
        """Let what was put off not happen; False if it has."""
        return self._late.pop(number, None) is not None

    def deliver(self) -> None:
        """Let everything that was put off happen now."""
        for number in sorted(self._late):
            self._arrive(number)

    def _arrive(self, number: int) -> None:
        _, carry_out = self._late.pop(number)
        with self.resting(), contextlib.suppress(StateError):  # nobody is there who would be told
            carry_out()

    @property
    def unspent(self) -> bool:
        """Whether something that was to happen has not happened."""
        return bool(self._faults or self._visits)

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Let commands pass uncounted, and unharmed."""
        was, self.is_counting = self.is_counting, False
        yield
        self.is_counting = was

    def is_quiet(self, commands: int) -> bool:
        """Whether nothing happens at the next so many commands."""
        if not self.is_counting:
            return True
        struck = (*self._faults, *self._visits, *(due or 0 for due, _ in self._late.values()))
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
            ArrivesLate: `LATE`; it is for the caller to put it off.
        """
        if not self.is_counting:
            return carry_out()
        self.passed += 1
        for number, (due, _) in sorted(self._late.items()):
            if due is not None and due <= self.passed:
                self._arrive(number)
        if visitor := self._visits.pop(self.passed, None):
            with self.resting():
                visitor()
        fault = self._faults.pop(self.passed, None)
        if fault is Fault.NOT_SENT:
            raise StateUnavailable("the connection broke, as planned")
        if fault is Fault.LATE:
            raise ArrivesLate("the connection broke, as planned")
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


class ArrivesLate(StateUnavailable):
    """A connection broke, and what was sent is on its way."""


class Ahead(Enum):
    """When a server carries out what is sent ahead."""

    AT_ONCE = "at once"
    WHEN_AWAITED = "when awaited"


class FaultyTransport:
    """A transport whose commands pass a plan one by one."""

    def __init__(self, inner: Transport, plan: FaultPlan, ahead: Ahead | None = None) -> None:
        """Make one; without `ahead` it sends nothing ahead."""
        self._inner = inner
        self._plan = plan
        self._ahead = ahead

    @property
    def incarnation(self) -> str:
        """The server's run id."""
        return self._inner.incarnation

    @property
    def place(self) -> tuple[str, int]:
        """The server's run id and the number of the database."""
        return self._inner.place

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

    def ahead(self) -> _FaultyAhead | None:
        """Commands ahead, over a connection that could break at each of them."""
        if self._ahead is None:
            return None
        return _FaultyAhead(self._inner, self._plan, is_slow=self._ahead is Ahead.WHEN_AWAITED)

    def close(self) -> None:
        """Close the inner one."""
        self._inner.close()

    def _one_by_one(self, commands: Sequence[Command]) -> list[Any]:
        return _stepwise(self._plan, self._inner, commands, [])


def _stepwise(
    plan: FaultPlan, inner: Transport, commands: Sequence[Command], replies: list[Any]
) -> list[Any]:
    """The replies, with those to these commands; as many as there are when a fault strikes."""
    for at, command in enumerate(commands):
        try:
            replies += plan.step(partial(inner.exchange, [command]))
        except ArrivesLate:
            plan.put_off(partial(inner.exchange, commands[at:]))
            raise
    return replies


class _FaultyAhead:
    """Commands ahead of their replies; see `state.backends.transport.Ahead`."""

    def __init__(self, inner: Transport, plan: FaultPlan, *, is_slow: bool) -> None:
        self._inner = inner
        self._plan = plan
        self._is_slow = is_slow
        self._is_broken = False
        self._replies: list[Any] = []
        self._under_way: list[tuple[int, Sequence[Command]]] = []
        """What a slow server has not carried out, and what takes it back from the plan."""

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands; a connection that breaks shows in `replies`."""
        if self._is_broken:
            return
        if not self._is_slow:
            self._carry_out(commands)
            return
        # Whatever becomes of who sent them, they arrive.
        number = self._plan.put_off(partial(self._inner.exchange, commands))
        self._under_way.append((number, commands))
        self._pass_moment()

    def replies(self) -> list[Any] | None:
        """All replies; None if the connection broke, or what was late came before the wait."""
        for number, commands in self._under_way:
            if self._plan.take_back(number) and not self._is_broken:
                self._carry_out(commands)
            else:
                self._is_broken = True
        self._pass_moment()
        return None if self._is_broken else self._replies

    def _carry_out(self, commands: Sequence[Command]) -> None:
        count = len(commands)
        if self._plan.is_quiet(count):
            whole = partial(self._inner.exchange, commands)
            self._guarded(lambda: self._replies.extend(self._plan.pass_quietly(count, whole)))
        else:
            self._guarded(lambda: _stepwise(self._plan, self._inner, commands, self._replies))

    def _pass_moment(self) -> None:
        """A moment at which no command is carried out; the connection may break at it."""
        self._guarded(lambda: self._plan.step(lambda: None))

    def _guarded(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (StateUnavailable, IncarnationChanged, BatchBroken):
            self._is_broken = True


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

    def require_run(self, stamp: EpochStamp) -> None:
        """See `Ledger.require_run`."""
        _passing(self._plan, lambda: self._inner.require_run(stamp))

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


def _passing(plan: FaultPlan, call: Callable[[], T]) -> T:
    """A call that passes as one command; what may be repeated is not known here."""
    try:
        return plan.step(call)
    except ArrivesLate:
        plan.put_off(call)
        raise
    except BatchBroken as broken:
        raise StateUnavailable("the reply is lost, as planned") from broken
