"""Lines of a block: those that stay, as they are."""

from __future__ import annotations

import pytest

from state.errors import StateCorrupt
from state.multiset.block_lines import NO_LINES, lines_of_block

BLOCK = b'2\n33\t900\t[1,"\\t"]\n35\t70\t[2]\n40\t800\t[3]'


def test_what_stays_is_taken_over_with_when_the_oldest_was_written() -> None:
    whole, some = lines_of_block(BLOCK, [33, 35, 40], 3), lines_of_block(BLOCK, [33, 40], 3)
    assert (whole.behind(b"2"), whole.oldest_ms) == (BLOCK, 70)
    assert (some.behind(b"2"), some.oldest_ms) == (b'2\n33\t900\t[1,"\\t"]\n40\t800\t[3]', 800)


def test_other_lines_stand_by_their_numbers() -> None:
    some = lines_of_block(BLOCK, [33, 40], 3)
    others = [(35, b"\n35\t1000\t[4]"), (41, b"\n41\t1000\t[5]")]
    assert some.with_others(b"2", others).split(b"\n") == [
        b"2",
        b'33\t900\t[1,"\\t"]',
        b"35\t1000\t[4]",
        b"40\t800\t[3]",
        b"41\t1000\t[5]",
    ]
    assert NO_LINES.with_others(b"2", others[:1]) == b"2\n35\t1000\t[4]"


@pytest.mark.parametrize(("numbers", "count"), [([33, 34], 3), ([33], 2), ([33], 4)])
def test_a_block_with_other_entries_than_the_index_is_corrupt(
    numbers: list[int], count: int
) -> None:
    with pytest.raises(StateCorrupt):
        lines_of_block(BLOCK, numbers, count)
