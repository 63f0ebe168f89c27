"""Outer, semi and anti joins on columns give what the other path gives, changes and bytes."""

from __future__ import annotations

import tracemalloc
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.join import columnar_join, columnar_meetings
from operators.join.columnar_meetings import Meetings
from operators.spec import InputSpec
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.backends.heap import HeapBackend
from state.errors import StateCorrupt
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, stored_of
from tests.operators.join.test_columnar_join import (
    LEFT,
    LEFT_ALL,
    RIGHT,
    RIGHT_ALL,
    SMALL,
    UNIQUE_KEYS,
    epochs,
    facts,
    harness_of,
    keep_by,
    left_over,
    names,
    ran,
    spec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.join.columnar_meetings import Pairs

TYPES = ("LEFT", "RIGHT", "FULL", "SEMI", "ANTI")


def drawn_join(data: st.DataObject, join_type: str) -> Any:
    known = data.draw(st.tuples(*[st.sampled_from(("none", "contained", "known"))] * 2))
    inputs = (LEFT, RIGHT) if data.draw(st.booleans()) else (LEFT_ALL, RIGHT_ALL)
    return spec(
        join_type=join_type,
        inputs=inputs,
        filter_nulls=(data.draw(st.booleans()),) * len(inputs[0].key),
        unique_keys=(UNIQUE_KEYS[known[0]][0], UNIQUE_KEYS[known[1]][1]),
        equalities=((1, 0),) if data.draw(st.booleans()) else (),
        ttl_ms=data.draw(st.sampled_from(((), (), (4, 4), (4, 0), (0, 4)))),
    )


@pytest.mark.parametrize("join_types", [TYPES[:3], TYPES[3:]], ids=["outer", "semi"])
@given(data=st.data())
def test_both_paths_emit_and_store_the_same(join_types: Sequence[str], data: st.DataObject) -> None:
    join = drawn_join(data, data.draw(st.sampled_from(join_types)))
    thresholds = data.draw(st.sampled_from((None, SMALL)))
    steps = data.draw(epochs())
    with pytest.MonkeyPatch.context() as patch:
        # So that what one section leaves of associations is what the next one finds.
        patch.setattr(columnar_meetings, "PAIRS_AT_ONCE", data.draw(st.sampled_from((1, 4, 999))))
        assert ran(join, steps, 1, thresholds) == ran(join, steps, NEVER, thresholds)


L1, L2 = (1, "left 1", 0.5), (1, "left 2", 0.5)
R1, R2 = ("right 1", 1), ("right 2", 1)
NO_RIGHT = (None, None)
STEPS = [
    Of(0, insert(*L1)),
    Of(1, insert(*R1)),
    Of(1, insert(*R1)),
    Of(0, insert(*L2)),
    Of(1, delete(*R1)),
    Of(0, delete(*L2)),
    Of(1, update_before(*R1)),
    Of(1, update_after(*R2)),
    Of(0, delete(*L1)),
]
"""Two left rows, one for a while; a right one that comes twice, goes once, and is replaced."""


def test_an_epoch_of_all_that_a_left_join_can_meet() -> None:
    harness = harness_of(spec(join_type="LEFT"), 1)
    emitted = harness.run(STEPS)
    assert emitted == [
        insert(*L1, *NO_RIGHT),
        # The first match comes.
        delete(*L1, *NO_RIGHT),
        insert(*L1, *R1),
        # The same row once more.
        insert(*L1, *R1),
        # A left row meets it as often as it is there.
        insert(*L2, *R1),
        insert(*L2, *R1),
        # It goes once: by Flink's rules a right retraction takes back each pair.
        delete(*L1, *R1),
        delete(*L2, *R1),
        delete(*L2, *R1),
        # The last match goes: what is padded comes behind.
        update_before(*L1, *R1),
        insert(*L1, *NO_RIGHT),
        delete(*L1, *NO_RIGHT),
        insert(*L1, *R2),
        delete(*L1, *R2),
    ]
    assert emitted == harness_of(spec(join_type="LEFT"), NEVER).run(STEPS)
    assert len(harness.stored_names()) == 1


def test_a_row_that_is_there_twice_keeps_its_associations_when_it_goes_once() -> None:
    """A +U that comes alone replaces its row: it is no match more."""
    join = spec(join_type="LEFT", unique_keys=(None, UNIQUE_KEYS["known"][1]))
    steps = [
        *(Of(0, insert(*L1)), Of(0, insert(*L1))),
        *(Of(1, insert(*R1)), Of(1, update_after(*R1))),
        Of(0, delete(*L1)),
        Of(1, delete(*R1)),
    ]
    emitted = harness_of(join, 1).run(steps)
    assert emitted == [
        *[insert(*L1, *NO_RIGHT)] * 2,
        *[delete(*L1, *NO_RIGHT), insert(*L1, *R1)] * 2,
        *[insert(*L1, *R1)] * 2,
        delete(*L1, *R1),
        delete(*L1, *R1),
        insert(*L1, *NO_RIGHT),
    ]
    assert ran(join, steps, 1) == ran(join, steps, NEVER)


@pytest.mark.parametrize(
    ("join_type", "emitted"),
    [
        ("SEMI", [insert(*L1), insert(*L2), delete(*L2), update_before(*L1), update_after(*L1)]),
        ("ANTI", [insert(*L1), delete(*L1), insert(*L1), delete(*L1)]),
    ],
)
def test_an_epoch_of_left_rows_that_have_matches_for_a_while(
    join_type: str, emitted: list[Any]
) -> None:
    steps = STEPS[:-1]
    harness = harness_of(spec(join_type=join_type), 1)
    assert harness.run(steps) == emitted
    assert ran(spec(join_type=join_type), steps, 1) == ran(spec(join_type=join_type), steps, NEVER)


@pytest.mark.parametrize("join_type", TYPES)
def test_facts_and_a_dimension_leave_nothing_to_the_other_path(
    join_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = spec(join_type=join_type)
    keys = [at * 7919 % 13 for at in range(400)]
    steps: list[Of | At] = [
        *facts(keys[:300], 1),
        *facts([None, None], 1),
        *names(*range(6)),
        At(1),
        *names(*range(6, 13)),
        At(2),
        *facts(keys, 2),
        At(3),
        Of(1, delete("name 3", 3)),
        Of(1, insert("name 3, again", 3)),
        Of(0, delete(keys[5], "fact 2 5", 0.5)),
        At(4),
        *(Of(1, delete(f"name {key}", key)) for key in range(6, 13)),
        At(5),
    ]
    harness = harness_of(join, 1)
    counts = left_over(harness, monkeypatch)
    emitted = harness.run(steps)
    assert set(counts) == {0}
    assert emitted
    assert ran(join, steps, 1) == ran(join, steps, NEVER)


@pytest.mark.parametrize("join_type", TYPES)
def test_redis_has_the_same_as_the_heap(join_type: str, redis_client: redis.Redis) -> None:
    join = spec(join_type=join_type)
    steps = [
        *facts([1] * 30 + [2] * 70 + [None], 1),
        At(1),
        *names(1, 2, 3),
        At(2),
        *facts([1] * 50 + [2] * 10, 2),
        Of(0, delete(2, "fact 1 40", 0.5)),
        At(3),
        Of(1, delete("name 2", 2)),
        *names(1),
        At(4),
    ]
    on_redis = OperatorHarness.on_redis(join, redis_client)
    try:
        assert repr(on_redis.run(steps)) == ran(join, steps, NEVER)[0]
    finally:
        on_redis.close()


def test_what_was_never_there_goes_the_other_way_by_its_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = harness_of(spec(join_type="FULL"), 1)
    counts = left_over(harness, monkeypatch)
    harness.run([*names(1, 2), At(1)])
    emitted = harness.run([*facts([1, 2, 1], 1), Of(0, delete(2, "never", 0.5))])
    assert counts == [0, 2]
    assert harness.statistics[-1]["orphans"] == 1
    assert [each.kind.short for each in emitted] == ["-D", "+I"] * 2 + ["+I", "-D", "+I"]


def test_a_spread_side_that_is_short_by_new_thresholds_is_packed_by_a_match() -> None:
    """Its rows are written since their associations change, so it is seen how many there are."""
    ends = []
    for columns_from in (1, NEVER):
        harness = harness_of(spec(join_type="LEFT"), columns_from, SMALL)
        harness.run([*facts([1] * 10, 1), At(1)])
        keep_by(harness, None)
        emitted = harness.run([*names(1), At(2)])
        ends.append((emitted, stored_of(harness)))
    assert ends[0] == ends[1]
    assert len(ends[0][0]) == 20


def test_pairs_of_a_hot_key_are_looked_at_section_by_section(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    pairs = Meetings.pairs

    def counted(self: Meetings, rows: range) -> Pairs:
        found = pairs(self, rows)
        sizes.append(found.cause.size)
        return found

    monkeypatch.setattr(columnar_meetings, "PAIRS_AT_ONCE", 32)
    monkeypatch.setattr(Meetings, "pairs", counted)
    join = spec(join_type="FULL")
    steps: list[Of | At] = [Of(1, insert(f"right {at}", 1)) for at in range(10)]
    steps += [At(1), *facts([1] * 40, 2), At(2)]
    emitted, stored, counts = ran(join, steps, 1)
    assert max(sizes) == 30
    assert sum(sizes) == 40 * 10
    assert counts[-2]["rows_out"] == 40 * 10 + 10
    assert (emitted, stored, counts) == ran(join, steps, NEVER)


def test_a_row_that_is_emitted_takes_17_bytes_until_columns_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So a hot key takes the memory of what it emits, and little beside it."""
    sizes: list[int] = []
    columns = columnar_join._columns

    def measured(*given: Any) -> Any:
        sizes.append(tracemalloc.get_traced_memory()[0])
        return columns(*given)

    monkeypatch.setattr(columnar_join, "_columns", measured)
    harness = harness_of(spec(join_type="FULL"), 1)
    harness.run([*(Of(1, insert(f"right {at}", 1)) for at in range(400)), At(1)])
    changes = facts([1] * 300, 2)
    sizes.clear()
    tracemalloc.start()
    try:
        emitted = harness.run_epoch(changes)
    finally:
        tracemalloc.stop()
    assert len(emitted) == 300 * 400 + 400
    assert sizes[0] < 24 * len(emitted)


_VALUES = {
    "none": (b"7", b"x", b"[1]", b"[1,2,3]", b"[1,2.5]", b'["1",2]', b"[0,1]", b"[-1,1]"),
    "known": (b"x", b"[,[1]]", b"[x,[1]]"),
}


@pytest.mark.parametrize(
    ("known", "value"), [(known, each) for known, values in _VALUES.items() for each in values]
)
def test_associations_that_cannot_be_read_are_refused(known: str, value: bytes) -> None:
    join = spec(join_type="LEFT", unique_keys=(UNIQUE_KEYS[known][0], None))
    harness = harness_of(join, 1)
    harness.run([*facts([1], 1), At(1)])
    assert isinstance(harness._backend, HeapBackend)
    for group in harness._backend.store.key_groups.values():
        held = group.space.structures.get(b"leftState", {})
        assert isinstance(held, dict)
        for key, text in held.items():
            assert isinstance(text, bytes)
            held[key] = text[: text.rindex(b"\t") + 1] + value
    with pytest.raises(StateCorrupt):
        harness.run(names(1))


def test_entries_of_maps_have_the_order_of_state_in_rows_that_are_met() -> None:
    types = tuple(map(parse_type, ("INT", "MAP<STRING, INT>")))
    side = InputSpec(types=types, names=("k", "m"), key=(0,))
    row, more = (1, {"b": 1, "a": 2}), (1, {"d": 1, "c": 2})
    steps: list[Of | At] = [Of(0, insert(*row)), Of(1, insert(*row)), Of(1, insert(*more)), At(1)]
    steps += [Of(0, insert(*more)), Of(1, delete(*row)), Of(1, delete(*more)), At(2)]
    for join_type in TYPES:
        join = spec(join_type=join_type, inputs=(side, side))
        assert ran(join, steps, 1) == ran(join, steps, NEVER)


CUT = [*map(datetime.fromisoformat, ("2020-01-01T00:00:00.500", "1969-12-31T23:59:59.999"))]


@pytest.mark.parametrize("logical", ["TIMESTAMP(0)", "TIME(0)", "ROW<t TIMESTAMP(0)>"])
@pytest.mark.parametrize("join_type", ["INNER", *TYPES])
def test_times_have_the_digits_of_their_type_in_rows_that_are_met(
    join_type: str, logical: str
) -> None:
    """As what comes back from state; a change's own row has the digits that it came with."""
    types = tuple(map(parse_type, ("INT", logical)))
    side = InputSpec(types=types, names=("k", "t"), key=(0,))
    values: list[Any] = [*CUT, None]
    if logical == "TIME(0)":
        values = [None if each is None else each.time() for each in values]
    if logical.startswith("ROW"):
        values = [(each,) for each in values]
    came = [insert(1, each) for each in values]
    gone = [delete(1, each) for each in values]
    steps: list[Of | At] = []
    for time_ms, number in enumerate((0, 1, 1, 0), 1):
        changes = came if time_ms % 2 else gone
        steps += [*(Of(number, e) for e in came), *(Of(1 - number, e) for e in changes)]
        steps += [*(Of(number, e) for e in gone), At(time_ms)]
    join = spec(join_type=join_type, inputs=(side, side))
    emitted = ran(join, steps, 1)
    assert emitted == ran(join, steps, NEVER)
    assert "500000" in emitted[0]
