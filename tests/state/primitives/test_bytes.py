"""What each operation costs in bytes, exactly, counted on the wire between client and Redis.

`docs/costs.md` has the table and says what it is of; each of its rows is measured here. Round
trips, commands and fields are those of `test_costs`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.testing.proxy import Proxy
from state.testing.sessions import LAYOUTS
from state.testing.stand import redis_stand
from state.ttl import DISABLED, TtlConfig
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.primitives.multisets import MultisetHandle
    from state.primitives.sorted import SortedMapHandle
    from state.testing.stand import Stand

SIZE = 10
ROW = [7, "x"]
OTHER = [8, "x"]
BEGIN_MS = 1_767_225_600_000
TTLS = {"off": DISABLED, "on": TtlConfig(3_600_000)}
PAGE = Path(__file__).parents[3] / "docs" / "costs.md"
_LINE = re.compile(r"\| `(\w+)\.(\w+)` \| (\w+) \| (\d+) / (\d+) \| (\d+) / (\d+) \|")


async def _fill_sorted(handle: SortedMapHandle[tuple[int], list[Any]]) -> None:
    for each in range(SIZE):
        await handle.add((each,), ROW)


async def _fill_multiset(handle: MultisetHandle[list[Any]]) -> None:
    for each in range(SIZE):
        await handle.append([each, "x"])


FILL: dict[str, Operation] = {
    "value": lambda s: s.update(ROW),
    "reducing": lambda s: s.add(1),
    "aggregating": lambda s: s.add(1),
    "list": lambda s: s.add_all([ROW] * SIZE),
    "map": lambda s: s.put_all(dict.fromkeys(range(SIZE), ROW)),
    "sorted_map": _fill_sorted,
    "multiset": _fill_multiset,
}
OPERATIONS: dict[str, dict[str, Operation]] = {
    "value": {
        "value": lambda s: s.value(),
        "update": lambda s: s.update(OTHER),
        "clear": lambda s: s.clear(),
    },
    "reducing": {"get": lambda s: s.get(), "add": lambda s: s.add(1)},
    "aggregating": {"get": lambda s: s.get(), "add": lambda s: s.add(1)},
    "list": {
        "get": lambda s: s.get(),
        "add": lambda s: s.add(OTHER),
        "update": lambda s: s.update([OTHER] * SIZE),
        "clear": lambda s: s.clear(),
    },
    "map": {
        "get": lambda s: s.get(1),
        "put": lambda s: s.put(1, OTHER),
        "remove": lambda s: s.remove(1),
        "entries": lambda s: s.entries(),
        "clear": lambda s: s.clear(),
    },
    "sorted_map": {
        "values_at": lambda s: s.values_at((1,)),
        "first_entry": lambda s: s.first_entry(),
        "add": lambda s: s.add((1,), OTHER),
        "read_range": lambda s: s.read_range((2,), (5,)),
        "clear_range": lambda s: s.clear_range((2,), (5,)),
        "clear": lambda s: s.clear(),
    },
    "multiset": {
        "last": lambda s: s.last(),
        "append": lambda s: s.append(OTHER),
        "remove": lambda s: s.remove([1, "x"]),
        "clear": lambda s: s.clear(),
    },
}
ONE_FIELD = ("value", "reducing", "aggregating")


@pytest.fixture
def wire(redis_client: redis.Redis) -> Iterator[tuple[Stand, Proxy]]:
    """An empty pipeline whose transactions go through a proxy, and nothing else does."""
    port = int(redis_client.connection_pool.connection_kwargs["port"])
    with (
        redis_stand(redis_client) as stand,
        Proxy(port) as proxy,
        redis.Redis.from_url(proxy.url) as client,
    ):
        backend = RedisBackend(RedisTransport(client), stand.pipeline)
        yield replace(stand, backend=backend), proxy
        backend.close()


def cells() -> list[tuple[str, str, str]]:
    return [
        (kind, name, layout)
        for kind, operations in OPERATIONS.items()
        for name in operations
        for layout in (("packed",) if kind in ONE_FIELD else LAYOUTS)
    ]


def documented() -> dict[tuple[str, str, str, str], tuple[int, int]]:
    costs: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for kind, name, layout, *numbers in _LINE.findall(PAGE.read_text(encoding="utf-8")):
        sent, received, sent_on, received_on = map(int, numbers)
        costs[kind, name, layout, "off"] = sent, received
        costs[kind, name, layout, "on"] = sent_on, received_on
    return costs


def test_every_operation_has_one_line() -> None:
    lines = _LINE.findall(PAGE.read_text(encoding="utf-8"))

    assert sorted(each[:3] for each in lines) == sorted(cells())


@pytest.mark.parametrize("ttl", TTLS)
@pytest.mark.parametrize(("kind", "name", "layout"), cells())
def test_an_operation_sends_and_receives(
    wire: tuple[Stand, Proxy], kind: str, name: str, layout: str, ttl: str
) -> None:
    assert measured(wire, kind, name, layout, ttl) == documented()[kind, name, layout, ttl]


def measured(
    wire: tuple[Stand, Proxy], kind: str, name: str, layout: str, ttl: str
) -> tuple[int, int]:
    stand, proxy = wire
    state = Driver(stand, descriptor(kind, TTLS[ttl]), LAYOUTS[layout])
    state.at(BEGIN_MS, FILL[kind])
    before = proxy.request_bytes, proxy.reply_bytes

    state.at(BEGIN_MS + 1_000, OPERATIONS[kind][name])

    return proxy.request_bytes - before[0], proxy.reply_bytes - before[1]
