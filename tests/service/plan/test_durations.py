"""Durations: every text with what Flink 2.3 makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.plan.durations import format_duration_ms, parse_duration_ms
from service.plan.errors import DurationError

ACCEPTED = [
    ("0", 0),
    ("1", 1),
    ("00 ms", 0),
    ("1500 ms", 1_500),
    ("1MS", 1),
    ("1\ts", 1_000),
    (" 1 h ", 3_600_000),
    ("36 h", 129_600_000),
    ("5 m", 300_000),
    ("1 minute", 60_000),
    ("30 secs", 30_000),
    ("1 Days", 86_400_000),
    ("7 D", 604_800_000),
    ("500 milli", 500),
    # Finer than a millisecond is cut off, so the state would never expire.
    ("999 micro", 0),
    ("1999 µs", 1),
    ("9 ns", 0),
    ("9223372036854775807 ms", 2**63 - 1),
    ("9223372036854775808 ns", 9_223_372_036_854),
    ("106751991167 d", 9_223_372_036_828_800_000),
    ("PT1H", 3_600_000),
    ("pt1h", 3_600_000),
    ("P1D", 86_400_000),
    ("p1dt1h", 90_000_000),
    ("PT1H30M", 5_400_000),
    ("PT1H-30M", 1_800_000),
    ("PT-1H90M", 1_800_000),
    ("PT0.5S", 500),
    ("PT1,5S", 1_500),
    ("PT0.0009S", 0),
    ("+PT1S", 1_000),
    ("-PT0S", 0),
    ("-PT-1S", 1_000),
    ("PT-0S", 0),
]
REFUSED = [
    ("", "empty"),
    ("   ", "empty"),
    ("abc", "does not start with a number"),
    ("+5 s", "does not start with a number"),
    ("-1 ms", "does not start with a number"),
    ("-0", "does not start with a number"),
    ("\u0661 s", "does not start with a number"),
    ("\u2003 1 s", "does not start with a number"),
    ("P", "does not start with a number"),
    ("PT", "does not start with a number"),
    ("P1DT", "does not start with a number"),
    ("P1M", "does not start with a number"),
    ("P1W", "does not start with a number"),
    ("PT.5S", "does not start with a number"),
    ("PT-1S", "negative"),
    ("-PT1S", "negative"),
    ("1 week", "'week'"),
    ("7 us", "'us'"),
    ("1 \u03bcs", "unit"),
    ("1 \u212as", "unit"),
    ("1\xa0s", "unit"),
    ("1.5 h", "'.5 h'"),
    ("1,5 s", "unit"),
    ("1e3", "unit"),
    ("0x10 ms", "unit"),
    ("1_000 ms", "unit"),
    ("1 h 30 min", "'h 30 min'"),
    ("9223372036854775808 ms", "too long"),
    ("9223372036854775807 d", "too long"),
    ("106751991168 d", "too long"),
    ("PT9223372036854775807S", "too long"),
    ("9" * 5_000 + " ns", "too long"),
    ("P" + "9" * 5_000 + "D", "does not start with a number"),
]


@pytest.mark.parametrize(("text", "expected_ms"), ACCEPTED)
def test_a_duration_is_cut_off_to_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_what_is_no_duration_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(DurationError, match=reason) as refusal:
        parse_duration_ms(text)

    assert len(str(refusal.value)) < 500


@given(st.integers(min_value=0, max_value=2**63 - 1))
def test_what_is_written_is_read_back(duration_ms: int) -> None:
    assert parse_duration_ms(format_duration_ms(duration_ms)) == duration_ms


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (1_500, "1500 ms"),
        (10_000, "10 s"),
        (120_000, "2 min"),
        (43_200_000, "12 h"),
        (604_800_000, "7 d"),
    ],
)
def test_the_largest_unit_that_divides_is_written(duration_ms: int, text: str) -> None:
    assert format_duration_ms(duration_ms) == text
