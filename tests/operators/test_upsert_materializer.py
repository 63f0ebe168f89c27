"""The materializer's own cases: what it reads and writes, and what people see of a history."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.testing.harness import MaterializerHarness, Step
from operators.testing.operator_harness import Of
from operators.testing.recorded import expect, first_difference
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.backends.interface import HashGet, StreamScan
from state.multiset import probing, text
from state.multiset.history import Expired, HistoryPage
from state.multiset.strategy import Strategy
from tests.operators.stage import Epoch, Stage, changes_of

ADD, RETRACT = RowKind.INSERT, RowKind.DELETE
SPEC = MaterializerSpec(INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None)
BY_ID = replace(SPEC, upsert_key=(0,))


def row(number: int, value: str = "a", key: int = 1) -> tuple[object, ...]:
    return (number, key, value)


def adds(*numbers: int) -> list[Change]:
    return [Change(ADD, row(number)) for number in numbers]


def retracts(*numbers: int) -> list[Change]:
    return [Change(RETRACT, row(number)) for number in numbers]


def short(emissions: list) -> list[str]:
    return [f"{e.change.kind.short}{e.change.row[0]}" for e in emissions]


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
@pytest.mark.parametrize("order", list(permutations((1, 2, 3))))
def test_three_rows_are_retracted_in_every_order(
    spec: MaterializerSpec, strategy: Strategy, order: tuple[int, ...]
):
    """Flink's testRetractions, in one epoch and in several."""
    spec = replace(spec, strategy=strategy, high=2, low=1)
    changes = [*adds(1, 2, 3), *retracts(*order)]
    expected = {
        (1, 2, 3): ["-D3"],
        (2, 1, 3): ["-D3"],
        (3, 2, 1): ["+U2", "+U1", "-D1"],
        (1, 3, 2): ["+U2", "-D2"],
        (2, 3, 1): ["+U1", "-D1"],
        (3, 1, 2): ["+U2", "-D2"],
    }[order]
    for size in (None, 1, 3):
        emissions = MaterializerHarness.on_heap(spec).run(changes, epoch_changes=size)

        assert short(emissions) == ["+I1", "+U2", "+U3", *expected]


def test_numbers_are_never_reused_after_a_replacement_in_place():
    """FLINK-39740: Flink's MAP loses a live row here."""
    spec = replace(BY_ID, strategy=Strategy.MAP)
    harness = MaterializerHarness.on_heap(spec)

    harness.run([*adds(1, 2), *adds(1), *adds(3)], epoch_changes=1)

    assert [each[0] for each in harness.history((1,))] == [1, 2, 3]
    assert short(harness.run(retracts(3))) == ["+U2"]


class TestRoundTrips:
    """At most three and a commit, whatever the sizes; bytes in proportion to the changes."""

    def harness(self, strategy: Strategy, size: int) -> MaterializerHarness:
        harness = MaterializerHarness.on_heap(replace(SPEC, strategy=strategy))
        harness.run(adds(*range(size)))
        return harness

    @pytest.mark.parametrize("strategy", [Strategy.LEGACY, Strategy.VALUE])
    def test_a_packed_history_costs_one_and_a_commit(self, strategy: Strategy):
        harness = self.harness(strategy, 100)

        harness.run([*retracts(99), *adds(200)])

        assert harness.statistics[-1]["round_trips"] == 2

    def test_a_spread_history_costs_three_and_a_commit(self):
        harness = self.harness(Strategy.MAP, 1000)

        harness.run([*retracts(500), *adds(2000)])

        assert harness.statistics[-1]["round_trips"] == 4
        # The header, two newest blocks by number, two index fields, three blocks.
        assert harness.statistics[-1]["reads"] == 1 + 2 + 2 + 3

    def test_a_row_to_be_shown_again_costs_nothing_more(self):
        harness = self.harness(Strategy.MAP, 1000)

        assert short(harness.run(retracts(999))) == ["+U998"]
        assert harness.statistics[-1]["round_trips"] == 4
        assert harness.statistics[-1]["reads"] == 1 + 2 + 1 + 2

    @pytest.mark.parametrize(("size", "buckets"), [(30, 1), (1000, 4), (20_000, 4)])
    def test_reads_and_writes_do_not_grow_with_the_history(self, size: int, buckets: int):
        harness = self.harness(Strategy.MAP, size)

        harness.run([*retracts(5, 6, 7), *adds(5000)])

        # A bucket of the index for each change, of which a short history has one; the first and
        # the last block with their stamps, the header.
        assert harness.statistics[-1]["writes"] == buckets + 2 * 2 + 1

    def test_an_epoch_that_misses_everything_writes_no_state(self):
        harness = self.harness(Strategy.VALUE, 3)

        harness.run(retracts(77, 78))

        assert harness.statistics[-1]["orphans"] == 2
        assert harness.statistics[-1]["writes"] == 3


