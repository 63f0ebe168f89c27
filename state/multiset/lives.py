"""Which entry each change is about: the matching half of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.changes import Groups, KeyedChanges, LoadedEntries

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Lives:
    """Which entry each change is about."""

    birth: Flags
    """Per change: it makes a new entry."""
    found: Flags
    """Per change: it is a retraction that removes an entry."""
    target: Integers
    """Per change: its entry, as the change that made it or -1 - (index of a loaded entry)."""


def find_lives(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> Lives:
    """Which entry each change makes, replaces or removes."""
    lives = _alternating(changes, groups, loaded)
    if lives is None:
        find = _replacing if replace else _appending
        lives = find(changes, groups, loaded)
    return lives


def _alternating(changes: KeyedChanges, groups: Groups, loaded: LoadedEntries) -> Lives | None:
    """The common case: no change matches an old entry, and no group adds twice in a row.

    Then a retraction takes what the change before it in the group added, if there is one, and the
    two ways of matching are one. None if it is not the case.
    """
    adds = groups.accumulates
    if (loaded.group >= 0).any() or (adds[1:] & adds[:-1] & ~groups.begins[1:]).any():
        return None
    count = changes.key.size
    target, found = np.arange(count), np.zeros(count, np.bool_)
    slots = (adds[:-1] & ~adds[1:] & ~groups.begins[1:]).nonzero()[0]
    event = groups.event[slots + 1]
    found[event] = True
    target[event] = groups.event[slots]
    return Lives(changes.accumulates, found, target)


def _appending(changes: KeyedChanges, groups: Groups, loaded: LoadedEntries) -> Lives:
    """First in, first out: a group's j-th found retraction takes its j-th entry.

    A group's count goes up with additions and down with retractions, reflected at zero: a
    retraction that would take the plain running sum to a new negative minimum finds nothing.
    """
    count = changes.key.size
    birth = changes.accumulates
    target = np.arange(count)
    found = np.zeros(count, np.bool_)
    queue, queue_start = _entries_of_groups(loaded, groups.start.size - 1)
    initial = np.diff(queue_start)
    start = groups.start[:-1]
    adds = groups.accumulates
    added: Integers = np.cumsum(adds)
    added_before: Integers = added[start] - adds[start]
    # Additions less retractions so far in the group: twice the additions, less all changes.
    slots = np.arange(count)
    level = 2 * added
    level -= slots
    level += (initial - 2 * added_before + start - 1)[groups.group]
    if int(level.min()) < 0:
        hits = ~adds & ~_new_minimum(level, groups)
        slots = hits.nonzero()[0]
        removed: Integers = np.cumsum(hits)
        removed_before: Integers = removed[start] - hits[start]
        ordinal = removed[slots] - 1
    else:
        slots = (~adds).nonzero()[0]
        removed_before = start - added_before
        ordinal = slots - added[slots]
    group = groups.group[slots]
    ordinal -= removed_before[group]
    event = groups.event[slots]
    found[event] = True
    target[event] = _taken(groups, queue, queue_start, group, added_before[group], ordinal)
    return Lives(birth, found, target)


def _taken(
    groups: Groups,
    queue: Integers,
    queue_start: Integers,
    group: Integers,
    added_before: Integers,
    ordinal: Integers,
) -> Integers:
    """What a group's retractions of these ordinals take: loaded entries first, then additions."""
    additions: Integers = groups.event[groups.accumulates]
    if not queue.size:
        taken: Integers = additions[added_before + ordinal]
        return taken
    held = np.diff(queue_start)[group]
    old = ordinal < held
    entry: Integers = -1 - queue[np.where(old, queue_start[group] + ordinal, 0)]
    if not additions.size:
        return entry
    return np.where(old, entry, additions[np.where(old, 0, added_before + ordinal - held)])


def _new_minimum(level: Integers, groups: Groups) -> Flags:
    """Slots whose level is below zero and below every earlier level of their group."""
    # Each group's levels are shifted below those of the groups before it, so that one running
    # minimum over all slots starts anew in each group.
    step = 2 * int(np.abs(level).max()) + 2
    shift = groups.group * step
    lowest = np.minimum(np.minimum.accumulate(level - shift) + shift, 0)
    previous = np.empty_like(lowest)
    previous[1:] = lowest[:-1]
    previous[groups.start[:-1]] = 0
    return lowest < previous


def _replacing(changes: KeyedChanges, groups: Groups, loaded: LoadedEntries) -> Lives:
    """At most one entry a group: present if the group's previous change was an addition."""
    count = changes.key.size
    target = np.arange(count)
    start = groups.start[:-1]
    queue, queue_start = _entries_of_groups(loaded, start.size)
    adds = groups.accumulates
    present = np.empty(count, np.bool_)
    present[1:] = adds[:-1]
    present[start] = np.diff(queue_start) > 0
    slot_birth = adds & ~present
    # The entry in question was made by the group's latest birth so far, else before the epoch.
    latest = np.maximum.accumulate(np.where(slot_birth, np.arange(count), -1))
    born_here = latest >= start[groups.group]
    entry = groups.event[np.maximum(latest, 0)]
    if queue.size:
        held = queue[np.minimum(queue_start[:-1], queue.size - 1)]
        entry = np.where(born_here, entry, (-1 - held)[groups.group])
    birth = np.empty(count, np.bool_)
    birth[groups.event] = slot_birth
    found = np.empty(count, np.bool_)
    found[groups.event] = present & ~adds
    target[groups.event] = np.where(present | adds, entry, 0)
    return Lives(birth, found, target)


def _entries_of_groups(loaded: LoadedEntries, count: int) -> tuple[Integers, Integers]:
    """Loaded entries by group, oldest first, and where each group's begin (and the end)."""
    matched = (loaded.group >= 0).nonzero()[0]
    group = loaded.group[matched]
    if group.size > 1 and (np.diff(group) < 0).any():
        by_group = np.argsort(group, kind="stable")
        matched, group = matched[by_group], group[by_group]
    return matched, group.searchsorted(np.arange(count + 1))
