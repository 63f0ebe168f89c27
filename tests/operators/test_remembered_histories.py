"""A worker that goes on from what it remembers, and one that reads, are two attempts of an epoch.

The second attempt of an epoch is compared with the first one by the state: what it writes must be
the same, byte for byte. So each epoch here is run by both.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.multiset.probing import SpreadProber
from state.multiset.strategy import Strategy

MAP = MaterializerSpec(
    INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None, strategy=Strategy.MAP
)
ADAPTIVE = replace(MAP, strategy=Strategy.ADAPTIVE, high=20, low=10)
SPECS = [
    replace(spec, upsert_key=upsert_key)
    for spec in (MAP, ADAPTIVE)
    for upsert_key in (None, (0,), (0, 2))
]
Epoch: TypeAlias = tuple[str | None, list[tuple[RowKind, int | None]]]
"""A text, and kinds and numbers of changes."""

LOWEST, HIGHEST = -(2**63), 2**63 - 1
FAR = [LOWEST, LOWEST + 1, -1, 0, HIGHEST - 1, HIGHEST, None]
TEXTS = ["a", "a", "a", "b", "", "long " * 9, None]

NUMBERS = st.integers(-30, 30) | st.sampled_from(FAR)
CHANGES = st.lists(st.tuples(st.sampled_from(RowKind), NUMBERS), max_size=50)
EPOCHS = st.lists(st.tuples(st.sampled_from(TEXTS), CHANGES), min_size=2, max_size=6)


def epoch(kind: RowKind, numbers: list[int], text: str = "a") -> Epoch:
    return text, [(kind, each) for each in numbers]


ALIKE = [
    epoch(RowKind.INSERT, [*range(15)]),
    epoch(RowKind.UPDATE_AFTER, [*range(8, 40), LOWEST, HIGHEST, 3]),
    epoch(RowKind.DELETE, [*range(0, 40, 3), HIGHEST, 99]),
    epoch(RowKind.UPDATE_AFTER, [*range(20, 60), HIGHEST, *range(5)]),
    epoch(RowKind.DELETE, [*range(7, 60), LOWEST]),
]
"""All of whose rows are told apart by a number; the history is spread by the second epoch."""
IN_TURN = [
    epoch(RowKind.INSERT, [*range(40)]),
    epoch(RowKind.INSERT, [*range(30, 70)], "b"),
    epoch(RowKind.DELETE, [*range(25, 50)]),
    epoch(RowKind.DELETE, [*range(25, 50)], "b"),
    epoch(RowKind.DELETE, [*range(70)], "b"),
]
"""Numbers that come again beside another text."""
ANEW: list[Epoch] = [
    epoch(RowKind.INSERT, [*range(100)]),
    ("a", [(RowKind.DELETE, each) for each in range(100)] + [(RowKind.INSERT, 7)] * 20),
    epoch(RowKind.DELETE, [7] * 20),
]
"""All rows go before others come, whose blocks have the numbers of those that are gone."""


def run_by_both(spec: MaterializerSpec, epochs: list[Epoch]) -> None:
    harness = MaterializerHarness.on_heap(spec)
    knowing = harness._operator
    for number, (text, changes) in enumerate(epochs):
        harness.now_ms = number
        ordered = [(at, Change(kind, (id_, 1, text))) for at, (kind, id_) in enumerate(changes)]
        harness._operator = UpsertMaterializer(spec)
        asked = harness.attempt(ordered)
        harness._operator = knowing
        assert harness.run_epoch(ordered) == asked


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("epochs", [ALIKE, IN_TURN, ANEW], ids=["alike", "in turn", "anew"])
def test_attempts_with_and_without_a_memory_write_the_same(
    spec: MaterializerSpec, epochs: list[Epoch]
) -> None:
    run_by_both(spec, epochs)


@pytest.mark.parametrize("spec", SPECS)
@given(epochs=EPOCHS)
def test_so_do_those_of_any_epochs(spec: MaterializerSpec, epochs: list[Epoch]) -> None:
    """Numbers at their limits, or none; other columns that change from one epoch to the next."""
    run_by_both(spec, epochs)


@pytest.mark.parametrize("upsert_key", [None, (0,), (0, 2)])
def test_the_memory_is_gone_on_from_and_numbers_tell_its_rows_apart(
    monkeypatch: pytest.MonkeyPatch, upsert_key: tuple[int, ...] | None
) -> None:
    """Else what is above would compare a worker with itself."""
    seen: Counter[bool] = Counter()
    find = SpreadProber._find_numbered

    def noted(*arguments: Any) -> Any:
        found = find(*arguments)
        seen[found is not None] += 1
        return found

    monkeypatch.setattr(SpreadProber, "_find_numbered", noted)

    run_by_both(replace(MAP, upsert_key=upsert_key), ALIKE)

    assert seen == {True: len(ALIKE) - 1}