def test_a_long_history_retracted_from_its_end_asks_for_a_deeper_window(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(probing, "_WINDOW", 2)
    spec = replace(SPEC, strategy=Strategy.MAP)
    harness = MaterializerHarness.on_heap(spec)
    changes = [*adds(*range(40)), Step(time_ms=1), *retracts(*range(39, 20, -1)), Step(time_ms=2)]

    emissions = harness.run([*changes, *retracts(20, 3, 19)])

    assert first_difference(emissions, expect(spec, [*changes, *retracts(20, 3, 19)])) is None


class TestBlocksThatGoAsAWhole:
    """They are not read: the index alone says that all of their sixteen entries go."""

    @pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
    def test_they_cost_no_read(self, spec: MaterializerSpec):
        harness = MaterializerHarness.on_heap(replace(spec, strategy=Strategy.MAP))
        harness.run(adds(*range(1, 1000)))

        harness.run(retracts(*range(16, 48)))

        # The header, the two newest blocks by number and as they are, the buckets.
        buckets = harness.statistics[-1]["reads"] - (1 + 2 + 2)
        assert 1 < buckets <= 32
        assert [each[0] for each in harness.history((1,))] == [*range(1, 16), *range(48, 1000)]

    @pytest.mark.parametrize("spec", [SPEC, BY_ID], ids=["whole row", "upsert key"])
    @pytest.mark.parametrize("epoch_changes", [None, 16, 40])
    @pytest.mark.parametrize(
        ("gone", "again"),
        [
            (range(16, 48), ()),
            (range(16, 90), ()),
            (range(99, 15, -1), ()),
            (range(1, 96), ()),
            (range(1, 100), ()),
            (range(16, 64), range(20, 30)),
            (range(99, 31, -1), range(40, 45)),
        ],
    )
    def test_the_outcome_is_that_of_any_strategy(
        self, spec: MaterializerSpec, epoch_changes: int | None, gone: range, again: range
    ):
        spec = replace(spec, strategy=Strategy.ADAPTIVE, high=60, low=30)
        harness = MaterializerHarness.on_heap(spec)
        # Some are added again or missed, some entries stand twice.
        changes = [
            *adds(*range(1, 100)),
            Step(time_ms=1),
            *retracts(*gone),
            *adds(*again),
            *retracts(*gone[:2]),
            *adds(200, 200, 5),
            Step(time_ms=2),
            *retracts(*range(100), 200),
        ]

        emissions = harness.run(changes, epoch_changes=epoch_changes)

        assert first_difference(emissions, expect(spec, changes)) is None


@pytest.mark.parametrize("window", [1, 2, 16])
@pytest.mark.parametrize("upsert_key", [None, (0,)])
def test_windows_of_any_depth_give_the_same(
    window: int, upsert_key: tuple[int, ...] | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probing, "_WINDOW", window)
    monkeypatch.setattr(text, "FEW", 3)
    spec = replace(SPEC, strategy=Strategy.ADAPTIVE, high=12, low=4, upsert_key=upsert_key)
    rng = np.random.default_rng(window)
    for bias in (0.7, 0.5, 0.3):
        numbers = rng.integers(0, 25, 600).tolist()
        kinds = (rng.random(600) < np.linspace(0.9, bias, 600)).tolist()
        changes = [
            Change(ADD if kind else RETRACT, row(number))
            for number, kind in zip(numbers, kinds, strict=True)
        ]

        found = MaterializerHarness.on_heap(spec).run(changes, epoch_changes=23)

        assert first_difference(found, expect(spec, changes)) is None


class TestLayouts:
    @pytest.mark.parametrize("size", [1, 30])
    def test_adaptive_changes_the_layout_at_the_thresholds_and_keeps_order(self, size: int):
        spec = replace(SPEC, strategy=Strategy.ADAPTIVE, high=10, low=5)
        harness = MaterializerHarness.on_heap(spec)

        harness.run(adds(*range(9)), epoch_changes=size)
        assert harness.page((1,)).layout == "packed"
        harness.run(adds(9), epoch_changes=size)
        assert harness.page((1,)).layout == "spread"
        harness.run(retracts(0, 1, 2, 3), epoch_changes=size)
        assert harness.page((1,)).layout == "spread"
        harness.run(retracts(4), epoch_changes=size)
        assert harness.page((1,)).layout == "packed"

        assert [each[0] for each in harness.history((1,))] == [5, 6, 7, 8, 9]
        assert sum(each["migrations"] for each in harness.statistics) == 2

    @pytest.mark.parametrize("other", list(Strategy))
    @pytest.mark.parametrize("one", list(Strategy))
    def test_a_strategy_takes_over_what_another_one_left(self, one: Strategy, other: Strategy):
        spec = replace(BY_ID, strategy=one, high=3, low=1)
        harness = MaterializerHarness.on_heap(spec)
        changes = adds(1, 2, 3, 4)
        emissions = harness.run(changes)

        successor = MaterializerHarness.on_heap(replace(spec, strategy=other))
        successor._backend.store.key_groups = harness._backend.store.key_groups
        successor._backend.store.marker = harness._backend.store.marker
        successor._run = successor._ledger.open_run(["1_sink-materializer"], 4)
        successor._epoch = harness._epoch
        rest = [*adds(2), *retracts(4, 1, 3, 2)]
        emissions += successor.run(rest)

        assert short(emissions) == [
            f"{e.change.kind.short}{e.change.row[0]}" for e in expect(spec, changes + rest)
        ]
        assert successor.stored_keys() == []


class TestShown:
    """What the sink shows need not be the newest entry (oracle cases 021 and 022)."""

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP])
    @pytest.mark.parametrize("size", [None, 1])
    def test_a_replaced_row_is_shown_where_it_stands(self, strategy: Strategy, size: int | None):
        harness = MaterializerHarness.on_heap(replace(BY_ID, strategy=strategy))

        harness.run([*adds(1, 2, 3), Change(RowKind.UPDATE_AFTER, row(1, "b"))], epoch_changes=size)

        page = harness.page((1,))
        assert isinstance(page, HistoryPage)
        assert (page.shown, page.newest.sequence, page.fallback.sequence) == (1, 3, 2)

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP])
    @pytest.mark.parametrize("size", [None, 1])
    def test_a_shown_row_that_is_retracted_stays_in_the_sink_and_we_say_so(
        self, strategy: Strategy, size: int | None
    ):
        harness = MaterializerHarness.on_heap(replace(BY_ID, strategy=strategy))

        harness.run(
            [*adds(1, 2), Change(RowKind.UPDATE_AFTER, row(1, "b")), *retracts(1)],
            epoch_changes=size,
        )

        assert harness.page((1,)).shown is None
        harness.run(adds(7), epoch_changes=size)
        assert harness.page((1,)).shown == harness.page((1,)).newest.sequence


