"""Plans that Flink 1.18 to 2.2 wrote of the recorded queries: they run, and give what 2.3 gave."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import explain, load_plan
from tests.oracles.cases import find_cases, read_lines
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORDED = Path(__file__).parent / "recorded"
PLANS = read_lines(RECORDED / "plans-older.jsonl")


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as found:
        yield found


@pytest.mark.parametrize(
    "older", PLANS, ids=[f"{each['flink']}-{each['case'].partition('/')[2]}" for each in PLANS]
)
def test_it_gives_what_the_newest_gave(
    older: dict[str, Any], tmp_path: Path, engines: Engines
) -> None:
    shutil.copytree(RECORDED / older["case"], tmp_path, dirs_exist_ok=True)
    (tmp_path / "plan.json").write_bytes(orjson.dumps(older["plan"]))

    (case,) = find_cases(tmp_path)
    (outcome,) = run_plan(case, ["harness"], ["heap"], engines)

    assert (outcome.difference, outcome.unsupported) == (None, None)
    assert explain(load_plan(older["plan"]))


def test_all_versions_are_there() -> None:
    versions = {each["plan"]["flinkVersion"] for each in PLANS}

    assert versions == {"1.18", "1.19", "1.20", "2.0", "2.1", "2.2"}
