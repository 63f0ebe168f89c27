"""A pipeline on a real Redis that keeps a state of every kind, and all that can be seen of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state.backends.interface import HashAdd, StreamAppend
from state.backends.names import RESERVED, slot_prefix
from state.backends.transport import RedisTransport
from state.descriptors import (
    JSON,
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    ReducingDescriptor,
    SortedMapDescriptor,
    TimersDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.key_groups import key_group
from state.lexicographic import lexicographic_codec
from state.registry import register_states
from state.savepoint import SaveOptions, StateSaver, restore_state
from state.testing.multisets import ON_KEY, multiset
from state.testing.sessions import SessionStand
from state.testing.stand import NODE, PARALLELISM, redis_stand
from state.ttl import DISABLED, TtlClock, TtlConfig
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    import redis

    from state.backends.interface import Write
    from state.descriptors import StateDescriptor
    from state.multiset.strategy import Thresholds
    from state.primitives.session import StateSession
    from state.savepoint import Manifest

KEYS = ["a", "b", "c", "d\u00e9", 'e"f']
GROUPS = range(PARALLELISM)
TYPES = [parse_type("VARCHAR(10)")]
Op = tuple[str, str, tuple[Any, ...]]
"""State, key, and arguments of an operation on it."""


class _Count:
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, one: int, other: int) -> int:
        return one + other


def descriptors(ttl: TtlConfig = DISABLED) -> list[StateDescriptor]:
    """A state of every kind."""
    return [
        ValueDescriptor(name="value", codec=JSON, ttl=ttl),
        ReducingDescriptor(name="reducing", codec=JSON, ttl=ttl, reduce=lambda a, b: a + b),
        AggregatingDescriptor(name="aggregating", codec=JSON, ttl=ttl, aggregator=_Count()),
        ListDescriptor(name="list", codec=JSON, ttl=ttl),
        MapDescriptor(name="map", key_codec=JSON, codec=JSON, ttl=ttl),
        SortedMapDescriptor(
            name="sorted_map",
            key_codec=lexicographic_codec([parse_type("STRING NOT NULL")]),
            codec=JSON,
            ttl=ttl,
        ),
        multiset(ttl, match=ON_KEY, name="multiset"),
        TimersDescriptor(name="timers"),
    ]


def stored(key: str) -> bytes:
    return JSON.encode([key])


def place(node: str, key: bytes, groups: int = PARALLELISM) -> int:
    return key_group(TYPES, JSON.decode(key), groups)


async def apply(session: StateSession, by_name: dict[str, Any], op: Op, groups: int) -> None:
    """Carry an operation out, on the current key."""
    name, key, given = op
    descriptor = by_name[name]
    match name:
        case "value":
            await session.value(descriptor).update(*given)
        case "reducing":
            await session.reducing(descriptor).add(*given)
        case "aggregating":
            await session.aggregating(descriptor).add(*given)
        case "list":
            await session.list(descriptor).add(*given)
        case "map":
            await session.map(descriptor).put(*given)
        case "sorted_map":
            user, value = given
            await session.sorted_map(descriptor).add((user,), value)
        case "multiset":
            await session.multiset(descriptor).add(list(given))
        case _:
            (time_ms,) = given
            group = place(NODE, stored(key), groups)
            session.timers(descriptor).register(stored(key), group, time_ms, b"[1]")


@dataclass
class World:
    """One pipeline, epoch by epoch."""

    client: redis.Redis
    name: str
    stand: SessionStand
    described: list[StateDescriptor]
    groups: int

    @classmethod
    def new(
        cls,
        stack: ExitStack,
        client: redis.Redis,
        name: str,
        thresholds: Thresholds,
        ttl: TtlConfig = DISABLED,
        *,
        after_epoch: int = 0,
        groups: int = PARALLELISM,
    ) -> World:
        stand = stack.enter_context(redis_stand(client, name))
        sessions = SessionStand(
            stand, thresholds=thresholds, key_groups=range(groups), after_epoch=after_epoch
        )
        described = register_states(stand.ledger, NODE, descriptors(ttl), TtlClock(0))
        return cls(client, name, sessions, described, groups)

    def run_epoch(
        self, now_ms: int, ops: Sequence[Op] = (), *, beside: Sequence[Write] = ()
    ) -> None:
        """An epoch of operations and a clean-up, with more writes in key group 0."""
        session = self.stand.begin(TtlClock(now_ms))
        by_name = {each.name: each for each in self.described}
        for each in self.described:
            _open(session, each)
        session.timers(by_name["timers"]).load(range(self.groups), -1)
        for op in ops:
            session.set_key(stored(op[1]), place(NODE, stored(op[1]), self.groups))
            run_now(apply(session, by_name, op, self.groups), session)
        session.clean_up(range(self.groups))
        writes = session.writes()
        if beside:
            writes.setdefault(0, []).extend(beside)
        self.stand.commit(writes)

    def save(self, folder: Path, options: SaveOptions | None = None) -> Manifest:
        folder.mkdir(parents=True, exist_ok=True)
        transport = RedisTransport(self.client)
        try:
            saver = StateSaver(transport, self.name, {NODE: []}, self.groups)
            return saver.save("s1", folder, options or SaveOptions())
        finally:
            transport.close()

    def restore(self, folder: Path, manifest: Manifest, name: str, groups: int) -> None:
        restore(self.client, folder, manifest, name, self.described, groups)

    def dump(self) -> dict[bytes, Any]:
        self.stand.stand.ledger.promote_all([NODE], self.groups)
        return dump(self.client, self.name)


def restore(
    client: redis.Redis,
    folder: Path,
    manifest: Manifest,
    name: str,
    described: Sequence[StateDescriptor],
    groups: int = PARALLELISM,
    *,
    wrapped: Callable[[RedisTransport], Any] = lambda transport: transport,
    **more: Any,
) -> None:
    transport = RedisTransport(client)
    try:
        restore_state(
            wrapped(transport),
            name,
            folder,
            manifest,
            wanted={NODE: list(described)},
            max_parallelism=groups,
            place=lambda node, key: place(node, key, groups),
            **more,
        )
    finally:
        transport.close()


def orphans(epoch: int, keys: Sequence[str]) -> list[Write]:
    """What an operator lists and counts beside its states, in key group 0."""
    entries = [(b"key", stored(each), b"row", b"[1]", b"op", b"-D", b"ms", b"1") for each in keys]
    return [HashAdd(b"counters", b"orphans", len(keys)), StreamAppend(b"orphans", entries, 100)]


def dump(client: redis.Redis, name: str) -> dict[bytes, Any]:
    """Everything in the pipeline's key groups but the protocol's own, by name without the tag."""
    groups = slot_prefix(name).removesuffix(b"}:") + b":"
    found: dict[bytes, Any] = {}
    for key in client.scan_iter(groups + b"*"):
        short = key.removeprefix(groups)
        if short.rpartition(b":")[2] in RESERVED:
            continue
        match client.type(key):
            case b"hash":
                found[short] = client.hgetall(key)
            case b"zset":
                found[short] = client.zrange(key, 0, -1, withscores=True)
            case b"stream":
                found[short] = client.xrange(key)
            case kind:
                raise AssertionError(kind)
    return found


def _open(session: StateSession, descriptor: StateDescriptor) -> None:
    getattr(session, descriptor.kind)(descriptor)
