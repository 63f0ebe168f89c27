"""What runs in Spark's Python workers: one partition of a keyed operator, one epoch at a time.

`OperatorTask` holds settings only and travels as JSON; the package must be installed where workers
run. What is cached here (the operators, the connections to Redis) lives as long as the worker
process, through many epochs and partitions.

An epoch in a partition: gather all its batches, set the control rows aside, sort the changes by
their order number, ask the ledger whether the epoch may run, run the operator on the state of the
epoch before, give its output and then the control rows with one more note, of statistics. Nothing
here reads a clock: time comes with the rows.

Errors of state leave as `WorkerError`, whose text starts with `[tailrace:<code>]`: Spark brings an
error to the service as text only.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.errors import OperatorError
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from operators.wire import (
    CONTROL_MINIMUM,
    CONTROL_NAMES,
    KEY_GROUP,
    KIND,
    NOTE,
    ORDER,
    TICK,
    TIME,
    ControlRow,
    OperatorNote,
    WorkerError,
    control_batch,
    field_name,
    to_note,
)
from state.backends.interface import EpochCheck, EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import ClientSettings, shared_transport
from state.epochs import EpochLedger
from state.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from state.backends.interface import Ledger, StateBackend


_CACHED_MAX = 64
"""Pipelines whose operators and connections a worker process keeps."""


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Where an operator's state is and which run of its pipeline this is."""

    pipeline: str
    operator: str
    run: int
    redis_url: str = field(repr=False)
    incarnation: str | None
    partitions: int
    max_parallelism: int
    version: str
    """Version of this package in the service; another one in the worker is refused."""
    connect_timeout_ms: int = 2_000
    """Of Redis, as is the next."""
    socket_timeout_ms: int = 30_000

    @property
    def redis(self) -> ClientSettings:
        """How to reach Redis."""
        return ClientSettings(self.redis_url, self.connect_timeout_ms, self.socket_timeout_ms)


@cache
def installed_version() -> str:
    """The version of this package in this process's environment."""
    return version("tailrace")


