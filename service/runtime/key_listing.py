"""The keys of an operator, or of one of its states: a page at a time, whatever the states are.

Keys are told apart with their namespaces. A key that several states have is listed once, with the
first of them: what is found in a later state is looked up in those before it.

Cost: round trips in proportion to the page, never to the state; but timers are ordered by time, so
those of a key group are read at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

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
        prefix: str,
        start: tuple[int, int, str] | None,
        limit: int,
    ) -> Part[ShownKey]:
        """A page of keys, by key group and state.

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
            room = limit - len(found)
            found += left[:room]
            if len(left) > room:
                # The same scan again, behind the last key taken: its cursor stays good.
                behind = left[room - 1].stored.decode() if room else last
                return self._part(found, (place, cursor, behind), view.epoch)
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
        """The next cursor, and keys of a place that no state before it has."""
        group, number = divmod(place, len(states))
        name, kind = states[number]
        if kind == HISTORY:
            return list_keys(view, group, cursor=cursor, prefix=prefix, count=_SCAN_COUNT)
        after, page = list_state_keys(
            view, name, group, kind=kind, cursor=cursor, prefix=prefix, count=_SCAN_COUNT
        )
        earlier = [each.name for each in states[:number]]
        if not (page and earlier):
            return after, page
        stored = [each.stored for each in page]
        held = view.fetch([HashGet(group, each, stored) for each in earlier])
        in_any = [any(each is not None for each in values) for values in zip(*held, strict=True)]
        return after, [each for each, is_in in zip(page, in_any, strict=True) if not is_in]

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
