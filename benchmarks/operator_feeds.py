"""Changes for `bench_operators`, and the Arrow columns that operators get of them.

A change is a tuple: input, kind, k, v and event time; all other columns follow from these. An epoch
lasts `EPOCH_MS`. Its rows have event times in its first part, and the watermark passes its end when
it ends: so a window as long as an epoch comes out with the epoch that fills it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.keyed import EpochTimes
from operators.spec import InputSpec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

GROUPS = 64
"""Key groups of one of two tasks."""
EPOCH_MS = 1_000
TIMES_MS = 400
"""Event times of an epoch's rows lie so far behind its begin, at most."""
AHEAD_MS = 3_600_000
"""So far ahead of its epoch is the event time of a row that is to wait: longer than a run."""
PARTS = 20
"""So many values `part` has."""
SPREAD_V = 1_000_000
Change = tuple[int, int, int, int, int]
"""Input, kind, k, v and event time in ms."""
Changes = list[Change]
Columns = dict[str, "NDArray[np.int64]"]


def _times(ms: NDArray[np.int64]) -> pa.Array:
    return pa.array(ms.astype("datetime64[ms]").astype("datetime64[us]"))


def _ends(ms: NDArray[np.int64]) -> NDArray[np.int64]:
    return (ms // EPOCH_MS + 1) * EPOCH_MS


COLUMNS: dict[str, tuple[str, Callable[[Columns], pa.Array]]] = {
    "k": ("BIGINT", lambda of: pa.array(of["k"])),
    "name": (
        "STRING",
        lambda of: pa.array([f"name of {each}" for each in of["k"].tolist()], pa.string()),
    ),
    "v": ("BIGINT", lambda of: pa.array(of["v"])),
    "part": ("BIGINT", lambda of: pa.array(of["v"] % PARTS)),
    # What an incremental aggregation sends on for a value that is new.
    "accumulators": (
        "STRING",
        lambda of: pa.array(['{"rows":1,"parts":1}'] * of["k"].size, pa.string()),
    ),
    "ts": ("TIMESTAMP(3)", lambda of: _times(of["ms"])),
    "window_end": ("TIMESTAMP(3)", lambda of: _times(_ends(of["ms"]))),
}
"""Types of columns by name, and how they follow from a change."""


def input_of(*names: str, key: Sequence[str] = ("k",)) -> InputSpec:
    """An input of these columns."""
    types = tuple(parse_type(COLUMNS[each][0]) for each in names)
    return InputSpec(types=types, names=names, key=tuple(map(names.index, key)))


def batches_of(inputs: Sequence[InputSpec], changes: pa.RecordBatch) -> list[ChangeBatch]:
    """Changes in order as the batches of the inputs; key groups by the first column of the key."""
    found = []
    table = np.column_stack([each.to_numpy() for each in changes.columns])
    for number, spec in enumerate(inputs):
        order = np.flatnonzero(table[:, 0] == number)
        _, kinds, keys, values, times = table[order].T
        of = {"k": keys, "v": values, "ms": times}
        columns = [COLUMNS[each][1](of) for each in spec.names]
        groups = np.zeros(len(order), np.int64)
        if spec.key:
            groups = columns[spec.key[0]].to_numpy() % GROUPS
        found.append(ChangeBatch.of(columns, kinds, order, groups))
    return found


def times_of(epoch: int) -> EpochTimes:
    """The times of an epoch, counted from 1."""
    begin_ms = epoch * EPOCH_MS
    return EpochTimes(begin_ms, begin_ms - 1, begin_ms + EPOCH_MS - 1)


class Feed:
    """Makes well-formed changes, and knows which rows are there."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.epoch = 0
        """The one whose changes are made."""
        self.ahead_ms = 0
        """What event times have on top of the epoch's."""
        self.rows: dict[tuple[int, int], list[tuple[int, int]]] = {}
        """v and event time of the rows that are there, by input and key."""
        self.touches: Counter[tuple[int, int]] = Counter()
        """How often, by input and key."""

    def some_row(self) -> tuple[int, int]:
        """A value and an event time of this epoch."""
        value = int(self.rng.integers(0, SPREAD_V))
        return value, self.epoch * EPOCH_MS + value % TIMES_MS + self.ahead_ms


def growing(feed: Feed, key: int) -> Changes:
    """+I."""
    return [(0, 0, key, *feed.some_row())]


def growing_sides(feed: Feed, key: int) -> Changes:
    """+I on the left, and one of each key and epoch on the right, so that pairs are no square."""
    row = (0, 0, key, *feed.some_row())
    if feed.touches[1, key] == feed.epoch:
        return [row]
    feed.touches[1, key] = feed.epoch
    return [(1, 0, key, *feed.some_row()), row]


def retracting(feed: Feed, key: int, number: int = 0) -> Changes:
    """+I of new rows; behind two, every other touch of a key is -D of an old row.

    Of odd keys and even ones in turns, so that keys that are touched once give both.
    """
    rows = feed.rows.setdefault((number, key), [])
    feed.touches[number, key] += 1
    if len(rows) > 1 and (feed.touches[number, key] + key) % 2:
        return [(number, 3, key, *rows.pop(0))]
    rows.append(feed.some_row())
    return [(number, 0, key, *rows[-1])]


def retracting_sides(feed: Feed, key: int) -> Changes:
    """As `retracting`, on either side."""
    return retracting(feed, key, int(feed.rng.integers(0, 2)))


def updating(feed: Feed, key: int, number: int = 0) -> Changes:
    """One row of a key, replaced by -U and +U."""
    rows = feed.rows.setdefault((number, key), [])
    old = [(number, 1, key, *rows.pop())] if rows else []
    rows.append(feed.some_row())
    return [*old, (number, 2 if old else 0, key, *rows[-1])]


def updating_sides(feed: Feed, key: int, sides: int = 2) -> Changes:
    """One row of each key on all sides, replaced in turns; odd keys begin on the left."""
    feed.touches[0, key] += 1
    return updating(feed, key, (feed.touches[0, key] + key) % sides)


def updating_three(feed: Feed, key: int) -> Changes:
    """As `updating_sides`, of three inputs."""
    return updating_sides(feed, key, 3)


def versioned(feed: Feed, key: int) -> Changes:
    """+I of a row on the left; every other touch, beginning with the first, +U of a version too."""
    feed.touches[0, key] += 1
    row = (0, 0, key, *feed.some_row())
    return [row] if feed.touches[0, key] % 2 == 0 else [(1, 2, key, *feed.some_row()), row]


def correcting(feed: Feed, key: int) -> Changes:
    """+I; every other touch, beginning with the second, it is replaced by -U and +U at once."""
    feed.touches[0, key] += 1
    first = feed.some_row()
    if feed.touches[0, key] % 2:
        return [(0, 0, key, *first)]
    return [(0, 0, key, *first), (0, 1, key, *first), (0, 2, key, *feed.some_row())]


def rising(feed: Feed, key: int) -> Changes:
    """Rows of a key and `part` that only rise, with v: +I, then +U."""
    feed.touches[0, key] += 1
    part = int(feed.rng.integers(0, PARTS))
    value = feed.touches[0, key] * PARTS + part
    feed.touches[1 + part, key] += 1
    kind = 0 if feed.touches[1 + part, key] == 1 else 2
    return [(0, kind, key, value, feed.epoch * EPOCH_MS)]


def upserting(feed: Feed, key: int) -> Changes:
    """+U, and one in ten -D."""
    feed.touches[0, key] += 1
    kind = 3 if feed.touches[0, key] % 10 == 0 else 2
    return [(0, kind, key, *feed.some_row())]


FEED_SCHEMA = pa.schema([(each, pa.int64()) for each in ("input", "kind", "k", "v", "ms")])


def to_batch(changes: Changes) -> pa.RecordBatch:
    """Changes as they travel from a feed."""
    columns = np.array(changes, np.int64).reshape(-1, len(FEED_SCHEMA)).T
    return pa.record_batch([*map(pa.array, columns)], schema=FEED_SCHEMA)


Small = tuple[tuple[tuple[int, int, int, int], ...], ...]
"""Epochs of a proof: input, kind, k and v of each change; v is the event time, too."""
GROWS: Small = (
    ((0, 0, 1, 1010), (0, 0, 1, 1020), (0, 0, 2, 1030)),
    ((0, 0, 1, 2010), (0, 0, 2, 2020)),
)
TAKES_BACK: Small = (
    ((0, 0, 1, 1010), (0, 0, 1, 1020), (0, 0, 2, 1030)),
    ((0, 3, 1, 1020), (0, 0, 1, 2010), (0, 3, 2, 1030)),
)
CORRECTS: Small = (
    ((0, 0, 1, 1010), (0, 0, 1, 1020), (0, 1, 1, 1020), (0, 2, 1, 1030), (0, 0, 2, 1040)),
    ((0, 0, 1, 2010),),
)
UPSERTS: Small = (
    ((0, 2, 1, 1010), (0, 2, 2, 1030)),
    ((0, 3, 1, 1010), (0, 2, 2, 2010)),
)
UPDATES: Small = (
    ((0, 0, 1, 1010), (0, 0, 2, 1030)),
    ((0, 1, 1, 1010), (0, 2, 1, 2010)),
)
RISES: Small = (
    ((0, 0, 1, 1020), (0, 0, 1, 1021)),
    ((0, 2, 1, 2020),),
)
SIDES: Small = (
    ((0, 0, 1, 1010), (1, 0, 1, 1020), (0, 0, 2, 1030)),
    ((0, 1, 1, 1010), (0, 2, 1, 2010), (1, 0, 2, 2020)),
)
SIDES_GROW: Small = (
    ((0, 0, 1, 1010), (1, 0, 1, 1020), (0, 0, 2, 1030)),
    ((0, 0, 1, 2010), (1, 0, 1, 2020)),
)
THREE_SIDES: Small = (
    ((0, 0, 1, 1010), (1, 0, 1, 1020)),
    ((2, 0, 1, 2010), (1, 1, 1, 1020), (1, 2, 1, 2020)),
)
VERSIONS: Small = (
    ((1, 0, 1, 1010), (0, 0, 1, 1020), (0, 0, 2, 1030)),
    ((1, 2, 1, 2010), (0, 0, 1, 2020)),
)
