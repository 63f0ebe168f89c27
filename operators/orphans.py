"""Orphans: retractions that matched nothing, counted for ever and listed as far as there is room.

    T:orphans    stream, bounded: key (canonical), op (-U or -D), row (canonical), ms (epoch time),
                 and input (from 0) where the operator has several
    T:counters   hash: `orphans` is how many there were, `late` how many rows came too late

Orphans tell of a source that loses or doubles changes, or of a TTL that is too short; late rows, of
a watermark that goes too fast for its source.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from operators.changelog import RowKind
from state.backends.interface import HashAdd, StreamAppend
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from operators.keyed_epoch import KeyedEpoch
    from state.backends.interface import Write

ORPHANS = b"orphans"
"""The stream."""
LATE = b"late"
"""The field of rows that the watermark had passed, and that were dropped."""
COUNTERS = b"counters"
"""The hash; the field has the stream's name."""

_OPS = [kind.short.encode() for kind in RowKind]


def orphan_writes(
    epoch: KeyedEpoch, missed: NDArray[np.int64], time_ms: int, orphans_max: int
) -> Iterator[tuple[int, Write]]:
    """Writes, with their key groups, that count and list an epoch's orphans.

    Args:
        epoch: The epoch.
        missed: Its changes that are orphans, ascending.
        time_ms: Its time.
        orphans_max: How many are listed in each key group: the newest.
    """
    if not missed.size:
        return
    key_groups = epoch.touched.key_groups[epoch.changes.key[missed]]
    for key_group in np.unique(key_groups).tolist():
        mine = missed[key_groups == key_group]
        yield key_group, HashAdd(COUNTERS, ORPHANS, mine.size)
        listed = mine[np.argsort(epoch.row_of[mine])][-orphans_max:] if orphans_max else mine[:0]
        if not listed.size:
            continue
        ms = b"%d" % time_ms
        columns = (
            epoch.keys_of(listed),
            bytes_of(epoch.of_changes(listed)),
            epoch.kinds_of(listed),
        )
        entries = [
            (b"key", key, b"row", row, b"op", _OPS[kind], b"ms", ms)
            for key, row, kind in zip(*columns, strict=True)
        ]
        yield key_group, StreamAppend(ORPHANS, entries, orphans_max)


class Orphan(NamedTuple):
    """A retraction that matched nothing."""

    key_group: int
    key: bytes
    """Canonical."""
    row: bytes
    """Canonical."""
    kind: RowKind
    input: int
    """Which input it came by."""


def orphans_of_rows(
    orphans: Iterable[Orphan], time_ms: int, orphans_max: int, *, inputs: int = 1
) -> Iterator[tuple[int, Write]]:
    """The same for orphans that are known one by one, oldest first.

    Args:
        orphans: All of an epoch.
        time_ms: The epoch's time.
        orphans_max: How many are listed in each key group: the newest.
        inputs: How many the operator has.
    """
    by_group: dict[int, list[tuple[bytes, ...]]] = {}
    ms = b"%d" % time_ms
    for key_group, key, row, kind, number in orphans:
        entry: tuple[bytes, ...] = (b"key", key, b"row", row, b"op", _OPS[kind], b"ms", ms)
        if inputs > 1:
            entry += (b"input", b"%d" % number)
        by_group.setdefault(key_group, []).append(entry)
    for key_group, entries in sorted(by_group.items()):
        yield key_group, HashAdd(COUNTERS, ORPHANS, len(entries))
        if orphans_max:
            yield key_group, StreamAppend(ORPHANS, entries[-orphans_max:], orphans_max)


def late_writes(key_groups: Iterable[int]) -> Iterator[tuple[int, Write]]:
    """The writes that count late rows, one for each key group that has some.

    Args:
        key_groups: Of each late row.
    """
    for key_group, count in sorted(Counter(key_groups).items()):
        yield key_group, HashAdd(COUNTERS, LATE, count)
