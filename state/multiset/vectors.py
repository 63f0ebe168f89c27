"""Arrow arrays of bytes to Python's bytes, and sets of small numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]
    Places = slice | Integers

_Scalar = TypeVar("_Scalar", bound=np.generic)

_SPAN_MAX = 1 << 16
"""Tables of numbers have so many places at most."""


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


def distinct(numbers: Integers) -> Integers:
    """The numbers that occur, ascending; where they lie close together, without sorting."""
    if not numbers.size:
        return numbers
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if span > _SPAN_MAX:
        return np.unique(numbers)
    occurs = np.zeros(span, np.bool_)
    occurs[numbers - low] = True
    return occurs.nonzero()[0] + low


def distinct_counts(numbers: Integers) -> tuple[Integers, Integers]:
    """The numbers that occur, ascending, and how often each does."""
    if not numbers.size:
        return numbers, numbers
    low = int(numbers.min())
    if int(numbers.max()) - low >= _SPAN_MAX:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers - low)
    occurring = counts.nonzero()[0]
    return occurring + low, counts[occurring]


def is_among(numbers: Integers, members: Integers) -> Flags:
    """Whether each number is one of the members; where these lie close together, by a table."""
    if not numbers.size or not members.size:
        return np.zeros(numbers.size, np.bool_)
    low = int(members.min())
    span = int(members.max()) - low + 1
    if span > _SPAN_MAX:
        return np.isin(numbers, members)
    # The place behind the table's end stands for all that is outside.
    table = np.zeros(span + 1, np.bool_)
    table[members - low] = True
    place = numbers - low
    place[(place < 0) | (place >= span)] = span
    among: Flags = table[place]
    return among


def places_of(flags: Flags) -> Places:
    """Where flags are set: a slice where these are neighbours, which then copies nothing."""
    places = flags.nonzero()[0]
    if not places.size:
        return places
    first, last = int(places[0]), int(places[-1])
    return slice(first, last + 1) if last - first + 1 == places.size else places


def taken(values: NDArray[_Scalar], places: Places) -> NDArray[_Scalar]:
    """The values, or rows of a matrix, at some places; those of a slice are not copied."""
    # Arrays of places are slower as an index.
    return values[places] if isinstance(places, slice) else values.take(places, axis=0)


def order_of(key: Integers, sequence: Integers) -> Integers:
    """The places of pairs in their order; none is negative, and no two are equal."""
    if not key.size:
        return np.zeros(0, np.int64)
    bound = int(sequence.max()) + 1
    if (int(key.max()) + 1) * bound < 1 << 62:
        # What comes here are a few runs that ascend, which this kind of sort only merges.
        return np.argsort(key * bound + sequence, kind="stable")
    return np.lexsort((sequence, key))


def bytes_of(array: pa.Array) -> list[bytes]:
    """The values of a binary array without nulls as bytes objects."""
    values: list[bytes] = array.to_pylist()
    return values
