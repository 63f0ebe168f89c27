"""Packed histories of one key: changes find entries by a number, where one tells them apart."""

from __future__ import annotations

import random

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.recorded import expect, first_difference
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec

EPOCHS, CHANGES, IDENTITIES = 12, 60, 40
TEXTS = {
    "one text": lambda epoch, chance: "x" * 300,
    "another each epoch": lambda epoch, chance: "xyz"[epoch % 3] * 300,
    "some at once": lambda epoch, chance: chance.choice("xy") * 40,
    "of digits": lambda epoch, chance: "17],-3,",
}


@pytest.mark.parametrize("upsert_key", [None, (0,)], ids=["whole rows", "upsert key"])
@pytest.mark.parametrize("first", [-20, 1 << 50, None], ids=["signs", "long", "nulls"])
@pytest.mark.parametrize("kind", TEXTS)
def test_entries_are_found_whatever_tells_them_apart(
    kind: str, first: int | None, upsert_key: tuple[int, ...] | None
) -> None:
    chance = random.Random(f"{kind}{first}{upsert_key}")
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=upsert_key)
    steps = []
    for epoch in range(EPOCHS):
        for _ in range(CHANGES):
            number = chance.randrange(IDENTITIES)
            identity = (number or None) if first is None else first + number
            row = (identity, 7, TEXTS[kind](epoch, chance))
            steps.append(Change(chance.choice(list(RowKind)), row))
    harness = MaterializerHarness.on_heap(spec)

    emissions = harness.run(steps, epoch_changes=CHANGES)

    assert first_difference(emissions, expect(spec, steps)) is None
    assert emissions
    harness.close()
