"""Columns to JSON texts and back, without a step of Python for each row.

`texts_of` writes a column as JSON texts, equal byte for byte to what orjson writes for each value's
canonical (or shown) form: Arrow's casts do integers and times, orjson itself does doubles as one
array, strings are passed through where nothing needs an escape. Only nested types, binary, and the
single strings that need escapes are written one at a time. `columns_of` reads canonical rows back.
Texts of several columns are put together by `state.joined_rows`.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from state.arrow_values import python_values, to_column
from state.digits import WITHOUT_COMMA
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    arrow_type,
    format_type,
)
from state.values import (
    CodecError,
    StoredTextCorrupt,
    canonical_decoder,
    canonical_encoder,
    double_json,
    shown_encoder,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970: what Flink and Python can say."""
_DAY_US = 86_400_000_000
_DAY_MS = 86_400_000
_ESCAPED = r'[\x00-\x1f"\\]'
"""What orjson escapes in a string."""


@dataclass(frozen=True, slots=True)
class Texts:
    """A column as JSON."""

    texts: pa.Array
    """A string array, null where the column is."""
    quoted: bool
    """The texts are the inside of JSON strings: the quotes are still to be put around."""

    def pieces(self) -> tuple[str, pa.Array, str]:
        """What to write before, for and after each value; nulls of the array mean null."""
        if not self.quoted:
            return "", self.texts, ""
        if not self.texts.null_count:
            return '"', self.texts, '"'
        quote = pa.scalar('"')
        return "", pc.binary_join_element_wise(quote, self.texts, quote, ""), ""


def texts_of(logical: LogicalType, column: pa.Array, *, shown: bool = False) -> Texts:
    """A column as JSON texts, canonical or as shown outside.

    Raises:
        CodecError: A value has no canonical form: a time outside the years 1 to 9999, text that is
            not UTF-8.
    """
    column = _plain(logical, column)
    root = logical.root
    if root in STRING_ROOTS:
        return Texts(_escape(logical, column), quoted=True)
    if root in INTEGER_BITS or root is TypeRoot.BOOLEAN:
        return Texts(column.cast(pa.string()), quoted=False)
    if root in FLOAT_ROOTS:
        return Texts(_floats(column), quoted=False)
    if root is TypeRoot.DECIMAL:
        return Texts(_decimals(logical, column), quoted=True)
    if root in TIMESTAMP_ROOTS:
        return Texts(_timestamps(logical, column, " " if shown else "T"), quoted=True)
    if root is TypeRoot.DATE:
        _check_range(logical, column.view(pa.int32()), *_DAYS)
        return Texts(column.cast(pa.string()), quoted=True)
    if root is TypeRoot.TIME:
        return Texts(_times(logical, column), quoted=True)
    if root in BINARY_ROOTS:
        return Texts(_base64(column), quoted=True)
    return Texts(_one_by_one(logical, column, shown=shown), quoted=False)


def joined_bytes(rows: pa.BinaryArray) -> bytes:
    """All rows, one after the other, as one piece."""
    return _bytes_of(rows).tobytes()


def columns_of(types: Sequence[LogicalType], rows: Sequence[bytes] | pa.Array) -> list[pa.Array]:
    """Canonical rows as typed columns.

    Raises:
        StoredTextCorrupt: A row is no canonical row of these types.
    """
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        rows = rows.to_pylist()
    count = len(types)
    try:
        values = orjson.loads(_flat(rows)) if count and len(rows) else []
        if type(values) is not list or len(values) != count * len(rows):
            raise StoredTextCorrupt(f"canonical rows of {count} values")
        return [_read(logical, values[at::count]) for at, logical in enumerate(types)]
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        raise StoredTextCorrupt(f"canonical rows of {count} values") from None


