"""A Hypothesis machine that holds timers to a set: on any backend, wherever epochs end or are lost.

Whenever an epoch has been closed, all that is stored is read past the handle and must be the set.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from state.backends.interface import SortedRange
from state.descriptors import TimersDescriptor
from state.execution.timers import Timer
from state.testing.sessions import SessionStand
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from state.testing.stand import Stand

TIMERS = TimersDescriptor(name="event_timers")
KEY_GROUPS = range(2)
HORIZON = 12
"""Epochs read timers up to some time; no timer is later than this."""
KEYS = st.sampled_from([b'["a"]', b'["b"]', b'["c"]'])
TIMES = st.integers(0, HORIZON)
NAMESPACES = st.sampled_from([b"", b"[1]"])
EVER = float("inf")


def group_of(key: bytes) -> int:
    """The key group of a key."""
    return key[2] % len(KEY_GROUPS)


class TimersMachine(RuleBasedStateMachine):
    """The handle against a set of time, key and namespace, on the stand that a subclass opens."""

    open_stand: Callable[[], AbstractContextManager[Stand]]

    @initialize(until_ms=TIMES)
    def begin(self, until_ms: int) -> None:
        """Begin with no timers."""
        self.closing = ExitStack()
        self.sessions = SessionStand(
            self.closing.enter_context(type(self).open_stand()), key_groups=KEY_GROUPS
        )
        self.model: set[tuple[int, bytes, bytes]] = set()
        self.closed = set(self.model)
        self.begin_epoch(until_ms)

    def begin_epoch(self, until_ms: int) -> None:
        """Begin an epoch that knows the timers up to a time."""
        self.until_ms = until_ms
        self.session = self.sessions.begin(TtlClock(0))
        self.timers = self.session.timers(TIMERS)
        self.timers.load(KEY_GROUPS, until_ms)

    @rule(key=KEYS, time_ms=TIMES, namespace=NAMESPACES)
    def register(self, key: bytes, time_ms: int, namespace: bytes) -> None:
        """Fire at a time; again is the same."""
        self.timers.register(key, group_of(key), time_ms, namespace)
        self.model.add((time_ms, key, namespace))
        self.agree()

    @rule(key=KEYS, time_ms=TIMES, namespace=NAMESPACES)
    def remove(self, key: bytes, time_ms: int, namespace: bytes) -> None:
        """Do not fire, be there such a timer or not."""
        self.timers.remove(key, group_of(key), time_ms, namespace)
        self.model.discard((time_ms, key, namespace))
        self.agree()

    @rule(key=KEYS, time_ms=TIMES)
    def take(self, key: bytes, time_ms: int) -> None:
        """Fire what is due of a key, by time and then namespace."""
        time_ms = min(time_ms, self.until_ms)
        mine = sorted((t, n) for t, k, n in self.model if k == key and t <= time_ms)
        taken = self.timers.take(key, group_of(key), time_ms)
        if not mine:
            assert taken is None
            return
        assert taken == Timer(mine[0][0], key, group_of(key), mine[0][1])
        self.model.discard((mine[0][0], key, mine[0][1]))
        self.agree()

    @rule(until_ms=TIMES)
    def close_epoch(self, until_ms: int) -> None:
        """Commit and close; what is stored is the set, in its own key groups."""
        self.sessions.end(self.session)
        self.closed = set(self.model)
        self.check_stored()
        self.begin_epoch(until_ms)

    @rule(until_ms=TIMES, commits=st.booleans())
    def lose_epoch(self, until_ms: int, commits: bool) -> None:
        """It was not closed: another run begins with what is."""
        if commits:
            self.sessions.commit_only(self.session.writes())
        self.sessions.reopen()
        self.model = set(self.closed)
        self.begin_epoch(until_ms)

    def agree(self) -> None:
        """What is due is what the set says, by time and then key."""
        due = sorted((t, k) for t, k, _ in self.model if t <= self.until_ms)
        assert self.timers.due(self.until_ms) == [(k, group_of(k)) for _, k in due]

    def check_stored(self) -> None:
        """Each timer is a member of its key group, and nothing else is there."""
        state = TIMERS.name.encode()
        reads = [SortedRange(each, state, -EVER, EVER) for each in KEY_GROUPS]
        for key_group, members in zip(KEY_GROUPS, self.sessions.fetch(*reads), strict=True):
            mine = [each for each in self.model if group_of(each[1]) == key_group]
            assert sorted(score for _, score in members) == sorted(time for time, _, _ in mine)
            assert len({member for member, _ in members}) == len(mine)
        used = {group_of(key) for _, key, _ in self.model}
        assert self.sessions.names() == [state] * len(used)

    def teardown(self) -> None:
        """Fire everything, and see that nothing is left."""
        if not hasattr(self, "sessions"):
            return
        with self.closing:
            self.close_epoch(HORIZON)
            for _, key, _ in sorted(self.model):
                assert self.timers.take(key, group_of(key), HORIZON) is not None
            self.model.clear()
            self.close_epoch(HORIZON)
            assert self.sessions.names() == []
