"""What crosses from one node of a dataflow to the next: columns, control rows and their notes.

A dataflow's edges are Spark DataFrames. Beside the typed columns `f0..fn` of a row, each carries

    _kind   int8    0..3 as `RowKind`; 4 = tick, 5 = dead letter
    _order  int64   place inside the epoch, unique per source; of a tick: the partition it is for
    _note   string  JSON of a control row, null in changes
    _time   int64   the epoch's processing time, ms since 1970; the same when the epoch runs again
    _seq    int64   place among what an operator emitted for one `_order`; 0 or null elsewhere

Changes are ordered by `_order`, then `_seq`. What an operator emits keeps the order of its cause,
so that the order of sources holds down to the sinks, whatever lies between.

Ticks and dead letters are *control rows*: every node passes them on unread. A source emits a
tick for each shuffle partition in each epoch, so that a partition without changes learns the time;
where no task reads the source, the first stage makes its own (`service.runtime.quiet_epochs`).
Operators and sources tell their statistics to the sink in notes of further ticks. Notes are keyed
by who wrote them, so a note that reaches the sink along two ways counts once.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KIND = "_kind"
ORDER = "_order"
NOTE = "_note"
TIME = "_time"
SEQUENCE = "_seq"
KEY_GROUP = "_kg"
PLACE_BITS = 62
"""Of `_seq`. The bit above them says that it tells no place behind a cause, but one in a
partition: then it comes behind all that do."""
INPUT = "_input"
"""Which input of an operator a row belongs to, where there are several: its columns are then in
a struct, see `input_column`."""

WATERMARKS = "@watermarks"
"""Among the offsets of an epoch's close: `[now, next]` by watermark assigner. `now` holds while the
next epoch's changes are processed, `next` comes after them."""
LEAST = "@least"
"""Among the offsets of an epoch's close, where sources may be idle: `[now, next]` by the assigners
that operators wait for together (`together`). Idle ones hold nothing back, and it never falls."""
SEEN = "@seen"
"""Among the offsets of an epoch's close, where sources may be idle: by watermark assigner the time
of the last epoch in which it had rows."""
ENDED = "@ended"
"""Among the offsets of an epoch's close: the sources that bring nothing any more."""
EPOCH_TIME = "@time"
"""Among the offsets of an epoch's close: its processing time."""

TICK = 4
DEAD_LETTER = 5
CONTROL_MINIMUM = 4
"""Kinds from here on are control rows."""

CONTROL_FIELDS: tuple[tuple[str, pa.DataType], ...] = (
    (KIND, pa.int8()),
    (ORDER, pa.int64()),
    (NOTE, pa.string()),
    (TIME, pa.int64()),
    (SEQUENCE, pa.int64()),
)

CONTROL_NAMES = tuple(name for name, _ in CONTROL_FIELDS)


