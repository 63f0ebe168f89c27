"""What all sources share: ticks, notes, dead letters, and the shape of a record batch.

A source is a Spark Python data source that gives Arrow batches of the wire schema. Two processes
run it. One beside the driver lives as long as the query and answers what is new (`latestOffset`)
and how to cut it (`partitions`); short calls in the workers read one cut (`read`). The second kind
gets a pickled copy of the reader, so a reader keeps its connections out of its pickled self.

Offsets are JSON objects. Spark records the end offset of an epoch before it runs, and runs the
same epoch again after a crash: a cut must give the same rows, in the same order, whenever it is
read. One that Redis has closed runs for Spark's record alone, and nothing is read for it: its lines
are done with, whatever became of them since, and whatever is asked of lines now. A tick number in
each offset moves with the clock, so that epochs run while no data comes. An offset that has
anything new has the time as well, where the schema asks for it: that is the epoch's time, and as
the offset is recorded it is the same when the epoch runs again.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import orjson
import pyarrow as pa
import redis
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows

from operators.wire import (
    DEAD_LETTER,
    KIND,
    NOTE,
    ORDER,
    TICK,
    TIME,
    ControlRow,
    SourceNote,
    control_batch,
    dead_letter_note,
    to_note,
)
from service.runtime.connections import redis_of
from service.runtime.dataflow_errors import MalformedChange, SourceChanged, SourceUnavailable
from service.runtime.planned_offsets import place_in
from service.runtime.slot_keys import slot_key
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from service.runtime.sources.spec import SourceSpec

Offset = dict[str, Any]
C = TypeVar("C")
"""What a source cuts an epoch into, for its own `read_cut`."""
_SET_BACK_MS: Final = 3_600_000
"""Ticks further ahead of the clock than this are not of a clock that was set back."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no change: its place in the epoch, where it stands, what is wrong."""

    order: int
    position: str
    reason: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Changes in columns, at most some megabytes, and the lines among them that were refused."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    order: np.ndarray
    rejected: Sequence[Rejected] = ()


