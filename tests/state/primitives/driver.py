"""One state, driven an epoch at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from state.descriptors import (
    JSON,
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    MultisetDescriptor,
    ReducingDescriptor,
    SortedMapDescriptor,
    StateDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.lexicographic import LexicographicCodec
from state.registry import register_states
from state.testing.sessions import SessionStand
from state.testing.stand import NODE
from state.ttl import DISABLED, TtlClock
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from state.backends.interface import TransactionStatistics, Write
    from state.multiset.strategy import Thresholds
    from state.primitives.session import StateSession
    from state.testing.stand import Stand
    from state.ttl import TtlConfig

Operation: TypeAlias = "Callable[[Any], Coroutine[Any, Any, Any]]"


class FromThree:
    """Flink's test aggregate: a sum that begins at 3, shown as text."""

    def create_accumulator(self) -> int:
        return 3

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> str:
        return str(accumulator)

    def merge(self, one: int, other: int) -> int:
        return one + other


def add(one: int, other: int) -> int:
    return one + other


FROM_THREE = FromThree()
ORDERED = LexicographicCodec([parse_type("BIGINT NOT NULL")])
"""User keys of sorted maps: tuples of one integer."""


def descriptor(kind: str, ttl: TtlConfig = DISABLED, name: str = "state") -> StateDescriptor:
    match kind:
        case "value":
            return ValueDescriptor(name=name, codec=JSON, ttl=ttl)
        case "list":
            return ListDescriptor(name=name, codec=JSON, ttl=ttl)
        case "map":
            return MapDescriptor(name=name, key_codec=JSON, codec=JSON, ttl=ttl)
        case "sorted_map":
            return SortedMapDescriptor(name=name, key_codec=ORDERED, codec=JSON, ttl=ttl)
        case "multiset":
            return MultisetDescriptor(name=name, codec=JSON, ttl=ttl)
        case "reducing":
            return ReducingDescriptor(name=name, codec=JSON, reduce=add, ttl=ttl)
        case _:
            return AggregatingDescriptor(name=name, codec=JSON, aggregator=FROM_THREE, ttl=ttl)


class Driver:
    """A state whose every operation is an epoch of its own; `together` makes one of several."""

    def __init__(self, stand: Stand, descriptor: StateDescriptor, thresholds: Thresholds) -> None:
        self.sessions = SessionStand(stand, thresholds=thresholds)
        (self.descriptor,) = register_states(stand.ledger, NODE, [descriptor], TtlClock(0))

    def session(self, ms: int) -> StateSession:
        return self.sessions.begin(TtlClock(ms))

    def handle(self, session: StateSession) -> Any:
        return getattr(session, self.descriptor.kind)(self.descriptor)

    def at(self, ms: int, operation: Operation, key: str = "k", namespace: bytes = b"") -> Any:
        """The result of an operation in an epoch of this time."""
        return self.together(ms, operation, key=key, namespace=namespace)[0]

    def together(
        self, ms: int, *operations: Operation, key: str = "k", namespace: bytes = b""
    ) -> list[Any]:
        """The results of operations in one epoch."""
        session = self.session(ms)
        handle = self.handle(session)
        results = []
        for each in operations:
            session.set_key(JSON.encode([key]), 0)
            session.set_namespace(namespace)
            results.append(run_now(each(handle), session))
        self.sessions.end(session)
        return results

    def clean(self, ms: int) -> int:
        """How many elements an epoch without a record removes."""
        session = self.session(ms)
        self.handle(session)
        session.clean_up((0,))
        self.sessions.end(session)
        return session.statistics().cleaned

    def change(self, ttl: TtlConfig, ms: int) -> None:
        """Begin a new run at this time, with another TTL, as a changed pipeline does."""
        self.sessions.reopen()
        changed = replace(self.descriptor, ttl=ttl, enabled_ms=None, is_stamped=False)
        (self.descriptor,) = register_states(
            self.sessions.stand.ledger, NODE, [changed], TtlClock(ms)
        )

    def store(self, *writes: Write) -> None:
        """Store something past the handles."""
        self.session(0)
        self.sessions.commit({0: writes})

    @property
    def cost(self) -> TransactionStatistics:
        """What the last epoch cost."""
        return self.sessions.transaction.statistics()

    def names(self) -> list[bytes]:
        return self.sessions.names()
