"""Laws of what unnests and repeats rows: the reference that recorded changelogs were met with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from service.plan import load_plan
from service.plan.nodes import Correlate
from tests.oracles import RECORDED
from tests.oracles.correlate import correlate_step

ACCUMULATES = (RowKind.INSERT, RowKind.UPDATE_AFTER)
CASES = ("U01", "U02", "U06", "U13")
ELEMENTS = st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)


def view_of(case: str) -> tuple[Correlate, int]:
    """The first correlate node of a recorded plan, and how wide its input is."""
    (folder,) = (RECORDED / "plans-more").glob(f"{case}_*")
    plan = load_plan((folder / "plan.json").read_bytes())
    node = next(each for each in plan.nodes if isinstance(each.view, Correlate))
    assert isinstance(node.view, Correlate)
    return node.view, len(plan.inputs(node.id)[0].output_type.children)


def bag(changes: list[Change]) -> Counter[Any]:
    """What is there after the changes."""
    found: Counter[Any] = Counter()
    for each in changes:
        found[each.row] += 1 if each.kind in ACCUMULATES else -1
    return found


def rows(width: int, *, counts: bool) -> st.SearchStrategy[tuple[Any, ...]]:
    column: st.SearchStrategy[Any] = st.integers(0, 3) if counts else ELEMENTS.map(_frozen)
    return st.tuples(*(column for _ in range(width)))


def _frozen(elements: list[Any] | None) -> tuple[Any, ...] | None:
    return None if elements is None else tuple(elements)


@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
def test_each_change_gives_changes_of_its_kind_and_taking_back_leaves_nothing(
    case: str, data: st.DataObject
) -> None:
    view, width = view_of(case)
    step = correlate_step(view, lambda: 0)
    given_rows = data.draw(st.lists(rows(width, counts=case == "U13"), max_size=5))
    inserts = [Change(RowKind.INSERT, row) for row in given_rows]
    deletes = [Change(RowKind.DELETE, row) for row in data.draw(st.permutations(given_rows))]

    made, _ = step([inserts], 0)
    taken, _ = step([deletes], 0)

    assert {each.kind for each in made} <= {RowKind.INSERT}
    assert {each.kind for each in taken} <= {RowKind.DELETE}
    assert not +bag([*made, *taken])
    # One change after the other is the same as all at once.
    assert made == [each for change in inserts for each in step([[change]], 0)[0]]


@given(st.lists(ELEMENTS.map(_frozen), max_size=4))
def test_left_gives_at_least_a_row_for_each(elements: list[Any]) -> None:
    view, width = view_of("U02")
    assert view.kind == "LEFT"
    step = correlate_step(view, lambda: 0)
    given_rows = [
        tuple(each if at == 2 else number for at in range(width))
        for number, each in enumerate(elements)
    ]
    made, _ = step([[Change(RowKind.INSERT, row) for row in given_rows]], 0)
    for number, each in enumerate(elements):
        wanted = [element for element in each or () if element is not None and element > 1]
        found = [change.row[-1] for change in made if change.row[0] == number]
        assert found == (wanted or [None])
