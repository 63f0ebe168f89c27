"""Lives of the values of a sorted map, one by one, on heap and Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.multiset.strategy import Thresholds
from state.testing.sessions import PACKED, SPREAD
from state.testing.sorted_epochs import Epochs
from state.ttl import TtlConfig, UpdateType, Visibility
from tests.state.primitives.sorted_maps import described

if TYPE_CHECKING:
    from state.descriptors import SortedMapDescriptor
    from state.testing.stand import Stand


@pytest.fixture
def epochs(stand: Stand) -> Epochs:
    return Epochs(stand)


@pytest.fixture(params=["packed", "spread", "adaptive"])
def rows(request: pytest.FixtureRequest) -> SortedMapDescriptor[Any, Any]:
    thresholds = {"packed": PACKED, "spread": SPREAD, "adaptive": Thresholds(high=4, low=2)}
    return described(thresholds=thresholds[request.param])


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
