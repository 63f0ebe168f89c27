"""How a file of each format is measured, cut between rows, and read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from service.runtime.sources.base import Chunk, Rejected
from service.runtime.sources.formats import format_of
from service.runtime.sources.lines import (
    blocks_of_lines,
    line_starts,
    next_line_start,
    skip_lines,
)
from service.runtime.sources.spec import TIME_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sources.decoding import DecodedLines
    from service.runtime.sources.file_log import LoggedFile
    from service.runtime.sources.spec import SourceSpec

_BLOCK_BYTES = 4 << 20


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
    told: tuple[str | int, ...] = ()
    """The values of the metadata that is read, the same for all rows of a file."""


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
    if format_of(spec.options) != "parquet":
        return LineFormat(spec)
    # Brings Arrow's reader of Parquet along, which no other format needs.
    from service.runtime.sources.parquet_files import ParquetFormat

    return ParquetFormat(spec)


class BlockDecoder(Protocol):
    """Turns a block of whole lines into columns."""

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""


def block_decoder(spec: SourceSpec) -> BlockDecoder:
    """What decodes the lines of a table's files."""
    # Helpers of Spark's read nothing: what decodes is imported where the first block is read.
    name = format_of(spec.options)
    if name == "csv":
        from service.runtime.sources.csv_lines import CsvDecoder

        return CsvDecoder(spec)
    from service.runtime.sources.decoding import LineDecoder
    from service.runtime.sources.timed_lines import TimedLineDecoder

    decoder = LineDecoder(spec, name)
    time_field = spec.options.get(TIME_FIELD)
    return TimedLineDecoder(decoder, time_field) if time_field else decoder


class LineFormat(FileFormat):
    """Files of lines; positions are bytes."""

    task_units = 1 << 20

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._counted: dict[str, tuple[int, int]] = {}
        """Of the file that a line was refused in last: a place, and the lines before it."""

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
                yield self._chunk(path, cut, at, block)

    @cached_property
    def _decoder(self) -> BlockDecoder:
        return block_decoder(self._spec)

    def _lines_before(self, path: str, at: int) -> int:
        """Lines of a file before a place; read once a file, and only where one is refused."""
        known, lines = self._counted.get(path, (0, 0))
        if known > at:
            known = lines = 0
        with open(path, "rb") as handle:
            _, passed = skip_lines(handle, known, at, at - known + 1)
        self._counted = {path: (at, lines + passed)}
        return lines + passed

    def _chunk(self, path: str, cut: FileCut, at: int, block: bytes) -> Chunk:
        decoded = self._decoder.decode(block)
        starts = line_starts(block)
        origin = cut.before + at - cut.floor
        first = self._lines_before(path, at) if decoded.rejected else 0
        rejected = [
            Rejected(origin + int(starts[line]), f"{cut.path} line {first + line + 1}", reason)
            for line, reason in decoded.rejected
        ]
        # A line has more bytes than rows.
        order = origin + starts[decoded.lines] + decoded.places
        return Chunk(decoded.columns, decoded.kinds, order, rejected)
