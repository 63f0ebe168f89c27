"""Elements that were loaded many at once are looked at together: what they give is the same."""

from __future__ import annotations

import sys
from itertools import chain, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.interface import HashPut, HashScan, SortedRange
from state.errors import StateCorrupt
from state.execution.sync import run_now
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import DISABLED, TtlClock, TtlConfig, UpdateType
from tests.state.primitives.driver import descriptor

AGE = 1_577_836_800_000
"""Stamps of our age have the usual length."""
KEYS = [b'["%d"]' % number for number in range(12)]
PAIRS = [(key, 0) for key in KEYS]
WRITES = {"value": "update", "reducing": "add", "aggregating": "add"}
READS = {"value": "value", "reducing": "get", "aggregating": "get"}
TTLS = [
    DISABLED,
    TtlConfig(6),
    TtlConfig(6, UpdateType.ON_CREATE),
    TtlConfig(6, UpdateType.ON_READ_AND_WRITE),
]

STEP = st.tuples(
    st.sampled_from(["write", "write", "read", "read", "clear", "clock"]),
    st.integers(0, len(KEYS) - 1),
    st.integers(0, 3),
)
EPOCH = st.tuples(
    st.integers(-4, 5), st.sets(st.integers(0, len(KEYS) - 1)), st.lists(STEP, max_size=10)
)


def ran(kind: str, ttl: TtlConfig, start_ms: int, epochs: list[Any], *, together: bool) -> Any:
    """What is read in each epoch, and what is stored after it.

    An epoch says how long after the one before it is, what is written first, and what follows.
    """
    stand = SessionStand(heap_stand())
    state = descriptor(kind, ttl=ttl)
    told: list[Any] = []
    ms = start_ms
    for later, written, steps in epochs:
        ms += later
        session = stand.begin(TtlClock(ms))
        handle = getattr(session, kind)(state)
        for pairs in [PAIRS] if together else [[each] for each in PAIRS]:
            session.prefetch([(state, pairs)])
        for step, key, number in [*(("write", key, 1) for key in sorted(written)), *steps]:
            session.set_key(KEYS[key], 0)
            match step:
                case "write":
                    run_now(getattr(handle, WRITES[kind])(number), session)
                case "read":
                    told.append(run_now(getattr(handle, READS[kind])(), session))
                case "clear":
                    run_now(handle.clear(), session)
                case _:
                    session.clock = TtlClock(ms + number - 1)
        session.clean_up((0,))
        stand.end(session)
        told += stand.fetch(HashScan(0, b"state"), SortedRange(0, b"state:expiry", 0, 1 << 60))
    return told


@pytest.mark.parametrize(("kind", "ttl"), [*product(WRITES, TTLS)])
@pytest.mark.parametrize("start_ms", [0, AGE])
@given(epochs=st.lists(EPOCH, max_size=4))
def test_they_read_and_store_the_same(
    kind: str, ttl: TtlConfig, start_ms: int, epochs: list[Any]
) -> None:
    """Whatever their stamps, and whenever in the epoch the clock is set."""
    every_key = (1, set(range(len(KEYS))), [])
    together, alone = (
        ran(kind, ttl, start_ms, [every_key, *epochs], together=each) for each in (True, False)
    )
    assert together == alone


@pytest.mark.parametrize("ttl", [DISABLED, TtlConfig(9)])
@pytest.mark.parametrize("length", [1, 250, 260, 30_000])
@pytest.mark.parametrize("stamps", [1, 2])
def test_more_than_are_looked_at_together_read_the_same_at_any_length(
    ttl: TtlConfig, length: int, stamps: int
) -> None:
    """Short ones are looked at in larger numbers, and the JSON of long ones is copied out."""
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=ttl)
    count = 1_100 if length < 1_000 else 220
    keys = [b"[%d]" % number for number in range(count)]
    for ms in range(stamps):
        session = stand.begin(TtlClock(AGE + ms))
        for number in range(ms, count, ms + 1):
            session.set_key(keys[number], 0)
            run_now(session.value(state).update([number, "@1 " * length]), session)
        stand.end(session)
    session = stand.begin(TtlClock(AGE + 5))
    handle = session.value(state)
    session.prefetch([(state, [(key, 0) for key in keys])])
    for number, key in enumerate(keys):
        session.set_key(key, 0)
        assert run_now(handle.value(), session) == [number, "@1 " * length]


