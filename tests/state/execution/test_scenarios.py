"""The scenario tables of Flink's `StateExecutionControllerTest`, with the same numbers.

A, B, K, F are the active buffer, the blocking buffer, the keys that are held, and the records in
flight. User code reads a value, writes it back one higher (or 1), and emits it. Where our model
differs a test says so: counting references is the life of a coroutine here, and the limit is
strict (Flink lets one more in).
"""

from __future__ import annotations

import pytest

from state.errors import InvariantViolation, OperatorFailed, StateUnavailable
from state.execution.engine import RecordOrder
from state.execution.limits import ControllerLimits
from state.execution.stretches import StretchMode
from state.execution.sync_point import hold_key
from tests.state.execution.rigs import Rig
from tests.state.execution.timers import HeapTimers

PARALLEL = StretchMode.PARALLEL_BETWEEN_EPOCH
SERIAL = StretchMode.SERIAL_BETWEEN_EPOCH


@pytest.mark.parametrize("order", RecordOrder)
def test_basic_run(order: RecordOrder) -> None:
    rig = Rig(options={"order": order})

    rig.submit("k1:r1")
    assert rig.gauges == (1, 0, 1, 1)
    rig.flush()
    assert rig.gauges == (1, 0, 1, 1)
    rig.flush()
    assert (rig.gauges, rig.output) == ((0, 0, 0, 0), [1])

    rig.submit("k1:r2", "k1:r3")
    assert rig.gauges == (1, 1, 1, 2)
    rig.flush()
    assert rig.gauges == (1, 1, 1, 2)
    rig.flush()
    assert (rig.gauges, rig.output) == ((1, 0, 1, 1), [1, 2])
    rig.flush()
    rig.flush()
    assert (rig.gauges, rig.output) == ((0, 0, 0, 0), [1, 2, 3])

    rig.submit("k3:r4")
    rig.flush()
    rig.flush()
    assert (rig.gauges, rig.output) == ((0, 0, 0, 0), [1, 2, 3, 1])


def test_records_of_one_key_go_one_after_the_other_whatever_their_namespace() -> None:
    def process(rig: Rig) -> object:
        async def count_in_namespace(record: str) -> None:
            rig.cells.set_namespace(record.partition(":")[2].encode())
            await rig.count_up(record)

        return count_in_namespace

    rig = Rig(process)

    rig.submit("k1:a", "k1:b", "k1:a")
    assert rig.gauges == (1, 2, 1, 3)
    rig.controller.drain()

    assert rig.output == [1, 1, 2]
    assert rig.cells.values == {b"k1\ta": 2, b"k1\tb": 1}


def test_records_run_in_order() -> None:
    rig = Rig()

    rig.submit("k1:r1", "k2:r2", "k1:r3")
    assert rig.gauges == (2, 1, 2, 3)
    rig.flush()
    assert rig.gauges == (2, 1, 2, 3)
    rig.flush()
    assert (rig.gauges, rig.output) == ((1, 0, 1, 1), [1, 1])
    rig.flush()
    rig.flush()
    assert (rig.gauges, rig.output) == ((0, 0, 0, 0), [1, 1, 2])


def test_a_full_batch_goes_out_by_itself() -> None:
    rig = Rig(limits=ControllerLimits(batch_max=5, in_flight_max=10))

    for five in range(3):
        rig.submit(*(f"k{five}{number}" for number in range(5)))
        assert rig.gauges == (0, 0, 0, 0)

    assert rig.output == [1] * 15


def test_records_in_flight_never_exceed_the_limit() -> None:
    """Flink: 11 in flight, 10 blocked, since it waits while the count is greater than the limit.

    Ours waits while it is not smaller; one record has to end before the eleventh is let in.
    """
    rig = Rig(limits=ControllerLimits(batch_max=5, in_flight_max=10))

    rig.submit(*["k"] * 10)
    assert rig.gauges == (1, 9, 1, 10)
    for further in range(1, 6):
        rig.submit("k")
        assert rig.gauges == (1, 9, 1, 10)
        assert rig.output == list(range(1, further + 1))

    rig.controller.drain()
    assert rig.output == list(range(1, 16))
    assert rig.controller.statistics().in_flight_peak == 10


