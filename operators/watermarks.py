"""Noting how far event time came: what a watermark assigner does in a worker.

The JVM computes the watermark expression for each row; each task takes the greatest, which goes to
the close of the epoch as a note. There the watermarks of all tasks meet, and the greatest counts
from the next epoch on: in an epoch, no task knows how far others have come.

Source: Flink's `WatermarkAssignerOperator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from operators.wire import TICK, TIME, ControlRow, WatermarkNote, control_batch, to_note

if TYPE_CHECKING:
    from collections.abc import Iterator

REACHED = "_reached"
"""The column with the watermark expression, ms since 1970; null in control rows."""


def noted(
    batches: Iterator[pa.RecordBatch], assigner: str, part: int, partitions: int
) -> Iterator[pa.RecordBatch]:
    """The rows without `REACHED`, then a note of the greatest, if there is one.

    Args:
        batches: Rows with that column as their last.
        assigner: Id of its node.
        part: Number of the partition.
        partitions: Of the operators that follow: the note travels as a tick to one of them.
    """
    greatest: int | None = None
    schema: pa.Schema | None = None
    time_ms: int | None = None
    for batch in batches:
        found = pc.max(batch[REACHED]).as_py()
        if found is not None:
            greatest = found if greatest is None else max(greatest, found)
            time_ms = pc.max(batch[TIME]).as_py()
        rest = batch.drop_columns([REACHED])
        schema = rest.schema
        yield rest
    if schema is not None and greatest is not None:
        note = to_note(WatermarkNote(assigner, part, greatest))
        yield control_batch(schema, [ControlRow(TICK, part % partitions, note)], time_ms)