@pytest.mark.parametrize("ttl", [DISABLED, TtlConfig(9)])
def test_a_value_that_was_given_out_may_be_changed_freely(ttl: TtlConfig) -> None:
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=ttl)
    for ms in range(2):
        session = stand.begin(TtlClock(AGE + ms))
        handle = session.value(state)
        session.prefetch([(state, PAIRS)])
        for key in KEYS:
            session.set_key(key, 0)
            if held := run_now(handle.value(), session):
                held.append(1)
                assert run_now(handle.value(), session) == [None]
            run_now(handle.update([None]), session)
        stand.end(session)


@pytest.mark.parametrize("stamp", [b"", b"@%d " % AGE])
@pytest.mark.parametrize("text", [b"[1", b'["1', b"1,2", b"1]", b"", b"\n2"])
def test_a_text_that_is_no_value_is_refused_where_it_is_read_and_nowhere_else(
    stamp: bytes, text: bytes
) -> None:
    stand = SessionStand(heap_stand())
    state = descriptor("value", ttl=TtlConfig(9) if stamp else DISABLED)
    session = stand.begin(TtlClock(AGE))
    pairs = [piece for key in KEYS for piece in (key, stamp + b"[7]")]
    pairs[7] = stamp + text
    stand.commit({0: [HashPut(b"state", pairs)]})

    session = stand.begin(TtlClock(AGE + 1))
    handle = session.value(state)
    session.prefetch([(state, PAIRS)])
    for number, key in enumerate(KEYS):
        session.set_key(key, 0)
        if number == 3 and text.strip() != b"2":
            with pytest.raises(StateCorrupt):
                run_now(handle.value(), session)
        elif number != 3:
            assert run_now(handle.value(), session) == [7]


@pytest.mark.parametrize(
    "texts",
    [
        [b",5"],
        [b"\n,[5]"],
        [b"@%d 1\n@%d 2" % (AGE, AGE), b""],
        [b"@%d 1\x01@%d 2" % (AGE, AGE), b""],
        [b"@%d 1,2" % AGE, b" "],
        [b" ", b"@%d 1,2" % AGE],
    ],
)
def test_what_has_lost_its_stamp_is_not_taken_for_a_part_of_what_stands_before_it(
    texts: list[bytes],
) -> None:
    """Nor does it make room for what another key has too much of."""
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=TtlConfig(9))
    stand.begin(TtlClock(AGE))
    stored = [*texts, *[b"@%d [7]" % AGE] * (len(KEYS) - len(texts))]
    stored = [*stored[-3:], *stored[:-3]]
    stand.commit({0: [HashPut(b"state", [*chain(*zip(KEYS, stored, strict=True))])]})

    session = stand.begin(TtlClock(AGE + 1))
    handle = session.value(state)
    session.prefetch([(state, PAIRS)])
    for key, text in zip(KEYS, stored, strict=True):
        session.set_key(key, 0)
        if text in texts:
            with pytest.raises(StateCorrupt):
                run_now(handle.value(), session)
        else:
            assert run_now(handle.value(), session) == [7]


def test_where_the_index_has_a_newer_stamp_it_is_told() -> None:
    """The first key was written before now, the others after it: lives were extended since."""
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=TtlConfig(900))
    for extension_ms, ms, keys in ((0, 0, KEYS), (0, 50, KEYS[1:]), (100, 110, KEYS)):
        session = stand.begin(TtlClock(AGE + ms, extension_ms=extension_ms))
        handle = session.value(state)
        if extension_ms:
            session.prefetch([(state, PAIRS)])
        for key in keys:
            session.set_key(key, 0)
            if extension_ms:
                assert run_now(handle.value(), session) == (50 if key != KEYS[0] else 0)
            run_now(handle.update(ms), session)
        stand.end(session)

    assert stand.fetch(SortedRange(0, b"state:expiry", 0, 1 << 60)) == [
        [(KEYS[0], float(AGE)), *((key, float(AGE + 10)) for key in sorted(KEYS[1:]))]
    ]


