"""Sets of small numbers are what NumPy's general functions say, near each other or far apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state.multiset.vectors import (
    distinct,
    distinct_counts,
    is_among,
    order_of,
    places_of,
    taken,
)

NUMBERS = st.lists(st.one_of(st.integers(0, 40), st.integers(0, 2**53)), max_size=40).map(
    lambda numbers: np.array(numbers, np.int64)
)


@given(NUMBERS)
def test_distinct_numbers(numbers: np.ndarray) -> None:
    assert distinct(numbers).tolist() == np.unique(numbers).tolist()


@given(NUMBERS)
def test_how_often_numbers_occur(numbers: np.ndarray) -> None:
    found, counts = distinct_counts(numbers)

    assert (found.tolist(), counts.tolist()) == tuple(
        each.tolist() for each in np.unique(numbers, return_counts=True)
    )


@given(NUMBERS, NUMBERS)
def test_numbers_among_others(numbers: np.ndarray, members: np.ndarray) -> None:
    before = numbers.copy()

    assert is_among(numbers, members).tolist() == np.isin(numbers, members).tolist()
    assert (numbers == before).all()


@given(
    st.sets(
        st.tuples(
            st.one_of(st.integers(0, 5), st.integers(0, 2**20)),
            st.one_of(st.integers(0, 5), st.integers(0, 2**53)),
        )
    ).map(list)
)
def test_the_order_of_pairs(pairs: list[tuple[int, int]]) -> None:
    columns = np.array(pairs, np.int64).reshape(-1, 2)

    assert [pairs[at] for at in order_of(columns[:, 0], columns[:, 1]).tolist()] == sorted(pairs)


@given(st.lists(st.booleans(), max_size=12))
def test_what_lies_where_flags_are_set(flags: list[bool]) -> None:
    values = np.arange(10, 10 + len(flags))
    rows = values.reshape(-1, 1) * np.array([1, 100])
    expected = [value for value, flag in zip(values.tolist(), flags, strict=True) if flag]

    places = places_of(np.array(flags, np.bool_))

    assert taken(values, places).tolist() == expected
    assert taken(rows, places).tolist() == [[each, 100 * each] for each in expected]
    together = "".join("x" if flag else " " for flag in flags).split()
    assert isinstance(places, slice) == (len(together) == 1)
