"""Plans recorded from Flink, run on real Spark by the command that anybody can give.

Few cases, and one at least of each type of node that is run, and of each kind of operator. All
recorded plans run without Spark, on heap and on Redis: `tests.oracles.test_plan_cases` and
`test_plans_more`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from service.plan import load_plan
from service.plan.support import RUN_WITHOUT_VIEW
from service.runtime.operators import stateful_nodes
from service.runtime.specs import BUILDERS
from tests.oracles import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.plan import CompiledPlan
    from service.runtime.launcher import EmbeddedSpark

ROOT = Path(__file__).parents[2]
CHOSEN = (
    "plans/024_dedup_proctime_last_minibatch",
    "plans/042_incremental_agg",
    "plans/050_limit_append",
    "plans/062_rank_retract",
    "plans/071_join_left",
    "plans/074_join_semi",
    "plans/087_lookup_join_materialize_agg",
    "plans/090_temporal_join_left",
    "plans/101_sink_materialize_map",
    "plans/102_sink_materialize_value",
    "plans/105_on_conflict_nothing",
    "plans/131_over_agg",
    "plans/133_temporal_sort",
    "plans/156_multi_join_ttl",
    "plans-more/A26_sort_limit_on_conflict",
    "plans-more/B30_interval_full",
    "plans-more/B50_window_session",
    "plans-more/B53_window_dedup_desc",
    "plans-more/B54_window_join",
    "plans-more/B94_group_window_session",
    "plans-more/C05_window_aggregate_topn",
    "plans-more/D16_union_values",
    "plans-more/H20_over_by_value_range",
    # A watermark that the source took over.
    "plans-more/P01_dedup_rowtime_last_pushed",
    # What nodes without state make of a row, in columns.
    "plans-more/U02_unnest_left_condition",
    "plans-more/U03_unnest_rows_ordinality",
    "plans-more/U04_unnest_multiset_left",
    "plans-more/U05_unnest_map_left",
    "plans-more/U15_except_all_grouped",
)
ELSEWHERE = {"process-table-function"}
"""On Spark in `test_functions`, with a plan that Flink wrote."""
JOBS = 3
"""Queries at once: each waits more than it computes."""


def test_no_node_is_left_out() -> None:
    chosen = _types(_plan(RECORDED / each) for each in CHOSEN)
    recorded = _types(_plan(each.parent) for each in RECORDED.glob("plans*/*/plan.json"))

    assert chosen | ELSEWHERE >= recorded | set(BUILDERS) | RUN_WITHOUT_VIEW


def _plan(folder: Path) -> CompiledPlan:
    return load_plan(orjson.loads((folder / "plan.json").read_bytes()))


def _types(plans: Iterable[CompiledPlan]) -> set[str]:
    """Types of nodes, and of what their operators, materializers among them, are told."""
    found: set[str] = set()
    for plan in plans:
        found |= {each.node_type.short for each in plan.nodes}
        found |= {type(each.spec).__name__ for each in stateful_nodes(plan)}
    return found


@pytest.mark.timeout(700)
def test_recorded_plans_give_the_recorded_changes_on_spark(spark_server: EmbeddedSpark) -> None:
    folders = [str(RECORDED / each) for each in CHOSEN]

    run = subprocess.run(
        [
            *(sys.executable, "-m", "tests.oracles", *folders),
            *("--engine", "spark", "--jobs", str(JOBS), "--spark-remote", spark_server.remote),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=ROOT,
    )

    assert run.stdout.splitlines()[-1:] == [f"{len(CHOSEN)} passed, 0 failed"], run.stdout
    assert run.returncode == 0, run.stderr[-2_000:]
