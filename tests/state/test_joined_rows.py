"""Texts put together row by row."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state import joined_rows
from state.joined_rows import join_rows, number_texts

TEXTS = st.one_of(st.none(), st.text("aé\N{SNOWMAN}", max_size=4))


def one_by_one(pieces: list[str | pa.Array], count: int) -> list[bytes]:
    columns = [[p] * count if isinstance(p, str) else p.to_pylist() for p in pieces]
    rows = zip(*columns, strict=True)
    return ["".join("null" if text is None else text for text in row).encode() for row in rows]


@st.composite
def some_pieces(draw: st.DrawFn) -> tuple[list[str | pa.Array], int]:
    """Texts and columns in any order, a column among them; columns may be parts of longer ones."""
    count = draw(st.integers(0, 12))
    columns = st.lists(TEXTS, min_size=count + 2, max_size=count + 2)
    columns = columns.map(lambda texts: pa.array(texts, pa.string()).slice(1, count))
    columns |= st.lists(st.text("aé", max_size=2), min_size=count, max_size=count).map(
        lambda texts: pa.array(texts, pa.string()).dictionary_encode()
    )
    pieces = draw(st.lists(st.one_of(st.text("[,é", max_size=3), columns), max_size=6))
    place = draw(st.integers(0, len(pieces)))
    return [*pieces[:place], draw(columns), *pieces[place:]], count


@given(some_pieces())
def test_rows_are_what_joining_one_by_one_gives(given_: tuple[list[str | pa.Array], int]) -> None:
    pieces, count = given_

    joined = join_rows(pieces)

    joined.validate(full=True)
    assert joined.type == pa.binary()
    assert joined.to_pylist() == one_by_one(pieces, count)


@pytest.mark.parametrize("room", [1, 3, 7, 20, 21])
def test_many_rows_are_put_together_in_parts(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    texts = pa.array([None if at == 4 else str(at) for at in range(10)], pa.string())
    shared = pa.array([str(at % 3) for at in range(10)]).dictionary_encode()
    pieces: list[str | pa.Array] = ["[", texts, ",", shared, "]"]
    monkeypatch.setattr(joined_rows, "_PLACES_MAX", room)

    assert join_rows(pieces).to_pylist() == one_by_one(pieces, 10)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("end", ["lowest", "highest", "zero"])
@pytest.mark.parametrize("span", [0, 1, 63, 128, 255])
@pytest.mark.parametrize("each", [1, 3, 300])
def test_numbers_are_written_in_digits(kind: pa.DataType, end: str, span: int, each: int) -> None:
    lowest, highest = -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
    first = {"lowest": lowest, "highest": highest - span, "zero": max(-span // 2, lowest)}[end]
    numbers = [*range(first, first + span + 1)] * each

    texts = number_texts(pa.array(numbers, kind))

    assert texts.to_pylist() == [str(number) for number in numbers]


@pytest.mark.parametrize("numbers", [[], [1, 2**62], [-(2**63), 2**63 - 1] * 40])
def test_numbers_far_apart_are_written_in_digits(numbers: list[int]) -> None:
    texts = number_texts(pa.array(numbers, pa.int64()))

    assert texts.to_pylist() == [str(number) for number in numbers]


def test_numbers_that_many_rows_share_are_written_once() -> None:
    texts = number_texts(pa.array([3, 4, 3, 5] * 25))

    assert pa.types.is_dictionary(texts.type)
    assert len(texts.dictionary) == 3
