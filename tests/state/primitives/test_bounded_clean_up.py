"""Whatever an epoch did with keys, and however few a clean-up may visit: what is expired leaves.

No key may fall out of the expiry index, nor stand in it by a newer time than its oldest element
has. Both would show in the end: the last epochs have one time, by which all is expired, and clean
until nothing is left. The seed is in the name of the test.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from state.execution.sync import run_now
from state.testing.sessions import LAYOUTS
from state.testing.stand import heap_stand
from state.ttl import Cleanup, TimeCharacteristic, TtlConfig, UpdateType, Visibility
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

TODAY_MS = 1_767_225_600_000
TTL_MS = 50
EPOCHS, KEYS = 15, 30
Operation: TypeAlias = "Callable[[Any, int], Coroutine[Any, Any, Any]]"
OPERATIONS: dict[str, list[Operation]] = {
    "value": [lambda s, n: s.update(n), lambda s, _: s.value(), lambda s, _: s.clear()],
    "list": [
        lambda s, n: s.add(n),
        lambda s, n: s.update([n, n]),
        lambda s, _: s.get(),
        lambda s, _: s.is_empty(),
        lambda s, _: s.clear(),
    ],
    "map": [
        lambda s, n: s.put(n, n),
        lambda s, n: s.get(n),
        lambda s, n: s.remove(n),
        lambda s, _: s.entries(),
        lambda s, _: s.clear(),
    ],
    "sorted_map": [
        lambda s, n: s.add((n,), n),
        lambda s, n: s.values_at((n,)),
        lambda s, _: s.is_empty(),
        lambda s, _: s.clear(),
    ],
    "multiset": [
        lambda s, n: s.append(n),
        lambda s, n: s.add(n),
        lambda s, n: s.remove(n),
        lambda s, _: s.entries(),
        lambda s, _: s.last(),
    ],
}


def any_ttl(chance: random.Random) -> TtlConfig:
    incremental = chance.choice([0, 1, 3])
    return TtlConfig(
        TTL_MS,
        chance.choice([each for each in UpdateType if each is not UpdateType.DISABLED]),
        chance.choice([*Visibility]),
        chance.choice([TimeCharacteristic.PROCESSING, TimeCharacteristic.EVENT_BY_PROCESSING]),
        Cleanup(
            background_keys_max=chance.choice([5, 17, 25, 100]),
            incremental_entries=incremental,
            incremental_on_record=incremental > 0 and chance.random() < 0.5,
            by_timer=chance.random() < 0.2,
        ),
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", OPERATIONS)
def test_all_that_is_expired_leaves(kind: str, layout: str, seed: int) -> None:
    chance = random.Random(seed)
    ttl = any_ttl(chance)
    state = Driver(heap_stand(), descriptor(kind, ttl), LAYOUTS[layout])
    now_ms = TODAY_MS
    for _ in range(EPOCHS):
        now_ms += chance.choice([0, 1, 5, 10, 20, 60])
        session = state.session(now_ms)
        handle = state.handle(session)
        for operations in chance.choices([0, 3, 20, 40], k=chance.randint(1, 3)):
            for _ in range(operations):
                event_ms = now_ms - chance.randrange(30)
                session.set_key(b"[%d]" % chance.randrange(KEYS), 0, event_ms=event_ms)
                operation = chance.choice(OPERATIONS[kind])
                run_now(operation(handle, chance.randrange(6)), session)
            if chance.random() < 0.6:
                session.clean_up((0,))
        state.sessions.end(session)

    for _ in range(EPOCHS * KEYS):
        state.clean(now_ms + TTL_MS)
        if not state.names():
            break

    assert state.names() == []
