"""Runs a source reader as Spark would, epoch by epoch, without Spark."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.datasource import ReadMaxRows

from operators.wire import DEAD_LETTER, KIND, NOTE, ORDER, TICK, TIME
from service.runtime.sources.data_source import reader_class
from service.runtime.sources.spec import SourceSpec
from service.runtime.wire_columns import wire_struct
from state.types import parse_type

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    import redis

    from service.runtime.sources.base import ChangeReader


def url_of(client: redis.Redis) -> str:
    """The address of a client's server."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


def make_reader(
    client: redis.Redis,
    root: Path | str = "",
    columns: dict[str, str] | None = None,
    connector: str = "filesystem",
    *,
    tells_time: bool = False,
    **changes: Any,
) -> ChangeReader:
    """A reader of a table `t` of pipeline `p`; options are those of the table."""
    columns = columns or {"id": "INT", "k": "STRING"}
    values: dict[str, Any] = {
        "connector": connector,
        "table": "t",
        "pipeline": "p",
        "redis_url": url_of(client),
        "names": tuple(columns),
        "types": tuple(columns.values()),
        "physical": tuple(columns.items()),
        "files_root": str(root),
        "partitions": 2,
    }
    spec = SourceSpec.from_json(SourceSpec(**{**values, **changes}).to_json())
    control = [KIND, ORDER, NOTE]
    if tells_time or "testing.epochs" in spec.options:
        control.append(TIME)
    schema = wire_struct([parse_type(each) for each in spec.given], control)
    return reader_class(connector)(spec, schema)


@dataclass
class Epoch:
    """What a source gave for one epoch."""

    end: dict[str, Any]
    tasks: int = 0
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    """(kind, columns...) by order."""
    orders: list[int] = field(default_factory=list)
    ticks: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    times: set[int] = field(default_factory=set)


def read_epoch(reader: ChangeReader, start: dict[str, Any], end: dict[str, Any]) -> Epoch:
    """All rows between two offsets."""
    epoch = Epoch(end)
    found = []
    for task in reader.partitions(start, end):
        epoch.tasks += 1
        copy = pickle.loads(pickle.dumps((reader, task)))
        for batch in copy[0].read(copy[1]):
            _sort(epoch, batch, found)
    found.sort()
    epoch.orders = [order for order, _ in found]
    epoch.rows = [row for _, row in found]
    return epoch


def read_all(reader: ChangeReader, rows_max: int = 1_000_000) -> list[Epoch]:
    """Epochs until nothing is new, as after a start."""
    epochs, start = [], reader.initialOffset()
    while (end := reader.latestOffset(start, ReadMaxRows(rows_max))) != start:
        epochs.append(read_epoch(reader, start, end))
        start = end
    return epochs


def _sort(epoch: Epoch, batch: pa.RecordBatch, found: list[Any]) -> None:
    for row in batch.to_pylist():
        values = tuple(value for name, value in row.items() if name[0] == "f")
        if TIME in row:
            epoch.times.add(row[TIME])
        match row[KIND]:
            case kind if kind < TICK:
                found.append((row[ORDER], (kind, *values)))
            case kind if kind == DEAD_LETTER:
                epoch.dead.append(row[NOTE])
            case _ if row[NOTE]:
                epoch.notes.append(row[NOTE])
                epoch.ticks.append(row[ORDER])
            case _:
                epoch.ticks.append(row[ORDER])
