"""The plans recorded from Flink, run on real Spark by the command that anybody can give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracles import RECORDED

ROOT = Path(__file__).parents[2]
CHOSEN = (
    *("011", "022", "032", "042", "062", "071", "087", "090", "105", "120", "130", "131", "133"),
    *("100", "101", "102", "109", "111", "112"),
)
"""One or two of each operator; all of them run without Spark in `tests.oracles.test_plan_cases`."""

MORE = ("U02", "U03", "U04", "U05", "U15")
"""Of the other folder: what nodes without state make of a row, in columns."""


@pytest.mark.timeout(700)
def test_recorded_plans_give_the_recorded_changes_on_spark() -> None:
    folders = [
        str(each)
        for folder, chosen in (("plans", CHOSEN), ("plans-more", MORE))
        for each in sorted((RECORDED / folder).iterdir())
        if each.name[:3] in chosen
    ]

    run = subprocess.run(
        [sys.executable, "-m", "tests.oracles", *folders, "--engine", "spark"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        cwd=ROOT,
    )

    assert run.stdout.splitlines()[-1:] == [f"{len(folders)} passed, 0 failed"], run.stdout
    assert run.returncode == 0, run.stderr[-2_000:]
