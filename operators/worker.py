"""What runs in Spark's Python workers: one partition of a keyed operator, one epoch at a time.

`OperatorTask` holds settings only and travels as JSON; the package must be installed where workers
run. What is cached here (the operators, the connections to Redis) lives as long as the worker
process, through many epochs and partitions.

An epoch in a partition: gather all its batches, set the control rows aside, put the changes in
their order (`operators.gathering`), ask the ledger whether the epoch may run, run the operator on
the state of the epoch before, give its output and then the control rows with one more note, of
statistics. Nothing here reads a clock: time comes with the rows.

Errors of state leave as `WorkerError`, whose text starts with `[tailrace:<code>]`: Spark brings an
error to the service as text only.
"""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.errors import NoRoom, OperatorError
from operators.gathering import Gathered, gather
from operators.keyed import WATERMARK_MIN, EpochTimes, held_back
from operators.kinds import epoch_operator
from operators.wire import (
    CONTROL_NAMES,
    DEAD_LETTER,
    INPUT,
    KEY_GROUP,
    KIND,
    LEAST,
    NOTE,
    ORDER,
    PLACE_BITS,
    SEQUENCE,
    TICK,
    TIME,
    WATERMARKS,
    ControlRow,
    OperatorNote,
    WorkerError,
    control_batch,
    dead_letter_note,
    field_name,
    input_column,
    time_behind,
    to_note,
    together,
    wire_schema,
)
from state.backends.interface import EpochCheck, EpochStamp
from state.backends.redis import RedisBackend
from state.backends.rules import check_epoch
from state.backends.transport import ClientSettings, shared_transport
from state.epochs import EpochLedger
from state.errors import OperatorFailed, StateError
from state.key_groups import key_group
from state.multiset.vectors import distinct
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from operators.kinds import EpochOperator
    from state.backends.interface import Ledger, StateBackend


