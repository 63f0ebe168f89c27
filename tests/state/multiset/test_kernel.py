"""The kernel against a plain list, over tiny domains, with whole and with partial loads."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from state.multiset.adding import adding_outcome
from state.multiset.kernel import (
    KeyedChanges,
    LoadedEntries,
    Outcome,
    Report,
    apply_changes,
    group_changes,
)
from state.multiset.quiet import quiet_outcome

Change = tuple[int, bool, int]
"""Key, accumulates, match."""


@dataclass
class Entry:
    match: int
    sequence: int
    source: object
    """("loaded", key, sequence) or ("change", position): whose row it holds."""
    origin: object


@dataclass
class Model:
    """One history as a list: what the kernel's doc says, done one change at a time."""

    entries: list[Entry] = field(default_factory=list)
    following: int = 1
    shown: int = 0

    def apply(
        self, position: int, accumulates: bool, match: int, replace: bool
    ) -> tuple[Report, object]:
        here = ("change", position)
        index = next((i for i, e in enumerate(self.entries) if e.match == match), None)
        if accumulates:
            report = Report.ADDED if self.entries else Report.FIRST
            if replace and index is not None:
                entry = self.entries[index]
                entry.source = here
            else:
                entry = Entry(match, self.following, here, here)
                self.following += 1
                self.entries.append(entry)
            self.shown = entry.sequence
            return report, here
        if index is None:
            return Report.MISSED, None
        gone = self.entries.pop(index)
        if not self.entries:
            self.following, self.shown = 1, 0
            return Report.EMPTIED, here
        if index == len(self.entries):
            self.shown = self.entries[-1].sequence
            return Report.UNCOVERED, self.entries[-1].source
        if self.shown == gone.sequence:
            self.shown = 0
        return Report.REMOVED, None


def load(models: list[Model], groups, changes: KeyedChanges, *, whole: bool) -> LoadedEntries:
    """Histories as the materializer would load them: all of it, or only what may matter."""
    probed = {
        (int(changes.key[e]), int(changes.match[e])): g for g, e in enumerate(groups.first.tolist())
    }
    rows = []
    for key, model in enumerate(models):
        mine = changes.key == key
        newest = int((mine & ~changes.accumulates).sum()) + 1
        for back, entry in enumerate(reversed(model.entries)):
            group = probed.get((key, entry.match), -1)
            if whole or back < newest or group >= 0:
                rows.append((key, entry.sequence, group))
    rows.sort()
    table = np.array(rows, np.int64).reshape(-1, 3)
    return LoadedEntries(
        key=table[:, 0].copy(),
        sequence=table[:, 1].copy(),
        group=table[:, 2].copy(),
        size=np.array([len(m.entries) for m in models], np.int64),
        following=np.array([m.following for m in models], np.int64),
        shown=np.array([m.shown for m in models], np.int64),
        window=window_starts(table, models, changes, whole=whole),
    )


def window_starts(table, models: list[Model], changes: KeyedChanges, *, whole: bool):
    starts = []
    for key, model in enumerate(models):
        newest = int(((changes.key == key) & ~changes.accumulates).sum()) + 1
        numbers = [e.sequence for e in (model.entries if whole else model.entries[-newest:])]
        lowest = numbers[0] if numbers else 0
        before = (table[:, 0] < key) | ((table[:, 0] == key) & (table[:, 1] < lowest))
        starts.append(int(before.sum()))
    return np.array(starts, np.int64)


def changes_of(batch: list[Change]) -> KeyedChanges:
    ordered = sorted(batch, key=lambda c: c[0])
    return KeyedChanges(
        key=np.array([c[0] for c in ordered], np.int64),
        accumulates=np.array([c[1] for c in ordered], np.bool_),
        match=np.array([c[2] for c in ordered], np.int64),
    )


def run_kernel(models: list[Model], batch: list[Change], *, replace: bool, whole: bool):
    ordered = sorted(batch, key=lambda c: c[0])
    changes = changes_of(batch)
    groups = group_changes(changes)
    loaded = load(models, groups, changes, whole=whole)
    outcome = apply_changes(changes, groups, loaded, replace=replace)
    return ordered, loaded, outcome


