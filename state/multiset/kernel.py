"""One epoch of changes to many histories at once, without a loop over rows.

What is hard: each change depends on what the ones before it left behind. The kernel turns that
around. Changes of one key with equal match columns form a *group*; inside a group it is known from
running counts alone which retraction takes which entry. So every entry gets a birth and a death
(positions of changes), and the questions that remain are about intervals:

    was the entry the newest when it was removed?   all later-born entries died before: a range
                                                    maximum over deaths
    which entry does the removal uncover?           the nearest older one that dies later: binary
                                                    descent in the same table
    is the key's first row, or its last one gone?   running sizes

All of it is sorting, running sums and one sparse table: O(n log n) for n changes and entries.
The kernel knows neither rows nor bytes nor backends; `SequencedMultiSet` says the same one change
at a time, and a property test holds the two together.

Source: FLIP-544's sequenced multiset (Flink SequencedMultiSetState), with FLINK-39740: the next
sequence number is kept apart from the newest entry's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.multiset.adding import adding_outcome
from state.multiset.changes import (
    Groups,
    KeyedChanges,
    LoadedEntries,
    Outcome,
    Report,
    differs,
    group_changes,
)
from state.multiset.lives import find_lives
from state.multiset.quiet import quiet_outcome
from state.multiset.timeline import Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.lives import Lives

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

__all__ = [
    "Groups",
    "KeyedChanges",
    "LoadedEntries",
    "Outcome",
    "Report",
    "apply_changes",
    "group_changes",
]


def apply_changes(
    changes: KeyedChanges, groups: Groups, loaded: LoadedEntries, *, replace: bool
) -> Outcome:
    """Apply an epoch's changes to the histories of its keys.

    Args:
        changes: The epoch's changes.
        groups: `group_changes(changes)`.
        loaded: The histories before, as far as these changes can tell.
        replace: An addition takes the place of the entry that it matches (there is an upsert key);
            else each addition is a new entry.
    """
    if (adding := adding_outcome(changes, groups, loaded, replace=replace)) is not None:
        return adding
    if (quiet := quiet_outcome(changes, groups, loaded, replace=replace)) is not None:
        return quiet
    lives = find_lives(changes, groups, loaded, replace=replace)
    line = Timeline(changes, loaded, lives)
    reports = _reports(changes, groups, loaded, lives, line, replace=replace)
    return _outcome(changes, groups, loaded, lives, line, reports, replace=replace)


@dataclass(frozen=True, slots=True)
class _Reports:
    report: NDArray[np.int8]
    source: Integers
    size: Integers
    """Per key, after the epoch."""
    uncovering: Integers
    """Changes that uncovered an entry, ascending."""
    uncovered: Integers
    """The numbers of these entries."""


def _reports(
    changes: KeyedChanges,
    groups: Groups,
    loaded: LoadedEntries,
    lives: Lives,
    line: Timeline,
    *,
    replace: bool,
) -> _Reports:
    """What each change did, and the source of the row to be seen after it."""
    count = changes.key.size
    source, nothing = np.arange(count), np.zeros(0, np.int64)
    report = np.full(count, Report.MISSED, np.int8)
    report -= changes.accumulates.view(np.int8) * np.int8(Report.MISSED - Report.ADDED)
    if not count:
        return _Reports(report, source, loaded.size, nothing, nothing)
    after, size = _sizes(changes, loaded, lives, line)
    # FIRST is ADDED less one.
    report -= (lives.birth & (after == 1)).view(np.int8)
    removals = line.removals
    if not removals.size:
        return _Reports(report, source, size, nothing, nothing)
    emptied = after[removals] == 0
    report[removals] = np.where(emptied, np.int8(Report.EMPTIED), np.int8(Report.REMOVED))
    newest = removals[line.newest_removals() & ~emptied]
    if not newest.size:
        return _Reports(report, source, size, nothing, nothing)
    report[newest] = Report.UNCOVERED
    entry = line.uncovered(newest)
    source[newest] = _contents(groups, loaded, lives, line, newest, entry, replace=replace)
    return _Reports(report, source, size, newest, entry)


def _sizes(
    changes: KeyedChanges, loaded: LoadedEntries, lives: Lives, line: Timeline
) -> tuple[Integers, Integers]:
    """Entries of the key after each change, and of each key after the epoch."""
    after = np.cumsum(lives.birth.view(np.int8) - lives.found.view(np.int8), dtype=np.int64)
    if loaded.size.size == 1:
        after += loaded.size[0]
        return after, after[-1:].copy()
    net = np.append(0, after)[line.events]
    after += (loaded.size - net[:-1])[changes.key]
    return after, loaded.size + np.diff(net)


def _contents(
    groups: Groups,
    loaded: LoadedEntries,
    lives: Lives,
    line: Timeline,
    time: Integers,
    entry: Integers,
    *,
    replace: bool,
) -> Integers:
    """The source of each entry's row as it was at a time."""
    key = line.key[time]
    born = entry - line.loaded_end[key]
    held = entry - line.born_before[line.events[key]]
    is_loaded = held < line.loaded_end[key]
    births = lives.birth.nonzero()[0]
    made = births[np.where(is_loaded, 0, born)] if births.size else np.zeros_like(entry)
    source = np.where(is_loaded, -1 - held, made)
    if not replace:
        return source
    # The entry holds the last addition of its group before that time, if there was any.
    group = groups.of_change[made]
    if loaded.group.size:
        group = np.where(is_loaded, loaded.group[np.where(is_loaded, held, 0)], group)
    count = line.never
    slot = np.searchsorted(groups.group * count + groups.event, group * count + time) - 1
    known = (group >= 0) & (slot >= groups.start[np.maximum(group, 0)])
    return np.where(known, groups.event[np.maximum(slot, 0)], source)


