"""A function of users against its twin in Flink: plan, changes and table were recorded of Flink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.oracles import RECORDED
from tests.oracles.cases import find_cases
from tests.oracles.engines import Engines
from tests.oracles.plans import run_plan

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import RedisServer
    from tests.oracles.cases import Case

CASES = find_cases(RECORDED / "functions")


@pytest.mark.parametrize("case", CASES, ids=[each.folder.name for each in CASES])
def test_a_function_gives_what_its_twin_gave(
    case: Case, redis_server: RedisServer, custom_window: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(custom_window))

    with Engines(redis_url=redis_server.url) as engines:
        outcomes = list(run_plan(case, ["harness"], ["heap", "redis"], engines))

    assert [(each.difference, each.unsupported) for each in outcomes] == [(None, None)] * 2
