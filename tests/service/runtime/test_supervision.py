"""Supervision: beats whose replies are lost, and work that outlives the lease."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import LeaseLost, RegistryUnavailable
from service.runtime.lease import LEASE, ORDERS, STATUSES, Beat, Lease
from service.runtime.records import Failure, SavepointOrder
from service.runtime.registry import Registry
from service.runtime.supervision import Supervision
from tests.service.runtime.fakes import FakeSavepoints
from tests.service.runtime.rig import LOOK_MS, PLAN, Rig, in_rig

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    import redis

    from service.runtime.keeper_ports import KeeperPorts
    from service.runtime.records import PipelineRecord

LIFE_MS = 60_000
ANOTHER = "f" * 32
ORDER = SavepointOrder("20260101t000000000-00000000", filter_expired=False, ordered_ms=5)


class DeafLease(Lease):
    """A lease of which no reply comes back while it is told so; what is sent is carried out."""

    def __init__(self, client: redis.Redis) -> None:
        super().__init__(client, LIFE_MS)
        self.is_deaf = False
        self.sent: list[tuple[Mapping[str, bytes], int]] = []

    def beat(self, statuses: Mapping[str, bytes], telling: int = 0) -> Beat:
        beat = super().beat(statuses, telling)
        self.sent.append((statuses, telling))
        if self.is_deaf:
            raise RegistryUnavailable("Redis does not answer")
        return beat


class LongSavepoints(FakeSavepoints):
    """The first one is not through before it is told so."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.queries)
        self.begun, self.through = threading.Event(), threading.Event()

    def save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        super().save(record, order)
        if not self.begun.is_set():
            self.begun.set()
            self.through.wait(20)


class Stand:
    """A service's supervision over the rig's neighbours, moved by hand."""

    def __init__(self, rig: Rig, client: redis.Redis) -> None:
        self.rig, self.client = rig, client
        self.lease = DeafLease(client)
        self.tokens: list[str] = []
        self.savepoints = LongSavepoints(rig)
        self.supervision = Supervision(self._ports, self.lease)
        self.other = Lease(client, LIFE_MS)

    def _ports(self, token: str) -> KeeperPorts:
        self.tokens.append(token)
        registry = Registry(self.client, 10, token=token)
        return replace(self.rig.ports(), registry=registry, savepoints=self.savepoints)

    async def beat(self, waiting: int) -> None:
        """The next beat; then so many keepers, scans and beats have nothing to do but wait."""
        await self.rig.clock.advance(LOOK_MS)
        await self.rig.clock.parked(waiting)

    async def beat_until(self, done: Callable[[], object]) -> None:
        """Beats until this is so, while threads work."""
        while not done():
            await self.rig.clock.advance(LOOK_MS)
            await asyncio.to_thread(threading.Event().wait, 0.01)

    def told(self) -> Mapping[str, bytes]:
        """What another service is told."""
        return self.other.beat({}).statuses


def in_stand(scenario: Callable[[Stand], Awaitable[None]]) -> Callable[[redis.Redis], None]:
    """A test that runs a scenario with a supervision that has the lease."""

    @asynccontextmanager
    async def standing(rig: Rig) -> AsyncIterator[Stand]:
        stand = Stand(rig, rig.client)
        await stand.supervision.start()
        await rig.clock.parked(2)
        try:
            yield stand
        finally:
            stand.savepoints.through.set()
            await stand.supervision.close()

    async def run(rig: Rig) -> None:
        async with standing(rig) as stand:
            await scenario(stand)

    run.__name__, run.__doc__ = scenario.__name__, scenario.__doc__
    return in_rig(run)


@in_stand
async def test_an_order_that_went_with_a_lost_reply_is_carried_out(stand: Stand) -> None:
    registry = stand.rig.registry
    registry.create("p", PLAN)
    await stand.beat(3)
    assert stand.supervision.status("p").state == "STOPPED"

    registry.order_start("p")
    stand.lease.is_deaf = True
    await stand.beat(3)
    assert stand.client.exists(ORDERS) == 0
    stand.lease.is_deaf = False
    await stand.beat(3)
    await stand.beat(3)

    assert stand.supervision.status("p").state == "RUNNING"


