"""Sorted map state: order, ranges, layouts, TTL and exact costs, on heap and Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import LexRange, SortedScores
from state.descriptors import JSON, SortedMapDescriptor
from state.errors import FormatVersionMismatch, StateCorrupt
from state.lexicographic import DESCENDING, lexicographic_codec
from state.multiset.strategy import Thresholds
from state.primitives import sorted_known
from state.primitives.intervals import BOTTOM
from state.testing.sessions import PACKED, SPREAD
from state.testing.sorted_epochs import KEY, Epochs
from state.ttl import TtlConfig, UpdateType, Visibility
from state.types import parse_type

if TYPE_CHECKING:
    from state.testing.stand import Stand

BIGINT = lexicographic_codec([parse_type("BIGINT NOT NULL")])


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


@pytest.fixture(params=["packed", "spread", "adaptive"])
def rows(request: pytest.FixtureRequest) -> SortedMapDescriptor[Any, Any]:
    thresholds = {"packed": PACKED, "spread": SPREAD, "adaptive": Thresholds(high=4, low=2)}
    return described(thresholds=thresholds[request.param])


def described(**options: Any) -> SortedMapDescriptor[Any, Any]:
    return SortedMapDescriptor(**{"name": "rows", "key_codec": BIGINT, "codec": JSON, **options})


def fill(epochs: Epochs, rows: SortedMapDescriptor[Any, Any], keys: range) -> None:
    """An epoch that adds a value for each user key."""
    with epochs.epoch(rows) as state:
        for at in keys:
            state.add((at,), f"v{at}")


def pairs(keys: range) -> list[tuple[tuple[int], list[str]]]:
    """What `fill` leaves."""
    return [((at,), [f"v{at}"]) for at in keys]


def test_values_of_a_key_come_in_the_order_of_their_addition(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    with epochs.epoch(rows) as state:
        for value in ("b", "a", "b"):
            state.add((7,), value)
        state.add((-7,), "low")
    with epochs.epoch(rows) as state:
        state.add((7,), "last")
        assert state.values_at((7,)) == ["b", "a", "b", "last"]

    with epochs.epoch(rows) as state:
        assert state.entries() == [((-7,), ["low"]), ((7,), ["b", "a", "b", "last"])]
        assert state.values_at((8,)) is None


def test_ranges_keep_their_bounds(epochs: Epochs, rows: SortedMapDescriptor[Any, Any]) -> None:
    fill(epochs, rows, range(-3, 4))

    with epochs.epoch(rows) as state:
        assert state.read_range((-1,), (2,)) == pairs(range(-1, 2))
        assert state.read_range((-1,), (2,), inclusive_to=True) == pairs(range(-1, 3))
        assert state.read_range_until((0,)) == pairs(range(-3, 0))
        assert state.read_range_until((0,), inclusive_to=True) == pairs(range(-3, 1))
        assert state.read_range_from((2,)) == pairs(range(2, 4))
        assert state.read_range((1,), (1,)) == []
        assert state.read_range((1,), (1,), inclusive_to=True) == pairs(range(1, 2))
        assert state.read_range((2,), (-2,), inclusive_to=True) == []


def test_ends_are_found(epochs: Epochs, rows: SortedMapDescriptor[Any, Any]) -> None:
    with epochs.epoch(rows) as state:
        assert state.first_entry() is None
        assert state.last_entry() is None
        assert state.last_entry_until((9,)) is None
    fill(epochs, rows, range(-3, 4))

    with epochs.epoch(rows) as state:
        assert state.first_entry() == ((-3,), ["v-3"])
        assert state.last_entry() == ((3,), ["v3"])
        assert state.last_entry_until((2,)) == ((1,), ["v1"])
        assert state.last_entry_until((2,), inclusive_to=True) == ((2,), ["v2"])
        assert state.last_entry_until((-3,)) is None


def test_ends_with_many_values_are_whole(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    values = [f"{at}" for at in range(50)]
    with epochs.epoch(rows) as state:
        state.put((1,), values)
        state.put((2,), values[::-1])

    with epochs.epoch(rows) as state:
        assert state.first_entry() == ((1,), values)
    with epochs.epoch(rows) as state:
        assert state.last_entry() == ((2,), values[::-1])
        assert state.last_entry_until((2,)) == ((1,), values)


def test_cleared_ranges_are_gone(epochs: Epochs, rows: SortedMapDescriptor[Any, Any]) -> None:
    fill(epochs, rows, range(10))

    with epochs.epoch(rows) as state:
        state.clear_range((2,), (4,))
        state.clear_range((5,), (3,), inclusive_to=True)
        state.clear_entry_at((6,))
        state.clear_entry_at((66,))
        state.clear_range_from((9,))
        state.clear_range_until((0,), inclusive_to=True)
    with epochs.epoch(rows) as state:
        kept = [key for (key,), _ in state.entries()]

    assert kept == [1, 4, 5, 7, 8]


def test_an_epoch_sees_what_it_added_and_cleared(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    fill(epochs, rows, range(8))

    with epochs.epoch(rows) as state:
        state.clear_range((2,), (6,))
        state.add((4,), "new")
        state.put((7,), ["other"])
        state.put((0,), [])
        expected = [((1,), ["v1"]), ((4,), ["new"]), ((6,), ["v6"]), ((7,), ["other"])]
        assert state.read_range((1,), (5,)) == expected[:2]
        assert state.entries() == expected
        assert state.first_entry() == expected[0]

    with epochs.epoch(rows) as state:
        assert state.entries() == expected


def test_clear_leaves_nothing(epochs: Epochs, rows: SortedMapDescriptor[Any, Any]) -> None:
    fill(epochs, rows, range(100))
    with epochs.epoch(rows) as state:
        state.clear()
        assert state.entries() == []
    assert epochs.stored() == set()

    fill(epochs, rows, range(100))
    with epochs.epoch(rows) as state:
        state.clear_range_until((50,))
        state.clear_range_from((50,))
    assert epochs.stored() == set()


def test_nulls_are_refused_and_nothing_changes(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    fill(epochs, rows, range(2))

    with epochs.epoch(rows) as state:
        for call in (
            lambda: state.add((1,), None),
            lambda: state.add(None, 1),
            lambda: state.put((1,), ["x", None]),
            lambda: state.put(None, ["x"]),
            lambda: state.values_at(None),
            lambda: state.read_range(None, (1,)),
        ):
            with pytest.raises(TypeError):
                call()
        assert state.entries() == pairs(range(2))


def test_keys_and_namespaces_do_not_share(
    epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
) -> None:
    with epochs.epoch(rows) as state:
        state.add((1,), "a")
        state.session.set_key(b'["other"]', 1)
        state.add((1,), "b")
        state.session.set_namespace(b"[9]")
        state.add((1,), "c")

    with epochs.epoch(rows) as state:
        assert state.values_at((1,)) == ["a"]
        state.session.set_key(b'["other"]', 1)
        assert state.values_at((1,)) == ["b"]
        state.session.set_namespace(b"[9]")
        assert state.values_at((1,)) == ["c"]


def test_other_orders_are_those_of_the_codec(epochs: Epochs) -> None:
    codec = lexicographic_codec(
        [parse_type("STRING"), parse_type("INT NOT NULL")], [DESCENDING, DESCENDING]
    )
    rows = described(key_codec=codec, thresholds=SPREAD)
    keys = [("b", 1), ("b", -1), ("a\t\n", 3), ("a", 2), ("", 0), (None, 5)]

    with epochs.epoch(rows) as state:
        for key in keys[::-1]:
            state.add(key, str(key))
    with epochs.epoch(rows) as state:
        assert [key for key, _ in state.entries()] == keys
        assert [key for key, _ in state.read_range(("a\t\n", 9), ("", 0))] == keys[2:4]
        assert state.last_entry() == ((None, 5), [str((None, 5))])


def test_a_key_may_begin_another(epochs: Epochs) -> None:
    """Codecs that are not prefix-free are kept apart by the tab behind the key."""
    rows = described(key_codec=JSON, thresholds=SPREAD)
    with epochs.epoch(rows) as state:
        for key in (10, 1, 100, 2):
            state.add(key, key)
            state.add(key, -key)

    with epochs.epoch(rows) as state:
        assert state.values_at(1) == [1, -1]
        assert [key for key, _ in state.read_range(1, 10)] == [1]
        assert [key for key, _ in state.read_range(1, 10, inclusive_to=True)] == [1, 10]
        state.clear_entry_at(10)
        assert [key for key, _ in state.entries()] == [1, 100, 2]


def test_replies_never_overwrite_what_was_settled_meanwhile(epochs: Epochs) -> None:
    rows = described(thresholds=SPREAD)
    fill(epochs, rows, range(10))
    state = epochs.begin(rows)
    handle = epochs.session.sorted_map(rows)
    session = epochs.session

    suspended = handle.read_range((2,), (8,))
    if not session.is_local:
        session.execute([suspended.send(None)])  # the header came, the range is asked for
        request = suspended.send(None)
        state.add((5,), "new")
        state.clear_range((2,), (4,))
        state.add((3,), "other")
        session.execute([request])
        with pytest.raises(StopIteration) as end:
            suspended.send(None)
        found = end.value.value
        assert [key for (key,), _ in found] == [3, 4, 5, 6, 7]
        assert dict(found)[(5,)] == ["v5", "new"]
        assert dict(found)[(3,)] == ["other"]
    suspended.close()
    epochs.end()


def test_a_large_map_costs_what_is_asked_for(epochs: Epochs) -> None:
    rows = described(ttl=TtlConfig(1_000))
    fill(epochs, rows, range(50_000))

    epochs.begin(rows, at_ms=500)
    epochs.session.prefetch([(rows, [(KEY, 1)])])
    before = epochs.session.statistics().transaction
    assert epochs.state.read_range((100,), (110,)) == pairs(range(100, 110))
    epochs.state.add((50_000,), "x")
    after = epochs.session.statistics().transaction
    assert (after.commands - before.commands, after.reads - before.reads) == (1, 10)
    epochs.end()

    removed = []
    for _ in range(60):
        with epochs.epoch(rows, at_ms=1_100):
            pass
        removed.append(epochs.session.statistics().cleaned)
        assert epochs.session.statistics().transaction.commands < 30
    assert (max(removed), sum(removed), removed[-1]) == (1_000, 50_000, 0)
    with epochs.epoch(rows, at_ms=1_499) as state:
        assert state.entries() == [((50_000,), ["x"])]


def test_a_map_is_spread_when_it_grows_and_packed_when_it_shrinks(epochs: Epochs) -> None:
    rows = described(thresholds=Thresholds(high=4, low=2))
    fill(epochs, rows, range(3))
    assert epochs.text(rows).startswith(b"packed\t3\t3\t0\n0000000000000000000\t")
    fill(epochs, rows, range(3, 4))
    assert epochs.text(rows) == b"spread\t1\t4\t4\t-"
    assert epochs.stored() == {b"rows", b'rows:["k"]:order'}

    with epochs.epoch(rows) as state:
        state.clear_entry_at((1,))
    assert epochs.text(rows) == b"spread\t1\t3\t4\t-"
    with epochs.epoch(rows) as state:
        state.clear_entry_at((2,))
    assert epochs.text(rows) == (
        b'packed\t3\t2\t0\n0000000000000000000\t"v0"\n0000000000000000003\t"v3"'
    )
    assert epochs.stored() == {b"rows"}


def test_a_spread_map_is_readable(epochs: Epochs) -> None:
    rows = described(thresholds=SPREAD, ttl=TtlConfig(1_000))
    with epochs.epoch(rows, at_ms=16) as state:
        state.add((-1,), {"a": 1})
        state.add((41,), "x y")

    order, stamps = epochs.read(
        LexRange(1, b'rows:["k"]:order', b"-", b"+"),
        SortedScores(1, b'rows:["k"]:stamps', [b"-9999999999999999999\t000000000000", b"none"]),
    )

    assert order == [
        b'-9999999999999999999\t000000000000\t@16 {"a":1}',
        b'0000000000000000041\t000000000001\t@16 "x y"',
    ]
    assert stamps == [16.0, None]
    assert epochs.text(rows) == b"spread\t1\t2\t2\t16"


class TestCosts:
    """Exactly what an operation reads and writes, for a spread map of a thousand values."""

    rows = described()

    def cost(self, epochs: Epochs, call: Any, **ttl: Any) -> tuple[int, int, int, list[str]]:
        """Commands and round trips of a call, members that came back, writes."""
        rows = described(**ttl)
        fill(epochs, rows, range(1_000))
        epochs.begin(rows, at_ms=1)
        epochs.session.prefetch([(rows, [(KEY, 1)])])
        before = epochs.session.statistics().transaction
        call(epochs.state)
        after = epochs.session.statistics().transaction
        writes = sorted(type(each).__name__ for each in epochs.session.writes().get(1, []))
        epochs.end()
        return (
            after.commands - before.commands,
            after.round_trips - before.round_trips,
            after.reads - before.reads,
            writes,
        )

    def test_the_header_comes_with_the_first_access(self, epochs: Epochs) -> None:
        fill(epochs, self.rows, range(1_000))
        with epochs.epoch(self.rows) as state:
            state.add((5,), "x")
            seen = state.session.statistics().transaction
            assert (seen.commands, seen.round_trips, seen.reads) == (4 + 1, 1, 1)

    def test_add_reads_nothing_more(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.add((5,), "x"))

        assert cost == (0, 0, 0, ["HashPut", "SortedPut"])

    def test_a_range_is_one_command(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.read_range((100,), (900,)))

        assert cost == (1, 1, 800, [])

    def test_values_of_a_key_are_one_command(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.values_at((100,))) == (1, 1, 1, [])

    def test_a_range_that_was_read_is_not_read_again(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            state.read_range((100,), (200,))
            state.read_range((150,), (300,))
            state.read_range((100,), (300,))

        # The second look goes on where the first one ended, so it reads on behind its own end.
        assert self.cost(epochs, call) == (3, 2, 200 + 200, [])

    def test_who_reads_one_range_after_the_other_looks_seldom(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            for at in range(0, 900, 5):
                state.clear_range_until((at,))
                assert len(state.read_range((at,), (at + 20,))) == 20

        _, trips, members, _ = self.cost(epochs, call)
        assert trips <= 8
        assert members <= 1_010

    def test_an_end_is_one_command(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.first_entry()) == (1, 1, 16, [])
        assert self.cost(epochs, lambda state: state.last_entry()) == (1, 1, 16, [])
        assert self.cost(epochs, lambda s: s.last_entry_until((500,))) == (1, 1, 16, [])

    @pytest.mark.parametrize("end", ["first", "last"])
    def test_an_end_of_a_range_reads_nothing_beyond_it(self, epochs: Epochs, end: str) -> None:
        def call(state: Any) -> None:
            assert getattr(state, f"{end}_entry_between")((5,), (7,)) is not None

        assert self.cost(epochs, call) == (1, 1, 2, [])

    @pytest.mark.parametrize(("count", "cost"), [(124, (124, 1, 124)), (125, (1, 1, 1_000))])
    def test_a_map_that_is_short_beside_what_is_looked_for_is_read_whole(
        self, epochs: Epochs, count: int, cost: tuple[int, int, int]
    ) -> None:
        keys = [(at * 3,) for at in range(count)]

        assert self.cost(epochs, lambda state: state.know_at(keys)) == (*cost, [])

    def test_of_what_was_not_asked_for_so_much_at_most_is_read(
        self, epochs: Epochs, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sorted_known, "UNASKED_MAX", 50)

        def call(state: Any) -> None:
            state.know_for(1_000)
            for at in range(0, 200, 20):
                state.read_range((at,), (at + 20,))

        _, trips, members, _ = self.cost(epochs, call)
        assert trips >= 4
        assert members <= 200 + 50 + 16

    def test_who_takes_one_first_value_after_the_other_looks_seldom(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            # What lies in the way is known.
            state.know_at([(20,), (21,)])
            for at in range(500):
                assert state.values_from(BOTTOM, 1) == [f"v{at}"]
                state.clear_entry_at((at,))

        _, trips, members, _ = self.cost(epochs, call)
        # One look for each of 16, 32, 64 and so on; and what lies behind the last value of each.
        assert trips <= 1 + 6 + 5
        assert members <= 2 + 16 * (1 + 2 + 4 + 8 + 16 + 32) + 5

    def test_a_range_that_was_read_is_cleared_unread(self, epochs: Epochs) -> None:
        def call(state: Any) -> None:
            state.read_range_until((900,))
            state.clear_range_until((900,))

        assert self.cost(epochs, call) == (1, 1, 900, ["HashPut", "LexRemove"])

    def test_a_range_that_was_not_read_is_counted_and_cleared(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.clear_range_until((900,)))

        assert cost == (1, 1, 1, ["HashPut", "LexRemove"])

    def test_replacing_values_counts_and_clears(self, epochs: Epochs) -> None:
        cost = self.cost(epochs, lambda state: state.put((5,), ["x", "y"]))

        assert cost == (1, 1, 1, ["HashPut", "LexRemove", "SortedPut"])

    def test_clearing_all_reads_nothing(self, epochs: Epochs) -> None:
        assert self.cost(epochs, lambda state: state.clear()) == (0, 0, 0, ["Drop", "HashDelete"])

    def test_with_ttl_a_clear_reads_what_goes(self, epochs: Epochs) -> None:
        cost = self.cost(
            epochs, lambda state: state.clear_range_until((900,)), ttl=TtlConfig(10**9)
        )

        assert cost == (1, 1, 900, ["HashPut", "LexRemove", "SortedRemove"])

    def test_reads_that_count_rewrite_what_they_read(self, epochs: Epochs) -> None:
        ttl = TtlConfig(10**9, update=UpdateType.ON_READ_AND_WRITE)
        cost = self.cost(epochs, lambda state: state.values_at((5,)), ttl=ttl)

        # The header stays: its bound for the oldest stamp still holds.
        assert cost == (1, 1, 1, ["SortedPut", "SortedPut", "SortedRemove"])

    def test_filling_is_one_write_a_structure(self, epochs: Epochs) -> None:
        epochs.begin(self.rows)
        for at in range(1_000):
            epochs.state.add((at,), "x")
        writes = sorted(type(each).__name__ for each in epochs.session.writes()[1])
        epochs.end()

        assert writes == ["HashPut", "SortedPut"]


class TestTtl:
    """Each value lives on its own."""

    @pytest.fixture
    def config(self) -> TtlConfig:
        return TtlConfig(100)

    def test_values_expire_one_by_one(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any], config: TtlConfig
    ) -> None:
        rows = described(thresholds=rows.thresholds, ttl=config)
        for at_ms in (0, 40, 80):
            with epochs.epoch(rows, at_ms=at_ms) as state:
                state.add((1,), at_ms)
                state.add((at_ms,), "x")

        with epochs.epoch(rows, at_ms=99) as state:
            assert state.values_at((1,)) == [0, 40, 80]
        with epochs.epoch(rows, at_ms=100) as state:
            assert state.values_at((1,)) == [40, 80]
            assert state.first_entry() == ((1,), [40, 80])
        with epochs.epoch(rows, at_ms=150) as state:
            assert state.entries() == [((1,), [80]), ((80,), ["x"])]
            assert state.last_entry_until((80,)) == ((1,), [80])
        with epochs.epoch(rows, at_ms=180) as state:
            assert state.last_entry() is None
        assert epochs.stored() == set()

    def test_reads_refresh_where_they_count(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
    ) -> None:
        ttl = TtlConfig(100, update=UpdateType.ON_READ_AND_WRITE)
        rows = described(thresholds=rows.thresholds, ttl=ttl)
        with epochs.epoch(rows, at_ms=0) as state:
            for at in range(6):
                state.add((at,), at)

        with epochs.epoch(rows, at_ms=50) as state:
            state.read_range((2,), (4,))
        with epochs.epoch(rows, at_ms=120) as state:
            assert state.entries() == [((2,), [2]), ((3,), [3])]
        with epochs.epoch(rows, at_ms=219) as state:
            assert state.values_at((2,)) == [2]
        with epochs.epoch(rows, at_ms=220) as state:
            assert state.values_at((3,)) is None

    def test_expired_values_show_once_where_they_may(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
    ) -> None:
        ttl = TtlConfig(100, visibility=Visibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP)
        rows = described(thresholds=rows.thresholds, ttl=ttl)
        with epochs.epoch(rows, at_ms=0) as state:
            state.put((1,), ["a", "b"])

        epochs.begin(rows, at_ms=100)
        assert epochs.state.values_at((1,)) == ["a", "b"]
        assert epochs.state.values_at((1,)) is None
        epochs.end()
        assert epochs.stored() == set()

    def test_clean_up_removes_what_nothing_touches(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any], config: TtlConfig
    ) -> None:
        rows = described(thresholds=rows.thresholds, ttl=config)
        with epochs.epoch(rows, at_ms=0) as state:
            for at in range(0, 20, 2):
                state.add((at,), at)
        with epochs.epoch(rows, at_ms=50) as state:
            for at in range(20):
                state.add((at,), -at)

        with epochs.epoch(rows, at_ms=100):
            pass
        off = described(thresholds=rows.thresholds, is_stamped=True)
        with epochs.epoch(off, at_ms=100) as state:
            assert [v for _, values in state.entries() for v in values] == [-a for a in range(20)]
        with epochs.epoch(rows, at_ms=150):
            pass
        assert epochs.stored() == set()

    def test_clean_up_sees_what_the_epoch_changed(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any]
    ) -> None:
        ttl = TtlConfig(100, update=UpdateType.ON_READ_AND_WRITE)
        rows = described(thresholds=rows.thresholds, ttl=ttl)
        with epochs.epoch(rows, at_ms=0) as state:
            for at in range(12):
                state.add((at,), at)

        with epochs.epoch(rows, at_ms=90) as state:
            state.values_at((3,))
        with epochs.epoch(rows, at_ms=100) as state:
            state.clear_range((5,), (7,))
            state.add((6,), "new")
        with epochs.epoch(rows, at_ms=101) as state:
            assert state.entries() == [((3,), [3]), ((6,), ["new"])]

    def test_ttl_may_be_switched_on_and_off(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any], config: TtlConfig
    ) -> None:
        layout = rows.thresholds
        with epochs.epoch(described(thresholds=layout)) as state:
            state.put((1,), ["old", "older"])
        on = described(thresholds=layout, ttl=config, enabled_ms=1_000)
        with epochs.epoch(on, at_ms=1_050) as state:
            state.add((1,), "young")
            state.add((2,), "young")
        with epochs.epoch(described(thresholds=layout, is_stamped=True), at_ms=5_000) as state:
            assert state.values_at((1,)) == ["old", "older", "young"]
        with epochs.epoch(on, at_ms=1_100) as state:
            assert state.values_at((1,)) == ["young"]
        with epochs.epoch(on, at_ms=1_150) as state:
            assert state.entries() == []
        with epochs.epoch(on, at_ms=1_151):
            pass  # an epoch later it is forgotten that elements without a stamp were looked for
        assert epochs.stored() == set()

    def test_clean_up_walks_to_what_has_no_stamp(
        self, epochs: Epochs, rows: SortedMapDescriptor[Any, Any], config: TtlConfig
    ) -> None:
        with epochs.epoch(described(thresholds=rows.thresholds)) as state:
            for at in range(10):
                state.add((at,), at)
        on = described(thresholds=rows.thresholds, ttl=config, enabled_ms=1_000)
        with epochs.epoch(on, at_ms=1_099) as state:
            state.add((5,), "young")

        with epochs.epoch(on, at_ms=1_100):
            pass

        after = described(thresholds=rows.thresholds, is_stamped=True)
        with epochs.epoch(after, at_ms=1_150) as state:
            assert state.entries() == [((5,), ["young"])]


class TestBadInput:
    """What is stored is judged before it is used, and left as it is."""

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            (b"packed\t4\t0\n", FormatVersionMismatch),
            (b"packed\t1", StateCorrupt),
            (b"packed\t1\t0\nno tab", StateCorrupt),
            (b"heap\t1\t0\n", StateCorrupt),
            (b"spread\t1\t3\t3\t-", StateCorrupt),
        ],
    )
    def test_a_stored_text_that_is_none_is_refused(
        self, epochs: Epochs, text: bytes, error: type[Exception]
    ) -> None:
        rows = described()
        epochs.write(b"rows", text)

        epochs.begin(rows)
        with pytest.raises(error):
            epochs.state.entries()

        assert epochs.text(rows) == text

    def test_more_elements_than_the_header_says_are_refused(self, epochs: Epochs) -> None:
        rows = described(thresholds=SPREAD)
        fill(epochs, rows, range(3))
        epochs.write(b"rows", b"spread\t1\t2\t2\t-")

        epochs.begin(rows)
        with pytest.raises(StateCorrupt, match="its header says"):
            epochs.state.entries()
        with pytest.raises(StateCorrupt, match="its header says"):
            epochs.state.clear_range((0,), (3,))
