"""The index of spread histories: lines and buckets, in columns and one by one."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.multiset.index import (
    BUCKET_ENTRIES,
    LINE_BYTES,
    LONG_BUCKET_ENTRIES,
    LONG_ENTRIES,
    bucket_of,
    buckets_for,
    buckets_of,
    buckets_of_each,
    digest_of,
    digests_of,
    find_digests,
    lines_of,
    numbers_in,
    origin_of,
    parse_bucket,
    parse_lines,
    write_bucket,
    write_lines,
)

MATCHES = st.lists(st.binary(max_size=80), max_size=60, unique=True)
COUNTS = st.integers(1, 1_000)


@given(MATCHES, st.data())
def test_columns_are_what_one_by_one_says(matches: list[bytes], data: st.DataObject) -> None:
    numbers = sorted(
        data.draw(st.sets(st.integers(1, 2**53), min_size=len(matches), max_size=len(matches)))
    )
    buckets = data.draw(COUNTS)
    pairs = [(digest_of(match), number) for match, number in zip(matches, numbers, strict=True)]
    expected: dict[int, list[tuple[bytes, int]]] = {}
    for digest, number in pairs:
        expected.setdefault(bucket_of(digest, buckets), []).append((digest, number))

    lines = lines_of(digests_of(matches), np.array(numbers, np.int64))
    found, texts = write_lines(lines, buckets_of(lines, buckets), np.arange(len(lines)))

    assert found.tolist() == sorted(expected)
    assert texts == [write_bucket(expected[bucket]) for bucket in found.tolist()]
    assert [parse_bucket(text) for text in texts] == [expected[each] for each in found.tolist()]
    parsed = parse_lines(texts)
    assert sorted(numbers_in(parsed).tolist()) == numbers
    assert all(bucket < buckets for bucket in expected)


@given(MATCHES, MATCHES)
def test_digests_are_found_in_lines(wanted: list[bytes], held: list[bytes]) -> None:
    lines = lines_of(digests_of(held), np.arange(len(held)))

    found = find_digests(digests_of(wanted), lines).tolist()

    assert found == [wanted.index(each) if each in wanted else -1 for each in held]


def test_digests_that_share_a_place_are_told_apart() -> None:
    matches = [b"%d" % number for number in range(20_000)]
    lines = lines_of(digests_of(matches), np.arange(len(matches)))

    assert find_digests(digests_of(matches), lines).tolist() == list(range(len(matches)))


@given(st.binary(max_size=20), COUNTS, st.integers(0, 300))
def test_a_bucket_takes_its_lines_from_its_origin(match: bytes, buckets: int, more: int) -> None:
    digest = digest_of(match)

    later = bucket_of(digest, buckets + more)

    assert origin_of(later, buckets) == bucket_of(digest, buckets)


def test_a_split_moves_lines_out_of_one_bucket_only() -> None:
    digests = digests_of([b"%d" % number for number in range(2_000)])
    for buckets in range(1, 70):
        before, after = buckets_of(digests, buckets), buckets_of(digests, buckets + 1)
        moved = before != after

        assert set(after[moved].tolist()) <= {buckets}
        assert set(before[moved].tolist()) <= {origin_of(buckets, buckets)}


def test_buckets_grow_with_the_history() -> None:
    sizes = (0, 1, BUCKET_ENTRIES, BUCKET_ENTRIES + 1)
    assert [buckets_for(size) for size in sizes] == [1, 1, 1, 2]
    counts = [buckets_for(size) for size in range(3 * LONG_ENTRIES)]
    assert {after - before for before, after in pairwise(counts)} == {0, 1}


def test_buckets_of_long_histories_are_smaller_ones() -> None:
    most, more = buckets_for(LONG_ENTRIES), 1_000 * LONG_BUCKET_ENTRIES

    assert most == LONG_ENTRIES // BUCKET_ENTRIES
    assert buckets_for(LONG_ENTRIES + more) == most + 1_000


@given(st.lists(st.binary(max_size=20), max_size=80), COUNTS)
def test_buckets_of_many_are_those_of_each(matches: list[bytes], buckets: int) -> None:
    digests = [digest_of(match) for match in matches]

    assert buckets_of_each(digests, buckets) == [bucket_of(each, buckets) for each in digests]


def test_a_line_of_other_characters_is_refused() -> None:
    with pytest.raises(StateCorrupt):
        parse_bucket(b"#" * 20 + b" %016d\n" % 1)
    with pytest.raises(StateCorrupt):
        parse_bucket(digest_of(b"a") + b" %15dx\n" % 1)


@pytest.mark.parametrize(
    "text",
    [
        b"x",
        digest_of(b"a") + b" 1\n",
        write_bucket([(digest_of(b"a"), 1)])[:-1],
        write_bucket([(digest_of(b"a"), 1)])[:-1] + b" ",
        write_bucket([(digest_of(b"a"), 1)]) + b"\n",
    ],
)
def test_what_is_no_bucket_is_refused(text: bytes) -> None:
    assert len(write_bucket([(digest_of(b"a"), 1)])) == LINE_BYTES
    with pytest.raises(StateCorrupt):
        parse_bucket(text)
    with pytest.raises(StateCorrupt):
        parse_lines([text])
