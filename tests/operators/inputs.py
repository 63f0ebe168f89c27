"""What the laws of `test_every_operator` give to operators: small domains, cut into epochs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.event_time import from_ms
from operators.testing.joins import changelogs
from operators.testing.operator_harness import Of
from state.types import parse_type
from tests.operators.stage import Epoch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row

    Rows = st.SearchStrategy[Row]
    Inputs = st.SearchStrategy[list[Of]]

BEGAN_MS = 1_577_836_800_000
"""Stamps of our age have the usual length."""
KEYS = ("a", "b", "c", None)
LOCAL, POINT = parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP_LTZ(3)")


def rows(*columns: Sequence[object]) -> Rows:
    """Rows of these few values."""
    return st.tuples(*map(st.sampled_from, columns))


def times(most_ms: int = 12, logical: Any = LOCAL) -> list[object]:
    """Event times of a few ms."""
    return [from_ms(ms, logical) for ms in range(1, most_ms + 1)]


def growing(*of: Rows, most: int = 14) -> Inputs:
    """Insertions."""
    return _lists(of, st.just(RowKind.INSERT), most)


def anything(*of: Rows, most: int = 14) -> Inputs:
    """Changes of all kinds, with retractions of what was never there."""
    return _lists(of, st.sampled_from(list(RowKind)), most)


def orderly(*of: Rows, unique: Sequence[tuple[int, ...]] | None = None) -> Inputs:
    """Changes that take back only what is there; of inputs with a unique key, updates of it."""
    return changelogs(of, unique or [()] * len(of), size_max=14)


def rising(keys: Sequence[str] = ("a", "b"), numbers: int = 3) -> Inputs:
    """What COUNT(*) GROUP BY cat, id emits."""
    one = st.tuples(st.sampled_from(keys), st.integers(1, numbers))
    return st.lists(one, max_size=14).map(_counts)


def _counts(came: Iterable[tuple[str, int]]) -> list[Of]:
    found: Counter[tuple[str, int]] = Counter()
    changes = []
    for key in came:
        found[key] += 1
        kind = RowKind.INSERT if found[key] == 1 else RowKind.UPDATE_AFTER
        changes.append(Of(0, Change(kind, (*key, found[key]))))
    return changes


def _lists(of: Sequence[Rows], kinds: st.SearchStrategy[RowKind], most: int) -> Inputs:
    one = st.one_of(
        *(
            st.builds(Of, st.just(number), st.builds(Change, kinds, each))
            for number, each in enumerate(of)
        )
    )
    return st.lists(one, min_size=3, max_size=most)


@st.composite
def epochs(
    draw: st.DrawFn,
    changes: Inputs,
    *,
    watermarks: bool = False,
    began_ms: int = BEGAN_MS,
    watermark_ms: int = 0,
) -> list[Epoch]:
    """Changes in epochs; late rows come by themselves where there are watermarks.

    Args:
        draw: From Hypothesis.
        changes: In order.
        watermarks: Whether event time moves on.
        began_ms: The time of the first epoch.
        watermark_ms: Where watermarks begin.
    """
    given = draw(changes)
    steps = st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 5))
    found, at, now_ms = [], 0, began_ms
    while at < len(given):
        size, passed_ms, advance_ms = draw(steps)
        watermark_ms += advance_ms
        moves = watermarks and advance_ms > 0
        changed = tuple(given[at : at + size])
        found.append(Epoch(changed, now_ms, watermark_ms if moves else None))
        at, now_ms = at + size, now_ms + passed_ms
    return found


def cut(epoch: Epoch, at: int) -> list[Epoch]:
    """An epoch in two of the same time; the watermark comes with the second."""
    before, after = epoch.changes[:at], epoch.changes[at:]
    return [Epoch(before, epoch.time_ms), Epoch(after, epoch.time_ms, epoch.watermark_ms)]


def live(changes: Iterable[Of]) -> list[Of]:
    """What takes back what is left; a retraction of what is not there takes nothing."""
    left: dict[tuple[int, Row], int] = {}
    for each in changes:
        place = (each.input, each.change.row)
        left[place] = max(0, left.get(place, 0) + each.change.kind.weight)
    return [
        Of(number, Change(RowKind.DELETE, row))
        for (number, row), times_there in left.items()
        for _ in range(times_there)
    ]


def matched(epochs_given: Iterable[Epoch]) -> list[Epoch]:
    """The epochs without retractions of what is not there."""
    there: Counter[tuple[int, Row]] = Counter()
    found = []
    for epoch in epochs_given:
        kept = []
        for each in epoch.changes:
            place = (each.input, each.change.row)
            if each.change.kind.is_retraction and not there[place]:
                continue
            there[place] += each.change.kind.weight
            kept.append(each)
        found.append(Epoch(tuple(kept), epoch.time_ms, epoch.watermark_ms))
    return found