class WireBatches:
    """Makes the record batches of one table: changes, dead letters and control rows."""

    def __init__(self, spec: SourceSpec, schema: StructType) -> None:
        self._spec = spec
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def of(self, chunk: Chunk, time_ms: int | None = None) -> Iterator[pa.RecordBatch]:
        """A chunk's changes, then its dead letters.

        Raises:
            MalformedChange: a line was refused, and the pipeline is to fail on it.
        """
        if len(chunk.kinds):
            yield self._changes(chunk, time_ms)
        if chunk.rejected:
            yield self._dead_letters(chunk.rejected, time_ms)

    def control(self, rows: Sequence[ControlRow], time_ms: int | None = None) -> pa.RecordBatch:
        """Control rows, in the table's columns."""
        return control_batch(self._schema, rows, time_ms)

    def _changes(self, chunk: Chunk, time_ms: int | None) -> pa.RecordBatch:
        count = len(chunk.kinds)
        own = {
            KIND: pa.array(chunk.kinds, pa.int8()),
            ORDER: pa.array(chunk.order, pa.int64()),
            NOTE: pa.nulls(count, pa.string()),
        }
        if TIME in self._schema.names:
            own[TIME] = pa.array(np.full(count, time_ms or 0), pa.int64())
        data = iter(chunk.columns)
        columns = [
            own[each.name] if each.name in own else exactly(next(data), each.type)
            for each in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _dead_letters(self, rejected: Sequence[Rejected], time_ms: int | None) -> pa.RecordBatch:
        table = self._spec.table
        if self._spec.fail_on_malformed:
            raise MalformedChange(f"{table} at {rejected[0].position}: {rejected[0].reason}")
        rows = [
            ControlRow(DEAD_LETTER, each.order, dead_letter_note(table, each.position, each.reason))
            for each in rejected
        ]
        return self.control(rows, time_ms)


class Task(InputPartition):  # type: ignore[misc]  # pyspark's types are not followed
    """What one worker reads of an epoch: cuts in order; task 0 also emits the ticks."""

    def __init__(self, part: int, cuts: Sequence[Any], end: Offset) -> None:
        super().__init__(part)
        self.part = part
        self.cuts = tuple(cuts)
        self.end = end


@dataclass
class ChangeReader(DataSourceStreamReader, ABC, Generic[C]):  # type: ignore[misc]  # pyspark's types are not followed
    """A source of changes; subclasses say what an offset is and how a cut is read."""

    spec: SourceSpec
    schema: StructType
    _wire: WireBatches = field(init=False)
    _first: Offset | None = field(init=False, default=None)
    _closed: Offset | None = field(init=False, default=None)
    """Where what was closed before this run ends."""

    def __post_init__(self) -> None:
        self._wire = WireBatches(self.spec, self.schema)

    def __reduce__(self) -> tuple[Any, ...]:
        # Tasks get a reader made anew: connections and caches stay where they are.
        return type(self), (self.spec, self.schema)

    # what a source says of itself

    @abstractmethod
    def first_offset(self) -> Offset:
        """Where a new pipeline starts to read."""

    @abstractmethod
    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """Where an epoch that starts here ends: at most `rows_max` rows on, as known now."""

    @abstractmethod
    def cuts(self, start: Offset, end: Offset) -> list[list[C]]:
        """The work between two offsets, one list of picklable cuts a task; may be empty."""

    @abstractmethod
    def read_cut(self, cut: C) -> Iterator[Chunk]:
        """The changes of a cut, the same ones each time."""

    def closed(self) -> Offset:
        """The end of the source's last closed epoch; empty where the source need not know it."""
        return {}

    def time_of(self, end: Offset) -> int | None:
        """The processing time of an epoch that ends here; None where Spark tells it instead.

        Raises:
            SourceChanged: the epoch was planned by a version that left the time to Spark, and has
                no tick either.
        """
        if not self._tells_time:
            return None
        # An epoch of an earlier version that was planned but not run: the time of its tick.
        time_ms = int(end.get("time", end["tick"] * self.spec.tick_interval_ms))
        if not time_ms:
            raise SourceChanged(f"{self.spec.table}: an epoch was planned without a time")
        return time_ms

    def is_last(self, end: Offset) -> bool:
        """Whether nothing comes after an epoch that ends here, ever."""
        return False

    # what Spark asks

    def initialOffset(self) -> Offset:
        """See `DataSourceStreamReader`; Spark asks more than once and compares."""
        if self._first is None:
            self._first = {**self.first_offset(), "tick": 0}
        return self._first

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """See `DataSourceStreamReader`; the limit is kept unless Spark asks for all there is."""
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with redis_errors():
            end = {**self.advance(start, rows_max), "tick": self._tick(start)}
        is_new = end != {name: value for name, value in start.items() if name != "time"}
        if "time" in start and not is_new:
            return start  # the clock alone begins no epoch
        # The first offset has a time whatever is new: Spark runs an epoch up to it.
        return {**end, **self._time(start)}

    def getDefaultReadLimit(self) -> ReadLimit:
        """See `DataSourceStreamReader`."""
        return ReadMaxRows(self.spec.rows_per_epoch_max)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`; without changes there is one task, for the ticks.

        There is none where the stages behind make the ticks themselves. What they cannot know is
        whether the source has ended, so a task says that.
        """
        with redis_errors():
            work = [] if self._is_closed(end) else self.cuts(start, end)
        if not work and self.spec.is_quiet and "time" in end and not self.is_last(end):
            return []
        return [Task(part, each, end) for part, each in enumerate(work or [[]])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader`."""
        assert isinstance(partition, Task)
        time_ms = self.time_of(partition.end)
        rows = 0
        for cut in partition.cuts:
            for chunk in self._chunks(cut):
                rows += len(chunk.kinds)
                yield from self._wire.of(chunk, time_ms)
        yield self._wire.control(self._ticks(partition, rows), time_ms)

    def _chunks(self, cut: C) -> Iterator[Chunk]:
        with redis_errors():
            yield from self.read_cut(cut)

    def _is_closed(self, end: Offset) -> bool:
        """Whether the epoch that ends here was closed by a run before; if not, it has no changes.

        Spark asks once for each way that the rows go.
        """
        if self._closed is None:
            self._closed = place_in(self.closed())
        return bool(self._closed) and self._closed == place_in(end)

    @property
    def _tells_time(self) -> bool:
        """Whether the epoch's time is a column of the source."""
        return TIME in self.schema.names

    def _time(self, start: Offset) -> Offset:
        """The part of a new offset that says when it was made; time does not go back."""
        if not self._tells_time:
            return {}
        return {"time": max(int(start.get("time", 0)), time.time_ns() // 1_000_000)}

    def _tick(self, start: Offset) -> int:
        interval = self.spec.tick_interval_ms
        if not interval:
            return 0
        known, now = int(start["tick"]), int(time.time() * 1000) // interval
        # A clock that was set back a little does not take an offset back. Much further on is the
        # number of a shorter interval, which the clock would not reach for years.
        return now if known - now > max(1, _SET_BACK_MS // interval) else max(known, now)

    def _ticks(self, task: Task, rows: int) -> list[ControlRow]:
        end = None if task.part else task.end
        is_last = end is not None and self.is_last(end)
        note = to_note(SourceNote(self.spec.table, task.part, rows, end, is_last))
        ticks = [ControlRow(TICK, task.part % self.spec.partitions, note)]
        if task.part == 0:
            ticks += [ControlRow(TICK, each) for each in range(1, self.spec.partitions)]
        return ticks


def closed_end(spec: SourceSpec) -> Offset:
    """The end of a source's last closed epoch, as the marker has it; empty before the first.

    Raises:
        RedisError: Redis does not answer.
    """
    held = byte_client(redis_of(spec)).hget(slot_key(spec.pipeline, "marker"), "offsets")
    end: Offset = orjson.loads(held or b"{}").get(spec.table, {})
    return end


@contextlib.contextmanager
def redis_errors() -> Iterator[None]:
    """Errors of Redis in our words: Spark carries them on as text.

    Raises:
        SourceUnavailable: Redis does not answer, or refuses.
    """
    try:
        yield
    except redis.RedisError as error:
        raise SourceUnavailable(f"redis: {type(error).__name__}") from error


def exactly(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in exactly this type: Spark does not check what it is given."""
    return column if column.type == kind else column.cast(kind)
