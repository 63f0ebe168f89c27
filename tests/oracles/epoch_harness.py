"""Plans without Spark, a whole epoch at a time, as a pipeline runs them.

`tests.oracles.plan_harness` sends line after line through a plan, as Flink does. Here an epoch has
many lines of many tables; each change carries order number and place (`operators.wire`), operators
are spread over tasks, and what a sink takes is sorted as its writer sorts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from operators.changelog import Change
from operators.testing.operator_harness import Of
from operators.upsert_materializer import MaterializerSpec
from operators.worker import Places
from service.plan.nodes import Expand, Sink, TableScan, Union, Values
from tests.operators.stage import EARLY, LATE, Epoch, Stage
from tests.oracles.plan_harness import Line, PlanHarness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.records import RunOptions

    Placed = tuple[int, int, Change]
    """A change with its order number and its place behind it."""

TASKS: Final = ((0, 2), (1, 3))
"""Key groups of each task."""
TICK_MS: Final = 10
"""An epoch takes so long."""


class EpochHarness(PlanHarness):
    """A plan over epochs; `tables` is what each sink has.

    Args:
        plan: It was checked.
        options: Of the pipeline.
        columns_from: From so many changes on an operator works on columns, if it can.
    """

    def __init__(self, plan: CompiledPlan, options: RunOptions, *, columns_from: int = 1) -> None:
        self._stages: dict[int, Stage] = {}
        super().__init__(plan, options)
        for node, info in self._operators.items():
            self._stages[node] = Stage.on_heap(info.spec, columns_from=columns_from)
        self._keys = {
            node.id: tuple(node.view.primary_key or ())
            for node in plan.nodes
            if isinstance(node.view, Sink)
        }
        self._begins = True
        self.rows: dict[int, list[Row]] = {node: [] for node in self._keys}
        """By sink node: the rows of its table, in any order."""

    def run_epoch(self, changes: Sequence[tuple[str, str, dict[str, Any]]]) -> None:
        """Run one epoch.

        Args:
            changes: Table, kind and row of each; those of a table are in order.
        """
        lines = [Line(0, table, {"op": op, "data": row}) for table, op, row in changes]
        self._now_ms += TICK_MS
        outputs: dict[int, list[Placed]] = {}
        for node in self._plan.nodes:
            given = [outputs[each.id] for each in self._plan.inputs(node.id)]
            outputs[node.id] = self._ran(node, given, lines)
        self._begins = False

    def _ran(
        self, node: ExecNode, given: Sequence[list[Placed]], lines: Sequence[Line]
    ) -> list[Placed]:
        view = node.view
        if isinstance(view, TableScan | Values):
            read = self._read(node, lines, first=self._begins)
            return [(at, 0, each) for at, each in enumerate(read)]
        if isinstance(view, Sink):
            self._take(node, given[0])
            return []
        if node.id in self._stages:
            return self._staged(node.id, _side_by_side(given))
        if isinstance(view, Union):
            return [each for _, each in _side_by_side(given)]
        spread = len(view.projections) if isinstance(view, Expand) else 1
        step = self._steps[node.id]
        found = []
        for order, sequence, change in given[0]:
            made, _ = step([[change]], 0)
            found += [
                (order * spread + at, sequence, each)
                for at, each in enumerate(made if spread > 1 else made[:1])
            ]
            assert len(made) <= spread
        return found

    def _staged(self, node: int, given: Sequence[tuple[int, Placed]]) -> list[Placed]:
        """What the tasks of an operator make of an epoch."""
        stage = self._stages[node]
        ordered = sorted(given, key=lambda each: each[1][:2])
        changes = [Of(number, placed[2]) for number, placed in ordered]
        parts = stage.run(Epoch(tuple(changes), self._now_ms), TASKS)
        found: list[Placed] = []
        for part, (groups, said) in enumerate(zip(TASKS, parts, strict=True)):
            mine = [at for at, each in enumerate(changes) if stage.group_of(each) in groups]
            found += self._numbered(stage, [ordered[at][1] for at in mine], mine, said, part)
        return found

    def _numbered(
        self,
        stage: Stage,
        placed: Sequence[Placed],
        mine: Sequence[int],
        said: Sequence[Any],
        part: int,
    ) -> list[Placed]:
        orders = np.array([each[0] for each in placed], np.int64)
        sequences = np.array([each[1] for each in placed], np.int64)
        places = Places(np.arange(len(placed)), orders, sequences)
        rank = {at: number for number, at in enumerate(mine)} | {EARLY: -1, LATE: len(mine)}
        causes = np.array([rank[cause] for cause, _, _ in said], np.int64)
        if not causes.size:
            return []
        order, sequence = places.of_emissions(causes, part, len(TASKS))
        decode = stage.row_codec().decode
        changes = [Change(kind, tuple(decode(row))) for _, kind, row in said]
        return list(zip(order.tolist(), sequence.tolist(), changes, strict=True))

    def _take(self, node: ExecNode, given: list[Placed]) -> None:
        """Have a sink take what comes, in order."""
        if node.id in self._stages:
            assert isinstance(self._stages[node.id].spec, MaterializerSpec)
            given = self._staged(node.id, [(0, each) for each in given])
        changes = [each for _, _, each in sorted(given, key=lambda placed: placed[:2])]
        self.collected.setdefault(node.id, []).extend(changes)
        key, rows = self._keys[node.id], self.rows[node.id]
        for change in changes:
            if key:
                mine = [change.row[at] for at in key]
                rows[:] = [each for each in rows if [each[at] for at in key] != mine]
                if not change.kind.is_retraction:
                    rows.append(change.row)
            elif change.kind.is_retraction:
                rows.remove(change.row)
            else:
                rows.append(change.row)


def _side_by_side(given: Sequence[list[Placed]]) -> list[tuple[int, Placed]]:
    """The changes of all inputs, each with its input; order numbers never meet."""
    count = len(given)
    return [
        (number, (order * count + number, sequence, change))
        for number, side in enumerate(given)
        for order, sequence, change in side
    ]
