"""Formats of files and of ingress: bytes in, columns and kinds out, refused lines aside.

changelog-json   {"op": "+I", "data": {column: value, ...}} a line; option `changelog-mode`
json             {column: value, ...} a line, inserts only
csv              one line a row (no newline inside of quotes), inserts only; Flink's csv.* options
parquet          columns by name, inserts only
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from operators.changelog import RowKind
from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.sources.lines import line_starts
from state.codec import RowCodec
from state.types import arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.runtime.sources.spec import SourceSpec

LINE_FORMATS = frozenset({"changelog-json", "json", "csv"})
FORMATS = LINE_FORMATS | {"parquet"}

_MODE_NAMES = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}


def allowed_kinds(options: Mapping[str, str]) -> frozenset[RowKind]:
    """The kinds that a source may carry: its option `changelog-mode`, all if it is not given.

    Raises:
        InvalidTableOption: the option names something else than I, UB, UA and D.
    """
    text = options.get("changelog-mode", "I,UB,UA,D")
    names = [each.strip().upper() for each in text.split(",")]
    if not names or any(each not in _MODE_NAMES for each in names):
        raise InvalidTableOption(
            f'changelog-mode "{text}" is not a list of kinds', hint="for example I,UB,UA,D"
        )
    return frozenset(_MODE_NAMES[each] for each in names)


def format_of(options: Mapping[str, str]) -> str:
    """The table's format.

    Raises:
        InvalidTableOption: there is none.
        UnsupportedConnector: it is not one of ours.
    """
    name = options.get("format")
    if name is None:
        raise InvalidTableOption("the table has no format", hint=f"one of {sorted(FORMATS)}")
    if name not in FORMATS:
        raise UnsupportedConnector(
            f'format "{name}" is not supported', hint=f"one of {sorted(FORMATS)}"
        )
    return name


@dataclass(frozen=True, slots=True)
class DecodedLines:
    """What a block of lines holds; line numbers count from 0 within the block."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    lines: np.ndarray
    """The line of each row."""
    rejected: Sequence[tuple[int, str]]


class LineDecoder:
    """Decodes blocks of whole JSON lines; kinds that the table may not carry are refused."""

    def __init__(self, spec: SourceSpec, *, with_op: bool) -> None:
        self._codec = RowCodec([parse_type(each) for each in spec.types], spec.names)
        self._with_op = with_op
        allowed = allowed_kinds(spec.options)
        self._mode = spec.options.get("changelog-mode", "")
        self._refused = np.array([each not in allowed for each in sorted(RowKind)])

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block."""
        found = self._codec.decode_json_lines(block, with_op=self._with_op)
        kinds, lines, columns = np.asarray(found.kinds), np.asarray(found.row_index), found.columns
        rejected = list(found.rejected)
        refused = self._refused[kinds]
        if refused.any():
            reason = 'kind {} is not in changelog-mode "{}"'
            rejected += [
                (int(lines[at]), reason.format(RowKind(int(kinds[at])).short, self._mode))
                for at in np.flatnonzero(refused)
            ]
            keep = ~refused
            kinds, lines = kinds[keep], lines[keep]
            columns = [each.filter(pa.array(keep)) for each in columns]
        return DecodedLines(columns, kinds, lines, sorted(rejected))


class CsvDecoder:
    """Decodes blocks of CSV lines by position of the columns, as Flink's csv format does.

    Columns are split and cast by Arrow; a block with a value that does not cast goes the exact way
    of JSON, row by row, which says which line is wrong and why.
    """

    def __init__(self, spec: SourceSpec) -> None:
        options = spec.options
        self._physical = [name for name, _ in spec.physical]
        self._names = list(spec.names)
        types = [parse_type(each) for each in spec.types]
        self._targets = [arrow_type(each) for each in types]
        self._codec = RowCodec(types, self._names)
        self._texts = RowCodec([parse_type("STRING")] * len(types), self._names)
        self._parse = {
            "delimiter": options.get("csv.field-delimiter", ",").replace("\\t", "\t"),
            "quote_char": options.get("csv.quote-character", '"'),
            "escape_char": options.get("csv.escape-character", False),
        }
        # An empty field is null unless it is quoted; Flink has a literal for null instead.
        self._nulls = [options.get("csv.null-literal", "")]

    def decode(self, block: bytes) -> DecodedLines:
        """The rows of a block; a line with too few or too many fields is refused."""
        refused: list[tuple[int, str]] = []
        texts = self._split(block, refused)
        wrong = {line for line, _ in refused}
        filled = np.flatnonzero(_line_lengths(block) > 0)
        lines = np.array(
            [each for each in filled.tolist() if each not in wrong] if wrong else filled
        )
        try:
            columns = [t.cast(k) for t, k in zip(texts, self._targets, strict=True)]
        except pa.ArrowInvalid:
            return self._one_by_one(texts, lines, refused)
        return DecodedLines(columns, np.zeros(len(lines), np.int8), lines, refused)

    def _split(self, block: bytes, refused: list[tuple[int, str]]) -> list[pa.Array]:
        filled = np.flatnonzero(_line_lengths(block) > 0)

        def refuse(row: arrow_csv.InvalidRow) -> str:
            reason = f"{row.actual_columns} fields instead of {row.expected_columns}"
            refused.append((int(filled[row.number - 1]), reason))
            return "skip"

        table = arrow_csv.read_csv(
            io.BytesIO(block),
            # One thread, one block: then a row's number says its line.
            arrow_csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=self._physical
            ),
            arrow_csv.ParseOptions(**self._parse, invalid_row_handler=refuse),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(self._physical, pa.string()),
                include_columns=self._names,
                null_values=self._nulls,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return [each.combine_chunks() for each in table.columns]

    def _one_by_one(
        self, texts: Sequence[pa.Array], lines: np.ndarray, refused: list[tuple[int, str]]
    ) -> DecodedLines:
        block = self._texts.encode_json_block(None, texts)
        found = self._codec.decode_json_lines(block, with_op=False)
        good = lines[np.asarray(found.row_index)]
        refused += [(int(lines[row]), reason) for row, reason in found.rejected]
        return DecodedLines(found.columns, np.asarray(found.kinds), good, sorted(refused))


def _line_lengths(block: bytes) -> np.ndarray:
    """Bytes of each line, without its end; 0 also for a line that holds nothing but a return."""
    data = np.frombuffer(block, np.uint8)
    starts = line_starts(block)
    ends = np.concatenate((starts[1:] - 1, [len(block) - int(block.endswith(b"\n"))]))
    returned = (ends > starts) & (data[np.maximum(ends - 1, 0)] == 13)
    lengths: np.ndarray = ends - starts - returned
    return lengths
