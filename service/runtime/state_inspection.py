"""Looking into the registered states of an operator, whatever it is.

Histories of rows have resources of their own (`runtime.inspection`), with rows by their columns;
here is what any primitive keeps, as `state.primitives.inspection` reads it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.runtime.inspection_errors import KeyExpired, KeyNotFound, StateNotFound
from state.key_groups import key_group
from state.primitives.cells import stored_key
from state.primitives.inspection import Expired, StateContent, read_state
from state.registry import registered_states
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.runtime.key_text import KeyText
    from state.backends.interface import StateView
    from state.reader import CommittedReader
    from state.registry import Registered, RegisteredState

HISTORY = "history"
"""The kind whose keys are read at `.../keys`."""


@dataclass(frozen=True, slots=True)
class ShownState:
    """What a key has in a state."""

    epoch: int
    key: list[Any]
    state: RegisteredState
    content: StateContent


class StateInspector:
    """Looks into the states of one operator.

    Args:
        reader: Reads the pipeline's committed state.
        registry: Knows what the pipeline has registered.
        node: The operator's id.
        keys: How its keys are written.
        max_parallelism: Key groups of the pipeline.
        extension_ms: By how much lives were extended before the run.
        clock: The time in ms since 1970.
    """

    def __init__(
        self,
        reader: CommittedReader,
        registry: Registered,
        node: str,
        keys: KeyText,
        max_parallelism: int,
        *,
        extension_ms: int = 0,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader = reader
        self._registry = registry
        self._node = node
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._extension_ms = extension_ms
        self._clock = clock

    def states(self) -> list[RegisteredState]:
        """The states of the operator, by name."""
        return [each for each in registered_states(self._registry) if each.node == self._node]

    def read(
        self, name: str, key: Sequence[Any], *, namespace: str, after: str, limit: int
    ) -> ShownState:
        """A page of what a key has in a state.

        Raises:
            StateNotFound: the operator has no such state, or its keys are read elsewhere.
            KeyNotFound: there is nothing of the key.
            KeyExpired: there is, and all of it is past its life.
        """
        state = next((each for each in self.states() if each.name == name), None)
        if state is None:
            raise StateNotFound("the operator has registered no state of this name")
        if state.kind == HISTORY:
            raise StateNotFound("this state is a history of rows", hint="read it at .../keys/{key}")
        canonical = self._keys.codec.encode(key)
        group = key_group(self._keys.codec.types, key, self._max_parallelism)
        clock = TtlClock(self._clock(), extension_ms=self._extension_ms)

        def look(view: StateView) -> ShownState:
            found = read_state(
                view,
                state,
                group,
                stored_key(canonical, namespace.encode()),
                clock=clock,
                after=after,
                limit=limit,
            )
            if found is None:
                raise KeyNotFound(f"the key has nothing in this state in epoch {view.epoch}")
            if isinstance(found, Expired):
                raise KeyExpired(f"all {found.size} elements of the key have expired")
            return ShownState(view.epoch, self._keys.shown.values(canonical), state, found)

        return self._reader.consistently(self._node, look)
