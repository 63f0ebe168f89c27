"""Hypothesis strategies for types, and for values of each type at and around their limits."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    LENGTH_MAX,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
    row_type,
)
from state.values import map_children

TEXT = st.one_of(
    st.text(max_size=12),
    st.text(st.sampled_from('a"\\\n\t\r\b\f\x00\x1f\x7f/é日😀\u2028'), max_size=6),
)
DOUBLES = st.one_of(
    st.floats(),
    st.sampled_from(
        [0.0, -0.0, 1e15, 1e16, 1e17, 1e-4, 1e-5, 1e-7, 5e-324, 1.7976931348623157e308]
    ),
    st.integers(-(2**60), 2**60).map(float),
)


def scalar_types() -> st.SearchStrategy[LogicalType]:
    """Every type that has a column and no types inside."""
    plain = [TypeRoot.BOOLEAN, *INTEGER_BITS, TypeRoot.FLOAT, TypeRoot.DOUBLE, TypeRoot.DATE]
    sized = [*STRING_ROOTS, *BINARY_ROOTS]
    return st.one_of(
        st.sampled_from(plain).map(LogicalType),
        st.sampled_from(sized).map(lambda root: LogicalType(root, length=LENGTH_MAX)),
        st.integers(1, 38).flatmap(
            lambda p: st.integers(0, p).map(
                lambda s: LogicalType(TypeRoot.DECIMAL, precision=p, scale=s)
            )
        ),
        st.integers(0, 3).map(lambda p: LogicalType(TypeRoot.TIME, precision=p)),
        st.builds(
            lambda root, p: LogicalType(root, precision=p),
            st.sampled_from([TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ]),
            st.integers(0, 6),
        ),
    )


def _containers(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    return st.one_of(
        inner.map(lambda each: LogicalType(TypeRoot.ARRAY, children=(each,))),
        inner.map(lambda each: LogicalType(TypeRoot.MULTISET, children=(each,))),
        st.tuples(inner, inner).map(lambda each: LogicalType(TypeRoot.MAP, children=each)),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda each: row_type(tuple(f"n{at}" for at in range(len(each))), tuple(each))
        ),
    )


def types() -> st.SearchStrategy[LogicalType]:
    """Every type that has a column, nested now and then."""
    return st.one_of(scalar_types(), st.recursive(scalar_types(), _containers, max_leaves=3))


def float32(value: float) -> float:
    """The nearest 32-bit value."""
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def values(logical: LogicalType) -> st.SearchStrategy[Any]:
    """Python values of a type, with null."""
    return st.one_of(st.none(), present(logical))


def present(logical: LogicalType) -> st.SearchStrategy[Any]:
    """Python values of a type, without null."""
    root = logical.root
    if root in INTEGER_BITS:
        most = 2 ** (INTEGER_BITS[root] - 1) - 1
        return st.one_of(st.integers(-most - 1, most), st.sampled_from([-most - 1, most, 0]))
    if root in STRING_ROOTS:
        return TEXT
    if root in BINARY_ROOTS:
        return st.binary(max_size=8)
    match root:
        case TypeRoot.BOOLEAN:
            return st.booleans()
        case TypeRoot.FLOAT:
            return st.one_of(
                st.floats(width=32), st.sampled_from([0.1, 1e13, 1e15, 1e-6, -0.0])
            ).map(float32)
        case TypeRoot.DOUBLE:
            return DOUBLES
        case TypeRoot.DECIMAL:
            return _decimals(logical)
        case TypeRoot.DATE:
            return st.dates()
        case TypeRoot.TIME:
            return st.times().map(
                lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
            )
        case TypeRoot.TIMESTAMP:
            return st.datetimes()
        case TypeRoot.TIMESTAMP_LTZ:
            return st.datetimes().map(lambda each: each.replace(tzinfo=dt.UTC))
        case TypeRoot.ARRAY:
            return st.lists(values(logical.children[0]), max_size=3)
        case TypeRoot.ROW:
            return st.tuples(*map(values, logical.children))
        case _:
            return _maps(logical)


def _decimals(logical: LogicalType) -> st.SearchStrategy[Decimal]:
    precision, scale = logical.precision or 0, logical.scale or 0
    most = 10**precision - 1

    def scaled(unscaled: int) -> Decimal:
        # Built from digits, since arithmetic would round to the context's 28 digits.
        digits = tuple(map(int, str(abs(unscaled))))
        return Decimal((int(unscaled < 0), digits, -scale))

    return st.one_of(st.integers(-most, most), st.sampled_from([most, -most, 0, 1, -1])).map(scaled)


def _maps(logical: LogicalType) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    from state.values import canonical_encoder

    key, entry = map_children(logical)
    encode = canonical_encoder(key)
    pairs = st.tuples(
        present(key), present(entry) if logical.root is TypeRoot.MULTISET else values(entry)
    )
    return st.lists(pairs, max_size=3, unique_by=lambda pair: repr(encode(pair[0])))
