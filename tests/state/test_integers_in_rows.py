"""Whole numbers read where they lie in a text of canonical rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.codec import RowCodec
from state.digits import decimals_in, leading_integers
from state.types import parse_type

TYPES = [parse_type(each) for each in ("BIGINT", "DECIMAL(9, 2)", "INT", "STRING", "SMALLINT")]
CODEC = RowCodec(TYPES, ["a", "b", "c", "d", "e"])
LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)


def in_text(rows: list[bytes]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows behind heads of several lengths, and where each begins and ends."""
    text, start, end = b"", [], []
    for number, row in enumerate(rows):
        text += b"\n%d\t,\t" % 10 ** (number % 3)
        start.append(len(text))
        text += row
        end.append(len(text))
    return np.frombuffer(text, np.uint8), np.array(start), np.array(end)


@given(st.lists(st.tuples(LONG, INT, st.text(max_size=5)), min_size=1, max_size=20))
def test_integers_are_those_of_the_rows(values: list[tuple[int, int, str]]) -> None:
    rows = [CODEC.encode((a, None, c, text, 1)) for a, c, text in values]
    place = in_text(rows)

    for column, expected in ((0, [a for a, _, _ in values]), (2, [c for _, c, _ in values])):
        found = leading_integers(TYPES, *place, column)
        assert found is not None
        assert found.tolist() == expected


def test_the_last_column_ends_with_its_row() -> None:
    codec = RowCodec(TYPES[:1], ["a"])
    rows = [codec.encode((value,)) for value in (0, -7, 123)]

    found = leading_integers(TYPES[:1], *in_text(rows), 0)

    assert found is not None
    assert found.tolist() == [0, -7, 123]


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([b'[1,null,2,"x",3]', b'[null,null,2,"x",3]'], 0),
        ([b'[1,null,2,"x",3]'], 3),
        ([b'[1,null,2,"a,b",3]'], 4),
        ([b'[1x,null,2,"x",3]'], 0),
        ([b'[-,null,2,"x",3]'], 0),
        ([b"[1]"], 2),
        ([b'[123456789012345678901,null,2,"x",3]'], 0),
        ([], 0),
    ],
    ids=["null", "text", "behind text", "letters", "no digits", "short", "long", "no rows"],
)
def test_what_cannot_be_read_so_is_left_to_others(rows: list[bytes], column: int) -> None:
    assert leading_integers(TYPES, *in_text(rows), column) is None


@given(st.lists(LONG, max_size=30))
def test_decimals_of_many_lengths(numbers: list[int]) -> None:
    place = in_text([b"%d" % each for each in numbers])

    assert decimals_in(*place).tolist() == numbers
