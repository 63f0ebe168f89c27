"""What people see of primitives is what operators would read, without what expired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashDelete, HashPut
from state.descriptors import JSON, SortedMapDescriptor, StateDescriptor, TimersDescriptor
from state.errors import StateCorrupt
from state.lexicographic import lexicographic_codec
from state.multiset.spread import SpreadNames
from state.primitives.inspection import Expired, StateContent, read_state
from state.registry import registered_states
from state.testing.multisets import multiset
from state.testing.sessions import LAYOUTS
from state.testing.stand import NODE
from state.ttl import DISABLED, TtlClock, TtlConfig
from state.types import parse_type
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

TTL = TtlConfig(100)
KEY = b'["k"]'
LAYOUT = pytest.mark.parametrize("layout", sorted(LAYOUTS))


def sorted_map(ttl: TtlConfig = TTL) -> StateDescriptor:
    codec = lexicographic_codec([parse_type("INT")])
    return SortedMapDescriptor(name="state", key_codec=codec, codec=JSON, ttl=ttl)


def driver(stand: Stand, state: StateDescriptor, layout: str = "packed") -> Driver:
    return Driver(stand, state, LAYOUTS[layout])


def seen(of: Driver, ms: int, key: bytes = KEY, **page: Any) -> Any:
    """What is read at this time."""
    stand = of.sessions.stand
    (state,) = registered_states(stand.ledger)
    return read_state(stand.view(NODE), state, 0, key, clock=TtlClock(ms), **page)


def pairs(content: Any) -> list[tuple[Any, Any]]:
    assert isinstance(content, StateContent)
    return [(each.key, each.value) for each in content.elements]


@pytest.mark.parametrize("kind", ["value", "reducing", "aggregating"])
def test_a_value_or_accumulator_with_its_life(stand: Stand, kind: str) -> None:
    of = driver(stand, descriptor(kind, TTL))
    write = "update" if kind == "value" else "add"
    of.at(1000, lambda state: getattr(state, write)(4))

    (element,) = seen(of, 1099).elements

    assert element.value == (7 if kind == "aggregating" else 4)
    assert (element.stamp_ms, element.expires_ms) == (1000, 1100)
    assert seen(of, 1100) == Expired(kind, 1)
    assert seen(of, 1099, b'["other"]') is None


@LAYOUT
def test_a_list_in_its_order_element_by_element(stand: Stand, layout: str) -> None:
    of = driver(stand, descriptor("list", TTL), layout)
    of.at(1000, lambda state: state.add_all(["a", "b"]))
    of.at(1050, lambda state: state.add_all(["c", "d", "e"]))

    content = seen(of, 1050)
    assert content.layout == layout
    assert [value for _, value in pairs(content)] == ["a", "b", "c", "d", "e"]
    assert [value for _, value in pairs(seen(of, 1100))] == ["c", "d", "e"]
    assert seen(of, 1150) == Expired("list", 5)
    assert paged(of, 2) == pairs(content)


@LAYOUT
def test_a_map_by_its_keys_with_null_values(stand: Stand, layout: str) -> None:
    of = driver(stand, descriptor("map"), layout)
    of.at(1000, lambda state: state.put_all({"b": 1, "a": None, "c": [2]}))

    content = seen(of, 10**15)

    assert (content.kind, content.layout) == ("map", layout)
    assert pairs(content) == [("a", None), ("b", 1), ("c", [2])]
    assert {each.expires_ms for each in content.elements} == {None}
    assert paged(of, 1) == pairs(content)


@LAYOUT
def test_a_sorted_map_in_order_with_several_values_a_key(stand: Stand, layout: str) -> None:
    of = driver(stand, sorted_map(), layout)
    for key, value in ((5, "x"), (-3, "y"), (5, "z"), (100, "w")):
        of.at(1000, lambda state, key=key, value=value: state.add((key,), value))

    content = seen(of, 1000)

    assert [value for _, value in pairs(content)] == ["y", "x", "z", "w"]
    assert content.layout == layout
    assert paged(of, 1) == pairs(content)
    assert seen(of, 1100) == Expired("sorted_map", 4)


@LAYOUT
@pytest.mark.parametrize("ttl", [TTL, DISABLED])
def test_a_multiset_of_any_name_oldest_row_first(stand: Stand, layout: str, ttl: TtlConfig) -> None:
    of = driver(stand, multiset(ttl, name="state"), layout)
    rows = [[key, 0] for key in range(40)]
    of.together(1000, *(lambda state, row=row: state.append(row) for row in rows[:20]))
    of.together(1050, *(lambda state, row=row: state.append(row) for row in rows[20:]))
    of.at(1050, lambda state: state.remove([3, 0]))
    left = [(n, row) for n, row in enumerate(rows, 1) if n != 4]

    content = seen(of, 1050)
    assert (content.kind, content.layout) == ("multiset", layout)
    assert pairs(content) == left
    first = content.elements[0]
    assert (first.stamp_ms, first.expires_ms) == (1000, 1100 if ttl is TTL else None)
    for limit in (1, 7, 39):
        assert paged(of, limit) == left
    assert pairs(seen(of, 1100)) == (left[19:] if ttl is TTL else left)
    if ttl is TTL:
        assert seen(of, 1150) == Expired("multiset", 39)
    assert pairs(seen(of, 1050, after="no number")) == []


@pytest.mark.parametrize(
    "stored", [b"41", b"41\t=7", b"41\n3\t16", b"x\n3\t16\t[1]", b"spread\t0\t1"]
)
def test_a_multiset_that_was_cut_off_is_told(stand: Stand, stored: bytes) -> None:
    of = driver(stand, multiset(name="state"))
    of.store(HashPut(b"state", [KEY, stored]))

    with pytest.raises(StateCorrupt):
        seen(of, 0)


def test_a_spread_multiset_without_one_of_its_blocks_is_told(stand: Stand) -> None:
    of = driver(stand, multiset(name="state"), "spread")
    of.together(0, *(lambda state, n=n: state.append([n]) for n in range(40)))
    of.store(HashDelete(SpreadNames.of(KEY, b"state").blocks, [b"1"]))

    with pytest.raises(StateCorrupt, match="missing"):
        seen(of, 0)


@pytest.mark.parametrize("kind", ["list", "map"])
def test_a_packed_collection_that_was_cut_at_its_first_line_is_told(
    stand: Stand, kind: str
) -> None:
    of = driver(stand, descriptor(kind))
    of.store(HashPut(b"state", [KEY, b"packed\t1\t3"]))

    with pytest.raises(StateCorrupt, match="empty"):
        seen(of, 0)


def test_timers_of_a_key_by_time(stand: Stand) -> None:
    of = driver(stand, TimersDescriptor(name="state"))
    session = of.session(0)
    timers = session.timers(TimersDescriptor(name="state"))
    for key, time_ms, namespace in ((KEY, 900, b""), (KEY, 7, b"[1]"), (b'["o"]', 8, b"")):
        timers.register(key, 0, time_ms, namespace)
    of.sessions.end(session)

    assert pairs(seen(of, 0)) == [("[1]", 7), ("", 900)]
    assert paged(of, 1) == [("[1]", 7), ("", 900)]
    assert seen(of, 0, b'["none"]') is None


def test_an_element_without_a_stamp_counts_from_when_the_ttl_was_switched_on(stand: Stand) -> None:
    of = driver(stand, descriptor("value"))
    of.at(1000, lambda state: state.update(1))
    of.change(TTL, 5000)

    (element,) = seen(of, 5099).elements

    assert (element.stamp_ms, element.expires_ms) == (None, 5100)
    assert seen(of, 5100) == Expired("value", 1)


def test_what_cannot_be_read_is_told_without_its_text(stand: Stand) -> None:
    of = driver(stand, descriptor("map"))
    of.store(HashPut(b"state", [KEY, b"packed\t1\t0\nsecret"]))

    with pytest.raises(StateCorrupt) as caught:
        seen(of, 0)

    assert "secret" not in str(caught.value)


def paged(of: Driver, limit: int) -> list[tuple[Any, Any]]:
    """All pages, one after the other."""
    found: list[tuple[Any, Any]] = []
    after: str | None = ""
    while after is not None:
        content = seen(of, 1050, limit=limit, after=after)
        assert len(content.elements) <= limit
        found += pairs(content)
        after = content.next_after
    return found
