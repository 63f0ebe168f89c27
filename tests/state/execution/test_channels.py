"""Batches leave and come back; what is tried again, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.errors import Fenced, IncarnationChanged, StateError, StateUnavailable
from state.execution.channels import BlockingChannel, RetryingExecutor, channel_of
from state.execution.record_context import RecordContext
from state.testing.execution import CountingExecutor, KeyedCells, ManualChannel

if TYPE_CHECKING:
    from collections.abc import Sequence


class Flaky:
    """Fails as often as it is told to, then executes."""

    def __init__(self, *errors: StateError) -> None:
        self.errors = list(errors)
        self.calls = 0

    def execute(self, requests: Sequence[Any]) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)


class Patient:
    """Around a flaky executor: notes of what retrying does."""

    def __init__(self, *errors: StateError, may_retry: bool = True) -> None:
        self.flaky = Flaky(*errors)
        self.slept: list[float] = []
        self.renewed = 0
        self.executor = RetryingExecutor(
            self.flaky,
            renew=self.renew,
            may_retry=lambda: may_retry,
            attempts_max=3,
            backoff_ms=50,
            sleep=self.slept.append,
        )

    def renew(self) -> None:
        self.renewed += 1


def test_an_answer_comes_back_once() -> None:
    cells = KeyedCells()
    context = RecordContext()
    context.request = cells.get()
    channel = BlockingChannel(cells)

    channel.send([context])

    assert context.request.runs == 1
    assert channel.receive(0) == [context]
    assert channel.receive(1_000) == []


def test_a_channel_stays_what_it_is_and_an_executor_becomes_one() -> None:
    manual = ManualChannel(KeyedCells())

    assert channel_of(manual) is manual
    assert isinstance(channel_of(CountingExecutor(KeyedCells())), BlockingChannel)


def test_a_backend_that_was_away_is_asked_again_with_a_new_transaction() -> None:
    patient = Patient(StateUnavailable("away"), StateUnavailable("away"))

    patient.executor.execute([])

    assert (patient.flaky.calls, patient.renewed, patient.executor.retries) == (3, 2, 2)
    assert patient.slept == [0.05, 0.1]


def test_attempts_have_a_limit_and_the_last_error_is_given() -> None:
    patient = Patient(*(StateUnavailable(f"away {number}") for number in range(5)))

    with pytest.raises(StateUnavailable, match="away 2"):
        patient.executor.execute([])

    assert patient.flaky.calls == 3


@pytest.mark.parametrize("error", [Fenced("stale"), IncarnationChanged("a", "b")])
def test_what_is_no_mere_absence_is_not_tried_again(error: StateError) -> None:
    patient = Patient(error)

    with pytest.raises(type(error)):
        patient.executor.execute([])

    assert (patient.flaky.calls, patient.renewed) == (1, 0)


def test_nothing_is_tried_again_once_something_was_written() -> None:
    patient = Patient(StateUnavailable("away"), may_retry=False)

    with pytest.raises(StateUnavailable):
        patient.executor.execute([])

    assert patient.flaky.calls == 1
