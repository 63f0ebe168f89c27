"""Ranks of changelogs where rows expire; `tests/oracles/recorded` has whole plans with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.rank.aging import AgingTopN
from operators.testing.operator_harness import At, OperatorHarness
from state.codec import RowCodec
from state.primitives.sorted import SortedMapHandle
from tests.operators.columnar_paths import stored_of
from tests.operators.laws import emits_the_same_any_way
from tests.operators.rank.ranks import ASCENDING, changes, rank_spec
from tests.operators.rank.test_laws import anything

if TYPE_CHECKING:
    from operators.changelog import Change

TABLE = [
    (0, "+I 1 x 9", "+I 1 x 9"),
    (6, "+I 2 x 5", "+I 2 x 5"),
    (12, "+I 3 x 7", "-D 2 x 5; +I 3 x 7"),
    (13, "-D 1 x 9", ""),
    (13, "+I 4 x 8", "-D 2 x 5; +I 4 x 8"),
]
"""That of the class: TTL 10, ranks 1 and 2."""


def test_what_has_expired_keeps_its_rank_while_the_partition_changes() -> None:
    harness = OperatorHarness.on_heap(rank_spec(ttl_ms=(10,)))
    for at, given_, expected in TABLE:
        assert harness.run([At(at), *changes(given_)]) == changes(expected)


def test_an_expired_sort_key_behind_the_range_counts_one_less_when_a_row_of_it_is_taken_back() -> (
    None
):
    """In the range, and right behind it, all of it goes: there Flink's function finds no row."""
    for end, shown in ((1, ""), (2, "+I 8 x 5; -D 7 x 1; +I 9 x 2")):
        harness = OperatorHarness.on_heap(rank_spec(ttl_ms=(10,), end=end))
        harness.run(changes("+I 1 x 9; +I 2 x 9; +I 3 x 8; +I 4 x 8"))
        harness.run([At(6), *changes("+I 7 x 1")])
        # At 12 the rows by 9 and 8 have expired. Of 8 one is counted on where 1 is the last rank.
        assert harness.run([At(12), *changes("-D 3 x 8; -D 1 x 9")]) == []
        assert harness.run(changes("+I 8 x 5; +I 9 x 2")) == changes(shown)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"order": ASCENDING}, ""),
        ({"order": ()}, ""),
        ({"order": (), "newest_first": True}, "-D 1 x 5; +I 1 x 6"),
    ],
)
def test_the_row_after_the_last_one_says_anew_where_the_ranks_end(
    fields: dict[str, Any], shown: str, size: int
) -> None:
    """In one epoch or several, and as without a TTL."""
    given_ = changes("+I 2 x 5; -D 2 x 5; +I 1 x 5; +I 1 x 6")
    for ttl_ms in (10, 0):
        spec = rank_spec(ttl_ms=(ttl_ms,), end=None, end_column=0, **fields)
        harness = OperatorHarness.on_heap(spec)
        emitted = [each for at in range(0, 4, size) for each in harness.run(given_[at : at + size])]
        assert emitted == changes(f"+I 2 x 5; -D 2 x 5; +I 1 x 5; {shown}")


def test_with_ranks_an_expired_row_counts_and_is_not_shifted() -> None:
    harness = OperatorHarness.on_heap(rank_spec(ttl_ms=(10,), with_number=True, end=3))
    assert harness.run([*changes("+I 1 a 10"), At(5), *changes("+I 2 a 5")]) == changes(
        "+I 1 a 10 1; +I 2 a 5 2"
    )
    # The first has expired, and so it is neither shifted nor taken back.
    assert harness.run([At(10), *changes("+I 3 a 7")]) == changes(
        "-U 2 a 5 2; +U 3 a 7 2; +I 2 a 5 3"
    )
    assert harness.run(changes("-D 1 a 10")) == []
    assert harness.statistics[-1]["orphans"] == 1
    assert harness.run(changes("-D 3 a 7")) == changes("-U 3 a 7 1; +U 2 a 5 1; -D 2 a 5 2")


def test_rows_of_a_sort_key_live_together() -> None:
    harness = OperatorHarness.on_heap(rank_spec(ttl_ms=(10,), end=1))
    harness.run([*changes("+I 1 a 5"), At(8), *changes("+I 2 a 5; +I 3 a 4")])
    assert harness.run([At(12), *changes("-D 1 a 5")]) == changes("-D 1 a 5; +I 2 a 5")
    assert harness.run([At(21), *changes("-D 2 a 5")]) == changes("-D 2 a 5")


