"""What operations of sorted map state cost: exact round trips, commands and elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.primitives import sorted_known
from state.primitives.intervals import BOTTOM
from state.testing.sorted_epochs import KEY, Epochs
from state.ttl import TtlConfig, UpdateType
from tests.state.primitives.sorted_maps import described, fill

if TYPE_CHECKING:
    from state.testing.stand import Stand


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


class TestCosts:
    """Exactly what an operation reads and writes, for a spread map of a thousand values."""

    rows = described()

    def cost(self, epochs: Epochs, call: Any, **ttl: Any) -> tuple[int, int, int, list[str]]:
        """Commands and round trips of a call, members that came back, writes."""
        rows = described(**ttl)
        fill(epochs, rows, range(1_000))
        epochs.begin(rows, at_ms=1)
        epochs.session.prefetch([(rows, [(KEY, 1)])])
        before = epochs.session.statistics().transaction
        call(epochs.state)
        after = epochs.session.statistics().transaction
        writes = sorted(type(each).__name__ for each in epochs.session.writes().get(1, []))
        epochs.end()
        return (
            after.commands - before.commands,
            after.round_trips - before.round_trips,
            after.reads - before.reads,
            writes,
        )

    def test_the_header_comes_with_the_first_access(self, epochs: Epochs) -> None:
        fill(epochs, self.rows, range(1_000))
        with epochs.epoch(self.rows) as state:
            state.add((5,), "x")
            seen = state.session.statistics().transaction
            assert (seen.commands, seen.round_trips, seen.reads) == (4 + 1, 1, 1)

    def test_add_reads_nothing_more(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.add((5,), "x"))

        assert cost == (0, 0, 0, ["HashPut", "SortedPut"])

    def test_a_range_is_one_command(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.read_range((100,), (900,)))

        assert cost == (1, 1, 800, [])

    def test_values_of_a_key_are_one_command(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.values_at((100,))) == (1, 1, 1, [])

    def test_a_range_that_was_read_is_not_read_again(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            state.read_range((100,), (200,))
            state.read_range((150,), (300,))
            state.read_range((100,), (300,))

        # The second look goes on where the first one ended, so it reads on behind its own end.
        assert self.cost(epochs, call) == (3, 2, 200 + 200, [])

    def test_who_reads_one_range_after_the_other_looks_seldom(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            for at in range(0, 900, 5):
                state.clear_range_until((at,))
                assert len(state.read_range((at,), (at + 20,))) == 20

        _, trips, members, _ = self.cost(epochs, call)
        assert trips <= 8
        assert members <= 1_010

    def test_an_end_is_one_command(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.first_entry()) == (1, 1, 16, [])
        assert self.cost(epochs, lambda state: state.last_entry()) == (1, 1, 16, [])
        assert self.cost(epochs, lambda s: s.last_entry_until((500,))) == (1, 1, 16, [])

    @pytest.mark.parametrize("end", ["first", "last"])
    def test_an_end_of_a_range_reads_nothing_beyond_it(self, epochs: Epochs, end: str) -> None:
        def call(state: Any) -> None:
            assert getattr(state, f"{end}_entry_between")((5,), (7,)) is not None

        assert self.cost(epochs, call) == (1, 1, 2, [])

    @pytest.mark.parametrize(("count", "cost"), [(124, (124, 1, 124)), (125, (1, 1, 1_000))])
    def test_a_map_that_is_short_beside_what_is_looked_for_is_read_whole(
        self, epochs: Epochs, count: int, cost: tuple[int, int, int]
    ) -> None:
        keys = [(at * 3,) for at in range(count)]

        assert self.cost(epochs, lambda state: state.know_at(keys)) == (*cost, [])

    def test_of_what_was_not_asked_for_so_much_at_most_is_read(
        self, epochs: Epochs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sorted_known, "UNASKED_MAX", 50)

        def call(state: Any) -> None:
            state.know_for(1_000)
            for at in range(0, 200, 20):
                state.read_range((at,), (at + 20,))

        _, trips, members, _ = self.cost(epochs, call)
        assert trips >= 4
        assert members <= 200 + 50 + 16

    def test_who_takes_one_first_value_after_the_other_looks_seldom(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            # What lies in the way is known.
            state.know_at([(20,), (21,)])
            for at in range(500):
                assert state.values_from(BOTTOM, 1) == [f"v{at}"]
                state.clear_entry_at((at,))

        _, trips, members, _ = self.cost(epochs, call)
        # One look for each of 16, 32, 64 and so on; and what lies behind the last value of each.
        assert trips <= 1 + 6 + 5
        assert members <= 2 + 16 * (1 + 2 + 4 + 8 + 16 + 32) + 5

    def test_a_range_that_was_read_is_cleared_unread(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            state.read_range_until((900,))
            state.clear_range_until((900,))

        assert self.cost(epochs, call) == (1, 1, 900, ["HashPut", "LexRemove"])

    def test_a_range_that_was_not_read_is_counted_and_cleared(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.clear_range_until((900,)))

        assert cost == (1, 1, 1, ["HashPut", "LexRemove"])

    def test_replacing_values_counts_and_clears(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.put((5,), ["x", "y"]))

        assert cost == (1, 1, 1, ["HashPut", "LexRemove", "SortedPut"])

    def test_clearing_all_reads_nothing(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.clear()) == (0, 0, 0, ["Drop", "HashDelete"])

    def test_with_ttl_a_clear_reads_what_goes(self, epochs: Epochs) -> None:
        cost = self.cost(
            epochs, lambda state: state.clear_range_until((900,)), ttl=TtlConfig(10**9)
        )

        assert cost == (1, 1, 900, ["HashPut", "LexRemove", "SortedRemove"])

    def test_reads_that_count_rewrite_what_they_read(self, epochs: Epochs) -> None:
        ttl = TtlConfig(10**9, update=UpdateType.ON_READ_AND_WRITE)
        cost = self.cost(epochs, lambda state: state.values_at((5,)), ttl=ttl)

        # The header stays: its bound for the oldest stamp still holds.
        assert cost == (1, 1, 1, ["SortedPut", "SortedPut", "SortedRemove"])

    def test_filling_is_one_write_a_structure(self, epochs: Epochs) -> None:
        epochs.begin(self.rows)
        for at in range(1_000):
            epochs.state.add((at,), "x")
        writes = sorted(type(each).__name__ for each in epochs.session.writes()[1])
        epochs.end()

        assert writes == ["HashPut", "SortedPut"]
