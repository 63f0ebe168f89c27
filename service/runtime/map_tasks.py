"""What `mapInArrow` is given: the stages of a query that run in Python.

Spark pickles these by reference to this module, and their text by value, so the package must be
installed where workers run. They ask Spark for the epoch and the partition; the work itself is in
`operators`, which knows nothing of Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import TaskContext

from operators.watermarks import noted
from operators.worker import OperatorTask
from service.runtime.quiet_epochs import QuietSource, operator_batches

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


class OperatorStage:
    """One operator; holds text only.

    Args:
        task: What it does.
        source: The query's only source, if its epochs without changes get no task.
        inputs: Types of the columns of each of its inputs, as a plan writes them.
    """

    def __init__(
        self,
        task: OperatorTask,
        source: QuietSource | None = None,
        inputs: Sequence[Sequence[str]] = (),
    ) -> None:
        self._task = task.to_json()
        self._source = (source.table, source.checkpoint) if source else None
        self._inputs = [list(each) for each in inputs]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one epoch of one partition."""
        context = TaskContext.get()
        assert context is not None  # Spark calls this, nobody else
        epoch = int(context.getLocalProperty("streaming.sql.batchId")) + 1
        if self._source:
            place = epoch, context.partitionId()
            batches = operator_batches(QuietSource(*self._source), self._inputs, *place, batches)
        yield from OperatorTask.from_json(self._task).run(epoch, batches)


class WatermarkStage:
    """A watermark assigner: passes rows on and notes the greatest watermark."""

    def __init__(self, assigner: str, partitions: int) -> None:
        self._assigner = assigner
        self._partitions = partitions

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one epoch of one partition."""
        context = TaskContext.get()
        assert context is not None  # Spark calls this, nobody else
        yield from noted(batches, self._assigner, context.partitionId(), self._partitions)
