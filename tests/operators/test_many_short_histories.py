"""Many packed histories in one epoch: entries found all at once, and a few at a time."""

from __future__ import annotations

import random

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.recorded import expect, first_difference
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.types import INTEGER_BITS, parse_type

SPEC = MaterializerSpec(INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=(0,))
KEYS, EPOCHS, CHANGES, FEW = 120, 4, 900, 30


def some_changes(
    chance: random.Random, *, retracting: bool, with_nulls: bool, far: bool
) -> list[Change]:
    """Changes of some ids of each key."""
    changes = []
    for _ in range(CHANGES):
        kind = chance.choice(list(RowKind)) if retracting else RowKind.INSERT
        key = chance.randrange(KEYS)
        number = chance.randrange(6)
        identity = None if with_nulls and not number else (number << 60 if far else number - 2)
        changes.append(Change(kind, (identity, key, chance.choice("ab"))))
    return changes


@pytest.mark.parametrize("retracting", [False, True], ids=["additions", "all kinds"])
@pytest.mark.parametrize("kind", ["near", "far", "nulls"])
def test_epochs_of_any_size_find_the_same_entries(kind: str, *, retracting: bool) -> None:
    chance = random.Random(f"{kind}{retracting}")
    whole, small = MaterializerHarness.on_heap(SPEC), MaterializerHarness.on_heap(SPEC)

    for epoch in range(EPOCHS):
        changes = some_changes(
            chance,
            retracting=retracting,
            with_nulls=kind == "nulls" and epoch % 2 == 1,
            far=kind == "far",
        )
        parts = [changes[at : at + FEW] for at in range(0, CHANGES, FEW)]
        emitted = [each.change for part in parts for each in small.run(part)]
        assert [each.change for each in whole.run(changes)] == emitted

    for key in range(KEYS):
        assert whole.history((key,)) == small.history((key,))
    whole.close()
    small.close()


@pytest.mark.parametrize("name", ["TINYINT", "SMALLINT", "INT", "BIGINT"])
@pytest.mark.parametrize("end", ["lowest", "highest", "all"])
@pytest.mark.parametrize("upsert_key", [None, (1,)], ids=["whole rows", "upsert key"])
def test_numbers_of_any_width_are_stored_as_they_are(
    name: str, end: str, upsert_key: tuple[int, ...] | None
) -> None:
    """Columns of few numbers, which rows share: up to both ends of their type."""
    types = (parse_type("INT"), parse_type(name))
    half = 1 << (INTEGER_BITS[types[1].root] - 1)
    first = {"lowest": -half, "highest": half - 200, "all": -100}[end]
    spec = MaterializerSpec(types, ("k", "v"), key=(0,), upsert_key=upsert_key)
    kinds = [RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]
    steps = [Change(kind, (at, first + at % 200)) for kind in kinds for at in range(600)]
    harness = MaterializerHarness.on_heap(spec)

    emissions = harness.run(steps, epoch_changes=600)

    assert first_difference(emissions, expect(spec, steps)) is None
    harness.close()
