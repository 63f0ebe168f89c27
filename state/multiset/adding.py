"""The kernel's short cut for epochs that retract nothing.

Streams of upserts mostly have such epochs. What was loaded stays, each key's entries are numbered
on, and each match column's last addition says what its entry holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from state.multiset.changes import Outcome, Report, differs

if TYPE_CHECKING:
    from state.multiset.changes import Groups, KeyedChanges, LoadedEntries

_FIRST, _ADDED = np.int8(Report.FIRST), np.int8(Report.ADDED)


def adding_outcome(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> Outcome | None:
    """What the epoch did, if it is such an epoch; None if it is not.

    Args:
        changes: The epoch's changes.
        groups: `group_changes(changes)`.
        loaded: The histories before.
        replace: An addition takes the place of the entry that it matches.
    """
    if not changes.accumulates.all():
        return None
    count, key_count = changes.key.size, loaded.size.size
    first = differs(changes.key).nonzero()[0]
    last = np.append(first[1:], count)[: first.size] - 1
    key = changes.key[first]
    report = np.full(count, _ADDED)
    report[first[loaded.size[key] == 0]] = _FIRST
    entry_content = np.full(loaded.key.size, -1, np.int64)
    born = content = np.arange(count)
    if replace:
        contents = groups.event[groups.start[1:] - 1]
        held = (loaded.group >= 0).nonzero()[0]
        entry_content[held] = contents[loaded.group[held]]
        entry_of = np.full(contents.size, -1, np.int64)
        # Of repeated indices the last one counts: the oldest entry.
        entry_of[loaded.group[held[::-1]]] = held[::-1]
        makes = np.zeros(count, np.bool_)
        makes[groups.first[entry_of < 0]] = True
        born = makes.nonzero()[0]
        content = contents[groups.of_change[born]]
    counts = np.bincount(changes.key[born], minlength=key_count)
    following = loaded.following + counts
    sequence = np.arange(born.size) + (following - counts.cumsum())[changes.key[born]]
    newest, shown = np.zeros(key_count, np.int64), loaded.shown.copy()
    newest[loaded.key] = loaded.sequence
    newest[counts > 0] = following[counts > 0] - 1
    if replace:
        group = groups.of_change[last]
        entry, made = entry_of[group], born.searchsorted(groups.first[group])
        is_held = entry >= 0
        shown[key[is_held]] = loaded.sequence[entry[is_held]]
        shown[key[~is_held]] = sequence[made[~is_held]]
    else:
        shown[key] = following[key] - 1
    return Outcome(
        report=report,
        seen=np.arange(count),
        source=np.arange(count),
        entry_removed=np.zeros(loaded.key.size, np.bool_),
        entry_content=entry_content,
        born=born,
        born_content=content,
        born_sequence=sequence,
        size=loaded.size + counts,
        following=following,
        shown=shown,
        newest=newest,
        sunk=np.zeros(key_count, np.bool_),
    )
