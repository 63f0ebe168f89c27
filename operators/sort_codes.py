"""Rows by their order: numbers for sort keys, made of whole columns.

`operators.ordering.SortKeys` gives a row's sort key as bytes that sort as it does. Where rows are
only compared with each other, within an epoch, numbers do: they are made of columns by the types'
own order, which is that of those bytes. A property test holds one to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.arrow_columns import plain_numbers
from operators.codes import units_cut
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from operators.ordering import SortColumn

    Integers = NDArray[np.int64]

CODE_MAX: Final = (1 << 63) - 1
"""Above every code."""
CODE_MIN: Final = -(1 << 63)
"""No code is below."""
_WITH_CODES: Final = frozenset(
    {
        *INTEGER_BITS,
        *STRING_ROOTS,
        *BINARY_ROOTS,
        *TIMESTAMP_ROOTS,
        TypeRoot.BOOLEAN,
        TypeRoot.DATE,
        TypeRoot.DECIMAL,
        TypeRoot.DOUBLE,
        TypeRoot.FLOAT,
        TypeRoot.TIME,
    }
)


def has_codes(logical: LogicalType) -> bool:
    """Whether values of this type can be sort keys here."""
    return logical.root in _WITH_CODES


def sort_codes(
    columns: Sequence[pa.Array], types: Sequence[LogicalType], order: Sequence[SortColumn]
) -> Integers:
    """Numbers that are in the order of the rows' sort keys; equal where these are.

    Args:
        columns: Those of the order, the most significant one first: of `arrow_type` of their types.
        types: Of the columns.
        order: Which way each goes, and where its nulls are; columns' places are not looked at.

    Returns:
        A number for each row, below `CODE_MAX`. They say nothing about other rows.
    """
    parts: list[Integers] = []
    for column, logical, by in zip(columns, types, order, strict=True):
        is_null = None
        if column.null_count:
            is_null = column.is_null().to_numpy(zero_copy_only=False)
            parts.append((is_null == by.nulls_last).astype(np.int64))
        for number in _numbers_of(column, logical):
            signed = ~number if by.descending else number
            parts.append(signed if is_null is None else np.where(is_null, 0, signed))
    only = parts[0]
    if len(parts) == 1 and (not only.size or int(only.max()) < CODE_MAX):
        return only
    by_place = np.lexsort(parts[::-1])
    differs = np.zeros(by_place.size, np.bool_)
    for part in parts:
        placed = part[by_place]
        differs[1:] |= placed[1:] != placed[:-1]
    codes = np.empty(by_place.size, np.int64)
    codes[by_place] = np.cumsum(differs)
    return codes


def _numbers_of(column: pa.Array, logical: LogicalType) -> list[Integers]:
    """Numbers in the order of a column's values, the most significant ones first.

    Of nulls they are any.
    """
    root = logical.root
    if root in STRING_ROOTS or root in BINARY_ROOTS:
        return [_of_bytes(column)]
    if root is TypeRoot.BOOLEAN:
        return [_whole(column.cast(pa.int8()), np.int8)]
    if root is TypeRoot.DECIMAL:
        return _of_decimals(column, logical)
    if root is TypeRoot.FLOAT:
        return [_of_floats(plain_numbers(column, np.float32), np.int32)]
    if root is TypeRoot.DOUBLE:
        return [_of_floats(plain_numbers(column, np.float64), np.int64)]
    if root in TIMESTAMP_ROOTS:
        return [_whole(column, np.int64) // units_cut(logical)]
    if root is TypeRoot.TIME:
        return [_whole(column, np.int32) // units_cut(logical)]
    if root is TypeRoot.DATE:
        return [_whole(column, np.int32)]
    return [_whole(column, column.type.to_pandas_dtype())]


def _whole(column: pa.Array, dtype: type[np.generic]) -> Integers:
    return plain_numbers(column, dtype).astype(np.int64)


def _of_bytes(column: pa.Array) -> Integers:
    encoded = column.dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(ranks.size)
    numbers = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return ranks[numbers] if ranks.size else np.zeros(len(column), np.int64)


def _of_decimals(column: pa.Array, logical: LogicalType) -> list[Integers]:
    """Of unscaled 128-bit numbers: the low half alone where it holds them."""
    data = column.buffers()[1]
    if data is None:
        return [np.zeros(len(column), np.int64)]
    halves = np.frombuffer(data, np.int64).reshape(-1, 2)
    low, high = halves[column.offset : column.offset + len(column)].T
    if (logical.precision or 0) <= 18:
        return [low]
    # The low half has no sign: its first bit is turned, so that it compares as if it had one.
    return [high, low ^ np.int64(-(1 << 63))]


def _of_floats(values: NDArray[np.generic], bits: type[np.signedinteger]) -> Integers:
    """By bits: those of a negative number are turned. There is one NaN, above infinity."""
    held = np.where(np.isnan(values), values.dtype.type("nan"), values)
    numbers = held.view(bits).astype(np.int64)
    width = np.iinfo(bits).max
    return np.where(numbers < 0, numbers ^ width, numbers)
