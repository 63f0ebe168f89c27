"""Epochs of one sorted map whose operations run at once, for tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from state.backends.heap import HeapBackend
from state.backends.interface import HashGet, HashPut
from state.execution.sync import run_now
from state.registry import register_states
from state.testing.sessions import SessionStand
from state.testing.stand import NODE
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.backends.interface import Read
    from state.descriptors import SortedMapDescriptor
    from state.primitives.session import StateSession
    from state.testing.stand import Stand

KEY = b'["k"]'
GROUP = 1
KEY_GROUPS = range(4)


class Now:
    """A handle whose operations run at once."""

    def __init__(self, handle: object, session: StateSession) -> None:
        self._handle = handle
        self.session = session

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operation = getattr(self._handle, name)
        return lambda *args, **options: run_now(operation(*args, **options), self.session)


class Epochs:
    """A pipeline whose epochs each open one sorted map."""

    def __init__(self, stand: Stand) -> None:
        """Open a run."""
        is_local = isinstance(stand.backend, HeapBackend)
        self._stand = SessionStand(stand, key_groups=KEY_GROUPS, is_local=is_local)
        self.session: StateSession
        self.state: Now

    def begin(self, descriptor: SortedMapDescriptor[Any, Any], at_ms: int = 0) -> Now:
        """Begin an epoch with the current key set; its session and handle are attributes."""
        self.session = self._stand.begin(TtlClock(at_ms, at_ms))
        self.state = Now(self.session.sorted_map(descriptor), self.session)
        self.session.set_key(KEY, GROUP)
        return self.state

    def end(self) -> None:
        """Clean up, commit and close."""
        self.session.clean_up(KEY_GROUPS)
        assert self.session.writes() == self.session.writes()
        self._stand.end(self.session)

    def register(
        self, descriptor: SortedMapDescriptor[Any, Any], at_ms: int
    ) -> list[SortedMapDescriptor[Any, Any]]:
        """What is known of a state's past, for a run that begins at this time."""
        clock = TtlClock(at_ms, at_ms)
        return register_states(self._stand.stand.ledger, NODE, [descriptor], clock)

    def lose(self) -> None:
        """Commit the epoch, and begin another run without closing it."""
        self._stand.commit_only(self.session.writes())
        self._stand.reopen()

    @contextmanager
    def epoch(self, descriptor: SortedMapDescriptor[Any, Any], at_ms: int = 0) -> Iterator[Now]:
        """A whole epoch."""
        yield self.begin(descriptor, at_ms)
        self.end()

    def read(self, *reads: Read) -> list[Any]:
        """Committed state."""
        return self._stand.fetch(*reads)

    def text(self, descriptor: SortedMapDescriptor[Any, Any]) -> Any:
        """The stored text of the key."""
        return self.read(HashGet(GROUP, descriptor.name.encode(), [KEY]))[0][0]

    def stored(self) -> set[bytes]:
        """Names of all that is stored, in all key groups."""
        return {*self._stand.names()}

    def write(self, name: bytes, value: bytes) -> None:
        """Store a field for the key past the handles, as an epoch of its own."""
        self._stand.begin(TtlClock(0))
        self._stand.commit({GROUP: [HashPut(name, [KEY, value])]})
