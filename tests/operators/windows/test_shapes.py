"""Which windows contain a time, and when local times have passed."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.testing.batch_windows import windows_of
from operators.time_zones import UnknownZone
from operators.windows.shapes import Cumulating, Hopping, Span, Tumbling
from operators.windows.zones import LocalTime

SHAPES = [
    (Tumbling(size_ms=10), 10, 10, False),
    (Hopping(size_ms=12, slide_ms=4), 12, 4, False),
    (Hopping(size_ms=10, slide_ms=4), 10, 4, False),
    (Hopping(size_ms=3, slide_ms=7), 3, 7, False),
    (Hopping(size_ms=12, slide_ms=4, has_panes=True), 12, 4, False),
    (Hopping(size_ms=10, slide_ms=4, has_panes=True), 10, 4, False),
    (Hopping(size_ms=4, slide_ms=6, has_panes=True), 4, 6, False),
    (Cumulating(size_ms=12, step_ms=4), 12, 4, True),
]


@given(at_ms=st.integers(-50, 50), chosen=st.sampled_from(SHAPES))
def test_windows_are_those_that_contain_the_time(
    at_ms: int, chosen: tuple[Tumbling | Hopping | Cumulating, int, int, bool]
) -> None:
    shape, size_ms, every_ms, cumulates = chosen
    expected = windows_of(at_ms, size_ms, every_ms, cumulates=cumulates)
    found = shape.windows(at_ms)
    assert sorted(found, key=lambda each: each.end) == expected
    assert all(shape.window_start(each.end) == each.start for each in found)
    if isinstance(shape, Hopping) and not shape.is_sliced:
        return
    slice_end = shape.slice_end(at_ms)
    if not found:
        assert isinstance(shape, Hopping)
        assert shape.has_gaps
        assert not shape.has_window(slice_end)
        return
    assert shape.first_window_end(slice_end) == expected[0].end
    assert shape.last_window_end(slice_end) == expected[-1].end
    ends = [each.end for each in expected]
    assert [shape.next_window_end(end) for end in ends[:-1]] == ends[1:]


@given(at_ms=st.integers(-50, 50), size_ms=st.integers(1, 12), slide_ms=st.integers(1, 12))
def test_the_panes_of_a_window_are_the_times_in_it(at_ms: int, size_ms: int, slide_ms: int) -> None:
    shape = Hopping(size_ms=size_ms, slide_ms=slide_ms, has_panes=True)
    for window in shape.windows(at_ms):
        slices = shape.slices(window.end)
        times = [at for end in slices for at in range(end - shape.slice_ms, end)]
        assert times == list(range(window.start, window.end))
        assert shape.slice_end(at_ms) in slices


def test_an_offset_moves_windows() -> None:
    assert Tumbling(size_ms=10, offset_ms=3).windows(2) == [Span(start=-7, end=3)]
    assert Tumbling(size_ms=10, offset_ms=-4).windows(2) == [Span(start=-4, end=6)]
    assert Cumulating(size_ms=10, step_ms=5, offset_ms=1).windows(6) == [Span(start=1, end=11)]


def ms(*local: int) -> int:
    year, month, day, *rest = local
    return int(dt.datetime(year, month, day, *rest, tzinfo=dt.UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("local", "point_ms"),
    [
        ((2021, 3, 14, 1), 1_615_712_400_000),
        ((2021, 3, 14, 2), 1_615_716_000_000),
        ((2021, 3, 14, 2, 59), 1_615_716_000_000),
        ((2021, 3, 14, 3), 1_615_716_000_000),
        ((2021, 3, 14, 4), 1_615_719_600_000),
        ((2021, 11, 7, 0), 1_636_268_400_000),
        ((2021, 11, 7, 1), 1_636_275_600_000),
        ((2021, 11, 7, 2), 1_636_279_200_000),
    ],
)
def test_hours_that_a_zone_skips_or_has_twice(local: tuple[int, ...], point_ms: int) -> None:
    """Figures of Flink's TimeWindowUtil, for Los Angeles."""
    assert LocalTime("America/Los_Angeles").passed(ms(*local)) == point_ms


@pytest.mark.parametrize(
    ("zone", "local", "point"),
    [
        ("Asia/Shanghai", (1988, 9, 11, 1, 30), (1988, 9, 10, 16, 30)),
        ("America/Sao_Paulo", (2018, 2, 17, 23, 30), (2018, 2, 18, 1, 30)),
        ("Africa/Casablanca", (2021, 4, 11, 2, 30), (2021, 4, 11, 1, 30)),
        ("Australia/Lord_Howe", (2021, 4, 4, 1, 45), (2021, 4, 3, 15, 45)),
        ("Europe/Dublin", (2021, 10, 31, 1, 30), (2021, 10, 31, 1, 30)),
    ],
)
def test_only_zones_that_still_change_their_clocks_wait_for_the_second_time(
    zone: str, local: tuple[int, ...], point: tuple[int, ...]
) -> None:
    """As Flink 2.3 asks Java's `TimeZone.useDaylightTime`: of these it is true of the last two."""
    assert LocalTime(zone).passed(ms(*local)) == ms(*point)


@pytest.mark.parametrize("name", ["GMT+08:00", "+08:00", "UTC+8", "Asia/Shanghai"])
def test_zones_by_name_and_by_offset(name: str) -> None:
    zone = LocalTime(name)
    assert zone.of(ms(2021, 1, 1)) == ms(2021, 1, 1, 8)
    assert zone.point(ms(2021, 1, 1, 8)) == ms(2021, 1, 1)
    assert LocalTime("Z").is_utc
    assert LocalTime("default").is_utc


def test_a_zone_that_is_none() -> None:
    with pytest.raises(UnknownZone):
        LocalTime("Mars/Olympus")
