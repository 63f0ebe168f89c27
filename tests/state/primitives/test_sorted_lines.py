"""Lines of packed sorted maps: operations on them beside additions that are no lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.errors import StateCorrupt
from state.primitives.intervals import BOTTOM, TOP
from state.primitives.session import PRIMITIVE_THRESHOLDS
from state.primitives.sorted_lines import PackedLines
from state.primitives.sorted_text import LAST, cuts_of
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

LINES = [b"1\t9", b"2\t5", b"2\t3", b"4\t1"]
"""Values of one user key stand as they came, not in the order of their bytes."""


@pytest.mark.parametrize(
    ("low", "high", "places"),
    [
        (BOTTOM, TOP, (0, 4)),
        (*cuts_of(b"2"), (1, 3)),
        ((b"2", LAST), TOP, (3, 4)),
        (*cuts_of(b"3"), (3, 3)),
        (TOP, BOTTOM, (4, 4)),
    ],
)
def test_an_interval_is_found_among_lines(low: Any, high: Any, places: tuple[int, int]) -> None:
    assert PackedLines([*LINES]).places(low, high) == places


def test_what_stands_at_a_number_is_not_looked_for_among_lines() -> None:
    lines = PackedLines([*LINES])

    assert lines.places((b"2", b"000000000001"), TOP) is None
    assert lines.places(BOTTOM, (b"2", b"000000000001", LAST)) is None


def test_numbers_stay_when_the_first_lines_are_cut_off() -> None:
    lines = PackedLines([*LINES])
    lines.cut_off(2)

    assert lines.entries(0, 1) == [(b"2", b"000000000002", b"3")]


def test_who_reads_more_than_there_is_has_all_taken_apart() -> None:
    lines = PackedLines([*LINES])
    for _ in range(2):
        lines.entries(*lines.places(BOTTOM, (b"4",)) or (0, 0))

    assert lines.places(BOTTOM, TOP) is None


def test_additions_go_behind_the_lines_of_their_user_key() -> None:
    added = [(b"2", b"000000000005", b"4"), (b"2", b"000000000006", b"1"), (b"3", b"07", b"0")]

    found = PackedLines([*LINES]).with_added(added)

    assert found == [b"1\t9", b"2\t5", b"2\t3", b"2\t4", b"2\t1", b"3\t0", b"4\t1"]


def test_a_line_without_a_key_is_corrupt() -> None:
    with pytest.raises(StateCorrupt, match="no ordered key"):
        PackedLines([b"1\t9", b"2"])


@pytest.mark.parametrize("from_", [None, 3], ids=["first lines", "lines in between"])
def test_ranges_ends_and_clears_see_lines_and_additions(stand: Stand, from_: int | None) -> None:
    state = Driver(stand, descriptor("sorted_map"), PRIMITIVE_THRESHOLDS)
    state.together(0, *(lambda h, n=n: h.add((n,), f"old {n}") for n in range(1, 6)))

    def clear(handle: Any) -> Any:
        if from_ is None:
            return handle.clear_range_until((4,))
        return handle.clear_range((from_,), (5,))

    seen = state.together(
        1,
        lambda h: h.add((3,), "new 3"),
        lambda h: h.add((9,), "new 9"),
        lambda h: h.read_range((2,), (4,)),
        lambda h: h.last_entry_until((9,)),
        lambda h: h.last_entry(),
        lambda h: h.first_entry(),
        clear,
        lambda h: h.entries(),
    )

    assert seen[2:6] == [
        [((2,), ["old 2"]), ((3,), ["old 3", "new 3"])],
        ((5,), ["old 5"]),
        ((9,), ["new 9"]),
        ((1,), ["old 1"]),
    ]
    kept = (4, 5) if from_ is None else (1, 2, 5)
    left = [*(((n,), [f"old {n}"]) for n in kept), ((9,), ["new 9"])]
    assert seen[7] == left
    assert state.at(2, lambda h: h.entries()) == left
