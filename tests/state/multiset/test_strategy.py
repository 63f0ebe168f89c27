"""Thresholds are a checked pair, overridable together or one at a time."""

from __future__ import annotations

import numpy as np
import pytest

from state.errors import InvalidThresholds
from state.multiset.strategy import DEFAULT_THRESHOLDS, HistoryPolicy, Strategy, Thresholds


@pytest.mark.parametrize("backend", ["heap", "redis"])
def test_defaults_leave_a_gap(backend: str):
    default = DEFAULT_THRESHOLDS[backend]

    assert Thresholds.of(backend) == default
    assert default.high > default.low > 0


@pytest.mark.parametrize(("high", "low"), [(1, 1), (5, 6), (0, 0), (3, -1)])
def test_a_pair_without_a_gap_is_refused(high: int, low: int):
    with pytest.raises(InvalidThresholds, match="threshold"):
        Thresholds.of("redis", high, low)


@pytest.mark.parametrize("high", [1, 2, 30, 10_000_000])
def test_high_alone_is_never_refused_for_the_default_of_low(high: int):
    """In Flink high=30 on RocksDB fails the job: the default of low is 40."""
    assert Thresholds.of("redis", high=high).high == high


@pytest.mark.parametrize("low", [0, 7, 10_000_000])
def test_low_alone_is_never_refused_for_the_default_of_high(low: int):
    assert Thresholds.of("redis", low=low).low == low


def test_adaptive_changes_the_layout_at_high_and_at_low_inclusively():
    policy = HistoryPolicy(Strategy.ADAPTIVE, Thresholds(high=50, low=40))
    sizes = np.array([49, 50, 40, 41])

    spread = policy.spread_after(sizes, np.array([False, False, True, True]))

    assert spread.tolist() == [False, True, False, True]


@pytest.mark.parametrize(
    ("strategy", "spread"),
    [(Strategy.LEGACY, False), (Strategy.VALUE, False), (Strategy.MAP, True)],
)
def test_the_others_have_one_layout(strategy: Strategy, spread: bool):
    policy = HistoryPolicy(strategy, Thresholds(high=2, low=1))

    assert policy.spread_after(np.array([1, 99]), np.array([True, False])).tolist() == [spread] * 2


def test_an_entry_expires_at_its_time_plus_ttl():
    policy = HistoryPolicy(Strategy.MAP, Thresholds(high=2, low=1), ttl_ms=100)

    assert not policy.is_expired(1000, 1099)
    assert policy.is_expired(1000, 1100)
