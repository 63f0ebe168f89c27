"""What the scenario tables do not have: records begun by records, errors of use, statistics."""

from __future__ import annotations

from typing import Any

import pytest

from state.errors import Fenced, InvariantViolation, OperatorFailed
from state.execution.controller import Controller
from state.execution.engine import RecordOrder
from state.execution.key_accounting import hashed
from state.execution.limits import ControllerLimits
from state.execution.processes import declare_process
from state.execution.stretches import StretchMode
from state.execution.sync_point import hold_key
from tests.state.execution.rigs import Rig
from tests.state.execution.timers import HeapTimers

PARALLEL = StretchMode.PARALLEL_BETWEEN_EPOCH


def forking(rig: Rig) -> Any:
    """Records "parent" begin a child under key "c", with what they know."""

    async def process(record: str) -> None:
        if record.endswith("parent"):
            rig.controller.context.variables = {"from": record}
            rig.controller.with_key("c:child", b"c", 0)
            rig.output.append("begun")
        elif record.endswith("child"):
            mine = rig.controller.context
            rig.output.append((mine.variables, mine.priority, mine.key))
        else:
            await rig.count_up(record)

    return process


def test_a_record_begins_another_one_under_its_own_key() -> None:
    rig = Rig(forking)

    rig.submit("k:parent")

    assert rig.output == ["begun", ({"from": "k:parent"}, 1, b"c")]
    rig.assert_nothing_left()


def test_a_begun_record_passes_those_of_lower_priority_that_wait() -> None:
    rig = Rig(forking)

    rig.submit("c:1", "c:2", "k:parent")
    rig.controller.drain()

    assert rig.output == ["begun", 1, ({"from": "k:parent"}, 1, b"c"), 2]


def test_a_begun_record_belongs_to_the_stretch_of_the_one_that_began_it() -> None:
    rig = Rig(forking)

    rig.submit("c:1", "k:parent")
    rig.controller.non_record(lambda: rig.output.append("watermark"), mode=PARALLEL)
    rig.submit("k:parent")
    assert rig.output == ["begun", "begun"]
    rig.controller.drain()

    child = ({"from": "k:parent"}, 1, b"c")
    assert rig.output[:4] == ["begun", "begun", 1, child]
    assert sorted(rig.output[4:], key=str) == sorted([child, "watermark"], key=str)


def test_a_watermark_waits_for_what_a_record_before_it_begins_later() -> None:
    def process(rig: Rig) -> Any:
        async def begin_after_waiting(record: str) -> None:
            await rig.cells.get()
            rig.output.append(record)
            if record == "parent":
                rig.controller.with_key("child", b"c", 0)

        return begin_after_waiting

    rig = Rig(process)
    rig.submit("parent")
    rig.controller.non_record(lambda: rig.output.append("watermark"), mode=PARALLEL)
    rig.submit("later")
    rig.controller.drain()

    assert set(rig.output) == {"parent", "later", "child", "watermark"}
    assert rig.output.index("child") < rig.output.index("watermark")


def test_what_was_answered_first_goes_on_first() -> None:
    rig = Rig(manual=True)
    rig.submit("a", "b", "c")
    rig.flush()
    rig.channel.answer(2, 0, 1)
    rig.controller.poll()
    rig.flush()

    assert [context.key for context in rig.channel.under_way] == [b"c", b"a", b"b"]
    rig.controller.cancel()


def test_begun_records_are_bounded() -> None:
    def process(rig: Rig) -> Any:
        async def endless(record: str) -> None:
            for number in range(10):
                rig.controller.with_key(f"{number}", b"%d" % number, 0)

        return endless

    rig = Rig(process, limits=ControllerLimits(in_flight_max=2, overdraft_max=3))

    with pytest.raises(OperatorFailed, match="has 5 records in flight and begins more"):
        rig.submit("k")
    rig.assert_nothing_left()


