"""Time to live, as arithmetic: Flink's TtlUtils, FLIP-25's update types and times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import InvalidTtl, StateCorrupt
from state.ttl import (
    DISABLED,
    TIME_MAX,
    TIME_MIN,
    Cleanup,
    TimeCharacteristic,
    TtlClock,
    TtlConfig,
    TtlRules,
    UpdateType,
    Visibility,
    stamped,
    unstamped,
)

TIMES = st.integers(min_value=-(1 << 53), max_value=1 << 53)


def test_an_element_is_expired_exactly_at_stamp_plus_ttl() -> None:
    ttl = TtlConfig(100)

    assert not ttl.is_expired(50, 149)
    assert ttl.is_expired(50, 150)


@pytest.mark.parametrize("stamp", [1, 10, 1_700_000_000_000])
def test_the_longest_ttl_never_expires(stamp: int) -> None:
    assert not TtlConfig(TIME_MAX).is_expired(stamp, TIME_MAX - 1)


@pytest.mark.parametrize("ttl_ms", [0, -1])
def test_a_ttl_that_is_not_positive_is_refused(ttl_ms: int) -> None:
    with pytest.raises(InvalidTtl, match="TTL is expected to be positive"):
        TtlConfig(ttl_ms)


def test_limits_of_clean_up_are_checked() -> None:
    with pytest.raises(InvalidTtl, match="incrementally cleaned up state entries"):
        Cleanup(incremental_entries=-1)
    with pytest.raises(InvalidTtl, match="a record cleans up 0 entries"):
        Cleanup(incremental_on_record=True)
    with pytest.raises(InvalidTtl, match="background_keys_max"):
        Cleanup(background_keys_max=0)


def test_the_defaults_are_flinks() -> None:
    ttl = TtlConfig(1)

    assert ttl.update is UpdateType.ON_CREATE_AND_WRITE
    assert ttl.visibility is Visibility.NEVER_RETURN_EXPIRED
    assert ttl.time is TimeCharacteristic.PROCESSING
    assert ttl.cleanup.background
    assert not DISABLED.is_enabled
    assert not DISABLED.is_expired(0, TIME_MAX)


@pytest.mark.parametrize(
    ("time", "stamp", "now"),
    [
        (TimeCharacteristic.PROCESSING, 1000, 1000),
        (TimeCharacteristic.EVENT_BY_WATERMARK, 700, 600),
        (TimeCharacteristic.EVENT_BY_PROCESSING, 700, 1000),
    ],
)
def test_each_time_has_its_stamp_and_its_now(
    time: TimeCharacteristic, stamp: int, now: int
) -> None:
    ttl = TtlConfig(1, time=time)
    clock = TtlClock(1000, watermark_ms=600)

    assert (clock.stamp(ttl, 700), clock.now(ttl)) == (stamp, now)
    assert clock.stamp(ttl, None) == now


def test_without_a_watermark_nothing_expires_by_it() -> None:
    ttl = TtlConfig(1, time=TimeCharacteristic.EVENT_BY_WATERMARK)

    assert TtlClock(1000).now(ttl) == TIME_MIN
    assert not ttl.is_expired(-(1 << 62), TtlClock(1000).now(ttl))


@given(stamp=TIMES, passed=st.integers(0, 1000), ttl_ms=st.integers(1, 1000), by=st.integers(0, 99))
def test_an_extension_prolongs_what_is_stored_and_not_what_comes(
    stamp: int, passed: int, ttl_ms: int, by: int
) -> None:
    """What was stamped before the extension lives `by` longer; what is stamped after, does not."""
    ttl = TtlConfig(ttl_ms)
    before = TtlClock(stamp).stamp(ttl)
    later = TtlClock(stamp + passed, extension_ms=by)

    assert ttl.is_expired(before, later.now(ttl)) == (ttl_ms + by <= passed)
    fresh = later.stamp(ttl)
    much_later = TtlClock(stamp + passed + ttl_ms, extension_ms=by)
    assert ttl.is_expired(fresh, much_later.now(ttl))


@given(TIMES, st.integers(min_value=1, max_value=1 << 40), st.integers(0, 1 << 40))
def test_an_extension_does_not_prolong_what_comes_in_event_time(
    event_ms: int, ttl_ms: int, by: int
) -> None:
    ttl = TtlConfig(ttl_ms, time=TimeCharacteristic.EVENT_BY_PROCESSING)
    stamp = TtlClock(0, extension_ms=by).stamp(ttl, event_ms)

    ends_ms = event_ms + ttl_ms
    assert not ttl.is_expired(stamp, TtlClock(ends_ms - 1, extension_ms=by).now(ttl))
    assert ttl.is_expired(stamp, TtlClock(ends_ms, extension_ms=by).now(ttl))


@given(stamp=st.none() | TIMES, json=st.sampled_from([b"null", b"-1", b'"@1 x"', b"[]", b"{}"]))
def test_a_stamp_comes_back_as_it_was(stamp: int | None, json: bytes) -> None:
    assert unstamped(stamped(json, stamp)) == (stamp, json)


@pytest.mark.parametrize("text", [b"@", b"@5", b"@5 ", b"@ 1", b"@x 1"])
def test_a_broken_stamp_is_refused(text: bytes) -> None:
    with pytest.raises(StateCorrupt):
        unstamped(text)


class TestRules:
    CLOCK = TtlClock(150)

    @pytest.mark.parametrize(
        ("update", "old", "stamp"),
        [
            (UpdateType.DISABLED, 100, None),
            (UpdateType.ON_CREATE_AND_WRITE, 100, 150),
            (UpdateType.ON_READ_AND_WRITE, 100, 150),
            # Creation stays as long as the element lives; what replaces an expired one is new.
            (UpdateType.ON_CREATE, 100, 100),
            (UpdateType.ON_CREATE, 50, 150),
            # Without a stamp, creation is when TTL was switched on.
            (UpdateType.ON_CREATE, None, 120),
        ],
    )
    def test_a_write_stamps(self, update: UpdateType, old: int | None, stamp: int | None) -> None:
        rules = TtlRules(TtlConfig(100, update), enabled_ms=120)

        assert rules.written(old, replaces=True, clock=self.CLOCK, event_ms=None) == stamp

    def test_a_creation_is_stamped_with_now(self) -> None:
        rules = TtlRules(TtlConfig(100, UpdateType.ON_CREATE))

        assert rules.written(None, replaces=False, clock=self.CLOCK, event_ms=None) == 150

    def test_without_a_stamp_life_counts_from_when_ttl_was_switched_on(self) -> None:
        ttl = TtlConfig(100)

        assert not TtlRules(ttl, enabled_ms=51).is_expired(None, self.CLOCK)
        assert TtlRules(ttl, enabled_ms=50).is_expired(None, self.CLOCK)
        assert not TtlRules(ttl).is_expired(None, self.CLOCK)

    def test_a_late_read_makes_nothing_older(self) -> None:
        ttl = TtlConfig(
            100, UpdateType.ON_READ_AND_WRITE, time=TimeCharacteristic.EVENT_BY_WATERMARK
        )

        assert TtlRules(ttl).refreshed(140, self.CLOCK, 120) == 140
        assert TtlRules(ttl).refreshed(140, self.CLOCK, 145) == 145


def test_before_the_first_watermark_what_has_no_time_is_of_the_epochs() -> None:
    """It must not expire with the first watermark, whose time nobody knows yet."""
    ttl = TtlConfig(100, UpdateType.ON_READ_AND_WRITE, time=TimeCharacteristic.EVENT_BY_WATERMARK)
    rules, clock = TtlRules(ttl), TtlClock(1_000, TIME_MIN, extension_ms=50)

    assert rules.written(None, replaces=False, clock=clock, event_ms=None) == 1_000
    assert rules.written(None, replaces=False, clock=clock, event_ms=7) == 7
    assert rules.refreshed(None, clock, None) == 1_000
    assert rules.refreshed(7, clock, None) == 7
    assert rules.refreshed(7, TtlClock(1_000, 600), None) == 600
    assert not rules.is_expired(1_000, TtlClock(2_000, 900))


def test_an_end_that_no_time_can_say_is_the_last_time() -> None:
    assert TtlRules(TtlConfig(100)).expires_ms(50) == 150
    assert TtlRules(TtlConfig(TIME_MAX)).expires_ms(1) == TIME_MAX
    assert TtlRules(TtlConfig(100), enabled_ms=7).expires_ms(None) == 107
    assert TtlRules(TtlConfig(100)).expires_ms(None) is None
    assert TtlRules(DISABLED).expires_ms(50) is None
