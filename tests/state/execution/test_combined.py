"""Operations side by side: one request for all of them, whatever each needs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp, HashPut
from state.descriptors import JSON, ValueDescriptor
from state.execution.combined import combine_all
from state.execution.requests import wait_for
from state.execution.sync import run_now
from state.primitives.session import StateSession
from state.ttl import TtlClock

NODE = "1_join"
NAMES = ["left", "right", "both"]


class Named:
    """A request that notes which replies it was given."""

    def __init__(self, name: str, count: int, taken: list[Any]) -> None:
        self.reads: Any = [(name, number) for number in range(count)]
        self._taken = taken

    def take(self, replies: Any) -> None:
        self._taken.append(list(replies))


class Echo:
    """Answers a read with itself."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def execute(self, requests: Any) -> None:
        self.batches.append(len(requests))
        for request in requests:
            request.take(list(request.reads))


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=5))
def test_each_gets_its_own_replies_in_as_many_rounds_as_the_longest_needs(
    wanted: list[list[int]],
) -> None:
    executor = Echo()
    taken: list[list[Any]] = [[] for _ in wanted]

    async def operation(place: int) -> int:
        for step, count in enumerate(wanted[place]):
            await wait_for(Named(f"{place}/{step}", count, taken[place]))
        return place

    results = run_now(combine_all(*map(operation, range(len(wanted)))), executor)

    assert results == list(range(len(wanted)))
    assert executor.batches == [1] * max(map(len, wanted), default=0)
    assert taken == [
        [[(f"{place}/{step}", n) for n in range(count)] for step, count in enumerate(counts)]
        for place, counts in enumerate(wanted)
    ]


def test_values_of_several_states_take_one_round_trip() -> None:
    backend = HeapBackend()
    ledger = backend.ledger()
    run = ledger.open_run([NODE], 1)
    transaction = backend.begin(NODE, EpochStamp(1, run, 1), [0])
    transaction.commit(
        {0: [HashPut(name.encode(), [b"k", b'"%s"' % name.encode()]) for name in NAMES]}
    )
    ledger.close_epoch(EpochStamp(1, run, 1), {}, [])
    transaction = backend.begin(NODE, EpochStamp(2, run, 2), [0])
    session = StateSession(transaction, clock=TtlClock(2))
    handles = [session.value(ValueDescriptor(name=name, codec=JSON)) for name in NAMES]
    session.set_key(b"k", 0)

    values = run_now(combine_all(*(handle.value() for handle in handles)), session)

    assert values == NAMES
    assert transaction.statistics().round_trips == 1


def test_an_error_closes_the_others() -> None:
    closed: list[str] = []

    async def waiting() -> None:
        try:
            await wait_for(Named("a", 1, []))
        finally:
            closed.append("waiting")

    async def failing() -> None:
        raise ValueError("this one")

    async def not_begun() -> None:
        closed.append("never")

    with pytest.raises(ValueError, match="this one"):
        run_now(combine_all(waiting(), failing(), not_begun()), Echo())
    assert closed == ["waiting"]