def test_inserted_rows_of_a_sort_key_live_together() -> None:
    harness = OperatorHarness.on_heap(rank_spec("append", end=3, ttl_ms=(10,), with_number=True))
    harness.run([*changes("+I 1 a 5"), At(8), *changes("+I 2 a 5; +I 3 a 4")])
    # At 12 the first lives by the second; of the third and fourth only the fourth is left.
    assert harness.run([At(12), *changes("+I 4 a 7")]) == changes(
        "-U 1 a 5 1; +U 4 a 7 1; -U 2 a 5 2; +U 1 a 5 2; -U 3 a 4 3; +U 2 a 5 3"
    )
    assert harness.run([At(18), *changes("+I 5 a 6")]) == changes("+I 5 a 6 2")


def test_what_is_left_of_a_sort_key_lives_on_when_a_row_gives_way() -> None:
    harness = OperatorHarness.on_heap(rank_spec("append", end=2, ttl_ms=(10,)))
    harness.run([*changes("+I 1 a 5; +I 2 a 5"), At(8), *changes("+I 3 a 7")])
    assert harness.run([At(12), *changes("+I 4 a 6")]) == changes("-D 1 a 5; +I 4 a 6")


def test_a_partition_that_does_not_change_is_forgotten() -> None:
    harness = OperatorHarness.on_heap(rank_spec(ttl_ms=(10,)))
    harness.run(changes("+I 1 a 9; +I 2 a 8"))
    assert harness.run([At(10), *changes("+I 3 a 1")]) == changes("+I 3 a 1")
    harness.run(changes("-D 3 a 1"))
    assert harness.stored_names() == set()


@given(
    given=anything,
    fields=st.sampled_from([{}, {"with_number": True}, {"start": 2, "end": 3}, {"end": None}]),
    size=st.integers(1, 5),
    data=st.data(),
)
def test_what_is_emitted_depends_on_the_input_only(
    given: list[Change], fields: dict[str, Any], size: int, data: st.DataObject
) -> None:
    timed = [step for at, change in enumerate(given) for step in (At(4 * at), change)]
    emits_the_same_any_way(rank_spec(ttl_ms=(10,), **fields), timed, data, size)


@pytest.mark.parametrize("newest_first", [True, False])
def test_what_was_once_counted_is_counted_on_without_a_ttl(newest_first: bool) -> None:
    fields = {"order": (), "newest_first": True} if newest_first else {}
    before = rank_spec(ttl_ms=(10,), **fields)
    after = rank_spec(is_stamped=("rows",), **fields)
    assert isinstance(before.operator(), AgingTopN)
    assert type(before.operator()) is type(after.operator())
    assert not isinstance(rank_spec(**fields).operator(), AgingTopN)


def test_rows_that_came_without_a_ttl_are_counted_and_go_on_without_one() -> None:
    harness = OperatorHarness.on_heap(rank_spec(with_number=True))
    harness.run(changes("+I 1 a 9; +I 2 a 8; +I 3 a 7"))
    harness.restart(rank_spec(with_number=True, ttl_ms=(10,)))
    assert harness.run([At(5), *changes("+I 4 a 6; -D 1 a 9")]) == changes(
        "-U 1 a 9 1; +U 2 a 8 1; -U 2 a 8 2; +U 3 a 7 2"
    )
    harness.restart(rank_spec(with_number=True))
    assert harness.run([At(50), *changes("+I 5 a 9; -D 5 a 9; -D 2 a 8; -D 3 a 7; -D 4 a 6")]) == (
        changes(
            """
            -U 2 a 8 1; +U 5 a 9 1; -U 3 a 7 2; +U 2 a 8 2
            -U 5 a 9 1; +U 2 a 8 1; -U 2 a 8 2; +U 3 a 7 2
            -U 2 a 8 1; +U 3 a 7 1; -U 3 a 7 2; +U 4 a 6 2
            -U 3 a 7 1; +U 4 a 6 1; -D 4 a 6 2; -D 4 a 6 1
            """
        )
    )
    assert harness.stored_names() == set()


