"""The one writer of a pipeline's query: every sink's rows, and the close of the epoch.

Its input is the union of all sinks' rows, each with the number of its sink in `_sink` and its
columns in a struct of that sink, and the control rows. `write` runs in a worker for each partition:
it leaves each sink's rows in a place of their own (hidden files, staged keys) and says in its
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

from operators.wire import CONTROL_MINIMUM, DEAD_LETTER, KIND, NOTE, ORDER, TIME
from service.runtime.sinks.message import PartMessage
from service.runtime.sinks.rows import accepted, take
from service.runtime.sinks.tables import open_sink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.sinks.spec import WriterSpec

SINK = "_sink"


def sink_column(number: int) -> str:
    """The writer's column with the rows of a sink, a struct of f0..fn."""
    return f"s{number}"


def write_part(
    spec: WriterSpec, epoch: int, partition: int, batches: Iterator[pa.RecordBatch]
) -> PartMessage:
    """The work of one writer task; Spark's part is left out.

    Raises:
        SinkRefused: a change of a kind that its sink does not take.
    """
    message = PartMessage()
    gathered = [each for each in batches if each.num_rows]
    if not gathered:
        return message
    rows = pa.Table.from_batches(gathered).combine_chunks()
    kinds = np.asarray(rows[KIND])
    control = kinds >= CONTROL_MINIMUM
    _read_control(message, rows.filter(pa.array(control)), spec.dead_letters_max)
    changes = rows.filter(pa.array(~control)) if control.any() else rows
    if not changes.num_rows:
        return message
    sinks = np.asarray(changes[SINK])
    attempt = uuid.uuid4().hex
    for number in np.unique(sinks).tolist():
        mine = changes if len(spec.sinks) == 1 else changes.filter(pa.array(sinks == number))
        _write_sink(message, spec, number, mine, (epoch, partition, attempt))
    return message


def _write_sink(
    message: PartMessage,
    spec: WriterSpec,
    number: int,
    changes: pa.Table,
    place: tuple[int, int, str],
) -> None:
    """Stage the rows of one sink in order, as far as it takes them."""
    sink = spec.sinks[number]
    order = np.asarray(changes[ORDER])
    kinds = np.asarray(changes[KIND])
    columns = changes[sink_column(number)].combine_chunks().flatten()
    if not (order[1:] >= order[:-1]).all():
        positions = np.argsort(order, kind="stable")
        columns, kinds = take(columns, positions), kinds[positions]
    keep = accepted(sink, kinds)
    if keep is not None:
        columns, kinds = [each.filter(pa.array(keep)) for each in columns], kinds[keep]
    if len(kinds):
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
