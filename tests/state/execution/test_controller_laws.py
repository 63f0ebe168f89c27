"""Whatever is answered when: the output of a key is that of a synchronous run.

Hypothesis draws histories of few keys, the bounds of the controller, and, whenever the controller
waits, which of the requests under way are answered, in which order. The synchronous run is a loop
that carries out each request where it is made, and fires timers one by one from a sorted list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import OperatorFailed, StateUnavailable
from state.execution.controller import Controller
from state.execution.engine import RecordOrder
from state.execution.limits import ControllerLimits
from state.execution.stretches import StretchMode
from state.execution.sync_point import hold_key
from state.testing.execution import KeyedCells, ManualChannel, ManualClock
from tests.state.execution.rigs import SITE
from tests.state.execution.timers import HeapTimers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Record(NamedTuple):
    number: int
    key: bytes
    amount: int


class Watermark(NamedTuple):
    time_ms: int


class Operator:
    """What an operator under test has: cells, timers, and where its output goes."""

    def __init__(self) -> None:
        self.cells = KeyedCells()
        self.timers = HeapTimers()
        self.output: list[Any] = []
        self.loaded: set[bytes] = set()

    async def process(self, record: Record) -> None:
        raise NotImplementedError

    async def on_timer(self, timer: Any) -> None:
        raise NotImplementedError


class Summing(Operator):
    """Reads and writes, a request each."""

    async def process(self, record: Record) -> None:
        total = (await self.cells.get() or 0) + record.amount
        await self.cells.put(total)
        self.output.append((record.key, record.number, total))


class Caching(Operator):
    """As a session of state: the first access of a key is a request, later ones are none."""

    async def process(self, record: Record) -> None:
        if record.key not in self.loaded:
            await self.cells.get()
            self.loaded.add(record.key)
        total = self.cells.values[record.key] = self.cells.values.get(record.key, 0) + record.amount
        self.output.append((record.key, record.number, total))


class Uneven(Operator):
    """As many requests as the record says, none included; emits between them."""

    async def process(self, record: Record) -> None:
        for step in range(record.amount):
            seen = await self.cells.get() or 0
            self.output.append((record.key, record.number, step, seen))
            await self.cells.put(seen + 1)
        self.output.append((record.key, record.number, "end"))


class Timing(Summing):
    """Each record sets a timer, or removes one; a timer reads, and may set others that are due."""

    async def process(self, record: Record) -> None:
        self.timers.register(record.key, 0, record.amount * 3)
        await super().process(record)
        if record.amount == 2:
            self.timers.remove(record.key, 0, 3)

    async def on_timer(self, timer: Any) -> None:
        total = await self.cells.get()
        if timer.time_ms == 6:
            self.timers.register(timer.key, 0, 5)
            self.timers.register(timer.key, 0, 8)
        self.output.append((timer.key, "timer", timer.time_ms, total))
        await self.cells.put(0)


Step = Record | Watermark
keys = st.sampled_from([b"a", b"b", b"c"])
records = st.builds(Record, st.just(0), keys, st.integers(0, 3))
watermarks = st.builds(Watermark, st.sampled_from([2, 5, 8, 20]))


@st.composite
def histories(draw: st.DrawFn) -> list[Step]:
    steps = draw(st.lists(st.one_of(records, records, records, watermarks), max_size=25))
    return [
        each._replace(number=number) if isinstance(each, Record) else each
        for number, each in enumerate(steps)
    ]


limits = st.builds(
    ControllerLimits,
    in_flight_max=st.integers(1, 6),
    batch_max=st.integers(1, 4),
    overdraft_max=st.integers(0, 3),
    timeout_ms=st.sampled_from([0, 5]),
)


@st.composite
def choosers(draw: st.DrawFn) -> Callable[[int], Sequence[int]]:
    """Answers at least one of the requests under way, in any order."""

    def choose(count: int) -> Sequence[int]:
        order = draw(st.permutations(range(count)))
        return order[: draw(st.integers(1, count))]

    return choose


def carry_out(coroutine: Any) -> None:
    """Run a coroutine of requests, each where it is made."""
    try:
        while True:
            coroutine.send(None).run()
    except StopIteration:
        pass


def run_synchronously(operator: Operator, history: Sequence[Step]) -> None:
    for step in history:
        if isinstance(step, Record):
            operator.cells.set_key(step.key, 0)
            carry_out(operator.process(step))
        else:
            while due := operator.timers.due(step.time_ms):
                timer = operator.timers.take(*due[0], step.time_ms)
                operator.cells.set_key(due[0][0], 0)
                carry_out(operator.on_timer(timer))
            operator.output.append(step)


class Run:
    """A history through a controller."""

    def __init__(self, operator: Operator, channel: ManualChannel, **options: Any) -> None:
        self.operator = operator
        self.channel = channel
        self.clock = ManualClock()
        self.controller = Controller(
            self._process, channel, operator.cells, SITE, clock=self.clock, **options
        )
        self.limits = options["limits"]
        self.holds_first = options.get("order") is RecordOrder.FIRST_REQUEST_ORDER

    async def _process(self, record: Record) -> None:
        if self.holds_first:
            await hold_key()
        await self.operator.process(record)

    def go(self, history: Sequence[Step]) -> None:
        for step in history:
            self.clock.advance(1)
            if isinstance(step, Record):
                self.controller.submit(step, step.key, 0)
            else:
                self._watermark(step)
            self.check()
        self.controller.drain()

    def _watermark(self, step: Watermark) -> None:
        self.controller.non_record(
            lambda: self.operator.output.append(step),
            lambda: self.controller.fire(
                self.operator.timers, step.time_ms, self.operator.on_timer
            ),
        )

    def check(self) -> None:
        now = self.controller.statistics()
        most = self.limits.in_flight_max + self.limits.overdraft_max
        assert now.in_flight_peak <= most
        assert now.active < self.limits.batch_max
        assert now.held_keys + now.blocking == now.in_flight
        assert self.channel.in_batches_of_one_key == []
        assert max(self.channel.batches, default=0) <= self.limits.batch_max

    def assert_over(self) -> None:
        now = self.controller.statistics()
        gauges = (now.in_flight, now.active, now.executing, now.blocking, now.blocking_keys)
        assert (*gauges, now.held_keys, now.closed_stretches) == (0,) * 7


def by_key(output: Sequence[Any]) -> dict[bytes, list[Any]]:
    keyed: dict[bytes, list[Any]] = {}
    for each in output:
        if not isinstance(each, Watermark):
            keyed.setdefault(each[0], []).append(each)
    return keyed


def assert_no_watermark_is_early(output: Sequence[Any], history: Sequence[Step]) -> None:
    """Of each watermark: everything that precedes it in the history precedes it in the output."""
    marks = [i for i, each in enumerate(output) if isinstance(each, Watermark)]
    places = [i for i, each in enumerate(history) if isinstance(each, Watermark)]
    assert [output[i] for i in marks] == [history[i] for i in places]
    for mark, place in zip(marks, places, strict=True):
        late = [e for e in output[mark:] if not isinstance(e, Watermark) and e[1] != "timer"]
        assert all(each[1] > place for each in late)


OPERATORS = [Summing, Caching, Uneven]


@pytest.mark.parametrize("operator_type", OPERATORS)
@pytest.mark.parametrize("mode", StretchMode)
@pytest.mark.parametrize("order", RecordOrder)
@given(history=histories(), bounds=limits, choose=choosers())
def test_output_per_key_is_that_of_a_synchronous_run(
    operator_type: type[Operator],
    mode: StretchMode,
    order: RecordOrder,
    history: list[Step],
    bounds: ControllerLimits,
    choose: Callable[[int], Sequence[int]],
) -> None:
    plain, driven = operator_type(), operator_type()
    run_synchronously(plain, history)

    channel = ManualChannel(driven.cells, choose)
    run = Run(driven, channel, limits=bounds, mode=mode, order=order)
    run.go(history)

    assert by_key(driven.output) == by_key(plain.output)
    assert driven.cells.values == plain.cells.values
    assert_no_watermark_is_early(driven.output, history)
    assert run.controller.statistics().in_flight_peak <= bounds.in_flight_max
    run.assert_over()


@given(history=histories(), bounds=limits, choose=choosers())
def test_timers_fire_in_order_with_the_records_of_their_key(
    history: list[Step], bounds: ControllerLimits, choose: Callable[[int], Sequence[int]]
) -> None:
    plain, driven = Timing(), Timing()
    run_synchronously(plain, history)

    run = Run(driven, ManualChannel(driven.cells, choose), limits=bounds)
    run.go(history)

    assert by_key(driven.output) == by_key(plain.output)
    assert driven.timers.timers == plain.timers.timers
    assert driven.cells.values == plain.cells.values
    run.check()
    run.assert_over()
    parts = ([], [])
    for each, part in zip((plain.output, driven.output), parts, strict=True):
        part.append([])
        for change in each:
            part[-1].append(change) if not isinstance(change, Watermark) else part.append([])
    for mine, expected in zip(parts[1], parts[0], strict=True):
        assert sorted(mine, key=repr) == sorted(expected, key=repr)


class Broken(Exception):
    """What user code raises."""


@given(
    history=histories(),
    bounds=limits,
    choose=choosers(),
    failing=st.integers(0, 30),
    mode=st.sampled_from(StretchMode),
)
def test_after_an_error_nothing_is_left_and_every_process_was_ended_once(
    history: list[Step],
    bounds: ControllerLimits,
    choose: Callable[[int], Sequence[int]],
    failing: int,
    mode: StretchMode,
) -> None:
    begun: list[int] = []
    ended: list[int] = []

    class Failing(Summing):
        async def process(self, record: Record) -> None:
            begun.append(record.number)
            try:
                await self.cells.get()
                if record.number == failing:
                    raise Broken
                await self.cells.put(1)
            finally:
                ended.append(record.number)

        async def on_timer(self, timer: Any) -> None:
            raise NotImplementedError

    operator = Failing()
    run = Run(operator, ManualChannel(operator.cells, choose), limits=bounds, mode=mode)
    fails = any(isinstance(each, Record) and each.number == failing for each in history)

    try:
        run.go(history)
        cause = None
    except OperatorFailed as error:
        cause = error.__cause__

    assert isinstance(cause, Broken) == fails
    assert sorted(begun) == sorted(ended)
    assert len(set(ended)) == len(ended)
    run.assert_over()


@given(history=histories(), bounds=limits, answered=st.integers(0, 10))
def test_a_backend_that_falls_silent_is_given_up(
    history: list[Step], bounds: ControllerLimits, answered: int
) -> None:
    """Every wait has a limit: after some answers there are none any more."""
    left = [answered]

    def choose(count: int) -> Sequence[int]:
        left[0] -= 1
        return [0] if left[0] >= 0 else []

    operator = Summing()
    run = Run(operator, ManualChannel(operator.cells, choose), limits=bounds)
    needed = 2 * sum(isinstance(each, Record) for each in history)

    try:
        run.go(history)
        assert needed <= answered
    except StateUnavailable:
        assert needed > answered
    run.assert_over()


@given(history=histories(), bounds=limits, choose=choosers(), stop=st.integers(0, 25))
def test_cancelling_at_any_place_leaves_nothing(
    history: list[Step],
    bounds: ControllerLimits,
    choose: Callable[[int], Sequence[int]],
    stop: int,
) -> None:
    operator = Uneven()
    run = Run(operator, ManualChannel(operator.cells, choose), limits=bounds)
    for step in history[:stop]:
        if isinstance(step, Record):
            run.controller.submit(step, step.key, 0)

    run.controller.cancel()
    run.controller.cancel()

    run.assert_over()
