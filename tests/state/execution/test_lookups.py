"""Look-ups: order, capacity, deadlines, retries; with a source that answers as it is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import LookupTimedOut, OperatorFailed
from state.execution.lookup_channel import Answer, LookupLimits, ThreadedSource
from state.execution.lookups import LookupOrder, Lookups
from state.testing.execution import ManualClock
from tests.state.execution.rigs import SITE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class ManualSource:
    """Answers when it is told to; a wait for which it has no answer lets time pass."""

    def __init__(self, clock: ManualClock, choose: Callable[[int], Sequence[int]] | None = None):
        self._clock = clock
        self._choose = choose
        self._answers: list[Answer] = []
        self.asked: dict[int, Any] = {}
        self.arguments: list[Any] = []
        self.most_at_once = 0

    def start(self, ticket: int, argument: Any) -> None:
        assert ticket not in self.asked
        self.asked[ticket] = argument
        self.arguments.append(argument)
        self.most_at_once = max(self.most_at_once, len(self.asked))

    def answer(self, argument: Any, value: Any = None, error: Exception | None = None) -> None:
        ticket = next(each for each, asked in self.asked.items() if asked == argument)
        del self.asked[ticket]
        self._answers.append(Answer(ticket, value, error))

    def wait(self, wait_ms: int) -> Sequence[Answer]:
        if wait_ms and not self._answers:
            if self._choose is None:
                self._clock.advance(wait_ms)
            else:
                waiting = list(self.asked.values())
                for position in self._choose(len(waiting)):
                    self.answer(waiting[position], f"<{waiting[position]}>")
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """Nothing is held."""


class Rig:
    """Look-ups of records, which are texts `key:rest`."""

    def __init__(
        self,
        join: Any = None,
        choose: Callable[[int], Sequence[int]] | None = None,
        **options: Any,
    ) -> None:
        self.clock = ManualClock()
        self.source = ManualSource(self.clock, choose)
        self.output: list[Any] = []
        self.lookups = Lookups(
            join or self.join, self.source, self.output.append, SITE, clock=self.clock, **options
        )

    async def join(self, record: str, look_up: Any) -> list[Any]:
        return [(record, await look_up(record))]

    def submit(self, *records: str) -> None:
        for record in records:
            self.lookups.submit(record, record.partition(":")[0].encode())


def test_output_keeps_the_order_of_the_input() -> None:
    rig = Rig()
    rig.submit("a", "b", "c")

    for record in ("c", "b"):
        rig.source.answer(record)
    rig.lookups.poll()
    assert rig.output == []
    rig.source.answer("a")
    rig.lookups.poll()

    assert [record for record, _ in rig.output] == ["a", "b", "c"]


def test_output_of_other_keys_need_not_wait() -> None:
    rig = Rig(order=LookupOrder.BY_KEY)
    rig.submit("a:1", "a:2", "b:3")
    assert rig.source.arguments == ["a:1", "b:3"]

    for record in ("b:3", "a:1"):
        rig.source.answer(record)
        rig.lookups.poll()
    rig.source.answer("a:2")
    rig.lookups.poll()

    assert [record for record, _ in rig.output] == ["b:3", "a:1", "a:2"]


@given(
    history=st.lists(st.sampled_from(["a", "b", "c", "watermark"]), max_size=20),
    order=st.sampled_from(LookupOrder),
    capacity=st.integers(1, 5),
    data=st.data(),
)
def test_order_and_capacity_hold_whatever_is_answered_when(
    history: list[str], order: LookupOrder, capacity: int, data: st.DataObject
) -> None:
    def choose(count: int) -> Sequence[int]:
        return data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]

    rig = Rig(choose=choose, order=order, limits=LookupLimits(capacity=capacity))
    steps = [f"{each}:{number}" for number, each in enumerate(history)]
    for step in steps:
        if step.startswith("watermark"):
            rig.lookups.watermark(lambda step=step: rig.output.append((step, f"<{step}>")))
        else:
            rig.submit(step)
        assert rig.lookups.statistics().not_emitted <= capacity
    rig.lookups.drain()

    assert all(answer == f"<{step}>" for step, answer in rig.output)
    shown = [step for step, _ in rig.output]
    assert sorted(shown) == sorted(steps)
    assert rig.source.most_at_once <= capacity
    if order is LookupOrder.BY_INPUT:
        assert shown == steps
    for key in "abc":
        of_key = [step for step in steps if step[0] == key]
        assert [step for step in shown if step[0] == key] == of_key
    for place, step in enumerate(steps):
        if step.startswith("watermark"):
            assert set(steps[:place]) <= set(shown[: shown.index(step)])
    assert rig.lookups.statistics().controller.in_flight == 0


def test_a_look_up_that_is_not_answered_fails_after_its_time() -> None:
    rig = Rig(limits=LookupLimits(timeout_ms=500))
    rig.submit("a")

    with pytest.raises(LookupTimedOut, match="within 500 ms and 1 attempts"):
        rig.lookups.drain()

    assert rig.clock.now_ms == 500
    assert rig.lookups.statistics().controller.in_flight == 0


def test_a_join_can_do_without_an_answer() -> None:
    async def join(record: str, look_up: Any) -> list[Any]:
        try:
            return [(record, await look_up(record))]
        except LookupTimedOut:
            return [(record, None)]

    rig = Rig(join, limits=LookupLimits(timeout_ms=500))
    rig.submit("a:1", "a:2")
    rig.lookups.drain()
    rig.source.answer("a:1", "too late")
    rig.lookups.poll()

    assert rig.output == [("a:1", None), ("a:2", None)]
    assert (rig.lookups.statistics().timeouts, rig.lookups.statistics().late) == (2, 1)
    assert rig.clock.now_ms == 1_000


def test_a_look_up_that_raises_is_tried_again_after_a_while() -> None:
    rig = Rig(limits=LookupLimits(attempts_max=3, retry_delay_ms=100))
    rig.submit("a")

    rig.source.answer("a", error=OSError())
    rig.lookups.poll()
    assert rig.source.asked == {}
    rig.clock.advance(99)
    rig.lookups.poll()
    assert rig.source.asked == {}
    rig.clock.advance(1)
    rig.lookups.poll()
    rig.source.answer("a", "found")
    rig.lookups.poll()

    assert rig.output == [("a", "found")]
    assert rig.lookups.statistics().retries == 1


def test_a_miss_is_tried_again_and_stays_one_in_the_end() -> None:
    rig = Rig(limits=LookupLimits(attempts_max=2), is_miss=lambda value: value is None)
    rig.submit("a")

    for _ in range(2):
        rig.source.answer("a", None)
        rig.lookups.poll()
        rig.lookups.poll()

    assert rig.output == [("a", None)]
    assert rig.source.arguments == ["a", "a"]


def test_what_the_last_attempt_raised_fails_the_task() -> None:
    rig = Rig(limits=LookupLimits(attempts_max=2))
    rig.submit("a")

    rig.source.answer("a", error=OSError("first"))
    rig.lookups.poll()
    rig.lookups.poll()
    rig.source.answer("a", error=OSError("second"))
    with pytest.raises(OperatorFailed, match="OSError in counter") as failed:
        rig.lookups.poll()

    assert str(failed.value.__cause__) == "second"


def test_retries_do_not_outlive_the_deadline() -> None:
    rig = Rig(limits=LookupLimits(timeout_ms=50, attempts_max=10, retry_delay_ms=100))
    rig.submit("a")
    rig.source.answer("a", error=OSError())

    with pytest.raises(LookupTimedOut):
        rig.lookups.drain()
    assert (rig.clock.now_ms, rig.source.arguments) == (50, ["a"])


def test_a_look_up_that_timed_out_before_its_retry_is_not_tried_again() -> None:
    async def join(record: str, look_up: Any) -> list[Any]:
        try:
            return [await look_up(record)]
        except LookupTimedOut:
            return ["none"]

    rig = Rig(join, limits=LookupLimits(timeout_ms=50, attempts_max=10, retry_delay_ms=100))
    rig.submit("a")
    rig.source.answer("a", error=OSError())
    rig.lookups.drain()
    rig.clock.advance(60)
    rig.submit("b")

    assert rig.output == ["none"]
    assert rig.source.arguments == ["a", "b"]


def test_threads_answer_in_any_order_and_the_output_keeps_it() -> None:
    """The first look-up is let go only after the second one was answered."""
    second_is_done = threading.Event()

    def slow(argument: str) -> str:
        if argument == "a":
            assert second_is_done.wait(10)
        else:
            second_is_done.set()
        return argument.upper()

    source = ThreadedSource(slow, threads_max=2)
    output: list[Any] = []

    async def join(record: str, look_up: Any) -> list[Any]:
        return [await look_up(record)]

    lookups = Lookups(join, source, output.append, SITE, limits=LookupLimits(timeout_ms=20_000))
    lookups.submit("a", b"a")
    lookups.submit("b", b"b")
    lookups.drain()
    source.close()

    assert output == ["A", "B"]


def test_what_a_thread_raises_comes_back() -> None:
    submitted = threading.Event()

    def failing(argument: str) -> str:
        assert submitted.wait(10)
        raise OSError

    async def join(record: str, look_up: Any) -> list[Any]:
        return [await look_up(record)]

    source = ThreadedSource(failing, threads_max=1)
    lookups = Lookups(join, source, lambda _: None, SITE)
    lookups.submit("a", b"a")
    submitted.set()
    with pytest.raises(OperatorFailed, match="OSError"):
        lookups.drain()
    source.close()


@pytest.mark.parametrize(
    "bound", [{"capacity": 0}, {"timeout_ms": 0}, {"attempts_max": 0}, {"retry_delay_ms": -1}]
)
def test_bounds_that_make_no_sense_are_refused(bound: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="begin at 1"):
        LookupLimits(**bound)
