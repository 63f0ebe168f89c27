"""Places of a sorted map: counts, parts, and single values out of many, held to a plain list."""

from __future__ import annotations

from bisect import insort
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.descriptors import JSON, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.multiset.strategy import Thresholds
from state.testing.sessions import PACKED, SPREAD
from state.testing.sorted_epochs import Epochs
from state.testing.stand import heap_stand
from state.ttl import DISABLED, TtlConfig, Visibility
from state.types import parse_type

if TYPE_CHECKING:
    from state.testing.stand import Stand

BIGINT = lexicographic_codec([parse_type("BIGINT NOT NULL")])
KEY = itemgetter(0)


def described(**options: Any) -> SortedMapDescriptor[Any, Any]:
    return SortedMapDescriptor(**{"name": "rows", "key_codec": BIGINT, "codec": JSON, **options})


@pytest.fixture(params=["packed", "spread"])
def rows(request: pytest.FixtureRequest) -> SortedMapDescriptor[Any, Any]:
    return described(thresholds={"packed": PACKED, "spread": SPREAD}[request.param])


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


def test_values_are_counted_found_and_taken(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    with epochs.epoch(rows) as state:
        for at in range(50):
            state.add((at // 2,), f"v{at}")
    with epochs.epoch(rows) as state:
        assert state.count_until((5,)) == 10
        assert state.count_until((5,), inclusive_to=True) == 12
        assert state.values_from(state.session.sorted_map(rows).behind((5,)), 3) == [
            "v12",
            "v13",
            "v14",
        ]
        taken = state.take((6,), "v13")
        assert (taken.value, taken.before) == ("v13", 1)
        assert state.value_from(taken.place, 0) == "v14"
        assert state.value_from(taken.place, 36) is None
        assert state.take((6,), "v13") is None
        assert state.pop_last() == "v49"
    with epochs.epoch(rows) as state:
        assert state.last_value() == "v48"
        assert state.values_at((6,)) == ["v12"]
        assert state.replace_where((6,), lambda value: value == "v12", "new").value == "v12"
        assert state.take_where((7,), lambda value: value == "v15").before == 1
    with epochs.epoch(rows) as state:
        assert state.read_range((6,), (8,)) == [((6,), ["new"]), ((7,), ["v14"])]


def test_a_replaced_value_keeps_its_place(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    with epochs.epoch(rows) as state:
        for value in "abc":
            state.add((1,), value)
        state.replace_where((1,), lambda value: value == "b", "B")
    with epochs.epoch(rows) as state:
        state.replace_where((1,), lambda value: value == "a", "A")
        state.take((1,), "A")
        state.replace_where((1,), lambda value: value == "c", "C")
    with epochs.epoch(rows) as state:
        assert state.values_at((1,)) == ["B", "C"]


@pytest.mark.parametrize("thresholds", [PACKED, SPREAD])
def test_expired_values_are_neither_counted_nor_found(
    epochs: Epochs, thresholds: Thresholds
) -> None:
    rows = described(thresholds=thresholds, ttl=TtlConfig(10))
    with epochs.epoch(rows, 0) as state:
        for at in (1, 3, 5):
            state.add((at,), f"old{at}")
    with epochs.epoch(rows, 5) as state:
        for at in (2, 3, 4):
            state.add((at,), f"v{at}")
    state = epochs.begin(rows, 10)
    assert state.count_until((4,)) == 2
    assert state.count_until((9,), at_most=1) == 1
    assert state.values_from((), 2) == ["v2", "v3"]
    assert state.last_value() == "v4"
    assert state.take((3,), "old3") is None
    taken = state.take((3,), "v3")
    assert (taken.value, taken.before) == ("v3", 0)
    assert state.pop_last() == "v4"
    assert state.values_from((), None) == ["v2"]
    epochs.end()


@pytest.mark.parametrize("thresholds", [PACKED, SPREAD])
def test_a_value_replaced_without_a_ttl_has_no_stamp_left(
    epochs: Epochs, thresholds: Thresholds
) -> None:
    """Else it would expire by the time of what it replaced, once there is a TTL again."""
    rows = described(thresholds=thresholds, ttl=TtlConfig(10))
    (rows,) = epochs.register(rows, 0)
    with epochs.epoch(rows, 0) as state:
        state.add((1,), "old")
    (rows,) = epochs.register(replace(rows, ttl=DISABLED), 5)
    with epochs.epoch(rows, 5) as state:
        state.replace_where((1,), lambda value: value == "old", "new")
    assert not any(each.endswith(b":stamps") for each in epochs.stored())
    (rows,) = epochs.register(replace(rows, ttl=TtlConfig(10)), 100)
    with epochs.epoch(rows, 109):
        pass
    with epochs.epoch(rows, 109) as state:
        assert state.values_at((1,)) == ["new"]
    with epochs.epoch(rows, 110):
        pass
    assert epochs.stored() <= {b"rows:swept"}


@pytest.mark.parametrize("thresholds", [PACKED, SPREAD])
def test_an_expired_value_is_not_replaced_though_reads_show_it(
    epochs: Epochs, thresholds: Thresholds
) -> None:
    """What was told to be replaced is there."""
    ttl = TtlConfig(10, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    rows = described(thresholds=thresholds, ttl=ttl)
    with epochs.epoch(rows, 0) as state:
        state.add((1,), "old")
        state.add((2,), "old")
    with epochs.epoch(rows, 5) as state:
        state.add((1,), "old")
    state = epochs.begin(rows, 10)
    assert state.replace_where((2,), lambda value: value == "old", "new") is None
    assert state.replace_where((1,), lambda value: value == "old", "new").value == "old"
    assert state.entries() == [((1,), ["new"])]
    epochs.end()


def test_the_values_of_many_user_keys_are_known_at_once(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    with epochs.epoch(rows) as state:
        for at in range(50):
            state.add((at // 2,), at)
    with epochs.epoch(rows) as state:
        state.take((7,), 14)
        state.add((7,), "new")
        state.know_at([(5,), (7,), (5,), (99,)])
        assert state.values_at((5,)) == [10, 11]
        assert state.values_at((7,)) == [15, "new"]
        assert state.values_at((99,)) is None
        assert state.count_until((99,)) == 50


@pytest.mark.parametrize("at_most", [None, 1_000, 20])
def test_what_is_known_in_many_parts_is_counted_right(epochs: Epochs, at_most: int | None) -> None:
    rows = described(thresholds=SPREAD)
    with epochs.epoch(rows) as state:
        for at in range(60):
            state.add((at,), at)
    state = epochs.begin(rows)
    for at in range(0, 60, 3):
        state.take((at,), at)
        state.add((at,), -at)
    counted = [state.count_until((at,), at_most=at_most) for at in (0, 7, 25, 59, 60)]
    most = 60 if at_most is None else at_most
    assert [min(each, most) for each in counted] == [
        0,
        7,
        min(25, most),
        min(59, most),
        min(60, most),
    ]
    epochs.end()


operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("take"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.just("replace"), st.integers(0, 4), st.integers(0, 2)),
        st.tuples(st.sampled_from(["pop", "last", "next"]), st.just(0), st.just(0)),
        st.tuples(
            st.sampled_from(["count", "from", "at", "know"]), st.integers(0, 4), st.integers(0, 5)
        ),
    ),
    max_size=20,
)


@given(
    operations=operations,
    thresholds=st.sampled_from([PACKED, SPREAD, Thresholds(high=5, low=3)]),
    ttl=st.sampled_from([None, TtlConfig(1 << 40)]),
)
def test_places_are_those_of_a_list(
    operations: list[tuple[str, int, int]], thresholds: Thresholds, ttl: TtlConfig | None
) -> None:
    rows = described(thresholds=thresholds, **({"ttl": ttl} if ttl else {}))
    epochs = Epochs(heap_stand())
    model: list[tuple[int, int]] = []
    state = epochs.begin(rows)
    for operation, key, number in operations:
        matching = [at for at, each in enumerate(model) if each == (key, number)]
        same_key = [at for at, each in enumerate(model) if each[0] == key]
        behind = [value for each, value in model if each > key]
        match operation:
            case "add":
                state.add((key,), number)
                insort(model, (key, number), key=KEY)
            case "take":
                taken = state.take((key,), number)
                assert (taken is None) == (not matching)
                if taken is not None:
                    assert taken.before == matching[0] - same_key[0]
                    del model[matching[0]]
                    assert state.values_from(taken.place, 2) == [
                        value for _, value in model[matching[0] :][:2]
                    ]
            case "replace":
                replaced = state.replace_where((key,), lambda value: value == number, 9)  # noqa: B023 - called at once
                assert (replaced is None) == (not matching)
                if matching:
                    model[matching[0]] = (key, 9)
            case "pop":
                assert state.pop_last() == (model.pop()[1] if model else None)
            case "last":
                assert state.last_value() == (model[-1][1] if model else None)
            case "count":
                assert state.count_until((key,)) == sum(each < key for each, _ in model)
            case "from":
                handle = epochs.session.sorted_map(rows)
                assert state.values_from(handle.behind((key,)), number) == behind[:number]
                assert state.values_from(handle.behind((key,))) == behind
                pairs = [((each,), value) for each, value in model if each > key]
                assert state.entries_behind(handle.behind((key,)), number) == pairs[:number]
            case "at":
                place = epochs.session.sorted_map(rows).behind((key,))
                expected = behind[number] if number < len(behind) else None
                assert state.value_from(place, number) == expected
            case "know":
                state.know_at([(key,), (number,)])
            case "next":
                epochs.end()
                state = epochs.begin(rows)
    epochs.end()
    assert [
        (key, value) for (key,), values in epochs.begin(rows).entries() for value in values
    ] == model
