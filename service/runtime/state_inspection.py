"""Looking into the registered states of an operator, whatever it is.

Histories of rows have resources of their own (`runtime.inspection`); here is what any primitive
keeps, as `state.primitives.inspection` reads it. Where the plan's operator still has the state in
the form that is stored, its codecs say how values are shown: rows by their columns, and so on.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.runtime.event_time import watermark
from service.runtime.inspection_errors import KeyExpired, KeyNotFound, StateNotFound
from service.runtime.key_listing import HISTORY, TIMERS, KeyLister, ListedState
from service.runtime.what_if import KeyWhatIf, of_pages
from state.errors import ViewMoved
from state.key_groups import key_group
from state.primitives.cells import stored_key
from state.primitives.inspection import Expired, Form, StateContent, read_state
from state.registry import registered_states, with_ttl
from state.ttl import TIME_MIN, TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.runtime.event_time import Assigners
    from service.runtime.key_listing import Part, ShownKey
    from service.runtime.key_text import KeyText
    from service.runtime.table_reader import SlotReader
    from service.runtime.what_if import StateWhatIf
    from state.backends.interface import StateView
    from state.descriptors import StateDescriptor
    from state.reader import CommittedReader
    from state.registry import RegisteredState


@dataclass(frozen=True, slots=True)
class ShownState:
    """What a key has in a state."""

    epoch: int
    key: list[Any]
    state: RegisteredState
    content: StateContent


@dataclass(frozen=True, slots=True)
class ShownKeyStates:
    """What a key has in each state that has anything of it."""

    epoch: int
    key: list[Any]
    states: tuple[tuple[RegisteredState, StateContent], ...]


class StateInspector:
    """Looks into the states of one operator.

    Args:
        reader: Reads the pipeline's committed state.
        registry: Knows what the pipeline has registered.
        node: The operator's id.
        keys: How its keys are written.
        max_parallelism: Key groups of the pipeline.
        descriptors: The states that the operator has by its plan.
        extension_ms: By how much lives were extended before the run.
        assigners: Where the operator's event time comes from.
        clock: The time in ms since 1970.
    """

    def __init__(
        self,
        reader: CommittedReader,
        registry: SlotReader,
        node: str,
        keys: KeyText,
        max_parallelism: int,
        *,
        descriptors: Sequence[StateDescriptor] = (),
        extension_ms: int = 0,
        assigners: Assigners = (),
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader = reader
        self._registry = registry
        self._node = node
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._lister = KeyLister(keys, max_parallelism)
        self._descriptors = {each.name: each for each in descriptors}
        self._extension_ms = extension_ms
        self._assigners = assigners
        self._clock = clock

    def states(self) -> list[RegisteredState]:
        """The states of the operator: those of its plan in their order, then others by name."""
        order = {name: at for at, name in enumerate(self._descriptors)}
        mine = [each for each in registered_states(self._registry) if each.node == self._node]
        return sorted(mine, key=lambda each: (order.get(each.name, len(order)), each.name))

    def counted(self) -> list[tuple[RegisteredState, int]]:
        """The states, each with its number of keys and namespaces; of timers how many there are."""
        states = self.states()
        listed = [_listed(each) for each in states]
        counts = self._reader.consistently(
            self._node, lambda view: self._lister.counts(view, listed)
        )
        return list(zip(states, counts, strict=True))

    def is_history(self, name: str) -> bool:
        """Whether a state is an upsert materializer's, whose keys `OperatorInspector` lists.

        Raises:
            StateNotFound: the operator has no such state.
        """
        return self._state(name).kind == HISTORY

    def list_keys(
        self, name: str | None, prefix: str, start: tuple[int, int, str] | None, limit: int
    ) -> Part[ShownKey]:
        """A page of the keys of a state, or of any state but timers; see `KeyLister.page`.

        Raises:
            StateNotFound: the operator has no such state, or its keys are read elsewhere.
        """
        if name is None:
            planned = [each for each in self.states() if each.name in self._descriptors]
            states = [each for each in planned if each.kind != TIMERS] or planned
        else:
            states = [self._state(name)]
        by_name = {each.name.encode(): each for each in states}

        def look(view: StateView) -> Part[ShownKey]:
            clock = self._ttl_clock(view)

            def lives(view: StateView, group: int, listed: ListedState, stored: bytes) -> bool:
                state = by_name[listed.name]
                if state.kind == TIMERS or not state.ttl.is_enabled:
                    return True
                found = read_state(view, state, group, stored, clock=clock, limit=1)
                return isinstance(found, StateContent)

            listed = [_listed(each) for each in states]
            return self._lister.page(view, listed, lives, prefix, start, limit)

        return self._reader.consistently(self._node, look)

    def read(
        self, name: str, key: Sequence[Any], *, namespace: str, after: str, limit: int
    ) -> ShownState:
        """A page of what a key has in a state.

        Raises:
            StateNotFound: the operator has no such state, or its keys are read elsewhere.
            KeyNotFound: there is nothing of the key.
            KeyExpired: there is, and all of it is past its life.
        """
        state = self._state(name)
        if state.kind == HISTORY:
            raise StateNotFound("this state is a history of rows", hint="read it at .../keys/{key}")
        canonical = self._keys.codec.encode(key)

        def look(view: StateView) -> ShownState:
            clock = self._ttl_clock(view)
            found = self._read(view, clock, state, key, namespace, after, limit)
            if found is None:
                raise KeyNotFound(f"the key has nothing in this state in epoch {view.epoch}")
            if isinstance(found, Expired):
                raise KeyExpired(f"all {found.size} elements of the key have expired")
            return ShownState(view.epoch, self._keys.shown.values(canonical), state, found)

        return self._reader.consistently(self._node, look)

    def read_all(self, key: Sequence[Any], *, namespace: str, limit: int) -> ShownKeyStates:
        """What a key has in all states: the first elements of each.

        Timers are those of the key in any namespace.

        Raises:
            KeyNotFound: there is nothing of the key.
            KeyExpired: there is, and all of it is past its life.
        """
        states = [each for each in self.states() if each.kind != HISTORY]
        canonical = self._keys.codec.encode(key)

        def look(view: StateView) -> ShownKeyStates:
            clock = self._ttl_clock(view)
            contents = [
                (state, self._read(view, clock, state, key, namespace, "", limit))
                for state in states
            ]
            live = [(state, each) for state, each in contents if isinstance(each, StateContent)]
            expired = [each for _, each in contents if isinstance(each, Expired)]
            if expired and not live:
                count = sum(each.size for each in expired)
                raise KeyExpired(f"all {count} elements of the key have expired")
            if not live:
                raise KeyNotFound(f"the key has nothing in any state in epoch {view.epoch}")
            return ShownKeyStates(view.epoch, self._keys.shown.values(canonical), tuple(live))

        return self._reader.consistently(self._node, look)

    def compare(
        self,
        key: Sequence[Any],
        others: Sequence[StateDescriptor],
        *,
        namespace: str,
        limit: int,
    ) -> KeyWhatIf:
        """What a key has in each state now, and what that would be with other times to live.

        Args:
            key: The key's values.
            others: The operator's states as they would be.
            namespace: Of the key, where the operator uses any.
            limit: Elements of each state to look at.

        Raises:
            KeyNotFound: there is nothing of the key.
            KeyExpired: there is, and all of it is past its life, with either.
        """
        then = {each.name: each.ttl for each in others}
        now = [
            each
            for each in self.states()
            if each.name in then and each.kind not in (HISTORY, TIMERS)
        ]

        def look(view: StateView) -> KeyWhatIf:
            # One time for both, or an element could be past it with the longer time to live alone.
            clock = self._ttl_clock(view)
            pairs = [(each, with_ttl(each, then[each.name], clock)) for each in now]
            states: list[StateWhatIf] = []
            for both in pairs:
                pages = [self._read(view, clock, each, key, namespace, "", limit) for each in both]
                if pages[0] is not None:
                    ttls = (_ttl_ms(both[0]), _ttl_ms(both[1]))
                    found = (_shown(pages[0]), _shown(pages[1]))
                    states.append(of_pages(both[0].name, both[0].kind, ttls, found))
            if not states:
                raise KeyNotFound(f"the key has nothing in any state in epoch {view.epoch}")
            if not any(each.elements for each in states):
                raise KeyExpired("all elements of the key have expired, with either TTL")
            values = self._keys.shown.values(self._keys.codec.encode(key))
            return KeyWhatIf(view.epoch, values, tuple(states))

        return self._reader.consistently(self._node, look)

    def _ttl_clock(self, view: StateView) -> TtlClock:
        """The times that tell what is past its life in the epoch of a view.

        Raises:
            ViewMoved: Another epoch was closed, whose watermark is not this one's.
        """
        reached_ms = TIME_MIN
        if self._assigners:
            epoch, offsets = self._registry.marker_text()
            if epoch != view.epoch:
                raise ViewMoved("an epoch was closed meanwhile")
            reached_ms = watermark(offsets, self._assigners)
        return TtlClock(self._clock(), reached_ms, self._extension_ms)

    def _state(self, name: str) -> RegisteredState:
        state = next((each for each in self.states() if each.name == name), None)
        if state is None:
            raise StateNotFound("the operator has registered no state of this name")
        return state

    def _read(
        self,
        view: StateView,
        clock: TtlClock,
        state: RegisteredState,
        key: Sequence[Any],
        namespace: str,
        after: str,
        limit: int,
    ) -> StateContent | Expired | None:
        # Timers lie under the key alone, and name their namespaces themselves.
        space = b"" if state.kind == TIMERS else namespace.encode()
        return read_state(
            view,
            state,
            key_group(self._keys.codec.types, key, self._max_parallelism),
            stored_key(self._keys.codec.encode(key), space),
            clock=clock,
            form=Form.of(self._descriptors.get(state.name), state),
            after=after,
            limit=limit,
        )


def _listed(state: RegisteredState) -> ListedState:
    return ListedState(state.name.encode(), state.kind)


def _shown(found: StateContent | Expired | None) -> StateContent | None:
    """A page, if anything on it is live."""
    return found if isinstance(found, StateContent) else None


def _ttl_ms(state: RegisteredState) -> int:
    return state.ttl.ttl_ms if state.ttl.is_enabled else 0
