"""Key groups: the unit of state, of commit and of rescale, computed as Spark computes them.

    key group = pmod(xxhash64(column 1, column 2, ...), max_parallelism)

The exchange before an operator computes it on the JVM; look-ups by key, tests and the heap backend
compute it here, and the two agree bit for bit. `xxhash64` chains its columns: the hash of one
is the seed of the next, the first seed is 42, and null leaves the seed as it is.

    BOOLEAN, TINYINT to INTEGER, DATE, TIME  the number as 4 bytes, little endian
    BIGINT, TIMESTAMP, TIMESTAMP_LTZ         the number (times: microseconds) as 8 bytes
    FLOAT, DOUBLE                            the bits as 4 or 8 bytes; -0.0 as 0.0, NaNs as one
    DECIMAL(p <= 18)                         the unscaled number as 8 bytes
    DECIMAL(p > 18)                          the unscaled number, shortest two's complement, big end
                                             first
    CHAR, VARCHAR, BINARY, VARBINARY         the bytes
    ARRAY, ROW                               its values, chained
    MAP, MULTISET                            refused, as by Spark

Equal canonical keys have equal key groups; so have 0.0 and -0.0, which are different keys. Times
are cut to the declared precision, as in canonical keys: Spark must see them cut, too.

Source: Spark 4.3 `XxHash64Function`, `HashExpression`; TIME is INT on our wires (`state.types`).
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from state.arrow_values import python_values
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    UnsupportedType,
    arrow_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Hash = Callable[[Any, int], int]
    Hashes = NDArray[np.uint64]

SEED = 42
"""Spark's default."""
_LONG_DECIMAL = 18
"""Digits of a decimal that Spark hashes as a 64-bit integer."""
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_INT = struct.Struct("<i")
_LONG = struct.Struct("<q")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_FLOAT_NAN = struct.pack("<I", 0x7FC00000)
_DOUBLE_NAN = struct.pack("<Q", 0x7FF8000000000000)


def key_group(types: Sequence[LogicalType], values: Sequence[Any], max_parallelism: int) -> int:
    """The key group of a key.

    Args:
        types: Types of the key's columns.
        values: Their Python values, or None.
        max_parallelism: The number of key groups, fixed for the life of the state.

    Raises:
        UnsupportedType: A column is or holds a MAP or MULTISET.

    >>> from state.types import parse_type
    >>> key_group([parse_type("STRING")], ["N14228"], 128)
    13
    """
    seed = SEED
    for logical, value in zip(types, values, strict=True):
        seed = _hash_of(logical)(value, seed)
    return _signed(seed) % max_parallelism


def key_groups_of_columns(
    types: Sequence[LogicalType], columns: Sequence[pa.Array], max_parallelism: int
) -> NDArray[np.int32]:
    """The key group of each row of key columns.

    Cost: a few vector operations a column for numbers; one hash for each distinct string where it
    is the first column.

    Raises:
        UnsupportedType: A column is or holds a MAP or MULTISET.
    """
    count = len(columns[0]) if columns else 0
    seeds = np.full(count, SEED, np.uint64)
    for at, (logical, column) in enumerate(zip(types, columns, strict=True)):
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        wanted = arrow_type(logical)
        column = column if column.type == wanted else column.cast(wanted)
        seeds = _column_hashes(logical, column, seeds, first=at == 0)
    return np.mod(seeds.view(np.int64), max_parallelism).astype(np.int32)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _hash_of(logical: LogicalType) -> Hash:
    """From a value, or None, and a seed to the hash."""
    root = logical.root
    if root in (TypeRoot.ARRAY, TypeRoot.ROW):
        return _chain(logical)
    if root in MAP_ROOTS:
        raise UnsupportedType(logical, "maps cannot be part of a key")
    encode = _bytes_of(logical)

    def hashed(value: object, seed: int) -> int:
        return seed if value is None else xxhash.xxh64_intdigest(encode(value), seed)

    return hashed


def _chain(logical: LogicalType) -> Hash:
    hashes = [_hash_of(each) for each in logical.children]
    is_row = logical.root is TypeRoot.ROW

    def hashed(value: Sequence[Any] | None, seed: int) -> int:
        if value is None:
            return seed
        chosen = hashes if is_row else hashes * len(value)
        for each, part in zip(chosen, value, strict=True):
            seed = each(part, seed)
        return seed

    return hashed


