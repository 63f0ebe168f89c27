"""Files of Parquet: positions are rows, and no more is read than a cut holds.

A column that a file does not have is null, as in Flink. What can be told of a file as a whole (it
is no Parquet, it lacks a NOT NULL column, a column is of another kind) is told when it is found,
before it is part of any epoch: so it can be taken away. A value that does not fit is a dead letter,
as in a line of text.
"""

from __future__ import annotations

from os.path import realpath, relpath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources.base import Chunk, Rejected
from service.runtime.sources.file_formats import FileCut, FileFormat
from state.codec import CodecError
from state.types import TIMESTAMP_ROOTS, LogicalType, arrow_type, format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sources.file_log import LoggedFile
    from service.runtime.sources.spec import SourceSpec

_PARQUET_ROWS = 65_536
_ADVICE = "take it away, and start the pipeline again"


class ParquetFormat(FileFormat):
    """Parquet; positions are rows."""

    task_units = 100_000

    def __init__(self, spec: SourceSpec) -> None:
        self._table = spec.table
        self._root = spec.files_root
        self._names = list(spec.names)
        self._types = [*map(parse_type, spec.types)]

    def length(self, path: str, size: int) -> int:
        """The file's row count.

        Raises:
            SourceChanged: It is not Parquet, or its columns cannot be those of the table.
        """
        shown = f"{self._table}: {relpath(path, realpath(self._root))}"
        try:
            metadata = pq.read_metadata(path)
        except pa.ArrowInvalid:
            raise SourceChanged(f"{shown} is not Parquet; {_ADVICE}") from None
        self._check(metadata.schema.to_arrow_schema(), shown)
        return int(metadata.num_rows)

    def _check(self, schema: pa.Schema, shown: str) -> None:
        for name, logical in zip(self._names, self._types, strict=True):
            if name not in schema.names:
                if not logical.nullable:
                    raise SourceChanged(
                        f'{shown} has no column "{name}", which is NOT NULL; {_ADVICE}'
                    )
                continue
            held = schema.field(name).type
            try:
                pa.nulls(0, held).cast(arrow_type(logical))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise SourceChanged(
                    f'{shown}: column "{name}" is {held}, which is no {format_type(logical)}; '
                    f"{_ADVICE}"
                ) from None

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
        there = [each for each in self._names if each in file.schema_arrow.names]
        at = first
        for batch in file.iter_batches(_PARQUET_ROWS, row_groups=[group], columns=there):
            low, high = max(cut.start, at), min(cut.end, at + batch.num_rows)
            if low < high:
                yield self._chunk(batch.slice(low - at, high - low), low, cut)
            at += batch.num_rows

    def _chunk(self, batch: pa.RecordBatch, first: int, cut: FileCut) -> Chunk:
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        order = numbers - cut.floor + cut.before
        columns = []
        wrong: dict[int, CodecError] = {}
        for name, logical in zip(self._names, self._types, strict=True):
            held = batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows)
            values, misfits = _cast(held, arrow_type(logical))
            columns.append(_cut(values, _unit(logical)))
            for row in misfits:
                found = "a value that does not fit"
                wrong.setdefault(row, CodecError(name, format_type(logical), found))
            if not logical.nullable:
                for row in np.flatnonzero(held.is_null().to_numpy(zero_copy_only=False)).tolist():
                    wrong.setdefault(row, CodecError(name, format_type(logical), "null"))
        rejected = [
            Rejected(int(order[row]), f"{cut.path} row {numbers[row] + 1}", str(wrong[row]))
            for row in sorted(wrong)
        ]
        if wrong:
            keep = np.ones(batch.num_rows, bool)
            keep[list(wrong)] = False
            columns = [each.filter(pa.array(keep)) for each in columns]
            order = order[keep]
        return Chunk(columns, np.zeros(len(order), np.int8), order, rejected)


def _cast(column: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    """The column in another type, and the places of values that have none there: these are null."""
    try:
        return column.cast(kind), []
    except pa.ArrowInvalid:
        if len(column) == 1:
            return pa.nulls(1, kind), [0]
    half = len(column) // 2
    (left, low), (right, high) = _cast(column[:half], kind), _cast(column[half:], kind)
    return pa.concat_arrays([left, right]), [*low, *(half + each for each in high)]


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
