"""The columnar path of a rank of growing input gives what the other path gives: changes, bytes."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.ordering import SortColumn
from operators.rank.columnar import END_MAX
from operators.rank.spec import RankSpec
from operators.rank.tops import Tops
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, OperatorHarness, delete, insert
from state.backends.heap import HeapBackend
from state.errors import StateError
from state.primitives.session import PRIMITIVE_THRESHOLDS
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, epochs, ran, told
from tests.operators.rank.ranks import ASCENDING, DESCENDING, rank_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

NAMES = ("k", "number", "text", "real", "list")
TYPES = tuple(map(parse_type, ("STRING", "BIGINT", "STRING", "DOUBLE", "ARRAY<INT>")))
ROWS = st.tuples(
    st.sampled_from(("a", "b", None)),
    st.sampled_from((None, -(2**63), -7, 0, 1, 2, 2**63 - 1)),
    st.sampled_from((None, "", "a", "a\t", "ä", '"\\')),
    st.sampled_from((None, float("nan"), -0.0, 0.0, 1.5, float("-inf"))),
    st.sampled_from((None, [], [1, None])),
)
SORTS = st.builds(
    SortColumn, column=st.integers(1, 3), descending=st.booleans(), nulls_last=st.booleans()
)


def spec(order: Sequence[SortColumn], **fields: Any) -> RankSpec:
    number = fields.get("with_number", False)
    return RankSpec.build(
        inputs=(InputSpec(types=TYPES, names=NAMES, key=fields.pop("key", (0,))),),
        output=RowSpec(
            types=(*TYPES, parse_type("BIGINT")) if number else TYPES,
            names=(*NAMES, "rank") if number else NAMES,
        ),
        strategy="append",
        order=tuple(order),
        **fields,
    )


@st.composite
def specs(draw: st.DrawFn) -> RankSpec:
    with_number, update_before = draw(st.booleans()), draw(st.booleans())
    end = draw(st.integers(1, 4))
    start = draw(st.integers(1, 2 if end > 1 and (with_number or update_before) else 1))
    return spec(
        draw(st.lists(SORTS, min_size=1, max_size=2)),
        key=draw(st.sampled_from(((0,), ()))),
        start=start,
        end=end,
        ttl_ms=draw(st.sampled_from(((), (2,)))) if end == 1 else (),
        with_number=with_number,
        update_before=update_before,
    )


KINDS = st.sampled_from((*[RowKind.INSERT] * 12, RowKind.UPDATE_AFTER, RowKind.DELETE))
CHANGES = epochs(st.builds(Change, KINDS, ROWS), most=20)


def same(operator: RankSpec, steps: Sequence[Change | At]) -> list[tuple[RowKind, bytes]]:
    """What both paths emit."""
    assert operator.operator().columnar is not None
    on_columns = ran(operator, steps, 1)
    assert on_columns == ran(operator, steps, NEVER)
    return on_columns[0]


@given(st.data())
def test_both_paths_emit_and_store_the_same(data: st.DataObject) -> None:
    same(data.draw(specs()), data.draw(CHANGES))


@given(st.data())
def test_both_paths_do_the_same_for_the_first_rows_by_arrival(data: st.DataObject) -> None:
    start = data.draw(st.integers(1, 3))
    operator = spec(
        (),
        key=data.draw(st.sampled_from(((0,), ()))),
        start=start,
        end=data.draw(st.sampled_from((start, 5, None))),
        with_number=data.draw(st.booleans()),
        ttl_ms=data.draw(st.sampled_from(((), (2,)))),
    )
    same(operator, data.draw(CHANGES))


def test_rows_without_columns_are_counted() -> None:
    operator = RankSpec.build(
        inputs=(InputSpec(types=(), names=(), key=()),),
        output=RowSpec(types=(), names=()),
        strategy="append",
        end=2,
    )
    assert ran(operator, [insert(), insert(), insert()], 1)[0] == [(RowKind.INSERT, b"[]")] * 2


@pytest.mark.parametrize("text", [b"1,2", b"1.5", b"true", b"", b"[]", b"1" + b"0" * 30])
def test_a_stored_count_that_is_none_goes_the_other_way(text: bytes) -> None:
    found = []
    for columns_from in (1, NEVER):
        harness = OperatorHarness.on_heap(
            rank_spec("append", order=(), end=3), columns_from=columns_from, max_parallelism=1
        )
        harness.run([insert(1, "a", 1), insert(2, "b", 1)])
        harness.stored_names()
        assert isinstance(harness._backend, HeapBackend)
        (group,) = harness._backend.store.key_groups.values()
        counts = group.space.structures[b"count"]
        assert isinstance(counts, dict)
        counts[b'["a"]'] = text
        try:
            found.append(repr(harness.run([insert(3, "a", 1), insert(4, "b", 1)])))
        except StateError as error:
            found.append(repr(error))
    assert found[0] == found[1]


@pytest.mark.parametrize("end", [1, 3])
def test_inserts_of_new_and_known_keys_are_done_on_columns_alone(
    end: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any) -> None:
        raise AssertionError("a change went the other way")

    operator = rank_spec("append", end=end, with_number=True)
    steps = [insert(at, "abc"[at % 3], at * 7 % 11) for at in range(30)]
    steps = [*steps[:20], At(1), *steps[20:]]
    expected = ran(operator, steps, NEVER)
    monkeypatch.setattr(type(operator.operator()), "process", never)
    monkeypatch.setattr(type(operator.operator()), "process_bundle", never)
    assert ran(operator, steps, 1) == expected


@pytest.mark.parametrize("end", [1, 3])
def test_on_redis_the_same_is_emitted(end: int, redis_client: redis.Redis) -> None:
    operator = rank_spec("append", end=end, with_number=True)
    steps = [insert(at, "abcd"[at * at % 4], at * 31 % 17) for at in range(120)]
    steps = [*steps[:50], At(1), *steps[50:90], delete(1, "a", 3), At(2), *steps[90:]]
    with closing(OperatorHarness.on_redis(operator, redis_client)) as harness:
        assert told(operator, harness.run(steps)) == ran(operator, steps, NEVER)[0]


@pytest.mark.parametrize("with_number", [True, False])
@pytest.mark.parametrize("order", [DESCENDING, ASCENDING])
def test_many_changes_of_few_keys_in_long_and_short_epochs(
    order: tuple[SortColumn, ...], *, with_number: bool
) -> None:
    operator = rank_spec("append", order=order, end=5, with_number=with_number, update_before=False)
    rows = [insert(at, "abc"[at * at % 3], at * 7919 % 509) for at in range(1500)]
    steps = [*rows[:900], At(1), *rows[900:1000], At(2), *rows[1000:]]
    assert len(same(operator, steps)) > 30


def test_a_key_of_which_every_row_comes_in_goes_the_other_way_after_some_time() -> None:
    operator = rank_spec("append", end=3, with_number=True)
    rising = [insert(at, "a", at) for at in range(400)]
    steps = [*rising, insert(0, "b", 1), At(1), *rising, insert(1, "b", 2)]
    assert len(same(operator, steps)) > 800
    assert len(same(operator, rising)) > 400


def test_rows_that_keep_coming_in_of_many_keys_stay_on_columns() -> None:
    keys = [f"k{number}" for number in range(20)]
    rising = [insert(at, key, at) for at in range(100) for key in keys]
    assert len(same(rank_spec("append", end=2), rising)) == 20 * (2 + 98 * 2)


def test_fewer_ranks_than_before_and_state_that_is_spread_go_the_other_way() -> None:
    steps = [insert(at, "a", at % 7) for at in range(80)]
    for columns_from in (1, NEVER):
        found = []
        harness = OperatorHarness.on_heap(
            rank_spec("append", end=70, with_number=True), columns_from=columns_from
        )
        found.append(harness.run(steps))
        harness.restart(rank_spec("append", end=4, with_number=True))
        found.append(harness.run([insert(99, "a", 6), insert(98, "b", 1), insert(97, "a", 9)]))
        if columns_from == 1:
            expected = found
    assert found == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"end": None},
        {"end": 33},
        {"end_column": 0, "end": None},
        {"ttl_ms": (5,)},
        {"strategy": "update", "unique_key": (0, 1), "end": 1},
        {"start": 2, "update_before": False},
    ],
)
def test_other_ranks_have_no_columnar_path(fields: dict[str, Any]) -> None:
    operator = rank_spec(**{"strategy": "append", **fields})
    assert operator.operator().columnar is None


def test_what_it_writes_is_never_long_enough_to_be_spread() -> None:
    assert PRIMITIVE_THRESHOLDS.high > END_MAX


def test_a_state_that_had_a_ttl_has_none() -> None:
    harness = OperatorHarness.on_heap(rank_spec("append", ttl_ms=(5,)))
    harness.run([insert(1, "a", 1)])
    harness.restart(rank_spec("append"))
    assert harness.spec.operator().columnar is None


def test_the_first_rows_are_those_of_a_stable_sort() -> None:
    chance = np.random.default_rng(7)
    partition = np.sort(chance.integers(0, 30, 5000))
    codes = chance.integers(0, 60, 5000)
    tops = Tops(30, 4)
    came = sum(each.rows.size for each in tops.come(partition, codes))
    for number in range(30):
        rows = np.flatnonzero(partition == number)
        expected = rows[np.argsort(codes[rows], kind="stable")][:4]
        assert tops.rows[number].tolist() == expected.tolist()
    assert came < 2500
    assert not tops.left.any()
