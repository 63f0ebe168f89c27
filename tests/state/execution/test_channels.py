"""Batches leave and come back."""

from __future__ import annotations

from state.execution.channels import BlockingChannel, channel_of
from state.execution.record_context import RecordContext
from state.testing.execution import CountingExecutor, KeyedCells, ManualChannel


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
