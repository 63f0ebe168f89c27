"""The one writer of a pipeline's query: the sinks' operators, their rows, the close of the epoch.

Its input is the union of all sinks' rows, each with the number of its sink in `_sink` and its
columns in a struct of that sink, and the control rows; of a single sink the plain wire columns.
`write` runs in a worker for each partition. A sink with a materializer gets its rows by key group,
and runs it on them here: a stage of its own in Spark would bring every row through the JVM and into
Python once more (docs/adr/0006). Then `write` leaves each sink's rows in a place of their own
(hidden files, staged keys) and says in its message where. `commit` runs beside the driver, once
Spark has every partition's message: it puts files in place, then closes the epoch in one call that
applies everything else and moves the marker.

An epoch may come twice, after a crash between the close and Spark's own record. Then the ledger
says so, operators emit nothing, and what rows of stateless parts came again are discarded here.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.codes import is_ascending
from operators.gathering import gather
from operators.wire import (
    CONTROL_FIELDS,
    CONTROL_NAMES,
    DEAD_LETTER,
    KEY_GROUP,
    KIND,
    NOTE,
    ORDER,
    SEQUENCE,
    TIME,
    field_name,
    input_column,
)
from operators.worker import OperatorTask
from service.runtime.sinks.message import PartMessage
from service.runtime.sinks.rows import check_kinds, take
from service.runtime.sinks.tables import open_sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from service.runtime.sinks.spec import SinkSpec, WriterSpec

SINK = "_sink"
BESIDE = (*CONTROL_NAMES, KEY_GROUP)
"""Columns that are not of the row."""
_CONTROL = pa.schema(CONTROL_FIELDS)


def write_part(
    spec: WriterSpec, epoch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> PartMessage:
    """The work of one writer task; Spark's part is left out.

    Raises:
        SinkRefused: a change of a kind that its sink does not take.
        WorkerError: as a sink's operator raises.
    """
    message = PartMessage()
    place = (epoch, partition, uuid.uuid4().hex)
    controls: list[pa.Table] = []
    for number, mine in enumerate(_by_sink(batches, len(spec.sinks))):
        done = gather(_operated(spec.sinks[number], epoch, mine))
        if done is None:
            continue
        controls.append(done.control.select(CONTROL_NAMES).cast(_CONTROL))
        if done.changes.num_rows:
            _write_sink(message, spec, number, done.changes, place)
    if controls:
        _read_control(message, pa.concat_tables(controls), spec.dead_letters_max)
    return message


def _by_sink(batches: Iterable[pa.RecordBatch], count: int) -> list[list[pa.RecordBatch]]:
    """The rows of each sink as wire columns; taken apart while Spark still sends more."""
    found: list[list[pa.RecordBatch]] = [[] for _ in range(count)]
    for batch in batches:
        if SINK not in batch.schema.names:
            found[0].append(batch)
            continue
        sinks = np.asarray(batch.column(SINK))
        for number, mine in enumerate(found):
            chosen = sinks == number
            if chosen.all():
                mine.append(_wire_batch(batch, number))
            elif chosen.any():
                mine.append(_wire_batch(batch.filter(pa.array(chosen)), number))
    return found


def _wire_batch(rows: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """A sink's rows, taken out of their struct."""
    columns = rows.column(input_column(number)).flatten()
    named = {field_name(at): column for at, column in enumerate(columns)}
    beside = [each for each in BESIDE if each in rows.schema.names]
    return pa.record_batch({**named, **{each: rows.column(each) for each in beside}})


def _operated(
    sink: SinkSpec, epoch: int, rows: Sequence[pa.RecordBatch]
) -> Iterable[pa.RecordBatch]:
    """What comes out of the sink's operator; the rows themselves if there is none."""
    if not sink.operator or not rows:
        return rows
    return OperatorTask.from_json(sink.operator).run(epoch, iter(rows))


def _write_sink(
    message: PartMessage,
    spec: WriterSpec,
    number: int,
    changes: pa.Table,
    place: tuple[int, int, str],
) -> None:
    """Stage the rows of one sink in order, as far as it takes them."""
    sink = spec.sinks[number]
    order, sequence = (np.asarray(changes[each]) for each in (ORDER, SEQUENCE))
    kinds = np.asarray(changes[KIND])
    whole = changes.drop_columns([each for each in BESIDE if each in changes.column_names])
    columns = [each.combine_chunks() for each in whole.columns]
    if sequence.any() or not is_ascending(order):
        positions = np.lexsort((sequence, order))
        columns, kinds = take(columns, positions), kinds[positions]
    check_kinds(sink, kinds)
    target = open_sink(spec, number)
    message.staged[number] = target.stage(*place, columns, kinds)
    message.rows[number] = len(kinds)


def _read_control(message: PartMessage, control: pa.Table, dead_letters_max: int) -> None:
    """Notes and dead letters of a partition."""
    if not control.num_rows:
        return
    message.time_ms = int(pa.compute.max(control[TIME]).as_py() or 0)
    kinds = np.asarray(control[KIND])
    dead = control.filter(pa.array(kinds == DEAD_LETTER)).select([ORDER, NOTE])
    message.dead_count = dead.num_rows
    newest = dead.sort_by(ORDER).slice(max(0, dead.num_rows - dead_letters_max))
    message.dead = list(zip(newest[ORDER].to_pylist(), newest[NOTE].to_pylist(), strict=True))
    noted = control.filter(pa.array(kinds != DEAD_LETTER))[NOTE].drop_null()
    message.notes = noted.to_pylist()
