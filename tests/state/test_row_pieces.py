"""Rows in pieces are the rows that they would be as whole texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from state.row_pieces import Piece, RowPieces, bytes_of_texts, integer_texts, row_texts

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=3)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Piece], list[bytes]]:
    """Pieces of some rows, and the text of each."""
    count = draw(st.integers(0, 4))
    varying = st.lists(TEXTS.map(str.encode), min_size=count, max_size=count)
    pieces: list[Piece] = draw(st.lists(st.one_of(TEXTS, varying), max_size=5))
    texts = [
        b"".join(each.encode() if isinstance(each, str) else each[row] for each in pieces)
        for row in range(count)
    ]
    return pieces, texts


@given(rows())
def test_rows_as_whole_texts(given_: tuple[list[Piece], list[bytes]]) -> None:
    pieces, texts = given_

    assert RowPieces.of(pieces, len(texts)).texts() == texts
    assert row_texts(pieces, len(texts)) == texts


@given(rows(), rows(), st.data())
def test_some_rows_behind_others_are_put_together(
    first: tuple[list[Piece], list[bytes]],
    second: tuple[list[Piece], list[bytes]],
    data: st.DataObject,
) -> None:
    both = RowPieces.of(first[0], len(first[1])).then(RowPieces.of(second[0], len(second[1])))
    texts = first[1] + second[1]
    order = data.draw(st.lists(st.sampled_from(range(len(texts))))) if texts else []
    limits = sorted(data.draw(st.lists(st.integers(0, len(order)), min_size=1)))
    heads = [b"%d" % number for number in range(len(limits) - 1)]

    taken = both.take(order)

    assert len(both) == len(texts)
    assert taken.texts() == [texts[place] for place in order]
    assert taken.joined(heads, limits) == [
        head + b"".join(texts[place] for place in order[low:high])
        for head, low, high in zip(heads, limits, limits[1:], strict=False)
    ]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_in_digits(numbers: list[int]) -> None:
    assert integer_texts(np.array(numbers, np.int64)) == [b"%d" % each for each in numbers]


def test_texts_of_a_column() -> None:
    assert bytes_of_texts(pa.array(["\u00e4", None, ""])) == ["\u00e4".encode(), b"null", b""]
