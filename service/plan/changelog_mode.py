"""The kinds of change that an edge of a plan may carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.changelog import RowKind

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMES = {kind.name: kind for kind in RowKind} | {"~DELETE": RowKind.DELETE}
"""`~DELETE` is a delete that carries the key alone."""
_SHORT = {
    RowKind.INSERT: "I",
    RowKind.UPDATE_BEFORE: "UB",
    RowKind.UPDATE_AFTER: "UA",
    RowKind.DELETE: "D",
}
_KINDS = {short: kind for kind, short in _SHORT.items()}


@dataclass(frozen=True, slots=True)
class ChangelogMode:
    """A set of kinds.

    >>> ChangelogMode.of("I,UA,D").without(RowKind.DELETE).short
    'I,UA'
    """

    kinds: frozenset[RowKind]

    @classmethod
    def of(cls, text: str) -> ChangelogMode:
        """The mode of short names, as `I,UB,UA,D`.

        Raises:
            ValueError: A name is none of I, UB, UA, D.
        """
        try:
            return cls(frozenset(_KINDS[part.strip().upper()] for part in text.split(",")))
        except KeyError as unknown:
            raise ValueError(f"{unknown.args[0]!r} is none of I, UB, UA, D") from None

    @classmethod
    def named(cls, names: Iterable[str]) -> ChangelogMode:
        """The mode of a plan's names, as INSERT and UPDATE_AFTER.

        Raises:
            ValueError: A name is no kind of change.
        """
        try:
            return cls(frozenset(_NAMES[name] for name in names))
        except (KeyError, TypeError) as unknown:
            raise ValueError(f"{unknown.args[0]!r} is none of {', '.join(_NAMES)}") from None

    @property
    def short(self) -> str:
        """The kinds in Flink's order, as `I,UB,UA,D`."""
        return ",".join(short for kind, short in _SHORT.items() if kind in self.kinds)

    @property
    def is_insert_only(self) -> bool:
        """Whether nothing is ever updated or deleted."""
        return self.kinds <= {RowKind.INSERT}

    def __contains__(self, kind: RowKind) -> bool:
        return kind in self.kinds

    def without(self, *kinds: RowKind) -> ChangelogMode:
        """The mode less these kinds."""
        return ChangelogMode(self.kinds - set(kinds))

    def union(self, other: ChangelogMode) -> ChangelogMode:
        """The kinds of either."""
        return ChangelogMode(self.kinds | other.kinds)


ALL = ChangelogMode(frozenset(RowKind))
INSERT_ONLY = ChangelogMode(frozenset({RowKind.INSERT}))
UPSERT = ALL.without(RowKind.UPDATE_BEFORE)
