"""What is known of the order of blocks, against a set, whatever is asked, filled and emptied."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from state.primitives.multiset_order import WINDOW, BlockOrder

NEWEST = 11
NUMBERS = st.integers(0, NEWEST + 3)
STEPS = st.lists(
    st.tuples(st.sampled_from(["below", "above", "load", "empty", "empty", "fill"]), NUMBERS),
    max_size=40,
)


class Asked:
    """An order whose questions are answered from the set of the blocks that are stored."""

    def __init__(self, stored: set[int]) -> None:
        self.stored, self.now = frozenset(stored), set(stored)
        self.order = BlockOrder(NEWEST)

    def below(self, number: int) -> None:
        while (ask := self.order.unknown_below(number)) is not None:
            found = sorted((each for each in self.stored if each <= ask), reverse=True)
            self.order.learn_below(ask, found[:WINDOW])
        expected = max((each for each in self.now if each <= number), default=None)
        assert self.order.below(number) == expected

    def above(self, number: int) -> None:
        while (ask := self.order.unknown_above(number)) is not None:
            self.order.learn_above(ask, sorted(e for e in self.stored if e >= ask)[:WINDOW])
        expected = min((each for each in self.now if each >= number), default=None)
        assert self.order.above(number) == expected

    def load(self, number: int) -> None:
        """Know a block, as reading it does."""
        if number in self.now:
            self.order.fill(number)
        else:
            self.order.empty(number)

    def empty(self, number: int) -> None:
        """Take the last entry of a block."""
        self.load(number)
        self.now.discard(number)
        self.order.empty(number)

    def fill(self, number: int) -> None:
        """Put an entry: new ones belong to the newest block, or to one behind it."""
        number = max(number, NEWEST)
        self.load(number)
        self.now.add(number)
        self.order.fill(number)


@given(stored=st.sets(st.integers(0, NEWEST)), steps=STEPS)
@example({0, 2, 5}, [("load", 5), ("above", 1)])
@example({0, 1, 2, 3, 4}, [("below", 9), *(("empty", n) for n in (4, 3, 2)), ("below", 9)])
@example({0, 1, 2, 3, 4}, [("above", 0), *(("empty", n) for n in (0, 1, 2)), ("above", 0)])
def test_neighbours_are_those_of_the_set(stored: set[int], steps: list[tuple[str, int]]) -> None:
    asked = Asked(stored)
    for name, number in steps:
        getattr(asked, name)(number)
    for number in range(NEWEST + 4):
        asked.below(number)
        asked.above(number)


def test_only_what_is_not_known_is_asked_for() -> None:
    asked = Asked({0, 2, 5, 7})
    asked.below(NEWEST)

    # Two were told of: 7 and 5.
    assert asked.order.unknown_below(NEWEST) is None
    asked.empty(7)
    assert asked.order.unknown_below(NEWEST) is None
    asked.empty(5)
    assert asked.order.unknown_below(NEWEST) == 4
