"""Every kind of state, in both layouts, through a fault at any call or command of its epochs."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.descriptors import TimersDescriptor
from state.epochs import EpochLedger
from state.execution.sync import run_now
from state.testing.attempts import KEY_GROUP, PlannedEpoch, run_epochs, stored_content
from state.testing.faults import Fault, FaultPlan, FaultyBackend, FaultyLedger, FaultyTransport
from state.testing.sessions import LAYOUTS
from state.testing.stand import heap_stand, redis_stand
from state.ttl import Cleanup, TtlConfig
from tests.state.primitives.driver import descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import redis

    from state.primitives.session import StateSession
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

    Open = Callable[[FaultPlan], AbstractContextManager[Stand]]

TTL = TtlConfig(100, cleanup=Cleanup(by_timer=True))
TIMERS = TimersDescriptor(name="timers")
ADD: dict[str, Callable[[int], Operation]] = {
    "value": lambda n: lambda s: s.update(n),
    "reducing": lambda n: lambda s: s.add(n),
    "aggregating": lambda n: lambda s: s.add(n),
    "list": lambda n: lambda s: s.add(n),
    "map": lambda n: lambda s: s.put(n % 5, n),
    "sorted_map": lambda n: lambda s: s.add((n % 5,), n),
    "multiset": lambda n: lambda s: s.append(n % 5),
}
TAKE: dict[str, Operation] = {
    "value": lambda s: s.value(),
    "reducing": lambda s: s.get(),
    "aggregating": lambda s: s.get(),
    "list": lambda s: s.get(),
    "map": lambda s: s.remove(3),
    "sorted_map": lambda s: s.clear_range_until((2,)),
    "multiset": lambda s: s.remove(3),
}
"""What takes something away, where a kind can; else what reads."""


def planned(kind: str) -> list[PlannedEpoch]:
    """Fill keys; add to one, take from one, clear one; then what was not touched expires."""
    if kind == "timers":
        return planned_timers()
    state = descriptor(kind, TTL)

    def work(*operations: tuple[int, Operation]) -> Callable[[StateSession], None]:
        def act(session: StateSession) -> None:
            handle = getattr(session, kind)(state)
            for key, operation in operations:
                session.set_key(b"[%d]" % key, KEY_GROUP)
                run_now(operation(handle), session)

        return act

    add, take = ADD[kind], TAKE[kind]
    return [
        PlannedEpoch(0, work(*((key, add(n)) for key in range(3) for n in range(7)))),
        PlannedEpoch(50, work((0, add(11)), (1, take), (2, lambda s: s.clear()), (3, add(12)))),
        PlannedEpoch(120, work((4, add(13)))),
    ]


def planned_timers() -> list[PlannedEpoch]:
    """Register; fire some and register again; fire the rest but one."""

    def work(until_ms: int, *registered: int) -> Callable[[StateSession], None]:
        def act(session: StateSession) -> None:
            timers = session.timers(TIMERS)
            timers.load([KEY_GROUP], until_ms)
            for key, key_group in timers.due(until_ms):
                timers.take(key, key_group, until_ms)
            for time_ms in registered:
                timers.register(b"[%d]" % (time_ms % 3), KEY_GROUP, time_ms, b"[1]")

        return act

    return [
        PlannedEpoch(0, work(0, *range(1, 10))),
        PlannedEpoch(5, work(5, 20, 21)),
        PlannedEpoch(20, work(20)),
    ]


@contextlib.contextmanager
def on_heap(plan: FaultPlan) -> Iterator[Stand]:
    """Each call counts."""
    stand = heap_stand()
    stand.backend = FaultyBackend(stand.backend, plan)
    stand.ledger = FaultyLedger(stand.ledger, plan)
    yield stand


def on_redis(client: redis.Redis) -> Open:
    """Each command counts."""

    @contextlib.contextmanager
    def opened(plan: FaultPlan) -> Iterator[Stand]:
        client.flushall()
        with redis_stand(client) as stand:
            transport = FaultyTransport(RedisTransport(client), plan)
            stand.backend = RedisBackend(transport, stand.pipeline)
            stand.ledger = EpochLedger(transport, stand.pipeline)
            yield stand
            transport.close()

    return opened


def content_after(opened: Open, plan: FaultPlan, kind: str, layout: str) -> dict[bytes, Any]:
    with opened(plan) as stand:
        run_epochs(stand, LAYOUTS[layout], planned(kind))
        with plan.resting():
            return stored_content(stand)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [*ADD, "timers"])
@pytest.mark.parametrize("backend", ["heap", "redis"])
def test_a_fault_anywhere_changes_nothing(
    request: pytest.FixtureRequest, backend: str, kind: str, layout: str
) -> None:
    """On heap every fault at every call; on Redis every command meets one of them."""
    opened = on_heap if backend == "heap" else on_redis(request.getfixturevalue("redis_client"))
    quiet = FaultPlan()
    expected = content_after(opened, quiet, kind, layout)
    assert expected

    for number in range(1, quiet.passed + 1):
        faults = list(Fault) if backend == "heap" else [list(Fault)[number % len(Fault)]]
        for fault in faults:
            plan = FaultPlan({number: fault})
            assert content_after(opened, plan, kind, layout) == expected, (number, fault)
            assert not plan.unspent, (number, fault)
