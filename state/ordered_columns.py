"""Columns of values as text whose byte order is theirs: `state.lexicographic` for many rows.

Whole numbers are written as columns; values of other types one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.arrow_values import python_values
from state.joined_rows import join_rows
from state.lexicographic import lexicographic_codec
from state.types import INTEGER_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.lexicographic import LexicographicCodec, Order
    from state.types import LogicalType


def ordered_texts(codec: LexicographicCodec, columns: Sequence[pa.Array]) -> pa.BinaryArray:
    """The texts of rows: byte for byte what the codec's `encode` gives for each.

    Args:
        codec: Says types and orders.
        columns: Of the parts, of `arrow_type` of their types.

    Raises:
        CodecError: A value has no such text, or is null where it must not be.
    """
    pieces: list[str | pa.Array] = []
    for logical, order, column in zip(codec.types, codec.orders, columns, strict=True):
        if pieces:
            pieces.append(",")
        if logical.root in INTEGER_BITS and (logical.nullable or not column.null_count):
            pieces.append(_whole_numbers(logical, order, column))
        else:
            write = lexicographic_codec([logical], [order]).encode
            texts = [write((each,)).decode() for each in python_values(logical, column)]
            pieces.append(pa.array(texts, pa.string()))
    return join_rows(pieces)


def _whole_numbers(logical: LogicalType, order: Order, column: pa.Array) -> pa.Array:
    """As `ordered_text` writes them: in ten's complement behind a minus if negative."""
    bits = INTEGER_BITS[logical.root]
    width = len(str(1 << (bits - 1)))
    values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    # Amounts up to 2**63 need all bits; what is below zero wraps around as it should.
    amounts = values.astype(np.uint64)
    if order.descending:
        amounts, is_negative = np.uint64(0) - amounts, values > 0
    else:
        is_negative = values < 0
    amounts[is_negative] += np.uint64(10**width)
    digits = pc.utf8_lpad(pa.array(amounts).cast(pa.string()), width, "0")
    before = "=" if logical.nullable else ""
    heads = pc.if_else(pa.array(is_negative), before + "-", before)
    texts = pc.binary_join_element_wise(heads, digits, "")
    if not column.null_count:
        return texts
    return pc.if_else(column.is_valid(), texts, ">null" if order.nulls_last else "<null")
