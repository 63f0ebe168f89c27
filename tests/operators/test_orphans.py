"""Orphans of operators that know them one by one: all are counted, the newest are listed."""

from __future__ import annotations

from operators.changelog import RowKind
from operators.orphans import COUNTERS, ORPHANS, Orphan, orphans_of_rows
from state.backends.interface import HashAdd, StreamAppend


def test_where_there_is_no_room_for_all_the_newest_are_listed() -> None:
    orphans = [Orphan(5, b"[1]", b"[%d]" % at, RowKind.DELETE, 0) for at in range(3)]

    found = list(orphans_of_rows(orphans, 7, 2))

    listed = [(b"key", b"[1]", b"row", b"[%d]" % at, b"op", b"-D", b"ms", b"7") for at in (1, 2)]
    assert found == [(5, HashAdd(COUNTERS, ORPHANS, 3)), (5, StreamAppend(ORPHANS, listed, 2))]
    assert list(orphans_of_rows(orphans, 7, 0)) == found[:1]
