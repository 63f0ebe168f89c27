"""The columnar path of an inner join gives what the other path gives, changes and bytes."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.join import columnar_join, columnar_meetings
from operators.join.columnar_join import ColumnarJoin
from operators.join.semi_anti import SemiAntiJoin, SemiAntiJoinSpec
from operators.join.streaming import StreamingJoin, StreamingJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, Of, OperatorHarness, delete, insert
from state.backends.heap import HeapBackend
from state.errors import StateCorrupt
from state.multiset.strategy import Thresholds
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, stored_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from operators.changelog import Row
    from operators.keyed_columns import DoneOnSides, KeyedColumns


LEFT = InputSpec(
    types=tuple(map(parse_type, ("INT", "STRING", "DOUBLE"))), names=("k", "v", "d"), key=(0,)
)
RIGHT = InputSpec(types=tuple(map(parse_type, ("STRING", "INT"))), names=("w", "k"), key=(1,))
LEFT_ALL, RIGHT_ALL = (each.model_copy(update={"key": ()}) for each in (LEFT, RIGHT))
"""All rows belong to one key."""
SMALL = Thresholds(high=4, low=2)
"""So that few rows are spread."""
_KEYS = st.sampled_from((1, 1, 1, 1, 2, None))
_ROWS = (
    st.tuples(_KEYS, st.sampled_from(("x", 'b"\t', None)), st.sampled_from((0.0, -0.0))),
    st.tuples(st.sampled_from(("x", "é", None)), _KEYS),
)


def spec(**fields: Any) -> Any:
    inputs = fields.pop("inputs", (LEFT, RIGHT))
    shows_left = fields.get("join_type") in ("SEMI", "ANTI")
    types = tuple(each for one in inputs[: 1 if shows_left else 2] for each in one.types)
    output = RowSpec(types=types, names=tuple(f"c{at}" for at in range(len(types))))
    given_fields = {"join_type": "INNER", "filter_nulls": (True,) * len(inputs[0].key), **fields}
    build = SemiAntiJoinSpec.build if shows_left else StreamingJoinSpec.build
    return build(inputs=inputs, output=output, **given_fields)


@st.composite
def epochs(draw: st.DrawFn) -> list[Of | At]:
    """Epochs of which some have one side alone; most retractions are of rows that came."""
    found: list[Of | At] = []
    came: tuple[list[Any], list[Any]] = ([], [])
    for time_ms in range(draw(st.integers(1, 4))):
        sides = st.sampled_from(draw(st.sampled_from(((0,), (1,), (0, 1), (0, 1)))))
        retracts = st.sampled_from(draw(st.sampled_from(((False,), (False, False, True)))))
        for _ in range(draw(st.integers(0, 14))):
            side = draw(sides)
            if draw(retracts):
                rows = came[side]
                is_known = rows and draw(st.integers(0, 15))
                row = rows.pop(draw(st.integers(0, len(rows) - 1))) if is_known else None
                kind = draw(st.sampled_from((RowKind.UPDATE_BEFORE, RowKind.DELETE)))
                found.append(Of(side, Change(kind, row or draw(_ROWS[side]))))
            else:
                kind = draw(st.sampled_from((RowKind.INSERT, RowKind.UPDATE_AFTER)))
                row = draw(_ROWS[side])
                came[side].append(row)
                found.append(Of(side, Change(kind, row)))
        found.append(At(3 * (time_ms + 1)))
    return found


def harness_of(
    join: StreamingJoinSpec, columns_from: int, thresholds: Thresholds | None = None
) -> OperatorHarness:
    harness = OperatorHarness.on_heap(join, columns_from=columns_from)
    keep_by(harness, thresholds)
    return harness


def keep_by(harness: OperatorHarness, thresholds: Thresholds | None) -> None:
    """Let the sides' maps be spread and packed by these from now on."""
    operator = harness._runner.operator
    assert isinstance(operator, StreamingJoin | SemiAntiJoin)
    for side in operator.sides:
        side.state.descriptor = replace(side.state.descriptor, thresholds=thresholds)
    operator.descriptors = operator.prefetched = tuple(e.state.descriptor for e in operator.sides)
    operator.columnar_sides = operator._on_columns = ColumnarJoin.of(
        operator.spec, operator.sides, operator._condition
    )


def ran(
    join: StreamingJoinSpec,
    steps: Sequence[Of | At],
    columns_from: int,
    thresholds: Thresholds | None = None,
) -> tuple[str, Any, list[dict[str, int]]]:
    """What is emitted, all that is stored at the end, and some counts of each epoch."""
    harness = harness_of(join, columns_from, thresholds)
    emitted = harness.run(steps)
    told = ("rows_in", "rows_out", "orphans", "keys")
    counts = [{name: each[name] for name in told} for each in harness.statistics]
    # NaN is not NaN, and -0.0 is 0.0, unless they are texts.
    return repr(emitted), stored_of(harness), counts