def _bytes_of(logical: LogicalType) -> Callable[[Any], bytes]:
    """From a value to the bytes that Spark hashes."""
    root = logical.root
    if root in STRING_ROOTS:
        return str.encode
    if root in BINARY_ROOTS:
        return bytes
    if root is TypeRoot.BIGINT:
        return _LONG.pack
    if root in INTEGER_BITS or root is TypeRoot.BOOLEAN:
        return lambda value: _INT.pack(int(value))
    if root in TIMESTAMP_ROOTS:
        unit = 10 ** (6 - (logical.precision or 0))
        return lambda value: _LONG.pack(_microseconds(value) // unit * unit)
    match root:
        case TypeRoot.DATE:
            return lambda value: _INT.pack(value.toordinal() - _EPOCH_DAY)
        case TypeRoot.TIME:
            return _time_bytes
        case TypeRoot.FLOAT:
            return lambda value: _FLOAT_NAN if math.isnan(value) else _FLOAT.pack(value + 0.0)
        case TypeRoot.DOUBLE:
            return lambda value: _DOUBLE_NAN if math.isnan(value) else _DOUBLE.pack(value + 0.0)
        case TypeRoot.DECIMAL:
            return _decimal_bytes(logical)
        case _:
            raise UnsupportedType(logical, "it cannot be part of a key")


def _microseconds(value: dt.datetime) -> int:
    return (value.replace(tzinfo=value.tzinfo or dt.UTC) - _EPOCH) // _MICROSECOND


def _time_bytes(value: dt.time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _INT.pack(seconds * 1000 + value.microsecond // 1000)


def _decimal_bytes(logical: LogicalType) -> Callable[[Any], bytes]:
    scale, is_long = logical.scale or 0, (logical.precision or 0) <= _LONG_DECIMAL

    def encode(value: Any) -> bytes:  # a finite Decimal, as columns of DECIMAL hold no other
        sign, digits, exponent = value.as_tuple()
        magnitude: int = int("".join(map(str, digits))) * int(10 ** (exponent + scale))
        unscaled = -magnitude if sign else magnitude
        if is_long:
            return _LONG.pack(unscaled)
        # As Java's BigInteger: one bit for the sign, so -128 takes one byte and 128 two.
        bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length() + 1
        return unscaled.to_bytes((bits + 7) // 8, "big", signed=True)

    return encode


def _column_hashes(logical: LogicalType, column: pa.Array, seeds: Hashes, *, first: bool) -> Hashes:
    numbers = _fixed_width(logical, column)
    if numbers is not None:
        hashes = _xxh64_of_numbers(numbers, seeds)
    elif first and (logical.root in STRING_ROOTS or logical.root in BINARY_ROOTS):
        # One seed for all rows: equal values have equal hashes.
        encoded = column.dictionary_encode()
        hashed = _one_by_one(logical, encoded.dictionary, np.full(len(encoded.dictionary), SEED))
        hashes = hashed[encoded.indices.fill_null(0).to_numpy()] if hashed.size else seeds
    else:
        return _one_by_one(logical, column, seeds)
    if not column.null_count:
        return hashes
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), hashes, seeds)


def _one_by_one(logical: LogicalType, column: pa.Array, seeds: NDArray[Any]) -> Hashes:
    hashed = _hash_of(logical)
    pairs = zip(python_values(logical, column), seeds.tolist(), strict=True)
    return np.fromiter((hashed(*each) for each in pairs), np.uint64, len(column))


def _fixed_width(logical: LogicalType, column: pa.Array) -> NDArray[Any] | None:
    """The numbers that Spark hashes, as uint32 or uint64; None if the type has no such."""
    root = logical.root
    if root in TIMESTAMP_ROOTS:
        values = column.view(pa.int64()).fill_null(0).to_numpy()
        unit = 10 ** (6 - (logical.precision or 0))
        return np.asarray((values - values % unit).view(np.uint64))
    if root in FLOAT_ROOTS:
        # Adding 0.0 turns -0.0 into 0.0 and leaves all others; NaN is written with its usual bits.
        reals = column.fill_null(0.0).to_numpy() + column.type.to_pandas_dtype()(0.0)
        reals = np.where(np.isnan(reals), np.abs(reals.dtype.type(math.nan)), reals)
        return np.asarray(reals.view(np.uint32 if root is TypeRoot.FLOAT else np.uint64))
    if root is TypeRoot.BIGINT:
        return np.asarray(column.fill_null(0).to_numpy().view(np.uint64))
    if root in INTEGER_BITS or root in (TypeRoot.BOOLEAN, TypeRoot.DATE, TypeRoot.TIME):
        whole = column.view(pa.int32()) if root is TypeRoot.DATE else column.cast(pa.int32())
        return np.asarray(pc.fill_null(whole, 0).to_numpy().view(np.uint32))
    return None


_PRIMES = [
    np.uint64(each)
    for each in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
]


def _xxh64_of_numbers(numbers: NDArray[Any], seeds: Hashes) -> Hashes:
    """XXH64 of the 4 or 8 bytes of each number, with a seed for each; wraps as 64 bits do."""
    p1, p2, p3, p4, p5 = _PRIMES
    hashes = seeds + p5 + np.uint64(numbers.itemsize)
    if numbers.itemsize == 8:
        hashes = hashes ^ (_rotate(numbers * p2, 31) * p1)
        hashes = _rotate(hashes, 27) * p1 + p4
    else:
        hashes = hashes ^ (numbers.astype(np.uint64) * p1)
        hashes = _rotate(hashes, 23) * p2 + p3
    hashes = (hashes ^ (hashes >> np.uint64(33))) * p2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * p3
    return np.asarray(hashes ^ (hashes >> np.uint64(32)))


def _rotate(values: Hashes, bits: int) -> Hashes:
    return np.asarray((values << np.uint64(bits)) | (values >> np.uint64(64 - bits)))
