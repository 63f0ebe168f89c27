"""Intervals against a plain set of points."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from state.primitives.intervals import BOTTOM, TOP, Intervals

POINTS = [(b"%c" % each,) for each in b"abcdefgh"]
CUTS = [BOTTOM, *POINTS, TOP]
_pairs = st.tuples(st.sampled_from(CUTS), st.sampled_from(CUTS))


def between(low: tuple[bytes, ...], high: tuple[bytes, ...]) -> set[tuple[bytes, ...]]:
    return {each for each in POINTS if low <= each < high}


@given(st.lists(_pairs, max_size=6), st.lists(_pairs, max_size=6), _pairs)
def test_many_added_at_once_are_as_one_by_one(
    first: list[tuple[tuple[bytes, ...], tuple[bytes, ...]]],
    then: list[tuple[tuple[bytes, ...], tuple[bytes, ...]]],
    asked: tuple[tuple[bytes, ...], tuple[bytes, ...]],
) -> None:
    one_by_one, at_once = Intervals(), Intervals()
    for known in (one_by_one, at_once):
        for each in first:
            known.add(*each)
    for each in then:
        one_by_one.add(*each)

    at_once.add_all(then)

    assert [*at_once.gaps(*asked)] == [*one_by_one.gaps(*asked)]
    assert at_once.is_all == one_by_one.is_all


@given(st.lists(_pairs, max_size=6), _pairs)
def test_gaps_are_what_was_not_added(
    added: list[tuple[tuple[bytes, ...], tuple[bytes, ...]]],
    asked: tuple[tuple[bytes, ...], tuple[bytes, ...]],
) -> None:
    known = Intervals()
    held: set[tuple[bytes, ...]] = set()
    for low, high in added:
        known.add(low, high)
        held |= between(low, high)

    gaps = list(known.gaps(*asked))

    assert set().union(*(between(*each) for each in gaps)) == between(*asked) - held
    assert known.last_gap(*asked) == (gaps[-1] if gaps else None)
    assert all(low < high for low, high in gaps)
    assert all(one[1] < other[0] for one, other in pairwise(gaps))
    assert known.fills(*asked) == (not gaps)
    assert known.is_all == known.fills(BOTTOM, TOP)


def test_everything_lies_between_bottom_and_top() -> None:
    known = Intervals()

    known.add(BOTTOM, (b"m", b"1"))
    known.add((b"m", b"1"), TOP)

    assert known.fills(BOTTOM, TOP)
    assert known.fills(("\U0010ffff".encode(),), TOP)
