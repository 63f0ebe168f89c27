"""The controller over sessions of state: whatever is answered when, an epoch stays pure.

Each operator runs the same epochs in two ways on heap backends of their own: one change after the
other in the synchronous mode, and through the controller with requests answered in any order. What
a key emits and what the epoch commits must be the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.descriptors import JSON, ListDescriptor, MapDescriptor, ValueDescriptor
from state.execution.controller import Controller
from state.execution.limits import ControllerLimits
from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.primitives.session import StateSession
from state.testing.execution import ManualChannel
from state.ttl import TtlClock, TtlConfig
from tests.state.execution.rigs import SITE

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

NODE = "3_count"
GROUPS = 2
Change = tuple[int, int]
"""Key and amount."""


def summing(session: StateSession, emit: Callable[[Any], None]) -> Any:
    """A value, read and written; cleared at each amount of 0."""
    values = session.value(ValueDescriptor(name="sums", codec=JSON, ttl=TtlConfig(ttl_ms=2)))

    async def process(change: Change) -> None:
        key, amount = change
        total = (await values.value() or 0) + amount
        if amount:
            await values.update(total)
        else:
            await values.clear()
        emit((key, total))

    return process


def mapping(session: StateSession, emit: Callable[[Any], None]) -> Any:
    """A map that is packed and spread in turn: several requests a change."""
    counts = session.map(MapDescriptor(name="counts", key_codec=JSON, codec=JSON))

    async def process(change: Change) -> None:
        key, amount = change
        seen = (await counts.get(amount) or 0) + 1
        if seen > 2:
            await counts.remove(amount)
        else:
            await counts.put(amount, seen)
        emit((key, amount, seen, await counts.is_empty()))

    return process


def listing(session: StateSession, emit: Callable[[Any], None]) -> Any:
    """A list in one namespace for each amount, taken when it has three."""
    lists = session.list(ListDescriptor(name="waiting", codec=JSON))

    async def process(change: Change) -> None:
        key, amount = change
        session.set_namespace(b"%d" % amount)
        await lists.add(amount)
        waiting = list(await lists.get())
        emit((key, amount, waiting))
        if len(waiting) == 3:
            await lists.clear()

    return process


OPERATORS = {each.__name__: each for each in (summing, mapping, listing)}
changes = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=15)


class Epochs:
    """Epochs on a heap backend of its own."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.backend = HeapBackend()
        self.ledger = self.backend.ledger()
        self.run = self.ledger.open_run([NODE], GROUPS)
        self.epoch = 0

    def run_epoch(self, drive: Callable[[StateSession, Any], None]) -> tuple[list[Any], Any]:
        """What the epoch gives, and what it commits."""
        self.epoch += 1
        stamp = EpochStamp(self.epoch, self.run, self.epoch)
        transaction = self.backend.begin(NODE, stamp, range(GROUPS))
        session = StateSession(
            transaction, clock=TtlClock(self.epoch), thresholds=Thresholds(high=3, low=1)
        )
        output: list[Any] = []
        drive(session, self.operator(session, output.append))
        writes = session.writes()
        transaction.commit(writes)
        self.ledger.close_epoch(stamp, {}, [])
        return output, writes


def synchronously(given: Sequence[Change]) -> Callable[[StateSession, Any], None]:
    def drive(
        session: StateSession, process: Callable[[Change], Coroutine[Any, None, None]]
    ) -> None:
        for change in given:
            session.set_key(b"%d" % change[0], change[0] % GROUPS)
            run_now(process(change), session)

    return drive


def by_controller(
    given: Sequence[Change],
    limits: ControllerLimits,
    choose: Callable[[int], Sequence[int]],
) -> Callable[[StateSession, Any], None]:
    def drive(session: StateSession, process: Any) -> None:
        controller = Controller(
            process, ManualChannel(session, choose), session, SITE, limits=limits
        )
        for change in given:
            controller.submit(change, b"%d" % change[0], change[0] % GROUPS)
        controller.drain()
        assert controller.statistics().completed == len(given)
        assert controller.statistics().held_keys == 0

    return drive


def by_key(output: Sequence[Any]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for each in output:
        found.setdefault(each[0], []).append(each)
    return found


@pytest.mark.parametrize("operator", OPERATORS)
@given(
    epochs=st.lists(changes, min_size=1, max_size=4),
    limits=st.builds(
        ControllerLimits, in_flight_max=st.integers(1, 8), batch_max=st.integers(1, 4)
    ),
    data=st.data(),
)
def test_epochs_give_and_commit_what_the_synchronous_mode_does(
    operator: str, epochs: list[list[Change]], limits: ControllerLimits, data: st.DataObject
) -> None:
    def choose(count: int) -> Sequence[int]:
        return data.draw(st.permutations(range(count)))[: data.draw(st.integers(1, count))]

    plain, driven = Epochs(OPERATORS[operator]), Epochs(OPERATORS[operator])
    for given_changes in epochs:
        expected, expected_writes = plain.run_epoch(synchronously(given_changes))
        output, writes = driven.run_epoch(by_controller(given_changes, limits, choose))

        assert by_key(output) == by_key(expected)
        assert writes == expected_writes
