"""Cases of our own that were recorded of Flink 2.3, in the plan harness."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracles.cases import find_cases
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from tests.oracles.cases import Case

CASES = find_cases(Path(__file__).parent / "recorded" / "plans-more")


@pytest.mark.parametrize("case", CASES, ids=[case.folder.name for case in CASES])
def test_a_plan_gives_what_flink_gave(case: Case) -> None:
    with Engines() as engines:
        outcomes = list(run_plan(case, ["harness"], ["heap"], engines))
    assert outcomes
    for outcome in outcomes:
        assert (outcome.difference, outcome.unsupported) == (None, None)