def test_timers_wait_once_the_overdraft_is_used_up() -> None:
    limits = ControllerLimits(in_flight_max=2, overdraft_max=1, batch_max=1)
    rig = Rig(limits=limits, manual=lambda count: range(count))
    timers = HeapTimers((number, b"%d" % number) for number in range(6))

    async def on_timer(timer: Any) -> None:
        await rig.cells.get()
        rig.output.append(timer.time_ms)

    rig.controller.non_record(
        lambda: rig.output.append("watermark"), lambda: rig.controller.fire(timers, 9, on_timer)
    )

    assert rig.output == [0, 1, 2, 3, 4, 5, "watermark"]
    assert rig.controller.statistics().in_flight_peak == 3


def test_timers_of_processing_time_join_the_records_around_them() -> None:
    rig = Rig()
    timers = HeapTimers([(5, b"k"), (7, b"k"), (9, b"k")])

    async def on_timer(timer: Any) -> None:
        rig.output.append((timer.time_ms, await rig.cells.get()))

    rig.submit("k")
    assert rig.controller.fire(timers, 8, on_timer) == 2
    rig.submit("k")
    rig.controller.drain()

    assert rig.output == [1, (5, 1), (7, 1), 2]
    assert [each.time_ms for each in timers.timers] == [9]


def test_a_removed_timer_does_not_fire_although_it_had_its_turn() -> None:
    rig = Rig()
    timers = HeapTimers([(5, b"k"), (7, b"k")])

    async def on_timer(timer: Any) -> None:
        rig.output.append(timer.time_ms)
        timers.remove(b"k", 0, 7)

    rig.controller.fire(timers, 8, on_timer)

    assert rig.output == [5]


@pytest.mark.parametrize("call", ["submit", "drain", "poll", "flush", "cancel", "keep"])
def test_a_process_cannot_call_the_controller_that_runs_it(call: str) -> None:
    def process(rig: Rig) -> Any:
        async def calling(record: str) -> None:
            getattr(rig.controller, call)(*((record, b"k", 0) if call == "submit" else ()))

        return calling

    with pytest.raises(InvariantViolation, match="controller that runs it"):
        Rig(process).submit("k")


def test_a_controller_that_failed_is_of_no_use() -> None:
    rig = Rig()
    rig.submit("k")
    rig.controller.cancel()

    for call in (rig.controller.drain, rig.controller.poll, lambda: rig.submit("k")):
        with pytest.raises(InvariantViolation, match="has failed or was cancelled"):
            call()


def test_there_is_no_context_outside_a_process() -> None:
    with pytest.raises(InvariantViolation, match="no record runs"):
        _ = Rig().controller.context


def test_errors_of_state_keep_their_code_and_say_where() -> None:
    def process(rig: Rig) -> Any:
        async def fenced(record: str) -> None:
            raise Fenced("a newer run owns key group 0")

        return fenced

    with pytest.raises(Fenced) as failed:
        Rig(process).submit("k")
    assert failed.value.__notes__ == [f"in counter, node 3_count, epoch 7, key {hashed(b'k')}"]


def test_an_error_of_a_final_action_fails_the_task() -> None:
    rig = Rig()

    def emit() -> None:
        raise OSError("full")

    with pytest.raises(OperatorFailed, match="OSError in counter"):
        rig.controller.non_record(emit)
    with pytest.raises(InvariantViolation):
        rig.controller.drain()


def test_an_interruption_stays_one_and_closes_what_is_in_flight() -> None:
    closed: list[str] = []

    def process(rig: Rig) -> Any:
        async def interrupted(record: str) -> None:
            if record == "stop":
                raise KeyboardInterrupt
            try:
                await rig.cells.get()
            finally:
                closed.append(record)

        return interrupted

    rig = Rig(process)
    rig.submit("k")
    with pytest.raises(KeyboardInterrupt):
        rig.submit("stop")

    assert closed == ["k"]
    rig.assert_nothing_left()


