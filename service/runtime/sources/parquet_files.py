"""Files of Parquet: positions are rows, and no more is read than a cut holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources.base import Chunk
from service.runtime.sources.file_formats import FileCut, FileFormat
from state.types import TIMESTAMP_ROOTS, LogicalType, arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sources.file_log import LoggedFile
    from service.runtime.sources.spec import SourceSpec

_PARQUET_ROWS = 65_536


class ParquetFormat(FileFormat):
    """Parquet; positions are rows."""

    task_units = 100_000

    def __init__(self, spec: SourceSpec) -> None:
        self._table = spec.table
        self._names = list(spec.names)
        types = [*map(parse_type, spec.types)]
        self._types = [*map(arrow_type, types)]
        self._units = [_unit(each) for each in types]

    def length(self, path: str, size: int) -> int:
        """The file's row count.

        Raises:
            SourceChanged: It is not Parquet.
        """
        try:
            return int(pq.read_metadata(path).num_rows)
        except pa.ArrowInvalid as error:
            raise SourceChanged(f"{self._table}: a file is not Parquet") from error

    def admit(
        self, path: str, file: LoggedFile, at: int, rows_max: int | None, room: int
    ) -> tuple[int, int]:
        """See `FileFormat`."""
        end = file.length if rows_max is None else min(file.length, at + rows_max)
        return end, end - at

    def read(self, path: str, cut: FileCut) -> Iterator[Chunk]:
        """See `FileFormat`; row groups outside of the cut are not read."""
        with pq.ParquetFile(path) as file:
            first = 0
            for group in range(file.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                if last > cut.start and first < cut.end:
                    yield from self._group(file, group, first, cut)
                first = last

    def _group(self, file: pq.ParquetFile, group: int, first: int, cut: FileCut) -> Iterator[Chunk]:
        missing = sorted(set(self._names) - set(file.schema_arrow.names))
        if missing:
            raise SourceChanged(f"{self._table}: {cut.path} has no column {missing[0]}")
        at = first
        for batch in file.iter_batches(_PARQUET_ROWS, row_groups=[group], columns=self._names):
            low, high = max(cut.start, at), min(cut.end, at + batch.num_rows)
            if low < high:
                part = batch.slice(low - at, high - low)
                columns = [
                    _cut(part.column(name).cast(kind), unit)
                    for name, kind, unit in zip(self._names, self._types, self._units, strict=True)
                ]
                order = np.arange(low, high, dtype=np.int64) - cut.floor + cut.before
                yield Chunk(columns, np.zeros(high - low, np.int8), order)
            at += batch.num_rows


def _unit(logical: LogicalType) -> int:
    """How many microseconds are one of an instant's last digit; 1 for all other types."""
    return 10 ** (6 - (logical.precision or 0)) if logical.root in TIMESTAMP_ROOTS else 1


def _cut(column: pa.Array, unit: int) -> pa.Array:
    """Instants without the digits that their column does not have: as keys, they would differ."""
    if unit == 1:
        return column
    instants = column.view(pa.int64())
    values = instants.fill_null(0).to_numpy()
    cut = pa.array(values - values % unit, mask=column.is_null().to_numpy(zero_copy_only=False))
    return cut.view(column.type)
