"""How keyed operators are run: order, timers, bundles, orphans and state."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators import kinds
from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.keyed import (
    WATERMARK_MAX,
    FiredTimer,
    InputChange,
    KeyedOperator,
    OpenEpoch,
)
from operators.spec import InputSpec, OperatorSpec, RowSpec
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    Watermark,
    delete,
    insert,
    update_after,
)
from state.descriptors import JSON, TimersDescriptor, ValueDescriptor
from state.errors import OperatorFailed
from state.execution.channels import BlockingChannel
from state.types import parse_type
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

STRING, BIGINT = parse_type("STRING"), parse_type("BIGINT")


class CountSpec(OperatorSpec):
    """Counts rows of a key; a row whose amount is above 100 sets timers at that time."""

    kind: Literal["test-count"] = "test-count"

    def operator(self) -> Count:
        return Count(self)


class Count(KeyedOperator):
    def __init__(self, spec: CountSpec) -> None:
        self._counts = ValueDescriptor(
            name="counts", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("counts")
        )
        self.descriptors = (self._counts,)
        self.event_timers = TimersDescriptor(name="event_timers")
        self.processing_timers = TimersDescriptor(name="processing_timers")

    def open(self, epoch: OpenEpoch) -> None:
        self._count = epoch.session.value(self._counts)
        self._event = epoch.timers(self.event_timers)
        self._processing = epoch.timers(self.processing_timers)
        self._watermark_ms = epoch.times.watermark_ms

    async def process(self, change: InputChange) -> None:
        count = await self._count.value() or 0
        if change.kind.is_retraction and not count:
            change.orphan()
            return
        count += change.kind.weight
        if count:
            await self._count.update(count)
        else:
            await self._count.clear()
        key, amount = change.row
        if amount > 100:
            (self._event if change.input else self._processing).register(amount, b"n")
        change.emit(RowKind.UPDATE_AFTER, (key, count))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        count = (await self._count.value() or 0) + sum(each.kind.weight for each in changes)
        await self._count.update(count)
        changes[-1].emit(RowKind.UPDATE_AFTER, (changes[-1].key[0], count))

    async def on_event_timer(self, timer: FiredTimer) -> None:
        assert timer.namespace == b"n"
        timer.emit(RowKind.DELETE, (*timer.key, timer.time_ms))

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        timer.emit(RowKind.INSERT, (*timer.key, timer.time_ms))


@pytest.fixture(autouse=True)
def kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kinds.SPECS, "test-count", CountSpec)


def spec(**fields: Any) -> CountSpec:
    one = InputSpec(types=(STRING, BIGINT), names=("k", "v"), key=(0,))
    output = RowSpec(types=(STRING, BIGINT), names=("k", "n"))
    return CountSpec.build(inputs=(one, one), output=output, **fields)


def test_emissions_follow_their_causes() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [insert("a", 1), insert("b", 1), insert("a", 2), delete("a", 1), delete("b", 1)]
    assert harness.run(steps) == [
        update_after("a", 1),
        update_after("b", 1),
        update_after("a", 2),
        update_after("a", 1),
        update_after("b", 0),
    ]


def test_timers_fire_around_the_changes_of_an_epoch() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run(
        [insert("b", 105), Of(1, insert("a", 103)), Of(1, insert("b", 103)), At(105)]
    )[3:] == [insert("b", 105)]
    assert harness.run([insert("c", 1), Watermark(103)]) == [
        update_after("c", 1),
        delete("a", 103),
        delete("b", 103),
    ]
    assert harness.run([Watermark(500), At(500)]) == []


def test_what_comes_after_the_end_of_all_inputs_is_due_at_once() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([Watermark(WATERMARK_MAX)])

    assert harness.run([Of(1, insert("a", 103))]) == [update_after("a", 1), delete("a", 103)]


def test_an_unmatched_retraction_is_counted() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([delete("a", 1), insert("b", 1)]) == [update_after("b", 1)]
    assert harness.statistics[-1]["orphans"] == 1
    assert b"orphans" in harness.stored_names()


def test_nothing_is_left_of_a_key_that_is_done() -> None:
    harness = OperatorHarness.on_heap(spec(ttl_ms=(5,)))
    harness.run([insert("a", 1), insert("b", 1), delete("a", 1), At(5)])
    assert harness.stored_names() == set()


def test_a_bundle_emits_once_a_key_and_epoch() -> None:
    harness = OperatorHarness.on_heap(spec(bundles=True))
    steps = [insert("a", 1), insert("b", 1), insert("a", 2)]
    assert harness.run(steps) == [update_after("b", 1), update_after("a", 2)]


def test_ttl_that_is_switched_on_begins_then() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([At(10), insert("a", 1)])
    harness.restart(spec(ttl_ms=(5,)))
    assert harness.run([At(14), insert("a", 1)]) == [update_after("a", 2)]
    assert harness.run([At(18), insert("a", 1), At(23), insert("a", 1)]) == [
        update_after("a", 3),
        update_after("a", 1),
    ]


def test_the_limits_of_the_controller_are_kept() -> None:
    narrow = spec(limits={"in_flight_max": 2})
    harness = OperatorHarness.on_heap(narrow, channel_of=lambda session: BlockingChannel(session))

    harness.run([insert(key, 1) for key in "abcdef"])

    assert harness.statistics[0]["in_flight_peak"] == 2
    assert harness.statistics[0]["batches"] == 3


def test_a_spec_refuses_columns_that_are_not_there() -> None:
    with pytest.raises(InvalidSpec, match="does not name columns"):
        CountSpec.from_json(spec().to_json().replace('"key":[0]', '"key":[7]'))
    with pytest.raises(InvalidSpec, match="no operator of kind"):
        kinds.spec_from_json('{"kind": "none"}')


steps = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(100, 104), st.booleans(), st.booleans()),
    max_size=12,
)


@given(steps=steps, size=st.integers(1, 4), data=st.data())
def test_what_is_emitted_depends_on_the_input_only(
    steps: list[tuple[str, int, bool, bool]], size: int, data: st.DataObject
) -> None:
    """Whatever the epochs' sizes are, and in whatever order requests are answered."""
    changes = [
        Of(int(second), Change(RowKind.DELETE if is_delete else RowKind.INSERT, (key, amount)))
        for key, amount, is_delete, second in steps
    ]

    plain = OperatorHarness.on_heap(spec())
    other = answered_any_way(spec(), data)
    expected = plain.run([*changes, Watermark(103), At(103)])
    assert other.run([*changes, Watermark(103), At(103)], epoch_changes=size) == expected