def test_a_sort_key_is_written_once_an_epoch_however_many_of_its_rows_come_and_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a LIMIT, where all rows have one sort key."""
    written = []
    put = SortedMapHandle.put

    async def noted(handle: Any, key: Any, values: Any) -> None:
        written.append(len(values))
        await put(handle, key, values)

    monkeypatch.setattr(SortedMapHandle, "put", noted)
    harness = OperatorHarness.on_heap(rank_spec(order=(), end=2, ttl_ms=(10,)))
    come = [changes(f"+I {each} a 5")[0] for each in range(20)]
    go = [changes(f"-D {each} a 5")[0] for each in range(15)]
    harness.run([*come, At(5), *go, *changes("+I 20 a 5")])
    assert written == [20, 6]


NEWEST = [
    (0, "+I 1 a 5", "+I 1 a 5"),
    (6, "+I 2 a 5", "+I 2 a 5"),
    (12, "+I 3 a 5", "-D 1 a 5; +I 3 a 5"),
    (13, "-D 3 a 5", "-D 3 a 5; +I 1 a 5"),
    (23, "+I 4 a 5", "+I 4 a 5"),
]
"""That of `AgingNewest`: TTL 10, ranks 1 and 2."""
BY_NEWEST: dict[str, Any] = {"order": (), "newest_first": True, "ttl_ms": (10,)}


def test_the_newest_rows_of_a_partition_live_together() -> None:
    harness = OperatorHarness.on_heap(rank_spec(**BY_NEWEST))
    for at, given_, expected in NEWEST:
        assert harness.run([At(at), *changes(given_)]) == changes(expected)


@given(
    given=anything,
    fields=st.sampled_from(
        [
            {},
            {"with_number": True},
            {"start": 2, "end": 3},
            {"start": 2, "end": 3, "update_before": False},
            {"end": None},
            {"end": None, "end_column": 0},
        ]
    ),
    size=st.integers(1, 5),
    data=st.data(),
)
def test_the_newest_rows_are_those_without_a_ttl_while_the_partition_changes(
    given: list[Change], fields: dict[str, Any], size: int, data: st.DataObject
) -> None:
    alone = [each for each in given if each.row[1] == "a"]
    timed = [step for at, change in enumerate(alone) for step in (At(9 * at), change)]
    emitted = emits_the_same_any_way(rank_spec(**BY_NEWEST, **fields), timed, data, size)
    forever = BY_NEWEST | fields | {"ttl_ms": (0,)}
    assert emitted == OperatorHarness.on_heap(rank_spec(**forever)).run(alone)


def test_the_newest_rows_that_came_without_a_ttl_or_before_an_upgrade_live_on_together() -> None:
    harness = OperatorHarness.on_heap(rank_spec(**BY_NEWEST | {"ttl_ms": (0,)}))
    harness.run(changes("+I 1 a 5; +I 2 a 5; +I 3 a 5; +I 2 a 5"))
    harness.restart(rank_spec(**BY_NEWEST))
    assert harness.run([At(5), *changes("-D 2 a 5; -D 9 a 5")]) == changes("-D 2 a 5; +I 2 a 5")
    assert harness.run([At(14), *changes("-D 3 a 5")]) == changes("-D 3 a 5; +I 1 a 5")
    harness.restart(rank_spec(**BY_NEWEST | {"ttl_ms": (0,)}))
    assert harness.run([At(90), *changes("-D 1 a 5; -D 2 a 5")]) == changes("-D 1 a 5; -D 2 a 5")
    assert harness.stored_names() - {b"counters", b"orphans"} == set()


def test_rows_that_are_there_are_encoded_once_where_none_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To be written; and nothing is read beside them."""
    spec = rank_spec(**BY_NEWEST)
    harness = OperatorHarness.on_heap(spec)
    harness.run(changes("+I 1 a 5; +I 2 a 5; +I 3 a 5"))
    encoded: list[Any] = []
    encode = RowCodec.encode

    def counting(codec: RowCodec, row: Any) -> bytes:
        encoded.append(row)
        return encode(codec, row)

    monkeypatch.setattr(RowCodec, "encode", counting)
    harness.run(changes("+I 4 a 5"))

    assert sorted(row[0] for row in encoded if row[0] != 4) == [1, 2, 3]
    assert "counted" not in {each.name for each in spec.operator().prefetched}


def test_the_newest_rows_are_kept_by_rank() -> None:
    """So whoever looks at the state sees row numbers."""
    harness = OperatorHarness.on_heap(rank_spec(**BY_NEWEST))
    harness.run(changes("+I 1 a 5; +I 2 a 5"))
    harness.run(changes("+I 3 a 5"))
    held = [each[b'["a"]'] for each in _structures(harness, b"rows")]
    assert [text.count(b"[") for text in held] == [3]
    assert held[0].index(b"[3,") < held[0].index(b"[2,") < held[0].index(b"[1,")


def _structures(harness: OperatorHarness, name: bytes) -> list[dict[Any, Any]]:
    groups = stored_of(harness).values()
    return [each[name] for each in groups if name in each]
