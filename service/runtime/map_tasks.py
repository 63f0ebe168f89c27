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
    from pyspark.sql.types import StructType

    from service.runtime.sources.spec import SourceSpec


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


class RecordStage:
    """Decodes the records of a Kafka table.

    Args:
        spec: The table.
        schema: The wire columns to give.
    """

    def __init__(self, spec: SourceSpec, schema: StructType) -> None:
        self._spec = spec
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode one task's records of one epoch."""
        # Other stages decode nothing, and need not import what does.
        from service.runtime.sources.kafka import decode_records, in_epoch

        context = TaskContext.get()
        assert context is not None  # Spark calls this, nobody else
        epoch = int(context.getLocalProperty("streaming.sql.batchId")) + 1
        yield from decode_records(in_epoch(self._spec, epoch), self._schema, batches)


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
