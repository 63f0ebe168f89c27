"""Every recorded case of Flink's operator, with every strategy, in epochs of several sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from operators.testing.recorded import run_case
from state.multiset.strategy import Strategy
from tests.oracles import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

    import redis

CASES = sorted(path.parent for path in (RECORDED / "materializer").glob("*/spec.json"))
SETTINGS = [
    (Strategy.LEGACY, None, None),
    (Strategy.VALUE, None, None),
    (Strategy.MAP, None, None),
    (Strategy.ADAPTIVE, None, None),
    (Strategy.ADAPTIVE, 3, 1),
]


def test_the_cases_are_there():
    assert len(CASES) >= 39


@pytest.mark.parametrize(("strategy", "high", "low"), SETTINGS)
@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_heap_emits_what_flink_emitted(
    folder: Path, strategy: Strategy, high: int | None, low: int | None
):
    lines = len((folder / "input.jsonl").read_text().splitlines())
    for size in (7, 1000) if lines > 60 else (1, 7, 1000):
        result = run_case(folder, strategy=strategy, epoch_changes=size, high=high, low=low)
        assert result.difference is None, f"epochs of {size}: {result.difference}"


@pytest.mark.parametrize(("strategy", "high", "low"), SETTINGS)
@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_redis_emits_what_flink_emitted(
    folder: Path, strategy: Strategy, high: int | None, low: int | None, redis_client: redis.Redis
):
    result = run_case(
        folder, strategy=strategy, client=redis_client, epoch_changes=50, high=high, low=low
    )

    assert result.difference is None
