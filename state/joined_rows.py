"""Texts of columns put together row by row, without a step of Python for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLACES_MAX = 1 << 22
"""So many pieces of rows are put together at once, as each takes some bytes beside its text."""


def join_rows(pieces: Sequence[str | pa.Array]) -> pa.Array:
    """Concatenate texts row by row; null in a column reads `null`. At least one is an array.

    All rows are taken at once, piece by piece, out of all pieces: that takes Arrow less than half
    as long as to join them row by row.
    """
    return _joined(_merged(pieces))


def _joined(pieces: Sequence[bytes | pa.BinaryArray]) -> pa.BinaryArray:
    columns = [each for each in pieces if not isinstance(each, bytes)]
    count, width = len(columns[0]), len(pieces)
    if count * width > _PLACES_MAX and count > 1:
        half = (count + 1) // 2
        parts = [
            [each if isinstance(each, bytes) else each.slice(low, half) for each in pieces]
            for low in (0, half)
        ]
        return pa.concat_arrays([_joined(each) for each in parts])
    everything = pa.concat_arrays(
        [*columns, pa.array([each for each in pieces if isinstance(each, bytes)], pa.binary())]
    )
    places, rows = np.empty((count, width), np.int32), np.arange(count, dtype=np.int32)
    column, constant = 0, count * len(columns)
    for at, each in enumerate(pieces):
        if isinstance(each, bytes):
            places[:, at] = constant
            constant += 1
        else:
            np.add(rows, column, out=places[:, at])
            column += count
    taken = everything.take(pa.array(places.reshape(-1)))
    ends = np.frombuffer(taken.buffers()[1], np.int32)[: count * width + 1 : width]
    offsets = pa.py_buffer(np.ascontiguousarray(ends))
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, taken.buffers()[2]])


def _merged(pieces: Sequence[str | pa.Array]) -> list[bytes | pa.BinaryArray]:
    """The pieces as bytes, of which neighbours that are the same in all rows are one."""
    merged: list[bytes | pa.BinaryArray] = []
    constant = ""
    for piece in pieces:
        if isinstance(piece, str):
            constant += piece
            continue
        if constant:
            merged.append(constant.encode())
            constant = ""
        merged.append((piece.fill_null("null") if piece.null_count else piece).view(pa.binary()))
    if constant:
        merged.append(constant.encode())
    return merged
