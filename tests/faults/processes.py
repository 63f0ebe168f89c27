"""Processes that write an epoch after another, die, and are followed by the next run.

As the supervisor starts them, with Spark's rules: an epoch that was not recorded runs again on the
same input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from operators.wire import WorkerError
from service.runtime.dataflow_errors import SinkUnavailable
from state.errors import StateUnavailable
from state.testing.faults import Fault, FaultPlan, ProcessDied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.service.runtime.sinks.database.stand import Pipeline

ENDED = (ProcessDied, SinkUnavailable, StateUnavailable, WorkerError)
"""What ends a run, and is followed by another one."""
RUNS_MAX = 12

Changes = dict[int, list[tuple[Any, ...]]]
"""By sink."""


class World:
    """What processes leave behind."""

    pipeline: Pipeline
    epochs: ClassVar[int]
    """So many there are to be written."""

    def reset(self) -> None:
        """Forget everything."""
        raise NotImplementedError

    def check(self, what: str) -> None:
        """See that every epoch was written once.

        Args:
            what: What happened, for the message.
        """
        raise NotImplementedError

    def input(self, epoch: int) -> Changes:
        """The changes of an epoch."""
        raise NotImplementedError

    def end_process(self) -> None:
        """Take away what a dead process takes with it."""

    def run_all(self) -> int:
        """Run every epoch through whatever fails; how many runs that took."""
        recorded = 0
        for number in range(1, RUNS_MAX):
            try:
                self.pipeline.start()
                while recorded < self.epochs:
                    self.pipeline.write_all(recorded + 1, self.input(recorded + 1))
                    recorded += 1
            except ENDED:
                self.end_process()
                continue
            return number
        raise AssertionError("no end")

    def play(self, plan: FaultPlan, faults: Mapping[int, Fault]) -> int:
        """All epochs from the start, with these faults; how many runs that took."""
        with plan.resting():
            self.reset()
        plan.begin(faults)
        runs = self.run_all()
        plan.is_counting = False
        return runs
