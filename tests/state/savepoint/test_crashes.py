"""A process that dies anywhere while it saves or restores: the other side is whole, or unusable."""

from __future__ import annotations

from contextlib import nullcontext as does_not_raise
from functools import partial
from typing import TYPE_CHECKING

import pytest

from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import (
    Fenced,
    SavepointIncomplete,
    SavepointTargetInUse,
    StateError,
    StateLost,
)
from state.savepoint import MANIFEST, SaveOptions, StateSaver
from state.testing.faults import Fault, FaultPlan, FaultyTransport, ProcessDied
from state.testing.sessions import SPREAD
from state.testing.stand import NODE, PARALLELISM
from tests.state.savepoint.test_round_trip import LAST, LAZY
from tests.state.savepoint.world import World, dump, orphans, restore

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    import redis

_OVERTAKEN = (Fenced, SavepointTargetInUse)
STEP = 7
"""Every so manieth command is struck: neighbours are of one batch mostly."""


@pytest.fixture
def world(redis_client: redis.Redis, stack: ExitStack) -> World:
    made = World.new(stack, redis_client, "orders", SPREAD, LAZY)
    made.run_epoch(0, LAST[:8], beside=orphans(1, ["a"]))
    return made


def _save(world: World, folder: Path, plan: FaultPlan) -> None:
    folder.mkdir()
    transport = FaultyTransport(RedisTransport(world.client), plan)
    saver = StateSaver(transport, "orders", {NODE: []}, PARALLELISM)
    saver.save("s1", folder, SaveOptions(slot={"table:t": ""}))


def test_a_save_that_dies_anywhere_leaves_no_savepoint_and_the_pipeline_as_it_was(
    world: World, tmp_path: Path
) -> None:
    world.client.hset("tailrace:{orders}:table:t", "k", "v")
    whole = FaultPlan()
    _save(world, tmp_path / "whole", whole)
    before = world.dump()

    for number in range(1, whole.passed + 1, STEP):
        for fault in (Fault.DEATH, Fault.REPLY_LOST):
            folder = tmp_path / f"{number}-{fault.name}"
            with pytest.raises((ProcessDied, StateError)):
                _save(world, folder, FaultPlan({number: fault}))
            assert not (folder / MANIFEST).exists()
            assert world.dump() == before
    world.stand.reopen()
    world.run_epoch(1, LAST)


def test_a_save_beside_another_run_fails(world: World, tmp_path: Path) -> None:
    counted = FaultPlan()
    _save(world, tmp_path / "counted", counted)
    plan = FaultPlan()
    plan.visit(counted.passed // 2, world.stand.reopen)

    with pytest.raises(Fenced):
        _save(world, tmp_path / "other", plan)
    assert not (tmp_path / "other" / MANIFEST).exists()


@pytest.mark.parametrize("fault", [Fault.DEATH, Fault.NOT_SENT, Fault.REPEATED])
def test_a_restore_that_dies_anywhere_leaves_nothing_that_runs_and_can_be_made_again(
    world: World, tmp_path: Path, fault: Fault
) -> None:
    client = world.client
    client.hset("tailrace:{orders}:table:t", "k", "v")
    client.rpush("tailrace:{orders}:files:f", "a", "b")
    manifest = world.save(tmp_path, SaveOptions(slot={"table:t": "", "files:f": ""}))
    before = world.dump()
    whole = FaultPlan()

    def restoring(name: str, plan: FaultPlan) -> None:
        restore(
            client,
            tmp_path,
            manifest,
            name,
            world.described,
            wrapped=lambda transport: FaultyTransport(transport, plan),
        )

    restoring("whole", whole)
    for number in range(1, whole.passed + 1, STEP):
        name = f"copy-{number}"
        try:
            restoring(name, FaultPlan({number: fault}))
        except (ProcessDied, StateError):
            if client.hget(f"tailrace:{{{name}}}:marker", "epoch") is None:
                _is_unusable(client, name)
        restoring(name, FaultPlan())
        restoring(name, FaultPlan())
        assert dump(client, name) == before
        assert client.hgetall(f"tailrace:{{{name}}}:table:t") == {b"k": b"v"}
        assert client.lrange(f"tailrace:{{{name}}}:files:f", 0, -1) == [b"a", b"b"]
        assert not client.exists(f"tailrace:{{{name}}}:restoring")
        EpochLedger(client, name).open_run([NODE], PARALLELISM)


def test_a_restore_that_is_overtaken_anywhere_changes_nothing_any_more(
    world: World, tmp_path: Path
) -> None:
    """Another service makes it anew, to its end, and a run begins, while the first stands still."""
    client = world.client
    client.rpush("tailrace:{orders}:files:f", "a", "b")
    manifest = world.save(tmp_path, SaveOptions(slot={"files:f": ""}))
    whole = FaultPlan()

    def restoring(name: str, plan: FaultPlan) -> None:
        restore(
            client,
            tmp_path,
            manifest,
            name,
            world.described,
            wrapped=lambda transport: FaultyTransport(transport, plan),
        )

    left: dict[bytes, bytes] = {}

    def kept(name: str) -> dict[bytes, bytes]:
        return {key: client.dump(key) for key in client.keys(f"tailrace:{{{name}[:}}]*")}

    def overtake(name: str) -> None:
        restoring(name, FaultPlan())
        EpochLedger(client, name).open_run([NODE], PARALLELISM)
        client.hset(f"tailrace:{{{name}}}:marker", "epoch", 99)
        client.lpop(f"tailrace:{{{name}}}:files:f")
        left.clear()
        left.update(kept(name))

    restoring("whole", whole)
    assert whole.passed > 10
    for number in (*range(1, 10), *range(10, whole.passed + 1, STEP)):
        name = f"copy-{number}"
        plan = FaultPlan()
        plan.visit(number, partial(overtake, name))
        # One that has not begun finds that it is through.
        expected = does_not_raise() if number == 1 else pytest.raises(_OVERTAKEN)
        with expected:
            restoring(name, plan)
        assert left
        assert kept(name) == left


def _is_unusable(client: redis.Redis, name: str) -> None:
    """Nothing is there, or no run can begin and no savepoint be taken."""
    if not dump(client, name):
        return
    with pytest.raises(StateLost):
        EpochLedger(client, name).open_run([NODE], PARALLELISM)
    with pytest.raises(SavepointIncomplete):
        StateSaver(RedisTransport(client), name, {NODE: []}, PARALLELISM)


def test_what_comes_before_the_end_of_a_restore_comes_before_the_marker(
    world: World, tmp_path: Path
) -> None:
    manifest = world.save(tmp_path)

    def fails(_: object) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        restore(world.client, tmp_path, manifest, "copy", world.described, before_end=fails)
    assert not world.client.exists("tailrace:{copy}:marker")
    _is_unusable(world.client, "copy")
