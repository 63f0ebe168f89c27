"""What window aggregates keep beside their accumulators: parity, cost, merges, nothing left.

The reference is the same operator with everything in its accumulators, as versions before had it;
so the tests of going on with their state need no stored bytes of their own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.event_time import from_ms
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import OperatorHarness, Watermark, delete, insert
from operators.windows import slice_aggregates
from operators.windows.session_aggregate import OpenSession, SessionAggregateSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from state.errors import StateCorrupt
from state.testing.proxy import Proxy
from state.types import parse_type
from tests.operators.aggregate.calls import call
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from operators.changelog import Change
    from operators.windows.spec import WindowAggregateSpec

TIME = parse_type("TIMESTAMP(3)")
TYPES = (*map(parse_type, ("STRING", "INT", "STRING")), TIME)
SHAPES: dict[str, Any] = {
    "tumble": Tumbling(size_ms=6),
    "hop": Hopping(size_ms=6, slide_ms=2),
    "panes": Hopping(size_ms=6, slide_ms=4, has_panes=True),
    "cumulate": Cumulating(size_ms=6, step_ms=2),
    "session": Session(gap_ms=3),
}
CALLS = (
    call("COUNT", [], needs_retraction=True),
    call("SUM", needs_retraction=True),
    call("MIN", needs_retraction=True),
    call("MAX", needs_retraction=True),
    call("FIRST_VALUE", needs_retraction=True),
    call("LAST_VALUE", needs_retraction=True),
    call("LISTAGG", needs_retraction=True),
    call("COLLECT", needs_retraction=True),
    call("ARRAY_AGG", needs_retraction=True),
    call("COUNT", [1], is_distinct=True, needs_retraction=True),
    call("MIN", is_distinct=True, needs_retraction=True),
    call("COUNT", [2], is_distinct=True),
)


def spec(shape: Any, calls: tuple[Any, ...] = CALLS) -> WindowAggregateSpec:
    """Columns k, v, s, ts; by k: the calls."""
    cls = SessionAggregateSpec if isinstance(shape, Session) else SlicedAggregateSpec
    types = (TYPES[0], *(each.result_type for each in calls), TIME)
    built: WindowAggregateSpec = cls.build(
        inputs=(InputSpec(types=TYPES, names=("k", "v", "s", "ts"), key=(0,)),),
        output=RowSpec(types=types, names=tuple(f"c{at}" for at in range(len(types)))),
        shape=shape,
        calls=calls,
        properties=("end",),
        time_column=3,
    )
    return built


def row(key: str, value: int, ms: int) -> tuple[Any, ...]:
    return key, value, f"{value}", from_ms(ms, TIME)


class _AllInMemory(slice_aggregates.StoredAggregates):
    """Says that no call needs a state of its own."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        self.has_states = False


