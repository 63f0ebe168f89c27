"""The sequenced multiset: Flink's own scenarios, time to live, and what is not ours."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashDelete, HashPut, SortedPut
from state.descriptors import JSON
from state.errors import CodecMismatch, StateCorrupt
from state.execution.sync import run_now
from state.multiset.index import write_bucket
from state.multiset.strategy import Thresholds
from state.primitives.multiset_text import match_digest, shortened
from state.primitives.multisets import (
    Added,
    NotFound,
    RemovedAll,
    RemovedLast,
    RemovedOther,
    SequencedRow,
)
from state.registry import register_states
from state.testing.multisets import ON_KEY, Committed, multiset
from state.testing.sessions import LAYOUTS, PACKED, SPREAD
from state.testing.stand import NODE
from state.ttl import DISABLED, Cleanup, TtlClock, TtlConfig, UpdateType, Visibility
from tests.state.primitives.driver import Driver

if TYPE_CHECKING:
    from state.testing.stand import Stand
    from tests.state.primitives.driver import Operation

TTL = TtlConfig(100)
KEY = b'["k"]'
K5 = match_digest(b'["k5"]')
FLINK_LAYOUTS = {
    "VALUE": PACKED,
    "MAP": SPREAD,
    "ADAPTIVE 0/1": Thresholds(high=1, low=0),
    "ADAPTIVE 1/2": Thresholds(high=2, low=1),
    "ADAPTIVE 0/10": Thresholds(high=10, low=0),
    "ADAPTIVE 9/10": Thresholds(high=10, low=9),
}
"""The settings of SequencedMultiSetStateTest, low/high."""


@pytest.fixture(params=FLINK_LAYOUTS)
def flink(request: pytest.FixtureRequest, stand: Stand) -> Driver:
    """Every operation is an epoch of its own, so each layout change happens."""
    return Driver(stand, multiset(), FLINK_LAYOUTS[request.param])


@pytest.fixture(params=LAYOUTS)
def thresholds(request: pytest.FixtureRequest) -> Thresholds:
    return LAYOUTS[request.param]


def add(key: str, value: Any = "") -> Operation:
    return lambda state: state.add([key, value])


def append(key: str, value: Any = "") -> Operation:
    return lambda state: state.append([key, value])


def remove(key: str, value: Any = "") -> Operation:
    return lambda state: state.remove([key, value])


def rows(state: Driver, ms: int = 0) -> list[list[Any]]:
    return [each.row for each in state.at(ms, lambda s: s.entries())]


def stamped_rows(state: Driver, ms: int = 0) -> list[tuple[list[Any], int]]:
    return [(each.row, each.stamp_ms) for each in state.at(ms, lambda s: s.entries())]


def removed_last(found: Any, key: str) -> int:
    """The size that a removal of the newest entry left; the newest is now the one of this key."""
    assert isinstance(found, RemovedLast)
    assert found.now_last.row[0] == key
    return found.size


def test_append(flink: Driver) -> None:
    given = [("k1", "x", 777), ("k1", "x", 778), ("k2", "y", 779), ("k1", "x", 777)]
    for key, value, ms in given:
        flink.at(ms, append(key, value))

    assert stamped_rows(flink) == [([key, value], ms) for key, value, ms in given]


def test_add_keeps_places(flink: Driver) -> None:
    for key, value, ms in [
        ("k1", "x", 777), ("k2", "x", 777), ("k2", "y", 778), ("k1", "y", 778)
    ]:  # fmt: skip  # a table: a case a line
        flink.at(ms, add(key, value))

    assert stamped_rows(flink) == [(["k1", "y"], 778), (["k2", "y"], 778)]


def test_remove(flink: Driver) -> None:
    assert flink.at(0, remove("1")) == NotFound(0)
    for key in "1234":
        flink.at(0, add(key, "v"))

    assert flink.at(0, remove("999")) == NotFound(4)
    assert removed_last(flink.at(0, remove("4")), "3") == 3
    assert removed_last(flink.at(0, remove("3")), "2") == 2
    assert flink.at(0, remove("1")) == RemovedOther(1)
    assert flink.at(0, remove("2", "value-to-return")) == RemovedAll()
    assert [flink.at(0, remove(key)) for key in "12"] == [NotFound(0), NotFound(0)]
    assert flink.names() == []


def test_add_after_removing_the_head(flink: Driver) -> None:
    for key in "12":
        flink.at(0, add(key))

    for key, other in ("12", "21"):
        assert flink.at(0, remove(key)) == RemovedOther(1)
        flink.at(0, add(key))
        assert [row[0] for row in rows(flink)] == [other, key]


def test_remove_takes_the_first_appended(flink: Driver) -> None:
    for value in ("v1", "v2", "v3"):
        flink.at(0, append("k", value))

    assert flink.at(0, remove("k")) == RemovedOther(2)
    assert rows(flink) == [["k", "v2"], ["k", "v3"]]
    assert flink.at(0, remove("k")) == RemovedOther(1)
    assert rows(flink) == [["k", "v3"]]
    assert flink.at(0, remove("k")) == RemovedAll()


def test_interleaved(flink: Driver) -> None:
    for key in "122":
        flink.at(0, append(key))

    assert flink.at(0, remove("2")) == RemovedOther(2)
    assert removed_last(flink.at(0, remove("2")), "1") == 1
    assert flink.at(0, remove("1")) == RemovedAll()


def test_return_values(flink: Driver) -> None:
    assert flink.at(0, add("1")) == Added(was_empty=True, size=1)
    assert flink.at(0, add("2")) == Added(was_empty=False, size=2)
    assert flink.at(0, remove("1")) == RemovedOther(1)
    assert flink.at(0, remove("2")) == RemovedAll()
    assert flink.at(0, add("1")) == Added(was_empty=True, size=1)


def test_adaptivity(stand: Stand) -> None:
    """Spread at `high` after an addition, packed at `low` after a removal, for each key alone."""
    state = Driver(stand, multiset(), Thresholds(high=10, low=5))

    def layout(key: bytes = KEY) -> str | None:
        return Committed(state.sessions, state.descriptor).layouts.get(key)

    for size in range(1, 13):
        state.at(size, append(f"k{size}"))
        assert layout() == ("spread" if size >= 10 else "packed")
    state.at(0, append("k1"), key="other")
    assert layout(b'["other"]') == "packed"
    for size in range(11, 2, -1):
        state.at(0, remove(f"k{size + 1}"))
        assert layout() == ("packed" if size <= 5 else "spread")
    assert stamped_rows(state) == [([f"k{n}", ""], n) for n in (1, 2, 3)]
    for size in range(4, 12):
        state.at(0, append(f"n{size}"))
    assert layout() == "spread"
    state.at(0, lambda s: s.clear())
    assert layout() is None
    state.at(0, append("k"))
    assert layout() == "packed"


def test_a_number_is_never_given_twice_while_there_are_entries(flink: Driver) -> None:
    """FLINK-39740: a replacement that is not the newest, then a new row."""
    for key in ("k1", "k2", "k1", "k3"):
        flink.at(0, add(key, key))
    assert rows(flink) == [["k1", "k1"], ["k2", "k2"], ["k3", "k3"]]
    assert removed_last(flink.at(0, remove("k3")), "k2") == 2

    flink.at(0, add("k4"))

    assert [each.sequence for each in flink.at(0, lambda s: s.entries())] == [1, 2, 4]


def test_rows_match_as_a_whole_where_nothing_else_is_said(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = Driver(stand, multiset(match=None), thresholds)
    for value in (1, 2, 1):
        state.at(0, append("k", value))

    assert state.at(0, remove("k", 3)) == NotFound(3)
    assert state.at(0, lambda s: s.find(["k", 1])) == SequencedRow(1, ["k", 1], 0)
    assert state.at(0, remove("k", 1)) == RemovedOther(2)
    assert state.at(0, add("k", 2)) == Added(was_empty=False, size=2)


def test_neighbours_are_found_from_any_number(stand: Stand, thresholds: Thresholds) -> None:
    state = Driver(stand, multiset(match=None), thresholds)
    for n in range(100):
        state.at(0, append("k", n))
    kept = [1, 2, 18, 60, 97]
    for n in range(100):
        if n + 1 not in kept:
            state.at(0, remove("k", n))

    def number(found: SequencedRow[Any] | None) -> int | None:
        return found and found.sequence

    for n in range(-2, 140):
        before = max((each for each in kept if each < n), default=None)
        after = min((each for each in kept if each > n), default=None)
        assert number(state.at(0, lambda s, n=n: s.entry_before(n))) == before
        assert number(state.at(0, lambda s, n=n: s.entry_after(n))) == after
    assert number(state.at(0, lambda s: s.first())) == 1
    assert number(state.at(0, lambda s: s.last())) == 97


# Time to live.


def test_an_entry_updated_in_the_middle_delays_no_older_one_behind_it(
    stand: Stand, thresholds: Thresholds
) -> None:
    """FLIP-544 lets expiry stop at the first live entry in insertion order; ours does not."""
    state = Driver(stand, multiset(TTL), thresholds)
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c"), (50, "a")):
        state.at(at_ms, add(key, at_ms))
    assert stamped_rows(state, 60) == [(["a", 50], 50), (["b", 10], 10), (["c", 20], 20)]

    assert [row[0] for row in rows(state, 109)] == ["a", "b", "c"]
    assert [row[0] for row in rows(state, 110)] == ["a", "c"]
    assert [row[0] for row in rows(state, 120)] == ["a"]
    assert rows(state, 150) == []
    assert state.names() == []


def test_an_entry_updated_in_the_middle_delays_nothing_in_the_background(
    stand: Stand, thresholds: Thresholds
) -> None:
    """The same, when nothing touches the key."""
    state = Driver(stand, multiset(TTL), thresholds)
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c"), (50, "a")):
        state.at(at_ms, add(key, at_ms))

    assert [state.clean(ms) for ms in (109, 110, 120, 149, 150)] == [0, 1, 1, 0, 1]
    assert state.names() == []


def test_expiry_in_insertion_order(stand: Stand, thresholds: Thresholds) -> None:
    """FLIP-544: entries expire one by one; what remains is what retractions find."""
    state = Driver(stand, multiset(TTL), thresholds)
    for at_ms, key in ((0, "a"), (30, "b"), (60, "c")):
        state.at(at_ms, append(key))

    assert state.at(100, remove("a")) == NotFound(2)
    assert removed_last(state.at(100, remove("c")), "b") == 1
    assert state.at(130, append("d")) == Added(was_empty=True, size=1)
    assert state.at(130, lambda s: s.first()) == SequencedRow(1, ["d", ""], 130)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (UpdateType.ON_CREATE, [0, 0]),
        (UpdateType.ON_CREATE_AND_WRITE, [50, 0]),
        (UpdateType.ON_READ_AND_WRITE, [60, 60]),
    ],
)
def test_which_accesses_count(
    stand: Stand, thresholds: Thresholds, update: UpdateType, expected: list[int]
) -> None:
    state = Driver(stand, multiset(TtlConfig(100, update)), thresholds)
    state.together(0, add("a"), add("b"))
    state.at(50, add("a"))
    rows(state, 60)

    assert [ms for _, ms in stamped_rows(state, 61)] == expected


def test_expired_entries_are_shown_once_where_that_is_asked_for(
    stand: Stand, thresholds: Thresholds
) -> None:
    ttl = TtlConfig(100, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    state = Driver(stand, multiset(ttl), thresholds)
    for at_ms, key in ((0, "a"), (10, "b"), (20, "c")):
        state.at(at_ms, append(key))

    assert state.at(200, lambda s: s.size()) == 3
    assert state.at(200, lambda s: s.last()) == SequencedRow(3, ["c", ""], 20)
    assert state.at(200, lambda s: s.last()) == SequencedRow(2, ["b", ""], 10)
    assert [row[0] for row in rows(state, 200)] == ["a"]
    assert state.names() == []


def test_a_read_that_removes_what_is_expired_lets_a_history_be_packed(stand: Stand) -> None:
    ttl = TtlConfig(100, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    state = Driver(stand, multiset(ttl), Thresholds(high=20, low=18))
    for n in range(20):
        state.at(n, append(f"k{n}"))

    for _ in range(2):
        assert Committed(state.sessions, state.descriptor).layouts == {KEY: "spread"}
        state.at(200, lambda s: s.first())

    assert Committed(state.sessions, state.descriptor).layouts == {KEY: "packed"}


def test_clean_up_is_bounded_and_comes_to_an_end(stand: Stand) -> None:
    ttl = TtlConfig(100, cleanup=Cleanup(background_keys_max=1))
    state = Driver(stand, multiset(ttl, match=None), LAYOUTS["spread"])
    state.together(0, *(append("k", n) for n in range(200)))
    state.together(50, *(append("k", n) for n in range(200, 220)))

    cleaned = [state.clean(100) for _ in range(5)]

    # Four blocks an epoch, which is 64 numbers; those of one age by the bytes of their numbers:
    # 0, 1, 10, 11; 12 (half of it), 2, 3, 4; 5 to 8; 9. No entry has number 0.
    assert cleaned == [15 + 3 * 16, 9 + 3 * 16, 4 * 16, 16, 0]
    assert [row[1] for row in rows(state, 149)] == list(range(200, 220))
    assert state.clean(150) == 20
    assert state.names() == []


def test_one_access_finds_all_that_is_expired(stand: Stand) -> None:
    """More blocks than the few oldest stamps that an access reads at first."""
    state = Driver(stand, multiset(TTL, match=None), LAYOUTS["spread"])
    state.together(0, *(append("k", n) for n in range(400)))
    state.together(50, *(append("k", n) for n in range(400, 420)))

    assert state.at(100, lambda s: s.size()) == 20
    assert [row[1] for row in rows(state, 100)] == list(range(400, 420))
    Committed(state.sessions, state.descriptor)


def test_switching_a_ttl_on_counts_from_when_entries_were_written(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = Driver(stand, multiset(), thresholds)
    for at_ms, key in ((0, "a"), (950, "b")):
        state.at(at_ms, append(key))

    state.change(TTL, 1000)

    assert [row[0] for row in rows(state, 1000)] == ["b"]
    assert rows(state, 1050) == []
    assert state.names() == []


def test_switching_a_ttl_on_frees_what_nobody_touches(stand: Stand, thresholds: Thresholds) -> None:
    state = Driver(stand, multiset(match=None), thresholds)
    state.together(0, *(append("k", n) for n in range(40)))
    state.change(TTL, 1000)

    assert state.clean(1099) == 0
    assert state.clean(1100) == 40
    state.clean(1101)
    assert state.names() == []


def test_switching_a_ttl_off_and_on_again_keeps_stamps(
    stand: Stand, thresholds: Thresholds
) -> None:
    state = Driver(stand, multiset(TTL), thresholds)
    state.at(0, append("a"))
    state.change(DISABLED, 50)
    state.at(60, append("b"))
    assert [row[0] for row in rows(state, 500)] == ["a", "b"]

    state.change(TtlConfig(1000), 600)

    assert [row[0] for row in rows(state, 999)] == ["a", "b"]
    assert [row[0] for row in rows(state, 1000)] == ["b"]
    assert rows(state, 1060) == []
    state.clean(1600)
    state.clean(1601)
    assert state.names() == []


def test_switching_a_ttl_on_gives_stamps_to_all_blocks(stand: Stand) -> None:
    """Also where expired entries stay until clean-up finds them, which it does by the index."""
    ttl = TtlConfig(100, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
    state = Driver(stand, multiset(match=None), LAYOUTS["spread"])
    state.together(0, *(append("k", n) for n in range(40)))
    state.change(ttl, 1000)

    state.at(1001, append("k"))

    stored = Committed(state.sessions, replace(state.descriptor, enabled_ms=None))
    assert stored.expiry == {KEY: 0}


def test_time_may_pass_between_operations(stand: Stand, thresholds: Thresholds) -> None:
    state = Driver(stand, multiset(TTL, match=None), thresholds)
    for at_ms in (0, 10, 20):
        state.together(at_ms, *(append("k", (at_ms, n)) for n in range(20)))
    session = state.session(99)
    handle = state.handle(session)
    session.set_key(KEY, 0)

    sizes = []
    for at_ms in (99, 100, 119, 120):
        session.clock = TtlClock(at_ms)
        sizes.append(run_now(handle.size(), session))

    assert sizes == [60, 40, 20, 0]


def test_an_index_that_lags_is_corrected(stand: Stand, thresholds: Thresholds) -> None:
    """Else each epoch would visit the key in vain."""
    state = Driver(stand, multiset(TTL), thresholds)
    state.at(50, append("a"))
    state.store(SortedPut(b"rows:expiry", [0, KEY, 0, b'["nothing"]']))

    assert state.clean(100) == 0

    assert Committed(state.sessions, state.descriptor).expiry == {KEY: 50}


# What is stored.


def test_the_fingerprint_says_what_is_compared(stand: Stand) -> None:
    whole, on_key = multiset(match=None), multiset()

    assert whole.fingerprint() == {"kind": "multiset", "codecs": ["json"]}
    assert on_key.fingerprint() == {"kind": "multiset", "codecs": ["json", "json", "match key"]}
    stand.open_run()
    register_states(stand.ledger, NODE, [whole], TtlClock(0))
    with pytest.raises(CodecMismatch):
        register_states(stand.ledger, NODE, [on_key], TtlClock(0))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"7",
        b"spread",
        b"spread\t1\t2\t1\n1\t0\t[]",
        b"spread\t0\t2\t1",
        b"spread\t1\t2\t0",
        b"spread\t1\t2",
        b"spread\t1\t100\t107\t5\t7",
        b"packed\t1\t7\n[1]",
        b"7\n3\t16",
        b"7\n3\t16\t",
        b"7\nx\t16\t[1]",
        b"7\n7\t16\t[1]",
        b"7\n3\t16\t[1]\n3\t16\t[1]",
        b"7\t=x\n3\t16\t[1]",
    ],
)
def test_what_is_no_history_is_refused_and_not_overwritten(stand: Stand, text: bytes) -> None:
    state = Driver(stand, multiset(), LAYOUTS["packed"])
    state.store(HashPut(b"rows", [KEY, text]))

    with pytest.raises(StateCorrupt):
        state.at(0, append("k"))

    assert state.sessions.fetch(*state.session(0).multiset(multiset()).new_cell(KEY, 0).reads) == [
        [text]
    ]


@pytest.mark.parametrize(
    ("broken", "operation"),
    [
        (HashDelete(b'rows:["k"]:blocks', [b"0"]), remove("k5")),
        (HashDelete(b'rows:["k"]:blocks', [b"0"]), lambda s: s.entries()),
        (HashDelete(b'rows:["k"]:blocks', [b"0"]), lambda s: s.first()),
        (HashPut(b'rows:["k"]:index', [b"0", write_bucket([(K5, 7)])]), remove("k5")),
        (HashPut(b'rows:["k"]:index', [b"0", write_bucket([(K5, 31)])]), remove("k5")),
        (HashPut(b'rows:["k"]:index', [b"0", b"x"]), remove("k5")),
        (HashPut(b'rows:["k"]:index', [b"0", K5 + b" " + b"x" * 16 + b"\n"]), remove("k5")),
        (HashPut(b'rows:["k"]:index', [b"0", write_bucket([(K5, 6)])[:-1]]), remove("k5")),
        (HashPut(b'rows:["k"]:blocks', [b"0", b"1\n17\t0\t[]"]), remove("k5")),
        (HashPut(b'rows:["k"]:blocks', [b"0", b"0\n17\t0\t[]"]), remove("k5")),
    ],
)
def test_structures_that_disagree_are_refused(
    stand: Stand, broken: Any, operation: Operation
) -> None:
    state = Driver(stand, multiset(), LAYOUTS["spread"])
    state.together(0, *(append(f"k{n}") for n in range(20)))
    state.at(0, remove("k6"))
    state.store(broken)

    with pytest.raises(StateCorrupt):
        state.at(0, operation)


def test_long_texts_stand_by_their_digest() -> None:
    short, long = "x" * 32, "x" * 33

    assert shortened(JSON.encode([short, short])) == JSON.encode([short, short])
    assert shortened(JSON.encode([long])).startswith(b'["#')
    assert shortened(JSON.encode({"a": long})) == JSON.encode({"a": long})
    assert len({match_digest(JSON.encode([each])) for each in (short, long, "#" + long)}) == 3


def test_keys_of_an_epoch_share_their_round_trips(stand: Stand) -> None:
    state = Driver(stand, multiset(match=ON_KEY), LAYOUTS["packed"])
    session = state.session(0)
    handle = session.multiset(state.descriptor)
    keys = [JSON.encode([n]) for n in range(10)]

    session.prefetch([(state.descriptor, [(key, 0) for key in keys])])

    assert all(handle.cells[key].is_loaded for key in keys)
    assert session.statistics().transaction.round_trips == 1
