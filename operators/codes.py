"""Integers below a bound that are equal where the values of columns are: what groups rows.

Equality is that of the canonical form: NaN is NaN, 0.0 is not -0.0, null is null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.arrow_columns import plain_numbers
from state.codec import RowCodec
from state.orders import stable_order
from state.types import TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.types import LogicalType

_CODES_MAX = 1 << 40
"""Codes are made dense beyond this bound, which leaves room to pack them with a position."""


@dataclass(frozen=True, slots=True)
class Codes:
    """Integers in [0, bound) that are equal where rows are."""

    values: NDArray[np.int64]
    bound: int


def dense(codes: Codes) -> Codes:
    """The same codes without gaps, in the same order of values."""
    values, bound = codes.values, codes.bound
    if bound == 1:
        return codes
    if bound <= 4 * values.size + 1024:
        present = np.zeros(bound, np.bool_)
        present[values] = True
        rank = np.cumsum(present) - 1
        return Codes(rank[values], int(rank[-1]) + 1)
    by_value = stable_order(values, bound)
    ordered = values[by_value]
    border = np.empty(values.size, np.bool_)
    border[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=border[1:])
    ranks = np.cumsum(border) - 1
    result = np.empty_like(values)
    result[by_value] = ranks
    return Codes(result, int(ranks[-1]) + 1 if ranks.size else 1)


def is_ascending(values: NDArray[np.int64]) -> bool:
    """Whether no value is below the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def combine(left: Codes, right: Codes) -> Codes:
    """Codes of pairs; either side is made dense if the product grows too large."""
    if left.bound * right.bound > _CODES_MAX:
        right = dense(right)
    if left.bound * right.bound > _CODES_MAX:
        left = dense(left)
    return Codes(left.values * right.bound + right.values, left.bound * right.bound)


def codes_of(array: pa.Array, logical: LogicalType) -> Codes:
    """The codes of one column, by the cheapest way that its type and content allow."""
    kind = array.type
    if pa.types.is_nested(kind):
        # Containers of containers have no cheap codes: their canonical bytes have.
        array = RowCodec([logical], ["value"]).encode_columns([array])
        return _dictionary(array)
    if pa.types.is_floating(kind):
        return _float_codes(array)
    if pa.types.is_boolean(kind):
        return _integer_codes(array.cast(pa.int8()), np.int8)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        width = kind.bit_width
        view = pa.int64() if width == 64 else pa.int32() if width == 32 else kind
        return _integer_codes(array.view(view), view.to_pandas_dtype(), units_cut(logical))
    return _dictionary(array)


def units_cut(logical: LogicalType) -> int:
    """How many units of Arrow's are one of a time's last digit: what is below is cut off.

    1 for what is no time of day or instant.
    """
    digits = 6 if logical.root in TIMESTAMP_ROOTS else 3 if logical.root is TypeRoot.TIME else 0
    unit: int = 10 ** max(0, digits - (logical.precision or 0))
    return unit


def _integer_codes(array: pa.Array, dtype: type[np.generic], unit: int = 1) -> Codes:
    """Distance from the smallest value, if that is not too far; null is one above the largest.

    Args:
        array: The numbers.
        dtype: Theirs.
        unit: Numbers with the same multiple of it below them are equal.
    """
    values = plain_numbers(array, dtype).astype(np.int64)
    if unit > 1:
        values //= unit
    if not values.size:
        return Codes(values, 1)
    valid = None
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        known = values[valid]
        if not known.size:
            return Codes(np.zeros(values.size, np.int64), 1)
        low, high = int(known.min()), int(known.max())
    else:
        low, high = int(values.min()), int(values.max())
    span = high - low + 1
    if span >= _CODES_MAX:
        return dense_numbers(values, valid)
    codes = values - low
    if valid is not None:
        codes[~valid] = span
        span += 1
    return Codes(codes, span)


def dense_numbers(values: NDArray[np.int64], valid: NDArray[np.bool_] | None) -> Codes:
    """Dense codes of any 64-bit numbers; null is one above the largest."""
    _, codes = np.unique(values, return_inverse=True)
    codes = codes.astype(np.int64)
    bound = int(codes.max()) + 1
    if valid is not None:
        codes[~valid] = bound
        bound += 1
    return Codes(codes, bound)


def _float_codes(array: pa.Array) -> Codes:
    """By bits, with one NaN."""
    dtype, bits = (np.float32, np.int32) if array.type == pa.float32() else (np.float64, np.int64)
    values = plain_numbers(array.cast(pa.float32() if dtype is np.float32 else pa.float64()), dtype)
    values = np.where(np.isnan(values), dtype("nan"), values)
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if not values.size:
        return Codes(np.zeros(0, np.int64), 1)
    return dense_numbers(values.view(bits).astype(np.int64), valid)


def _dictionary(array: pa.Array) -> Codes:
    encoded = array.dictionary_encode(null_encoding="encode")
    codes = plain_numbers(encoded.indices, np.int32).astype(np.int64)
    return Codes(codes, max(len(encoded.dictionary), 1))
