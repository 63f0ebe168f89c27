"""The list that means a history, with the cases of Flink's SequencedMultiSetStateTest."""

from __future__ import annotations

from state.multiset.interface import Added, NotFound, RemovedAll, RemovedLast, RemovedOther
from state.multiset.packed import PackedMultiSet


def filled(*matches: bytes) -> PackedMultiSet:
    history = PackedMultiSet()
    for time, match in enumerate(matches):
        history.append(match, b"row " + match, time)
    return history


def matches_of(history: PackedMultiSet) -> list[bytes]:
    history.check()
    return [entry.match for entry in history]


def test_append_keeps_duplicates_in_order_with_their_times():
    history = PackedMultiSet()

    sizes = [
        history.append(match, b"x", time)
        for match, time in [(b"1", 777), (b"1", 778), (b"2", 779), (b"1", 777)]
    ]

    assert sizes == [Added(True, 1), Added(False, 2), Added(False, 3), Added(False, 4)]
    assert [(entry.match, entry.written_ms) for entry in history] == [
        (b"1", 777),
        (b"1", 778),
        (b"2", 779),
        (b"1", 777),
    ]


def test_add_replaces_in_place_and_keeps_the_number():
    history = PackedMultiSet()
    for match, row, time in [(b"1", b"x", 1), (b"2", b"x", 1), (b"2", b"y", 2), (b"1", b"y", 2)]:
        history.add(match, row, time)

    assert [(e.sequence, e.match, e.row, e.written_ms) for e in history] == [
        (1, b"1", b"y", 2),
        (2, b"2", b"y", 2),
    ]
    history.add(b"3", b"z", 3)
    assert [entry.sequence for entry in history] == [1, 2, 3]


def test_remove_tells_what_was_removed():
    history = filled(b"1", b"2", b"3", b"4")

    assert history.remove(b"999", 9) == NotFound(4)
    assert isinstance(history.remove(b"4", 9), RemovedLast)
    last = history.remove(b"3", 9)
    assert isinstance(last, RemovedLast)
    assert last.now_last.row == b"row 2"
    assert history.remove(b"1", 9) == RemovedOther(1)
    assert history.remove(b"2", 9) == RemovedAll()
    assert history.remove(b"1", 9) == NotFound(0)


def test_the_oldest_of_several_copies_goes_first():
    history = filled(b"1", b"2", b"2")

    assert history.remove(b"2", 9) == RemovedOther(2)
    assert [entry.sequence for entry in history] == [1, 3]
    assert isinstance(history.remove(b"2", 9), RemovedLast)
    assert history.remove(b"1", 9) == RemovedAll()


def test_removing_the_head_and_adding_it_again_puts_it_last():
    history = filled(b"1", b"2")

    assert history.remove(b"1", 9) == RemovedOther(1)
    history.append(b"1", b"row", 9)

    assert matches_of(history) == [b"2", b"1"]


def test_numbers_begin_anew_only_after_the_history_was_empty():
    history = filled(b"1", b"2")
    history.remove(b"2", 9)
    history.append(b"3", b"row", 9)
    assert [entry.sequence for entry in history] == [1, 3]

    history.remove(b"1", 9)
    history.remove(b"3", 9)
    history.append(b"4", b"row", 9)

    assert [entry.sequence for entry in history] == [1]


def test_entries_expire_one_by_one_or_as_a_whole():
    one_by_one, whole = filled(b"1", b"2"), PackedMultiSet(whole=True)
    for time, match in enumerate([b"1", b"2"]):
        whole.append(match, b"row", time)

    assert one_by_one.expire(0) == 1
    assert matches_of(one_by_one) == [b"2"]
    assert whole.expire(0) == 0
    assert whole.expire(1) == 2
    assert len(whole) == 0
