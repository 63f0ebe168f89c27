"""The keys of a state, for people: from committed state, a page at a time.

What a state keeps of a key lies under the key and, where the operator uses any, a namespace: a
window, for example. A key with several namespaces comes once for each.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from state.backends.interface import HashLength, SortedLength, SortedRange
from state.multiset.history import KeySummary, glob_prefix
from state.primitives.layout import read_collection
from state.primitives.multiset_text import read_header

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Read, StateView

_EVER = float("inf")


def list_state_keys(
    view: StateView,
    state: bytes,
    key_group: int,
    *,
    kind: str = "",
    cursor: int = 0,
    prefix: bytes = b"",
    count: int = 100,
) -> tuple[int, list[KeySummary]]:
    """A page of the keys that a state has in a key group, in no order; cursor 0 begins and ends.

    Args:
        view: Committed state of the operator.
        state: The state's name.
        key_group: The key group.
        kind: The state's. Timers are ordered by time, so all of the key group are one page.
        cursor: 0, or what the page before gave.
        prefix: What canonical keys begin with.
        count: About how many keys to look at: a page may be short, or empty, before the end.

    Returns:
        The next cursor, and the keys; one with several namespaces comes once for each.
    """
    if kind == "timers":
        return 0, _timer_keys(view, state, key_group, prefix)
    match = glob_prefix(prefix) if prefix else None
    following, pairs = view.scan_hash(key_group, state, cursor, match, count)
    return following, [_summary(kind, *each) for each in pairs if each[0].startswith(prefix)]


def count_of(state: bytes, kind: str, key_groups: Sequence[int]) -> list[Read]:
    """The reads that tell how many keys, with their namespaces, a state has; of timers: how many.

    Returns:
        One a key group; each gives a number.
    """
    if kind == "timers":
        return [SortedLength(each, state) for each in key_groups]
    return [HashLength(each, state) for each in key_groups]


def _timer_keys(view: StateView, state: bytes, key_group: int, prefix: bytes) -> list[KeySummary]:
    (members,) = view.fetch([SortedRange(key_group, state, -_EVER, _EVER)])
    owners = Counter(member.rpartition(b"\t")[0] for member, _ in members)
    return [
        KeySummary(key, "packed", size, namespace)
        for owner, size in owners.items()
        if owner.startswith(prefix)
        for key, _, namespace in [owner.partition(b"\t")]
    ]


def _summary(kind: str, stored: bytes, value: bytes) -> KeySummary:
    key, _, namespace = stored.partition(b"\t")
    if kind == "multiset":
        first, *lines = value.split(b"\n")
        head = read_header(first)
        layout, size = ("spread", head.size or 0) if head.is_spread else ("packed", len(lines))
        return KeySummary(key, layout, size, namespace)
    for layout in ("spread", "packed"):
        if value.startswith(b"%b\t" % layout.encode()):
            header, lines = read_collection(value)
            size = header.size if header.is_spread else len(lines)
            return KeySummary(key, layout, size, namespace)
    return KeySummary(key, "packed", 1, namespace)
