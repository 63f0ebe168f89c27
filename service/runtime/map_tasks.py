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

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


class OperatorStage:
    """One operator; holds text only."""

    def __init__(self, task: OperatorTask) -> None:
        self._task = task.to_json()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one epoch of one partition."""
        context = TaskContext.get()
        assert context is not None  # Spark calls this, nobody else
        epoch = int(context.getLocalProperty("streaming.sql.batchId")) + 1
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
