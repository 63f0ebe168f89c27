"""The same SQL gives the same plan as Flink's planner."""

from __future__ import annotations

import pytest

from service.plan import load_plan
from service.sql import SqlError, compile_script
from tests.oracles import RECORDED
from tests.oracles.cases import Case, Kind, find_cases
from tests.oracles.compile import compile_case, edge_modes
from tests.service.sql.recorded_plans import RecordedPlan, recorded_plans, reduced

ORACLES = RECORDED / "plans"
NOT_YET: dict[str, str] = {}
"""Cases of the oracles that do not compile to Flink's plan yet, with the reason."""
DIFFERENT = {
    "aggregates 032": "the order of two columns below an aggregate whose join was left out",
    "aggregates 043": "STDDEV_POP is refused by name",
    "aggregates 059": "names of columns: a projection that only renames is left out over HAVING",
    "pipelines a21": "SUM over the unique side of a join: Flink aggregates the other side first",
    "pipelines d15": "LAG .. OVER is refused by name",
    "pipelines w11": "aggregates of windows that were aggregated are refused by name",
    "pipelines w3": "GROUPING SETS over windows are refused by name",
    "ranks 014": "ORDER BY a value without LIMIT: Flink plans it and cannot run it; we refuse it",
    "ranks 029": "RANK(): Flink plans it and cannot run it; we refuse it",
    "windows 018": "GROUP BY TUMBLE(..), which window table functions replace, is refused by name",
}
"""Recorded plans that ours differ from, with the reason."""

cases = [case for case in find_cases(ORACLES) if case.kind is Kind.PLAN] if ORACLES.exists() else []


@pytest.mark.parametrize("case", cases, ids=lambda case: case.folder.name)
def test_oracle(case: Case) -> None:
    """Every case of the recorded plans compiles to the plan that is recorded, or is listed."""
    outcome = compile_case(case)
    found = outcome.difference or outcome.unsupported
    assert (found is not None) == (case.folder.name in NOT_YET), found


@pytest.mark.parametrize("case", recorded_plans(), ids=lambda case: case.name)
def test_recorded(case: RecordedPlan) -> None:
    """Every recorded case compiles to Flink's plan, or is refused as by Flink, or is listed."""
    found = _difference(case)
    assert (found is not None) == (case.name in DIFFERENT), found


def _difference(case: RecordedPlan) -> str | None:
    try:
        planned = compile_script(case.sql)[-1]
    except SqlError as refusal:
        if case.plan is not None:
            return f"refused: {refusal}"
        is_same = refusal.reason.strip() in case.error or case.error in refusal.reason
        return None if is_same else f"another message: {refusal.reason}"
    if case.plan is None:
        return "the statement compiles"
    given = reduced(planned.document)
    if given != case.plan:
        return f"the plan is {given}"
    if case.modes and edge_modes(planned) != case.modes:
        return f"the edges carry {edge_modes(planned)}"
    if "TEMPORARY TABLE" not in case.sql:
        load_plan(planned.document)
    return None
