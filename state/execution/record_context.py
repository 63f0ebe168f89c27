"""A record on its way: what the controller knows of it between two of its steps.

A context exists only for a record that could not finish at once. It is made (or rather, taken from
the controller's spare one) when the record waits for its key, when its process first waits for
state, or when its process asks for it; and it is disposed exactly once: when the process ends, when
it raises, or when it is cancelled. What Flink counts by references (one for each future and each
callback) is here the life of one coroutine, so that there is nothing to count.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from state.execution.processes import Position
    from state.execution.stretches import Stretch

    Process = Callable[[Any], Coroutine[Any, None, Any]]
    """An operator's `async def process(change)`."""


class Phase(IntEnum):
    """Where a context is. A record that never waits has none of the waiting ones."""

    RUNNING = 0
    """Its process is on the stack, or about to be."""
    BLOCKED = 1
    """Behind another record of its key."""
    ACTIVE = 2
    """Its request gathers in the active buffer."""
    EXECUTING = 3
    """Its request was sent."""
    READY = 4
    """It can go on, and waits for its turn."""
    DISPOSED = 5
    """Finished, failed, cancelled or kept."""


class RecordContext:
    """One record in flight. Only the controller changes it, but for `variables`."""

    __slots__ = (
        "coroutine",
        "event_ms",
        "holds_key",
        "key",
        "key_group",
        "phase",
        "place",
        "position",
        "priority",
        "process",
        "record",
        "request",
        "stretch",
        "variables",
    )

    record: object
    key: bytes
    key_group: int

    def __init__(self) -> None:
        self.coroutine: Coroutine[Any, None, Any] | None = None
        """None: the process has not begun."""
        self.process: Process | None = None
        """What to begin; None: the controller's own process."""
        self.request: Any = None  # of a handle, or several: the engine alone looks into it
        """What it waits for."""
        self.position: Position | None = None
        """Where a declared process can be resumed, if it is at such a place."""
        self.stretch: Stretch | None = None
        """None: it is not counted as in flight."""
        self.event_ms: int | None = None
        """Its event time, where it has one."""
        self.place: object = None
        """Key, namespace and event time as its process had set them when it last waited."""
        self.variables: dict[str, Any] | None = None
        """What the process keeps; a record that it begins under another key shares them."""
        self.priority = 0
        """Records begun by another one are one higher than that, and pass lower ones that wait."""
        self.holds_key = False
        self.phase = Phase.RUNNING
