"""The handle and the upsert materializer on one state: what one writes, the other goes on with.

Epochs are run by the materializer, which does an epoch at once in columns, or by the handle, one
change at a time, in any order of both. Histories, sequence numbers, times and what is emitted are
those of the plain list, and the structures agree after each epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.changelog import Change, Row, RowKind
from operators.spec import RowSpec
from operators.stored_rows import StoredRows
from operators.testing.harness import MaterializerHarness
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.backends.interface import HashGet
from state.descriptors import MatchColumns, MultisetDescriptor
from state.execution.sync import run_now
from state.key_groups import key_group
from state.multiset import index
from state.multiset.history import HistoryPage
from state.multiset.interface import Added, RemovedAll, RemovedLast
from state.multiset.packed import PackedMultiSet
from state.multiset.spread import STATE
from state.multiset.strategy import Strategy, Thresholds
from state.primitives.session import StateSession
from state.testing.multisets import Committed
from state.testing.sessions import PACKED, SPREAD
from state.ttl import DISABLED, Cleanup, TtlClock, TtlConfig
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from state.backends.interface import EpochTransaction, Read

pytestmark = pytest.mark.usefixtures("small_buckets", "small_segments")

TTL_MS = 10
NAMES = ("k", "id", "text", "number")
TYPES = tuple(map(parse_type, ("INT", "BIGINT", "STRING", "DOUBLE")))
KEYS = (0, 1)
# Longer than 32 bytes as canonical text, or only once escaped, or only once encoded; and shorter.
TEXTS = ["", "a", None, "x" * 33, '"' * 20, "\N{GREEK SMALL LETTER ALPHA}" * 17, "#" * 32]
ROWS = st.tuples(
    st.sampled_from(KEYS),
    st.integers(0, 3),
    st.sampled_from(TEXTS),
    st.sampled_from([None, 0.1, 1e300, float("nan")]),
)
CHANGES = st.builds(Change, st.sampled_from(RowKind), ROWS)
EPOCHS = st.lists(
    st.tuples(st.booleans(), st.lists(CHANGES, max_size=30), st.sampled_from([0, 1, 4, TTL_MS])),
    min_size=2,
    max_size=8,
)
UPSERT_KEYS: list[tuple[int, ...] | None] = [None, (1,), (2, 1)]
LAYOUTS = {
    Strategy.VALUE: PACKED,
    Strategy.MAP: SPREAD,
    Strategy.ADAPTIVE: Thresholds(high=12, low=6),
}


class BothWorlds:
    """One pipeline whose epochs are the materializer's or the handle's, and a list for each key."""

    def __init__(
        self,
        strategy: Strategy,
        upsert_key: tuple[int, ...] | None,
        ttl_ms: int,
        client: redis.Redis | None = None,
    ) -> None:
        thresholds = LAYOUTS[strategy]
        self.spec = MaterializerSpec(
            types=TYPES,
            names=NAMES,
            key=(0,),
            upsert_key=upsert_key,
            strategy=strategy,
            high=thresholds.high,
            low=thresholds.low,
            ttl_ms=ttl_ms,
        )
        self.harness = (
            MaterializerHarness.on_heap(self.spec)
            if client is None
            else MaterializerHarness.on_redis(self.spec, client)
        )
        row = RowSpec(types=TYPES, names=NAMES)
        rows = StoredRows(row)
        self.rows, self.match = rows, rows
        columns: MatchColumns[Row, Row] | None = None
        if upsert_key:
            self.match = StoredRows(row.part(upsert_key))
            columns = MatchColumns(name="upsert key", codec=self.match, of=self.match_of)
        self.descriptor: MultisetDescriptor[Row] = MultisetDescriptor(
            name=STATE.decode(),
            codec=rows,
            match=columns,
            ttl=TtlConfig(ttl_ms, cleanup=Cleanup(by_timer=True)) if ttl_ms else DISABLED,
            thresholds=thresholds,
        )
        self.models = {key: PackedMultiSet() for key in KEYS}

    def match_of(self, row: Row) -> Row:
        return tuple(row[each] for each in self.spec.upsert_key or range(len(NAMES)))

    def epoch(self, changes: Sequence[Change], *, is_columnar: bool) -> None:
        now_ms = self.harness.now_ms
        for model in self.models.values():
            if self.spec.ttl_ms:
                model.expire(now_ms - self.spec.ttl_ms)
        expected = [self.expected(change, now_ms) for change in changes]
        if is_columnar:
            emitted = [each.change for each in self.harness.run_epoch(list(enumerate(changes)))]
            assert [self.shown(e) for e in emitted] == [self.shown(e) for e in expected if e]
        else:
            self.found: list[Any] = []
            self.harness.run_epoch_by(lambda *given: self.handle_epoch(changes, *given))
            results = [each and self.shown(each) for each in expected]
            assert [each and self.shown(each) for each in self.found] == results
        self.check()

    def attempt_anew(self, changes: Sequence[Change]) -> None:
        """Run the next epoch up to its commit by a materializer that remembers nothing."""
        remembering = self.harness._operator
        self.harness._operator = UpsertMaterializer(self.spec)
        self.harness.attempt(list(enumerate(changes)))
        self.harness._operator = remembering

    def handle_epoch(
        self, changes: Sequence[Change], transaction: EpochTransaction, groups: Sequence[int]
    ) -> None:
        session = StateSession(transaction, clock=TtlClock(self.harness.now_ms))
        handle = session.multiset(self.descriptor)
        for change in changes:
            session.set_key(*self.place(change.row[0]))
            if change.kind.is_retraction:
                result = run_now(handle.remove(change.row), session)
            elif self.spec.replaces:
                result = run_now(handle.add(change.row), session)
            else:
                result = run_now(handle.append(change.row), session)
            now_last = result.now_last.row if isinstance(result, RemovedLast) else None
            self.found.append(_emitted(change, result, now_last))
        session.clean_up(groups)
        transaction.commit(session.writes())

    def expected(self, change: Change, now_ms: int) -> Change | None:
        """What a change emits, by the plain list, which it changes."""
        model = self.models[change.row[0]]
        match, row = self.match.encode(self.match_of(change.row)), self.rows.encode(change.row)
        if change.kind.is_retraction:
            result: Any = model.remove(match, now_ms)
        elif self.spec.replaces:
            result = model.add(match, row, now_ms)
        else:
            result = model.append(match, row, now_ms)
        now_last = self.rows.decode(result.now_last.row) if hasattr(result, "now_last") else None
        return _emitted(change, result, now_last)

    def check(self) -> None:
        """What HTTP shows, and what is stored, is what the lists hold."""
        for key, model in self.models.items():
            page = self.harness.page((key,), limit=1 << 30)
            entries = page.entries if isinstance(page, HistoryPage) else ()
            held = [(each.sequence, each.row, each.written_ms) for each in entries]
            assert held == [(each.sequence, each.row, each.written_ms) for each in model]
            Committed(self, self.descriptor, self.place(key)[1])

    def fetch(self, *reads: Read) -> list[Any]:
        return self.harness.view().fetch(reads)

    def value(self, key: int) -> bytes | None:
        """The stored value of a key."""
        text, group = self.place(key)
        found: bytes | None = self.fetch(HashGet(group, STATE, [text]))[0][0]
        return found

    def place(self, key: int) -> tuple[bytes, int]:
        """Canonical key and key group."""
        return self.spec.input.key_codec.encode((key,)), key_group(TYPES[:1], (key,), 4)

    def shown(self, change: Change) -> tuple[RowKind, bytes]:
        return change.kind, self.rows.encode(change.row)


def _emitted(change: Change, result: Any, now_last: Row | None) -> Change | None:
    match result:
        case Added(was_empty=was_empty):
            return Change(RowKind.INSERT if was_empty else RowKind.UPDATE_AFTER, change.row)
        case RemovedAll():
            return Change(RowKind.DELETE, change.row)
        case RemovedLast():
            assert now_last is not None
            return Change(RowKind.UPDATE_AFTER, now_last)
    return None


@given(
    epochs=EPOCHS,
    strategy=st.sampled_from(list(LAYOUTS)),
    upsert_key=st.sampled_from(UPSERT_KEYS),
    ttl_ms=st.sampled_from([0, TTL_MS]),
)
def test_epochs_of_both_go_on_with_one_history(
    epochs: list[tuple[bool, list[Change], int]],
    strategy: Strategy,
    upsert_key: tuple[int, ...] | None,
    ttl_ms: int,
) -> None:
    worlds = BothWorlds(strategy, upsert_key, ttl_ms)
    for is_columnar, changes, passed_ms in epochs:
        worlds.epoch(changes, is_columnar=is_columnar)
        worlds.harness.now_ms += passed_ms


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(epochs=EPOCHS, upsert_key=st.sampled_from(UPSERT_KEYS))
def test_epochs_of_both_on_redis(
    redis_client: redis.Redis,
    epochs: list[tuple[bool, list[Change], int]],
    upsert_key: tuple[int, ...] | None,
) -> None:
    worlds = BothWorlds(Strategy.MAP, upsert_key, TTL_MS, redis_client)
    for is_columnar, changes, passed_ms in epochs:
        worlds.epoch(changes, is_columnar=is_columnar)
        worlds.harness.now_ms += passed_ms
    worlds.harness.close()


@pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP])
def test_what_the_sink_shows_stays_as_the_materializer_wrote_it(strategy: Strategy) -> None:
    """A replacement in place leaves another row shown than the newest: the handle keeps that."""
    worlds = BothWorlds(strategy, (1,), 0)
    rows = [(0, number, "a", None) for number in (1, 2, 1)]
    worlds.epoch([Change(RowKind.INSERT, row) for row in rows], is_columnar=True)
    before = worlds.value(0)
    assert before is not None
    assert before.split(b"\n")[0].endswith(b"\t=1")

    worlds.epoch([Change(RowKind.INSERT, (0, 3, "a", None))], is_columnar=False)
    after = worlds.value(0)

    assert after is not None
    assert after.split(b"\n")[0].endswith(b"\t=1")
    page = worlds.harness.page((0,))
    assert isinstance(page, HistoryPage)
    assert page.shown == 1


@pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP])
@pytest.mark.parametrize("is_columnar", [True, False])
def test_one_world_frees_what_the_other_wrote(strategy: Strategy, is_columnar: bool) -> None:
    worlds = BothWorlds(strategy, None, TTL_MS)
    rows = [(0, number, "a" * number, None) for number in range(40)]
    worlds.epoch([Change(RowKind.INSERT, row) for row in rows], is_columnar=not is_columnar)

    worlds.harness.now_ms = TTL_MS
    worlds.epoch([], is_columnar=is_columnar)

    assert worlds.value(0) is None
    assert Committed(worlds, worlds.descriptor, worlds.place(0)[1]).names == set()
    assert worlds.harness.stored_keys() == []


@pytest.mark.parametrize("is_columnar", [True, False])
def test_an_index_of_more_buckets_than_needed_goes_on(
    is_columnar: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does that was written when each bucket had sixteen entries, whatever the length."""
    worlds = BothWorlds(Strategy.MAP, (1,), 0)
    monkeypatch.setattr(index, "LONG_ENTRIES", 1_000)
    monkeypatch.setattr(index, "BUCKET_ENTRIES", 2)
    puts = [Change(RowKind.INSERT, (0, number, "a", None)) for number in range(80)]
    worlds.epoch(puts[:40], is_columnar=True)

    monkeypatch.setattr(index, "BUCKET_ENTRIES", 8)
    worlds.epoch(puts[40:60], is_columnar=is_columnar)
    gone = [Change(RowKind.DELETE, each.row) for each in puts[20:50]]
    worlds.epoch([*gone, *puts[60:]], is_columnar=not is_columnar)
    worlds.epoch(puts[20:50], is_columnar=is_columnar)
