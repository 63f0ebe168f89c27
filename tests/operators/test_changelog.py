"""Kinds, and what a run of changes means."""

from __future__ import annotations

import pytest

from operators.changelog import (
    Change,
    RowKind,
    check_well_formed,
    materialize,
    materialize_upserts,
)
from operators.errors import ChangelogError

A, B = (1, "a"), (1, "b")


def run(*changes: tuple[str, tuple[object, ...]]) -> list[Change]:
    return [Change(RowKind.from_short(short), row) for short, row in changes]


def test_kinds_have_flinks_bytes_and_short_strings():
    assert [(int(kind), kind.short, kind.weight) for kind in RowKind] == [
        (0, "+I", 1),
        (1, "-U", -1),
        (2, "+U", 1),
        (3, "-D", -1),
    ]


def test_a_change_gets_another_kind_as_a_new_change():
    change = Change(RowKind.INSERT, A)

    assert change.with_kind(RowKind.DELETE) == Change(RowKind.DELETE, A)
    assert change.kind is RowKind.INSERT


def test_materialize_counts_copies():
    changes = run(("+I", A), ("+I", A), ("-U", A), ("+U", B))

    assert materialize(changes) == {A: 1, B: 1}


def test_an_upsert_table_has_the_last_row_of_each_key():
    changes = run(("+I", A), ("+U", B), ("+I", (2, "c")), ("-D", (2, "c")))

    assert materialize_upserts(changes, (0,)) == {(1,): B}


@pytest.mark.parametrize(
    ("changes", "position"),
    [
        (run(("-D", A)), 0),
        (run(("+I", A), ("-U", A), ("+I", B)), 2),
        (run(("+I", A), ("-U", A)), -1),
        (run(("+I", A), ("-D", A), ("-D", A)), 2),
    ],
)
def test_a_retract_changelog_that_breaks_a_rule_is_told_where(changes, position):
    with pytest.raises(ChangelogError) as caught:
        check_well_formed(changes)

    assert caught.value.position == position


@pytest.mark.parametrize(
    ("changes", "position"),
    [
        (run(("+U", A)), 0),
        (run(("+I", A), ("+I", B)), 1),
        (run(("+I", A), ("-U", A)), 1),
        (run(("+I", A), ("-D", A), ("-D", A)), 2),
    ],
)
def test_an_upsert_changelog_that_breaks_a_rule_is_told_where(changes, position):
    with pytest.raises(ChangelogError) as caught:
        check_well_formed(changes, upsert_key=(0,))

    assert caught.value.position == position


def test_well_formed_changelogs_pass():
    check_well_formed(run(("+I", A), ("-U", A), ("+U", B), ("-D", B)))
    check_well_formed(run(("+I", A), ("+U", B), ("-D", A), ("+I", A)), upsert_key=(0,))
