"""The worked example of FLIP-25, and what FLIP-544 says of the TTL of a sequenced multiset.

FLIP-25's first design has an example: a state of TTL 16 with onReadWrite is made at 0 and gets a
timer at 16; it is updated at 2 and read at 15; the timer fires at 16, sees 15, does nothing and is
set anew for 31. At most one timer stands for a state at any time.

FLIP-544 proposes a time for each entry, and to expire entries in the order in which they were
inserted: from the head, up to the first that lives. It names the price: an entry in the middle that
was updated is young, and what lies behind it waits for it although it is older. Here a key has its
entries by their stamps, too, so nothing waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashGet, SortedRange
from state.primitives.multisets import (
    Added,
    NotFound,
    RemovedAll,
    RemovedLast,
    RemovedOther,
    SequencedRow,
)
from state.testing.multisets import multiset
from state.testing.sessions import LAYOUTS
from state.ttl import Cleanup, TtlConfig, UpdateType
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

BOTH = pytest.mark.parametrize("layout", LAYOUTS)
FLIP_25 = TtlConfig(
    16, UpdateType.ON_READ_AND_WRITE, cleanup=Cleanup(by_timer=True, background=False)
)
"""TTL 16, onReadWrite, clean-up by timers."""
EXAMPLE: dict[str, tuple[Operation, Operation, Operation, Any]] = {
    "value": (lambda s: s.update(1), lambda s: s.update(2), lambda s: s.value(), 2),
    "reducing": (lambda s: s.add(1), lambda s: s.add(2), lambda s: s.get(), 3),
    "aggregating": (lambda s: s.add(1), lambda s: s.add(2), lambda s: s.get(), "6"),
    "list": (lambda s: s.add(1), lambda s: s.update([2]), lambda s: s.get(), [2]),
    "map": (lambda s: s.put(1, 1), lambda s: s.put(1, 2), lambda s: s.get(1), 2),
    "sorted_map": (
        lambda s: s.add((1,), 1),
        lambda s: s.put((1,), [2]),
        lambda s: s.values_at((1,)),
        [2],
    ),
    "multiset": (
        lambda s: s.add(["k", 1]),
        lambda s: s.add(["k", 1]),
        lambda s: s.find(["k", 1]),
        SequencedRow(1, ["k", 1], 2),
    ),
}
"""By kind: what makes A, updates it and reads it, and what the read gives."""


@BOTH
@pytest.mark.parametrize("kind", EXAMPLE)
def test_the_worked_example_of_flip_25(stand: Stand, kind: str, layout: str) -> None:
    create, update, read, shown = EXAMPLE[kind]
    state = Driver(stand, descriptor(kind, FLIP_25), LAYOUTS[layout])

    def timers() -> list[tuple[bytes, float]]:
        (scores,) = state.sessions.fetch(SortedRange(0, b"state:expiry", -1, 10**15))
        return [(key, accessed_ms + 16) for key, accessed_ms in scores]

    state.at(0, create, key="K")
    assert timers() == [(b'["K"]', 16)]
    state.at(2, update, key="K")
    [(_, at_ms)] = timers()
    # The one timer stays as it is, or is put off by the update itself, where that did not look at
    # what was there or knows when all of the key is due.
    assert at_ms in (16, 18)
    assert state.at(15, read, key="K") == shown
    assert len(timers()) == 1
    # What fires until 18 sees 15, and is set anew for 31.
    assert [state.clean(ms) for ms in (16, 18)] == [0, 0]
    assert timers() == [(b'["K"]', 31)]
    assert state.clean(30) == 0
    assert state.clean(31) == 1
    assert state.names() == []
    assert not state.at(31, read, key="K")


def test_the_stamps_of_flip_25s_example(stand: Stand) -> None:
    """`lastModifiedTs` as the FLIP writes it: 0, 2, 15."""
    state = Driver(stand, descriptor("value", FLIP_25), LAYOUTS["packed"])
    create, update, read, _ = EXAMPLE["value"]

    seen = []
    for ms, operation in ((0, create), (2, update), (15, read)):
        state.at(ms, operation, key="K")
        seen += state.sessions.fetch(HashGet(0, b"state", [b'["K"]']))

    assert seen == [[b"@0 1"], [b"@2 2"], [b"@15 2"]]


@pytest.fixture(params=LAYOUTS)
def history(request: pytest.FixtureRequest, stand: Stand) -> Driver:
    """VALUE and MAP, with TTL 100: rows of a key and a number, that the key tells apart."""
    return Driver(stand, multiset(TtlConfig(100)), LAYOUTS[request.param])


def append(*row: Any) -> Operation:
    return lambda s: s.append([*row])


def add(*row: Any) -> Operation:
    return lambda s: s.add([*row])


def remove(*row: Any) -> Operation:
    return lambda s: s.remove([*row])


def rows(state: Driver, ms: int) -> list[str]:
    return [f"{each.row[0]}{each.row[1]}" for each in state.at(ms, lambda s: s.entries())]


def test_flip_544_entries_expire_one_by_one_in_insertion_order(history: Driver) -> None:
    """And not the whole history at once, nor with its youngest entry, as LEGACY has it."""
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c")):
        history.at(at_ms, append(key, 1))

    seen = [rows(history, ms) for ms in (99, 100, 109, 110, 119, 120)]

    assert seen == [["a1", "b1", "c1"], ["b1", "c1"], ["b1", "c1"], ["c1"], ["c1"], []]
    assert history.names() == []


def test_flip_544_appending_does_not_keep_older_entries(history: Driver) -> None:
    """Each append is a write to the key; only its own entry lives on by it."""
    for at_ms in range(0, 300, 30):
        history.at(at_ms, append("k", at_ms))

    assert rows(history, 299) == ["k210", "k240", "k270"]


def test_flip_544_an_entry_updated_in_the_middle_keeps_its_place_and_lives_on(
    history: Driver,
) -> None:
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c")):
        history.at(at_ms, append(key, 1))

    assert history.at(90, add("b", 2)) == Added(was_empty=False, size=3)

    assert rows(history, 119) == ["b2", "c1"]
    assert rows(history, 189) == ["b2"]
    assert rows(history, 190) == []


def test_flip_544s_weakness_is_not_here(history: Driver) -> None:
    """What lies behind an entry that was updated goes at its own time, cleaned or looked at."""
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c"), (30, "d")):
        history.at(at_ms, append(key, 1))
    history.at(90, add("b", 2))

    assert [history.clean(ms) for ms in (100, 110, 119, 120, 129, 130)] == [1, 0, 0, 1, 0, 1]
    assert rows(history, 130) == ["b2"]
    assert history.clean(190) == 1
    assert history.names() == []


def test_flip_544s_weakness_is_not_at_the_head_either(history: Driver) -> None:
    """Expiring from the head would stop here at once, and keep all for another TTL."""
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c")):
        history.at(at_ms, append(key, 1))
    history.at(95, add("a", 2))

    assert [rows(history, ms) for ms in (109, 110, 120)] == [
        ["a2", "b1", "c1"],
        ["a2", "c1"],
        ["a2"],
    ]


def test_flip_544_what_has_expired_is_not_there_for_a_retraction(history: Driver) -> None:
    """Found or not, last or not and what is shown then: all as if it had been removed before."""
    for at_ms, key in ((0, "a"), (50, "b"), (60, "c")):
        history.at(at_ms, append(key, 1))

    assert history.at(100, remove("a", 1)) == NotFound(2)
    removed = history.at(100, remove("c", 1))
    assert isinstance(removed, RemovedLast)
    assert removed.now_last.row == ["b", 1]
    assert isinstance(history.at(149, remove("b", 1)), RemovedAll)
    assert history.names() == []


def test_flip_544_the_row_shown_is_the_newest_that_lives(history: Driver) -> None:
    """The last entry is older than the one before it: it goes first, and the other is shown."""
    history.at(0, append("a", 1))
    history.at(10, append("b", 1))
    history.at(60, add("a", 2))

    assert history.at(109, lambda s: s.last()).row == ["b", 1]
    assert history.at(110, lambda s: s.last()).row == ["a", 2]
    assert isinstance(history.at(110, remove("a", 2)), RemovedAll)


def test_flip_544_equal_rows_expire_apart(stand: Stand) -> None:
    """Without an upsert key a row may be there twice; a retraction takes the oldest that lives."""
    state = Driver(stand, multiset(TtlConfig(100), match=None), LAYOUTS["spread"])
    for at_ms, row in ((0, "x"), (10, "y"), (20, "x")):
        state.at(at_ms, append(row, 1))

    assert rows(state, 100) == ["y1", "x1"]
    removed = state.at(100, remove("x", 1))
    assert isinstance(removed, RemovedLast)
    assert removed.now_last.row == ["y", 1]


def test_flip_544_removing_an_entry_leaves_the_stamps_of_the_others(history: Driver) -> None:
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c")):
        history.at(at_ms, append(key, 1))

    assert isinstance(history.at(50, remove("b", 1)), RemovedOther)

    assert [rows(history, ms) for ms in (99, 100, 120)] == [["a1", "c1"], ["c1"], []]
