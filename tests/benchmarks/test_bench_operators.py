"""Every case of the benchmark of operators works: what it measures is an operator at work."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.bench_operators import Plan, growth_of, smoke
from benchmarks.operator_cases import CASES
from benchmarks.operator_task import example_installed, prove
from benchmarks.state_epochs import Ground
from operators.kinds import SPECS
from operators.upsert_materializer import MaterializerSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _example() -> Iterator[None]:
    with example_installed():
        yield


@pytest.mark.parametrize("name", CASES)
def test_a_case_works_on_heap(name: str) -> None:
    smoke(name, Ground("heap", None))


@pytest.mark.parametrize("name", CASES)
def test_a_case_works_on_redis(name: str, redis_client: redis.Redis) -> None:
    with closing(Ground("redis", redis_client)) as where:
        smoke(name, where)


def test_a_case_that_gives_something_else_is_told() -> None:
    case = CASES["deduplicate"]()._replace(gives="+I")
    with pytest.raises(ValueError, match=r"\+I -U \+U \+I \| -U \+U -U \+U"):
        prove(case, Ground("heap", None))


@pytest.mark.parametrize(("name", "waits"), [("deduplicate", False), ("session", True)])
def test_only_what_is_to_wait_bounds_how_long_filling_takes(name: str, waits: bool) -> None:
    case = CASES[name]()
    options = argparse.Namespace(keys=2_000, changes=100, fill=1, turns=1, rounds=0)

    epochs = Plan(case, options).epochs()

    assert case.waits is waits
    with pytest.raises(SystemExit, match="would come out") if waits else nullcontext():
        assert next(epochs).workload == "anew"


def test_every_operator_has_a_case() -> None:
    specs = [case().spec for case in CASES.values()]
    kinds = {MaterializerSpec.KIND if isinstance(s, MaterializerSpec) else s.kind for s in specs}
    assert kinds == {*SPECS, MaterializerSpec.KIND}


def test_another_checkout_is_measured_with_the_cases_of_this_one(tmp_path: Path) -> None:
    # The other checkout has the packages, and no case by name: its `benchmarks` is empty.
    for package in ("operators", "state", "tests"):
        (tmp_path / package).symlink_to(ROOT / package)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").touch()
    command = [sys.executable, "-m", "benchmarks.bench_operators", "--against", str(tmp_path)]
    few = ["--operators", "window deduplicate", "--backends", "heap", "--keys", "100"]
    short = ["--changes", "100", "--fill", "100", "--rounds", "1", "--turns", "1"]
    run = subprocess.run(
        [*command, *few, *short],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    row = run.stdout.splitlines()[-1].split("|")
    assert [each.strip() for each in row[1:4]] == ["window deduplicate", "heap", "100"]
    assert float(row[5]) > 0


def test_growth_is_that_of_epochs_side_by_side() -> None:
    # From the third epoch on the machine takes twice as long, and once it does something else.
    fewest = [10.0, 10.0, 20.0, 20.0, 20.0]
    once = [12.0, 12.0, 24.0, 24.0, 99.0]
    assert growth_of(once, fewest) == 1.2
