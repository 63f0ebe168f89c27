"""Which hash has a block, and what a header says of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import StateCorrupt
from state.multiset.segments import (
    block_hash,
    block_hashes,
    by_hash,
    format_segments,
    parse_segments,
    segment_name,
    with_entries,
)
from state.multiset.text import Header, parse_header
from state.primitives.multiset_text import read_header

FIRSTS = st.sets(st.integers(0, 40), max_size=6).map(lambda each: tuple(sorted(each)))
NUMBERS = st.lists(st.integers(0, 50), max_size=20)
NAME = b"blocks"


@given(FIRSTS, NUMBERS)
def test_a_block_is_in_the_last_segment_that_begins_no_later(
    segments: tuple[int, ...], numbers: list[int]
) -> None:
    expected: dict[bytes, list[int]] = {}
    for number in numbers:
        begun = [first for first in segments if first <= number]
        name = b"blocks:%d" % max(begun) if begun else NAME
        assert block_hash(NAME, segments, number) == name
        expected.setdefault(name, []).append(number)

    found = by_hash(NAME, segments, numbers)

    assert dict(found) == expected
    names = [name for name, _ in found]
    assert names == [each for each in block_hashes(NAME, segments) if each in names]


@given(FIRSTS, st.sets(st.integers(1, 800)).map(sorted))
def test_segments_without_entries_are_left_out_and_move_no_block(
    segments: tuple[int, ...], entries: list[int]
) -> None:
    left = with_entries(segments, np.array(entries, np.int64))

    blocks = sorted({entry // 16 for entry in entries})
    assert [block_hash(NAME, left, each) for each in blocks] == [
        block_hash(NAME, segments, each) for each in blocks
    ]
    assert {segment_name(NAME, each) for each in left} <= {
        block_hash(NAME, segments, each) for each in blocks
    }


@given(FIRSTS.filter(bool), st.sampled_from([-1, 0, 7]))
def test_a_header_tells_its_segments(segments: tuple[int, ...], shown: int) -> None:
    header = Header(following=99, shown=shown, size=50, buckets=2, segments=segments)

    assert parse_segments(format_segments(segments)) == segments
    assert parse_header(header.format()) == read_header(header.format()) == header


@pytest.mark.parametrize("field", [b"@", b"@x", b"@3,", b"@5,3", b"@3,3", b"@-1", b"3@"])
def test_what_is_no_list_of_segments_is_refused(field: bytes) -> None:
    for read in (parse_header, read_header):
        with pytest.raises(StateCorrupt):
            read(b"spread\t50\t99\t2\t" + field)


def test_a_packed_history_has_no_segments() -> None:
    with pytest.raises(StateCorrupt):
        parse_header(b"99\t@3")
    with pytest.raises(StateCorrupt):
        read_header(b"99\t@3")
