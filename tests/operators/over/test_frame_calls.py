"""What an OVER by time keeps beside its accumulators: parity, cost, older state, nothing left.

The reference is the same operator with everything in its accumulators, as versions before had it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate import AccumulatorCodec, Aggregates
from operators.event_time import from_ms
from operators.keyed import WATERMARK_MAX
from operators.over import over_aggregate
from operators.over.calls import CallOrder, Constant, OverAccumulators, OverCodec
from operators.over.over_aggregate import OverSpec
from operators.over.positions import PositionCall
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, OperatorHarness, Watermark, insert
from state.errors import StateCorrupt
from state.testing.proxy import Proxy
from state.types import parse_type
from tests.operators.aggregate.calls import call
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Change, Row
    from operators.keyed import OpenEpoch
    from operators.over.calls import OverAccumulators as Held

TIME = parse_type("TIMESTAMP(3)")
TYPES = (*map(parse_type, ("STRING", "INT", "STRING")), TIME)
FUNCTIONS = ("SUM", "MIN", "MAX", "FIRST_VALUE", "LAST_VALUE", "LISTAGG", "COLLECT", "ARRAY_AGG")
FRAMES: dict[str, dict[str, Any]] = {
    "range": {"preceding": 4},
    "rows": {"preceding": 2, "is_rows": True},
    "unbounded": {"preceding": None},
    "at once": {"preceding": 2, "is_rows": True, "time_column": None},
    "processing time": {"preceding": 4, "time_column": None},
}


def spec(frame: dict[str, Any], calls: Sequence[Any] | None = None, **fields: Any) -> OverSpec:
    """Columns k, v, s, ts; by k: the functions, plain and of what is distinct."""
    retracts = frame["preceding"] is not None
    constants: tuple[Constant, ...] = ()
    if calls is None:
        calls = [
            *(call(each, needs_retraction=retracts) for each in FUNCTIONS),
            *(
                call(each, is_distinct=True, needs_retraction=retracts)
                for each in ("COUNT", "MIN", "LISTAGG")
            ),
            call("MAX", needs_retraction=retracts).model_copy(update={"arguments": (4,)}),
        ]
        constants = (Constant(type="INT", text="[7]"),)
        if not retracts:
            calls.append(PositionCall(function="RANK", name="rank", result_type="BIGINT"))
    types = (*TYPES, *(each.result_type for each in calls))
    given: dict[str, Any] = {"is_rows": False, "time_column": 3, "constants": constants}
    return OverSpec.build(
        inputs=(InputSpec(types=TYPES, names=("k", "v", "s", "ts"), key=(0,)),),
        output=RowSpec(types=types, names=tuple(f"c{at}" for at in range(len(types)))),
        calls=tuple(calls),
        **given | frame | fields,
    )


def row(key: str, value: int | None, ms: int) -> Row:
    return key, value, None if value is None else f"{value}", from_ms(ms, TIME)


class WholeCalls:
    """The calls with accumulators in memory."""

    descriptors = prefetched = ()

    def __init__(self, spec: OverSpec) -> None:
        self._order = CallOrder(spec.calls, spec.constants)
        memory = Aggregates(self._order.aggregates, counts_rows=spec.preceding is not None)
        self._memory = memory
        codec = AccumulatorCodec(memory.calls, memory.functions, len(memory.distinct))
        self.codec = OverCodec(codec, self._order)

    def open(self, epoch: OpenEpoch) -> None:
        pass

    async def begin(self, held: Held | None, rows: Sequence[Row]) -> Held:
        return held or OverAccumulators(self._memory.create(), self._order.create())

    async def accumulate(self, held: Held, row: Row, at_ms: int) -> None:
        whole = row + self._order.constants
        self._memory.accumulate(held.aggregates, whole)
        self._order.accumulate(held.positions, whole, at_ms)

    async def retract(self, held: Held, row: Row) -> None:
        self._memory.retract(held.aggregates, row + self._order.constants)

    async def values(self, held: Held) -> Row:
        return self._order.values(self._memory.values(held.aggregates), held.positions)

    async def clear(self) -> None:
        pass


def before(built: OverSpec) -> OperatorHarness:
    """On heap, the operator as versions before had it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_aggregate, "FrameCalls", WholeCalls)
        return OperatorHarness.on_heap(built)


