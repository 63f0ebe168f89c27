"""The writes of an epoch's cells: many small ones, gathered into few variadic ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.backends.interface import (
    Drop,
    HashDelete,
    HashPut,
    LexRemove,
    ScoreRemove,
    SortedPut,
    SortedRemove,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.backends.interface import Write


class _Structure:
    """The writes to one structure."""

    __slots__ = ("cut_ms", "deletes", "is_dropped", "puts", "ranges", "scores", "unscores")

    def __init__(self) -> None:
        self.is_dropped = False
        self.cut_ms: int | None = None
        self.deletes: list[bytes] = []
        self.unscores: list[bytes] = []
        self.ranges: list[tuple[bytes, bytes]] = []
        self.puts: list[bytes] = []
        self.scores: list[float | bytes] = []

    def writes(self, name: bytes) -> Iterator[Write]:
        """Dropping first, then what is removed, then what is put."""
        if self.is_dropped:
            yield Drop(name)
        if self.deletes:
            yield HashDelete(name, self.deletes)
        if self.unscores:
            yield SortedRemove(name, self.unscores)
        if self.cut_ms is not None:
            yield ScoreRemove(name, self.cut_ms)
        for minimum, maximum in self.ranges:
            yield LexRemove(name, minimum, maximum)
        if self.puts:
            yield HashPut(name, self.puts)
        if self.scores:
            yield SortedPut(name, self.scores)


class WriteBatch:
    """Many small writes, gathered into few variadic ones.

    A structure is dropped first, then loses what is removed, then gets what is put. What a batch
    is given must not contradict itself: a field is put or deleted, once.
    """

    __slots__ = ("_groups", "_others")

    def __init__(self) -> None:
        self._groups: dict[int, dict[bytes, _Structure]] = {}
        self._others: dict[int, list[Write]] = {}

    def put(self, key_group: int, name: bytes, field: bytes, value: bytes) -> None:
        """Set a field of a hash."""
        self.puts_of(key_group, name).extend((field, value))

    def puts_of(self, key_group: int, name: bytes) -> list[bytes]:
        """The fields of a hash that are set, `[field, value, ...]`; to be added to."""
        return self._structure(key_group, name).puts

    def delete(self, key_group: int, name: bytes, field: bytes) -> None:
        """Remove a field of a hash."""
        self._structure(key_group, name).deletes.append(field)

    def put_all(self, key_group: int, name: bytes, pairs: list[bytes]) -> None:
        """Set many fields: `[field, value, ...]`."""
        if pairs:
            self._structure(key_group, name).puts += pairs

    def delete_all(self, key_group: int, name: bytes, fields: list[bytes]) -> None:
        """Remove many fields of a hash."""
        if fields:
            self._structure(key_group, name).deletes += fields

    def unscore_all(self, key_group: int, name: bytes, members: list[bytes]) -> None:
        """Remove many members of a sorted set."""
        if members:
            self._structure(key_group, name).unscores += members

    def score(self, key_group: int, name: bytes, member: bytes, score: float) -> None:
        """Set the score of a member of a sorted set."""
        self._structure(key_group, name).scores += (score, member)

    def score_all(self, key_group: int, name: bytes, pairs: list[float | bytes]) -> None:
        """Set many scores: `[score, member, ...]`."""
        if pairs:
            self._structure(key_group, name).scores += pairs

    def unscore(self, key_group: int, name: bytes, member: bytes) -> None:
        """Remove a member of a sorted set."""
        self._structure(key_group, name).unscores.append(member)

    def unscore_between(self, key_group: int, name: bytes, minimum: bytes, maximum: bytes) -> None:
        """Remove the members of a sorted set between two bounds (`LexRemove`)."""
        self._structure(key_group, name).ranges.append((minimum, maximum))

    def unscore_until(self, key_group: int, name: bytes, maximum: int) -> None:
        """Remove the members of a sorted set with scores up to a bound, before others are put."""
        self._structure(key_group, name).cut_ms = maximum

    def drop(self, key_group: int, name: bytes) -> None:
        """Remove a structure as a whole, before anything is put into it."""
        self._structure(key_group, name).is_dropped = True

    def add(self, key_group: int, write: Write) -> None:
        """Any other write; those of a key group come after all others, in the order given."""
        self._others.setdefault(key_group, []).append(write)

    def writes(self) -> dict[int, list[Write]]:
        """What to commit, by key group; key groups without a write are left out."""
        result: dict[int, list[Write]] = {}
        for key_group in sorted(self._groups.keys() | self._others.keys()):
            structures = self._groups.get(key_group, {})
            result[key_group] = [
                write for name, each in structures.items() for write in each.writes(name)
            ]
            result[key_group] += self._others.get(key_group, ())
        return result

    def _structure(self, key_group: int, name: bytes) -> _Structure:
        group = self._groups.get(key_group)
        if group is None:
            group = self._groups[key_group] = {}
        structure = group.get(name)
        if structure is None:
            structure = group[name] = _Structure()
        return structure
