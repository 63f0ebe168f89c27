"""The columnar paths of deduplications emit and store what change after change does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.deduplicate.spec import DeduplicateSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.backends.heap import HeapBackend
from state.errors import OperatorFailed, StateCorrupt
from state.primitives.session import StateSession
from state.types import parse_type
from tests.operators.columnar_paths import AGE, NEVER, epochs, ran

START = datetime(2020, 1, 1, tzinfo=UTC)
NAMES = ("k", "v", "d", "n", "ts", "came")
TYPES = tuple(
    parse_type(each)
    for each in (
        "STRING",
        "INT",
        "DOUBLE",
        "DECIMAL(5, 2)",
        "TIMESTAMP_LTZ(3)",
        "TIMESTAMP_LTZ(3)",
    )
)
GROWING = (RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER)


def spec(**fields: Any) -> DeduplicateSpec:
    row = InputSpec(types=TYPES, names=NAMES, key=fields.pop("key", (0,)))
    return DeduplicateSpec.build(inputs=(row,), output=RowSpec(types=TYPES, names=NAMES), **fields)


def times(*ms: int) -> st.SearchStrategy[datetime]:
    return st.sampled_from([START + timedelta(milliseconds=each) for each in ms])


def rows(*, has_time: bool = True) -> st.SearchStrategy[tuple[Any, ...]]:
    event = times(-1, 0, 1, 2)
    return st.tuples(
        st.sampled_from(("a", 'b"', None)),
        st.sampled_from((1, 1, 2, None)),
        st.sampled_from((0.0, -0.0, float("nan"), 1.5, None)),
        st.sampled_from((Decimal("1.50"), Decimal("-0.10"), None)),
        event if has_time else st.one_of(event, st.none()),
        times(5, 6),
    )


OPTIONS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(((0,), (), (0, 1), (2,), (0, 1, 2, 3, 4))),
        "update_before": st.booleans(),
        "tells_inserts": st.booleans(),
        "bundles": st.booleans(),
        "compacts": st.booleans(),
        "ttl_ms": st.sampled_from(((), (5,))),
    }
)


@given(st.data())
def test_by_arrival(data: st.DataObject) -> None:
    chosen = spec(
        keeps_last=data.draw(st.booleans()),
        proctime=data.draw(st.sampled_from(((5,), (), (4, 5)))),
        **data.draw(OPTIONS),
    )
    kinds = data.draw(st.sampled_from((GROWING, tuple(RowKind))))
    steps = data.draw(epochs(st.builds(Change, st.sampled_from(kinds), rows())))
    assert ran(chosen, steps, 1) == ran(chosen, steps, NEVER)


@given(st.data())
def test_by_event_time(data: st.DataObject) -> None:
    chosen = spec(keeps_last=data.draw(st.booleans()), rowtime=4, **data.draw(OPTIONS))
    kinds = data.draw(st.sampled_from((GROWING, tuple(RowKind))))
    steps = data.draw(epochs(st.builds(Change, st.sampled_from(kinds), rows())))
    assert ran(chosen, steps, 1) == ran(chosen, steps, NEVER)


@pytest.mark.parametrize("columns_from", [1, NEVER])
@pytest.mark.parametrize("at_once", [True, False])
def test_a_row_without_event_time_is_told_when_it_must_be_put_in_order(
    columns_from: int, at_once: bool
) -> None:
    without, with_time = ("a", 1, 1.0, None, None, START), ("a", 1, 1.0, None, START, START)
    chosen = spec(keeps_last=True, rowtime=4)
    assert len(ran(chosen, [insert(*without)], columns_from)[0]) == 1
    steps = [insert(*without), insert(*with_time)]
    if not at_once:
        steps.insert(1, At(1))
    with pytest.raises(OperatorFailed):
        ran(chosen, steps, columns_from)


def row_of(key: str, v: int, came: int) -> tuple[Any, ...]:
    return (key, v, None, None, None, START + timedelta(milliseconds=came))


def test_what_replaces_equal_rows_replaces_the_first_of_them() -> None:
    """In an epoch, and over two: the rows differ in their time of processing alone."""
    first, same, other = row_of("a", 1, 0), row_of("a", 1, 1), row_of("a", 2, 2)
    expected = [insert(*first), update_before(*first), update_after(*other)]
    for steps in (
        [insert(*first), insert(*same), insert(*same), insert(*other)],
        [insert(*first), insert(*same), At(1), insert(*same), insert(*other)],
        [insert(*first), At(1), insert(*same), At(2), insert(*other)],
    ):
        emitted = OperatorHarness.on_heap(spec(keeps_last=True, proctime=(5,))).run(steps)
        assert emitted == expected


def test_keys_with_retractions_go_the_other_way_beside_those_without() -> None:
    a, b, c = (row_of(key, 1, 0) for key in "abc")
    newer = row_of("a", 2, 0)
    steps = [insert(*a), delete(*b), insert(*b), insert(*newer), insert(*c)]
    harness = OperatorHarness.on_heap(spec(keeps_last=True))
    assert harness.run(steps) == [
        insert(*a),
        insert(*b),
        update_before(*a),
        update_after(*newer),
        insert(*c),
    ]
    (counts,) = harness.statistics
    assert (counts["orphans"], counts["keys"]) == (1, 3)


@pytest.mark.parametrize(
    ("options", "state", "text"),
    [
        ({"keeps_last": True}, b"row", b'["a",1,"+X"]'),
        ({"keeps_last": True, "update_before": False}, b"row", b'["a","+U"]'),
        ({"keeps_last": True, "ttl_ms": (5,)}, b"row", b'0|["a","+I"]'),
        ({"keeps_last": False}, b"seen", b"truly"),
    ],
)
def test_stored_text_that_is_none_is_told_by_the_other_path(
    options: dict[str, Any], state: bytes, text: bytes
) -> None:
    harness = OperatorHarness.on_heap(spec(**options), max_parallelism=1)
    harness.run([insert(*row_of("a", 1, 0))])
    harness.stored_names()
    assert isinstance(harness._backend, HeapBackend)
    (group,) = harness._backend.store.key_groups.values()
    rows = group.space.structures[state]
    assert isinstance(rows, dict)
    rows[b'["a"]'] = text
    with pytest.raises(StateCorrupt):
        harness.run([insert(*row_of("a", 2, 0))])


@pytest.mark.parametrize("bundles", [True, False])
def test_where_every_key_has_a_retraction_nothing_is_done_on_columns(bundles: bool) -> None:
    row = row_of("a", 1, 0)
    harness = OperatorHarness.on_heap(spec(keeps_last=True, bundles=bundles))
    assert harness.run([insert(*row), delete(*row)]) == [insert(*row)]


@pytest.mark.parametrize("ttl_ms", [(), (5,)])
def test_attempts_write_the_same_bytes_in_whatever_order_rows_arrive(
    monkeypatch: pytest.MonkeyPatch, ttl_ms: tuple[int, ...]
) -> None:
    told: list[str] = []
    writes = StateSession.writes

    def telling(session: StateSession) -> Any:
        found = writes(session)
        told.append(repr(found))
        return found

    monkeypatch.setattr(StateSession, "writes", telling)
    epochs = [[insert(*row_of(f"{n % 7}", n, 0)) for n in range(40 * e)] for e in (1, 2)]
    steps = [At(AGE), *epochs[0], At(AGE + 1), *epochs[1]]
    for shuffled in (True, False):
        OperatorHarness.on_heap(spec(keeps_last=True, ttl_ms=ttl_ms), shuffled=shuffled).run(steps)
    assert told[: len(told) // 2] == told[len(told) // 2 :]
    assert sum("HashPut" in each for each in told) == 4