def before(built: WindowAggregateSpec) -> OperatorHarness:
    """On heap, the operator as versions before had it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_aggregates, "StoredAggregates", _AllInMemory)
        return OperatorHarness.on_heap(built)


def left(harness: OperatorHarness) -> set[bytes]:
    """What is stored, but for counters."""
    return harness.stored_names() - {b"counters"}


@st.composite
def histories(draw: st.DrawFn) -> list[Change | Watermark]:
    """Rows that come and go, some taken back that never came, some late.

    What was taken back and was not there does not come later: of that, lists in memory are told
    at their next merge, and so a place may show it or not.
    """
    steps: list[Change | Watermark] = []
    there: Counter[tuple[str, int]] = Counter()
    watermark_ms = -10
    for _ in range(draw(st.integers(1, 16))):
        if draw(st.integers(0, 5)) == 0:
            watermark_ms = max(watermark_ms, draw(st.integers(-5, 15)))
            steps.append(Watermark(watermark_ms))
            continue
        key, value = draw(st.sampled_from("ab")), draw(st.integers(1, 3))
        ms = draw(st.integers(max(watermark_ms, 0), 16))
        kind = draw(st.sampled_from((insert, insert, delete)))
        if kind is insert and there[key, value] < 0:
            continue
        there[key, value] += 1 if kind is insert else -1
        steps.append(kind(*row(key, value, ms)))
    return steps


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=20)
@given(steps=histories(), size=st.integers(1, 5), data=st.data())
def test_what_comes_out_is_that_of_accumulators_in_memory(
    name: str, steps: list[Any], size: int, data: st.DataObject
) -> None:
    """In whatever order state answers."""
    built = spec(SHAPES[name])
    whole = [*steps, Watermark(WATERMARK_MAX)]
    reference, held = before(built), answered_any_way(built, data)

    expected = reference.run(whole, epoch_changes=size)

    assert held.run(whole, epoch_changes=size) == expected
    assert bool(left(held)) == bool(left(reference))


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=12)
@given(steps=histories(), cut=st.integers(0, 16))
def test_state_of_the_version_before_is_read_on(name: str, steps: list[Any], cut: int) -> None:
    built = spec(SHAPES[name])
    whole = [*steps, Watermark(WATERMARK_MAX)]
    reference, older = before(built), before(built)
    # Epochs end at the same places: a slice without rows goes with its epoch.
    expected = reference.run(whole[:cut], epoch_changes=2)
    expected += reference.run(whole[cut:], epoch_changes=2)

    emitted = older.run(whole[:cut], epoch_changes=2)
    older.restart(built)
    emitted += older.run(whole[cut:], epoch_changes=2)

    assert sorted(map(repr, emitted)) == sorted(map(repr, expected))
    assert bool(left(older)) == bool(left(reference))


@pytest.mark.parametrize("name", SHAPES)
def test_distinct_values_stay_in_the_order_in_which_they_came(name: str) -> None:
    """Also where the first slice of a cumulating window is empty, and out of older state."""
    functions = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG")
    distinct = [call(each, is_distinct=True, needs_retraction=True) for each in functions]
    calls = (call("COUNT", [], needs_retraction=True), *distinct)
    built = spec(SHAPES[name], calls)
    rows = [insert(*row("a", value, 3)) for value in (2, 1, 2, 3)]
    end = [Watermark(WATERMARK_MAX)]
    held, older = OperatorHarness.on_heap(built), before(built)

    emitted = held.run([*rows, *end], epoch_changes=1)
    carried_on = older.run(rows[:3], epoch_changes=1)
    older.restart(built)
    carried_on += older.run([rows[3], *end], epoch_changes=1)

    assert emitted == carried_on
    assert emitted
    for each in emitted:
        assert each.row[2:6] == ("2", "3", "2,1,3", ["2", "1", "3"])


@pytest.mark.parametrize("name", ["tumble", "session"])
def test_the_version_before_refuses_what_it_cannot_read(name: str) -> None:
    built = spec(SHAPES[name])
    harness = OperatorHarness.on_heap(built)
    harness.run([insert(*row("a", 1, 1))])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slice_aggregates, "StoredAggregates", _AllInMemory)
        harness.restart(built)

    with pytest.raises(StateCorrupt, match="stored accumulators"):
        harness.run([insert(*row("a", 2, 2))])


@pytest.mark.parametrize("name", ["tumble", "hop", "cumulate", "session"])
def test_a_change_costs_the_same_whatever_its_slice_holds(redis_server: Any, name: str) -> None:
    """Commands and round trips to the number; bytes but for numbers with more digits."""
    built = spec(SHAPES[name])
    counts, sizes = [], []
    for held in (150, 900):
        with Proxy(redis_server.port) as proxy:
            client = redis.Redis.from_url(proxy.url)
            harness = OperatorHarness.on_redis(built, client)
            harness.run([insert(*row("a", value, 1)) for value in range(1_000, 1_000 + held)])
            harness.run([insert(*row("a", 5_000, 1))])
            before_bytes = proxy.request_bytes + proxy.reply_bytes
            harness.run([insert(*row("a", 5_001, 1))])
            harness.run([delete(*row("a", 5_001, 1))])
            sizes.append(proxy.request_bytes + proxy.reply_bytes - before_bytes)
            counts.append(
                [(each["round_trips"], each["commands"]) for each in harness.statistics[-2:]]
            )
            harness.close()
            client.close()
    assert counts[0] == counts[1]
    assert sizes[1] - sizes[0] <= 200


@pytest.mark.parametrize("name", SHAPES)
def test_on_redis_as_on_heap_and_nothing_is_left(redis_client: redis.Redis, name: str) -> None:
    """Sets that are packed, and sets that are spread."""
    built = spec(SHAPES[name])
    for held in (18, 100):
        steps: list[Any] = [insert(*row("a", value, value % 9)) for value in range(held)]
        steps += [Watermark(2), delete(*row("a", 4, 4)), insert(*row("a", 4, 9)), Watermark(7)]
        # One that was never there is taken back: nothing of that is left, either.
        steps += [insert(*row("a", value, 8)) for value in (7, 8)]
        steps += [delete(*row("a", 400, 8)), Watermark(WATERMARK_MAX)]
        local = OperatorHarness.on_heap(built)
        remote = OperatorHarness.on_redis(built, redis_client)

        emitted = remote.run(steps, epoch_changes=50)

        assert emitted == local.run(steps, epoch_changes=50)
        assert emitted
        assert not left(local)
        # What the last epoch wrote waits for the next one to begin.
        remote.run_epoch([])
        held_keys = [key.rpartition(b":")[2] for key in redis_client.scan_iter(b"*slices_*")]
        held_keys += [key.rpartition(b":")[2] for key in redis_client.scan_iter(b"*sessions_*")]
        assert held_keys == []
        remote.close()


def test_changes_of_a_bundle_are_read_together(redis_client: redis.Redis) -> None:
    """Round trips do not grow with the changes of a key in an epoch."""
    calls = (CALLS[2], CALLS[7], CALLS[9])
    harness = OperatorHarness.on_redis(spec(SHAPES["tumble"], calls), redis_client)
    harness.run([insert(*row("a", value, 1)) for value in range(500)])
    trips = []
    for count in (5, 100):
        harness.run([insert(*row("a", value, 1)) for value in range(count)])
        trips.append(harness.statistics[-1]["round_trips"])
    assert trips[0] == trips[1]
    harness.close()


@pytest.mark.parametrize("name", ["tumble", "session"])
def test_accumulators_are_shown_as_they_were(name: str) -> None:
    """Rows and results by the calls' names; where the rest lies is no part of what people see."""
    built = spec(SHAPES[name])
    descriptor: Any = built.operator().descriptors[0]
    aggregates = slice_aggregates.SliceAggregates(built, "state")
    value: Any = aggregates.create()
    if name == "session":
        value = OpenSession(4, value, 1)

    shown = descriptor.codec.shown(descriptor.codec.encode(value))

    shown = shown["accumulators"] if name == "session" else shown
    assert (shown["rows"], shown["count"], shown["min"]) == (0, 0, [None, 0])
