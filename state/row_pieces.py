"""Texts of rows in pieces of bytes, put together only where they are written.

Most rows of an epoch are made of a few varying texts and what is the same in all of them. The
same is one object, however often it stands here, and nothing is copied before the text of a whole
block, or of a row that is hashed, is wanted.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

Piece = str | list[bytes]
"""A text that is the same in all rows, or one for each row."""

_NUL = "\0"
"""Stands in no canonical text, nor before one, since JSON escapes it: it ends rows."""
_BORDER = _NUL.encode()


@dataclass(frozen=True, slots=True)
class RowPieces:
    """Texts, one a row, each in the same number of pieces."""

    pieces: list[bytes]
    """Of all rows, row by row."""
    width: int
    """How many each row has."""

    @classmethod
    def of(cls, pieces: Sequence[Piece], count: int) -> RowPieces:
        """Rows of these texts, so many; neighbours that are the same in all rows become one."""
        merged = _merged(pieces)
        width = max(len(merged), 1)
        flat = [b""] * (width * count)
        for place, each in enumerate(merged):
            flat[place::width] = [each] * count if isinstance(each, bytes) else each
        return cls(flat, width)

    @classmethod
    def whole(cls, texts: list[bytes]) -> RowPieces:
        """Rows whose texts are there as they are."""
        return cls(texts, 1)

    def __len__(self) -> int:
        return len(self.pieces) // self.width

    def texts(self) -> list[bytes]:
        """The text of each row; none of them holds a NUL."""
        if self.width == 1:
            return self.pieces
        ended = self._widened(self.width + 1)
        ended[self.width :: self.width + 1] = [_BORDER] * len(self)
        return b"".join(ended).split(_BORDER)[:-1]

    def joined(self, heads: Sequence[bytes], limits: Sequence[int]) -> list[bytes]:
        """Texts of neighbouring rows in one, behind a head of its own.

        Args:
            heads: What stands before.
            limits: The first row of each, and the end of the last.
        """
        width, pieces = self.width, self.pieces
        return [
            b"".join((head, *pieces[width * low : width * high]))
            for head, (low, high) in zip(heads, pairwise(limits), strict=True)
        ]

    def take(self, rows: Sequence[int]) -> RowPieces:
        """The rows at these places, in this order."""
        width = self.width
        flat = [b""] * (width * len(rows))
        for place in range(width):
            flat[place::width] = map(self.pieces[place::width].__getitem__, rows)
        return RowPieces(flat, width)

    def then(self, more: RowPieces) -> RowPieces:
        """These rows, and others behind them."""
        width = max(self.width, more.width)
        return RowPieces([*self._widened(width), *more._widened(width)], width)

    def _widened(self, width: int) -> list[bytes]:
        if width == self.width:
            return self.pieces
        flat = [b""] * (width * len(self))
        for place in range(self.width):
            flat[place::width] = self.pieces[place :: self.width]
        return flat


def row_texts(pieces: Sequence[Piece], count: int) -> list[bytes]:
    """Rows of these texts, so many, each as one; none of the texts holds a NUL."""
    if not count:
        return []
    match _merged([*pieces, _NUL]):
        case [bytes(same)]:
            return [same[:-1]] * count
        case [bytes(head), list(values), bytes(tail)]:
            return (head + (tail + head).join(values) + tail[:-1]).split(_BORDER)
        case _:
            return b"".join(RowPieces.of([*pieces, _NUL], count).pieces).split(_BORDER)[:-1]


def _merged(pieces: Sequence[Piece]) -> list[bytes | list[bytes]]:
    """The pieces, of which neighbours that are the same in all rows are one."""
    merged: list[bytes | list[bytes]] = []
    for piece in pieces:
        if isinstance(piece, list):
            merged.append(piece)
        elif piece:
            before = merged[-1] if merged else None
            if isinstance(before, bytes):
                merged[-1] = before + piece.encode()
            else:
                merged.append(piece.encode())
    return merged


def integer_texts(numbers: NDArray[np.generic] | Sequence[int]) -> list[bytes]:
    """Whole numbers in decimal digits; formatting one by one takes four times as long."""
    if not len(numbers):
        return []
    text: bytes = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)
    return text[1:-1].split(b",")


def bytes_of_texts(texts: pa.Array) -> list[bytes]:
    """A string array as bytes; null reads `null`."""
    if texts.null_count:
        texts = texts.fill_null("null")
    values: list[bytes] = texts.cast(pa.binary()).to_pylist()
    return values
