"""Sorted maps against their model, heap and Redis in step; the machine is `state.testing`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from state.testing.sessions import SPREAD
from state.testing.sorted_epochs import Epochs
from state.testing.sorted_machine import TTL_MS, SortedMachine
from state.testing.stand import heap_stand, redis_stand
from state.ttl import DISABLED, TtlConfig, UpdateType

if TYPE_CHECKING:
    import redis
    from hypothesis.stateful import RuleBasedStateMachine


def run(machine: type[RuleBasedStateMachine]) -> None:
    case = machine.TestCase()
    case.settings = settings(
        deadline=None, stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    case.runTest()


def test_heap_redis_and_model_agree(redis_client: redis.Redis) -> None:
    class Machine(SortedMachine):
        def worlds(self) -> list[Epochs]:
            redis_client.flushall()
            self.opened = redis_stand(redis_client)
            return [
                Epochs(heap_stand()),
                Epochs(self.opened.__enter__()),
            ]

        def teardown(self) -> None:
            if hasattr(self, "opened"):
                self.opened.__exit__(None, None, None)

    run(Machine)


@pytest.mark.parametrize("later_ms", [0, 1])
def test_the_machine_finds_a_model_that_is_wrong(later_ms: int) -> None:
    """It can fail: a model that forgets TTL by a millisecond does not pass."""

    class Machine(SortedMachine):
        def worlds(self) -> list[Epochs]:
            return [Epochs(heap_stand())]

    machine = Machine()
    machine.start(SPREAD, TtlConfig(TTL_MS))
    machine.add(("a",), 1)
    machine.end_epoch(TTL_MS)
    machine.ttl.now_ms -= later_ms
    if later_ms:
        with pytest.raises(AssertionError):
            machine.values_at(("a",))
    else:
        machine.values_at(("a",))


def test_the_first_stamps_that_reads_give_are_in_the_index() -> None:
    """Found by the machine: nothing would have cleaned them up."""

    class Machine(SortedMachine):
        def worlds(self) -> list[Epochs]:
            return [Epochs(heap_stand())]

    machine = Machine()
    machine.start(SPREAD, DISABLED)
    machine.add_many(("",), 3)
    machine.change_the_ttl(TtlConfig(TTL_MS, UpdateType.ON_READ_AND_WRITE))
    machine.entries()
    machine.end_epoch(TTL_MS)
    machine.end_epoch(0)
    assert not any(machine.held().values())
