"""Laws of the upsert materializer: its fast path against its meaning, twice, and state at the end.

Families:
    parity    `run_epoch` emits what `process` over `PackedMultiSet` emits, change by change
    oracle    both emit what `UpsertView`, a list that shares no code with them, says
    laws      output is well formed; nothing is left of what was retracted; where epochs end does
              not matter; histories, numbers and what is shown agree with the list
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from operators.changelog import Change, Row, RowKind, check_well_formed, materialize_upserts
from operators.testing.batch import UpsertView, comparable
from operators.testing.harness import Emission, MaterializerHarness, Step
from operators.testing.recorded import expect, first_difference
from operators.testing.strategies import INTEGERS, ODD, Domain, changes, epochs, specs
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.multiset.history import HistoryPage
from state.multiset.packed import PackedMultiSet
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    import redis

pytestmark = pytest.mark.usefixtures("small_segments")

Timed = list[tuple[int, list[Change]]]
TTLS = (0, 50, 100)


def process_one_by_one(spec: MaterializerSpec, steps: list[Step]) -> list[Emission]:
    """What `UpsertMaterializer.process` emits over packed lists."""
    operator = UpsertMaterializer(spec)
    histories: dict[object, PackedMultiSet] = {}
    emissions, now_ms = [], 0
    for index, step in enumerate(steps):
        now_ms = now_ms if step.time_ms is None else step.time_ms
        if step.change is None:
            continue
        key = comparable(tuple(step.change.row[column] for column in spec.key))
        history = histories.setdefault(key, PackedMultiSet(whole=spec.strategy is Strategy.LEGACY))
        if spec.ttl_ms:
            history.expire(now_ms - spec.ttl_ms)
        emitted = operator.process(step.change, history, now_ms)
        history.check()
        if emitted is not None:
            emissions.append(Emission(emitted, index))
    return emissions


def steps_of(timed: Timed) -> list[Step]:
    steps, now_ms = [], 1000
    for later_ms, run in timed:
        now_ms += later_ms
        steps.append(Step(time_ms=now_ms))
        steps += [Step(change=change) for change in run]
    return steps


@pytest.mark.parametrize("domain", [INTEGERS, ODD], ids=["integers", "odd"])
@settings(deadline=None)
@given(data=st.data())
def test_fast_path_plain_path_and_definition_emit_the_same(domain: Domain, data: st.DataObject):
    spec = data.draw(specs(domain, ttl_ms=TTLS))
    steps = steps_of(data.draw(epochs(domain)))
    harness = MaterializerHarness.on_heap(spec)

    emissions = harness.run(steps, epoch_changes=data.draw(st.sampled_from([None, 1, 3])))

    assert first_difference(emissions, process_one_by_one(spec, steps)) is None
    assert first_difference(emissions, expect(spec, steps)) is None
    check_well_formed_but_for_expiry(spec, emissions)


def check_well_formed_but_for_expiry(spec: MaterializerSpec, emissions: list[Emission]) -> None:
    if not spec.ttl_ms:
        normal = [replace(e.change, row=comparable(e.change.row)) for e in emissions]
        check_well_formed(normal, upsert_key=spec.key)


@settings(deadline=None)
@given(specs(INTEGERS, ttl_ms=(50, 100)), epochs(INTEGERS))
def test_emitted_expiry_keeps_the_sink_in_step_with_state(spec: MaterializerSpec, timed: Timed):
    harness = MaterializerHarness.on_heap(replace(spec, emit_expired=True))
    emissions: list[Change] = []
    for later_ms, run in [*timed, (1000, [])]:
        harness.now_ms += later_ms
        emissions += [each.change for each in harness.run_epoch(list(enumerate(run)))]

        table = materialize_upserts(emissions, spec.key)
        assert {comparable(key) for key in table} == {
            comparable(key) for key in harness.stored_keys()
        }
        for key, row in table.items():
            check_shown_row_lives(spec, harness, key, row)
    check_well_formed(
        [replace(each, row=comparable(each.row)) for each in emissions], upsert_key=spec.key
    )
    assert not table


def check_shown_row_lives(
    spec: MaterializerSpec, harness: MaterializerHarness, key: Row, row: Row
) -> None:
    """The sink shows a live row, or one that was retracted while it was not the newest."""
    page = harness.page(key)
    assert isinstance(page, HistoryPage)
    if page.shown is not None:
        shown = next(each for each in page.entries if each.sequence == page.shown)
        assert comparable(spec.input.row_codec.decode(shown.row)) == comparable(row)


@settings(deadline=None)
@given(specs(INTEGERS, ttl_ms=TTLS), epochs(INTEGERS), st.booleans())
def test_net_changes_lead_to_the_same_table(
    spec: MaterializerSpec, timed: Timed, emit_expired: bool
):
    whole = MaterializerHarness.on_heap(replace(spec, emit_expired=emit_expired))
    net = MaterializerHarness.on_heap(replace(spec, emit_expired=emit_expired, net_changes=True))
    every: list[Change] = []
    shorter: list[Change] = []
    for later_ms, run in [*timed, (1000, [])]:
        for harness, changes_of in ((whole, every), (net, shorter)):
            harness.now_ms += later_ms
            changes_of += [each.change for each in harness.run_epoch(list(enumerate(run)))]

        assert materialize_upserts(shorter, spec.key) == materialize_upserts(every, spec.key)
        last = shorter[len(shorter) - net.statistics[-1]["rows_out"] :]
        keys = [tuple(each.row[column] for column in spec.key) for each in last]
        assert len(set(keys)) == len(keys)
    if emit_expired or not spec.ttl_ms:
        check_well_formed(
            [replace(each, row=comparable(each.row)) for each in shorter], upsert_key=spec.key
        )


@settings(deadline=None)
@given(specs(INTEGERS, ttl_ms=TTLS), epochs(INTEGERS))
def test_history_numbers_and_what_is_shown_are_those_of_the_list(
    spec: MaterializerSpec, timed: Timed
):
    harness = MaterializerHarness.on_heap(spec)
    whole = spec.strategy is Strategy.LEGACY
    view = UpsertView(spec.key, spec.upsert_key, ttl_ms=spec.ttl_ms, whole=whole)
    for later_ms, run in timed:
        harness.now_ms += later_ms
        emissions = harness.run(run)
        for change in run:
            view.apply(change, harness.now_ms)

        live = [key for key in harness.stored_keys() if harness.history(key)]
        found = [[comparable(row) for row in harness.history(key)] for key in live]
        expected = [[comparable(row) for row in rows] for rows in view.histories(harness.now_ms)]
        assert sorted(found) == sorted(expected)
        check_pages(spec, harness, live, emissions)
    orphans = sum(each["orphans"] for each in harness.statistics)
    assert orphans == view.orphans


def check_pages(
    spec: MaterializerSpec, harness: MaterializerHarness, live: list[Row], last: list[Emission]
) -> None:
    """Pages of any size make the same history; newest, fallback and shown are what they say."""
    table = materialize_upserts((each.change for each in last), spec.key)
    codec = spec.input.row_codec
    for key in live:
        page = harness.page(key, limit=1 << 30)
        assert isinstance(page, HistoryPage)
        numbers = [entry.sequence for entry in page.entries]
        assert numbers == sorted(set(numbers))
        assert page.size == len(numbers)
        assert page.newest == page.entries[-1]
        assert page.fallback == (page.entries[-2] if page.size > 1 else None)
        assert entries_by_page(harness, key, 2) == list(page.entries)
        seen = table.get(key)
        if seen is not None and page.shown is not None:
            shown = next(e for e in page.entries if e.sequence == page.shown)
            assert comparable(codec.decode(shown.row)) == comparable(seen)


def entries_by_page(harness: MaterializerHarness, key: Row, limit: int) -> list[object]:
    entries: list[object] = []
    after: int | None = 0
    while after is not None:
        page = harness.page(key, limit=limit, after=after)
        assert isinstance(page, HistoryPage)
        entries += page.entries
        after = page.next_after
    return entries


@pytest.mark.parametrize("domain", [INTEGERS, ODD], ids=["integers", "odd"])
@settings(deadline=None)
@given(data=st.data())
def test_attempts_commit_the_same_in_whatever_order_rows_arrive(
    domain: Domain, data: st.DataObject
):
    """The backend refuses an attempt that wrote something else than the one before it."""
    spec = data.draw(specs(domain, ttl_ms=TTLS))
    before, run = data.draw(changes(domain)), list(enumerate(data.draw(changes(domain))))
    harness = MaterializerHarness.on_heap(spec, shuffled=False)
    harness.run(before)

    first = harness.attempt(run)

    assert first_difference(harness.attempt(data.draw(st.permutations(run))), first) is None


@settings(deadline=None)
@given(specs(INTEGERS), changes(INTEGERS), st.sampled_from([1, 2, 5]))
def test_where_epochs_end_changes_neither_output_nor_entries(
    spec: MaterializerSpec, run: list[Change], size: int
):
    one, other = MaterializerHarness.on_heap(spec), MaterializerHarness.on_heap(spec)

    assert first_difference(one.run(run), other.run(run, epoch_changes=size)) is None

    for key in one.stored_keys():
        page, same = one.page(key), other.page(key)
        assert (page.entries, page.shown) == (same.entries, same.shown)


@settings(deadline=None)
@given(specs(INTEGERS, ttl_ms=TTLS), changes(INTEGERS), st.sampled_from([None, 1, 4]))
def test_nothing_is_left_once_all_is_retracted(
    spec: MaterializerSpec, run: list[Change], size: int | None
):
    """Retract each live row; not an entry, an index field or an expiry time may stay."""
    harness = MaterializerHarness.on_heap(spec)
    view = UpsertView(spec.key, spec.upsert_key)
    harness.run(run, epoch_changes=size)
    for change in run:
        view.apply(change)

    rows = [row for history in view.histories() for row in history]
    harness.run([Change(RowKind.DELETE, row) for row in rows], epoch_changes=size)

    assert names_in_state(harness) <= {b"orphans", b"counters"}


@settings(deadline=None)
@given(specs(INTEGERS, ttl_ms=(50,)), changes(INTEGERS), st.sampled_from([None, 1, 4]))
def test_nothing_is_left_once_all_has_expired(
    spec: MaterializerSpec, run: list[Change], size: int | None
):
    """An epoch without changes cleans up what is due, and emits nothing."""
    harness = MaterializerHarness.on_heap(spec)
    harness.run(run, epoch_changes=size)

    harness.now_ms += 50
    assert harness.run_epoch([]) == []

    assert names_in_state(harness) <= {b"orphans", b"counters"}


def names_in_state(harness: MaterializerHarness) -> set[bytes]:
    harness.run_epoch([])
    return harness.stored_names()


A, B, C = (1, 1, "a"), (2, 1, "b"), (3, 1, "a")


@settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(spec=specs(INTEGERS, ttl_ms=TTLS), timed=epochs(INTEGERS))
@example(
    # FLINK-39740: an append after a replacement in place must not take a number in use.
    spec=MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), (0,), Strategy.MAP, high=2, low=1),
    timed=[(0, [Change(RowKind.INSERT, row) for row in (A, B, A, C)])],
)
def test_redis_and_heap_do_the_same(
    spec: MaterializerSpec, timed: Timed, redis_client: redis.Redis
):
    heap = MaterializerHarness.on_heap(spec)
    redis_ = MaterializerHarness.on_redis(spec, redis_client)
    steps = steps_of(timed)

    assert first_difference(redis_.run(steps), heap.run(steps)) is None

    assert sorted(map(comparable, redis_.stored_keys())) == sorted(
        map(comparable, heap.stored_keys())
    )
    for key in heap.stored_keys():
        assert redis_.page(key) == heap.page(key)
    redis_.close()