class TestTtl:
    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP, Strategy.ADAPTIVE])
    def test_entries_expire_one_by_one_and_emit_nothing(self, strategy: Strategy):
        spec = replace(SPEC, strategy=strategy, ttl_ms=100, high=2, low=1)
        harness = MaterializerHarness.on_heap(spec)
        harness.run([Step(time_ms=1000), *adds(1), Step(time_ms=1050), *adds(2)])

        assert harness.run([Step(time_ms=1100), *retracts(1)]) == []
        assert short(harness.run([Step(time_ms=1149), *retracts(2)])) == ["-D2"]

    def test_legacy_refreshes_the_whole_history(self):
        harness = MaterializerHarness.on_heap(replace(SPEC, strategy=Strategy.LEGACY, ttl_ms=100))
        harness.run([Step(time_ms=1000), *adds(1), Step(time_ms=1099), *adds(2)])

        assert short(harness.run([Step(time_ms=1198), *retracts(2)])) == ["+U1"]
        assert harness.run([Step(time_ms=1298), *retracts(1)]) == []

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP, Strategy.ADAPTIVE])
    def test_expiry_emits_what_it_means_where_that_is_asked_for(self, strategy: Strategy):
        ttl = replace(BY_ID, strategy=strategy, ttl_ms=100, high=2, low=1, emit_expired=True)
        harness = MaterializerHarness.on_heap(ttl)
        harness.run([Step(time_ms=1000), *adds(1), Step(time_ms=1010), *adds(2)])
        # 1 is put again, and 3, the newest, retracted: the sink shows 2, which is now the oldest.
        shown = harness.run([Step(time_ms=1050), *adds(3, 1), *retracts(3)])
        assert short(shown) == ["+U3", "+U1", "+U2"]

        emitted = {}
        for harness.now_ms in (1109, 1110, 1149, 1150, 1151):
            emitted[harness.now_ms] = short(harness.run_epoch([]))

        assert emitted == {1109: [], 1110: ["+U1"], 1149: [], 1150: ["-D1"], 1151: []}

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP, Strategy.LEGACY])
    def test_a_ttl_that_is_switched_on_finds_what_was_there_before(self, strategy: Strategy):
        spec = replace(SPEC, strategy=strategy)
        harness = MaterializerHarness.on_heap(spec, max_parallelism=3)
        harness.run([Step(time_ms=1000), *(Change(ADD, row(n, key=n)) for n in range(9))])
        harness.run([Step(time_ms=1080), Change(ADD, row(99, key=0))])

        harness.restart(replace(spec, ttl_ms=100, ttl_enabled_ms=1100, due_keys_max=1))
        left = []
        for harness.now_ms in (1100, 1101, 1102):
            harness.run_epoch([])
            left.append(len(harness.stored_keys()))

        # A key group an epoch, and no untouched key is forgotten.
        assert left[-1] == 1
        assert left == sorted(left, reverse=True)
        harness.now_ms = 1180
        for _ in ("expires", "forgets the walk", "promotes that"):
            harness.run_epoch([])
        assert harness.stored_names() == set()

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP])
    def test_another_ttl_counts_for_what_is_there(self, strategy: Strategy):
        harness = MaterializerHarness.on_heap(replace(SPEC, strategy=strategy, ttl_ms=1000))
        harness.run([Step(time_ms=1000), *adds(1), Step(time_ms=1050), *adds(2)])

        harness.restart(replace(SPEC, strategy=strategy, ttl_ms=100))
        harness.now_ms = 1100
        harness.run_epoch([])
        assert [each[0] for each in harness.history((1,))] == [2]
        harness.restart(replace(SPEC, strategy=strategy, ttl_ms=5000))
        harness.now_ms = 6049
        harness.run_epoch([])
        assert [each[0] for each in harness.history((1,))] == [2]
        harness.restart(replace(SPEC, strategy=strategy))
        harness.now_ms = 1 << 40
        harness.run_epoch([])
        assert [each[0] for each in harness.history((1,))] == [2]

    @pytest.mark.parametrize("strategy", list(Strategy))
    def test_an_extension_lets_what_is_there_and_what_comes_live_longer(self, strategy: Strategy):
        spec = replace(SPEC, strategy=strategy, ttl_ms=100)
        harness = MaterializerHarness.on_heap(spec)
        harness.run([Step(time_ms=1000), Change(ADD, row(1, key=1))])

        harness.restart(replace(spec, ttl_extension_ms=500))
        harness.run([Step(time_ms=1599), Change(ADD, row(2, key=2))])
        assert len(harness.stored_keys()) == 2
        harness.now_ms = 1600
        harness.run_epoch([])
        assert harness.stored_keys() == [(2,)]
        harness.now_ms = 1698
        harness.run_epoch([])
        assert harness.stored_keys() == [(2,)]
        harness.now_ms = 1699
        harness.run_epoch([])
        assert harness.stored_keys() == []

    @pytest.mark.parametrize("strategy", [Strategy.VALUE, Strategy.MAP, Strategy.ADAPTIVE])
    def test_what_lived_by_the_last_write_of_its_key_expires_when_it_no_more_does(
        self, strategy: Strategy
    ):
        """1 was written at 1000; only LEGACY lets it live 20 ms from the retraction at 1019."""
        legacy = replace(SPEC, strategy=Strategy.LEGACY, ttl_ms=20, emit_expired=True)
        stage = Stage.on_heap(legacy)
        for time_ms, changes in [(1000, adds(1)), (1015, adds(2)), (1019, retracts(2))]:
            stage.run(Epoch(tuple(Of(0, each) for each in changes), time_ms))
        stage.restart(replace(legacy, strategy=strategy))

        emitted = {}
        for time_ms in (1019, 1020):
            emitted[time_ms] = changes_of(stage, stage.run(Epoch((), time_ms)))

        assert emitted == {1019: [], 1020: retracts(1)}

    def test_expiry_is_emitted_before_the_changes_of_its_epoch(self):
        harness = MaterializerHarness.on_heap(replace(SPEC, ttl_ms=100, emit_expired=True))
        harness.run([Step(time_ms=1000), *adds(1)])

        assert short(harness.run([Step(time_ms=1100), *adds(2)])) == ["-D1", "+I2"]

    @pytest.mark.parametrize("strategy", list(Strategy))
    def test_an_expired_key_is_told_from_an_unknown_one(self, strategy: Strategy):
        harness = MaterializerHarness.on_heap(replace(SPEC, strategy=strategy, ttl_ms=100))
        harness.run([Step(time_ms=1000), *adds(1, 2)])

        harness.now_ms = 1100

        assert harness.page((1,)) == Expired(size=2, expired_ms=1100)
        assert harness.page((2,)) is None

    @pytest.mark.parametrize("strategy", list(Strategy))
    def test_the_clean_up_takes_no_more_keys_than_are_due(self, strategy: Strategy):
        harness = MaterializerHarness.on_heap(replace(SPEC, strategy=strategy, ttl_ms=100))
        changes = [Change(ADD, row(1, key=key)) for key in range(5)]
        harness.run([Step(time_ms=1000), *changes[:3], Step(time_ms=1050), *changes[3:]])

        harness.now_ms = 1100
        harness.run_epoch([])

        assert harness.statistics[-1]["expired"] == 3
        assert sorted(harness.stored_keys()) == [(3,), (4,)]
        harness.now_ms = 1101
        harness.run_epoch([])
        assert harness.statistics[-1]["reads"] == 0