class Texts(KeyedOperator):
    """Emits the text of each row."""

    def open(self, epoch: OpenEpoch) -> None:
        """It keeps nothing."""

    async def process(self, change: InputChange) -> None:
        if change.row[1] == 666:
            raise ArithmeticError
        change.emit(RowKind.INSERT, (change.text.decode(), change.input))


class TextsSpec(CountSpec):
    kind: Any = "test-texts"

    def operator(self) -> Any:
        return Texts()


def texts_harness(monkeypatch: pytest.MonkeyPatch) -> OperatorHarness:
    monkeypatch.setitem(kinds.SPECS, "test-texts", TextsSpec)
    plain = spec()
    return OperatorHarness.on_heap(TextsSpec.build(inputs=plain.inputs, output=plain.output))


def test_a_change_has_the_text_of_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are made by input and batch, changes come in another order."""
    rows = [(f'{at} "\u00e9', None if at % 3 == 0 else at) for at in range(7)]
    steps = [Of(at % 2, insert(*row)) for at, row in enumerate(rows)]

    emitted = texts_harness(monkeypatch).run(steps)

    encode = spec().inputs[0].codec().encode
    assert [each.row for each in emitted] == [
        (encode(row).decode(), at % 2) for at, row in enumerate(rows)
    ]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("collects", [False, True])
def test_the_collector_of_garbage_is_left_as_it_was(
    monkeypatch: pytest.MonkeyPatch, fails: bool, collects: bool
) -> None:
    harness, was_enabled = texts_harness(monkeypatch), gc.isenabled()
    try:
        (gc.enable if collects else gc.disable)()
        with pytest.raises(OperatorFailed) if fails else nullcontext():
            harness.run([insert("a", 666 if fails else 1)])
        assert gc.isenabled() is collects
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    given = [insert("a", 103), Of(1, insert("b", 102)), delete("c", 1), At(200), Watermark(200)]
    heap, remote = OperatorHarness.on_heap(spec()), OperatorHarness.on_redis(spec(), redis_client)
    assert remote.run(given, epoch_changes=2) == heap.run(given)
    assert remote.statistics[0]["round_trips"] <= 5
    remote.close()
