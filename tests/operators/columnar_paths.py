"""What one path through an epoch gives, to be held to what the other gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from operators.testing.operator_harness import At, OperatorHarness
from state.backends.heap import HeapBackend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Change, RowKind
    from operators.spec import OperatorSpec

NEVER: Final = 1 << 30
"""No epoch has so many changes."""
AGE: Final = 1_577_836_800_000
"""Stamps of our age have the usual length."""
_COUNTS: Final = ("rows_in", "rows_out", "orphans", "keys", "expired")


def ran(
    spec: OperatorSpec, steps: Sequence[Change | At], columns_from: int
) -> tuple[list[tuple[RowKind, bytes]], Any, list[dict[str, int]]]:
    """What is emitted, as canonical rows; all that is stored at the end; counts of each epoch.

    Args:
        spec: The operator.
        steps: What it gets.
        columns_from: From so many changes on an epoch goes on columns: 1, or `NEVER`.
    """
    harness = OperatorHarness.on_heap(spec, columns_from=columns_from)
    encode = spec.output.codec().encode
    emitted = [(each.kind, encode(each.row)) for each in harness.run(steps)]
    harness.stored_names()
    assert isinstance(harness._backend, HeapBackend)
    stored = {
        number: {
            name: held if isinstance(held, dict) else dict(held.scores)
            for name, held in group.space.structures.items()
            if name not in (b"orphans", b"meta")
        }
        for number, group in harness._backend.store.key_groups.items()
    }
    return emitted, stored, [{name: each[name] for name in _COUNTS} for each in harness.statistics]


@st.composite
def epochs(draw: st.DrawFn, changes: st.SearchStrategy[Change]) -> list[Change | At]:
    """Changes in epochs, each of another time; they need not be well formed."""
    found: list[Change | At] = [At(AGE)]
    for number, epoch in enumerate(draw(st.lists(st.lists(changes, max_size=12), max_size=4))):
        found += [*epoch, At(AGE + 3 * (number + 1))]
    return found
