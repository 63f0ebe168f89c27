"""A writer of databases dies at each statement, and around each close: tables end the same.

What passes a `FaultPlan` here are statements and ends of transactions at the database, and the
close of an epoch in Redis. A process that died is followed by a new run, as the supervisor starts
it: with Spark's rules, by which an epoch that was not recorded runs again on the same input.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa

from operators.wire import WorkerError
from service.runtime.dataflow_errors import SinkUnavailable
from service.runtime.sinks.database import commit, session
from service.runtime.sinks.database.fence import NAME
from state.epochs import EpochLedger
from state.testing.faults import Fault, FaultPlan
from tests.faults.processes import Changes, World
from tests.service.runtime.sinks.database.stand import FILE, Database, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

COLUMNS = {"k": "VARCHAR(9) NOT NULL", "v": "INT"}
INPUT: dict[int, Changes] = {
    1: {0: [("+I", "a", 1), ("+I", "b", 1)], 1: [("+I", "a", 1)]},
    2: {0: [("+U", "a", 2), ("-D", "b", 1)], 1: [("+I", "a", 1), ("+I", "b", 2)]},
}
"""By epoch and sink."""
KEYED = [("a", 2)]
LISTED = [("a", 1), ("a", 1), ("b", 2)]


class Databases(World):
    """One database and one Redis, over which processes come and go."""

    epochs = len(INPUT)

    def __init__(self, database: Database, client: redis.Redis) -> None:
        self.database = database
        self.client = client
        self.pipeline = Pipeline(database, client)
        self.tables = (
            database.table("k", "k VARCHAR(9) PRIMARY KEY, v INTEGER"),
            database.table("l", "k VARCHAR(9), v INTEGER"),
        )
        self.pipeline.sink(self.tables[0], COLUMNS, key=["k"])
        self.pipeline.sink(self.tables[1], COLUMNS)

    def reset(self) -> None:
        self.client.flushall()
        for each in (*self.tables, NAME):
            if sa.inspect(self.database.engine).has_table(each):
                self.database.execute(f"DELETE FROM {each}")
        self.pipeline.run = 0

    def check(self, what: str) -> None:
        assert [self.database.rows(each) for each in self.tables] == [KEYED, LISTED], what

    def input(self, epoch: int) -> Changes:
        return INPUT[epoch]


@pytest.fixture
def world(tmp_path: Path, redis_client: redis.Redis) -> Iterator[Databases]:
    database = Database(FILE, tmp_path)
    yield Databases(database, redis_client)
    database.close()


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> FaultPlan:
    """What all statements and closes pass; a test puts its faults in."""
    made = FaultPlan()
    # Who finds a lock does not wait: its owner stands still until then.
    monkeypatch.setattr(session, "LOCK_TIMEOUT_S", 0)
    open_engine, close_epoch = commit.open_engine, EpochLedger.close_epoch

    def open_watched(address: Any) -> sa.Engine:
        engine = open_engine(address)
        dialect = engine.dialect
        for name in ("do_execute", "do_executemany", "do_execute_no_params", "do_commit"):
            carry_out = getattr(dialect, name)
            monkeypatch.setattr(dialect, name, partial(_step, made, carry_out))
        return engine

    def close_watched(ledger: EpochLedger, *given: Any) -> bool:
        return made.step(partial(close_epoch, ledger, *given))

    monkeypatch.setattr(commit, "open_engine", open_watched)
    monkeypatch.setattr(EpochLedger, "close_epoch", close_watched)
    return made


def _step(plan: FaultPlan, carry_out: Any, *given: Any, **named: Any) -> Any:
    """Let a statement or commit pass; looking at tables changes nothing, and is not counted."""
    if len(given) > 1 and ("PRAGMA" in given[1] or "sqlite_" in given[1]):
        return carry_out(*given, **named)
    return plan.step(partial(carry_out, *given, **named))


def commands_of(world: Databases, plan: FaultPlan) -> int:
    """How many there are without a fault; the first of all runs makes the fence's table as well."""
    for _ in range(2):
        world.play(plan, {})
    return plan.passed


def test_without_a_fault_one_run_does_it(world: Databases, plan: FaultPlan) -> None:
    assert world.play(plan, {}) == 1
    world.check("at once")
    # A begin, three statements or more and a commit, at the claim and for each epoch.
    assert plan.passed > 15


@pytest.mark.parametrize("fault", [Fault.NOT_SENT, Fault.REPLY_LOST, Fault.DEATH])
def test_a_death_anywhere_changes_nothing(world: Databases, plan: FaultPlan, fault: Fault) -> None:
    commands = commands_of(world, plan)

    for number in range(1, commands + 1):
        runs = world.play(plan, {number: fault})
        world.check(f"{fault} at {number}")
        assert runs == 2, f"{fault} at {number}"


def test_a_second_death_soon_after_changes_nothing(world: Databases, plan: FaultPlan) -> None:
    commands = commands_of(world, plan)

    for number in range(1, commands + 1, 3):
        for later in (1, 4):
            runs = world.play(plan, {number: Fault.DEATH, number + later: Fault.DEATH})
            world.check(f"at {number} and {number + later}")
            assert runs in (2, 3)


def test_an_orphan_that_goes_on_at_any_statement_changes_nothing(
    world: Databases, plan: FaultPlan
) -> None:
    """A process of an older run writes its epoch while a newer one is at each of its statements.

    Where SQLite lets nobody else write, the orphan finds the database locked, and fails.
    """
    commands = commands_of(world, plan)

    for number in range(1, commands + 1, 2):
        plan.is_counting = False
        world.reset()
        world.pipeline.start()
        orphan = dataclasses.replace(world.pipeline)
        plan.begin({})
        plan.visit(number, partial(_write_late, orphan))
        world.run_all()
        world.check(f"at {number}")


def _write_late(orphan: Pipeline) -> None:
    with pytest.raises((WorkerError, SinkUnavailable)):
        orphan.write_all(1, INPUT[1])
