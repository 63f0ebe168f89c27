"""Regular joins: the table of what is emitted, and its laws."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import materialize_upserts
from operators.errors import InvalidSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.joins import bags, changelogs, join_of, never_below_zero, taking_back
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Change, Row

INT, STRING = parse_type("INT"), parse_type("STRING")
TYPES = ("INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI")
UNIQUE_KEYS = {"contained": (1,), "wider": (0, 1), "unique": (0,), "none": None}
"""By what is known of rows (id, k, v) that are joined by k."""


def spec(join_type: str, unique: Sequence[str] = ("unique", "unique"), **fields: Any) -> Any:
    side = InputSpec(types=(INT, STRING, STRING), names=("id", "k", "v"), key=(1,))
    output = RowSpec(types=side.types * 2, names=(*side.names, "id0", "k0", "v0"))
    given: dict[str, Any] = {
        "inputs": (side, side),
        "output": output,
        "join_type": join_type,
        "unique_keys": tuple(UNIQUE_KEYS[each] for each in unique),
        "filter_nulls": (True,),
        **fields,
    }
    if join_type in ("SEMI", "ANTI"):
        given["output"] = RowSpec(types=side.types, names=side.names)
        return SemiAntiJoinSpec.build(**given)
    return StreamingJoinSpec.build(**given)


def left(change: Change) -> Of:
    return Of(0, change)


def right(change: Change) -> Of:
    return Of(1, change)


L1, L2, R1, R2 = (1, "a", "l1"), (2, "a", "l2"), (10, "a", "r1"), (11, "a", "r2")
NONE = (None, None, None)
EMITTED = {
    # A left row, two matches one after the other, both taken back, the left row taken back.
    "INNER": [
        [],
        [insert(*L1, *R1)],
        [insert(*L1, *R2)],
        [delete(*L1, *R1)],
        [delete(*L1, *R2)],
        [],
    ],
    "LEFT": [
        [insert(*L1, *NONE)],
        [delete(*L1, *NONE), insert(*L1, *R1)],
        [insert(*L1, *R2)],
        [delete(*L1, *R1)],
        [delete(*L1, *R2), insert(*L1, *NONE)],
        [delete(*L1, *NONE)],
    ],
    "RIGHT": [
        [],
        [insert(*L1, *R1)],
        [insert(*L1, *R2)],
        [delete(*L1, *R1)],
        [delete(*L1, *R2)],
        [],
    ],
    "FULL": [
        [insert(*L1, *NONE)],
        [delete(*L1, *NONE), insert(*L1, *R1)],
        [insert(*L1, *R2)],
        [delete(*L1, *R1)],
        [delete(*L1, *R2), insert(*L1, *NONE)],
        [delete(*L1, *NONE)],
    ],
    "SEMI": [[], [insert(*L1)], [], [], [delete(*L1)], []],
    "ANTI": [[insert(*L1)], [delete(*L1)], [], [], [insert(*L1)], [delete(*L1)]],
}


@pytest.mark.parametrize("known", ["unique", "none"])
@pytest.mark.parametrize("join_type", TYPES)
def test_matches_that_come_and_go(join_type: str, known: str) -> None:
    harness = OperatorHarness.on_heap(spec(join_type, (known, known)))
    steps = [
        left(insert(*L1)),
        right(insert(*R1)),
        right(insert(*R2)),
        right(delete(*R1)),
        right(delete(*R2)),
        left(delete(*L1)),
    ]
    assert [harness.run([each]) for each in steps] == EMITTED[join_type]
    assert harness.stored_names() == set()


@pytest.mark.parametrize(
    ("join_type", "emitted"),
    [
        ("INNER", [update_before(*L1, *R1), update_after(*L2, *R1)]),
        ("LEFT", [delete(*L1, *R1), insert(*L2, *R1)]),
        (
            "RIGHT",
            [
                update_before(*L1, *R1),
                insert(*NONE, *R1),
                delete(*NONE, *R1),
                insert(*L2, *R1),
            ],
        ),
        (
            "FULL",
            [delete(*L1, *R1), insert(*NONE, *R1), delete(*NONE, *R1), insert(*L2, *R1)],
        ),
        ("SEMI", [update_before(*L1), update_after(*L2)]),
        ("ANTI", []),
    ],
)
def test_an_update_keeps_its_kinds_only_where_flink_does(
    join_type: str, emitted: list[Change]
) -> None:
    harness = OperatorHarness.on_heap(spec(join_type))
    harness.run([right(insert(*R1)), left(insert(*L1))])
    assert harness.run([left(update_before(*L1)), left(update_after(*L2))]) == emitted


def test_kinds_of_the_right_side_show_and_hide_left_rows() -> None:
    semi, anti = (OperatorHarness.on_heap(spec(each)) for each in ("SEMI", "ANTI"))
    steps = [left(insert(*L1)), right(update_after(*R1)), right(update_before(*R1))]
    assert semi.run(steps) == [update_after(*L1), update_before(*L1)]
    assert anti.run(steps) == [insert(*L1), delete(*L1), insert(*L1)]


def test_equal_rows_count_each() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT", ("none", "none")))
    assert harness.run([left(insert(*L1)), left(insert(*L1)), right(insert(*R1))])[2:] == [
        delete(*L1, *NONE),
        insert(*L1, *R1),
        delete(*L1, *NONE),
        insert(*L1, *R1),
    ]
    assert harness.run([right(insert(*R1)), right(delete(*R1)), left(delete(*L1))]) == [
        insert(*L1, *R1),
        insert(*L1, *R1),
        delete(*L1, *R1),
        delete(*L1, *R1),
        delete(*L1, *R1),
    ]


def test_an_update_without_minus_u_counts_once() -> None:
    """In Flink twice (FLINK-40681), so that the padded row never comes back."""
    harness = OperatorHarness.on_heap(spec("LEFT", ("contained", "contained")))
    steps = [left(insert(*L1)), right(insert(*R1)), right(update_after(*R2)), right(delete(*R2))]
    assert harness.run(steps)[2:] == [
        insert(*L1, *R1),
        insert(*L1, *R2),
        delete(*L1, *R2),
        insert(*L1, *NONE),
    ]


def test_a_total_is_one_row_that_is_replaced() -> None:
    """Its unique key has no columns; of one that is not known it would be two rows."""
    side = InputSpec(types=(INT, STRING, STRING), names=("id", "k", "v"), key=())
    joined = spec("INNER", inputs=(side, side), filter_nulls=(), unique_keys=((0,), ()))
    harness = OperatorHarness.on_heap(joined)
    harness.run([right(insert(*R1)), right(update_after(*R2))])
    assert harness.run([left(insert(*L1))]) == [insert(*L1, *R2)]
    harness.run([right(delete(*R2)), left(delete(*L1))])
    assert harness.stored_names() == set()


def test_a_retraction_that_says_the_key_alone_takes_back_what_is_there() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT", ("wider", "wider"), equalities=((2, 2),)))
    harness.run([left(insert(1, "a", "x")), right(insert(2, "a", "x"))])
    assert harness.run([right(delete(2, "a", None))]) == [
        delete(1, "a", "x", 2, "a", "x"),
        insert(1, "a", "x", *NONE),
    ]


def test_nulls_match_only_where_they_are_not_filtered() -> None:
    null_left, null_right = (1, None, "l"), (2, None, "r")
    steps = [left(insert(*null_left)), right(insert(*null_right))]
    filtered = OperatorHarness.on_heap(spec("FULL"))
    assert filtered.run(steps) == [insert(*null_left, *NONE), insert(*NONE, *null_right)]
    assert filtered.stored_names() == set()
    assert filtered.run([left(delete(*null_left))]) == [delete(*null_left, *NONE)]
    assert filtered.statistics[-1]["orphans"] == 0
    equal = OperatorHarness.on_heap(spec("INNER", filter_nulls=(False,)))
    assert equal.run(steps) == [insert(*null_left, *null_right)]


def test_columns_that_are_compared_beside_the_key() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", equalities=((2, 2),)))
    same = (3, "a", "l1")
    assert harness.run([left(insert(*L1)), right(insert(*R1)), right(insert(*same))]) == [
        insert(*L1, *same)
    ]
    nulls = [left(insert(5, "b", None)), right(insert(6, "b", None))]
    assert harness.run(nulls) == []


def test_each_side_has_its_own_ttl() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT", ttl_ms=(10, 0)))
    assert harness.run([left(insert(*L1)), At(10), right(insert(*R1))]) == [insert(*L1, *NONE)]
    assert harness.run([At(11), left(insert(*L2)), At(20), right(insert(*R2))]) == [
        insert(*L2, *R1),
        insert(*L2, *R2),
    ]
    assert harness.run([At(30), right(delete(*R1)), right(delete(*R2))]) == []
    assert harness.stored_names() == set()


def test_a_new_association_counts_as_a_write() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT", ttl_ms=(10, 0)))
    harness.run([left(insert(*L1)), At(9), right(insert(*R1)), At(18)])
    assert harness.run([right(insert(*R2))]) == [insert(*L1, *R2)]


@pytest.mark.parametrize("join_type", TYPES)
def test_a_retraction_of_nothing_is_an_orphan(join_type: str) -> None:
    harness = OperatorHarness.on_heap(spec(join_type, ("contained", "none")))
    harness.run([left(delete(*L1)), right(delete(*R1))])
    assert harness.statistics[-1]["orphans"] == 2


def test_an_expired_row_is_taken_back_from_what_it_was_joined_with() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", ttl_ms=(10, 0)))
    harness.run([left(insert(*L1)), right(insert(*R1)), At(10)])
    assert harness.run([left(delete(*L1))]) == [delete(*L1, *R1)]


def test_a_spec_refuses_sides_that_do_not_fit() -> None:
    with pytest.raises(InvalidSpec, match="differ in length"):
        spec("INNER", filter_nulls=(True, True))
    with pytest.raises(InvalidSpec, match="does not name columns"):
        spec("INNER", unique_keys=((7,), None))


Case = tuple[StreamingJoinSpec | SemiAntiJoinSpec, list[Of]]
ROWS = st.tuples(st.integers(1, 3), st.sampled_from(["a", "b", None]), st.sampled_from(["x", "y"]))


def belong(one: Row, other: Row) -> bool:
    return one[1] is not None and one[1] == other[1]


def expected_bag(
    joined: StreamingJoinSpec | SemiAntiJoinSpec, changes: Sequence[Of]
) -> Counter[Row]:
    of_left, of_right = bags(changes, 2)
    return join_of(of_left, of_right, joined.join_type, belong, (3, 3))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Of]]:
    join_type = draw(st.sampled_from(TYPES))
    unique = draw(st.tuples(*[st.sampled_from(sorted(UNIQUE_KEYS))] * 2))
    changes = draw(changelogs([ROWS, ROWS], [UNIQUE_KEYS[each] for each in unique]))
    return spec(join_type, unique), changes


@given(case=cases())
def test_every_prefix_is_the_join_of_what_came(
    case: Case,
) -> None:
    joined, changes = case
    harness = OperatorHarness.on_heap(joined)
    emitted: list[Change] = []
    for place, change in enumerate(changes, start=1):
        emitted += harness.run([change])
        assert never_below_zero(emitted) == expected_bag(joined, changes[:place])
    emitted += harness.run(taking_back(changes, 2))
    assert never_below_zero(emitted) == Counter()
    assert harness.stored_names() == set()
    assert sum(each["orphans"] for each in harness.statistics) == 0


@given(data=st.data(), join_type=st.sampled_from(TYPES), size=st.integers(1, 6))
def test_updates_that_come_alone_replace_what_was_there(
    data: st.DataObject, join_type: str, size: int
) -> None:
    """On every path, with and without a condition: the table by the unique keys of both sides."""
    unique = data.draw(st.tuples(*[st.sampled_from(["contained", "wider"])] * 2), label="unique")
    keys = [UNIQUE_KEYS[each] or () for each in unique]
    condition = data.draw(st.sampled_from([(), ((2, 2),)]), label="equalities")
    bundles = data.draw(st.booleans(), label="bundles")
    joined = spec(join_type, unique, equalities=condition, bundles=bundles)
    says_before = data.draw(st.tuples(st.booleans(), st.booleans()), label="says -U")
    changes = data.draw(changelogs([ROWS, ROWS], keys, says_before=says_before))
    # In front of a row of each side is whether it is padded: keys may be null.
    key = (0, *(1 + at for at in keys[0]))
    if join_type not in ("SEMI", "ANTI"):
        key += (4, *(5 + at for at in keys[1]))

    def marked(row: Row) -> Row:
        sides = [row[at : at + 3] for at in range(0, len(row), 3)]
        return tuple(value for side in sides for value in (side[0] is None, *side))

    def meet(one: Row, other: Row) -> bool:
        return belong(one, other) and (not condition or one[2] == other[2])

    for columns_from in (1, 1 << 30):
        harness = OperatorHarness.on_heap(joined, columns_from=columns_from)
        emitted: list[Change] = []
        for first in range(0, len(changes), size):
            emitted += harness.run(changes[first : first + size])
            sides = [
                Counter(
                    materialize_upserts(
                        (each.change for each in changes[: first + size] if each.input == number),
                        keys[number],
                    ).values()
                )
                for number in (0, 1)
            ]
            expected = join_of(*sides, join_type, meet, (3, 3))
            shown = [replace(each, row=marked(each.row)) for each in emitted]
            found = Counter(materialize_upserts(shown, key).values())
            assert found == Counter(marked(row) for row in expected.elements())


@given(case=cases(), bundles=st.booleans(), size=st.integers(1, 5), data=st.data())
def test_the_same_whatever_is_answered_when(
    case: Case, bundles: bool, size: int, data: st.DataObject
) -> None:
    joined, changes = case
    emits_the_same_any_way(joined.model_copy(update={"bundles": bundles}), changes, data, size)


@given(case=cases(), at=st.integers(0, 14))
def test_a_restart_anywhere_changes_nothing(case: Case, at: int) -> None:
    joined, changes = case
    harness = OperatorHarness.on_heap(joined)
    emitted = harness.run(changes[:at])
    harness.restart(joined.model_copy(update={"ttl_ms": (1_000_000, 0)}))
    emitted += harness.run(changes[at:])
    assert emitted == OperatorHarness.on_heap(joined).run(changes)


@given(case=cases(), size=st.integers(1, 14))
def test_bundles_leave_the_same_table(case: Case, size: int) -> None:
    joined, changes = case
    harness = OperatorHarness.on_heap(joined.model_copy(update={"bundles": True}))
    emitted = harness.run(changes, epoch_changes=size)
    assert never_below_zero(emitted) == expected_bag(joined, changes)
    harness.run(taking_back(changes, 2))
    assert harness.stored_names() == set()


def test_a_bundle_leaves_away_what_takes_itself_back() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", bundles=True))
    harness.run([right(insert(*R1))])
    changed = (1, "a", "l1x")
    assert harness.run(
        [
            left(insert(*L1)),
            left(update_before(*L1)),
            left(update_after(*changed)),
            left(insert(*L2)),
            left(delete(*L2)),
        ]
    ) == [update_after(*changed, *R1)]
    assert harness.run([left(update_before(*changed)), left(update_after(*changed))]) == [
        update_before(*changed, *R1),
        update_after(*changed, *R1),
    ]
    assert harness.run([left(update_after(*L1)), left(delete(*L1))]) == [
        update_after(*L1, *R1),
        delete(*L1, *R1),
    ]
    assert harness.stored_names() == {b"rightState"}


def test_a_bundle_pads_nothing_that_an_update_leaves_joined() -> None:
    harness = OperatorHarness.on_heap(spec("FULL", bundles=True))
    harness.run([left(insert(*L1)), right(insert(*R1))])
    changed = (1, "a", "l1x")
    assert harness.run([left(update_before(*L1)), left(update_after(*changed))]) == [
        delete(*L1, *R1),
        insert(*changed, *R1),
    ]
    assert harness.run([left(delete(*changed))]) == [
        delete(*changed, *R1),
        insert(None, None, None, *R1),
    ]


def test_the_side_that_is_padded_comes_last_in_a_bundle() -> None:
    for join_type in ("LEFT", "RIGHT"):
        harness = OperatorHarness.on_heap(spec(join_type, bundles=True))
        assert harness.run([left(insert(*L1)), right(insert(*R1))]) == [insert(*L1, *R1)]
        harness = OperatorHarness.on_heap(spec(join_type, bundles=True))
        assert harness.run([right(insert(*R1)), left(insert(*L1))]) == [insert(*L1, *R1)]


def test_a_bundle_takes_the_last_of_updates_without_minus_u() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", bundles=True))
    harness.run([right(insert(*R1)), left(insert(*L1))])
    newest = (1, "a", "l1y")
    steps = [left(update_after(1, "a", "l1x")), left(update_after(*newest))]
    assert harness.run(steps) == [update_after(*newest, *R1)]


def test_a_renewal_counts_where_rows_have_a_ttl() -> None:
    harness = OperatorHarness.on_heap(spec("INNER", bundles=True, ttl_ms=(10, 0)))
    harness.run([left(insert(*L1)), At(9), left(update_before(*L1)), left(update_after(*L1))])
    assert harness.run([At(18), right(insert(*R1))]) == [insert(*L1, *R1)]


def test_state_is_read_once_an_epoch_however_many_changes(redis_client: redis.Redis) -> None:
    """Round trips do not grow with changes, nor fields with the rows of other keys."""
    harness = OperatorHarness.on_redis(spec("LEFT"), redis_client)
    keys = [f"k{at}" for at in range(20)]
    harness.run([left(insert(at, key, "l")) for at, key in enumerate(keys)])
    harness.run([right(insert(at, key, "r")) for at, key in enumerate(keys)])
    few, many = (harness.statistics[at] for at in (-2, -1))
    assert few["round_trips"] == many["round_trips"] <= 3
    assert many["requests"] == 0
    harness.run([left(insert(99, "k7", "l"))])
    assert harness.statistics[-1]["reads"] <= 3
    harness.close()


@pytest.mark.parametrize("join_type", TYPES)
def test_on_redis_as_on_heap(join_type: str, redis_client: redis.Redis) -> None:
    """With enough rows of one key that its sides are spread."""
    changes = [
        *(right(insert(at, "a", "r")) for at in range(70)),
        *(left(insert(at, "a", "l")) for at in range(70)),
        *(right(delete(at, "a", "r")) for at in range(70)),
    ]
    for known in ("unique", "none"):
        joined = spec(join_type, (known, known))
        heap = OperatorHarness.on_heap(joined)
        remote = OperatorHarness.on_redis(joined, redis_client)
        assert remote.run(changes, epoch_changes=50) == heap.run(changes)
        remote.close()
