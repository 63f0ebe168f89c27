"""What a TTL costs is told with what is known of it, and each case of its benchmark works."""

from __future__ import annotations

from argparse import Namespace

import pytest

from benchmarks.bench_state_ttl import CASES, Case, Ratio, ratio, row
from benchmarks.state_epochs import Ground


def test_ratios_that_are_all_alike_leave_no_doubt() -> None:
    assert ratio([[1.02] * 24] * 10) == Ratio(1.02, 1.02, 1.02)


def test_what_layouts_differ_by_is_in_the_interval() -> None:
    """Most pairs say 1.0; three layouts of ten say otherwise, and others might be drawn."""
    assert ratio([[1.0] * 24] * 7 + [[1.1] * 24] * 3) == Ratio(1.0, 1.0, 1.1)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.9, 1.05, "met"), (1.04, 1.06, "open"), (1.06, 1.2, "not met")]
)
def test_a_goal_is_met_or_not_met_where_all_of_the_interval_says_so(
    low: float, high: float, verdict: str
) -> None:
    assert Ratio(1.0, low, high).verdict == verdict


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.descriptor.kind)
@pytest.mark.parametrize("access", ["read", "write"])
def test_a_case_is_measured(case: Case, access: str) -> None:
    given = Namespace(same=False, update="OnCreateAndWrite", operations=0, pairs=2, layouts=3)
    line = row(Ground("heap", None), case, access, 4, given)
    cells = [each.strip() for each in line.split("|")]
    assert cells[2:4] == [access, "4"]
    low, high = map(float, cells[6].split(" to "))
    assert 0 < low <= float(cells[5]) <= high
