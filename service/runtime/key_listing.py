"""The keys of an operator, or of one of its states: a page at a time, whatever the states are.

Keys are told apart with their namespaces. A key that several states have is listed once, with the
first of them in which it is not past its life: what is found in a later state is looked up in those
before it.

Cost: round trips in proportion to the page, never to the state, and one or some for each key that
is looked at in a state with a TTL; but timers are ordered by time, so those of a key group are read
at once. Counts are of what is stored, past its life or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from state.backends.interface import HashGet
from state.multiset.history import list_keys
from state.primitives.listing import count_of, list_state_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.key_text import KeyText
    from state.backends.interface import StateView
    from state.multiset.history import KeySummary

SCANS_MAX = 64
"""Scan calls for one page of keys; a page may be short, or empty, where a prefix is rare."""
HISTORY = "history"
"""The kind of state that an upsert materializer keeps."""
TIMERS = "timers"
_SCAN_COUNT = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A page of something: items, where the next page starts (None: nowhere), and the epoch."""

    items: tuple[T, ...]
    position: tuple[Any, ...] | None
    epoch: int


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key that has something in state."""

    key: list[Any]
    namespace: str
    """"" where the operator uses none."""
    layout: str
    entries: int
    """In state: some may be past their time."""


class ListedState(NamedTuple):
    """A state whose keys are listed."""

    name: bytes
    kind: str


class Lives(Protocol):
    """Tells whether anything that a key has in a state is not past its life."""

    def __call__(
        self, view: StateView, key_group: int, state: ListedState, stored_key: bytes, /
    ) -> bool:
        """Of a key by what it is stored under; False where the state has nothing of it."""


class KeyLister:
    """Lists keys of one operator.

    Args:
        keys: How they are written.
        max_parallelism: Key groups of the pipeline.
    """

    def __init__(self, keys: KeyText, max_parallelism: int) -> None:
        self._keys = keys
        self._key_groups = range(max_parallelism)

    def counts(self, view: StateView, states: Sequence[ListedState]) -> list[int]:
        """How many keys, with their namespaces, each state has; of timers, how many there are."""
        replies = view.fetch([read for each in states for read in self._count(each)])
        width = len(self._key_groups)
        return [sum(replies[at * width : (at + 1) * width]) for at in range(len(states))]

    def page(
        self,
        view: StateView,
        states: Sequence[ListedState],
        lives: Lives,
        prefix: str,
        start: tuple[int, int, str] | None,
        limit: int,
    ) -> Part[ShownKey]:
        """A page of keys that live, by key group and state.

        A position is key group and state as one number, scan cursor, and last key taken. A key
        that is there all the time is listed at least once; while state grows or shrinks, one may
        be listed twice.
        """
        begins_with = self._keys.prefix(prefix) if prefix else b""
        sizes = self._sizes(view, states)
        place, cursor, last = start or (0, 0, "")
        found: list[KeySummary] = []
        for _ in range(SCANS_MAX):
            while place < len(sizes) and not sizes[place]:
                place, cursor, last = place + 1, 0, ""
            if place >= len(sizes):
                return self._part(found, None, view.epoch)
            after, page = self._scanned(view, states, place, cursor, begins_with)
            left = sorted((each for each in page if each.stored > last.encode()), key=_stored)
            while left:
                room = limit - len(found)
                if not room:
                    # The same scan again, behind the last key looked at: its cursor stays good.
                    return self._part(found, (place, cursor, last), view.epoch)
                looked, left = left[:room], left[room:]
                found += self._living(view, states, lives, place, looked)
                last = looked[-1].stored.decode()
            place, cursor, last = (place, after, "") if after else (place + 1, 0, "")
        return self._part(found, (place, cursor, last), view.epoch)

    def _count(self, state: ListedState) -> Sequence[Any]:
        return count_of(state.name, state.kind, self._key_groups)

    def _sizes(self, view: StateView, states: Sequence[ListedState]) -> list[int]:
        """How much there is at each place: by key group, and by state in each."""
        by_state = [self._count(each) for each in states]
        return view.fetch([each for of_group in zip(*by_state, strict=True) for each in of_group])

    def _scanned(
        self,
        view: StateView,
        states: Sequence[ListedState],
        place: int,
        cursor: int,
        prefix: bytes,
    ) -> tuple[int, list[KeySummary]]:
        """The next cursor, and keys of a place."""
        group, number = divmod(place, len(states))
        name, kind = states[number]
        if kind == HISTORY:
            return list_keys(view, group, cursor=cursor, prefix=prefix, count=_SCAN_COUNT)
        return list_state_keys(
            view, name, group, kind=kind, cursor=cursor, prefix=prefix, count=_SCAN_COUNT
        )

    def _living(
        self,
        view: StateView,
        states: Sequence[ListedState],
        lives: Lives,
        place: int,
        keys: Sequence[KeySummary],
    ) -> list[KeySummary]:
        """Those of a place's keys that live there, and in no state before it."""
        group, number = divmod(place, len(states))
        stored = [each.stored for each in keys]
        held = view.fetch([HashGet(group, each.name, stored) for each in states[:number]])
        living = []
        for at, each in enumerate(keys):
            earlier = (
                state
                for state, texts in zip(states[:number], held, strict=True)
                if texts[at] is not None
            )
            if lives(view, group, states[number], each.stored) and not any(
                lives(view, group, state, each.stored) for state in earlier
            ):
                living.append(each)
        return living

    def _part(
        self, found: Sequence[KeySummary], position: tuple[int, int, str] | None, epoch: int
    ) -> Part[ShownKey]:
        values = self._keys.shown.values
        shown = (
            ShownKey(values(each.key), each.namespace.decode(), each.layout, each.size)
            for each in found
        )
        return Part(tuple(shown), position, epoch)


def _stored(key: KeySummary) -> bytes:
    return key.stored