def check(models: list[Model], batch: list[Change], *, replace: bool, whole: bool) -> None:
    ordered, loaded, outcome = run_kernel(models, batch, replace=replace, whole=whole)
    assert not outcome.sunk.any()
    before = {(k, e.sequence): e for k, m in enumerate(models) for e in m.entries}
    for (key, _), entry in before.items():
        entry.source = entry.origin = ("loaded", key, entry.sequence)

    for position, (key, accumulates, match) in enumerate(ordered):
        report, source = models[key].apply(position, accumulates, match, replace)
        assert Report(int(outcome.report[position])) is report
        if source is not None:
            assert describe(outcome.source[position], loaded) == source

    born = {int(e): i for i, e in enumerate(outcome.born)}
    assert len(born) == sum(e.origin[0] == "change" for m in models for e in m.entries)
    for key, model in enumerate(models):
        newest = model.entries[-1].sequence if model.entries else 0
        assert int(outcome.size[key]) == len(model.entries)
        assert int(outcome.newest[key]) == newest
        assert int(outcome.shown[key]) == model.shown
        assert int(outcome.following[key]) == model.following
        for entry in model.entries:
            if entry.origin[0] == "change":
                index = born[entry.origin[1]]
                assert int(outcome.born_sequence[index]) == entry.sequence
                assert ("change", int(outcome.born_content[index])) == entry.source
    check_loaded(models, loaded, outcome)


def check_loaded(models: list[Model], loaded: LoadedEntries, outcome: Outcome) -> None:
    left = {(k, e.sequence): e for k, m in enumerate(models) for e in m.entries if born_before(e)}
    for index in range(loaded.key.size):
        where = (int(loaded.key[index]), int(loaded.sequence[index]))
        assert bool(outcome.entry_removed[index]) == (where not in left)
        if where in left:
            content = int(outcome.entry_content[index])
            expected = left[where].source
            assert expected == (("change", content) if content >= 0 else ("loaded", *where))


def born_before(entry: Entry) -> bool:
    return entry.origin[0] == "loaded"


def describe(source: int, loaded: LoadedEntries) -> object:
    if source >= 0:
        return ("change", int(source))
    index = -1 - int(source)
    return ("loaded", int(loaded.key[index]), int(loaded.sequence[index]))


change_lists = st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 3)), max_size=24)


@settings(deadline=None)
@given(st.lists(change_lists, max_size=4), st.booleans(), st.booleans())
def test_each_change_and_what_is_left_are_those_of_a_plain_list(epochs, replace, whole):
    models = [Model() for _ in range(3)]
    for batch in epochs:
        check(models, batch, replace=replace, whole=whole)


def test_long_random_epochs_agree_too():
    rng = np.random.default_rng(7)
    for trial in range(60):
        models = [Model() for _ in range(3)]
        for _ in range(3):
            count, matches = int(rng.integers(1, 200)), int(rng.integers(1, 40))
            batch = [
                (int(k), bool(a), int(m))
                for k, a, m in zip(
                    rng.integers(0, 3, count),
                    rng.random(count) < rng.choice([0.3, 0.5, 0.7]),
                    rng.integers(0, matches, count),
                    strict=True,
                )
            ]
            check(models, batch, replace=trial % 2 == 0, whole=trial % 3 == 0)


def test_epochs_that_uncover_nothing_are_told_by_counting():
    """Additions that are new, and retractions of older entries or of nothing: the short cut."""
    rng = np.random.default_rng(544)
    for trial in range(40):
        replace, whole = trial % 2 == 0, trial % 4 < 2
        models = [Model() for _ in range(3)]
        for key, model in enumerate(models):
            for match in range(10 * key, 10 * key + int(rng.integers(3, 9))):
                model.apply(-1, True, match, replace)
        if trial % 3 == 0:
            models[1].shown = models[1].entries[0].sequence
        batch = [(2, True, 90 + each) for each in range(int(rng.integers(0, 4)))]
        batch += [(1, True, 80), (2, False, 70), (0, False, 60)]
        for key, model in enumerate(models):
            batch += [(key, False, each.match) for each in model.entries[: int(rng.integers(3))]]
        batch = [batch[each] for each in rng.permutation(len(batch))]
        # The newest entry may go once something was added.
        batch += [(1, False, models[1].entries[-1].match)][: trial % 2]
        # So may what was added, while something newer is there.
        batch += [(1, True, 51), (1, True, 52), (1, False, 51)][: 3 * (trial % 5 < 3)]
        changes = changes_of(batch)
        groups = group_changes(changes)
        loaded = load(models, groups, changes, whole=whole)

        assert quiet_outcome(changes, groups, loaded, replace=replace) is not None
        check(models, batch, replace=replace, whole=whole)


