"""Cases of our own that were recorded of Flink 2.3, in the plan harness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracles.cases import find_cases
from tests.oracles.compile import compile_case
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from tests.oracles.cases import Case

CASES = find_cases(Path(__file__).parent / "recorded" / "plans-more")


NOT_PLANNED = {
    "B55_group_window_tumble": "GROUP BY TUMBLE",
    "B61_over_proc_range": "an interval",
    "B94_group_window_session": "GROUP BY SESSION",
    "C19_over_distinct_range": "COUNT(DISTINCT ..) OVER",
}
"""Cases whose SQL the planner refuses by name, and what it names."""


@pytest.mark.parametrize("case", CASES, ids=[case.folder.name for case in CASES])
def test_the_planner_plans_as_flink_did(case: Case) -> None:
    outcome = compile_case(case)
    assert outcome.difference is None
    refused = outcome.unsupported or ""
    assert bool(refused) == (case.folder.name in NOT_PLANNED), refused
    assert NOT_PLANNED.get(case.folder.name, "") in refused


@pytest.mark.parametrize("case", CASES, ids=[case.folder.name for case in CASES])
def test_a_plan_gives_what_flink_gave(case: Case) -> None:
    with Engines() as engines:
        outcomes = list(run_plan(case, ["harness"], ["heap"], engines))
    assert outcomes
    for outcome in outcomes:
        assert (outcome.difference, outcome.unsupported) == (None, None)
