"""FLIP-544's table tells what was measured, round by round, and its cells run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.bench_flip544 import Cell, print_table, rounds_of
from benchmarks.neighbours import heap_neighbours
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    import pytest


def cell(delay: int, *, has_upsert_key: bool = False) -> Cell:
    return Cell("heap", has_upsert_key, 100, delay, Strategy.ADAPTIVE)


def test_cells_are_told_by_their_best_and_median_round(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table({cell(10): [90.0, 300.0, 100.0]}, [Strategy.ADAPTIVE])

    assert "| 10 | 300 (100) |" in capsys.readouterr().out


def test_delays_are_compared_within_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    """The machine halves its speed in the second round: that is no difference of delays."""
    rates = {cell(10): [300.0, 150.0, 300.0], cell(5000): [200.0, 100.0, 150.0]}

    print_table(rates, [Strategy.ADAPTIVE])

    assert "| time at 5000 / 10 | 1.50 |" in capsys.readouterr().out


def test_each_cell_is_run_in_each_round() -> None:
    with heap_neighbours() as neighbours:
        cells = [cell(2), cell(2, has_upsert_key=True)]
        rates, speeds = rounds_of(cells, neighbours, rounds=2, repeat=1)

    assert [len(rates[each]) for each in cells] == [2, 2]
    assert min(min(found) for found in rates.values()) > 0
    assert len(speeds) == 2
