"""A controller over cells without a backend, and what tests look at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from state.execution.controller import Controller
from state.execution.engine import RecordOrder
from state.execution.limits import ControllerLimits
from state.execution.site import Site
from state.execution.sync_point import hold_key
from state.testing.execution import KeyedCells, ManualChannel, ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

SITE = Site("counter", "3_count", 7)


@dataclass
class Rig:
    """A controller, and what it works on.

    The process of the scenario tables is the default: read the value, write it back one higher (or
    1), emit it. Records are their keys' names or any text that begins with it and a colon.
    """

    process: Callable[[Rig], Any] | None = None
    limits: ControllerLimits = field(default_factory=ControllerLimits)
    options: dict[str, Any] = field(default_factory=dict)
    manual: Callable[[int], Any] | bool | None = None
    """True: nothing is answered by itself; a function: it chooses."""

    def __post_init__(self) -> None:
        self.cells = KeyedCells()
        self.clock = ManualClock()
        self.output: list[Any] = []
        choose = self.manual if callable(self.manual) else None
        self.channel = ManualChannel(self.cells, choose)
        self.controller = Controller(
            self.process(self) if self.process else self.count_up,
            self.channel if self.manual else self.cells,
            self.cells,
            SITE,
            limits=self.limits,
            clock=self.clock,
            **self.options,
        )

    async def count_up(self, record: str) -> None:
        """The scenario tables' user code."""
        if self.options.get("order") is RecordOrder.FIRST_REQUEST_ORDER:
            await hold_key()
        value = await self.cells.get()
        value = 1 if value is None else value + 1
        await self.cells.put(value)
        self.output.append(value)

    def submit(self, *records: str) -> None:
        """Submit records, each under the key that its text begins with."""
        for record in records:
            self.controller.submit(record, record.partition(":")[0].encode(), 0)

    def flush(self) -> None:
        """Flink's forced trigger."""
        self.controller.flush()

    @property
    def gauges(self) -> tuple[int, int, int, int]:
        """Active, blocking, held keys, in flight: A, B, K and F of the scenario tables."""
        now = self.controller.statistics()
        return now.active, now.blocking, now.held_keys, now.in_flight

    def assert_nothing_left(self) -> None:
        """All counters are back at zero."""
        now = self.controller.statistics()
        left = (now.in_flight, now.active, now.executing, now.blocking, now.blocking_keys)
        assert (*left, now.held_keys, now.closed_stretches) == (0,) * 7
