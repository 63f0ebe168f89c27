"""The kernel's short cut for epochs that leave each history's newest entries in their order.

Long histories are mostly changed so: what is added is new, and what is retracted was written long
before. Where no two changes are about the same match columns and the newest entry of every key
stays, nothing is uncovered and nothing emptied, whatever the order of the changes: so all that the
epoch does is told by counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from state.multiset.changes import Outcome, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.changes import Groups, KeyedChanges, LoadedEntries

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


def quiet_outcome(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> Outcome | None:
    """What the epoch did, if it is such an epoch; None if it is not.

    Args:
        changes: The epoch's changes.
        groups: `group_changes(changes)`.
        loaded: The histories before.
        replace: An addition takes the place of the entry that it matches.
    """
    if not loaded.key.size or not groups.begins.all() or not loaded.size.all():
        return None
    found = _found(changes, groups, loaded, replace=replace)
    if found is None:
        return None
    removed, removals = found
    entry_removed = np.zeros(loaded.key.size, np.bool_)
    entry_removed[removed] = True
    keys = np.arange(loaded.size.size)
    top = loaded.key.searchsorted(keys, side="right") - 1
    # Of a key that is there because it may be due, nothing need be loaded.
    if entry_removed[top].any() or not np.array_equal(loaded.key[top], keys):
        return None
    born = changes.accumulates.nonzero()[0]
    report = np.where(changes.accumulates, np.int8(Report.ADDED), np.int8(Report.MISSED))
    report[removals] = Report.REMOVED
    births = np.bincount(changes.key[born], minlength=keys.size)
    following = loaded.following + births
    shown = loaded.shown.copy()
    hidden = removed[loaded.sequence[removed] == shown[loaded.key[removed]]]
    shown[loaded.key[hidden]] = 0
    has_births = births > 0
    return Outcome(
        report=report,
        seen=born,
        source=np.arange(changes.key.size),
        entry_removed=entry_removed,
        entry_content=np.full(loaded.key.size, -1, np.int64),
        born=born,
        born_content=born,
        born_sequence=np.arange(born.size) + np.repeat(following - np.cumsum(births), births),
        size=loaded.size + births - np.bincount(loaded.key[removed], minlength=keys.size),
        following=following,
        shown=np.where(has_births, following - 1, shown),
        newest=np.where(has_births, following - 1, loaded.sequence[top]),
        sunk=np.zeros(keys.size, np.bool_),
    )


def _found(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> tuple[Integers, Integers] | None:
    """The loaded entries that go, and the retractions that take them, where each has one choice.

    Returns:
        None where an addition replaces an entry, or a retraction matches several.
    """
    matched = (loaded.group >= 0).nonzero()[0]
    # A group has one change, so that groups are slots.
    change = groups.event[loaded.group[matched]]
    adds = changes.accumulates[change]
    if adds.any():
        if replace:
            return None
        matched, change = matched[~adds], change[~adds]
    is_taken = np.zeros(changes.key.size, np.bool_)
    is_taken[change] = True
    return (matched, change) if int(is_taken.sum()) == change.size else None
