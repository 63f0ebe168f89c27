"""What a writer task leaves of a database's rows: staged in Redis, as Arrow columns.

A task has no transaction with the database: rows that its attempt wrote would stay if it is tried
again. So it stages them as the sinks in Redis do, and the commit writes those that Spark counted.
Of a table with a key only the last change of each key is staged.

An item is an Arrow stream of at most `ROWS_PER_ITEM` rows: first the keys of rows that are gone,
then rows that are, with all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from service.runtime.dataflow_errors import SinkRefused
from service.runtime.ledgers import ledger_of
from service.runtime.sinks.database.options import address_of
from service.runtime.sinks.database.values import unheld
from service.runtime.sinks.rows import last_of_each, take
from service.runtime.slot_keys import stage_name
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.runtime.sinks.spec import SinkSpec, WriterSpec

ROWS_PER_ITEM = 4_096


class DatabaseSink:
    """A table of a database, as writer tasks know it."""

    def __init__(self, writer: WriterSpec, spec: SinkSpec) -> None:
        self._writer = writer
        self._spec = spec
        self._types = [parse_type(each) for each in spec.types]

    def stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        """Leave the rows; where, and how many items of each kind, is for the commit.

        Raises:
            SinkRefused: A number is none that the database has.
        """
        gone, present = self._net(columns, kinds)
        self._check_numbers(present)
        keys = [gone[each] for each in self._spec.primary_key]
        removals, rows = list(_items(keys)), list(_items(present))
        name = stage_name(epoch, self._spec.table, partition, attempt)
        ledger_of(self._writer).stage_items(name, [*removals, *rows])
        return {"name": name, "items": len(removals) + len(rows), "removals": len(removals)}

    def _net(
        self, columns: Sequence[pa.Array], kinds: np.ndarray
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Rows that are gone and rows that are; a -U that stands alone is a row that is gone."""
        if self._spec.mode != "upsert":
            return take(columns, np.empty(0, np.int64)), list(columns)
        key = self._spec.primary_key
        codec = RowCodec([self._types[at] for at in key], [self._spec.names[at] for at in key])
        last = last_of_each(codec.encode_columns([columns[at] for at in key]))
        # Kinds 1 and 3 retract.
        is_gone = (kinds[last] & 1) == 1
        return take(columns, last[is_gone]), take(columns, last[~is_gone])

    def _check_numbers(self, columns: Sequence[pa.Array]) -> None:
        dialect = address_of(self._spec.options, self._writer.files_root).dialect
        for name, logical, column in zip(self._spec.names, self._types, columns, strict=True):
            if found := unheld(logical, column, dialect):
                raise SinkRefused(f"column {name} of sink {self._spec.table} is {found}")


def _items(columns: Sequence[pa.Array]) -> Iterator[bytes]:
    """Columns as Arrow streams of some rows each; none if there are no rows."""
    if not columns or not len(columns[0]):
        return
    whole = pa.RecordBatch.from_arrays(list(columns), [str(at) for at in range(len(columns))])
    for start in range(0, whole.num_rows, ROWS_PER_ITEM):
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, whole.schema) as stream:
            stream.write_batch(whole.slice(start, ROWS_PER_ITEM))
        yield buffer.getvalue().to_pybytes()


def read_item(item: bytes) -> pa.Table:
    """The columns of an item, named by their positions."""
    with pa.ipc.open_stream(item) as stream:
        return stream.read_all()
