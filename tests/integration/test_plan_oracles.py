"""The plans recorded from Flink, run on real Spark by the command that anybody can give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.oracles import RECORDED

ROOT = Path(__file__).parents[2]
SINKS = ("100", "101", "102", "109", "111", "112")


def test_recorded_plans_give_the_recorded_changes_on_spark() -> None:
    folders = [
        str(each) for each in sorted((RECORDED / "plans").iterdir()) if each.name[:3] in SINKS
    ]

    run = subprocess.run(
        [sys.executable, "-m", "tests.oracles", *folders, "--engine", "spark"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
        cwd=ROOT,
    )

    assert run.stdout.splitlines()[-1:] == [f"{len(SINKS)} passed, 0 failed"], run.stdout
    assert run.returncode == 0, run.stderr[-2_000:]
