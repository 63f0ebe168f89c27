"""Epochs in which the only source of a query has nothing: Spark starts no task to read it.

Then the first stage of Python workers gets no rows. It makes the ticks that the source would have
sent, out of Spark's own record of the epoch: `offsets/<batch>` in the checkpoint, which is written
before a task of the epoch begins and is what the epoch is run again by. So every attempt gets the
same ticks, and operators find the time and their key groups as in any epoch.

Only where it is certain who makes which tick: one source of ours, one sink (docs/adr/0015). Where
ticks have a source of their own the writer has one task in such an epoch, and nothing due
(`ticks_apart`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from operators.wire import (
    CONTROL_FIELDS,
    INPUT,
    KEY_GROUP,
    KIND,
    NOTE,
    ORDER,
    TICK,
    TIME,
    SourceNote,
    field_name,
    input_column,
    to_note,
)
from operators.worker import OperatorTask
from service.runtime.dataflow_errors import SourceChanged, SourceUnavailable
from service.runtime.planned_offsets import are_ticks_apart, recorded_ends
from service.runtime.sinks.message import PartMessage
from service.runtime.sinks.writer import SINK, write_part
from state.types import arrow_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from service.runtime.sinks.spec import SinkSpec, WriterSpec

_PART = "quiet"
"""Stands for a task's number in the source's note: no task read."""
_OWN = dict(CONTROL_FIELDS) | {KEY_GROUP: pa.int32()}


@dataclass(frozen=True, slots=True)
class QuietSource:
    """The only source of a query, as its stages know it."""

    table: str
    """Its name in notes and offsets."""
    checkpoint: str
    """Folder of the query's checkpoint, as workers see it."""
    has_ticks_apart: bool = False
    """Whether a source of their own, behind this one, tells of ticks (`ticks_apart`)."""

    def tick(self, epoch: int, partition: int) -> dict[str, Any]:
        """The control columns of the tick that a partition gets in an epoch without changes.

        Raises:
            SourceUnavailable: Spark's record of the epoch cannot be read.
            SourceChanged: It is not the one that a query of one source has.
        """
        end = planned_end(self.checkpoint, epoch, has_ticks_apart=self.has_ticks_apart)
        note = to_note(SourceNote(self.table, _PART, 0, end))
        return {KIND: TICK, ORDER: partition, NOTE: note, TIME: int(end["time"])}


def planned_end(checkpoint: str, epoch: int, *, has_ticks_apart: bool = False) -> Mapping[str, Any]:
    """Where the only source of an epoch was to be read to, as Spark wrote it down.

    Its time is that of the epoch, in which nothing of it is read: of the ticks, if they are apart.

    Raises:
        SourceUnavailable: The file cannot be read.
        SourceChanged: It is of another form, or tells no time.
    """
    try:
        text = Path(checkpoint, "offsets", str(epoch - 1)).read_text("utf-8")
    except OSError as error:
        raise SourceUnavailable(
            f"the checkpoint of epoch {epoch} cannot be read by Spark's workers "
            f"({error.strerror}); they must see the folder of checkpoints, as its server does"
        ) from error
    ends = recorded_ends(text)
    if has_ticks_apart and are_ticks_apart(ends):
        return {**ends[0], "time": ends[1]["time"]}
    # A source whose rows go several ways is one stream, and has a line for each way.
    is_single = bool(ends) and all(each == ends[0] for each in ends)
    if is_single and not has_ticks_apart and "time" in ends[0]:
        return ends[0]
    raise SourceChanged(f"the checkpoint of epoch {epoch} is not one of a single source of ours")


def with_ticks(
    batches: Iterable[pa.RecordBatch], tick: Callable[[], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The batches, or a tick if there is no row: a source that is read sends one in any case."""
    is_quiet = True
    for batch in batches:
        is_quiet = is_quiet and not batch.num_rows
        yield batch
    if is_quiet:
        yield tick()


def operator_batches(
    source: QuietSource,
    inputs: Sequence[Sequence[str]],
    epoch: int,
    partition: int,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """What an operator that is a stage of its own gets.

    Args:
        source: The query's only one.
        inputs: Types of the columns of each of the operator's inputs, as a plan writes them.
        epoch: Which one.
        partition: Number of the partition.
        batches: What Spark gives.
    """

    def tick() -> pa.RecordBatch:
        control = source.tick(epoch, partition)
        if len(inputs) == 1:
            return _batch(control, _columns(inputs[0]))
        sides = [
            pa.field(input_column(at), pa.struct(_columns(each))) for at, each in enumerate(inputs)
        ]
        return _batch({INPUT: 0, **control}, [pa.field(INPUT, pa.int8()), *sides])

    return with_ticks(batches, tick)


def writer_batches(
    spec: WriterSpec, epoch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What the writer of one sink gets, as `operator_batches`."""
    if not spec.quiet_source:
        return batches

    def tick() -> pa.RecordBatch:
        control = _source_of(spec).tick(epoch, partition)
        row = pa.field(input_column(0), pa.struct(_columns(spec.sinks[0].types)))
        return _batch({SINK: 0, **control}, [pa.field(SINK, pa.int32()), row])

    return with_ticks(batches, tick)


def written_part(
    spec: WriterSpec, epoch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> PartMessage:
    """The work of one writer task, as `write_part`, in quiet epochs too.

    Most of those have nothing due: then a tick through all of the writer would come out as the
    same message, and cost two fifths of what the task does in Python.
    """
    if spec.quiet_source:
        first = next((each for each in batches if each.num_rows), None)
        if first is None and not _has_due(spec.sinks[0]):
            tick = _source_of(spec).tick(epoch, partition)
            return PartMessage(notes=[tick[NOTE]], time_ms=tick[TIME])
        rows = batches if first is None else chain([first], batches)
        batches = writer_batches(spec, epoch, partition, rows)
    return write_part(spec, epoch, partition, batches)


def _source_of(spec: WriterSpec) -> QuietSource:
    return QuietSource(spec.quiet_source, spec.checkpoint, spec.has_ticks_apart)


def _has_due(sink: SinkSpec) -> bool:
    """Whether a sink's operator may have work in an epoch without changes."""
    return bool(sink.operator) and OperatorTask.from_json(sink.operator).uses_every_epoch


def _columns(types: Sequence[str]) -> list[pa.Field]:
    return [pa.field(field_name(at), arrow_type(parse_type(each))) for at, each in enumerate(types)]


def _batch(values: Mapping[str, Any], fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """One row: these values, and null in every other column."""
    schema = pa.schema([*fields, *(pa.field(name, kind) for name, kind in _OWN.items())])
    columns = [pa.array([values.get(each.name)], each.type) for each in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
