"""List state, beyond Flink's scenarios: order, nulls, layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashPut, HashScan, SortedRange
from state.descriptors import JSON
from state.errors import StateCorrupt
from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.testing.sessions import LAYOUTS
from state.ttl import DISABLED, TtlConfig, UpdateType, Visibility
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

TTL = TtlConfig(100)
RELAXED = TtlConfig(100, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
ROWS, STAMPS = b'state:["k"]:rows', b'state:["k"]:stamps'


@pytest.fixture(params=LAYOUTS)
def thresholds(request: pytest.FixtureRequest) -> Thresholds:
    return LAYOUTS[request.param]


def driver(stand: Stand, thresholds: Thresholds, ttl: TtlConfig = DISABLED) -> Driver:
    return Driver(stand, descriptor("list", ttl), thresholds)


def test_both_layouts_can_be_read_by_a_person(stand: Stand) -> None:
    packed = Driver(stand, descriptor("list", TTL), LAYOUTS["packed"])
    packed.at(7, lambda s: s.add_all([1, "a"]))
    assert packed.sessions.fetch(HashScan(0, b"state")) == [
        {b'["k"]': b'packed\t2\t2\t2\t7\t0\n1\n"a"'}
    ]

    packed.sessions._thresholds = LAYOUTS["spread"]
    packed.at(9, lambda s: s.add(2))
    assert packed.sessions.fetch(
        HashScan(0, b"state"),
        HashScan(0, ROWS),
        SortedRange(0, STAMPS, 0, 99),
        SortedRange(0, b"state:expiry", 0, 99),
    ) == [
        {b'["k"]': b"spread\t1\t3\t3\t7"},
        {b"0": b"@7 1", b"1": b'@7 "a"', b"2": b"@9 2"},
        [(b"0", 7.0), (b"1", 7.0), (b"2", 9.0)],
        [(b'["k"]', 7.0)],
    ]


def test_elements_stay_in_order_beyond_ten(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds)
    for n in range(25):
        state.at(n, lambda s, n=n: s.add(n))

    assert state.at(30, lambda s: s.get()) == list(range(25))


@pytest.mark.parametrize(
    "operation", [lambda s: s.add(None), lambda s: s.add_all([1, None]), lambda s: s.update([None])]
)
def test_none_is_refused_and_nothing_changes(
    stand: Stand, thresholds: Thresholds, operation: Any
) -> None:
    state = driver(stand, thresholds)
    state.at(0, lambda s: s.add(7))

    with pytest.raises(TypeError, match="None"):
        state.at(1, operation)

    assert state.at(1, lambda s: s.get()) == [7]


def test_adding_none_at_all_is_nothing_and_updating_with_none_clears(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = driver(stand, thresholds, TTL)
    state.at(0, lambda s: s.add(7))

    state.at(1, lambda s: s.add_all([]))
    assert state.at(1, lambda s: s.get()) == [7]
    state.at(1, lambda s: s.update([]))

    assert state.at(1, lambda s: s.get()) is None
    assert state.names() == []


def test_what_is_partly_expired_is_shown_again_until_nothing_lives(
    stand: Stand, thresholds: Thresholds
) -> None:
    """Flink's iterator removes a list only when it came to its end without a live element."""
    state = driver(stand, thresholds, RELAXED)
    state.at(0, lambda s: s.add(1))
    state.at(60, lambda s: s.add(2))

    assert state.at(120, lambda s: s.get()) == [1, 2]
    assert state.at(120, lambda s: s.get()) == [1, 2]
    assert state.at(160, lambda s: s.get()) == [1, 2]
    assert state.at(160, lambda s: s.get()) is None


def test_where_reads_count_expired_elements_are_shown_once_more_and_go(
    stand: Stand, thresholds: Thresholds
) -> None:
    ttl = TtlConfig(100, UpdateType.ON_READ_AND_WRITE, Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    state = driver(stand, thresholds, ttl)
    state.at(0, lambda s: s.add(1))
    state.at(60, lambda s: s.add(2))

    assert state.at(120, lambda s: s.get()) == [1, 2]
    assert state.at(219, lambda s: s.get()) == [2]


def test_on_create_each_element_counts_from_its_own_addition(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = driver(stand, thresholds, TtlConfig(100, UpdateType.ON_CREATE))
    state.at(0, lambda s: s.add(1))
    state.at(50, lambda s: s.add(2))

    assert state.at(100, lambda s: s.get()) == [2]
    assert state.at(150, lambda s: s.get()) is None
    assert state.names() == []


def test_it_is_spread_at_high_and_packed_at_low(stand: Stand) -> None:
    state = driver(stand, Thresholds(high=4, low=2), TTL)

    def is_spread() -> bool:
        (held,) = state.sessions.fetch(HashScan(0, b"state"))
        return held[b'["k"]'].startswith(b"spread")

    state.at(0, lambda s: s.add_all([1, 2, 3]))
    assert not is_spread()
    state.at(50, lambda s: s.add(4))
    assert is_spread()
    assert state.clean(120) == 3
    assert not is_spread()
    assert state.at(120, lambda s: s.get()) == [4]
    assert state.names() == [b"state", b"state:expiry"]


def test_merging_lists_keeps_the_stamps(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds, TTL)
    for ms, namespace in ((0, b"[1]"), (30, b"[2]"), (60, b"[3]")):
        state.at(ms, lambda s, ms=ms: s.add(ms), namespace=namespace)

    state.at(70, lambda s: s.merge_namespaces(b"[2]", [b"[1]", b"[3]"]))

    assert state.at(80, lambda s: s.get(), namespace=b"[2]") == [30, 0, 60]
    assert state.at(100, lambda s: s.get(), namespace=b"[2]") == [30, 60]
    assert state.at(160, lambda s: s.get(), namespace=b"[2]") is None
    assert state.names() == []


def test_a_spread_list_that_lost_a_row_is_refused(stand: Stand) -> None:
    state = driver(stand, LAYOUTS["spread"])
    state.store(HashPut(b"state", [b'["k"]', b"spread\t1\t2\t2\t-"]), HashPut(ROWS, [b"0", b"1"]))
    session = state.session(1)
    handle = state.handle(session)
    session.set_key(JSON.encode(["k"]), 0)

    with pytest.raises(StateCorrupt, match="1 elements, its header says 2"):
        run_now(handle.get(), session)

    assert session.writes() == {}