UNIQUE_KEYS = {"contained": ((0,), (1,)), "known": ((1,), (0,)), "none": (None, None)}
"""By what is known of the rows of each side."""


@given(st.data())
def test_both_paths_emit_and_store_the_same(data: st.DataObject) -> None:
    known = data.draw(st.tuples(*[st.sampled_from(("none", "none", "contained", "known"))] * 2))
    has_key, is_conditional = data.draw(st.booleans()), data.draw(st.booleans())
    inputs = (LEFT, RIGHT) if has_key else (LEFT_ALL, RIGHT_ALL)
    join = spec(
        inputs=inputs,
        filter_nulls=(data.draw(st.booleans()),) * len(inputs[0].key),
        unique_keys=(UNIQUE_KEYS[known[0]][0], UNIQUE_KEYS[known[1]][1]),
        equalities=((1, 0),) if is_conditional else (),
        ttl_ms=data.draw(st.sampled_from(((), (), (4, 4), (4, 0)))),
    )
    thresholds = data.draw(st.sampled_from((None, SMALL)))
    steps = data.draw(epochs())
    assert ran(join, steps, 1, thresholds) == ran(join, steps, NEVER, thresholds)


def facts(keys: Sequence[int], number: int) -> list[Of]:
    """New left rows of these keys."""
    return [Of(0, insert(key, f"fact {number} {at}", 0.5)) for at, key in enumerate(keys)]


def names(*keys: int) -> list[Of]:
    return [Of(1, insert(f"name {key}", key)) for key in keys]


