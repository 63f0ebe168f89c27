"""What an epoch is about to do to histories, and what its operator knows of match columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from state.multiset.kernel import Groups, KeyedChanges
    from state.multiset.numbered import Numbered
    from state.multiset.text import TextSpans

    Integers = NDArray[np.int64]


class Matching(Protocol):
    """What the operator knows of match columns."""

    def of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Canonical match columns of groups of changes."""

    def of_rows(self, rows: pa.BinaryArray) -> pa.BinaryArray:
        """Canonical match columns of canonical rows."""

    def index_of_groups(self, groups: Integers) -> list[bytes]:
        """Match columns of groups, with long texts by their digest: see `state.multiset.index`."""

    def index_of_rows(self, rows: pa.BinaryArray) -> list[bytes]:
        """The same of canonical rows."""

    def numbered(self, groups: Integers) -> Numbered | None:
        """What `index_of_groups` gives, as numbers; None where numbers do not tell all of it."""

    def numbers(self, groups: Integers, rows: TextSpans) -> tuple[Integers, Integers] | None:
        """Numbers that are equal where match columns of groups and of rows of one key are.

        Those of groups, then those of rows. None where match columns are nothing that a number
        stands for.
        """

    def narrow(self, groups: Integers, rows: pa.BinaryArray) -> Integers:
        """Those of the groups that may match one of a few canonical rows, by a cheap look."""


@dataclass(frozen=True)
class Touched:
    """What an epoch is about to do, as far as it says what must be read."""

    keys: list[bytes]
    """Canonical keys."""
    key_groups: Integers
    """Key group of each."""
    changes: KeyedChanges
    groups: Groups
    replace: bool
    """Additions replace what they match."""

    @cached_property
    def retractions(self) -> Integers:
        """Per key: retractions in the epoch."""
        retracting = self.changes.key[~self.changes.accumulates]
        return np.bincount(retracting, minlength=len(self.keys))

    @cached_property
    def group_key(self) -> Integers:
        """Per group of changes: its key, never decreasing."""
        return self.changes.key[self.groups.first]

    @cached_property
    def group_retractions(self) -> Integers:
        """Per group: how many retractions it has."""
        start = self.groups.start
        retractions: Integers = start[1:] - start[:-1]
        retractions -= self.group_additions
        return retractions

    @cached_property
    def group_additions(self) -> Integers:
        """Per group: how many additions it has."""
        added = np.zeros(self.groups.event.size + 1, np.int64)
        self.groups.accumulates.cumsum(out=added[1:])
        before = added[self.groups.start]
        additions: Integers = before[1:] - before[:-1]
        return additions

    @cached_property
    def group_retracts(self) -> NDArray[np.bool_]:
        """Per group: whether it has a retraction."""
        begins = self.groups.start[:-1]
        if not begins.size:
            return np.zeros(0, np.bool_)
        return np.logical_or.reduceat(~self.groups.accumulates, begins)
