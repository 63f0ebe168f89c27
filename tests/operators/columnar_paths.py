"""What one path through an epoch gives, to be held to what the other gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from operators.testing.operator_harness import At, OperatorHarness
from state.backends.heap import HeapBackend

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Change, RowKind
    from operators.spec import OperatorSpec

NEVER: Final = 1 << 30
"""No epoch has so many changes."""
AGE: Final = 1_577_836_800_000
"""Stamps of our age have the usual length."""
_COUNTS: Final = ("rows_in", "rows_out", "orphans", "keys", "expired")


def stored_of(harness: OperatorHarness) -> dict[int, dict[bytes, dict[Any, Any]]]:
    """What the heap keeps of an operator, but for its orphans: structures by key group and name."""
    harness.stored_names()
    assert isinstance(harness._backend, HeapBackend)
    return {
        number: {
            name: held if isinstance(held, dict) else dict(held.scores)
            for name, held in group.space.structures.items()
            if name not in (b"orphans", b"meta")
        }
        for number, group in harness._backend.store.key_groups.items()
    }


def told(spec: OperatorSpec, changes: Iterable[Change]) -> list[tuple[RowKind, bytes]]:
    """Changes that an operator emitted, as canonical rows: there NaN is equal to itself."""
    encode = spec.output.codec().encode
    return [(each.kind, encode(each.row)) for each in changes]


def ran(
    spec: OperatorSpec, steps: Sequence[Change | At], columns_from: int
) -> tuple[list[tuple[RowKind, bytes]], Any, list[dict[str, int]]]:
    """What is emitted, as `told`; all that is stored at the end; counts of each epoch.

    Args:
        spec: The operator.
        steps: What it gets.
        columns_from: From so many changes on an epoch goes on columns: 1, or `NEVER`.
    """
    harness = OperatorHarness.on_heap(spec, columns_from=columns_from)
    emitted = told(spec, harness.run(steps))
    counts = [{name: each[name] for name in _COUNTS} for each in harness.statistics]
    return emitted, stored_of(harness), counts


@st.composite
def epochs(
    draw: st.DrawFn, changes: st.SearchStrategy[Any], *, most: int = 12, began_ms: int = AGE
) -> list[Any]:
    """Changes in epochs, each of another time; they need not be well formed.

    Args:
        draw: From Hypothesis.
        changes: Of one change.
        most: The most changes of an epoch.
        began_ms: The time of the first one.
    """
    found: list[Any] = [At(began_ms)]
    each_epoch = st.lists(changes, max_size=most)
    for number, epoch in enumerate(draw(st.lists(each_epoch, max_size=4))):
        found += [*epoch, At(began_ms + 3 * (number + 1))]
    return found
