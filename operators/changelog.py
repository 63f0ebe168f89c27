"""What a change is, and what a run of them means.

`materialize` and `check_well_formed` are slow and obvious on purpose: they are the meaning that the
laws, the oracles and the fast paths are held to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Self

from operators.errors import ChangelogError

if TYPE_CHECKING:
    from collections.abc import Iterable

Row = tuple[object, ...]
"""The values of a row, hashable, in column order."""


class RowKind(IntEnum):
    """What a change does with its row. The byte values are Flink's.

    >>> [kind.short for kind in RowKind], RowKind.from_short("-U").is_retraction
    (['+I', '-U', '+U', '-D'], True)
    """

    INSERT = 0
    """A new row. Under an upsert key: the key had no row."""
    UPDATE_BEFORE = 1
    """The row that an update replaces. Must come directly before its UPDATE_AFTER."""
    UPDATE_AFTER = 2
    """The row that an update puts. May come alone where an upsert key says what it replaces."""
    DELETE = 3
    """The row is gone."""

    # Attributes of members, since each change asks for them.
    is_retraction: bool
    """Whether the row is taken back."""
    weight: int
    """+1 if the row is added, -1 if it is taken back."""

    def __new__(cls, value: int) -> Self:
        """A kind, with what it means."""
        kind = int.__new__(cls, value)
        kind._value_ = value
        kind.is_retraction = value in (1, 3)
        kind.weight = -1 if kind.is_retraction else 1
        return kind

    @property
    def short(self) -> str:
        """The kind as changelogs are written: +I -U +U -D."""
        return _SHORT[self]

    @classmethod
    def from_short(cls, short: str) -> RowKind:
        """The kind of a short string.

        Raises:
            ValueError: If it is none of +I -U +U -D.
        """
        return cls(_SHORT.index(short))


_SHORT = ("+I", "-U", "+U", "-D")


@dataclass(frozen=True, slots=True)
class Change:
    """A row with its kind."""

    kind: RowKind
    row: Row

    def with_kind(self, kind: RowKind) -> Change:
        """The same row under another kind."""
        return replace(self, kind=kind)


def materialize(changes: Iterable[Change]) -> Counter[Row]:
    """The bag of rows that a changelog adds up to.

    >>> a, b = (1, "a"), (1, "b")
    >>> dict(materialize([Change(RowKind.INSERT, a), Change(RowKind.UPDATE_BEFORE, a),
    ...                   Change(RowKind.UPDATE_AFTER, b)]))
    {(1, 'b'): 1}
    """
    rows: Counter[Row] = Counter()
    for change in changes:
        rows[change.row] += change.kind.weight
    return +rows


def materialize_upserts(changes: Iterable[Change], key: tuple[int, ...]) -> dict[Row, Row]:
    """The table that an upsert changelog leaves: the last row of each key that has one."""
    table: dict[Row, Row] = {}
    for change in changes:
        identity = tuple(change.row[column] for column in key)
        if change.kind.is_retraction:
            table.pop(identity, None)
        else:
            table[identity] = change.row
    return table


def check_well_formed(changes: Iterable[Change], upsert_key: tuple[int, ...] | None = None) -> None:
    """Check that each change is one that may follow those before it.

    Without an upsert key: nothing is retracted that is not there, and a -U is directly followed by
    its +U. With one: +I only where the key has no row, +U and -D only where it has one, never -U.

    Raises:
        ChangelogError: With the position of the change and the rule that it breaks.
    """
    if upsert_key is None:
        _check_retractions(changes)
        return
    present: set[Row] = set()
    for position, change in enumerate(changes):
        identity = tuple(change.row[column] for column in upsert_key)
        if change.kind is RowKind.UPDATE_BEFORE:
            raise ChangelogError(position, "-U under an upsert key")
        if change.kind is RowKind.INSERT and identity in present:
            raise ChangelogError(position, "+I of a key that has a row")
        if change.kind is not RowKind.INSERT and identity not in present:
            raise ChangelogError(position, f"{change.kind.short} of a key that has no row")
        if change.kind is RowKind.DELETE:
            present.discard(identity)
        else:
            present.add(identity)


def _check_retractions(changes: Iterable[Change]) -> None:
    rows: Counter[Row] = Counter()
    update_open = False
    for position, change in enumerate(changes):
        if update_open and change.kind is not RowKind.UPDATE_AFTER:
            raise ChangelogError(position, "-U without its +U")
        update_open = change.kind is RowKind.UPDATE_BEFORE
        rows[change.row] += change.kind.weight
        if rows[change.row] < 0:
            raise ChangelogError(position, f"{change.kind.short} of a row that is not there")
    if update_open:
        raise ChangelogError(-1, "-U at the end without its +U")
