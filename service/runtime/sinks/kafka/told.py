"""What records say beside key and value: their time and headers, out of metadata columns.

Where a column is NULL a record says nothing: its time is that at which it is sent, and it has no
headers. A header whose value is NULL is left out.

Source: Flink `KafkaDynamicSink.WritableMetadata`.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from service.runtime.dataflow_errors import SinkRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from service.runtime.sinks.spec import SinkSpec

_TIME = "timestamp"


def told_columns(spec: SinkSpec, columns: Sequence[pa.Array]) -> list[pa.Array]:
    """The metadata columns of a sink's rows, times in ms.

    Raises:
        SinkRefused: A time is none that a record can have.
    """
    told = []
    for key, column in zip(
        spec.metadata, columns[len(columns) - len(spec.metadata) :], strict=True
    ):
        if key == _TIME:
            column = column.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
            # To the client 0 is no time, and Kafka knows none before.
            if pc.any(pc.less_equal(column, 0)).as_py():
                raise SinkRefused(
                    f"sink {spec.table}: the timestamp of a record must be after 1970-01-01"
                )
        told.append(column)
    return told


def told_by(keys: Sequence[str], columns: Sequence[pa.ChunkedArray]) -> Iterable[dict[str, Any]]:
    """What is said of each row, as arguments of `TopicSession.send`; without end if nothing is."""
    return map(dict, zip(*map(_told, keys, columns), strict=True)) if keys else repeat({})


def _told(key: str, column: pa.ChunkedArray) -> Iterator[tuple[str, Any]]:
    for each in column.to_pylist():
        if key == _TIME:
            yield "timestamp_ms", each
        else:
            yield "headers", [header for header in each or () if header[1] is not None]
