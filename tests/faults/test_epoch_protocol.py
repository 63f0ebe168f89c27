"""The epoch protocol under crashes, by enumeration: whatever dies, the result is the same.

An epoch in the middle of three is struck. First it is run without faults, to count its commands;
then it is run once for each fault at each of them, and for each pair of faults, where the second
one strikes anywhere in what follows the first: another attempt, another run, the next epoch. Then
stragglers: an attempt stands still after k of its commands, for each k, and goes on when the rest
has got to its m-th, for each m. State, sinks and marker must always be what the definition says.

`test_redis_restarts.py` has what happens when Redis itself ends, or comes back with another past.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
import redis

from state.backends.interface import EpochCheck
from state.errors import Fenced, StateLost
from state.testing.faults import Ahead, Fault, FaultPlan, ProcessDied
from state.testing.stragglers import Straggler
from tests.conftest import RedisServer
from tests.faults.spark_rules import (
    AHEAD,
    EPOCHS,
    TASKS,
    WORK,
    Run,
    Spark,
    Work,
    close,
    expected,
    run_attempt,
)
from tests.faults.worlds import HeapWorld, RedisWorld, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.backends.interface import ApplyStaged

STRUCK = 2
"""The epoch in which things happen; the first one is done when a world has begun."""
DELAYS = (1, 2, 3, 5, 8, 13, 21, 34)
"""How many commands later something arrives: in the same attempt, in the next one, in a new run,
after the close, in the next epoch."""


@pytest.fixture(scope="module")
def quick_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A Redis of our own that writes no file: thousands of scenarios, and none restarts it."""
    server = RedisServer(tmp_path_factory.mktemp("quick"))
    server.start()
    with redis.Redis(port=server.port) as client:
        client.config_set("appendonly", "no")
        yield client
    server.stop()


IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
WORLDS: dict[str, tuple[Work, Ahead | None, int]] = {
    "redis": (WORK, None, 1 if IS_DEEP else 3),
    "redis, ahead": (AHEAD, Ahead.AT_ONCE, 4),
    "redis, slow ahead": (AHEAD, Ahead.WHEN_AWAITED, 8),
    "redis, many parts": (replace(AHEAD, parts=18), Ahead.WHEN_AWAITED, 16),
}
"""What attempts do, when the server carries out what they send ahead, and the stride. One fault
strikes at every command; of two the second one does on heap and in deep runs, else in strides."""


@pytest.fixture(params=["heap", *WORLDS])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "heap":
        yield HeapWorld()
        return
    world = RedisWorld(request.getfixturevalue("quick_redis"), *WORLDS[request.param])
    yield world
    world.close()


def play(world: World, plan: FaultPlan, epochs: int = EPOCHS) -> Spark:
    """Three epochs; the plan counts from the second one on, where the query starts once more."""
    spark = world.begun(plan)
    spark.run_until(epochs)
    plan.deliver()
    return spark


def struck_commands(world: World) -> range:
    """The numbers of the commands of the epoch that is struck, and of the start before it."""
    plan = FaultPlan()
    play(world, plan, STRUCK)
    return range(1, plan.passed + 1)


def test_without_faults_the_result_is_the_definition(world: World) -> None:
    spark = play(world, FaultPlan())

    assert world.contents() == expected(work=world.work)
    assert not spark.failures


@pytest.mark.parametrize("fault", list(Fault))
def test_any_single_fault_changes_nothing(world: World, fault: Fault) -> None:
    for number in struck_commands(world):
        spark = play(world, FaultPlan({number: fault}))
        assert world.contents() == expected(work=world.work), (
            f"{fault} at command {number}: {spark.failures}"
        )


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.DEATH])
def test_what_arrives_later_changes_nothing(world: World, fault: Fault) -> None:
    """What is on its way when a connection breaks, or a process dies, meets what followed it."""
    for number in struck_commands(world):
        for late_by in DELAYS[number % 2 :: 2]:
            plan = FaultPlan({number: fault}, late_by=late_by)
            spark = play(world, plan)
            words = f"{fault} at command {number}, by {late_by}: {spark.failures}"
            assert world.contents() == expected(work=world.work), words
            if not plan.has_put_off:
                # Nothing was late: by how much says nothing.
                break


def test_faults_strike(world: World) -> None:
    """The enumeration is not of nothing: most faults fail a task, some fail a run."""
    ends = Counter(
        tuple(play(world, FaultPlan({number: Fault.DEATH})).failures)
        for number in struck_commands(world)
    )

    assert ends[("task: ProcessDied",)] >= 6
    assert ends[("run: ProcessDied",)] >= 3
    assert set(ends) == {("task: ProcessDied",), ("run: ProcessDied",)}


@pytest.mark.parametrize(
    ("first", "second"), [(Fault.DEATH, Fault.DEATH), (Fault.NOT_SENT, Fault.REPLY_LOST)]
)
def test_any_pair_of_faults_changes_nothing(world: World, first: Fault, second: Fault) -> None:
    for one in struck_commands(world):
        probe = FaultPlan({one: first})
        play(world, probe)
        # Another remainder for each, so that all distances come.
        for other in range(one + 1 + one % world.stride, probe.passed + 1, world.stride):
            spark = play(world, FaultPlan({one: first, other: second}))
            words = f"{first} at {one}, {second} at {other}: {spark.failures}"
            assert world.contents() == expected(work=world.work), words