def sync_points(rig: Rig) -> object:
    """Records named "sync" only wait for their key; the others are user code."""

    async def process(record: str) -> None:
        if record.endswith("sync"):
            await hold_key()
            rig.output.append("sync")
        else:
            await rig.count_up(record)

    return process


@pytest.mark.parametrize("order", RecordOrder)
def test_a_sync_point_of_a_free_key_runs_at_once(order: RecordOrder) -> None:
    """Flink's context stays until it is released by hand; ours ends with its coroutine."""
    rig = Rig(sync_points, options={"order": order})

    rig.submit("k:sync")

    assert (rig.output, rig.gauges) == (["sync"], (0, 0, 0, 0))
    assert rig.controller.statistics().batches == 0


@pytest.mark.parametrize("order", RecordOrder)
def test_a_sync_point_of_a_busy_key_waits(order: RecordOrder) -> None:
    rig = Rig(sync_points, options={"order": order})

    rig.submit("k:user", "k:sync")
    assert (rig.output, rig.gauges) == ([], (1, 1, 1, 2))
    rig.flush()
    assert (rig.output, rig.gauges) == ([], (1, 1, 1, 2))
    rig.flush()

    assert (rig.output, rig.gauges) == ([1, "sync"], (0, 0, 0, 0))


def test_a_timer_uses_the_overdraft_and_does_not_wait() -> None:
    rig = Rig(limits=ControllerLimits(batch_max=1, in_flight_max=1), manual=True)
    timers = HeapTimers([(10, b"k")])

    async def on_timer(timer: object) -> None:
        rig.output.append("timer")

    rig.submit("k:r1")
    rig.controller.fire(timers, 10, on_timer)
    assert (rig.output, rig.gauges) == ([], (0, 1, 1, 2))
    for _ in range(2):
        rig.channel.answer()
        rig.controller.poll()

    assert (rig.output, rig.gauges) == ([1, "timer"], (0, 0, 0, 0))


def test_a_request_waits_for_the_timeout_at_most() -> None:
    """Time is looked at when something is submitted or polled (Flink: by a second thread)."""
    rig = Rig(limits=ControllerLimits(batch_max=5, timeout_ms=1_000))
    buffer = rig.controller._active

    rig.submit("1", "2", "3", "4")
    assert (buffer.sequence, buffer.deadline_ms, rig.gauges) == (0, 1_000, (4, 0, 4, 4))
    rig.clock.advance(999)
    rig.controller.poll()
    assert rig.gauges == (4, 0, 4, 4)
    rig.clock.advance(1)
    rig.controller.poll()
    assert (buffer.sequence, buffer.deadline_ms, rig.gauges) == (1, 2_000, (4, 0, 4, 4))
    rig.clock.advance(1_000)
    rig.controller.poll()
    assert (buffer.sequence, buffer.deadline_ms, rig.gauges) == (2, None, (0, 0, 0, 0))
    assert rig.controller.statistics().timeouts == 2

    rig.submit("5", "6", "7", "8")
    assert (buffer.sequence, buffer.deadline_ms) == (2, 3_000)
    rig.submit("9")
    assert (buffer.deadline_ms, rig.gauges) == (None, (0, 0, 0, 0))
    assert rig.controller.statistics().timeouts == 2


def test_a_submission_sends_what_is_due() -> None:
    rig = Rig(limits=ControllerLimits(batch_max=5, timeout_ms=1_000))

    rig.submit("1")
    rig.clock.advance(1_000)
    rig.submit("2")

    assert rig.controller.statistics().timeouts == 1


def test_without_a_timeout_requests_wait_until_nothing_else_can_run() -> None:
    rig = Rig(limits=ControllerLimits(timeout_ms=0))

    rig.submit("1")
    rig.clock.advance(10**9)
    rig.controller.poll()
    assert rig.gauges == (1, 0, 1, 1)

    rig.controller.drain()
    assert rig.output == [1]


