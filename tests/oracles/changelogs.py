"""Changelogs of recorded cases: as typed rows, compared as the cases define it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state.codec import RowCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state.types import LogicalType

Change = tuple[str, bytes]
"""A kind, and the row's canonical bytes: equal rows have equal ones, however they were written."""


@dataclass(frozen=True, slots=True)
class SinkRows:
    """The rows that a sink takes, and its key."""

    codec: RowCodec
    key: tuple[int, ...]
    """Columns of the primary key; all columns where there is none."""
    is_keyed: bool

    @classmethod
    def of(cls, types: Sequence[LogicalType], names: Sequence[str], key: Sequence[str]) -> SinkRows:
        """The rows of these columns."""
        columns = tuple(names.index(name) for name in key) or tuple(range(len(names)))
        return cls(RowCodec(types, names), columns, bool(key))

    def change(self, line: dict[str, Any]) -> Change:
        """A line of a changelog."""
        return line["op"], self.row(line["data"])

    def row(self, data: dict[str, Any]) -> bytes:
        """A row as its canonical bytes."""
        return self.codec.encode(self.codec.decode_json(data.get("data", data)))

    def key_of(self, row: bytes) -> tuple[object, ...]:
        """The values of a row's key, in a form that can be compared."""
        values = self.codec.decode(row)
        return tuple(repr(values[column]) for column in self.key)


def difference(
    rows: SinkRows, found: Sequence[Change], changes: Sequence[Change], final: Sequence[bytes]
) -> str | None:
    """The first difference of a changelog from the recorded one, and of the tables they leave.

    Between keys the order is free; within a key it is not. Without a key, each row is its own.
    """
    return _of_changes(rows, found, changes) or difference_of_tables(rows, found, final)


def difference_of_tables(
    rows: SinkRows, found: Sequence[Change], final: Sequence[bytes]
) -> str | None:
    """The first difference of the table that a changelog leaves from the recorded one."""
    return _of_tables(_table(rows, found), Counter(final))


def _of_changes(rows: SinkRows, found: Sequence[Change], expected: Sequence[Change]) -> str | None:
    ours, theirs = _by_key(found, rows.key_of), _by_key(expected, rows.key_of)
    for key in dict.fromkeys([*theirs, *ours]):
        one, other = ours.get(key, []), theirs.get(key, [])
        for place in range(max(len(one), len(other))):
            left = _words(one[place : place + 1])
            right = _words(other[place : place + 1])
            if left != right:
                return f"change {place} of key {', '.join(map(str, key))}: {left}, expected {right}"
    return None


def _by_key(
    changes: Iterable[Change], key_of: Callable[[bytes], tuple[object, ...]]
) -> dict[tuple[object, ...], list[Change]]:
    groups: defaultdict[tuple[object, ...], list[Change]] = defaultdict(list)
    for change in changes:
        groups[key_of(change[1])].append(change)
    return groups


def _words(changes: Sequence[Change]) -> str:
    return f"{changes[0][0]} {changes[0][1].decode()}" if changes else "none"


def _table(rows: SinkRows, changes: Iterable[Change]) -> Counter[bytes]:
    """What a changelog leaves: the last row of each key, or a bag."""
    if not rows.is_keyed:
        bag: Counter[bytes] = Counter()
        for kind, row in changes:
            bag[row] += 1 if kind in ("+I", "+U") else -1
        return +bag
    table: dict[tuple[object, ...], bytes] = {}
    for kind, row in changes:
        if kind in ("+I", "+U"):
            table[rows.key_of(row)] = row
        else:
            table.pop(rows.key_of(row), None)
    return Counter(table.values())


def _of_tables(found: Counter[bytes], expected: Counter[bytes]) -> str | None:
    for row in [*expected, *found]:
        if found[row] != expected[row]:
            times = f"stands {found[row]} times, expected {expected[row]}"
            return f"the table at the end: {row.decode()} {times}"
    return None