def test_epochs_that_retract_nothing_have_a_short_cut():
    """New keys, and keys with entries that are replaced, shown though older, or left alone."""
    rng = np.random.default_rng(545)
    for trial in range(60):
        replace, whole = trial % 2 == 0, trial % 4 < 2
        models = [Model() for _ in range(4)]
        for key, model in enumerate(models):
            for match in range(int(rng.integers(0, 6)) * (key > 0)):
                model.apply(-1, True, match, replace)
            if len(model.entries) > 2 and trial % 3 == 0:
                model.shown = model.entries[0].sequence * (trial % 6 == 0)
                model.entries.pop(1)
        count = int(rng.integers(0, 20))
        pairs = zip(rng.integers(0, 3, count), rng.integers(0, 8, count), strict=True)
        batch = [(int(key), True, int(match)) for key, match in pairs]
        changes = changes_of(batch)
        groups = group_changes(changes)
        loaded = load(models, groups, changes, whole=whole)

        assert adding_outcome(changes, groups, loaded, replace=replace) is not None
        check(models, batch, replace=replace, whole=whole)
    retraction = changes_of([(0, True, 1), (0, False, 2)])
    groups = group_changes(retraction)
    loaded = load([Model()], groups, retraction, whole=True)
    assert adding_outcome(retraction, groups, loaded, replace=True) is None


def test_only_such_epochs_take_the_short_cut():
    def quiet(*batch: Change, replace: bool = False, entries: tuple[int, ...] = (1, 2, 2, 3)):
        models = [Model()]
        for match in entries:
            models[0].apply(-1, True, match, False)
        changes = changes_of(list(batch))
        groups = group_changes(changes)
        loaded = load(models, groups, changes, whole=True)
        return quiet_outcome(changes, groups, loaded, replace=replace)

    assert quiet((0, False, 1), (0, True, 9)) is not None
    assert quiet((0, True, 1)) is not None
    assert quiet((0, True, 1), replace=True) is None
    assert quiet((0, False, 3)) is None
    assert quiet((0, False, 3), (0, True, 9)) is None
    assert quiet((0, True, 9), (0, False, 3)) is not None
    assert quiet((0, True, 9), (0, False, 3), (0, False, 1)) is not None
    assert quiet((0, False, 2)) is None
    assert quiet((0, True, 9), (0, False, 9)) is None
    assert quiet((0, True, 9), (0, True, 8), (0, False, 9)) is not None
    assert quiet((0, True, 9), (0, True, 8), (0, False, 8), (0, False, 9)) is None
    assert quiet((0, True, 9), (0, True, 8), (0, False, 9), (0, True, 7), (0, False, 8)) is not None
    assert quiet((0, True, 1), (0, True, 8), (0, False, 1)) is None
    assert quiet((0, True, 9), (0, True, 8), (0, False, 9), (0, True, 9)) is None
    assert quiet((0, True, 9), entries=()) is not None
    assert quiet((0, True, 9), (0, True, 8), (0, False, 9), entries=()) is not None
    assert quiet((0, True, 9), (0, False, 9), entries=()) is None


def test_codes_too_wide_to_pack_are_grouped_all_the_same():
    changes = KeyedChanges(
        key=np.array([0, 0, 1, 1], np.int64),
        accumulates=np.array([True, False, True, True]),
        match=np.array([5, 5, 2**61, 5], np.int64),
    )

    groups = group_changes(changes)

    assert groups.event.tolist() == [0, 1, 3, 2]
    assert groups.group.tolist() == [0, 0, 1, 2]
    assert groups.start.tolist() == [0, 2, 3, 4]