def test_failing_at_every_attempt_changes_nothing(world: World) -> None:
    """The same command of each attempt fails until the query fails, and of the next run's too."""
    for number in struck_commands(world):
        plan = FaultPlan(dict.fromkeys(range(number, number + 9), Fault.REPLY_LOST))
        spark = play(world, plan)
        assert world.contents() == expected(work=world.work), f"at {number}: {spark.failures}"


class _Stage:
    """A first epoch that is done, and a straggler of the second one."""

    def __init__(self, world: World, call: Callable[[Run], object], *, is_orphan: bool) -> None:
        self.plan = FaultPlan()
        self.spark = world.begun(self.plan)
        with self.plan.resting():
            # The run goes on in epoch 2, or was that of a server that is gone.
            run = self.spark.open_run()
            if isinstance(call, _OrphanedServer):
                call.prepare(run)
        self.straggler = Straggler(lambda plan: call(world.straggling(run, plan)))
        if not is_orphan:
            self._stay_in(run)

    def _stay_in(self, run: Run) -> None:
        """The first start of what follows is none: the run that the straggler is of goes on."""
        start, runs = self.spark.open_run, [run]
        self.spark.open_run = lambda: runs.pop() if runs else start()


def _play_late(
    world: World, call: Callable[[Run], object], more: int | None, *, is_orphan: bool
) -> Iterator[tuple[Straggler, str]]:
    """The straggler stands after each number of its commands, and goes on at each of the rest's."""
    stage = _Stage(world, call, is_orphan=is_orphan)
    stage.spark.run_until(EPOCHS)
    stage.straggler.abandon()
    rest = stage.plan.passed
    done = 0
    while True:
        for moment in range(1 + done % world.stride, rest + 1, world.stride):
            stage = _Stage(world, call, is_orphan=is_orphan)
            straggler = stage.straggler
            straggler.go_on(done)
            had_ended = straggler.has_ended
            stage.plan.visit(moment, partial(straggler.go_on, more))
            stage.spark.run_until(EPOCHS)
            straggler.abandon()
            words = f"{done} before, goes on at {moment}: {stage.spark.failures}"
            assert world.contents() == expected(work=world.work), words
            yield straggler, words
            if had_ended or stage.plan.unspent:
                # It did not go on at this moment, nor would it at a later one.
                break
        if had_ended:
            return
        done += 1


def _attempt(run: Run) -> None:
    run_attempt(run, STRUCK, 0)


class _OrphanedServer:
    """A server whose tasks have all committed, and which goes on to close, while another starts."""

    def __init__(self) -> None:
        self._staged: list[ApplyStaged | None] = []

    def prepare(self, run: Run) -> None:
        self._staged = [run_attempt(run, STRUCK, task) for task in TASKS]

    def __call__(self, run: Run) -> None:
        close(run, STRUCK, self._staged)


@pytest.mark.parametrize("more", [None, 1], ids=["to its end", "for one more command"])
@pytest.mark.parametrize("is_orphan", [False, True], ids=["same run", "earlier run"])
def test_a_late_attempt_changes_nothing(world: World, more: int | None, is_orphan: bool) -> None:
    ends: Counter[type] = Counter()
    for straggler, words in _play_late(world, _attempt, more, is_orphan=is_orphan):
        ends[type(straggler.error)] += 1
        # StateLost: it asks the ledger so late that its epoch is two behind.
        assert isinstance(straggler.error, Fenced | StateLost | ProcessDied | None), words
    # A single further command seldom gets as far as the reply that refuses it.
    assert more or ends[Fenced] > 0


@pytest.mark.parametrize("more", [None, 1], ids=["to its end", "for one more command"])
def test_an_orphaned_server_changes_nothing(world: World, more: int | None) -> None:
    for straggler, words in _play_late(world, _OrphanedServer(), more, is_orphan=True):
        assert isinstance(straggler.error, Fenced | ProcessDied | None), words


def test_a_checkpoint_that_is_one_epoch_back_goes_on(world: World) -> None:
    """As after a crash between the close and Spark's note of it."""
    spark = play(world, FaultPlan())
    spark.checkpoint.recorded = EPOCHS - 1

    spark.run_until(EPOCHS)

    assert world.contents() == expected(work=world.work)


@pytest.mark.parametrize("recorded", [0, EPOCHS - 2, EPOCHS + 1, EPOCHS + 9])
def test_a_checkpoint_that_is_elsewhere_is_refused(world: World, recorded: int) -> None:
    spark = play(world, FaultPlan())
    spark.checkpoint.recorded = recorded

    with pytest.raises(StateLost, match=rf"epoch {EPOCHS}\b.*epoch {recorded + 1}\b"):
        spark.run_until(EPOCHS + 20)

    assert world.contents() == expected(work=world.work)


def test_an_epoch_that_was_closed_with_other_offsets_is_refused(world: World) -> None:
    spark = play(world, FaultPlan())
    run = spark.open_run()

    assert run.worker.check(EPOCHS) is EpochCheck.CLOSED
    with pytest.raises(StateLost, match="other offsets"):
        run.driver.close_epoch(run.stamp(EPOCHS), {"in": 99}, [])

    assert world.contents() == expected(work=world.work)
