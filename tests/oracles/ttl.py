"""TTL cases: operations on one state with a time each, as Flink's heap state carried them out."""

from __future__ import annotations

import contextlib
import operator as op
from typing import TYPE_CHECKING, Any

from state.descriptors import (
    JSON,
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    ReducingDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.testing.sessions import LAYOUTS, SessionStand
from state.testing.stand import heap_stand, redis_stand
from state.ttl import TtlClock, TtlConfig, UpdateType, Visibility
from tests.oracles.cases import Case, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence

    from state.primitives.handle import StateHandle
    from state.primitives.session import StateSession
    from state.testing.stand import Stand
    from tests.oracles.engines import Engines

    Handle = Any
    Entry = Mapping[str, Any]

EPOCHS = {"an epoch for each operation": 1, "one epoch for all operations": 1 << 30}
"""How the operations of a case are cut into epochs: the results are the same."""


def run_ttl(case: Case, backends: Sequence[str], engines: Engines) -> Iterator[Outcome]:
    """One outcome for each backend and layout; both ways to cut epochs must give the same."""
    for backend in backends:
        for layout in LAYOUTS:
            with _stand(backend, engines) as stand:
                difference = ttl_difference(case.content, stand, layout)
            yield Outcome(f"{case.name} [{backend}, {layout}]", difference)


TODAY_MS = 1_767_225_600_000


def ttl_difference(entry: Entry, stand: Stand, layout: str) -> str | None:
    """The first operation whose result is not as recorded, if there is one.

    Args:
        entry: A line of a trace file.
        stand: An empty pipeline.
        layout: The name of the layout that collections are forced into.
    """
    after_epoch = 0
    for number, (cut, size) in enumerate(EPOCHS.items(), start=1):
        # Stamps of today's length take shorter ways than the small numbers of the recordings.
        begin_ms = number % 2 * TODAY_MS
        sessions = SessionStand(
            stand, thresholds=LAYOUTS[layout], node=f"{number}_ttl", after_epoch=after_epoch
        )
        difference = _replay(entry, sessions, size, begin_ms)
        if difference is not None:
            return f"{cut}: {difference}"
        after_epoch = sessions.epoch
    return None


def _replay(entry: Entry, sessions: SessionStand, epoch_size: int, begin_ms: int) -> str | None:
    operations = entry["ops"]
    for start in range(0, len(operations), epoch_size):
        session = sessions.begin(TtlClock(begin_ms + operations[start]["t"]))
        handle = _handle(entry, session)
        for at, each in enumerate(operations[start : start + epoch_size], start):
            session.clock = TtlClock(begin_ms + each["t"])
            session.set_key(JSON.encode([each["key"]]), 0)
            result = run_now(
                _OPERATIONS[entry["state"], each["op"]](handle, each.get("arg")), session
            )
            shown = _comparable(entry["state"], each["op"], result)
            if shown != each.get("result"):
                return (
                    f"operation {at} ({each['op']} of {each['key']} at {each['t']}): "
                    f"{shown}, expected {each.get('result')}"
                )
        sessions.end(session)
    return None


class TextOfSum:
    """The aggregate function that the cases were recorded with: from 3 on, shown as text."""

    def create_accumulator(self) -> int:
        return 3

    def add(self, value: int, accumulator: int) -> int:
        return accumulator + value

    def get_result(self, accumulator: int) -> str:
        return str(accumulator)

    def merge(self, one: int, other: int) -> int:
        return one + other


def _handle(entry: Entry, session: StateSession) -> StateHandle[Any]:
    ttl = TtlConfig(
        entry.get("ttl", 100), UpdateType(entry["updateType"]), Visibility(entry["visibility"])
    )
    match entry["state"]:
        case "value":
            return session.value(ValueDescriptor(name="recorded", codec=JSON, ttl=ttl))
        case "list":
            return session.list(ListDescriptor(name="recorded", codec=JSON, ttl=ttl))
        case "map":
            return session.map(MapDescriptor(name="recorded", key_codec=JSON, codec=JSON, ttl=ttl))
        case "reducing":
            return session.reducing(
                ReducingDescriptor(name="recorded", codec=JSON, reduce=op.add, ttl=ttl)
            )
        case "aggregating":
            return session.aggregating(
                AggregatingDescriptor(name="recorded", codec=JSON, aggregator=_AGGREGATOR, ttl=ttl)
            )
        case other:
            raise ValueError(f"no such state: {other}")


_AGGREGATOR = TextOfSum()
_OPERATIONS: dict[tuple[str, str], Callable[[Handle, Any], Coroutine[Any, None, Any]]] = {
    ("value", "value"): lambda state, _: state.value(),
    ("value", "update"): lambda state, value: state.update(value),
    ("value", "clear"): lambda state, _: state.clear(),
    ("list", "get"): lambda state, _: state.get(),
    ("list", "add"): lambda state, value: state.add(value),
    ("list", "addAll"): lambda state, values: state.add_all(values),
    ("list", "update"): lambda state, values: state.update(values),
    ("list", "clear"): lambda state, _: state.clear(),
    ("map", "get"): lambda state, key: state.get(key),
    ("map", "contains"): lambda state, key: state.contains(key),
    ("map", "put"): lambda state, pair: state.put(*pair),
    ("map", "putAll"): lambda state, entries: state.put_all(
        None if entries is None else {int(key): value for key, value in entries.items()}
    ),
    ("map", "remove"): lambda state, key: state.remove(key),
    ("map", "entries"): lambda state, _: state.entries(),
    ("map", "keys"): lambda state, _: state.keys(),
    ("map", "values"): lambda state, _: state.values(),
    ("map", "isEmpty"): lambda state, _: state.is_empty(),
    ("map", "clear"): lambda state, _: state.clear(),
    ("reducing", "get"): lambda state, _: state.get(),
    ("reducing", "add"): lambda state, value: state.add(value),
    ("reducing", "clear"): lambda state, _: state.clear(),
    ("aggregating", "get"): lambda state, _: state.get(),
    ("aggregating", "add"): lambda state, value: state.add(value),
    ("aggregating", "clear"): lambda state, _: state.clear(),
}


def _comparable(state: str, operation: str, result: Any) -> Any:
    """A result in the form of the recorded ones."""
    match state, operation:
        case "list", "get":
            return result or []
        case "map", "entries":
            return {str(key): value for key, value in result}
        case _:
            return result


@contextlib.contextmanager
def _stand(backend: str, engines: Engines) -> Iterator[Stand]:
    """An empty pipeline."""
    if backend == "heap":
        yield heap_stand()
        return
    with redis_stand(engines.redis_client(), "oracle-ttl") as stand:
        yield stand
        stand.ledger.drop()
