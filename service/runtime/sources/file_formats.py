"""How a file of each format is measured, cut between rows, and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources.base import Chunk, Rejected
from service.runtime.sources.csv_lines import CsvDecoder
from service.runtime.sources.formats import DecodedLines, LineDecoder, format_of
from service.runtime.sources.lines import (
    blocks_of_lines,
    line_starts,
    next_line_start,
    skip_lines,
)
from service.runtime.sources.timed_lines import TimedLineDecoder
from service.runtime.table_options import TIME_FIELD
from state.types import arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sources.file_log import LoggedFile
    from service.runtime.sources.spec import SourceSpec

_BLOCK_BYTES = 4 << 20
_PARQUET_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class FileCut:
    """A part of a file that one task reads: the rows that start in it."""

    path: str
    size: int
    start: int
    end: int
    floor: int
    """Where the epoch's part of this file starts."""
    before: int
    """Bytes or rows of the epoch's earlier files; with the distance from `floor` it is `_order`."""


class FileFormat(ABC):
    """What positions in a file count, and how its rows are read."""

    task_units: int
    """Positions that make a task of its own worth while."""

    @abstractmethod
    def length(self, path: str, size: int) -> int:
        """How many positions the file has."""

    @abstractmethod
    def admit(
        self, path: str, file: LoggedFile, at: int, rows_max: int | None, room: int
    ) -> tuple[int, int]:
        """Where an epoch may end in the file: so many rows and positions on, but a row at least.

        Returns:
            The position, and how many rows come before it, as far as they had to be counted.
        """

    @abstractmethod
    def read(self, path: str, cut: FileCut) -> Iterator[Chunk]:
        """The rows that start in the cut."""


def open_format(spec: SourceSpec) -> FileFormat:
    """The format of a table's files."""
    match format_of(spec.options):
        case "parquet":
            return ParquetFormat(spec)
        case "csv":
            return LineFormat(CsvDecoder(spec))
        case name:
            decoder = LineDecoder(spec, with_op=name == "changelog-json")
            time_field = spec.options.get(TIME_FIELD)
            return LineFormat(TimedLineDecoder(decoder, time_field) if time_field else decoder)


class BlockDecoder(Protocol):
    """Turns a block of whole lines into columns."""

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""


class LineFormat(FileFormat):
    """Files of lines; positions are bytes."""

    task_units = 1 << 20

    def __init__(self, decoder: BlockDecoder) -> None:
        self._decoder = decoder

    def length(self, path: str, size: int) -> int:
        """The file's size."""
        return size

    def admit(
        self, path: str, file: LoggedFile, at: int, rows_max: int | None, room: int
    ) -> tuple[int, int]:
        """See `FileFormat`; counts the lines it passes."""
        with open(path, "rb") as handle:
            end = file.length
            if end - at > room:
                end = next_line_start(handle, at + room, file.length)
            return skip_lines(handle, at, end, rows_max)

    def read(self, path: str, cut: FileCut) -> Iterator[Chunk]:
        """See `FileFormat`."""
        with open(path, "rb") as handle:
            start = next_line_start(handle, cut.start, cut.size)
            end = next_line_start(handle, cut.end, cut.size)
            for at, block in blocks_of_lines(handle, start, end, _BLOCK_BYTES):
                yield self._chunk(cut, at, block)

    def _chunk(self, cut: FileCut, at: int, block: bytes) -> Chunk:
        decoded = self._decoder.decode(block)
        starts = line_starts(block)
        origin = cut.before + at - cut.floor
        rejected = [
            Rejected(origin + int(starts[line]), f"{cut.path}:{at + int(starts[line])}", reason)
            for line, reason in decoded.rejected
        ]
        return Chunk(decoded.columns, decoded.kinds, origin + starts[decoded.lines], rejected)


class ParquetFormat(FileFormat):
    """Parquet; positions are rows."""

    task_units = 100_000

    def __init__(self, spec: SourceSpec) -> None:
        self._table = spec.table
        self._names = list(spec.names)
        self._types = [arrow_type(parse_type(each)) for each in spec.types]

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
                    part.column(name).cast(kind)
                    for name, kind in zip(self._names, self._types, strict=True)
                ]
                order = np.arange(low, high, dtype=np.int64) - cut.floor + cut.before
                yield Chunk(columns, np.zeros(high - low, np.int8), order)
            at += batch.num_rows
