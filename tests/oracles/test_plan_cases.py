"""Every plan recorded from Flink, by hand on both backends: what Flink's sink received."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracles import RECORDED
from tests.oracles.cases import find_cases
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RedisServer
    from tests.oracles.cases import Case

CASES = find_cases(RECORDED / "plans")


@pytest.fixture(scope="module")
def engines(redis_server: RedisServer) -> Iterator[Engines]:
    with Engines(redis_url=redis_server.url) as found:
        yield found


@pytest.mark.parametrize("case", CASES, ids=[each.folder.name for each in CASES])
def test_a_recorded_plan_gives_the_recorded_changes(case: Case, engines: Engines) -> None:
    outcomes = list(run_plan(case, ["harness"], ["heap", "redis"], engines))

    assert outcomes
    assert [(each.difference, each.unsupported) for each in outcomes] == [(None, None)] * len(
        outcomes
    )