def _outcome(
    changes: KeyedChanges,
    groups: Groups,
    loaded: LoadedEntries,
    lives: Lives,
    line: Timeline,
    reports: _Reports,
    *,
    replace: bool,
) -> Outcome:
    """What is left: entries that outlive the epoch, their numbers, and each key's summary."""
    births = lives.birth.nonzero()[0]
    deaths = line.deaths[line.born_numbers(births)] if line.has_loaded else line.deaths
    born = births[deaths == line.never]
    removed = line.deaths[line.held_numbers(loaded)] < line.never
    content, entry_content = born, np.full(loaded.key.size, -1, np.int64)
    if replace and changes.key.size:
        last = groups.event[groups.start[1:] - 1]
        content = last[groups.of_change[born]]
        kept = ((loaded.group >= 0) & ~removed).nonzero()[0]
        entry_content[kept] = last[loaded.group[kept]]
    seen = (reports.report <= Report.EMPTIED).nonzero()[0]
    sequence, following = _number(changes, loaded, line, reports, born)
    newest = np.zeros(loaded.size.size, np.int64)
    newest[loaded.key[~removed]] = loaded.sequence[~removed]
    newest[changes.key[born]] = sequence
    return Outcome(
        report=reports.report,
        seen=seen,
        source=reports.source,
        entry_removed=removed,
        entry_content=entry_content,
        born=born,
        born_content=content,
        born_sequence=sequence,
        size=reports.size,
        following=following,
        shown=_shown(changes, loaded, line, reports, seen, removed, born, sequence),
        newest=newest,
        sunk=_sunk(loaded, line, reports),
    )


def _sunk(loaded: LoadedEntries, line: Timeline, reports: _Reports) -> Flags:
    """Keys of which an entry below the window was uncovered."""
    sunk = np.zeros(loaded.size.size, np.bool_)
    key = line.key[reports.uncovering]
    floor = loaded.window[key] + line.born_before[line.events[key]]
    sunk[key[reports.uncovered < floor]] = True
    return sunk


def _number(
    changes: KeyedChanges,
    loaded: LoadedEntries,
    line: Timeline,
    reports: _Reports,
    born: Integers,
) -> tuple[Integers, Integers]:
    """Sequence numbers of born entries, and each key's next one.

    Numbers start anew once a history was empty, so they do not depend on where epochs end.
    """
    emptied = line.removals[reports.report[line.removals] == Report.EMPTIED]
    base, born_from = loaded.following.copy(), line.born_before[line.events[:-1]]
    # An assignment with repeated indices keeps the last: the last time that the key was emptied.
    base[changes.key[emptied]] = 1
    born_from[changes.key[emptied]] = line.born_before[emptied]
    offset = base - born_from
    return (
        line.born_before[born] + offset[changes.key[born]],
        line.born_before[line.events[1:]] + offset,
    )


def _shown(
    changes: KeyedChanges,
    loaded: LoadedEntries,
    line: Timeline,
    reports: _Reports,
    seen: Integers,
    removed: Flags,
    born: Integers,
    sequence: Integers,
) -> Integers:
    """Per key: the sequence number of the entry last emitted, 0 if it is gone."""
    shown = loaded.shown.copy()
    vanished = removed & (loaded.sequence == loaded.shown[loaded.key])
    shown[loaded.key[vanished]] = 0
    if not seen.size:
        return shown
    # The last one of each key.
    seen = seen[-1:] if shown.size == 1 else seen[np.append(differs(changes.key[seen])[1:], True)]
    entry = line.numbers(seen)
    if reports.uncovering.size:
        place = reports.uncovering.searchsorted(seen)
        place = np.minimum(place, reports.uncovering.size - 1)
        hit = reports.uncovering[place] == seen
        entry[hit] = reports.uncovered[place[hit]]
    alive = line.deaths[entry] == line.never
    key = changes.key[seen]
    held = entry - line.born_before[line.events[key]]
    is_loaded = held < line.loaded_end[key]
    born_place = np.searchsorted(line.born_numbers(born), entry)
    numbers = np.zeros(seen.size, np.int64)
    old, new = (alive & is_loaded).nonzero()[0], (alive & ~is_loaded).nonzero()[0]
    numbers[old] = loaded.sequence[held[old]]
    numbers[new] = sequence[born_place[new]]
    shown[key] = numbers
    return shown
