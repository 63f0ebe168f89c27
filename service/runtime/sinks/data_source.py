"""The one Python data source that a pipeline's query writes to.

As with the sources, Spark loads and pickles these classes in helper processes that write nothing:
what writes and commits is imported by the call that does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter

from service.runtime.helpers import settle
from service.runtime.sinks.spec import WriterSpec
from service.runtime.spark_configuration import SPEC_OPTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

    from service.runtime.sinks.message import PartMessage


class TailraceSink(DataSource):  # type: ignore[misc]  # pyspark's types are not followed
    """All sinks of a pipeline."""

    @classmethod
    def name(cls) -> str:
        """The format's name in Spark."""
        return "tailrace_sink"

    def streamWriter(self, schema: StructType, overwrite: bool) -> EpochWriter:
        """The writer that the spec describes."""
        settle("make a writer")
        return EpochWriter(WriterSpec.from_json(self.options[SPEC_OPTION]))


class EpochWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]  # pyspark's types are not followed
    """Writes the rows of all sinks and closes epochs."""

    def __init__(self, spec: WriterSpec) -> None:
        self.spec = spec

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartMessage:
        """Leave a partition's rows where `commit` will find them."""
        from pyspark import TaskContext

        from service.runtime.quiet_epochs import written_part

        context = TaskContext.get()
        epoch = int(context.getLocalProperty("streaming.sql.batchId")) + 1
        return written_part(self.spec, epoch, context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Close the epoch."""
        from service.runtime.sinks.commit import close, sum_up

        settle("commit")
        close(self.spec, batchId + 1, sum_up([each for each in messages if each is not None]))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to do: what was staged is not looked at, and is removed by the next close."""