@in_stand
async def test_a_new_pipeline_that_went_with_a_lost_reply_is_taken_up(stand: Stand) -> None:
    stand.rig.registry.create("p", PLAN, desired="RUNNING")
    stand.lease.is_deaf = True
    await stand.beat(2)
    stand.lease.is_deaf = False
    await stand.beat(3)

    assert stand.supervision.status("p").state == "RUNNING"


@in_stand
async def test_nothing_is_told_of_a_pipeline_that_went_after_a_lost_reply(stand: Stand) -> None:
    registry = stand.rig.registry
    for name in ("p", "q"):
        registry.create(name, PLAN, desired="RUNNING")
    await stand.beat(4)
    stand.lease.is_deaf = True
    await stand.beat(4)
    assert stand.told().keys() == {"p", "q"}

    registry.delete("q")
    stand.supervision.wake("q")
    await asyncio.wait([each for each in asyncio.all_tasks() if each.get_name() == "tailrace q"])
    stand.lease.is_deaf = False
    await stand.beat(3)

    assert stand.told().keys() == {"p"}


@in_stand
async def test_a_beat_that_is_carried_out_behind_later_ones_does_nothing(stand: Stand) -> None:
    stand.rig.registry.create("p", PLAN, desired="RUNNING")
    await stand.beat(3)
    stand.lease.is_deaf = True
    await stand.beat(3)
    late = stand.lease.sent[-1]
    stand.lease.is_deaf = False
    await stand.beat(3)
    told = stand.told()
    stand.rig.registry.order_restart("p")

    stand.lease.beat({**late[0], "q": b"gone since"}, late[1])

    assert stand.told() == told
    assert stand.client.smembers(ORDERS) == {b"p"}


@in_stand
async def test_what_a_full_redis_did_not_keep_is_told_again(stand: Stand) -> None:
    stand.rig.registry.create("p", PLAN, desired="RUNNING")
    await stand.beat(3)
    await stand.beat(3)
    stand.client.config_set("maxmemory", 1)
    try:
        stand.rig.ledgers.epochs["p"] = 7
        await stand.beat(3)
        await stand.beat(3)
    finally:
        stand.client.config_set("maxmemory", 0)
    await stand.beat(3)

    assert b'"epoch":7' in stand.told()["p"]


@in_stand
async def test_a_lease_that_is_lost_in_a_long_savepoint_is_not_waited_for(stand: Stand) -> None:
    """Who has it is followed at once, and it is taken again while the savepoint goes on."""
    savepoints = stand.savepoints
    stand.rig.registry.create("p", PLAN)
    stand.rig.registry.order_savepoint("p", ORDER, stop=False)
    await stand.beat_until(lambda: stand.client.exists(ORDERS) == 0)
    await asyncio.to_thread(savepoints.begun.wait, 20)

    stand.client.set(LEASE, ANOTHER)
    stand.client.hset(STATUSES, "p", b'{"state": "STOPPING", "run": 7}')
    await stand.beat_until(lambda: stand.supervision.status("p").run == 7)
    assert stand.supervision.lease.holder == ANOTHER[:8]
    stand.client.delete(LEASE)
    await stand.beat_until(lambda: stand.supervision.status("p").state == "STOPPED")

    assert stand.supervision.lease.is_held
    assert savepoints.log == [f"save {ORDER.id}"] * 2
    assert stand.rig.registry.get("p").savepoint is None


@in_stand
async def test_what_a_tenure_leaves_under_way_notes_nothing_in_the_next(stand: Stand) -> None:
    stand.rig.registry.create("p", PLAN)
    failure = Failure("state-lost", "gone", 5)
    stand.client.delete(LEASE)
    await stand.beat_until(lambda: len(stand.tokens) == 2 and stand.supervision.lease.is_held)

    before, now = stand.tokens[-2:]

    with pytest.raises(LeaseLost):
        Registry(stand.client, 10, token=before).note_failure("p", failure)
    Registry(stand.client, 10, token=now).note_failure("p", failure)
    assert before[:8] == now[:8], "the service is the same"