def test_what_closing_processes_raise_does_not_hide_the_first_error() -> None:
    def process(rig: Rig) -> Any:
        async def stubborn(record: str) -> None:
            if record == "first":
                raise ValueError
            try:
                await rig.cells.get()
            finally:
                raise OSError("while closing")

        return stubborn

    rig = Rig(process)
    rig.submit("k", "j")
    with pytest.raises(OperatorFailed, match="ValueError"):
        rig.submit("first")
    rig.assert_nothing_left()


def test_a_request_that_was_not_sent_cannot_be_answered() -> None:
    rig = Rig(manual=True)
    rig.submit("k")
    rig.channel.under_way = [rig.controller._holders[b"k"]]
    rig.channel.answer()

    with pytest.raises(InvariantViolation, match="not sent"):
        rig.controller.poll()


def test_statistics_tell_how_much_was_shared() -> None:
    rig = Rig(limits=ControllerLimits(batch_max=4))
    rig.submit(*"abcd", *"aabb")
    rig.controller.drain()

    now = rig.controller.statistics()

    assert (now.completed, now.never_waited, now.requests) == (8, 0, 16)
    assert now.batches == 6  # two for a to d, then two for each two of a and b
    assert now.requests_per_batch == 16 / 6
    assert now.in_flight_peak == 4


def test_records_that_never_wait_are_counted_apart() -> None:
    def process(rig: Rig) -> Any:
        async def at_once(record: str) -> None:
            rig.output.append(record)

        return at_once

    rig = Rig(process)
    rig.submit("a", "b", "a")
    now = rig.controller.statistics()

    assert (now.completed, now.never_waited, now.batches, now.in_flight_peak) == (3, 3, 0, 0)
    assert now.requests_per_batch == 0


def test_closed_stretches_are_bounded() -> None:
    rig = Rig(limits=ControllerLimits(in_flight_max=2), manual=lambda count: range(count))
    rig.submit("k")

    for number in range(4):
        rig.controller.non_record(lambda number=number: rig.output.append(number), mode=PARALLEL)

    assert rig.output[0] == 1
    assert rig.controller.statistics().closed_stretches == 0


def test_the_controller_is_told_event_times() -> None:
    seen: list[Any] = []

    def process(rig: Rig) -> Any:
        async def note(record: str) -> None:
            await rig.cells.get()
            seen.append(rig.cells.context)

        return note

    rig = Rig(process)
    for number in (1, 2):
        rig.controller.submit("r", b"k", 3, event_ms=number)
    rig.controller.drain()

    assert seen == [(b"k", 3, 1), (b"k", 3, 2)]
    assert isinstance(rig.controller, Controller)


@pytest.mark.parametrize("order", RecordOrder)
def test_a_sync_point_leaves_the_namespace_as_it_is(order: RecordOrder) -> None:
    def process(rig: Rig) -> Any:
        async def in_namespace(record: str) -> None:
            await hold_key()
            rig.cells.set_namespace(b"n")
            await rig.cells.put(1)
            rig.cells.set_namespace(b"m")
            await hold_key()
            await rig.cells.put(2)

        return in_namespace

    rig = Rig(process, options={"order": order})
    rig.submit("k", "k")
    rig.controller.drain()

    assert rig.cells.values == {b"k\tn": 1, b"k\tm": 2}


@pytest.mark.parametrize("order", RecordOrder)
def test_a_declared_process_may_hold_its_key_first(order: RecordOrder) -> None:
    def process(rig: Rig) -> Any:
        async def only(record: str, variables: dict[str, Any]) -> None:
            await hold_key()
            await rig.count_up(record)

        return declare_process("only", only=only)

    rig = Rig(process, options={"order": order})
    rig.submit("k", "j", "k")
    assert rig.gauges == (2, 1, 2, 3)
    rig.controller.drain()

    assert sorted(rig.output) == [1, 1, 2]
