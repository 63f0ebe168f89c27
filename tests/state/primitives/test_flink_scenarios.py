"""Flink's own TTL tests: TtlStateTestBase and its contexts, on both backends and layouts.

Source: `TtlStateTestBase`, `TtlValueStateTestContext` and its siblings; TTL is 100 throughout.
Flink looks at the raw state; here an empty raw state is that no name of it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from state.execution.sync import run_now
from state.testing.sessions import LAYOUTS
from state.ttl import TIME_MAX, TtlConfig, UpdateType, Visibility
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.testing.stand import Stand

WRITE, READ = UpdateType.ON_CREATE_AND_WRITE, UpdateType.ON_READ_AND_WRITE
NEVER = Visibility.NEVER_RETURN_EXPIRED
RELAXED = Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP


class Context(NamedTuple):
    """One of Flink's test contexts: three updates, and what is visible after each."""

    kind: str
    updates: list[Operation]
    """The first, one while it or its merge lives, one after the second expired."""
    visible: list[Any]
    get: Operation
    empty: Any = None


def all_entries(update: dict[int, str | None]) -> Operation:
    return lambda state: state.put_all(update)


def shown_map(entries: dict[int, str | None]) -> Any:
    return sorted(entries.items())


async def read_map(state: Any) -> Any:
    return sorted(await state.entries())


async def read_entry(state: Any) -> Any:
    """Flink's context asks both ways, and they must agree."""
    raw = state.cell().elements.get(b"1") if state.cell().is_loaded else None
    value = await state.get(1)
    assert raw is None or value is not None or raw[1] == b"null"
    return value


MAPS: list[dict[int, str | None]] = [
    {3: "3", 5: "5", 23: None, 10: "10"},
    {12: "12", 24: None, 7: "7"},
    {15: "15", 25: None, 4: "4"},
]
CONTEXTS = {
    "value": Context(
        "value",
        [lambda s, n=n: s.update(f"test value{n}") for n in (1, 2, 3)],
        ["test value1", "test value2", "test value3"],
        lambda s: s.value(),
    ),
    "list": Context(
        "list",
        [lambda s, v=v: s.add_all(v) for v in ([5, 7, 10], [8, 9, 11], [1, 4])],
        [[5, 7, 10], [8, 9, 11], [1, 4]],
        lambda s: s.get(),
    ),
    "map of all entries": Context(
        "map",
        [all_entries(each) for each in MAPS],
        [shown_map(each) for each in MAPS],
        read_map,
        [],
    ),
    "map of one entry": Context(
        "map",
        [lambda s, n=n: s.put(1, f"value{n}") for n in (1, 2, 3)],
        ["value1", "value2", "value3"],
        read_entry,
    ),
    "reducing": Context(
        "reducing", [lambda s, n=n: s.add(n) for n in (5, 7, 6)], [5, 12, 6], lambda s: s.get()
    ),
    "aggregating": Context(
        "aggregating",
        [lambda s, n=n: s.add(n) for n in (5, 7, 6)],
        ["8", "15", "9"],
        lambda s: s.get(),
    ),
}


@pytest.fixture(params=CONTEXTS)
def context(request: pytest.FixtureRequest) -> Context:
    return CONTEXTS[request.param]


@pytest.fixture(params=LAYOUTS)
def make(request: pytest.FixtureRequest, stand: Stand, context: Context) -> Callable[..., Driver]:
    """A driver of the context's state with a TTL."""

    def made(update: UpdateType, visibility: Visibility, ttl_ms: int = 100) -> Driver:
        ttl = TtlConfig(ttl_ms, update, visibility)
        return Driver(stand, descriptor(context.kind, ttl), LAYOUTS[request.param])

    return made


def test_a_value_that_does_not_exist(make: Callable[..., Driver], context: Context) -> None:
    assert make(WRITE, NEVER).at(0, context.get) == context.empty


def test_exact_expiration_on_write(make: Callable[..., Driver], context: Context) -> None:
    state = make(WRITE, NEVER)

    state.at(0, context.updates[0])
    assert state.at(20, context.get) == context.visible[0]
    state.at(50, context.updates[1])
    assert state.at(120, context.get) == context.visible[1]
    state.at(170, context.updates[2])
    assert state.at(220, context.get) == context.visible[2]
    assert state.at(300, context.get) == context.empty
    assert state.names() == []


def test_relaxed_expiration_on_write(make: Callable[..., Driver], context: Context) -> None:
    state = make(WRITE, RELAXED)

    state.at(0, context.updates[0])
    assert state.at(120, context.get) == context.visible[0]
    assert state.names() == []
    assert state.at(120, context.get) == context.empty


def test_exact_expiration_on_read(make: Callable[..., Driver], context: Context) -> None:
    state = make(READ, NEVER)

    state.at(0, context.updates[0])
    assert state.at(50, context.get) == context.visible[0]
    assert state.at(120, context.get) == context.visible[0]
    assert state.at(250, context.get) == context.empty
    assert state.names() == []