_PER_CAUSE = 1 << 12
"""Emissions of one change that have sequence numbers by their cause."""
_UNPLACED = 1 << PLACE_BITS
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
    """What it is to do, as `MaterializerSpec.to_json` or `OperatorSpec.to_json` wrote it."""
    assigners: tuple[tuple[tuple[str, int], ...], ...] = ()
    """By input: the watermark assigners that its event time comes from, each with how far its
    watermark is held back, in ms; none: it has no event time."""
    place_bits: int = PLACE_BITS
    """Of the places of what it emits; what correlates put behind them needs the others."""

    def run(self, epoch: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run an epoch of one partition; Spark's part is left out.

        Args:
            epoch: Spark's batch id + 1.
            batches: The partition's rows: wire columns and `_kg`; where the operator has several
                inputs, `_input` and a struct of columns for each. Their order does not matter.

        Yields:
            Changes sorted by order number, then control rows.

        Raises:
            WorkerError: With the code of the state's error, or `version-mismatch`.
        """
        self._check_version()
        rows = gather(batches)
        if rows is None:
            return
        try:
            yield from _PartitionEpoch(self, epoch, rows).run()
        except OperatorFailed as error:
            # What an operator raised may hold values of rows: its words stay here.
            raise _told(error) from None
        except (StateError, OperatorError) as error:
            raise WorkerError(error.code, _hinted(error, self._where(error, epoch))) from None

    @property
    def uses_every_epoch(self) -> bool:
        """Whether time alone may give the operator work, in an epoch without changes.

        Raises:
            WorkerError: `version-mismatch`.
        """
        self._check_version()
        return _operator(self.spec, self.settings.operator).uses_every_epoch

    def _check_version(self) -> None:
        wanted = self.settings.version
        if wanted != installed_version():
            raise WorkerError(
                "version-mismatch", f"service has {wanted}, worker has {installed_version()}"
            )

    def _where(self, error: Exception, epoch: int) -> str:
        """Where an error happened: what the controller told, or else what is known here."""
        told = error.where if isinstance(error, StateError) else ""
        return f"in {told or f'node {self.settings.operator}, epoch {epoch}'}"

    def to_json(self) -> str:
        """The text that `from_json` takes."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> OperatorTask:
        """Read what `to_json` wrote."""
        values = orjson.loads(text)
        assigners = tuple(
            tuple((name, held_ms) for name, held_ms in each) for each in values["assigners"]
        )
        settings = TaskSettings(**values["settings"])
        return cls(settings, values["spec"], assigners, values["place_bits"])


def _hinted(error: Exception, where: str) -> str:
    """What happened, where, and what to do if the error says it."""
    hint = getattr(error, "hint", "")
    return f"{error} ({where}); {hint}" if hint else f"{error} ({where})"


def _told(error: OperatorFailed) -> WorkerError:
    """An operator's failure: our own words for it, or else where in the code it was raised."""
    cause = error.__cause__
    if isinstance(cause, OperatorError):
        return WorkerError(cause.code, _hinted(cause, str(error)))
    frames = traceback.extract_tb(cause.__traceback__) if cause else []
    place = f", at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return WorkerError(error.code, f"{error}{place}")


class _PartitionEpoch:
    """One epoch in one partition."""

    def __init__(self, task: OperatorTask, epoch: int, rows: Gathered) -> None:
        self._task = task
        self._settings = task.settings
        self._epoch = epoch
        self._rows = rows.changes
        self._control = rows.control
        self._operator = _operator(task.spec, task.settings.operator)
        self._schema = wire_schema([arrow_type(each) for each in self._operator.output_types])

    def run(self) -> Iterator[pa.RecordBatch]:
        """The operator's output, if it has anything to do here, and the control rows."""
        yield from self._changes()
        control = self._control
        if control.num_rows:
            columns = [
                control[each.name].combine_chunks()
                if each.name in CONTROL_NAMES
                else pa.nulls(control.num_rows, each.type)
                for each in self._schema
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _changes(self) -> Iterator[pa.RecordBatch]:
        settings, changes = self._settings, self._rows
        total_group = self._total_group(changes)
        key_groups = self._key_groups(changes, total_group)
        if not key_groups:
            return
        ledger, backend = _neighbours(settings.redis, settings.pipeline, settings.incarnation)
        marker = ledger.marker()
        if check_epoch(marker, self._epoch) is EpochCheck.CLOSED:
            # Every sink has this epoch's rows; Spark only missed the note of it.
            return
        times = (pa.compute.max(each[TIME]).as_py() for each in (changes, self._control))
        time_ms = time_behind(marker.offsets, max(each for each in times if each is not None))
        stamp = EpochStamp(epoch=self._epoch, run=settings.run, time_ms=time_ms)
        places = Places.of(changes)
        output = self._operator.run_epoch(
            self._batches(changes, places),
            backend.begin(settings.operator, stamp, key_groups),
            epoch=self._epoch,
            times=epoch_times(time_ms, marker.offsets, self._task.assigners),
            key_groups=key_groups,
            total_group=total_group,
        )
        part = key_groups[0] % settings.partitions
        if len(output.batch):
            order, sequence = places.of_emissions(
                output.batch.order, part, settings.partitions, self._task.place_bits
            )
            yield self._output(output.batch, order, sequence, time_ms)
        statistics = {"rows_in": len(changes), "rows_out": len(output.batch), **output.statistics}
        note = to_note(OperatorNote(settings.operator, part, statistics))
        letters = [
            ControlRow(
                DEAD_LETTER,
                each.order,
                dead_letter_note(settings.operator, f"key {each.key.decode()}", each.reason),
            )
            for each in output.set_aside
        ]
        yield control_batch(self._schema, [ControlRow(TICK, part, note), *letters], time_ms)

    def _key_groups(self, changes: pa.Table, total_group: int | None) -> list[int]:
        """The key groups that the epoch touches: those with changes, or all where time has work."""
        touched: list[int] = distinct(np.asarray(changes[KEY_GROUP])).tolist()
        if not self._operator.uses_every_epoch:
            return touched if total_group is None else sorted({*touched, total_group})
        parts = self._parts(touched)
        every = range(self._settings.max_parallelism)
        return [each for each in every if each % self._settings.partitions in parts]

    def _total_group(self, changes: pa.Table) -> int | None:
        """The key group of the operator's total, if it has one and this is its partition."""
        if not self._operator.has_total:
            return None
        found = key_group((), (), self._settings.max_parallelism)
        parts = self._parts(np.asarray(changes[KEY_GROUP]).tolist())
        return found if found % self._settings.partitions in parts else None

    def _parts(self, touched: Sequence[int]) -> set[int]:
        """The partitions that rows of this one are for: itself, as its ticks and changes say."""
        partitions = self._settings.partitions
        ticks = np.asarray(self._control[ORDER])[np.asarray(self._control[KIND]) == TICK]
        return {*(ticks % partitions).tolist(), *(each % partitions for each in touched)}

    def _batches(self, changes: pa.Table, places: Places) -> list[ChangeBatch]:
        if INPUT not in changes.column_names:
            return [_batch_of(changes, places.ranks)]
        number = np.asarray(changes[INPUT])
        found = []
        for at in range(self._operator.input_count):
            chosen = number == at
            mine = changes.filter(pa.array(chosen)).combine_chunks()
            fields = _array(mine[input_column(at)]).flatten()
            named = {field_name(place): each for place, each in enumerate(fields)}
            beside = {name: mine[name] for name in (KIND, KEY_GROUP)}
            found.append(_batch_of(pa.table({**named, **beside}), places.ranks[chosen]))
        return found

    def _output(
        self,
        batch: ChangeBatch,
        order: NDArray[np.int64],
        sequence: NDArray[np.int64],
        time_ms: int,
    ) -> pa.RecordBatch:
        """The changes in exactly the schema that Spark was told, which it does not check."""
        count = len(batch)
        own = {
            KIND: pa.array(batch.kinds, pa.int8()),
            ORDER: pa.array(order, pa.int64()),
            NOTE: pa.nulls(count, pa.string()),
            TIME: pa.array(np.full(count, time_ms), pa.int64()),
            SEQUENCE: pa.array(sequence, pa.int64()),
        }
        own |= {field_name(at): column for at, column in enumerate(batch.columns)}
        columns = [
            own[each.name] if own[each.name].type == each.type else own[each.name].cast(each.type)
            for each in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


@dataclass(frozen=True, slots=True)
class Places:
    """Where changes stand in their epoch: by order number, then by sequence."""

    ranks: NDArray[np.int64]
    """Of each row: its place among the rows; rows of equal numbers as they came."""
    orders: NDArray[np.int64]
    """Order number by rank."""
    sequences: NDArray[np.int64]
    """Sequence number by rank."""

    @classmethod
    def of(cls, changes: pa.Table) -> Places:
        """The places of a partition's changes."""
        order = np.asarray(changes[ORDER], np.int64)
        sequence = np.asarray(pa.compute.fill_null(changes[SEQUENCE], 0), np.int64)
        rises, stays = order[1:] > order[:-1], order[1:] == order[:-1]
        if (rises | stays & (sequence[1:] >= sequence[:-1])).all():
            return cls(np.arange(len(order)), order, sequence)
        by_place = np.lexsort((sequence, order))
        ranks = np.empty(len(order), np.int64)
        ranks[by_place] = np.arange(len(order))
        return cls(ranks, order[by_place], sequence[by_place])

    def of_emissions(
        self, causes: NDArray[np.int64], part: int, partitions: int, bits: int = PLACE_BITS
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Order and sequence numbers of what was emitted, by order.

        Args:
            causes: Rank of the change that caused each, ascending; below 0 or behind the last: a
                timer, or what expired.
            part: The partition: sequence numbers of two never meet.
            partitions: How many there are.
            bits: Of the sequence numbers, without the one that says that there is no cause.

        Raises:
            NoRoom: There are not as many numbers.

        A sequence number is that of the cause, and which of its emissions this is: so the order of
        what comes of one change does not depend on where its parts were processed. Only where a
        change has too many emissions, and for timers, it goes by the place in the partition.
        """
        count = len(self.orders)
        at = np.arange(len(causes))
        if len(causes) == count and not self.sequences.any() and np.array_equal(causes, at):
            # Each change emitted once, which is what most epochs of a sink's operator are.
            return self.orders, self.sequences
        if len(at) * partitions > 1 << bits:
            raise NoRoom(
                f"{len(at)} changes of an epoch in one of {partitions} partitions are more than "
                "can be told apart behind UNNEST; lower rows_per_epoch_max"
            )
        unplaced = _UNPLACED | (at * partitions + part)
        if not count:
            return causes.astype(np.int64), unplaced
        cause = np.clip(causes, 0, count - 1)
        order = np.where(causes < 0, self.orders[0] - 1, self.orders[cause])
        order = np.where(causes >= count, self.orders[-1] + 1, order)
        number = at - np.searchsorted(causes, causes)
        before = self.sequences[cause]
        is_placed = (causes >= 0) & (causes < count)
        is_placed &= (number < _PER_CAUSE) & (before < (1 << bits - 1) // _PER_CAUSE)
        return order, np.where(is_placed, before * _PER_CAUSE + number, unplaced)


def epoch_times(
    time_ms: int, offsets: str, assigners: Sequence[Sequence[tuple[str, int]]]
) -> EpochTimes:
    """The times of an epoch of one operator, out of what the epoch before left.

    Args:
        time_ms: Processing time.
        offsets: The marker's, with the watermarks that were reached (`operators.wire.WATERMARKS`).
        assigners: As `OperatorTask` has them.
    """
    if not assigners or not all(assigners):
        return EpochTimes(time_ms)
    told = orjson.loads(offsets or "{}")
    least = told.get(LEAST, {}).get(together(assigners))
    if least is not None:
        return EpochTimes(time_ms, *least)
    reached = told.get(WATERMARKS, {})
    pairs = [
        [held_back(each, held_ms) for each in reached.get(name, [WATERMARK_MIN, WATERMARK_MIN])]
        for of_input in assigners
        for name, held_ms in of_input
    ]
    return EpochTimes(time_ms, min(now for now, _ in pairs), min(after for _, after in pairs))


def _batch_of(changes: pa.Table, ranks: NDArray[np.int64]) -> ChangeBatch:
    beside = (*CONTROL_NAMES, KEY_GROUP)
    whole = changes.combine_chunks()
    return ChangeBatch(
        columns=tuple(_array(whole[name]) for name in whole.column_names if name not in beside),
        kinds=np.asarray(whole[KIND], np.int8),
        order=ranks,
        key_groups=np.asarray(whole[KEY_GROUP], np.int32),
    )


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@lru_cache(_CACHED_MAX)
def _operator(spec_json: str, node: str) -> EpochOperator:
    """The operator; between epochs it keeps nothing but caches, so one serves all partitions."""
    return epoch_operator(spec_json, node)


@lru_cache(_CACHED_MAX)
def _neighbours(
    settings: ClientSettings, pipeline: str, incarnation: str | None
) -> tuple[Ledger, StateBackend]:
    """The ledger and the state of a pipeline, connected once a process."""
    transport = shared_transport(settings, incarnation)
    return EpochLedger(transport, pipeline), RedisBackend(transport, pipeline)
