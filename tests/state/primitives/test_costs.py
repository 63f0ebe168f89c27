"""What each operation costs, exactly: round trips, commands, and fields read and written.

Each row is one operation, alone in its epoch, on a key with `SIZE` elements. Two commands of each
epoch are the protocol's: one begins in the key group, one commits; an epoch without writes has no
commit, and one without reads begins with its commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from state.descriptors import JSON
from state.execution.sync import run_now
from state.primitives.session import stored_key
from state.testing.sessions import LAYOUTS
from state.ttl import DISABLED, TtlConfig, UpdateType
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

SIZE = 10
WRITE = TtlConfig(100)
READ = TtlConfig(100, UpdateType.ON_READ_AND_WRITE)
FILL: dict[str, Operation] = {
    "value": lambda s: s.update(1),
    "reducing": lambda s: s.add(1),
    "aggregating": lambda s: s.add(1),
    "list": lambda s: s.add_all(range(SIZE)),
    "map": lambda s: s.put_all({n: n for n in range(SIZE)}),
}


class Cost(NamedTuple):
    round_trips: int
    commands: int
    read: int
    written: int


NOTHING_READ = 1, 2
"""Round trips and commands of an epoch that only writes: begin and commit in one."""
ONE_READ = 1, 2
ONE_READ_AND_COMMIT = 2, 3
TWO_READS = 2, 3
TWO_READS_AND_COMMIT = 3, 4

FIELD_COSTS: list[tuple[str, Operation, TtlConfig, Cost]] = [
    ("value", lambda s: s.value(), DISABLED, Cost(*ONE_READ, 1, 0)),
    ("value", lambda s: s.value(), WRITE, Cost(*ONE_READ, 1, 0)),
    # The element with its new stamp; the key stays in the expiry index by its old one.
    ("value", lambda s: s.value(), READ, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("value", lambda s: s.update(2), DISABLED, Cost(*NOTHING_READ, 0, 1)),
    # What was there is not known, so neither is its place in the index.
    ("value", lambda s: s.update(2), WRITE, Cost(*NOTHING_READ, 0, 2)),
    ("value", lambda s: s.update(None), WRITE, Cost(*NOTHING_READ, 0, 2)),
    ("value", lambda s: s.clear(), DISABLED, Cost(*NOTHING_READ, 0, 1)),
    ("value", lambda s: s.clear(), WRITE, Cost(*NOTHING_READ, 0, 2)),
    ("reducing", lambda s: s.get(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("reducing", lambda s: s.add(2), DISABLED, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("reducing", lambda s: s.add(2), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("reducing", lambda s: s.clear(), WRITE, Cost(*NOTHING_READ, 0, 2)),
    ("aggregating", lambda s: s.get(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("aggregating", lambda s: s.add(2), DISABLED, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("aggregating", lambda s: s.add(2), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
]
"""One field a key, and with TTL one place in the index, written when it is new or gone."""

PACKED_COSTS: list[tuple[str, Operation, TtlConfig, Cost]] = [
    ("list", lambda s: s.get(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("list", lambda s: s.get(), READ, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("list", lambda s: s.add(2), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("list", lambda s: s.add_all([1, 2, 3]), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("list", lambda s: s.update([1, 2]), DISABLED, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("list", lambda s: s.update([1, 2]), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("list", lambda s: s.is_empty(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("list", lambda s: s.clear(), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 2)),
    ("map", lambda s: s.get(1), WRITE, Cost(*ONE_READ, 1, 0)),
    ("map", lambda s: s.contains(1), READ, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("map", lambda s: s.put(1, 9), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("map", lambda s: s.put(100, 9), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("map", lambda s: s.remove(1), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 1)),
    ("map", lambda s: s.remove(100), WRITE, Cost(*ONE_READ, 1, 0)),
    ("map", lambda s: s.entries(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("map", lambda s: s.is_empty(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("map", lambda s: s.clear(), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 2)),
]
"""A packed collection is one field."""

SPREAD_COSTS: list[tuple[str, Operation, TtlConfig, Cost]] = [
    # The header, then the elements.
    ("list", lambda s: s.get(), WRITE, Cost(*TWO_READS, 1 + SIZE, 0)),
    ("list", lambda s: s.get(), READ, Cost(*TWO_READS_AND_COMMIT, 1 + SIZE, 2 * SIZE + 1)),
    # The header only; written are the row, its stamp, the header.
    ("list", lambda s: s.add(2), DISABLED, Cost(*ONE_READ_AND_COMMIT, 1, 2)),
    ("list", lambda s: s.add(2), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 3)),
    ("list", lambda s: s.add_all([1, 2, 3]), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 7)),
    # Two structures dropped, two rows with their stamps, the header.
    ("list", lambda s: s.update([1, 2]), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 7)),
    ("list", lambda s: s.is_empty(), WRITE, Cost(*ONE_READ, 1, 0)),
    # One structure dropped, or two with stamps, the header, the index.
    ("list", lambda s: s.clear(), DISABLED, Cost(*ONE_READ_AND_COMMIT, 1, 2)),
    ("list", lambda s: s.clear(), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 4)),
    ("map", lambda s: s.get(1), WRITE, Cost(*TWO_READS, 2, 0)),
    ("map", lambda s: s.get(1), READ, Cost(*TWO_READS_AND_COMMIT, 2, 2)),
    ("map", lambda s: s.contains(100), WRITE, Cost(*TWO_READS, 2, 0)),
    ("map", lambda s: s.put(1, 9), DISABLED, Cost(*TWO_READS_AND_COMMIT, 2, 1)),
    ("map", lambda s: s.put(1, 9), WRITE, Cost(*TWO_READS_AND_COMMIT, 2, 2)),
    ("map", lambda s: s.put(100, 9), WRITE, Cost(*TWO_READS_AND_COMMIT, 2, 3)),
    ("map", lambda s: s.put_all({1: 9, 100: 9}), WRITE, Cost(*TWO_READS_AND_COMMIT, 3, 5)),
    ("map", lambda s: s.remove(1), DISABLED, Cost(*TWO_READS_AND_COMMIT, 2, 2)),
    ("map", lambda s: s.remove(1), WRITE, Cost(*TWO_READS_AND_COMMIT, 2, 3)),
    ("map", lambda s: s.remove(100), WRITE, Cost(*TWO_READS, 2, 0)),
    ("map", lambda s: s.entries(), WRITE, Cost(*TWO_READS, 1 + SIZE, 0)),
    ("map", lambda s: s.is_empty(), WRITE, Cost(*ONE_READ, 1, 0)),
    ("map", lambda s: s.clear(), WRITE, Cost(*ONE_READ_AND_COMMIT, 1, 4)),
]
"""A header, a row an element, and with TTL a stamp an element."""

ROWS = [
    *(("packed", *row) for row in FIELD_COSTS),
    *(("packed", *row) for row in PACKED_COSTS),
    *(("spread", *row) for row in SPREAD_COSTS),
]


def cost_of(state: Driver) -> Cost:
    cost = state.cost
    return Cost(cost.round_trips, cost.commands, cost.reads, cost.writes)


@pytest.mark.parametrize(("layout", "kind", "operation", "ttl", "expected"), ROWS)
def test_an_operation_costs(
    stand: Stand, layout: str, kind: str, operation: Operation, ttl: TtlConfig, expected: Cost
) -> None:
    state = Driver(stand, descriptor(kind, ttl), LAYOUTS[layout])
    state.at(0, FILL[kind])

    state.at(50, operation)

    assert cost_of(state) == expected


@pytest.mark.parametrize(
    ("kind", "operation"),
    [
        ("list", lambda s: s.add(2)),
        ("list", lambda s: s.clear()),
        ("map", lambda s: s.get(1)),
        ("map", lambda s: s.put(1, 9)),
        ("map", lambda s: s.put(5000, 9)),
        ("map", lambda s: s.remove(1)),
        ("map", lambda s: s.clear()),
    ],
)
def test_the_size_of_a_spread_collection_does_not_matter(
    stand: Stand, kind: str, operation: Operation
) -> None:
    state = Driver(stand, descriptor(kind, WRITE), LAYOUTS["spread"])
    state.at(0, FILL[kind], key="small")
    large = range(2000)
    state.at(0, lambda s: s.add_all(large) if kind == "list" else s.put_all({n: n for n in large}))

    state.at(50, operation, key="small")
    small = cost_of(state)
    state.at(50, operation)

    assert cost_of(state) == small


def test_the_keys_of_an_epoch_share_their_round_trips(stand: Stand) -> None:
    state = Driver(stand, descriptor("map", WRITE), LAYOUTS["packed"])
    keys = [f"k{n}" for n in range(20)]
    session = state.session(0)
    handle = state.handle(session)

    session.prefetch([(state.descriptor, [(stored_key(JSON.encode([k])), 0) for k in keys])])
    for each in keys:
        session.set_key(JSON.encode([each]), 0)
        run_now(handle.put(1, 1), session)
        run_now(handle.get(1), session)
    state.sessions.end(session)

    # One HMGET for all keys; an HSET and a ZADD, both variadic, in one commit.
    assert cost_of(state) == Cost(2, 3, len(keys), 2 * len(keys))


def test_what_was_loaded_is_not_read_again(stand: Stand) -> None:
    state = Driver(stand, descriptor("map", WRITE), LAYOUTS["spread"])
    state.at(0, FILL["map"])

    state.together(
        50, lambda s: s.get(1), lambda s: s.put(1, 2), lambda s: s.remove(1), lambda s: s.get(1)
    )

    # As the removal alone.
    assert cost_of(state) == Cost(*TWO_READS_AND_COMMIT, 2, 3)


def test_an_epoch_that_changes_nothing_in_the_end_writes_nothing(stand: Stand) -> None:
    for kind in ("list", "map"):
        for layout, thresholds in LAYOUTS.items():
            state = Driver(stand, descriptor(kind, name=f"{kind}_{layout}"), thresholds)
            session = state.session(0)
            handle = state.handle(session)
            session.set_key(b'["k"]', 0)
            run_now(FILL[kind](handle), session)
            run_now(handle.clear(), session)

            assert session.writes() == {}
