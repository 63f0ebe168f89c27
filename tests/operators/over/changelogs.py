"""What the laws of OVER in an order of columns share: changelogs, and what they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row

COLUMNS = "k VARCHAR, v INTEGER, w INTEGER"
"""Of these rows, for `batch_sql`."""
STRING, INT, BIGINT = parse_type("STRING"), parse_type("INT"), parse_type("BIGINT")


@st.composite
def changelogs(draw: st.DrawFn) -> list[Change]:
    """Rows k, v, w that come, go, and are updated."""
    live: list[Row] = []
    found: list[Change] = []
    small = st.sampled_from([None, 1, 2, 3])
    for _ in range(draw(st.integers(0, 16))):
        old = None
        if live and draw(st.integers(0, 2)) == 0:
            old = live.pop(draw(st.integers(0, len(live) - 1)))
        is_update = old is not None and draw(st.booleans())
        if old is not None:
            kind = RowKind.UPDATE_BEFORE if is_update else RowKind.DELETE
            found.append(Change(kind, old))
        if old is None or is_update:
            live.append((draw(st.sampled_from("ab")), draw(small), draw(small)))
            kind = RowKind.UPDATE_AFTER if is_update else RowKind.INSERT
            found.append(Change(kind, live[-1]))
    return found


def live_rows(changes: Sequence[Change]) -> list[Row]:
    """The rows that are there after some changes, in the order of arrival; the first one goes."""
    rows: list[Row] = []
    for change in changes:
        if change.kind.is_retraction:
            rows.remove(change.row)
        else:
            rows.append(change.row)
    return rows


def null_first(*values: object) -> tuple[int, ...]:
    """A sort key of numbers, null below all."""
    return tuple(-1 if each is None else int(str(each)) for each in values)


def null_last(*values: object) -> tuple[int, ...]:
    """A sort key of numbers, null above all."""
    return tuple(99 if each is None else int(str(each)) for each in values)
