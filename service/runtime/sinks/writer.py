"""The one writer of a pipeline's query: the sinks' operators, their rows, the close of the epoch.

Its input is the union of all sinks' rows, each with the number of its sink in `_sink` and its
columns in a struct of that sink, and the control rows. `write` runs in a worker for each partition.
A sink with a materializer gets its rows by key group, and runs it on them here: a stage of its own
in Spark would bring every row through the JVM and into Python once more (docs/adr/0006). Then
`write` leaves each sink's rows in a place of their own (hidden files, staged keys) and says in its
message where. `commit` runs beside the driver, once Spark has every partition's message: it puts
files in place, then closes the epoch in one call that applies everything else and moves the
marker.

An epoch may come twice, after a crash between the close and Spark's own record. Then the ledger
says so, operators emit nothing, and what rows of stateless parts came again are discarded here.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.columnar import is_ascending
from operators.wire import (
    CONTROL_MINIMUM,
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
    from collections.abc import Iterator

    from service.runtime.sinks.spec import SinkSpec, WriterSpec

SINK = "_sink"
BESIDE = (*CONTROL_NAMES, KEY_GROUP)
"""Columns that are not of the row."""


def write_part(
    spec: WriterSpec, epoch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> PartMessage:
    """The work of one writer task; Spark's part is left out.

    Raises:
        SinkRefused: a change of a kind that its sink does not take.
        WorkerError: as a sink's operator raises.
    """
    message = PartMessage()
    gathered = [each for each in batches if each.num_rows]
    if not gathered:
        return message
    rows = pa.Table.from_batches(gathered).combine_chunks()
    place = (epoch, partition, uuid.uuid4().hex)
    controls: list[pa.Table] = []
    for number, mine in _by_sink(rows, len(spec.sinks)):
        done = _operated(spec.sinks[number], epoch, mine)
        control = np.asarray(done[KIND]) >= CONTROL_MINIMUM
        controls.append(done.filter(pa.array(control)).select(CONTROL_NAMES))
        changes = done.filter(pa.array(~control)) if control.any() else done
        if changes.num_rows:
            _write_sink(message, spec, number, changes, place)
    _read_control(message, pa.concat_tables(controls), spec.dead_letters_max)
    return message


def _by_sink(rows: pa.Table, count: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each sink that has any, as wire columns."""
    sinks = np.asarray(rows[SINK])
    for number in range(count):
        chosen = sinks == number
        if chosen.any():
            yield (
                number,
                _wire_table(rows if chosen.all() else rows.filter(pa.array(chosen)), number),
            )


def _wire_table(rows: pa.Table, number: int) -> pa.Table:
    """A sink's rows, taken out of their struct."""
    columns = rows[input_column(number)].combine_chunks().flatten()
    named = {field_name(at): column for at, column in enumerate(columns)}
    beside = [each for each in BESIDE if each in rows.column_names]
    return pa.table({**named, **{each: rows[each] for each in beside}})


def _operated(sink: SinkSpec, epoch: int, rows: pa.Table) -> pa.Table:
    """What comes out of the sink's operator; the rows themselves if there is none."""
    if not sink.operator:
        return rows
    output = list(OperatorTask.from_json(sink.operator).run(epoch, iter(rows.to_batches())))
    return pa.Table.from_batches(output, rows.schema.remove(rows.schema.get_field_index(KEY_GROUP)))


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
