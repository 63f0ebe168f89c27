"""Histories in segments: what one epoch puts into a hash of its own, others find and change there.

Epochs add many rows at once, so that nearly each begins a segment, and take rows from the old end,
the new end or anywhere, or all before others come. The materializer and the handle take turns, and
agree with the plain list. Each epoch of the materializer has an attempt before it of one that
remembers nothing: the state sees that both write the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.changelog import Change, Row, RowKind
from state.backends.interface import Drop
from state.errors import StateCorrupt
from state.multiset.segments import SegmentMerge, segment_name, segments_max
from state.multiset.spread import SpreadNames
from state.multiset.strategy import Strategy
from state.multiset.text import is_spread, parse_header
from state.primitives.inspection import StateContent, read_state
from state.registry import as_registered
from state.ttl import TtlClock
from tests.state.primitives.test_multiset_columnar import TTL_MS, UPSERT_KEYS, BothWorlds

if TYPE_CHECKING:
    import redis

pytestmark = pytest.mark.usefixtures("small_buckets", "small_segments")

ENDS = st.sampled_from(["old", "new", "any", "all"])
EPOCHS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 60),
        st.integers(0, 60),
        ENDS,
        st.sampled_from([0, 0, 0, 4, TTL_MS]),
    ),
    min_size=3,
    max_size=8,
)


class Table:
    """Rows of one key that are alive, and the epochs that change them."""

    def __init__(self, worlds: BothWorlds) -> None:
        self.worlds = worlds
        self.live: list[Row] = []
        self.added = 0

    def epoch(self, added: int, removed: int, end: str, *, is_columnar: bool) -> None:
        """Rows that come, each followed by one that goes; all go before the first one comes."""
        rows = [(0, number, "a", None) for number in range(self.added, self.added + added)]
        self.added += added
        held = {"old": self.live, "new": self.live[::-1], "any": self.live[::3]}.get(end, [])
        held = held[:removed]
        changes: list[Change] = []
        if end == "all":
            changes = [Change(RowKind.DELETE, row) for row in self.live]
            self.live = []
        for place in range(max(len(rows), len(held))):
            changes += [Change(RowKind.INSERT, row) for row in rows[place : place + 1]]
            changes += [Change(RowKind.DELETE, row) for row in held[place : place + 1]]
        if is_columnar:
            self.worlds.attempt_anew(changes)
        self.worlds.epoch(changes, is_columnar=is_columnar)
        self.live = [row for row in self.live if row not in held] + rows

    @property
    def segments(self) -> tuple[int, ...]:
        """What the header says; none where the history is packed or gone."""
        value = self.worlds.value(0)
        return () if value is None or not is_spread(value) else parse_header(value).segments


@settings(deadline=None)
@given(
    epochs=EPOCHS,
    strategy=st.sampled_from([Strategy.MAP, Strategy.ADAPTIVE]),
    upsert_key=st.sampled_from(UPSERT_KEYS),
    ttl_ms=st.sampled_from([0, TTL_MS]),
)
def test_epochs_of_both_agree_and_leave_nothing(
    epochs: list[tuple[bool, int, int, str, int]],
    strategy: Strategy,
    upsert_key: tuple[int, ...] | None,
    ttl_ms: int,
) -> None:
    worlds = BothWorlds(strategy, upsert_key, ttl_ms)
    table = Table(worlds)
    for is_columnar, added, removed, end, passed_ms in epochs:
        table.epoch(added, removed, end, is_columnar=is_columnar)
        assert len(table.segments) <= 3
        worlds.harness.now_ms += passed_ms

    worlds.epoch([Change(RowKind.DELETE, row) for row in table.live], is_columnar=epochs[0][0])
    worlds.harness.now_ms += TTL_MS
    worlds.epoch([], is_columnar=True)
    left = worlds.harness.stored_names()
    assert not {name for name in left if b":blocks" in name or b":order" in name}
    assert worlds.value(0) is None


@settings(deadline=None, max_examples=10, suppress_health_check=list(HealthCheck))
@given(epochs=EPOCHS)
def test_epochs_of_both_on_redis(
    redis_client: redis.Redis, epochs: list[tuple[bool, int, int, str, int]]
) -> None:
    worlds = BothWorlds(Strategy.MAP, None, 0, redis_client)
    table = Table(worlds)
    for is_columnar, added, removed, end, _ in epochs:
        table.epoch(added, removed, end, is_columnar=is_columnar)
    worlds.epoch([Change(RowKind.DELETE, row) for row in table.live], is_columnar=epochs[0][0])
    # What waits of the last epoch is promoted by the next one.
    worlds.epoch([], is_columnar=True)
    left = [*redis_client.scan_iter("*:blocks*"), *redis_client.scan_iter("*:order")]
    worlds.harness.close()
    assert not left


def test_segments_come_and_go_and_are_few() -> None:
    """The oldest ones are taken out once they are empty; of three, two are put together before."""
    worlds = BothWorlds(Strategy.MAP, None, 0)
    table = Table(worlds)
    table.epoch(64, 0, "old", is_columnar=True)
    assert table.segments == ()
    # An epoch has two blocks. The narrowest neighbours become one; of equal ones the oldest.
    for segments in ((5,), (5, 7), (5, 7, 9), (5, 9, 11), (5, 9, 13)):
        table.epoch(32, 0, "old", is_columnar=True)
        assert table.segments == segments
    assert worlds.harness.page((0,), after=16 * 9, limit=3).next_after == 16 * 9 + 3

    # So many changes that the whole index is read; then it is known what is empty.
    table.epoch(90, 16 * 9 - 1, "old", is_columnar=True)
    assert table.segments == (9, 15)
    # A change alone writes where the block is.
    table.epoch(0, 1, "new", is_columnar=False)
    table.epoch(32, 0, "old", is_columnar=True)
    assert table.segments[:2] == (9, 15)
    assert len(table.segments) == 3


@pytest.mark.parametrize("removed", [0, 31])
def test_segments_that_are_put_together_leave_no_hash_and_lose_no_block(removed: int) -> None:
    """Whether all of their blocks are there, or few: what goes is never the oldest of a segment."""
    worlds = BothWorlds(Strategy.MAP, None, 0)
    table = Table(worlds)
    table.epoch(64, 0, "old", is_columnar=True)
    for _ in range(9):
        table.epoch(32, removed, "new", is_columnar=True)

    key, _ = worlds.place(0)
    blocks = SpreadNames.of(key).blocks
    names = {name for name in worlds.harness.stored_names() if b":blocks" in name}
    wanted = {blocks, *(segment_name(blocks, first) for first in table.segments)}
    assert {name[name.index(b"history:") :] for name in names} == wanted
    assert len(table.segments) == 3


def test_segments_of_which_nothing_is_left_make_room_without_a_hash() -> None:
    merge = SegmentMerge(b"b", (3, 5))

    assert merge.writes({}) == [Drop(b"b:3"), Drop(b"b:5")]
    assert merge.left((1, 3, 5, 9), {}) == (1, 9)


def test_a_long_history_that_only_grows_is_never_put_together() -> None:
    """A segment more for each 1,024 entries: by epochs as large, there is always room."""
    segments = range(0, 5_000, 2)[: segments_max(50_000)]

    assert len(segments) == 3 + 48
    assert SegmentMerge.wanted(b"b", segments, 50_000, 6_000, 6_064) is not None
    assert SegmentMerge.wanted(b"b", segments, 51_200, 6_000, 6_064) is None
    assert SegmentMerge.wanted(b"b", segments, 50_000, 6_000, 6_001) is None, "little is new"


def test_people_see_a_multiset_in_segments() -> None:
    worlds = BothWorlds(Strategy.MAP, None, 0)
    table = Table(worlds)
    for _ in range(3):
        table.epoch(40, 10, "old", is_columnar=True)
    key, group = worlds.place(0)
    state = as_registered("node", worlds.descriptor)

    def page(after: str, limit: int) -> list[int]:
        content = read_state(
            worlds.harness.view(), state, group, key, clock=TtlClock(0), after=after, limit=limit
        )
        assert isinstance(content, StateContent)
        return [element.key for element in content.elements]

    assert len(table.segments) == 2
    assert page("", 1_000) == list(range(21, 121))
    assert page("44", 10) == list(range(45, 55))


@pytest.mark.parametrize("is_columnar", [True, False])
def test_a_segment_that_is_gone_is_refused(is_columnar: bool) -> None:
    """None of its blocks is taken for one that never was there."""
    worlds = BothWorlds(Strategy.MAP, None, 0)
    table = Table(worlds)
    for _ in range(3):
        table.epoch(40, 0, "old", is_columnar=True)
    key, group = worlds.place(0)
    name = segment_name(SpreadNames.of(key).blocks, table.segments[0])
    worlds.harness.run_epoch_by(lambda epoch, _: epoch.commit({group: [Drop(name)]}))

    with pytest.raises(StateCorrupt, match=r"block \d+ of a history.* is missing"):
        # One that is neither among the first nor among the newest.
        worlds.epoch([Change(RowKind.DELETE, table.live[50])], is_columnar=is_columnar)


@pytest.mark.parametrize("is_columnar", [True, False])
@pytest.mark.parametrize("ttl_ms", [0, TTL_MS])
def test_a_history_that_begins_anew_within_an_epoch_numbers_its_segments_anew(
    ttl_ms: int, is_columnar: bool
) -> None:
    """Emptied by retractions of equal rows, for which little of the index is read, or by time."""
    worlds = BothWorlds(Strategy.MAP, None, ttl_ms)
    rows = [Change(RowKind.INSERT, (0, number % 2, "a", None)) for number in range(60)]
    gone = [Change(RowKind.DELETE, each.row) for each in rows]
    segments = Table(worlds)
    for _ in range(2):
        worlds.epoch(rows, is_columnar=True)
    (first,) = segments.segments

    worlds.harness.now_ms += ttl_ms
    worlds.epoch([*([] if ttl_ms else 2 * gone), *rows[:20]], is_columnar=is_columnar)
    assert segments.segments == ()
    for _ in range(2):
        worlds.epoch(rows, is_columnar=True)
    assert segments.segments
    assert segments.segments[0] < first

    worlds.epoch([*gone, *gone, *gone[:20]], is_columnar=is_columnar)
    assert worlds.value(0) is None
    assert not {name for name in worlds.harness.stored_names() if b":blocks" in name}


@pytest.mark.parametrize("is_columnar", [True, False])
def test_a_history_in_segments_is_packed_and_begins_anew(is_columnar: bool) -> None:
    worlds = BothWorlds(Strategy.ADAPTIVE, (1,), 0)
    table = Table(worlds)
    for _ in range(3):
        table.epoch(40, 0, "old", is_columnar=True)
    assert len(table.segments) == 2

    table.epoch(0, 117, "any", is_columnar=is_columnar)
    table.epoch(0, len(table.live) - 3, "new", is_columnar=is_columnar)
    names = worlds.harness.stored_names()
    assert not {name for name in names if b":blocks" in name}
    table.epoch(40, 3, "old", is_columnar=is_columnar)
    assert table.segments == ()
