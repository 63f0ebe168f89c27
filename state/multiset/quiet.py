"""The kernel's short cut for epochs that never retract what is the newest entry at that time.

Long histories are mostly changed so: what is added is new, and what is retracted was written before
other entries were. Where match columns are added once at most, retracted once at most, and not
again after that, and each entry that goes has a newer one which stays longer, nothing is uncovered
and nothing emptied, whatever the order of the other changes: so all is told by counting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from state.multiset.changes import Outcome, Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.changes import Groups, KeyedChanges, LoadedEntries

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


# Numpy takes longer to see what a member of an enumeration is than to compare with it.
_FIRST, _ADDED, _REMOVED, _MISSED = (
    np.int8(each) for each in (Report.FIRST, Report.ADDED, Report.REMOVED, Report.MISSED)
)
_FEW_KEYS = 64
_CHANGES_MIN = 16
"""Of more keys, so many changes for each: else one of them is mostly not so, and it need not be
asked."""


class _Taken(NamedTuple):
    """What retractions take, where each has one choice."""

    entries: Integers
    """Loaded entries that go."""
    by: Integers
    """The retraction of each."""
    additions: Integers
    """Additions of the epoch whose entries go again."""
    back: Integers
    """The retraction of each."""


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
    count = loaded.size.size
    if count > _FEW_KEYS and changes.key.size < _CHANGES_MIN * count:
        return None
    taken = _taken(changes, groups, loaded, replace=replace)
    if taken is None:
        return None
    keys, births = np.arange(count), changes.accumulates.nonzero()[0]
    ends = changes.key[births].searchsorted(keys, side="right")
    counts = ends.copy()
    counts[1:] -= ends[:-1]
    top = loaded.key.searchsorted(keys, side="right") - 1
    top[loaded.size == 0] = -1
    if not _are_covered(changes, loaded, taken, births, ends - counts, top):
        return None
    entry_removed = np.zeros(loaded.key.size, np.bool_)
    entry_removed[taken.entries] = True
    has_births = counts > 0
    report = np.where(changes.accumulates, _ADDED, _MISSED)
    report[taken.by] = report[taken.back] = _REMOVED
    report[births[(ends - counts)[has_births & (top < 0)]]] = _FIRST
    stays = np.ones(changes.key.size, np.bool_)
    stays[taken.additions] = False
    left = stays[births].nonzero()[0]
    following = loaded.following + counts
    sequence = np.arange(births.size) + (following - ends).repeat(counts)
    shown, newest = loaded.shown.copy(), np.zeros(keys.size, np.int64)
    hidden = taken.entries[loaded.sequence[taken.entries] == shown[loaded.key[taken.entries]]]
    shown[loaded.key[hidden]] = 0
    newest[top >= 0] = loaded.sequence[top[top >= 0]]
    gone = np.concatenate((loaded.key[taken.entries], changes.key[taken.additions]))
    return Outcome(
        report=report,
        seen=births,
        source=np.arange(changes.key.size),
        entry_removed=entry_removed,
        entry_content=np.full(loaded.key.size, -1, np.int64),
        born=births[left],
        born_content=births[left],
        born_sequence=sequence[left],
        size=loaded.size + counts - np.bincount(gone, minlength=keys.size),
        following=following,
        shown=np.where(has_births, following - 1, shown),
        newest=np.where(has_births, following - 1, newest),
        sunk=np.zeros(keys.size, np.bool_),
    )


def _taken(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> _Taken | None:
    """What retractions take; None where an addition replaces an entry, or there is a choice."""
    second = (~groups.begins).nonzero()[0]
    adds = groups.accumulates
    if not (groups.begins[second - 1] & adds[second - 1] & ~adds[second]).all():
        return None
    matched = (loaded.group >= 0).nonzero()[0]
    group = loaded.group[matched]
    change = groups.first[group]
    if (is_added := changes.accumulates[change]).any():
        if replace:
            return None
        # Additions that nothing retracts are entries of their own.
        is_pair = np.zeros(groups.start.size - 1, np.bool_)
        is_pair[second - np.arange(1, second.size + 1)] = True
        if is_pair[group].any():
            return None
        matched, change = matched[~is_added], change[~is_added]
    is_taken = np.zeros(changes.key.size, np.bool_)
    is_taken[change] = True
    if int(is_taken.sum()) < change.size:
        return None
    return _Taken(matched, change, groups.event[second - 1], groups.event[second])


def _are_covered(
    changes: KeyedChanges,
    loaded: LoadedEntries,
    taken: _Taken,
    births: Integers,
    starts: Integers,
    top: Integers,
) -> bool:
    """Whether each entry that goes is followed by one that came before that and stays longer.

    Of the loaded entries only the newest ones are looked at: it holds for older ones then, too.

    Args:
        changes: The epoch's changes.
        loaded: The histories before.
        taken: What goes.
        births: The additions, by key and time.
        starts: Per key: the first of them.
        top: Per key: its newest loaded entry, -1 if it is empty.
    """
    count, keys = changes.key.size, np.arange(top.size)
    known = loaded.size > 0
    # Only where the newest entries are loaded it can be told.
    if (top[known] < 0).any() or not np.array_equal(loaded.key[top[known]], keys[known]):
        return False
    removal = np.full(loaded.key.size, -1)
    removal[taken.entries] = taken.by
    key = known.nonzero()[0]
    key = key[removal[top[key]] >= 0]
    when, cover = removal[top[key]], starts[key]
    if taken.additions.size:
        key = np.concatenate((key, changes.key[taken.additions]))
        when = np.concatenate((when, taken.back))
        # Additions go in any order, so that searching would take longer.
        cover = np.concatenate((cover, changes.accumulates.cumsum()[taken.additions]))
    if not key.size:
        return True
    if int(cover.max()) >= births.size:
        return False
    covering = births[cover]
    death = np.full(count, count)
    death[taken.additions] = taken.back
    is_there = (changes.key[covering] == key) & (covering < when)
    return bool((is_there & (death[covering] > when)).all())