def test_an_error_of_user_code_fails_the_task_and_leaves_nothing() -> None:
    """Flink leaves the record counted as in flight; here every counter returns to zero."""

    def process(rig: Rig) -> object:
        async def fail(record: str) -> None:
            await rig.cells.get()
            raise ValueError("artificial")

        return fail

    rig = Rig(process)
    rig.submit("k:r1", "k:r2", "j:r3")

    with pytest.raises(OperatorFailed, match="ValueError in counter, node 3_count, epoch 7, key #"):
        rig.flush()

    rig.assert_nothing_left()


def test_an_error_of_the_backend_is_given_as_it_is() -> None:
    rig = Rig(manual=True)
    rig.submit("k")

    with pytest.raises(StateUnavailable, match="none of 1 state requests was answered") as failed:
        rig.controller.drain()

    assert failed.value.__notes__ == ["in counter, node 3_count, epoch 7"]
    rig.assert_nothing_left()


def test_an_error_of_ours_while_a_batch_is_sent_fails_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Flink's mailbox refuses a mail, and the failure is given to the environment."""

    def refuse(requests: object) -> None:
        raise RuntimeError("fail to execute")

    rig = Rig()
    rig.submit("k1", "k1", "k2")
    monkeypatch.setattr(rig.cells, "execute", refuse)

    with pytest.raises(OperatorFailed, match="RuntimeError in counter, node 3_count, epoch 7"):
        rig.flush()

    rig.assert_nothing_left()


def test_a_serial_non_record_waits_for_everything_before_it() -> None:
    rig = Rig()
    rig.submit("k1", "k2")
    assert rig.controller._stretches.active.ongoing == 2

    rig.controller.non_record(lambda: rig.output.append("watermark"))

    assert rig.output == [1, 1, "watermark"]
    assert rig.controller._stretches.active.ongoing == 0
    rig.assert_nothing_left()


def test_modes_can_be_mixed() -> None:
    rig = Rig()
    stretches = rig.controller._stretches
    emit = rig.output.append

    rig.submit("k1")
    first = stretches.active
    rig.controller.non_record(lambda: emit("w1"), mode=PARALLEL)
    assert first.ongoing == 1
    rig.submit("k2")
    second = stretches.active
    rig.controller.non_record(lambda: emit("w2"), mode=PARALLEL)
    assert (first.ongoing, second.ongoing, rig.output) == (1, 1, [])
    rig.submit("k3")
    rig.controller.non_record(lambda: emit("w3"), mode=SERIAL)

    assert (first.ongoing, second.ongoing, stretches.active.ongoing) == (0, 0, 0)
    assert sorted(rig.output, key=str) == [1, 1, 1, "w1", "w2", "w3"]
    assert [each for each in rig.output if each != 1] == ["w1", "w2", "w3"]


def test_first_request_order_begins_at_once_and_record_order_when_it_holds_the_key() -> None:
    begun: list[str] = []

    def process(rig: Rig) -> object:
        async def note(record: str) -> None:
            begun.append(record)
            await rig.count_up(record)

        return note

    in_record_order = Rig(process)
    in_record_order.submit("k:1", "k:2")
    assert begun == ["k:1"]

    begun.clear()
    at_once = Rig(process, options={"order": RecordOrder.FIRST_REQUEST_ORDER})
    at_once.submit("k:1", "k:2")
    assert begun == ["k:1", "k:2"]
    in_record_order.controller.cancel()
    at_once.controller.cancel()


def test_state_before_hold_key_is_refused_in_first_request_order() -> None:
    def process(rig: Rig) -> object:
        async def too_early(record: str) -> None:
            await rig.cells.get()

        return too_early

    rig = Rig(process, options={"order": RecordOrder.FIRST_REQUEST_ORDER})

    with pytest.raises(InvariantViolation, match="must await hold_key"):
        rig.submit("k")
    rig.assert_nothing_left()
