"""Sorted map state: order, ranges, layouts, and TTL, on heap and Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import LexRange, SortedScores
from state.descriptors import JSON, SortedMapDescriptor
from state.errors import FormatVersionMismatch, StateCorrupt
from state.lexicographic import DESCENDING, lexicographic_codec
from state.multiset.strategy import Thresholds
from state.testing.sessions import PACKED, SPREAD
from state.testing.sorted_epochs import KEY, Epochs
from state.ttl import TtlConfig
from state.types import parse_type
from tests.state.primitives.sorted_maps import described, fill, pairs

if TYPE_CHECKING:
    from state.testing.stand import Stand


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


@pytest.fixture(params=["packed", "spread", "adaptive"])
def rows(request: pytest.FixtureRequest) -> SortedMapDescriptor[Any, Any]:
    thresholds = {"packed": PACKED, "spread": SPREAD, "adaptive": Thresholds(high=4, low=2)}
    return described(thresholds=thresholds[request.param])


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