def test_where_the_index_has_older_stamps_it_is_told_nothing() -> None:
    """Of keys that were written at one time, and at several."""
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=TtlConfig(900))
    for ms, keys in ((0, KEYS), (1, KEYS), (2, KEYS[:4]), (3, KEYS)):
        session = stand.begin(TtlClock(AGE + ms))
        handle = session.value(state)
        session.prefetch([(state, PAIRS)])
        for key in keys:
            session.set_key(key, 0)
            run_now(handle.update(ms), session)
        writes = session.writes()
        stand.commit(writes)
        assert len(writes[0]) == (2 if not ms else 1)
    assert stand.fetch(SortedRange(0, b"state:expiry", 0, 1 << 60)) == [
        [(key, float(AGE)) for key in sorted(KEYS)]
    ]


class _Uncompared(bytes):
    """What nobody may ask whether it equals something."""

    __hash__ = bytes.__hash__

    def __eq__(self, other: object) -> bool:
        raise AssertionError("it was compared")


@pytest.mark.parametrize("reads", [False, True])
def test_what_is_written_is_not_compared_with_what_is_older(reads: bool) -> None:
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=TtlConfig(900))
    stand.begin(TtlClock(AGE))
    texts = [_Uncompared(b"@%d [%d]" % (AGE, number)) for number in range(len(KEYS))]
    stand.commit({0: [HashPut(b"state", [*chain(*zip(KEYS, texts, strict=True))])]})

    session = stand.begin(TtlClock(AGE + 1))
    handle = session.value(state)
    session.prefetch([(state, PAIRS)])
    for number, key in enumerate(KEYS):
        session.set_key(key, 0)
        if reads:
            assert run_now(handle.value(), session) == [number]
        run_now(handle.update([number]), session)
    stand.end(session)
    assert stand.fetch(HashScan(0, b"state")) == [
        {key: b"@%d [%d]" % (AGE + 1, number) for number, key in enumerate(KEYS)}
    ]


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("newest", [1, 6, len(KEYS)])
def test_what_is_there_already_is_not_written(reads: bool, newest: int) -> None:
    """So many of the keys that were loaded have the stamp of now, the others an older one."""
    stand, state = SessionStand(heap_stand()), descriptor("value", ttl=TtlConfig(900))
    stand.begin(TtlClock(AGE))
    stamps = [AGE + (number < newest) for number in range(len(KEYS))]
    texts = [b"@%d [7]" % stamp for stamp in stamps]
    stand.commit({0: [HashPut(b"state", [*chain(*zip(KEYS, texts, strict=True))])]})

    session = stand.begin(TtlClock(AGE + 1))
    handle = session.value(state)
    session.prefetch([(state, PAIRS)])
    for key in KEYS:
        session.set_key(key, 0)
        if reads:
            assert run_now(handle.value(), session) == [7]
        run_now(handle.update([7]), session)
    written = [each.pairs[::2] for each in session.writes().get(0, []) if type(each) is HashPut]
    assert written == ([sorted(KEYS[newest:])] if newest < len(KEYS) else [])


@pytest.mark.parametrize("stamp", [b"", b"@%d " % AGE])
def test_a_text_that_was_read_is_held_by_its_cell_alone(stamp: bytes) -> None:
    """Each further one who holds it would touch it once more, to let go."""
    stand = SessionStand(heap_stand())
    state = descriptor("value", ttl=TtlConfig(900) if stamp else DISABLED)
    stand.begin(TtlClock(AGE))
    texts = [stamp + b"[%d]" % number for number in range(len(KEYS))]
    stand.commit({0: [HashPut(b"state", [*chain(*zip(KEYS, texts, strict=True))])]})
    session = stand.begin(TtlClock(AGE + 1))
    before = [*map(sys.getrefcount, texts)]

    handle = session.value(state)
    session.prefetch([(state, PAIRS)])
    session.set_key(KEYS[0], 0)
    assert run_now(handle.value(), session) == [0]
    assert [*map(sys.getrefcount, texts)] == [each + 1 for each in before]
