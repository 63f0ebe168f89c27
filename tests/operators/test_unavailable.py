"""A value that a change does not carry is that of the last row; without one it is set aside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.errors import UnavailableValue
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import OperatorHarness, delete, insert, update_after
from operators.unavailable import PLACEHOLDER
from state.errors import OperatorFailed
from state.types import parse_type

TYPES, NAMES = tuple(map(parse_type, ("INT", "STRING", "INT"))), ("id", "v", "n")


def spec(*, bundles: bool = False, fails: bool = False) -> ChangelogNormalizeSpec:
    return ChangelogNormalizeSpec.build(
        inputs=(InputSpec(types=TYPES, names=NAMES, key=(0,)),),
        output=RowSpec(types=TYPES, names=NAMES),
        placeholder=PLACEHOLDER,
        fails_on_unavailable=fails,
        bundles=bundles,
        update_before=False,
    )


def test_the_last_row_has_the_value() -> None:
    harness = OperatorHarness.on_heap(spec())

    found = harness.run(
        [insert(1, "long", 1), update_after(1, PLACEHOLDER, 2), update_after(1, "new", 3)]
    )

    assert found == [insert(1, "long", 1), update_after(1, "long", 2), update_after(1, "new", 3)]
    assert harness.run([update_after(1, PLACEHOLDER, 4)]) == [update_after(1, "new", 4)]


def test_without_a_row_the_change_is_set_aside() -> None:
    harness = OperatorHarness.on_heap(spec())

    assert harness.run([update_after(1, PLACEHOLDER, 1), insert(2, "a", 1)]) == [insert(2, "a", 1)]
    (aside,) = harness.set_aside
    assert (aside.key, '"v" is not in the change' in aside.reason) == (b"[1]", True)
    assert harness.run([insert(1, "b", 1), delete(1, None, None)])
    harness.run([update_after(1, PLACEHOLDER, 1)])
    assert len(harness.set_aside) == 2


def test_a_pipeline_that_is_to_fail_does() -> None:
    with pytest.raises(OperatorFailed) as error:
        OperatorHarness.on_heap(spec(fails=True)).run([update_after(1, PLACEHOLDER, 1)])
    assert isinstance(error.value.__cause__, UnavailableValue)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from([RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]),
        st.integers(1, 3),
        st.sampled_from(["a", "b", PLACEHOLDER]),
        st.integers(0, 9),
    ),
    max_size=14,
)


@given(changes=CHANGES, cuts=st.lists(st.integers(1, 5), min_size=1), bundles=st.booleans())
def test_the_table_is_that_of_the_changes_with_all_values(
    changes: list[tuple[RowKind, int, str, int]], cuts: list[int], bundles: bool
) -> None:
    """Plainly: a dictionary of rows, in which a placeholder is what stood there."""
    table: dict[int, tuple[int, str, int]] = {}
    for kind, key, text, number in changes:
        if kind is RowKind.DELETE:
            table.pop(key, None)
        elif text != PLACEHOLDER:
            table[key] = (key, text, number)
        elif key in table:
            table[key] = (key, table[key][1], number)
    harness = OperatorHarness.on_heap(spec(bundles=bundles))
    given_changes = [Change(each[0], each[1:]) for each in changes]
    shown: dict[object, tuple[object, ...]] = {}
    at = 0
    while at < len(given_changes):
        size = cuts[at % len(cuts)]
        for each in harness.run(given_changes[at : at + size]):
            if each.kind is RowKind.DELETE:
                del shown[each.row[0]]
            else:
                shown[each.row[0]] = each.row
        at += size

    assert shown == table
