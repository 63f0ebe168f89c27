"""Cases of our own that were recorded of Flink 2.3, in the plan harness on both backends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.oracles.cases import find_cases
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.conftest import RedisServer
    from tests.oracles.cases import Case

CASES = find_cases(Path(__file__).parent / "recorded" / "plans-more")


@pytest.fixture(scope="module")
def engines(redis_server: RedisServer) -> Iterator[Engines]:
    with Engines(redis_url=redis_server.url) as found:
        yield found


@pytest.mark.parametrize("backend", ["heap", "redis"])
@pytest.mark.parametrize("case", CASES, ids=[case.folder.name for case in CASES])
def test_a_plan_gives_what_flink_gave(case: Case, backend: str, engines: Engines) -> None:
    outcomes = list(run_plan(case, ["harness"], [backend], engines))
    assert outcomes
    for outcome in outcomes:
        assert (outcome.difference, outcome.unsupported) == (None, None)
