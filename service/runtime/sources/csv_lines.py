"""Lines of CSV as columns, by position, as Flink's csv format does.

A line is a row: no field goes over a line's end. A field is quoted, and then holds anything with
quotes doubled, or it is not, and then ends at the next delimiter and may hold quotes further in.
What a field's text means for a type is what JSON's strings mean (`state.json_values`).

A line means the same whatever stands beside it, so that an epoch does not depend on how its bytes
were cut into blocks. A block takes the *fast* way, split and cast by Arrow as a whole, only if all
its lines are ones that Arrow is sure to read alike. Else it takes the *exact* way, line by line,
which also says what is wrong with which line. A property test holds the two to each other.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from service.runtime.csv_dialect import CsvDialect
from service.runtime.sources.decoding import DecodedLines
from service.runtime.sources.lines import line_starts
from state.arrow_values import to_column
from state.codec import CodecError, RowCodec
from state.text_columns import typed_column
from state.types import parse_type

if TYPE_CHECKING:
    from service.runtime.sources.spec import SourceSpec

_NEWLINE, _RETURN = 10, 13
_MARK = b"\xef\xbb\xbf"
"""The byte order mark; before a line it is no part of it."""


class CsvDecoder:
    """Decodes blocks of CSV lines; empty lines are passed over."""

    def __init__(self, spec: SourceSpec) -> None:
        self._physical = [name for name, _ in spec.physical]
        self._names = list(spec.names)
        self._places = [self._physical.index(each) for each in spec.names]
        self._types = [parse_type(each) for each in spec.types]
        self._codec = RowCodec(self._types, self._names)
        self._dialect = CsvDialect.of(spec.options)
        self._field = _field_pattern(self._dialect)
        quote, escaped = re.escape(self._dialect.quote), _escaped(self._dialect)
        self._quoted_marks = re.compile(f"{quote}({quote})|{escaped}", re.DOTALL)
        self._plain_marks = re.compile(escaped, re.DOTALL)

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block, and what is wrong with the lines that are none."""
        found = self._fast(block)
        return self.decode_exactly(block) if found is None else found

    def decode_exactly(self, block: bytes) -> DecodedLines:
        """The exact way: one line at a time."""
        rows, good, rejected = [], [], []
        for number, text in enumerate(block.split(b"\n")):
            line = text.removesuffix(b"\r").removeprefix(_MARK)
            if not line:
                continue
            try:
                rows.append(self._row(line))
                good.append(number)
            except (_BadLine, CodecError) as error:
                rejected.append((number, str(error)))
        values = zip(*rows, strict=True) if rows else [()] * len(self._types)
        columns = [to_column(t, list(v)) for t, v in zip(self._types, values, strict=True)]
        return DecodedLines(
            columns, np.zeros(len(good), np.int8), np.array(good, np.int64), rejected
        )

    def _row(self, line: bytes) -> tuple[object, ...]:
        try:
            fields = self._split(line.decode())
        except UnicodeDecodeError:
            raise _BadLine("not valid UTF-8") from None
        if len(fields) != len(self._physical):
            raise _BadLine(f"{len(fields)} fields instead of {len(self._physical)}")
        return self._codec.decode_json([fields[each] for each in self._places])

    def _split(self, line: str) -> list[str | None]:
        fields: list[str | None] = []
        at = 0
        while at <= len(line):
            field = self._field.match(line, at)
            if field is None:
                raise _BadLine("a quote that is not closed, or text beside quotes")
            fields.append(self._text(field))
            at = field.end() + 1
        return fields

    def _text(self, field: re.Match[str]) -> str | None:
        quoted, plain = field["quoted"], field["plain"]
        if quoted is not None:
            return self._quoted_marks.sub(_kept, quoted)
        if plain == self._dialect.null:
            return None
        return self._plain_marks.sub(_kept, plain)

    def _fast(self, block: bytes) -> DecodedLines | None:
        """All lines of a block, each of which must be good; else None."""
        if not self._is_plain(block):
            return None
        lines = np.flatnonzero(_line_lengths(block) > 0)
        try:
            texts = self._texts(block)
        except pa.ArrowException:
            return None
        if any(len(each) != len(lines) for each in texts):
            return None
        columns = []
        for logical, text in zip(self._types, texts, strict=True):
            column = typed_column(logical, text)
            if column is None:
                return None
            columns.append(column)
        return DecodedLines(columns, np.zeros(len(lines), np.int8), lines, [])

    def _is_plain(self, block: bytes) -> bool:
        """Whether Arrow splits each line of the block as `_split` does."""
        escape, starts = self._dialect.escape, line_starts(block)
        if escape is not None and escape.encode() in block:
            return False
        # Arrow ends lines at a lone return, too, and knows the mark at the start of a block only.
        if block.count(b"\r") != block.count(b"\r\n") or b"\n" + _MARK in block:
            return False
        if not self._names or not _is_text(block):
            return False
        return self._quotes_are_plain(np.frombuffer(block, np.uint8), starts)

    def _quotes_are_plain(self, data: np.ndarray, starts: np.ndarray) -> bool:
        """Whether quotes only open a field, close it, or stand doubled between the two.

        Then each line has an even number of them, so that every other one of the block opens: at
        the start of a field, or as the second of two. What closes, ends the field or is the first.
        """
        quote, delimiter = ord(self._dialect.quote), ord(self._dialect.delimiter)
        quotes = np.flatnonzero(data == quote)
        if len(quotes) % 2 or (np.searchsorted(quotes, starts) % 2).any():
            return False
        opening, closing = quotes[0::2], quotes[1::2]
        before, after = data[opening - 1], data[np.minimum(closing + 1, len(data) - 1)]
        opens = np.isin(before, (delimiter, _NEWLINE, quote)) | (opening == 0)
        closes = np.isin(after, (delimiter, _NEWLINE, _RETURN, quote)) | (closing == len(data) - 1)
        return bool(opens.all() and closes.all())

    def _texts(self, block: bytes) -> list[pa.Array]:
        table = arrow_csv.read_csv(
            io.BytesIO(block),
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=self._physical
            ),
            arrow_csv.ParseOptions(
                delimiter=self._dialect.delimiter, quote_char=self._dialect.quote
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self._physical, pa.string()),
                include_columns=self._names,
                null_values=[self._dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return [each.combine_chunks() for each in table.columns]


class _BadLine(Exception):
    """A line that is no row, whatever the types are."""


def _escaped(dialect: CsvDialect) -> str:
    """An escape and the character that it keeps, a group; nothing matches without an escape."""
    return "(?!)" if dialect.escape is None else f"{re.escape(dialect.escape)}(.)"


def _kept(mark: re.Match[str]) -> str:
    return mark[mark.lastindex or 0]


def _field_pattern(dialect: CsvDialect) -> re.Pattern[str]:
    """One field, up to the delimiter or the line's end; groups `quoted` and `plain`."""
    comma, quote = re.escape(dialect.delimiter), re.escape(dialect.quote)
    escape = re.escape(dialect.escape or "")
    escaped = _escaped(dialect).replace("(.)", ".")
    quoted = f"{quote}(?P<quoted>(?:[^{quote}{escape}]|{quote}{quote}|{escaped})*+){quote}"
    plain = f"(?P<plain>(?!{quote})(?:[^{comma}{escape}]|{escaped})*+)"
    return re.compile(f"(?:{quoted}|{plain})(?={comma}|\\Z)", re.DOTALL)


def _is_text(block: bytes) -> bool:
    """Whether the block is UTF-8; Arrow does not look at columns that nobody asked for."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _line_lengths(block: bytes) -> np.ndarray:
    """Bytes of each line, without its end; 0 also for a line that holds nothing but a return."""
    data = np.frombuffer(block, np.uint8)
    starts = line_starts(block)
    ends = np.concatenate((starts[1:] - 1, [len(block) - int(block.endswith(b"\n"))]))
    returned = (ends > starts) & (data[np.maximum(ends - 1, 0)] == _RETURN)
    lengths: np.ndarray = ends - starts - returned
    return lengths
