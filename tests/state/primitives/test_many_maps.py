"""Maps that are read and changed many at once are what operations of their handle leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.interface import HashPut, HashScan
from state.descriptors import JSON, MapDescriptor
from state.errors import InvariantViolation, StateCorrupt
from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.primitives.many_maps import ManyMaps
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import TtlClock, TtlConfig

if TYPE_CHECKING:
    from state.primitives.maps import MapHandle
    from state.primitives.session import StateSession

KEYS = [b'["%d"]' % number for number in range(3)]
GROUPS = [0, 1, 0]
MAPS = MapDescriptor(name="state", key_codec=JSON, codec=JSON, thresholds=Thresholds(high=4, low=2))
CHANGES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.one_of(st.none(), st.integers(0, 2)), max_size=8
)
EPOCHS = st.lists(st.tuples(*[CHANGES] * len(KEYS)), max_size=4)


def one_by_one(
    session: StateSession, handle: MapHandle[Any, Any], changes: tuple[dict[str, Any], ...]
) -> list[Any]:
    """All entries of each map, which then is changed."""
    shown = []
    for key, key_group, of_key in zip(KEYS, GROUPS, changes, strict=True):
        session.set_key(key, key_group)
        shown.append(run_now(handle.entries(), session))
        for user_key, value in of_key.items():
            if value is None:
                run_now(handle.remove(user_key), session)
            else:
                run_now(handle.put(user_key, value), session)
    return shown


def at_once(
    session: StateSession, handle: MapHandle[Any, Any], changes: tuple[dict[str, Any], ...]
) -> list[Any]:
    """The same by `ManyMaps`; a spread map that may be packed is given back."""
    maps = ManyMaps(handle, KEYS, GROUPS)
    session.execute(maps.first_loads())
    session.execute(maps.more(whole=range(len(KEYS)), fields={}))
    fields, values, counts = maps.entries(range(len(KEYS)))
    given_entries = iter(zip(map(JSON.decode, fields), map(JSON.decode, values), strict=True))
    shown = [[next(given_entries) for _ in range(count)] for count in counts]
    for number, of_key in enumerate(changes):
        named = {JSON.encode(each): value for each, value in of_key.items()}
        found = zip(named, maps.held(number, [*named]), strict=True)
        held = {field: value for field, value in found if value is not None}
        size = maps.size_if_spread(number)
        if size is not None and size - len(named) <= maps.packs_at:
            maps.give_back(number)
            empty: list[dict[str, Any]] = [{}, {}, {}]
            empty[number] = of_key
            one_by_one(session, handle, (empty[0], empty[1], empty[2]))
        elif named:
            texts = {e: None if v is None else JSON.encode(v) for e, v in named.items()}
            maps.change(number, held, texts)
    return shown


@given(EPOCHS)
def test_both_show_and_store_the_same(epochs: list[tuple[dict[str, Any], ...]]) -> None:
    worlds = []
    for run in (one_by_one, at_once):
        stand = SessionStand(heap_stand(), key_groups=(0, 1))
        told: list[Any] = []
        for number, changes in enumerate(epochs):
            session = stand.begin(TtlClock(number))
            told.append(run(session, session.map(MAPS), changes))
            writes = session.writes()
            assert writes == session.writes()
            stand.commit(writes)
        names = [b"state", *(b"state:%b:rows" % key for key in KEYS)]
        worlds.append([told, stand.fetch(*(HashScan(g, n) for n in names for g in (0, 1)))])
    assert worlds[0] == worlds[1]


def test_states_with_stamps_are_refused() -> None:
    session = SessionStand(heap_stand(), key_groups=(0,)).begin(TtlClock(1))
    stamped = MapDescriptor(name="state", key_codec=JSON, codec=JSON, ttl=TtlConfig(5))
    with pytest.raises(InvariantViolation):
        ManyMaps(session.map(stamped), KEYS, GROUPS)


@pytest.mark.parametrize(
    "text",
    [
        b"packed\t1\t0\nx",
        b"packed\t1\t0\n1\t2\n1\t3",
        b"packed\t2\t1\t0\t5\t0\n1\t2",
        b"packed\t3\t2\t0\n1\t2",
        b"x",
    ],
)
def test_what_is_no_map_is_refused(text: bytes) -> None:
    stand = SessionStand(heap_stand(), key_groups=(0, 1))
    stand.begin(TtlClock(1))
    stand.commit({0: [HashPut(b"state", [KEYS[0], text])]})
    session = stand.begin(TtlClock(2))
    with pytest.raises(StateCorrupt):
        at_once(session, session.map(MAPS), ({}, {}, {}))


def test_a_map_with_lines_that_lack_a_user_key_is_not_spread() -> None:
    stand = SessionStand(heap_stand(), key_groups=(0, 1))
    stand.begin(TtlClock(1))
    # Two such lines have as many words as an entry has.
    stand.commit({0: [HashPut(b"state", [KEYS[0], b"packed\t1\t0\nw\nx\ny\nz"])]})
    session = stand.begin(TtlClock(2))
    maps = ManyMaps(session.map(MAPS), KEYS, GROUPS)
    session.execute(maps.first_loads())
    with pytest.raises(StateCorrupt):
        maps.change(0, {}, {b"1": b"2"})
