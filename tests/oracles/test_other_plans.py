"""Other plans that Flink wrote of the recorded queries: they run, and give what was recorded.

They are of older versions, or of a source that takes over projections, filters and watermarks.
"""

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
OLDER = read_lines(RECORDED / "plans-older.jsonl")
PUSHED = read_lines(RECORDED / "plans-pushed.jsonl")


@pytest.fixture(scope="module")
def engines() -> Iterator[Engines]:
    with Engines() as found:
        yield found


def name_of(other: dict[str, Any]) -> str:
    return f"{other['flink']}-{other['case'].partition('/')[2]}"


def give_what_was_recorded(other: dict[str, Any], folder: Path, engines: Engines) -> None:
    """Run a plan in place of the one that was recorded of its case."""
    shutil.copytree(RECORDED / other["case"], folder, dirs_exist_ok=True)
    (folder / "plan.json").write_bytes(orjson.dumps(other["plan"]))

    (case,) = find_cases(folder)
    (outcome,) = run_plan(case, ["harness"], ["heap"], engines)

    assert (outcome.difference, outcome.unsupported) == (None, None)
    assert explain(load_plan(other["plan"]))


@pytest.mark.parametrize("older", OLDER, ids=name_of)
def test_plans_of_older_versions_give_what_the_newest_gave(
    older: dict[str, Any], tmp_path: Path, engines: Engines
) -> None:
    give_what_was_recorded(older, tmp_path, engines)


@pytest.mark.parametrize("pushed", PUSHED, ids=name_of)
def test_what_a_source_takes_over_is_done(
    pushed: dict[str, Any], tmp_path: Path, engines: Engines
) -> None:
    give_what_was_recorded(pushed, tmp_path, engines)


def test_all_versions_are_there() -> None:
    versions = {each["plan"]["flinkVersion"] for each in OLDER}

    assert versions == {"1.18", "1.19", "1.20", "2.0", "2.1", "2.2"}


def test_all_that_is_pushed_is_there() -> None:
    abilities = {
        ability["type"]
        for each in PUSHED
        for node in each["plan"]["nodes"]
        for ability in node.get("scanTableSource", {}).get("abilities", ())
    }

    assert abilities == {
        "FilterPushDown",
        "ProjectPushDown",
        "ReadingMetadata",
        "WatermarkPushDown",
    }
