"""Map state, beyond Flink's scenarios: nulls, iteration, raw emptiness, layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashPut, HashScan, SortedRange
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
READ = TtlConfig(100, UpdateType.ON_READ_AND_WRITE)
ROWS, STAMPS = b'state:["k"]:rows', b'state:["k"]:stamps'


@pytest.fixture(params=LAYOUTS)
def thresholds(request: pytest.FixtureRequest) -> Thresholds:
    return LAYOUTS[request.param]


def driver(stand: Stand, thresholds: Thresholds, ttl: TtlConfig = DISABLED) -> Driver:
    return Driver(stand, descriptor("map", ttl), thresholds)


def test_both_layouts_can_be_read_by_a_person(stand: Stand) -> None:
    state = driver(stand, LAYOUTS["packed"], TTL)
    state.at(7, lambda s: s.put_all({"b": 2, "a": None}))
    assert state.sessions.fetch(HashScan(0, b"state")) == [
        {b'["k"]': b'packed\t2\t2\t0\t7\t0\n"a"\tnull\n"b"\t2'}
    ]

    spread = Driver(stand, descriptor("map", TTL, "other"), LAYOUTS["spread"])
    spread.sessions.epoch = state.sessions.epoch
    spread.at(9, lambda s: s.put(1, [2]))
    assert spread.sessions.fetch(
        HashScan(0, b"other"),
        HashScan(0, b'other:["k"]:rows'),
        SortedRange(0, b'other:["k"]:stamps', 0, 99),
        SortedRange(0, b"other:expiry", 0, 99),
    ) == [
        {b'["k"]': b"spread\t1\t1\t0\t9"},
        {b"1": b"@9 [2]"},
        [(b"1", 9.0)],
        [(b'["k"]', 9.0)],
    ]


def test_none_is_a_value_and_not_the_same_as_absent(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds)
    state.at(0, lambda s: s.put(1, None))

    assert state.at(1, lambda s: s.get(1)) is None
    assert state.at(1, lambda s: s.contains(1))
    assert not state.at(1, lambda s: s.contains(2))
    assert state.at(1, lambda s: s.entries()) == [(1, None)]
    assert state.at(1, lambda s: s.values()) == [None]


def test_putting_no_entries_is_nothing(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds)

    state.at(0, lambda s: s.put_all(None))
    state.at(0, lambda s: s.put_all({}))

    assert state.names() == []


def test_iteration_is_in_the_order_of_the_user_keys_bytes(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = driver(stand, thresholds)
    for key in ("b", "a", "c"):
        state.at(0, lambda s, key=key: s.put(key, 1))
    state.at(0, lambda s: s.put("a", 2))

    assert state.at(1, lambda s: s.keys()) == ["a", "b", "c"]


def test_emptiness_is_raw(stand: Stand, thresholds: Thresholds) -> None:
    """Expired entries count until something removes them, as in Flink."""
    state = driver(stand, thresholds, TTL)
    state.at(0, lambda s: s.put(1, 1))

    assert not state.at(200, lambda s: s.is_empty())
    assert state.at(200, lambda s: s.get(1)) is None
    assert state.at(200, lambda s: s.is_empty())


def test_containing_an_expired_entry_is_true_once(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds, RELAXED)
    state.at(0, lambda s: s.put(1, 1))

    assert state.at(200, lambda s: s.contains(1))
    assert not state.at(200, lambda s: s.contains(1))
    assert state.names() == []


@pytest.mark.parametrize("operation", ["keys", "values", "entries"])
def test_iterating_refreshes_where_reads_count(
    stand: Stand, thresholds: Thresholds, operation: str
) -> None:
    state = driver(stand, thresholds, READ)
    state.at(0, lambda s: s.put_all({1: 1, 2: 2}))

    state.at(60, lambda s: getattr(s, operation)())

    assert state.at(150, lambda s: s.contains(1))
    assert state.at(150, lambda s: s.contains(2))


def test_iterating_removes_what_is_expired(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds, TTL)
    state.at(0, lambda s: s.put(1, 1))
    state.at(50, lambda s: s.put(2, 2))

    assert state.at(100, lambda s: s.entries()) == [(2, 2)]
    assert state.at(150, lambda s: s.entries()) == []
    assert state.names() == []


def test_an_iterator_judges_entries_as_it_comes_to_them(
    stand: Stand, thresholds: Thresholds
) -> None:
    """What it did not come to is neither refreshed nor removed."""
    state = driver(stand, thresholds, READ)
    state.at(0, lambda s: s.put_all({1: 1, 2: 2, 3: 3}))

    async def first(handle: Any) -> Any:
        return next(await handle.iterator())

    assert state.at(50, first) == (1, 1)
    assert state.at(100, lambda s: s.entries()) == [(1, 1)]


def test_an_iterator_removes_what_it_gave_last(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds, TTL)
    state.at(0, lambda s: s.put_all({1: 1, 2: 2, 3: 3}))

    async def remove_even(handle: Any) -> None:
        iterator = await handle.iterator()
        with pytest.raises(RuntimeError, match="directly follow"):
            iterator.remove()
        for key, _ in iterator:
            if key % 2 == 0:
                iterator.remove()
                with pytest.raises(RuntimeError, match="directly follow"):
                    iterator.remove()

    state.at(1, remove_even)

    assert state.at(2, lambda s: s.entries()) == [(1, 1), (3, 3)]


def test_an_iterator_does_not_give_what_was_removed_meanwhile(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = driver(stand, thresholds)
    state.at(0, lambda s: s.put_all({1: 1, 2: 2, 3: 3}))

    async def remove_ahead(handle: Any) -> Any:
        iterator = await handle.iterator()
        first = next(iterator)
        await handle.remove(2)
        return [first, *iterator]

    assert state.at(1, remove_ahead) == [(1, 1), (3, 3)]


def test_on_create_an_entry_counts_from_its_creation(stand: Stand, thresholds: Thresholds) -> None:
    state = driver(stand, thresholds, TtlConfig(100, UpdateType.ON_CREATE))
    state.at(0, lambda s: s.put(1, 1))
    state.at(50, lambda s: s.put_all({1: 2, 2: 2}))

    assert state.at(99, lambda s: s.get(1)) == 2
    assert state.at(100, lambda s: s.entries()) == [(2, 2)]


@pytest.mark.parametrize("epochs", ["one", "each"])
def test_it_is_spread_at_high_and_packed_at_low(stand: Stand, epochs: str) -> None:
    state = driver(stand, Thresholds(high=4, low=2), TTL)
    model: dict[int, int] = {}
    steps = [("put", n) for n in range(6)] + [("remove", n) for n in range(6)]
    layouts = []
    for verb, n in steps:
        if verb == "put":
            model[n] = n
            state.at(n, lambda s, n=n: s.put(n, n))
        elif epochs == "one":
            model.pop(n)
            state.together(9, lambda s, n=n: s.remove(n), lambda s: s.get(5))
        else:
            model.pop(n)
            state.at(9, lambda s, n=n: s.remove(n))
        assert state.at(9, lambda s: s.entries()) == sorted(model.items())
        (held,) = state.sessions.fetch(HashScan(0, b"state"))
        layouts.append(held.get(b'["k"]', b"-").split(b"\t")[0].decode())

    assert layouts == ["packed"] * 3 + ["spread"] * 6 + ["packed"] * 2 + ["-"]
    assert state.names() == []


@pytest.mark.parametrize(
    "text", [b"packed\t1\t0", b"packed\t1\t0\n1", b"packed\t1\t0\n1\t2\n1\t3", b"[1]"]
)
def test_a_packed_map_that_is_none_is_refused_and_stays(stand: Stand, text: bytes) -> None:
    state = driver(stand, LAYOUTS["packed"])
    state.store(HashPut(b"state", [b'["k"]', text]))
    session = state.session(1)
    handle = state.handle(session)
    session.set_key(b'["k"]', 0)

    with pytest.raises(StateCorrupt):
        run_now(handle.put(1, 1), session)

    assert session.writes() == {}