def test_orphans_are_counted_for_ever_and_listed_as_far_as_there_is_room():
    spec = replace(SPEC, orphans_max=2)
    harness = MaterializerHarness.on_heap(spec, max_parallelism=1)

    harness.run([*adds(1), *retracts(7, 8, 9)])
    harness.run_epoch([])

    (count,), entries = harness.view().fetch(
        [HashGet(0, b"counters", [b"orphans"]), StreamScan(0, b"orphans", None, 10)]
    )
    assert count == b"3"
    fields = [dict(zip(flat[::2], flat[1::2], strict=True)) for _, flat in entries]
    assert [(each[b"key"], each[b"row"], each[b"op"]) for each in fields] == [
        (b"[1]", b'[8,1,"a"]', b"-D"),
        (b"[1]", b'[9,1,"a"]', b"-D"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": ()},
        {"key": (5,)},
        {"upsert_key": (0, 0)},
        {"names": ("a",)},
        {"high": 3, "low": 3},
        {"ttl_ms": -1},
    ],
)
def test_a_spec_that_can_not_be_is_refused(wrong: dict):
    with pytest.raises(InvalidSpec):
        replace(SPEC, **wrong)


def test_a_spec_travels_as_json():
    spec = replace(BY_ID, strategy=Strategy.MAP, high=9, low=2, ttl_ms=5)

    assert MaterializerSpec.from_json(spec.to_json()) == spec
