"""What each operation on a multiset costs, exactly, and that the length of a history is no part.

Each row is one operation, alone in its epoch. Two commands of each epoch are the protocol's: one
begins in the key group, one commits; an epoch without writes has no commit.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from state.execution.sync import run_now
from state.multiset.index import (
    BUCKET_ENTRIES,
    LONG_BUCKET_ENTRIES,
    LONG_ENTRIES,
    bucket_of,
    buckets_for,
    origin_of,
)
from state.primitives.multiset_text import match_digest
from state.testing.multisets import multiset
from state.testing.sessions import LAYOUTS
from state.testing.stand import heap_stand
from state.ttl import DISABLED, TtlConfig, UpdateType
from tests.state.primitives.driver import Driver

if TYPE_CHECKING:
    from state.primitives.session import Writes
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

WRITE = TtlConfig(100)
READ = TtlConfig(100, UpdateType.ON_READ_AND_WRITE)
SHORT, LONG = 30, 10_008
"""Both numbers leave a newest block that holds several entries and takes more."""


class Cost(NamedTuple):
    round_trips: int
    commands: int
    read: int
    written: int


PACKED: list[tuple[Operation, TtlConfig, Cost]] = [
    (lambda s: s.append([0, 0]), DISABLED, Cost(2, 3, 1, 1)),
    (lambda s: s.append([0, 0]), WRITE, Cost(2, 3, 1, 1)),
    (lambda s: s.add([5, 1]), WRITE, Cost(2, 3, 1, 1)),
    # The oldest entry goes; the next one is as old.
    (lambda s: s.remove([1, 0]), WRITE, Cost(2, 3, 1, 1)),
    (lambda s: s.remove([0, 1]), WRITE, Cost(1, 2, 1, 0)),
    (lambda s: s.find([5, 1]), WRITE, Cost(1, 2, 1, 0)),
    (lambda s: s.last(), WRITE, Cost(1, 2, 1, 0)),
    (lambda s: s.last(), READ, Cost(2, 3, 1, 1)),
    (lambda s: s.entries(), WRITE, Cost(1, 2, 1, 0)),
    (lambda s: s.size(), WRITE, Cost(1, 2, 1, 0)),
    (lambda s: s.clear(), DISABLED, Cost(2, 3, 1, 1)),
    # The history and its place in the expiry index.
    (lambda s: s.clear(), WRITE, Cost(2, 3, 1, 2)),
]
"""A packed history is one field."""

SPREAD: list[tuple[Operation, TtlConfig, Cost]] = [
    # Header; index, newest block. Written: header, index, block; with TTL the expiry index.
    (lambda s: s.append([0, 0]), DISABLED, Cost(3, 5, 3, 3)),
    (lambda s: s.append([0, 0]), WRITE, Cost(3, 6, 5, 4)),
    (lambda s: s.add([0, 0]), DISABLED, Cost(3, 5, 3, 3)),
    # And the block of the match, which alone is written; its oldest stamp is that of another.
    (lambda s: s.add([5, 1]), DISABLED, Cost(4, 6, 4, 1)),
    (lambda s: s.add([5, 1]), WRITE, Cost(4, 7, 6, 2)),
    (lambda s: s.remove([5, 0]), DISABLED, Cost(4, 6, 4, 3)),
    (lambda s: s.remove([5, 0]), WRITE, Cost(4, 7, 6, 4)),
    (lambda s: s.remove([0, 1]), DISABLED, Cost(2, 4, 3, 0)),
    (lambda s: s.remove([0, 1]), WRITE, Cost(2, 5, 5, 0)),
    (lambda s: s.find([5, 1]), DISABLED, Cost(3, 4, 3, 0)),
    (lambda s: s.last(), DISABLED, Cost(2, 3, 2, 0)),
    (lambda s: s.last(), WRITE, Cost(2, 4, 4, 0)),
    # The block and the expiry index; the block's oldest stamp is that of another entry.
    (lambda s: s.last(), READ, Cost(3, 5, 4, 2)),
    # The header; two of the order; the block.
    (lambda s: s.first(), DISABLED, Cost(3, 4, 4, 0)),
    (lambda s: s.first(), WRITE, Cost(3, 5, 6, 0)),
    # The header; the block, and the order before it: here there is one block.
    (lambda s: s.entry_before(20), DISABLED, Cost(2, 4, 3, 0)),
    (lambda s: s.size(), DISABLED, Cost(1, 2, 1, 0)),
    (lambda s: s.size(), WRITE, Cost(2, 3, 3, 0)),
    # Four structures dropped and the header; with TTL the expiry index, too.
    (lambda s: s.clear(), DISABLED, Cost(2, 3, 1, 5)),
    (lambda s: s.clear(), WRITE, Cost(2, 3, 1, 6)),
]


def cost_of(state: Driver) -> Cost:
    cost = state.cost
    return Cost(cost.round_trips, cost.commands, cost.reads, cost.writes)


@cache
def writes_of(ttl: TtlConfig, layout: str, size: int) -> Writes:
    """What an epoch writes that appends so many entries to an empty history."""
    state = Driver(heap_stand(), multiset(ttl), LAYOUTS[layout])
    session = state.session(0)
    session.set_key(b'["k"]', 0)
    for n in range(1, size + 1):
        run_now(session.multiset(state.descriptor).append([n, 0]), session)
    return session.writes()


def filled(stand: Stand, ttl: TtlConfig, layout: str, size: int) -> Driver:
    state = Driver(stand, multiset(ttl), LAYOUTS[layout])
    state.session(0)
    state.sessions.commit(writes_of(ttl, layout, size))
    return state


@pytest.mark.parametrize(("operation", "ttl", "expected"), PACKED)
def test_a_packed_history_costs(
    stand: Stand, operation: Operation, ttl: TtlConfig, expected: Cost
) -> None:
    state = filled(stand, ttl, "packed", SHORT)

    state.at(50, operation)

    assert cost_of(state) == expected


@pytest.mark.parametrize("size", [SHORT, LONG])
@pytest.mark.parametrize(("operation", "ttl", "expected"), SPREAD)
def test_a_spread_history_costs(
    stand: Stand, operation: Operation, ttl: TtlConfig, expected: Cost, size: int
) -> None:
    state = filled(stand, ttl, "spread", size)

    state.at(50, operation)

    assert cost_of(state) == expected


@pytest.mark.parametrize("size", [SHORT, LONG])
def test_removing_the_newest_entry_costs(stand: Stand, size: int) -> None:
    state = filled(stand, DISABLED, "spread", size)

    state.at(0, lambda s: s.remove([size, 0]))
    assert cost_of(state) == Cost(3, 5, 3, 3)

    for n in range(size - 1, size // 16 * 16, -1):
        state.at(0, lambda s, n=n: s.remove([n, 0]))
    # The last one of its block: then two of the order, and the block before it. Written are the
    # header, index, block, its place in the order and its stamp.
    state.at(0, lambda s: s.remove([size // 16 * 16, 0]))
    assert cost_of(state) == Cost(5, 7, 4 + 1 + (size == LONG), 5)
    # Where the newest block is gone, it is looked for in vain, and the order is asked.
    state.at(0, lambda s: s.last())
    assert cost_of(state) == Cost(4, 5, 3 + 1 + (size == LONG), 0)


@pytest.mark.parametrize("size", [SHORT, LONG])
def test_neighbours_cost(stand: Stand, size: int) -> None:
    state = filled(stand, DISABLED, "spread", size)
    two_of_the_order = 2 if size == LONG else 0

    # Behind the second block a short history has none, which its header tells.
    state.at(0, lambda s: s.entry_after(20))
    assert cost_of(state) == Cost(2, 4 if size == LONG else 3, 2 + two_of_the_order, 0)

    # The neighbour is in another block: that is read, too.
    state.together(0, lambda s: s.remove([16, 0]), lambda s: s.remove([15, 0]))
    state.at(0, lambda s: s.entry_before(17))
    assert cost_of(state) == Cost(3, 5, 4, 0)
    state.at(0, lambda s: s.entry_after(14))
    assert cost_of(state) == Cost(3, 5, 3 + (2 if size == LONG else 1), 0)


@pytest.mark.parametrize("size", [SHORT, LONG])
def test_a_new_block_costs(stand: Stand, size: int) -> None:
    state = filled(stand, DISABLED, "spread", size // 16 * 16 + 15)

    state.at(0, lambda s: s.append([0, 0]))

    # Header; index. Written are these, the block, its place in the order and its stamp.
    assert cost_of(state) == Cost(3, 4, 2, 5)


@pytest.mark.parametrize("size", [10 * BUCKET_ENTRIES, LONG_ENTRIES + 100 * LONG_BUCKET_ENTRIES])
def test_an_addition_that_splits_a_bucket_costs(stand: Stand, size: int) -> None:
    buckets = buckets_for(size)
    state = filled(stand, DISABLED, "spread", size)
    split = {origin_of(buckets, buckets), buckets}
    # A row whose own bucket is another one than those of the split.
    n = next(
        n
        for n in range(20_000, 20_100)
        if bucket_of(match_digest(b"[%d]" % n), buckets + 1) not in split
    )

    state.at(0, lambda s: s.append([n, 0]))

    # As any addition, and the bucket that is split; it and its other part are written.
    assert cost_of(state) == Cost(3, 5, 3 + 1, 3 + 2)


def test_expiry_costs_its_blocks_and_buckets(stand: Stand) -> None:
    state = filled(stand, WRITE, "spread", 31)
    state.together(50, *(lambda s, n=n: s.append([n, 0]) for n in range(32, 100)))

    state.at(100, lambda s: s.size())

    # Header; two stamps, both due; all seven stamps; two blocks; all four buckets. Written are the
    # header, the buckets, two blocks with their order and stamps, and the expiry index.
    assert cost_of(state) == Cost(6, 7, 1 + 2 + 7 + 2 + 4, 1 + 4 + 2 * 3 + 1)


def test_what_was_loaded_is_not_read_again(stand: Stand) -> None:
    state = filled(stand, DISABLED, "spread", LONG)

    state.together(
        0,
        lambda s: s.remove([5, 0]),
        lambda s: s.append([5, 0]),
        lambda s: s.last(),
        lambda s: s.add([5, 1]),
        lambda s: s.size(),
    )

    # As the removal alone, and one more block written.
    assert cost_of(state) == Cost(4, 6, 4, 4)


def test_an_epoch_that_changes_nothing_in_the_end_writes_nothing(stand: Stand) -> None:
    for layout in LAYOUTS:
        state = Driver(stand, multiset(WRITE, name=layout), LAYOUTS[layout])
        state.together(0, lambda s: s.append([1, 1]), lambda s: s.remove([1, 1]))

        assert cost_of(state).written == 0