def _flat(rows: Sequence[bytes]) -> bytes:
    """Canonical rows, at least one, as one array: a list each would cost more than parsing it.

    Raises:
        StoredTextCorrupt: One has not its brackets, so may be cut off where a value still reads.
    """
    # Line breaks within a row are escaped.
    text = b"\n".join(rows)
    found = text.replace(b"]\n[", b",")
    if len(text) - len(found) != 2 * (len(rows) - 1):
        raise StoredTextCorrupt("canonical rows")
    return found


def leading_columns_of(
    types: Sequence[LogicalType], rows: Sequence[bytes] | pa.Array, count: int
) -> list[pa.Array]:
    """The first columns of canonical rows, so many; what is behind is not parsed if need not be.

    Raises:
        CodecError: As `columns_of`, as far as was looked.
    """
    is_split = all(each.root in WITHOUT_COMMA for each in types[:count])
    if not (is_split and 0 < count < len(types)):
        return columns_of(types, rows)[:count]
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        rows = rows.to_pylist()
    heads = [b",".join(row.split(b",", count)[:count]) + b"]" for row in rows]
    return columns_of(types[:count], heads)


def _plain(logical: LogicalType, column: pa.Array) -> pa.Array:
    """The column as one array of the very type that `arrow_type` says."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    wanted = arrow_type(logical)
    return column if column.type == wanted else column.cast(wanted)


def _check_range(logical: LogicalType, column: pa.Array, least: int, most: int) -> None:
    if column.null_count == len(column):
        return
    found = pc.min_max(column)
    if found["min"].as_py() < least or found["max"].as_py() > most:
        raise CodecError(None, format_type(logical), "a time out of range")


def _escape(logical: LogicalType, column: pa.Array) -> pa.Array:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        found = "bytes that are not UTF-8"
        raise CodecError(None, format_type(logical), found) from None
    data = _bytes_of(column)
    # A byte below 0x80 is never part of a longer character, so bytes can be looked at alone.
    if not ((data < 0x20) | (data == ord('"')) | (data == ord("\\"))).any():
        return column
    mask = pc.match_substring_regex(column, _ESCAPED).fill_null(False)
    found = column.filter(mask).to_pylist()
    escaped = [orjson.dumps(each)[1:-1].decode() for each in found]
    return pc.replace_with_mask(column, mask, pa.array(escaped, pa.string()))


def _bytes_of(column: pa.Array) -> NDArray[np.uint8]:
    """The bytes of all strings of an array, one after the other."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]]


def _floats(column: pa.Array) -> pa.Array:
    if not len(column):
        return pa.array([], pa.string())
    values = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    odd = ~np.isfinite(values)
    special = values[odd].tolist()
    if special:
        values = np.where(odd, values.dtype.type(0), values)
    if values.dtype == np.float32:
        # The fewest digits of 32 bits, then as doubles: orjson lays out 32-bit floats differently.
        values = pa.array(values).cast(pa.string()).cast(pa.float64()).to_numpy()
    texts = _split(orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY))
    if special:
        names = [f'"{double_json(each)}"' for each in special]
        texts = pc.replace_with_mask(texts, pa.array(odd), pa.array(names))
    if column.null_count:
        texts = pc.if_else(column.is_valid(), texts, None)
    return texts


def _split(numbers: bytes) -> pa.Array:
    """The elements of a JSON array of numbers (at least one), as texts."""
    data = np.frombuffer(numbers, np.uint8)[1:-1]
    commas = data == ord(",")
    places = np.flatnonzero(commas)
    offsets = np.zeros(places.size + 2, np.int32)
    offsets[1:-1] = places - np.arange(places.size)
    offsets[-1] = data.size - places.size
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[~commas])]
    return pa.Array.from_buffers(pa.string(), places.size + 1, buffers)