@dataclass(frozen=True, slots=True)
class OperatorTask:
    """An operator of one run of a pipeline, as its workers get it."""

    settings: TaskSettings
    spec: str
    """The materializer, as `MaterializerSpec.to_json` wrote it."""

    def run(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run one epoch of one partition; see `run_partition`."""
        return run_partition(self.settings, self.spec, epoch, batches)

    def to_json(self) -> str:
        """The text that `from_json` takes."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> OperatorTask:
        """Read what `to_json` wrote."""
        values = orjson.loads(text)
        return cls(TaskSettings(**values["settings"]), values["spec"])


def run_partition(
    settings: TaskSettings, spec_json: str, epoch: int, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Run an epoch of one partition of a materializer; Spark's part is left out.

    Args:
        settings: Where state is, and which run this is.
        spec_json: The materializer, as `MaterializerSpec.to_json` wrote it.
        epoch: Spark's batch id + 1.
        batches: The partition's rows: wire columns and `_kg`; order does not matter.

    Yields:
        Changes sorted by order number, then control rows.

    Raises:
        WorkerError: with the code of the state's error, or `version-mismatch`.
    """
    if settings.version != installed_version():
        raise WorkerError(
            "version-mismatch",
            f"service has {settings.version}, worker has {installed_version()}",
        )
    gathered = [each for each in batches if each.num_rows]
    if not gathered:
        return
    rows = pa.Table.from_batches(gathered).combine_chunks()
    schema = rows.schema.remove(rows.schema.get_field_index(KEY_GROUP))
    control = np.asarray(rows[KIND]) >= CONTROL_MINIMUM
    try:
        yield from _run(settings, spec_json, epoch, rows, control, schema)
    except (StateError, OperatorError) as error:
        raise WorkerError(error.code, str(error)) from error
    yield from rows.filter(pa.array(control)).select(schema.names).to_batches()


def _run(
    settings: TaskSettings,
    spec_json: str,
    epoch: int,
    rows: pa.Table,
    control: np.ndarray,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """The operator's output, if it has anything to do in this partition and epoch."""
    operator = _operator(spec_json)
    changes = rows.filter(pa.array(~control))
    key_groups = _key_groups(settings, operator, rows, changes, control)
    if not key_groups:
        return
    ledger, backend = _neighbours(settings.redis, settings.pipeline, settings.incarnation)
    if ledger.check(epoch) is EpochCheck.CLOSED:
        # Every sink has this epoch's rows; Spark only missed the note of it.
        return
    time_ms = int(pa.compute.max(rows[TIME]).as_py())
    stamp = EpochStamp(epoch=epoch, run=settings.run, time_ms=time_ms)
    transaction = backend.begin(settings.operator, stamp, key_groups)
    output = operator.run_epoch(
        _batch_of(changes), transaction, time_ms=time_ms, key_groups=key_groups
    )
    if len(output.batch):
        yield _output_batch(output.batch, schema, time_ms)
    part = key_groups[0] % settings.partitions
    statistics = {"rows_in": len(changes), "rows_out": len(output.batch), **output.statistics}
    note = to_note(OperatorNote(settings.operator, part, statistics))
    yield control_batch(schema, [ControlRow(TICK, part, note)], time_ms)


def _key_groups(
    settings: TaskSettings,
    operator: UpsertMaterializer,
    rows: pa.Table,
    changes: pa.Table,
    control: np.ndarray,
) -> list[int]:
    """The key groups that the epoch touches: those with changes, all of them if state expires."""
    if not operator.spec.ttl_ms:
        touched: list[int] = np.unique(np.asarray(changes[KEY_GROUP])).tolist()
        return touched
    ticks = np.asarray(rows[ORDER])[np.asarray(rows[KIND]) == TICK]
    parts = set((ticks % settings.partitions).tolist())
    parts |= set((np.asarray(changes[KEY_GROUP]) % settings.partitions).tolist())
    every = range(settings.max_parallelism)
    return [each for each in every if each % settings.partitions in parts]


def _batch_of(changes: pa.Table) -> ChangeBatch:
    names = [each for each in changes.schema.names if each not in (*CONTROL_NAMES, KEY_GROUP)]
    whole = changes.combine_chunks()
    return ChangeBatch(
        columns=tuple(_array(whole[name]) for name in names),
        kinds=np.asarray(whole[KIND], np.int8),
        order=np.asarray(whole[ORDER], np.int64),
        key_groups=np.asarray(whole[KEY_GROUP], np.int32),
    )


def _output_batch(batch: ChangeBatch, schema: pa.Schema, time_ms: int) -> pa.RecordBatch:
    """The changes in exactly the schema that Spark was told, which it does not check."""
    count = len(batch)
    own = {
        KIND: pa.array(batch.kinds, pa.int8()),
        ORDER: pa.array(batch.order, pa.int64()),
        NOTE: pa.nulls(count, pa.string()),
        TIME: pa.array(np.full(count, time_ms), pa.int64()),
    }
    own |= {field_name(at): column for at, column in enumerate(batch.columns)}
    columns = [
        own[each.name] if own[each.name].type == each.type else own[each.name].cast(each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@lru_cache(_CACHED_MAX)
def _operator(spec_json: str) -> UpsertMaterializer:
    """The operator; it keeps nothing between epochs, so one serves all partitions."""
    return UpsertMaterializer(MaterializerSpec.from_json(spec_json))


@lru_cache(_CACHED_MAX)
def _neighbours(
    settings: ClientSettings, pipeline: str, incarnation: str | None
) -> tuple[Ledger, StateBackend]:
    """The ledger and the state of a pipeline, connected once a process."""
    transport = shared_transport(settings, incarnation)
    return EpochLedger(transport, pipeline), RedisBackend(transport, pipeline)
