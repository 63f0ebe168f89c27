"""Epochs of one operator with state of its own, and the proof that it does what it is measured for.

`bench_operators` and `bench_custom_window` have them.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.operator_feeds import GROUPS, batches_of, times_of, to_batch
from benchmarks.state_epochs import NODE
from operators.changelog import RowKind
from operators.keyed_runner import KeyedRunner
from operators.kinds import epoch_operator
from operators.spec import OperatorSpec
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.operator_cases import Case
    from benchmarks.state_epochs import Ground
    from operators.batch import ChangeBatch
    from operators.keyed import EpochTimes
    from operators.upsert_materializer import MaterializerSpec
    from state.backends.interface import Ledger, StateBackend

EXAMPLE = Path(__file__).parents[1] / "examples" / "custom_window"


class Task:
    """Epochs of one operator with state of its own."""

    def __init__(
        self, spec: OperatorSpec | MaterializerSpec, where: Ground, groups: int = GROUPS
    ) -> None:
        self._where = where
        self._groups = range(groups)
        if isinstance(spec, OperatorSpec):
            run_epoch = KeyedRunner(spec, NODE).run_epoch
            self._runs = partial(run_epoch, is_local=where.client is None)
        else:
            own = replace(spec, backend=where.name)
            self._runs = partial(epoch_operator(own.to_json(), NODE).run_epoch)
        self._backend: StateBackend
        self._ledger: Ledger
        if where.client is None:
            heap = HeapBackend()
            self._backend, self._ledger = heap, heap.ledger()
        else:
            transport = where.transport(where.client)
            self._ledger = EpochLedger(transport, "operators")
            self._ledger.drop()
            self._backend = RedisBackend(transport, "operators")
        self._run = self._ledger.open_run([NODE], groups)
        self.epoch = 0
        """The last one that was run."""
        self.round_trips = 0
        """Of the last epoch, as the task pays them."""
        self.emitted = 0
        """Rows of the last epoch."""
        self.kinds = np.zeros(0, np.int8)
        """Of these rows."""

    def run(self, batches: list[ChangeBatch], times: EpochTimes | None = None) -> float:
        """Run a whole epoch; the seconds of processor time that it took, Redis's too."""
        return self._where.spent(lambda: self.apply(batches, times)).work

    def apply(self, batches: list[ChangeBatch], times: EpochTimes | None = None) -> None:
        """Run a whole epoch."""
        self.epoch += 1
        times = times or times_of(self.epoch)
        stamp = EpochStamp(self.epoch, self._run, times.time_ms)
        output = self._runs(
            batches,
            self._backend.begin(NODE, stamp, self._groups),
            epoch=stamp.epoch,
            times=times,
            key_groups=self._groups,
        )
        self._ledger.close_epoch(stamp, {}, [])
        self._ledger.promote_all([NODE], len(self._groups))
        self.round_trips = output.statistics["round_trips"]
        self.emitted = len(output.batch)
        self.kinds = output.batch.kinds


def prove(case: Case, where: Ground) -> None:
    """Have an operator give what it must on a small input.

    Raises:
        ValueError: It gives other kinds of changes, or none.
    """
    task = Task(case.spec, where)
    given = []
    for epoch in case.small:
        changes = to_batch([(*each, each[-1]) for each in epoch])
        task.apply(batches_of(case.inputs, changes))
        given.append(" ".join(RowKind(each).short for each in task.kinds))
    found = " | ".join(given).strip()
    if found != case.gives:
        raise ValueError(f"it gives {found!r} in place of {case.gives!r}")


@contextmanager
def example_installed() -> Iterator[None]:
    """Let the function of `examples/custom_window` be found as one of an installed package."""
    before = sys.path[:]
    with tempfile.TemporaryDirectory() as folder:
        metadata = Path(folder) / "custom_window-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: custom-window\n")
        functions = "[tailrace.functions]\nCustomWindow = custom_window:CustomWindow\n"
        (metadata / "entry_points.txt").write_text(functions)
        sys.path += [folder, str(EXAMPLE)]
        try:
            yield
        finally:
            sys.path[:] = before
