"""Where records wait: order, priority, batches, marks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.execution.buffers import ActiveBuffer, BlockingBuffer
from state.execution.limits import ControllerLimits
from state.execution.record_context import RecordContext
from state.testing.execution import ManualClock


def context(key: bytes, priority: int = 0) -> RecordContext:
    made = RecordContext()
    made.key = key
    made.priority = priority
    return made


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 2))))
def test_records_of_a_key_wait_in_arrival_order_but_for_higher_priority(
    arrivals: list[tuple[bytes, int]],
) -> None:
    buffer = BlockingBuffer()
    waiting = [context(key, priority) for key, priority in arrivals]
    for each in waiting:
        buffer.add(each)
    assert len(buffer) == len(waiting)
    assert buffer.keys_count == len({key for key, _ in arrivals})

    for key in (b"a", b"b"):
        mine = [each for each in waiting if each.key == key]
        expected = sorted(mine, key=lambda each: -each.priority)  # stable: arrival order
        assert list(buffer.behind(key)) == expected
        taken = [buffer.take(key) for _ in mine]
        assert taken == expected
        assert buffer.take(key) is None

    assert (len(buffer), buffer.keys_count) == (0, 0)


def test_the_first_request_of_a_batch_sets_the_mark() -> None:
    clock = ManualClock(100)
    buffer = ActiveBuffer(ControllerLimits(batch_max=2, timeout_ms=10), clock)
    assert not buffer.is_due()

    buffer.add(context(b"a"))
    clock.advance(6)
    buffer.add(context(b"b"))
    assert (buffer.deadline_ms, buffer.is_full, buffer.is_due()) == (110, True, False)
    clock.advance(4)
    assert buffer.is_due()


def test_what_does_not_fit_a_batch_waits_for_the_next_with_a_mark_of_its_own() -> None:
    clock = ManualClock()
    buffer = ActiveBuffer(ControllerLimits(batch_max=2, timeout_ms=10), clock)
    waiting = [context(key) for key in (b"a", b"b", b"c")]
    for each in waiting:
        buffer.add(each)
    clock.advance(7)

    assert buffer.take() == waiting[:2]
    assert (buffer.sequence, buffer.deadline_ms, len(buffer)) == (1, 17, 1)
    assert buffer.take() == waiting[2:]
    assert (buffer.sequence, buffer.deadline_ms, len(buffer)) == (2, None, 0)
