"""A writer of topics dies at each call of Kafka's client, and around each close: they end the same.

What passes a `FaultPlan` here are the calls by which a transaction goes on, and the close of an
epoch in Redis. A process that died says no good-bye: its transaction stays open at the broker,
until the next run takes the transactional id. It is followed by a new run, as the supervisor starts
it: with Spark's rules, by which an epoch that was not recorded runs again on the same input.

The broker is a stand-in that ends transactions as Kafka does.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from operators.wire import WorkerError
from service.runtime.dataflow_errors import SinkUnavailable
from service.runtime.sinks.kafka import session
from state.epochs import EpochLedger
from state.errors import Fenced, StateUnavailable
from state.testing.faults import Fault, FaultPlan, ProcessDied
from tests.faults.processes import Changes, World
from tests.service.runtime.sinks.kafka.broker import Broker
from tests.service.runtime.sinks.kafka.stand import (
    CHANGELOG,
    UPSERT,
    KafkaPipeline,
    Place,
    forget_sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

COLUMNS = {"k": "VARCHAR(9) NOT NULL", "v": "INT"}
INPUT: dict[int, Changes] = {
    1: {0: [("+I", "a", 1), ("+I", "b", 1)], 1: [("+I", "a", 1)]},
    2: {0: [("+U", "a", 2), ("-D", "b", 1)], 1: [("-U", "a", 1), ("+U", "b", 2)]},
}
"""By epoch and sink."""
KEYED = [
    (b'{"k":"a"}', b'{"k":"a","v":1}'),
    (b'{"k":"b"}', b'{"k":"b","v":1}'),
    (b'{"k":"b"}', None),
    (b'{"k":"a"}', b'{"k":"a","v":2}'),
]
LISTED = [
    (None, b'{"op":"+I","data":{"k":"a","v":1}}'),
    (None, b'{"op":"-U","data":{"k":"a","v":1}}'),
    (None, b'{"op":"+U","data":{"k":"b","v":2}}'),
]
STEPS = (
    "init_transactions",
    "begin_transaction",
    "produce",
    "flush",
    "send_offsets_to_transaction",
    "commit_transaction",
)


class Topics(World):
    """One broker and one Redis, over which processes come and go."""

    epochs = len(INPUT)

    def __init__(self, broker: Broker, client: redis.Redis, root: str) -> None:
        self.broker = broker
        self.client = client
        self.pipeline = KafkaPipeline(Place(root), client)
        self.pipeline.topic(broker, "k", COLUMNS, UPSERT, key=["k"])
        self.expected = {"k": KEYED}

    def add_topic(self) -> None:
        """Write a second one, in a transaction of its own."""
        self.pipeline.topic(self.broker, "l", COLUMNS, CHANGELOG, mode="retract")
        self.expected["l"] = LISTED

    def reset(self) -> None:
        forget_sessions()
        self.client.flushall()
        self.broker.reset()
        self.pipeline.run = 0

    def check(self, what: str) -> None:
        assert {each: self.broker.read(each) for each in self.expected} == self.expected, what

    def input(self, epoch: int) -> Changes:
        return {at: INPUT[epoch][at] for at in range(len(self.pipeline.sinks))}

    def end_process(self) -> None:
        forget_sessions()


@pytest.fixture
def world(tmp_path: Path, redis_client: redis.Redis) -> Iterator[Topics]:
    broker = Broker({"k": 1, "l": 1})
    yield Topics(broker, redis_client, str(tmp_path))
    forget_sessions()
    broker.close()


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> FaultPlan:
    """What all calls and closes pass; a test puts its faults in."""
    made = FaultPlan()
    close_epoch = EpochLedger.close_epoch

    class Watched(confluent_kafka.Producer):
        """Its calls pass the plan; one that is dead ends no transaction."""

        is_dead = False

        def abort_transaction(self, *given: Any) -> None:
            if not self.is_dead:
                super().abort_transaction(*given)

        def _step(self, name: str, *given: Any, **named: Any) -> Any:
            carry_out = getattr(super(), name)
            try:
                return made.step(partial(carry_out, *given, **named))
            except ProcessDied:
                self.is_dead = True
                raise
            except StateUnavailable:
                # As the client says that a connection broke.
                error = confluent_kafka.KafkaError(confluent_kafka.KafkaError._TRANSPORT)
                raise confluent_kafka.KafkaException(error) from None

    for name in STEPS:
        setattr(Watched, name, _watched(name))

    def close_watched(ledger: EpochLedger, *given: Any) -> bool:
        return made.step(partial(close_epoch, ledger, *given))

    monkeypatch.setattr(session, "Producer", Watched)
    monkeypatch.setattr(EpochLedger, "close_epoch", close_watched)
    return made


def _watched(name: str) -> Any:
    def call(self: Any, *given: Any, **named: Any) -> Any:
        return self._step(name, *given, **named)

    return call


def steps_of(world: Topics, plan: FaultPlan) -> int:
    """How many there are without a fault."""
    world.play(plan, {})
    return plan.passed


def test_without_a_fault_one_run_does_it(world: Topics, plan: FaultPlan) -> None:
    assert world.play(plan, {}) == 1
    world.check("at once")
    # Five calls at the claim, five and the records an epoch; and the closes.
    assert plan.passed > 15


@pytest.mark.parametrize(
    ("fault", "stride"), [(Fault.NOT_SENT, 4), (Fault.REPLY_LOST, 3), (Fault.DEATH, 1)]
)
def test_a_death_anywhere_changes_nothing(
    world: Topics, plan: FaultPlan, fault: Fault, stride: int
) -> None:
    """Of a step that was not taken, its successor's death tells the most already."""
    steps = steps_of(world, plan)

    for number in range(1, steps + 1, stride):
        runs = world.play(plan, {number: fault})
        world.check(f"{fault} at {number}")
        assert runs == 2, f"{fault} at {number}"


def test_a_second_death_soon_after_changes_nothing(world: Topics, plan: FaultPlan) -> None:
    steps = steps_of(world, plan)

    for number in range(1, steps + 1, 5):
        world.play(plan, {number: Fault.DEATH, number + 5: Fault.DEATH})
        world.check(f"at {number} and five later")


def test_a_death_between_two_topics_changes_nothing(world: Topics, plan: FaultPlan) -> None:
    world.add_topic()
    steps = steps_of(world, plan)

    for number in range(2, steps + 1, 9):
        world.play(plan, {number: Fault.DEATH})
        world.check(f"at {number}")


def test_an_orphan_that_goes_on_at_any_step_changes_nothing(world: Topics, plan: FaultPlan) -> None:
    """A process of an older run writes its epoch while a newer one is at each of its steps."""
    steps = steps_of(world, plan)

    for number in range(1, steps + 1, 4):
        plan.is_counting = False
        world.reset()
        world.pipeline.start()
        orphan = dataclasses.replace(world.pipeline)
        plan.begin({})
        plan.visit(number, partial(_write_late, orphan, world.input(1)))
        world.run_all()
        world.check(f"at {number}")


def _write_late(orphan: KafkaPipeline, changes: dict[int, list[tuple[Any, ...]]]) -> None:
    with pytest.raises((WorkerError, SinkUnavailable, Fenced)):
        orphan.write_all(1, changes)
