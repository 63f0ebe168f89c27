"""What the multiset is for: small operators with retraction, each held to a plain definition.

Every operator is a coroutine over one multiset that returns the changes which it emits, as pairs of
a sign and a row. The table that these changes make is compared with what the operator is defined to
show for the rows that are live: a list, in the order in which they came, from which a retraction
takes the oldest equal one.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from state.primitives.multisets import NotFound
from state.testing.multisets import multiset
from state.testing.sessions import LAYOUTS
from tests.state.primitives.driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from state.primitives.multisets import MultisetHandle, SequencedRow
    from state.testing.stand import Stand

Signed: TypeAlias = tuple[int, Any]
"""+1 or -1, and a row."""
Operator: TypeAlias = "Callable[[MultisetHandle[Any], int, Any], Coroutine[Any, Any, list[Signed]]]"
Definition: TypeAlias = "Callable[[list[Any]], list[Any]]"


# The operators.


async def first_value(state: MultisetHandle[Any], sign: int, row: Any) -> list[Signed]:
    """FIRST_VALUE: the oldest live row; and so deduplication that keeps the first row."""
    before = await state.first()
    await change(state, sign, row)
    return difference(before, await state.first())


async def last_value(state: MultisetHandle[Any], sign: int, row: Any) -> list[Signed]:
    """LAST_VALUE: the newest live row."""
    before = await state.last()
    await change(state, sign, row)
    return difference(before, await state.last())


async def keep_last(state: MultisetHandle[Any], sign: int, row: Any) -> list[Signed]:
    """Deduplication that keeps the last row by a key; an update takes its row's place."""
    before = await state.last()
    if sign > 0:
        await state.add(row)
    else:
        await state.remove(row)
    return difference(before, await state.last())


async def lag(state: MultisetHandle[Any], sign: int, row: Any) -> list[Signed]:
    """LAG(row): each live row beside the one before it."""
    if sign > 0:
        before = await state.last()
        await state.append(row)
        return [(+1, [row, row_of(before)])]
    found = await state.find(row)
    if found is None:
        return []
    before = await state.entry_before(found.sequence)
    after = await state.entry_after(found.sequence)
    await state.remove(row)
    gone = [(-1, [found.row, row_of(before)])]
    if after is None:
        return gone
    return [*gone, (-1, [after.row, found.row]), (+1, [after.row, row_of(before)])]


async def lead(state: MultisetHandle[Any], sign: int, row: Any) -> list[Signed]:
    """LEAD(row): each live row beside the one behind it."""
    if sign > 0:
        before = await state.last()
        await state.append(row)
        added = [(+1, [row, None])]
        if before is None:
            return added
        return [(-1, [before.row, None]), (+1, [before.row, row]), *added]
    found = await state.find(row)
    if found is None:
        return []
    before = await state.entry_before(found.sequence)
    after = await state.entry_after(found.sequence)
    await state.remove(row)
    gone = [(-1, [found.row, row_of(after)])]
    if before is None:
        return gone
    return [*gone, (-1, [before.row, found.row]), (+1, [before.row, row_of(after)])]


async def change(state: MultisetHandle[Any], sign: int, row: Any) -> None:
    if sign > 0:
        await state.append(row)
    elif isinstance(await state.remove(row), NotFound):
        assert await state.find(row) is None


def row_of(entry: SequencedRow[Any] | None) -> Any:
    return entry and entry.row


def difference(before: SequencedRow[Any] | None, after: SequencedRow[Any] | None) -> list[Signed]:
    if row_of(before) == row_of(after):
        return []
    signed = [(-1, row_of(before)), (+1, row_of(after))]
    return [each for each in signed if each[1] is not None]


# What they are defined to show.


def live_rows(changes: list[Signed], *, replaces: bool) -> list[Any]:
    """The rows that are live after these changes, oldest first."""
    live: list[Any] = []
    for sign, row in changes:
        same = [n for n, each in enumerate(live) if each[0] == row[0]]
        if replaces and sign > 0 and same:
            live[same[0]] = row
        elif sign > 0:
            live.append(row)
        elif replaces and same:
            del live[same[0]]
        elif not replaces and row in live:
            live.remove(row)
    return live


def lags(live: list[Any]) -> list[Any]:
    return [[row, before] for row, before in zip(live, [None, *live], strict=False)]


def leads(live: list[Any]) -> list[Any]:
    return [[row, after] for row, after in zip(live, [*live[1:], None], strict=False)]


OPERATORS: dict[str, tuple[Operator, Definition, bool]] = {
    "first_value": (first_value, lambda live: live[:1], False),
    "last_value": (last_value, lambda live: live[-1:], False),
    "keep_last": (keep_last, lambda live: live[-1:], True),
    "lag": (lag, lags, False),
    "lead": (lead, leads, False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_shows_what_it_is_defined_to(stand: Stand, name: str, layout: str) -> None:
    operator, definition, replaces = OPERATORS[name]
    state = Driver(
        stand, multiset(match=None if not replaces else multiset().match), LAYOUTS[layout]
    )
    draw = random.Random(name)
    changes: list[Signed] = []
    table: Counter[str] = Counter()

    for _ in range(150):
        # More additions than retractions, of few rows: some retract what is not there.
        epoch = [
            (draw.choice((1, 1, -1)), [draw.choice("abcd"), draw.randrange(3)])
            for _ in range(draw.randrange(1, 4))
        ]
        emitted = state.together(0, *(lambda s, e=e: operator(s, *e) for e in epoch))
        for given, signed in zip(epoch, emitted, strict=True):
            changes.append(given)
            for sign, row in signed:
                table[repr(row)] += sign
            live = live_rows(changes, replaces=replaces)
        assert +table == Counter(map(repr, definition(live)))
        assert min(table.values(), default=0) >= 0

    # And back: when all is retracted, nothing is shown and nothing is stored.
    for row in live:
        for sign, shown in state.at(0, lambda s, row=row: operator(s, -1, row)):
            table[repr(shown)] += sign
    assert +table == Counter()
    assert state.names() == []
