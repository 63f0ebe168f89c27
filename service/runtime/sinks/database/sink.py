"""What a writer task leaves of a database's rows: staged in Redis, as Arrow columns.

A task has no transaction with the database: rows that its attempt wrote would stay if it is tried
again. So it stages them as the sinks in Redis do, and the commit writes those that Spark counted.
Of a table with a key only the last change of each key is staged.

Of rows that are gone the keys are staged (`sinks.items`), of rows that are all columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from service.runtime.dataflow_errors import SinkRefused
from service.runtime.sinks.database.options import address_of
from service.runtime.sinks.database.values import unheld
from service.runtime.sinks.items import stage_rows
from service.runtime.sinks.rows import net_of_keys, take
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from service.runtime.sinks.spec import SinkSpec, WriterSpec


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
        return stage_rows(self._writer, self._spec, (epoch, partition, attempt), keys, present)

    def _net(
        self, columns: Sequence[pa.Array], kinds: np.ndarray
    ) -> tuple[list[pa.Array], list[pa.Array]]:
        """Rows that are gone and rows that are; a -U that stands alone is a row that is gone."""
        if self._spec.mode != "upsert":
            return take(columns, np.empty(0, np.int64)), list(columns)
        gone, present = net_of_keys(self._spec, columns, kinds)
        return take(columns, gone), take(columns, present)

    def _check_numbers(self, columns: Sequence[pa.Array]) -> None:
        dialect = address_of(self._spec.options, self._writer.files_root).dialect
        for name, logical, column in zip(self._spec.names, self._types, columns, strict=True):
            if found := unheld(logical, column, dialect):
                raise SinkRefused(f"column {name} of sink {self._spec.table} is {found}")