def test_relaxed_expiration_on_read(make: Callable[..., Driver], context: Context) -> None:
    state = make(READ, RELAXED)

    state.at(0, context.updates[0])
    assert state.at(50, context.get) == context.visible[0]
    assert state.at(170, context.get) == context.visible[0]
    assert state.at(170, context.get) == context.empty
    assert state.names() == []


def test_the_expiration_time_may_overflow(make: Callable[..., Driver], context: Context) -> None:
    state = make(WRITE, NEVER, TIME_MAX)

    state.at(10, context.updates[0])
    assert state.at(50, context.get) == context.visible[0]


@pytest.mark.parametrize("by", ["key", "namespace"])
def test_several_keys_or_namespaces(make: Callable[..., Driver], context: Context, by: str) -> None:
    state = make(WRITE, NEVER)

    def at(ms: int, which: int, operation: Operation) -> Any:
        if by == "key":
            return state.at(ms, operation, key=f"k{which}")
        return state.at(ms, operation, namespace=b"[%d]" % which)

    at(0, 2, context.updates[0])
    at(50, 1, context.updates[0])
    at(50, 2, context.updates[1])
    assert at(120, 1, context.get) == context.visible[0]
    assert at(120, 2, context.get) == context.visible[1]
    at(170, 2, context.updates[2])
    assert at(230, 1, context.get) == context.empty
    assert at(230, 2, context.get) == context.visible[2]
    assert at(300, 1, context.get) == context.empty
    assert at(300, 2, context.get) == context.empty
    assert state.names() == []


def test_a_restart_goes_on_with_what_was_closed(
    make: Callable[..., Driver], context: Context
) -> None:
    """SnapshotChangeRestore, with the loss of an epoch that was committed and never closed."""
    state = make(WRITE, NEVER)
    state.at(0, context.updates[0], key="k1")
    state.at(50, context.updates[1], key="k1")
    state.at(100, context.updates[0], key="k2")

    lost = state.session(170)
    handle = state.handle(lost)
    for key, update in ((b'["k1"]', context.updates[2]), (b'["k2"]', context.updates[1])):
        lost.set_key(key, 0)
        run_now(update(handle), lost)
    state.sessions.transaction.commit(lost.writes())
    state.sessions.reopen()

    assert state.at(180, context.get, key="k1") == context.empty
    assert state.at(180, context.get, key="k2") == context.visible[0]


def test_setting_none_removes_a_value(stand: Stand) -> None:
    ttl = TtlConfig(100, WRITE, RELAXED)
    state = Driver(stand, descriptor("value", ttl), LAYOUTS["packed"])

    state.at(0, lambda s: s.update("test value2"))
    assert state.at(0, lambda s: s.value()) == "test value2"
    state.at(0, lambda s: s.update(None))
    assert state.at(0, lambda s: s.value()) is None
    assert state.names() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_map_entry_may_be_none(stand: Stand, layout: str) -> None:
    """Flink's context of null elements."""
    ttl = TtlConfig(100, WRITE, NEVER)
    state = Driver(stand, descriptor("map", ttl), LAYOUTS[layout])

    state.at(0, lambda s: s.put(1, None))

    assert state.at(50, lambda s: s.get(1)) is None
    assert state.at(50, lambda s: s.contains(1))
    assert not state.at(100, lambda s: s.contains(1))
    assert state.names() == []


EXPIRED, EXPIRED_AND_UPDATED, UNEXPIRED, FINAL, TARGET = (b"[%d]" % n for n in range(5))
MERGES = [
    (0, [EXPIRED, EXPIRED_AND_UPDATED]),
    (120, [EXPIRED_AND_UPDATED, UNEXPIRED]),
    (150, [EXPIRED_AND_UPDATED, UNEXPIRED, FINAL]),
]
"""When which namespaces get two updates each, numbered as they come; all is merged at 230."""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("kind", "merged"),
    [
        # What came at 150: elements 8 to 13, by namespace in the order in which they are merged.
        ("list", [8, 9, 10, 11, 12, 13]),
        # Accumulators count from their last update: 4 to 7 of 120, 8 to 13 of 150.
        ("reducing", sum(range(4, 14))),
        # The same, and three namespaces that began at 3.
        ("aggregating", str(sum(range(4, 14)) + 9)),
    ],
)
def test_merging_namespaces(stand: Stand, layout: str, kind: str, merged: Any) -> None:
    state = Driver(stand, descriptor(kind, TtlConfig(100, WRITE, NEVER)), LAYOUTS[layout])
    number = 0
    for ms, namespaces in MERGES:
        for namespace in namespaces:
            for _ in range(2):
                state.at(ms, lambda s, n=number: s.add(n), namespace=namespace)
                number += 1

    sources = [EXPIRED, EXPIRED_AND_UPDATED, UNEXPIRED, FINAL]
    state.at(230, lambda s: s.merge_namespaces(TARGET, sources))

    assert state.at(230, lambda s: s.get(), namespace=TARGET) == merged
    assert all(state.at(230, lambda s: s.get(), namespace=each) is None for each in sources)
    assert state.at(330, lambda s: s.get(), namespace=TARGET) is None
    assert state.names() == []