class WorkerError(RuntimeError):
    """An error with a stable code, on its way through Spark as text."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"[tailrace:{code}] {message}")


def field_name(index: int) -> str:
    """The wire's name of a row's column; the plan's own names stay out of Spark's name look-up."""
    return f"f{index}"


def input_column(number: int) -> str:
    """The column with the rows of one input, or of one sink: a struct of f0..fn."""
    return f"s{number}"


def wire_schema(types: Sequence[pa.DataType]) -> pa.Schema:
    """The Arrow schema of rows of these columns; all nullable, as control rows have no values."""
    data = [pa.field(field_name(index), each) for index, each in enumerate(types)]
    return pa.schema([*data, *(pa.field(name, each) for name, each in CONTROL_FIELDS)])


@dataclass(frozen=True, slots=True)
class ControlRow:
    """A row that is no change: a tick (with or without a note) or a dead letter."""

    kind: int
    order: int
    """Of a tick its target partition; of a dead letter its place in the epoch."""
    note: str | None = None


def control_batch(schema: pa.Schema, rows: Sequence[ControlRow], time_ms: int | None) -> pa.Array:
    """Control rows as one record batch of a wire schema: null in every other column."""
    own = {
        KIND: pa.array([row.kind for row in rows], pa.int8()),
        ORDER: pa.array([row.order for row in rows], pa.int64()),
        NOTE: pa.array([row.note for row in rows], pa.string()),
        TIME: pa.array([time_ms] * len(rows), pa.int64()),
    }
    columns = [own[f.name] if f.name in own else pa.nulls(len(rows), f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(frozen=True, slots=True)
class SourceNote:
    """What one task of a source read in an epoch; the first task also tells the end offset.

    Of a source that has partitions of its own, each task tells the end of those that it read.
    """

    table: str
    part: int | str
    """Which part of the epoch: a task's number, or the source's own name of a partition."""
    rows: int
    end: Mapping[str, Any] | None = None
    is_last: bool = False
    """Whether the source has ended: no epoch after this one brings rows of it."""


@dataclass(frozen=True, slots=True)
class OperatorNote:
    """What one partition of an operator did in an epoch."""

    node: str
    part: int
    statistics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class WatermarkNote:
    """How far event time came in one partition of an epoch, by a watermark assigner."""

    assigner: str
    """Id of its node."""
    part: int
    watermark_ms: int


def to_note(note: SourceNote | OperatorNote | WatermarkNote) -> str:
    """The JSON text of a note."""
    return orjson.dumps(asdict(note)).decode()


def dead_letter_note(table: str, position: str, reason: str) -> str:
    """The JSON text of a dead letter: where the refused line is and why, never the line itself."""
    return orjson.dumps({"table": table, "position": position, "reason": reason}).decode()


def together(assigners: Iterable[Iterable[tuple[str, int]]]) -> str:
    """A name for the assigners that an operator waits for, with how far each is held back.

    >>> together([[("2", 0), ("5", 10)], [("2", 0)]])
    '2-0,5-10'
    """
    pairs = {(name, held_ms) for of_input in assigners for name, held_ms in of_input}
    return ",".join(f"{name}-{held_ms}" for name, held_ms in sorted(pairs))


def merged_offsets(known: Mapping[str, Any], news: Mapping[str, Any]) -> dict[str, Any]:
    """Offsets moved on to newer ones, object by object: what is not told of rests where it was."""
    moved = {
        name: merged_offsets(known[name], value)
        if isinstance(value, dict) and isinstance(known.get(name), dict)
        else value
        for name, value in news.items()
    }
    return {**known, **moved}


def time_behind(marker_offsets: str, time_ms: int) -> int:
    """The time of an epoch, in ms since 1970: what its sources say, or that of the epoch before.

    Sources have clocks of their own, and one that was set back may be read where the one that
    noticed nothing is not. An epoch's time is never before that of the one before.

    Args:
        marker_offsets: What the epoch before left.
        time_ms: The latest that a source of the epoch says.

    >>> time_behind('{"@time":5}', 3), time_behind('{"@time":5}', 7), time_behind("{}", 3)
    (5, 7, 3)
    """
    return max(time_ms, int(orjson.loads(marker_offsets or "{}").get(EPOCH_TIME, 0)))


class NoteSum:
    """Adds up the notes of an epoch; a note that comes twice counts once."""

    __slots__ = ("_nodes", "_sources", "_watermarks")

    def __init__(self) -> None:
        self._sources: dict[tuple[str, int | str], dict[str, Any]] = {}
        self._watermarks: dict[str, int] = {}
        self._nodes: dict[tuple[str, int], dict[str, int]] = {}

    def add(self, notes: Iterable[str | bytes]) -> None:
        """Take in notes as written by `to_note`.

        Raises:
            WorkerError: One part of a source was read twice, with different results.
        """
        for text in notes:
            note = orjson.loads(text)
            if "assigner" in note:
                known = self._watermarks.get(note["assigner"], note["watermark_ms"])
                self._watermarks[note["assigner"]] = max(known, note["watermark_ms"])
            elif "node" in note:
                self._nodes[note["node"], note["part"]] = note["statistics"]
            elif self._sources.setdefault((note["table"], note["part"]), note) != note:
                raise WorkerError(
                    "source-split", f"{note['table']}: one epoch read two different parts of it"
                )

    @property
    def rows_in(self) -> int:
        """Changes that the sources read."""
        return sum(note["rows"] for note in self._sources.values())

    @property
    def offsets(self) -> dict[str, Any]:
        """Where each source's epoch ended, by table."""
        found: dict[str, Any] = {}
        for (table, _), note in self._sources.items():
            if note["end"] is not None:
                found[table] = merged_offsets(found.get(table, {}), note["end"])
        return dict(sorted(found.items()))

    @property
    def ended(self) -> frozenset[str]:
        """Sources that have ended, by table."""
        found = self._sources.values()
        return frozenset(note["table"] for note in found if note.get("is_last"))

    @property
    def resumed(self) -> frozenset[str]:
        """Sources that told that they go on, by table."""
        found = self._sources.values()
        return frozenset(
            note["table"] for note in found if note["end"] is not None and not note.get("is_last")
        )

    @property
    def watermarks(self) -> dict[str, int]:
        """How far event time came in this epoch, by watermark assigner."""
        return dict(sorted(self._watermarks.items()))

    def nodes(self) -> dict[str, dict[str, int]]:
        """Each operator's statistics, added up over its partitions."""
        total: dict[str, dict[str, int]] = {}
        for (node, _), statistics in sorted(self._nodes.items()):
            into = total.setdefault(node, {})
            for name, value in statistics.items():
                into[name] = into.get(name, 0) + value
        return total