@st.composite
def arrivals(draw: st.DrawFn) -> list[Any]:
    """Rows, and times and watermarks that move on."""
    steps: list[Any] = []
    now_ms = 0
    for _ in range(draw(st.integers(1, 16))):
        if draw(st.integers(0, 3)) == 0:
            now_ms += draw(st.integers(1, 5))
            steps += [Watermark(now_ms), At(now_ms)]
        else:
            value = draw(st.sampled_from([None, 1, 2, 3]))
            ms = now_ms + draw(st.integers(1, 6))
            steps.append(insert(*row(draw(st.sampled_from("ab")), value, ms)))
    return steps


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=25)
@given(steps=arrivals(), size=st.integers(1, 5), data=st.data())
def test_what_comes_out_is_that_of_accumulators_in_memory(
    name: str, steps: list[Any], size: int, data: st.DataObject
) -> None:
    """In whatever order state answers."""
    built = spec(FRAMES[name])
    whole = [*steps, Watermark(WATERMARK_MAX), At(1_000)]

    expected = before(built).run(whole, epoch_changes=size)

    assert answered_any_way(built, data).run(whole, epoch_changes=size) == expected


@pytest.mark.parametrize("name", FRAMES)
@settings(max_examples=15)
@given(steps=arrivals(), cut=st.integers(0, 16))
def test_state_of_the_version_before_is_read_on(name: str, steps: list[Any], cut: int) -> None:
    built = spec(FRAMES[name])
    whole = [*steps, Watermark(WATERMARK_MAX), At(1_000)]
    reference, older = before(built), before(built)
    expected = reference.run(whole[:cut]) + reference.run(whole[cut:])

    emitted = older.run(whole[:cut])
    older.restart(built)
    emitted += older.run(whole[cut:])

    assert emitted == expected


def test_the_version_before_refuses_what_it_cannot_read() -> None:
    built = spec(FRAMES["at once"])
    harness = OperatorHarness.on_heap(built)
    harness.run([insert(*row("a", 1, 1))])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(over_aggregate, "FrameCalls", WholeCalls)
        harness.restart(built)

    with pytest.raises(StateCorrupt, match="stored accumulators"):
        harness.run([insert(*row("a", 2, 2))])


@pytest.mark.parametrize("is_rows", [True, False])
def test_a_row_costs_the_same_whatever_its_frame_holds(redis_server: Any, is_rows: bool) -> None:
    """Commands and round trips to the number; bytes but for numbers with more digits."""
    calls = [call(each, needs_retraction=True) for each in ("COUNT", "SUM", "MIN", "MAX")]
    calls.append(call("COUNT", is_distinct=True, needs_retraction=True))
    counts, sizes = [], []
    for held in (200, 1_000):
        built = spec({"preceding": held - 1, "is_rows": is_rows}, calls)
        with Proxy(redis_server.port) as proxy:
            client = redis.Redis.from_url(proxy.url)
            harness = OperatorHarness.on_redis(built, client)
            rows = [insert(*row("a", 1_000 + at * 7 % 10_007, 10_000 + at)) for at in range(held)]
            harness.run([*rows, Watermark(9_999 + held)])
            for more in range(3):
                at = held + more
                before_bytes = proxy.request_bytes + proxy.reply_bytes
                came = insert(*row("a", 20_000 + more, 10_000 + at))
                assert len(harness.run([came, Watermark(10_000 + at)])) == 1
            sizes.append(proxy.request_bytes + proxy.reply_bytes - before_bytes)
            counts.append([(e["round_trips"], e["commands"]) for e in harness.statistics[-2:]])
            harness.close()
            client.close()
    assert counts[0] == counts[1]
    assert sizes[1] - sizes[0] <= 200


@pytest.mark.parametrize("name", FRAMES)
def test_on_redis_as_on_heap_and_nothing_is_left_of_an_idle_key(
    redis_client: redis.Redis, name: str
) -> None:
    """Values that are packed, and values that are spread."""
    frame = FRAMES[name]
    wide = frame | ({} if frame["preceding"] is None else {"preceding": 60})
    built = spec(wide, **({} if name in ("range", "processing time") else {"ttl_ms": (500,)}))
    for count in (18, 150):
        steps: list[Any] = [insert(*row("a", at % 70, at)) for at in range(count)]
        steps += [Watermark(count), At(10), insert(*row("a", 3, count + 2)), At(12)]
        steps += [Watermark(WATERMARK_MAX), At(5_000), At(10_000)]
        local = OperatorHarness.on_heap(built)
        remote = OperatorHarness.on_redis(built, redis_client)

        emitted: list[Change] = remote.run(steps, epoch_changes=60)

        assert emitted == local.run(steps, epoch_changes=60)
        assert len(emitted) == count + 1
        assert not local.stored_names() - {b"counters"}
        remote.close()
