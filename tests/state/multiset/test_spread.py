"""Where the entries of blocks lie among sequence numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from state.multiset.spread import block_of, places_in, spans_of_blocks

NUMBERS = st.sets(st.integers(1, 200), max_size=60).map(sorted)
BLOCKS = st.sets(st.integers(0, 14), max_size=8).map(sorted)


@given(NUMBERS, BLOCKS)
def test_places_of_the_entries_of_some_blocks(numbers: list[int], blocks: list[int]) -> None:
    columns = np.array(numbers, np.int64), np.array(blocks, np.int64)
    low, high = spans_of_blocks(*columns)

    of_block = block_of(columns[0]).tolist()
    expected = [place for place, block in enumerate(of_block) if block in blocks]
    assert places_in((low, high)).tolist() == expected
    assert (high - low).tolist() == [of_block.count(block) for block in blocks]
