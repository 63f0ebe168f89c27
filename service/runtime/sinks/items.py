"""What writer tasks stage in Redis for a sink that lies elsewhere: rows as Arrow streams.

An item is an Arrow stream of at most `ROWS_PER_ITEM` rows, of fewer where rows are large: Redis
takes values up to half a gigabyte, and the commit holds some items at a time. What a task leaves is
a list of items: first those of rows that are gone, then those of rows that are. The commit reads
them in that order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from service.runtime.ledgers import ledger_of
from service.runtime.slot_keys import stage_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.runtime.sinks.spec import SinkSpec, WriterSpec

ROWS_PER_ITEM = 4_096
_BYTES_PER_ITEM = 4 << 20
"""About: as many rows as have this on the average."""
_ITEMS_PER_READ = 16


def stage_rows(
    writer: WriterSpec,
    spec: SinkSpec,
    place: tuple[int, int, str],
    gone: Sequence[pa.Array],
    present: Sequence[pa.Array],
) -> dict[str, Any]:
    """Leave a task's rows; where, and how many items of each kind, is for the commit.

    Args:
        writer: The pipeline's.
        spec: The sink.
        place: Epoch, partition and attempt of the task.
        gone: Columns of rows that are taken away.
        present: Columns of rows that are brought.

    Raises:
        StateError: As `Ledger.stage_items`.
    """
    epoch, partition, attempt = place
    removals, rows = list(_items(gone)), list(_items(present))
    name = stage_name(epoch, spec.node, partition, attempt)
    ledger_of(writer).stage_items(name, [*removals, *rows])
    return {"name": name, "items": len(removals) + len(rows), "removals": len(removals)}


def removals_of(spec: WriterSpec, part: Mapping[str, Any]) -> Iterator[pa.Table]:
    """The rows that a task took away, item by item; columns are named by their positions.

    Raises:
        StagedWritesGone: Items that were staged are no longer there.
    """
    return _read(spec, part, 0, part["removals"])


def rows_of(spec: WriterSpec, part: Mapping[str, Any]) -> Iterator[pa.Table]:
    """The rows that a task brought, likewise."""
    return _read(spec, part, part["removals"], part["items"])


def _items(columns: Sequence[pa.Array]) -> Iterator[bytes]:
    """Columns as Arrow streams of some rows each; none if there are no rows."""
    if not columns or not len(columns[0]):
        return
    whole = pa.RecordBatch.from_arrays(list(columns), [str(at) for at in range(len(columns))])
    fitting = _BYTES_PER_ITEM * whole.num_rows // max(1, whole.nbytes)
    rows = max(1, min(ROWS_PER_ITEM, fitting))
    for start in range(0, whole.num_rows, rows):
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, whole.schema) as stream:
            stream.write_batch(whole.slice(start, rows))
        yield buffer.getvalue().to_pybytes()


def _read(spec: WriterSpec, part: Mapping[str, Any], start: int, end: int) -> Iterator[pa.Table]:
    ledger = ledger_of(spec)
    for at in range(start, end, _ITEMS_PER_READ):
        until = min(at + _ITEMS_PER_READ, end)
        for item in ledger.staged_items(part["name"], at, until):
            with pa.ipc.open_stream(item) as stream:
                yield stream.read_all()
