"""Arrow arrays of bytes to Python's bytes and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def content_of(array: pa.Array) -> tuple[memoryview, NDArray[np.int64]]:
    """The bytes of all values, one after the other, and where each begins (and the end)."""
    if not len(array):
        return memoryview(b""), np.zeros(1, np.int64)
    _, offsets, data = array.buffers()
    limits = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    ends = limits.astype(np.int64)
    first = int(ends[0])
    content = memoryview(data)[first : int(ends[-1])] if data else memoryview(b"")
    return content, ends - first


def bytes_of(array: pa.Array) -> list[bytes]:
    """The values of a binary array without nulls as bytes objects."""
    values: list[bytes] = array.to_pylist()
    return values