def left_over(harness: OperatorHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts, from now on, the changes of each epoch that go the other way."""
    counts: list[int] = []
    path = harness._runner.operator.columnar_sides
    assert isinstance(path, ColumnarJoin)
    run = path.run

    def counted(given: Sequence[KeyedColumns]) -> DoneOnSides | None:
        done = run(given)
        assert done is not None
        counts.append(sum(len(each) for each in done.left))
        return done

    monkeypatch.setattr(path, "run", counted)
    return counts


def test_facts_and_a_dimension_leave_nothing_to_the_other_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = [at * 7919 % 13 for at in range(400)]
    steps = [
        *facts(keys[:30], 1),
        *names(*range(13)),
        At(1),
        *facts(keys, 2),
        At(2),
        *facts(keys, 3),
        At(3),
        Of(1, delete("name 3", 3)),
        Of(1, insert("name 3, again", 3)),
        Of(0, delete(keys[5], "fact 3 5", 0.5)),
        *facts(keys, 4),
        At(4),
    ]
    harness = harness_of(spec(), 1)
    counts = left_over(harness, monkeypatch)
    emitted = harness.run(steps)
    assert counts == [0, 0, 0, 0]
    met = keys[:30].count(3) + 2 * keys.count(3)
    assert len(emitted) == 30 + 3 * 400 + 2 * met + 1
    assert ran(spec(), steps, 1) == ran(spec(), steps, NEVER)


def test_rows_that_come_often_and_go_are_met_as_often_as_they_are_there() -> None:
    one, other = insert("a", 1), insert("b", 1)
    gone = [delete("a", 1), delete("b", 1)]
    steps: list[Of | At] = [
        *(Of(1, each) for each in (one, other, one, *gone, one, gone[0])),
        Of(0, insert(1, "first", 0.5)),
        At(1),
        *(Of(1, each) for each in (one, gone[0], one)),
        *[e for each in (gone[0], one, one) for e in (Of(1, each), *facts([1], 2))],
        At(2),
        *facts([1], 3),
        At(3),
    ]
    emitted, stored, counts = ran(spec(), steps, 1)
    assert [each["rows_out"] for each in counts if each["rows_in"]] == [1, 15, 3]
    assert (emitted, stored, counts) == ran(spec(), steps, NEVER)


def test_a_spread_side_that_shrinks_is_packed_again() -> None:
    steps: list[Of | At] = [*facts([1] * 70, 1), At(1)]
    steps += [Of(0, delete(1, f"fact 1 {at}", 0.5)) for at in range(10)]
    steps += [At(2), *names(1), At(3)]
    steps += [Of(0, delete(1, f"fact 1 {at}", 0.5)) for at in range(10, 30)]
    once = ran(spec(), [*steps, At(4)], 1)
    assert once[2][6] == {"rows_in": 20, "rows_out": 20, "orphans": 0, "keys": 1}
    assert once == ran(spec(), [*steps, At(4)], NEVER)


def test_a_spread_side_that_is_short_by_new_thresholds_is_packed() -> None:
    ends = []
    for columns_from in (1, NEVER):
        harness = harness_of(spec(), columns_from, SMALL)
        harness.run([*facts([1] * 10, 1), At(1)])
        keep_by(harness, None)
        emitted = harness.run([*facts([1], 2), *names(1), At(2)])
        ends.append((emitted, stored_of(harness)))
    assert ends[0] == ends[1]
    assert len(ends[0][0]) == 11


def test_pairs_of_a_hot_key_are_looked_at_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what an epoch takes is what it emits, and not all that a condition refuses."""
    sizes: list[int] = []
    holding = columnar_join._holding

    def counted(condition: Callable[[Row], bool], pairs: Sequence[Row]) -> Any:
        sizes.append(len(pairs))
        return holding(condition, pairs)

    monkeypatch.setattr(columnar_meetings, "PAIRS_AT_ONCE", 32)
    monkeypatch.setattr(columnar_join, "_holding", counted)
    join = spec(equalities=((1, 0),))
    steps: list[Of | At] = [Of(1, insert(f"fact 2 {at}", 1)) for at in range(10)]
    steps += [At(1), *facts([1] * 40, 2), *names(1), Of(0, insert(1, "name 1", 0.5)), At(2)]
    emitted, stored, counts = ran(join, steps, 1)
    # A change of one side is one part, however many rows of the other side it meets.
    assert max(sizes) == 40
    assert sum(sizes) == 40 * 10 + 11 + 40
    assert counts[-2]["rows_out"] == 11
    assert (emitted, stored, counts) == ran(join, steps, NEVER)


def test_what_was_never_there_goes_the_other_way_by_its_key_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = harness_of(spec(), 1)
    counts = left_over(harness, monkeypatch)
    harness.run([*names(1, 2), At(1)])
    steps = [*facts([1, 2, 1], 1), Of(0, delete(2, "never", 0.5))]
    emitted = harness.run(steps)
    assert counts == [0, 2]
    assert harness.statistics[-1]["orphans"] == 1
    assert [each.kind.short for each in emitted] == ["+I", "+I", "+I", "-D"]


def test_sides_that_change_too_often_together_go_the_other_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = harness_of(spec(), 1)
    counts = left_over(harness, monkeypatch)
    steps = [*facts([1] * 200, 1), *names(*[1] * 200), Of(1, delete("name 1", 1))]
    assert len(harness.run(steps)) == 200 * 201
    assert counts == [401]


@pytest.mark.parametrize(
    "text",
    [
        b"packed\t1\t0\nno tab",
        b"packed\t1\t0\n[1]\tx",
        b'packed\t1\t0\n["name 1",1]\t0',
        b"spread\t1\t9\t0\t-",
    ],
)
def test_state_that_cannot_be_read_is_refused(text: bytes) -> None:
    harness = harness_of(spec(), 1)
    harness.run([*names(1), At(1)])
    assert isinstance(harness._backend, HeapBackend)
    for group in harness._backend.store.key_groups.values():
        held = group.space.structures.get(b"rightState", {})
        assert isinstance(held, dict)
        held.update(dict.fromkeys(held, text))
    with pytest.raises(StateCorrupt):
        harness.run(facts([1], 1))


def test_redis_has_the_same_as_the_heap(redis_client: redis.Redis) -> None:
    steps = [
        *names(1, 2),
        *facts([1] * 30 + [2] * 70, 1),
        At(1),
        *facts([1] * 50 + [2] * 10, 2),
        Of(0, delete(2, "fact 1 40", 0.5)),
        At(2),
        *names(1, 2),
        At(3),
    ]
    on_redis = OperatorHarness.on_redis(spec(), redis_client)
    try:
        assert repr(on_redis.run(steps)) == ran(spec(), steps, NEVER)[0]
    finally:
        on_redis.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"bundles": True},
        {"bundles": True, "join_type": "LEFT"},
    ],
)
def test_what_has_no_columnar_path(fields: dict[str, Any]) -> None:
    assert spec(**fields).operator().columnar_sides is None


def test_rows_of_all_types() -> None:
    kinds = "INT,ARRAY<INT>,MAP<STRING;INT>,ROW<x INT;y STRING>,DECIMAL(10;2),BYTES,DATE,FLOAT"
    types = tuple(parse_type(each.replace(";", ",")) for each in kinds.split(","))
    side = InputSpec(types=types, names=tuple("kamrdbtf"), key=(0,))
    unordered = {"b": 1, "a": 2}
    row = (1, [1, None], unordered, (1, "x"), Decimal("1.50"), b"\x00\xff", date(2020, 1, 1), 1.5)
    none = (1, *[None] * 7)
    steps: list[Of | At] = [Of(0, insert(*row)), Of(1, insert(*row)), Of(1, insert(*none)), At(1)]
    steps += [Of(0, insert(*none)), At(2), Of(1, insert(*row)), At(3)]
    join = spec(inputs=(side, side))
    assert ran(join, steps, 1) == ran(join, steps, NEVER)
