"""Ranks equal their batch definition at every prefix, are well formed, and leave nothing."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import (
    Change,
    RowKind,
    check_well_formed,
    materialize,
    materialize_upserts,
)
from operators.rank import arrival
from operators.rank import spec as rank_specs
from operators.rank.arrival import Arrivals
from operators.rank.retract import RetractTopN
from operators.spec import InputSpec
from operators.testing.batch_rank import by_columns, live_rows, newest_versions, ranked
from operators.testing.operator_harness import OperatorHarness
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way
from tests.operators.rank.ranks import DESCENDING, rank_spec

if TYPE_CHECKING:
    import redis

    from operators.changelog import Row
    from operators.ordering import SortColumn
    from operators.rank.spec import RankSpec

BY_P_DESC = by_columns((2, True, True))
KINDS = list(RowKind)

rows = st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.sampled_from((None, 1, 2, 3)))
anything = st.lists(st.builds(Change, st.sampled_from(KINDS), rows), max_size=14)
growing = st.lists(st.builds(Change, st.just(RowKind.INSERT), rows), max_size=14)
ranges = st.sampled_from([(1, 1), (1, 2), (2, 2), (2, 3), (1, None), (3, None)])


def shown(spec: RankSpec, keys: list[list[Any]]) -> Any:
    """What the batch definition shows, as a bag."""
    order = BY_P_DESC if spec.order else lambda _: ()
    found = ranked(keys, order, start=spec.start, end=spec.end, with_number=spec.with_number)
    return materialize(Change(RowKind.INSERT, row) for row in found)


def check_prefixes(spec: RankSpec, given: list[Change]) -> list[Change]:
    """Run change by change; after each one the table is what the batch definition says."""
    harness, emitted = OperatorHarness.on_heap(spec), []
    for count, change in enumerate(given, 1):
        emitted += harness.run([change])
        expected = shown(spec, live_rows(given[:count], spec.inputs[0].key))
        if spec.with_number and not spec.update_before:
            table = materialize_upserts(emitted, (1, 3))
            assert set(table.values()) == set(expected)
        else:
            assert materialize(emitted) == expected
    return emitted


@given(
    given=anything,
    limits=ranges,
    with_number=st.booleans(),
    update_before=st.booleans(),
    is_ordered=st.booleans(),
)
def test_a_changelog_is_ranked_as_a_batch_is(
    given: list[Change],
    limits: tuple[int, int | None],
    with_number: bool,
    update_before: bool,
    is_ordered: bool,
) -> None:
    spec = rank_spec(
        start=limits[0],
        end=limits[1],
        with_number=with_number,
        update_before=update_before,
        **({} if is_ordered else {"order": ()}),
    )
    emitted = check_prefixes(spec, given)
    if with_number and not update_before:
        check_well_formed(emitted, upsert_key=(1, 3))
    else:
        check_well_formed(emitted)


@given(given=growing, limits=ranges, with_number=st.booleans(), is_ordered=st.booleans())
def test_rows_that_only_come_are_ranked_as_a_batch_is(
    given: list[Change], limits: tuple[int, int | None], with_number: bool, is_ordered: bool
) -> None:
    spec = rank_spec(
        "append",
        start=limits[0],
        end=limits[1],
        with_number=with_number,
        **({} if is_ordered else {"order": ()}),
    )
    emitted = check_prefixes(spec, given)
    check_well_formed(emitted)


def counts(increments: list[tuple[str, int]]) -> list[Change]:
    """What COUNT(*) GROUP BY cat, id emits."""
    found: dict[tuple[str, int], int] = {}
    changes = []
    for key in increments:
        count = found[key] = found.get(key, 0) + 1
        kind = RowKind.INSERT if count == 1 else RowKind.UPDATE_AFTER
        changes.append(Change(kind, (*key, count)))
    return changes


COUNT_TYPES = tuple(parse_type(each) for each in ("STRING", "INT", "INT"))


def update_spec(**fields: Any) -> RankSpec:
    number = (parse_type("BIGINT"),) if fields.get("with_number") else ()
    names = ("cat", "id", "c", *(("rn",) if number else ()))
    return rank_spec(
        "update",
        inputs=(InputSpec(types=COUNT_TYPES, names=("cat", "id", "c"), key=(0,)),),
        output={"types": (*COUNT_TYPES, *number), "names": names},
        unique_key=(0, 1),
        **fields,
    )


increments = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 4)), max_size=20)


@given(increments=increments, limits=ranges, with_number=st.booleans())
def test_rows_that_only_rise_are_ranked_as_a_batch_is(
    increments: list[tuple[str, int]], limits: tuple[int, int | None], with_number: bool
) -> None:
    spec = update_spec(start=limits[0], end=limits[1], with_number=with_number)
    given, harness, emitted = counts(increments), OperatorHarness.on_heap(spec), []
    for number, change in enumerate(given, 1):
        emitted += harness.run([change])
        newest = newest_versions(given[:number], (0, 1))
        keys = [[row for row in newest if row[0] == cat] for cat in "ab"]
        assert materialize(emitted) == shown(spec, keys)


@given(
    given=anything, limits=ranges, with_number=st.booleans(), size=st.integers(1, 5), data=st.data()
)
def test_what_is_emitted_depends_on_the_input_only(
    given: list[Change],
    limits: tuple[int, int | None],
    with_number: bool,
    size: int,
    data: st.DataObject,
) -> None:
    spec = rank_spec(start=limits[0], end=limits[1], with_number=with_number)
    emits_the_same_any_way(spec, given, data, size)


@given(
    given=growing, limits=ranges, is_ordered=st.booleans(), size=st.integers(1, 5), data=st.data()
)
def test_what_rows_that_only_come_emit_depends_on_the_input_only(
    given: list[Change],
    limits: tuple[int, int | None],
    is_ordered: bool,
    size: int,
    data: st.DataObject,
) -> None:
    order = {} if is_ordered else {"order": ()}
    spec = rank_spec("append", start=limits[0], end=limits[1], **order)
    emits_the_same_any_way(spec, given, data, size)


@given(increments=increments, size=st.integers(1, 5), data=st.data())
def test_what_risen_rows_emit_depends_on_the_input_only(
    increments: list[tuple[str, int]], size: int, data: st.DataObject
) -> None:
    emits_the_same_any_way(update_spec(with_number=True), counts(increments), data, size)


@given(given=growing, data=st.data(), end_column=st.sampled_from([None, 0]))
def test_nothing_is_left_of_what_was_taken_back(
    given: list[Change], data: st.DataObject, end_column: int | None
) -> None:
    spec = rank_spec(end=2 if end_column is None else None, end_column=end_column)
    back = [each.with_kind(RowKind.DELETE) for each in data.draw(st.permutations(given))]
    harness = OperatorHarness.on_heap(spec)
    harness.run([*given, *back], epoch_changes=3)
    assert harness.stored_names() == set()


def matched(given: list[Change]) -> list[Change]:
    """The changes without retractions that match nothing."""
    live: Counter[Any] = Counter()
    found = []
    for change in given:
        if not change.kind.is_retraction or live[change.row]:
            live[change.row] += change.kind.weight
            found.append(change)
    return found


@given(
    given=anything,
    fields=st.sampled_from([{}, {"with_number": True}, {"start": 2, "end": 3}]),
)
def test_a_ttl_that_never_strikes_changes_nothing(
    given: list[Change], fields: dict[str, Any]
) -> None:
    """But for retractions that match nothing: with a TTL they are of rows that have expired."""
    matching = matched(given)
    plain = OperatorHarness.on_heap(rank_spec(**fields))
    timed = OperatorHarness.on_heap(rank_spec(ttl_ms=(1_000,), **fields))
    assert timed.run(matching, epoch_changes=2) == plain.run(matching)


@pytest.mark.parametrize("with_number", [True, False])
def test_a_large_partition_on_redis_is_that_on_heap(
    redis_client: redis.Redis, with_number: bool
) -> None:
    """More rows than a packed map holds, in epochs of 40: what is read is only a part."""
    chance = random.Random(7)
    live: list[Any] = []
    given = []
    for number in range(600):
        if live and chance.random() < 0.35:
            row = live.pop(chance.randrange(len(live)))
            given.append(Change(RowKind.DELETE, row))
        else:
            live.append((number, "a", chance.randrange(60)))
            given.append(Change(RowKind.INSERT, live[-1]))
    spec = rank_spec(end=10, with_number=with_number)
    heap, remote = OperatorHarness.on_heap(spec), OperatorHarness.on_redis(spec, redis_client)

    emitted = remote.run(given, epoch_changes=40)

    assert emitted == heap.run(given, epoch_changes=40)
    assert materialize(emitted) == shown(spec, live_rows(given, (1,)))
    remote.close()


def test_a_change_costs_the_same_however_many_rows_there_are(redis_client: redis.Redis) -> None:
    """One change of a partition of 2,000 rows: round trips, and what was read in them.

    A header and the first 16 rows; for a retraction also those of its sort key.
    """
    spec = rank_spec(end=10)
    remote = OperatorHarness.on_redis(spec, redis_client)
    remote.run([Change(RowKind.INSERT, (at, "a", at)) for at in range(2_000)])

    costs = []
    for change in (
        Change(RowKind.INSERT, (1, "a", 1_995)),
        Change(RowKind.INSERT, (1, "a", 5)),
        Change(RowKind.DELETE, (1_998, "a", 1_998)),
        Change(RowKind.DELETE, (7, "a", 7)),
    ):
        remote.run([change])
        costs.append((remote.statistics[-1]["round_trips"], remote.statistics[-1]["reads"]))

    assert costs == [(3, 17), (3, 17), (4, 18), (4, 18)]
    remote.close()


def test_what_an_epoch_takes_back_is_looked_for_in_one_round_trip(
    redis_client: redis.Redis,
) -> None:
    spec = rank_spec(end=10)
    remote = OperatorHarness.on_redis(spec, redis_client)
    remote.run([Change(RowKind.INSERT, (at, "a", at)) for at in range(2_000)])

    trips = []
    for taken in (range(100, 101), range(200, 300)):
        remote.run([Change(RowKind.DELETE, (at, "a", at)) for at in taken])
        trips.append(remote.statistics[-1]["round_trips"])

    # The header, the rows with these sort keys, the first rows; and the commit.
    assert trips == [4, 4]
    remote.close()


@pytest.mark.parametrize("newest_first", [False, True])
def test_rows_that_come_and_go_in_an_epoch_of_a_limit_are_not_asked_for(
    redis_client: redis.Redis, newest_first: bool
) -> None:
    spec = rank_spec(order=(), newest_first=newest_first, end=10)
    remote = OperatorHarness.on_redis(spec, redis_client)
    remote.run([Change(RowKind.INSERT, (at, "a", at)) for at in range(400)])

    new = [(at, "a", at) for at in range(400, 600)]
    come = [Change(RowKind.INSERT, row) for row in new]
    remote.run([*come, *(Change(RowKind.DELETE, row) for row in new)])

    assert remote.statistics[-1]["round_trips"] <= 8
    remote.close()


@pytest.mark.parametrize("order", [(), DESCENDING])
def test_the_first_rows_are_taken_back_in_few_round_trips(
    redis_client: redis.Redis, order: tuple[SortColumn, ...]
) -> None:
    """Neighbours: what is known of each leaves a gap to the next one, in which there is nothing."""
    remote = OperatorHarness.on_redis(rank_spec(order=order, end=10), redis_client)
    remote.run([Change(RowKind.INSERT, (at, "a", -at)) for at in range(400)])

    remote.run([Change(RowKind.DELETE, (at, "a", -at)) for at in range(100)])

    assert remote.statistics[-1]["round_trips"] <= 16
    remote.close()


@pytest.mark.parametrize("fields", [{"order": ()}, {"order": (), "newest_first": True}, {}])
def test_epochs_that_take_back_few_of_many_first_rows_are_as_short(
    redis_client: redis.Redis, fields: dict[str, Any]
) -> None:
    """Each look at what follows the rows that are gone goes twice as far as the one before."""
    remote = OperatorHarness.on_redis(rank_spec(end=10, **fields), redis_client)
    rows = [(at, "a", -at) for at in range(5_000)]
    remote.run([Change(RowKind.INSERT, row) for row in rows])

    gone = rows[::-1] if fields.get("newest_first") else rows
    remote.run([Change(RowKind.DELETE, row) for row in gone[:600]])

    assert remote.statistics[-1]["round_trips"] <= 12
    remote.close()


def arrived(count: int, **fields: Any) -> RankSpec:
    """The first rows of `a` by arrival."""
    return rank_spec(order=(), end=count, **fields)


@pytest.mark.parametrize("fields", [{}, {"start": 3}, {"with_number": True}])
def test_a_limit_of_many_rows_on_redis_is_that_on_heap(
    redis_client: redis.Redis, fields: dict[str, Any]
) -> None:
    """More rows than a packed map holds, many of them equal, in epochs of 40."""
    chance = random.Random(7)
    live: list[Any] = []
    given = []
    for _ in range(600):
        if live and chance.random() < 0.4:
            row = live.pop(chance.randrange(len(live)))
            given.append(Change(RowKind.DELETE, row))
        else:
            live.append((chance.randrange(90), "a", 1))
            given.append(Change(RowKind.INSERT, live[-1]))
    spec = arrived(5, **fields)
    heap, remote = OperatorHarness.on_heap(spec), OperatorHarness.on_redis(spec, redis_client)

    emitted = remote.run(given, epoch_changes=40)

    assert emitted == heap.run(given, epoch_changes=40)
    assert materialize(emitted) == shown(spec, live_rows(given, (1,)))
    back = [Change(RowKind.DELETE, row) for row in live]
    assert not materialize([*emitted, *heap.run(back, epoch_changes=40)])
    assert heap.stored_names() == set()
    remote.close()


@pytest.mark.parametrize("different", [1, 7, 10_000])
def test_a_change_of_a_limit_costs_the_same_however_many_rows_there_are(
    redis_client: redis.Redis, different: int
) -> None:
    """And however often one is there."""
    costs = []
    for count in (280, 2_800):
        remote = OperatorHarness.on_redis(arrived(10), redis_client)
        remote.run([Change(RowKind.INSERT, (at % different, "a", 1)) for at in range(count)])
        for change in (
            Change(RowKind.INSERT, (20_000, "a", 1)),
            Change(RowKind.DELETE, ((count - 2) % different, "a", 1)),
            Change(RowKind.DELETE, (3 % different, "a", 1)),
        ):
            remote.run([change])
        kinds = ("round_trips", "reads", "writes")
        costs.append([[each[kind] for kind in kinds] for each in remote.statistics[1:]])
        taken = [Change(RowKind.DELETE, (at % different, "a", 1)) for at in range(40, 140)]
        remote.run(taken)
        # Different rows are looked for together; of equal ones sixteen, and then the next.
        assert remote.statistics[-1]["round_trips"] <= 24
        remote.close()
    assert costs[0] == costs[1]


class _WithoutNumbers(RetractTopN):
    """LIMIT as versions before kept its rows: all under one sort key."""


@pytest.mark.parametrize("ttl_ms", [(), (1_000,)])
@given(given=anything, cut=st.integers(0, 14))
def test_rows_of_a_limit_of_the_version_before_are_read_on(
    ttl_ms: tuple[int, ...], given: list[Change], cut: int
) -> None:
    """And those that have numbers are, where a TTL is switched on."""
    given = matched(given)
    with pytest.MonkeyPatch.context() as patch:
        if not ttl_ms:
            patch.setattr(rank_specs, "ArrivalTopN", _WithoutNumbers)
        harness = OperatorHarness.on_heap(arrived(2))
    emitted = harness.run(given[:cut], epoch_changes=3)
    harness.restart(arrived(2, **({"ttl_ms": ttl_ms} if ttl_ms else {})))
    for count, change in enumerate(given[cut:], cut + 1):
        emitted += harness.run([change])
        kept = live_rows(given[:count], (1,))
        table = materialize(emitted)
        assert sum(table.values()) == sum(min(2, len(rows)) for rows in kept)
        assert table <= Counter(row for rows in kept for row in rows)
    back = [Change(RowKind.DELETE, row) for rows in live_rows(given, (1,)) for row in rows]
    emitted += harness.run(back, epoch_changes=3)
    assert not materialize(emitted)
    assert harness.stored_names() == set()


class _InLists(Arrivals):
    """Numbers as versions before kept them, the newest first: a list by row."""

    async def add(self, row: Row) -> int:
        number = (await self._last.value() or 0) + 1
        await self._last.update(number)
        assert self._older is not None
        await self._older.put(row, [*(await self._older.get(row) or ()), number])
        return number


@given(given=anything, cut=st.integers(0, 14))
def test_lists_of_numbers_of_the_version_before_are_read_on(given: list[Change], cut: int) -> None:
    spec = rank_spec(order=(), newest_first=True, end=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrival, "Arrivals", _InLists)
        harness = OperatorHarness.on_heap(spec)
    emitted = harness.run(given[:cut])
    harness.restart(spec)
    emitted += harness.run(given[cut:])

    assert emitted == OperatorHarness.on_heap(spec).run(given)
    live = live_rows(given, (1,), takes_newest=True)
    harness.run([Change(RowKind.DELETE, row) for rows in live for row in rows])
    assert harness.stored_names() - {b"counters", b"orphans"} == set()