def _decimals(logical: LogicalType, column: pa.Array) -> pa.Array:
    # Arrow writes small decimals with an exponent. Unscaled they are integers, which have none.
    whole = pa.decimal128(column.type.precision, 0)
    unscaled = pa.Array.from_buffers(
        whole, len(column), column.buffers(), column.null_count, column.offset
    )
    texts = unscaled.cast(pa.string())
    scale = logical.scale or 0
    if not scale:
        return texts
    negative = pc.starts_with(texts, "-")
    digits = pc.utf8_lpad(pc.utf8_ltrim(texts, "-"), scale + 1, "0")
    pointed = pc.binary_replace_slice(digits, -scale, -scale, ".")
    if not pc.any(negative).as_py():
        return pointed
    sign = pc.if_else(negative, pa.scalar("-"), pa.scalar(""))
    return pc.binary_join_element_wise(sign, pointed, "")


def _timestamps(logical: LogicalType, column: pa.Array, separator: str) -> pa.Array:
    local = column.view(pa.int64())
    least, most = _DAYS[0] * _DAY_US, (_DAYS[1] + 1) * _DAY_US - 1
    _check_range(logical, local, least, most)
    digits = logical.precision or 0
    if digits < 6:
        unit = 10 ** (6 - digits)
        values = local.fill_null(0).to_numpy()
        cut = pa.array(values - values % unit)
        local = pc.if_else(column.is_valid(), cut, None) if column.null_count else cut
    texts = local.view(pa.timestamp("us")).cast(pa.string())
    if separator != " ":
        texts = pc.binary_replace_slice(texts, 10, 11, separator)
    # The point ends the run of zeros that is cut off.
    texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    if logical.root is TypeRoot.TIMESTAMP_LTZ:
        texts = pc.binary_join_element_wise(texts, pa.scalar("Z"), "")
    return texts


def _times(logical: LogicalType, column: pa.Array) -> pa.Array:
    _check_range(logical, column, 0, _DAY_MS - 1)
    unit = 10 ** (3 - (logical.precision or 0))
    values = column.fill_null(0).to_numpy()
    texts = pa.array(values - values % unit, pa.int32()).view(pa.time32("ms")).cast(pa.string())
    texts = pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return pc.if_else(column.is_valid(), texts, None) if column.null_count else texts


def _base64(column: pa.Array) -> pa.Array:
    encode = binascii.b2a_base64
    values = [None if v is None else encode(v, newline=False) for v in column.to_pylist()]
    return pa.array(values, pa.binary()).cast(pa.string())


def _one_by_one(logical: LogicalType, column: pa.Array, *, shown: bool) -> pa.Array:
    encode = shown_encoder(logical) if shown else canonical_encoder(logical)
    values = python_values(logical, column)
    texts = [None if v is None else orjson.dumps(encode(v)) for v in values]
    return pa.array(texts, pa.binary()).cast(pa.string())


def _read(logical: LogicalType, values: list[Any]) -> pa.Array:
    """A column of canonical JSON values."""
    root = logical.root
    if root in INTEGER_BITS or root in STRING_ROOTS or root is TypeRoot.BOOLEAN:
        return pa.array(values, arrow_type(logical))
    if root in FLOAT_ROOTS:
        return _read_floats(logical, values)
    if root in TIMESTAMP_ROOTS or root in (TypeRoot.DATE, TypeRoot.DECIMAL):
        return pa.array(values, pa.string()).cast(arrow_type(logical))
    if root in BINARY_ROOTS:
        decode = binascii.a2b_base64
        return pa.array([None if v is None else decode(v) for v in values], pa.binary())
    convert = canonical_decoder(logical)
    if convert is not None:
        values = [None if v is None else convert(v) for v in values]
    return to_column(logical, values)


def _read_floats(logical: LogicalType, values: list[Any]) -> pa.Array:
    try:
        column = pa.array(values, pa.float64())
    except pa.ArrowInvalid:
        # Some are "NaN" or infinite, which JSON has no number for.
        column = pa.array([None if v is None else float(v) for v in values], pa.float64())
    return column if logical.root is TypeRoot.DOUBLE else column.cast(pa.float32(), safe=False)
