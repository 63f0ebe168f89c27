"""Lines of outside JSON in blocks: changes or plain rows (`line_shapes`).

A block takes one of two ways. The *fast* way lets Arrow parse it whole, for columns whose JSON
Arrow reads as we do; times and decimals are read as strings and cast. Whatever it finds that is
odd (an error, a null in a NOT NULL column, a number that only Arrow knows) it gives up, and the
*exact* way reads the block line by line, which also says what is wrong with which line. The two
must agree on every block: where Arrow is more lenient than the exact way, `_FastReader` makes sure
that it is not asked. A property test drives lines of both kinds at them.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from state.arrow_values import to_column
from state.json_values import InexactNumber, NumberText, json_decoder
from state.line_shapes import BadLine
from state.text_columns import finite_floats, typed_column
from state.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    arrow_type,
)
from state.values import CodecError, kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.line_shapes import LineShape, ShapedRows

LINE_BYTES_MAX = 16 * 1024 * 1024
"""A longer line is refused: no row of a table is that long, and it would fill the memory."""

_BLANK = b" \t\r\n"
"""JSON's own white space; other control characters make a line malformed."""
_NOT_JSON = "not valid JSON"


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a block of lines holds: its rows in columns, and why other lines have none."""

    kinds: NDArray[np.int8]
    """The `RowKind` of each row."""
    columns: list[pa.Array]
    row_index: NDArray[np.int64]
    """Of each row, the number of its line in the block from 0; blank lines count, too."""
    rejected: list[tuple[int, str]]
    """Line number and reason, without any value of the line."""


class LineDecoder:
    """Decodes blocks of lines for one table. Lines of white space only are passed over."""

    __slots__ = ("_decoders", "_fast", "_names", "_shape", "_types")

    def __init__(
        self, types: Sequence[LogicalType], names: Sequence[str], shape: LineShape
    ) -> None:
        self._types = tuple(types)
        self._names = tuple(names)
        self._shape = shape
        self._decoders = [json_decoder(each, exact=True) for each in types]
        self._fast = _FastReader.of(types, names, shape)

    def decode(self, lines: bytes | Sequence[bytes]) -> Decoded:
        """Decode a block: its bytes, or its lines."""
        if isinstance(lines, bytes):
            found = self._decode_fast(lines.rstrip(_BLANK), None)
            if found is not None:
                return found
            lines = lines.split(b"\n")
        filled = [(at, line) for at, line in enumerate(map(_strip, lines)) if line]
        # Blank lines may have been all that was in the way.
        found = self._decode_fast(b"\n".join([line for _, line in filled]), len(filled))
        if found is None:
            return self.decode_exactly(filled)
        index = np.fromiter((at for at, _ in filled), np.int64, len(filled))
        return dataclasses.replace(found, row_index=index[found.row_index])

    def _decode_fast(self, block: bytes, count: int | None) -> Decoded | None:
        """All lines of a block, which may not be blank; as many as given, if some were joined."""
        read = self._fast.read(block, count) if self._fast is not None and block else None
        return None if read is None else Decoded(read.kinds, list(read.columns), read.lines, [])

    def decode_exactly(self, lines: Sequence[tuple[int, bytes]]) -> Decoded:
        """The exact way: numbered lines, one at a time."""
        kinds: list[int] = []
        rows: list[tuple[Any, ...]] = []
        index: list[int] = []
        rejected: list[tuple[int, str]] = []
        for number, line in lines:
            try:
                changes = self._decode_line(line)
            except CodecError as error:
                rejected.append((number, str(error)))
            except BadLine as error:
                rejected.append((number, error.reason))
            else:
                for kind, row in changes:
                    kinds.append(kind)
                    rows.append(row)
                    index.append(number)
        values = zip(*rows, strict=True) if rows else [()] * len(self._types)
        columns = [to_column(t, list(v)) for t, v in zip(self._types, values, strict=True)]
        return Decoded(np.array(kinds, np.int8), columns, np.array(index, np.int64), rejected)

    def _decode_line(self, line: bytes) -> list[tuple[int, tuple[Any, ...]]]:
        if len(line) > LINE_BYTES_MAX:
            raise BadLine(f"longer than {LINE_BYTES_MAX} bytes")
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            raise BadLine(_NOT_JSON) from None
        try:
            return self._decode_document(document)
        except InexactNumber:
            # Only the standard library keeps the digits of a number that is no integer.
            return self._decode_document(_parse_exactly(line))

    def _decode_document(self, document: object) -> list[tuple[int, tuple[Any, ...]]]:
        if not isinstance(document, dict):
            also = ": a tombstone, which is no change here" if document is None else ""
            raise BadLine(f"must be an object, found {kind_of(document)}{also}")
        return [
            (kind, decode_object(self._names, self._decoders, row))
            for kind, row in self._shape.changes(document)
        ]


def decode_object(
    names: Sequence[str], decoders: Sequence[Any], data: dict[str, Any]
) -> tuple[Any, ...]:
    """The values of an object's columns; what is missing is null, what is not asked for ignored.

    Raises:
        CodecError: A value is not of its column's type, or null where it must not be.
    """
    row: list[Any] = []
    for name, decode in zip(names, decoders, strict=True):
        try:
            row.append(decode(data.get(name)))
        except CodecError as error:
            if isinstance(error, InexactNumber):
                raise
            raise error.in_column(name) from None
    return tuple(row)


def _strip(line: bytes) -> bytes:
    return line.strip(_BLANK)


def _parse_exactly(line: bytes) -> Any:
    try:
        return json.loads(line, parse_float=NumberText)
    except (ValueError, RecursionError, decimal.InvalidOperation):
        # Deeper, or with longer numbers, than the standard library takes.
        raise BadLine(_NOT_JSON) from None


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_NUMBER = r"NaN|Inf|[:,\[]\s*-?(?:[0-9]{200}|[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3})"
"""Words that only Arrow takes as numbers, and numbers that a double may not hold (RE2)."""
_DEPTH_SAFE = 1000
_TEXT_ROOTS = frozenset({TypeRoot.DATE, TypeRoot.DECIMAL, *TIMESTAMP_ROOTS})
_FAST_ROOTS = _TEXT_ROOTS | FLOAT_ROOTS | STRING_ROOTS | {*INTEGER_BITS, TypeRoot.BOOLEAN}


class _FastReader:
    """Reads a block with Arrow, or says that it cannot."""

    __slots__ = ("_lenient", "_shape", "_strict", "_strict_fails", "_types")

    def __init__(
        self, types: Sequence[LogicalType], names: Sequence[str], shape: LineShape
    ) -> None:
        self._types = tuple(types)
        self._shape = shape
        row = [pa.field(n, _read_as(t)) for n, t in zip(names, types, strict=True)]
        fields = pa.schema(shape.fields(row))
        self._strict, self._lenient = (
            pa_json.ParseOptions(explicit_schema=fields, unexpected_field_behavior=each)
            for each in ("error", "ignore")
        )
        # Whether the last block had fields that are not asked for: then the next one will, too.
        self._strict_fails = False

    @classmethod
    def of(
        cls, types: Sequence[LogicalType], names: Sequence[str], shape: LineShape
    ) -> _FastReader | None:
        """A reader, if all columns have types that Arrow can read."""
        readable = all(each.root in _FAST_ROOTS for each in types)
        unique = len(set(names)) == len(names)
        return cls(types, names, shape) if types and readable and unique else None

    def read(self, block: bytes, lines: int | None) -> ShapedRows | None:
        """The rows of a block of lines, so many if that is known, all of them good; else None."""
        lengths = _object_lengths(block)
        if lengths is None or int(lengths.max()) > LINE_BYTES_MAX or _has_bad_text(block):
            return None
        count = lengths.size
        if lines not in (None, count) or not self._shape.is_columnar(block):
            return None
        found = None if self._strict_fails else self._read_block(block, count, self._strict)
        if found is None and not _is_odd(block, lengths):
            found = self._read_block(block, count, self._lenient)
            self._strict_fails = found is not None
        return found

    def _read_block(
        self, block: bytes, count: int, options: pa_json.ParseOptions
    ) -> ShapedRows | None:
        try:
            table = pa_json.read_json(
                pa.BufferReader(block),
                pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                options,
            )
            return self._columns(table) if table.num_rows == count else None
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None

    def _columns(self, table: pa.Table) -> ShapedRows | None:
        read = [each.combine_chunks() for each in table.columns]
        # A line with a number that is none is bad even where it gives no row: in the row before
        # an insert, say, whose values nobody looks at.
        if not all(map(_has_only_numbers, read)):
            return None
        found = self._shape.rows(read)
        if found is None:
            return None
        columns = [_checked(t, a) for t, a in zip(self._types, found.columns, strict=True)]
        if any(each is None for each in columns):
            return None
        return dataclasses.replace(found, columns=columns)


def _has_only_numbers(column: pa.Array) -> bool:
    """Whether no double in a column, or within its structs, is NaN or infinite."""
    if pa.types.is_struct(column.type):
        return all(map(_has_only_numbers, column.flatten()))
    if not pa.types.is_floating(column.type):
        return True
    return bool(pc.all(pc.is_finite(column), min_count=0).as_py())


def _read_as(logical: LogicalType) -> pa.DataType:
    if logical.root in _TEXT_ROOTS:
        return pa.string()
    return pa.float64() if logical.root is TypeRoot.FLOAT else arrow_type(logical)


def _has_bad_text(block: bytes) -> bool:
    """Whether text may be no Unicode, which Arrow does not look at; pairs of surrogates count."""
    if b"\\u" in block and _SURROGATE.search(block):
        return True
    try:
        block.decode()
    except UnicodeDecodeError:
        return True
    return False


def _is_odd(block: bytes, lengths: NDArray[np.int64]) -> bool:
    """Whether Arrow may take what orjson does not, in fields that nobody asked for.

    That is a number that is none in JSON or in a double, or arrays and objects 1,024 deep.
    """
    if int(lengths.max()) > 2 * _DEPTH_SAFE:
        for line in block.split(b"\n"):
            if line.count(b"[") + line.count(b"{") > _DEPTH_SAFE:
                return True
    return bool(pc.match_substring_regex(pa.array([block]), _NO_NUMBER)[0].as_py())


def _object_lengths(block: bytes) -> NDArray[np.int64] | None:
    """Bytes of each line, if each starts and ends as an object does.

    Then none spans two lines: "}" never comes before "{" inside an object. So as many objects as
    lines means one in each.
    """
    data = np.frombuffer(block, np.uint8)
    breaks = np.flatnonzero(data == ord("\n"))
    starts = np.concatenate(([0], breaks + 1))
    ends = np.concatenate((breaks, [data.size]))
    lengths = ends - starts
    if not lengths.all():
        return None
    whole = (data[starts] == ord("{")) & (data[ends - 1] == ord("}"))
    return lengths if whole.all() else None


def _checked(logical: LogicalType, column: pa.Array) -> pa.Array | None:
    """The column, if the exact way is sure to read the same."""
    if logical.root in _TEXT_ROOTS:
        return typed_column(logical, column)
    if column.null_count and not logical.nullable:
        return None
    return _checked_floats(logical, column) if logical.root in FLOAT_ROOTS else column


def _checked_floats(logical: LogicalType, column: pa.Array) -> pa.Array | None:
    values = column.fill_null(1.0).to_numpy()
    # "-0" is an integer, so 0.0 for the exact way, but -0.0 for Arrow.
    if ((values == 0) & np.signbit(values)).any():
        return None
    return finite_floats(logical, column)
