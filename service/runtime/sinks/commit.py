"""Closing an epoch beside the driver: files, databases, topics, then everything else in one call.

Files come first, so that an epoch that counts as closed always has its files. If this process dies
in between, the epoch runs again and its files replace those of the first try. Tables of databases,
and Kafka's topics, come first as well; they note the epoch beside its rows, so that it is not
written twice.

How long all that took is noted last, beside the epoch's record, which is closed by then: a figure
that may be lost, so Redis is told and nobody waits until its file is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from operators.keyed import WATERMARK_MAX, WATERMARK_MIN, held_back
from operators.wire import (
    ENDED,
    EPOCH_TIME,
    LEAST,
    SEEN,
    WATERMARKS,
    NoteSum,
    WorkerError,
    merged_offsets,
    time_behind,
    together,
)
from service.runtime.errors import with_hint
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.ledgers import ledger_of, transport_of
from service.runtime.planned_offsets import check_epoch_read, place_in
from service.runtime.sinks import disk
from service.runtime.sinks.filesystem import FileSink
from service.runtime.sinks.tables import STAGED_CONNECTORS, open_sink, sinks_by_folder
from service.runtime.sinks.written import EpochInput
from service.runtime.slot_keys import (
    CLOSES_NAME,
    DEAD_COUNT_NAME,
    DEAD_NAME,
    PROGRESS_NAME,
    TOTALS_NAME,
    slot_key,
)
from state.backends.interface import (
    ApplyStaged,
    CounterAdd,
    EpochCheck,
    EpochStamp,
    HashAdd,
    StreamAppend,
)
from state.backends.rules import check_epoch, offsets_json
from state.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.runtime.sinks.message import PartMessage
    from service.runtime.sinks.spec import WriterSpec
    from state.backends.interface import Effect, Ledger
    from state.backends.transport import Ahead, RedisTransport


@dataclass
class EpochParts:
    """What all writer tasks of an epoch did."""

    notes: NoteSum
    staged: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """By sink: what each task staged."""
    rows: dict[int, int] = field(default_factory=dict)
    """By sink: rows taken."""
    dead: list[tuple[int, str]] = field(default_factory=list)
    """Dead letters, oldest first: order and note."""
    dead_count: int = 0
    time_ms: int = 0


def sum_up(messages: Sequence[PartMessage]) -> EpochParts:
    """All tasks' messages as one."""
    notes = NoteSum()
    parts = EpochParts(notes=notes)
    for message in messages:
        notes.add(message.notes)
        parts.dead += message.dead
        parts.dead_count += message.dead_count
        parts.time_ms = max(parts.time_ms, message.time_ms)
        for number, staged in message.staged.items():
            parts.staged.setdefault(number, []).append(staged)
            parts.rows[number] = parts.rows.get(number, 0) + message.rows[number]
    parts.dead.sort()
    return parts


def close(spec: WriterSpec, epoch: int, parts: EpochParts) -> None:
    """Close an epoch, or find that it is closed.

    Raises:
        WorkerError: with the code of the state's error.
        SourceSplit: it is no prefix of a table, or not the one that Spark planned.
        SourceUnavailable: Spark's record of it cannot be read.
    """
    try:
        _close(spec, epoch, parts)
    except StateError as error:
        raise WorkerError(error.code, with_hint(error.message, error.hint)) from error


_noted: dict[RedisTransport, Ahead] = {}
"""What was sent at the end of the close before, whose reply nobody has read."""


def _close(spec: WriterSpec, epoch: int, parts: EpochParts) -> None:
    started_ns = time.perf_counter_ns()
    if (before := _noted.pop(transport_of(spec), None)) is not None:
        # Whatever came of it: its connection is free for this close.
        before.replies()
    ledger = ledger_of(spec)
    files = _folders(spec, parts)
    marker = ledger.marker()
    parts.time_ms = time_behind(marker.offsets, parts.time_ms)
    stamp = EpochStamp(epoch=epoch, run=spec.run, time_ms=parts.time_ms)
    # A source, or a partition of it, without news takes no part: its offset is the marker's.
    known = orjson.loads(marker.offsets)
    offsets = merged_offsets(known, places(parts.notes.offsets))
    proceeds = check_epoch(marker, epoch) is EpochCheck.PROCEED
    if proceeds:
        if spec.streams:
            checkpoint = Path(spec.checkpoint)
            check_epoch_read(checkpoint, epoch, spec.streams, spec.counted_by_spark, offsets)
        source = EpochInput(spec, epoch, offsets_json(offsets))
        if files:
            _commit_files(ledger, stamp, files)
        if any(each.connector == "jdbc" for each in spec.sinks):
            # SQLAlchemy is imported where a database is written only.
            from service.runtime.sinks.database.commit import write_epoch

            write_epoch(source, parts.staged)
        if any(each.connector in KAFKA for each in spec.sinks):
            # And Kafka's client where a topic is.
            from service.runtime.sinks.kafka.commit import write_topics

            write_topics(source, parts.staged)
        offsets[EPOCH_TIME] = parts.time_ms
        if spec.assigners:
            news = reached(spec.assigners, known, parts.notes)
            offsets |= news
            if any(spec.idle_timeouts_ms.values()) or LEAST in known:
                offsets |= least(spec, known, news[WATERMARKS], parts.notes, parts.time_ms)
    ledger.close_epoch(stamp, offsets, _effects(spec, epoch, parts))
    if proceeds:
        _note_close(spec, epoch, (time.perf_counter_ns() - started_ns) / 1e6)
    if any(each.get("keys") for each in parts.notes.nodes().values()):
        ledger.promote_all(spec.operators, spec.max_parallelism)
    for sink, staged in files:
        if staged:
            sink.discard(epoch)


def _folders(spec: WriterSpec, parts: EpochParts) -> list[tuple[FileSink, list[dict[str, Any]]]]:
    """A sink for each folder that is written, with what all sinks of the folder have staged."""
    found = []
    for numbers in sinks_by_folder(spec):
        sink = open_sink(spec, numbers[0])
        assert isinstance(sink, FileSink)
        found.append((sink, [each for n in numbers for each in parts.staged.get(n, ())]))
    return found


def _commit_files(
    ledger: Ledger,
    stamp: EpochStamp,
    files: Sequence[tuple[FileSink, Sequence[dict[str, Any]]]],
) -> None:
    """Show the files of all sinks, if this run still owns the pipeline once they are prepared."""
    for sink, staged in files:
        with disk.named(sink.spec):
            sink.prepare(stamp.epoch, staged)
    ledger.require_run(stamp)
    for sink, staged in files:
        with disk.named(sink.spec):
            sink.commit(stamp.epoch, staged)


def places(offsets: Mapping[str, Any]) -> dict[str, Any]:
    """The part of offsets that tells of changes, by table: what an epoch is known again by.

    A tick is told by the source of the changes, by one of its own or by the writer, as it suits a
    run (`ticks_apart`); and the epoch that one run has closed, the next one may be asked for again.

    >>> places({"s": {"at": 4, "tick": 7, "time": 1}, "s-ticks": {"tick": 7, "time": 1}})
    {'s': {'at': 4}}
    """
    told = {table: place_in(end) for table, end in offsets.items()}
    return {table: place for table, place in told.items() if place}


def reached(
    assigners: Mapping[str, Sequence[str]], known: Mapping[str, Any], notes: NoteSum
) -> dict[str, Any]:
    """How far event time has come, and which sources have ended, by the end of an epoch.

    A watermark takes part from the next epoch on: after its changes, as `next`; then it is `now`.

    Args:
        assigners: The watermark assigners, each with the sources that it is behind of.
        known: What the epoch before left.
        notes: Of this epoch.
    """
    # A restored pipeline may find more in a source that had ended.
    ended = ({*known.get(ENDED, ())} - notes.resumed) | notes.ended
    watermarks: dict[str, list[int]] = {}
    for name, sources in sorted(assigners.items()):
        before = known.get(WATERMARKS, {}).get(name, [WATERMARK_MIN, WATERMARK_MIN])[1]
        is_over = bool(sources) and ended.issuperset(sources)
        if before == WATERMARK_MAX and not is_over:
            before = WATERMARK_MIN
        after = max(before, notes.watermarks.get(name, WATERMARK_MIN))
        watermarks[name] = [before, WATERMARK_MAX if is_over else after]
    return {WATERMARKS: watermarks, ENDED: sorted(ended)}


def least(
    spec: WriterSpec,
    known: Mapping[str, Any],
    watermarks: Mapping[str, Sequence[int]],
    notes: NoteSum,
    time_ms: int,
) -> dict[str, Any]:
    """The watermarks of operators whose sources may be idle, by the end of an epoch.

    An idle source holds no other one back; when it sends again, what operators have reached stays.
    Where all are idle, the greatest counts. Source: Flink `StatusWatermarkValve`.

    Args:
        spec: Says which sources may be idle, and who waits for which.
        known: What the epoch before left.
        watermarks: How far each assigner has come, of `reached`.
        notes: Of this epoch.
        time_ms: Its time.
    """
    before = known.get(SEEN, {})
    seen = {
        name: time_ms if name in notes.watermarks else before.get(name, time_ms)
        for name in watermarks
    }
    idle = {
        name
        for name, timeout_ms in spec.idle_timeouts_ms.items()
        if timeout_ms and time_ms - seen.get(name, time_ms) >= timeout_ms
    }
    found: dict[str, list[int]] = {}
    for group in spec.together:
        name = together([group])
        now = known.get(LEAST, {}).get(name)
        # Before the first epoch with this option: what `epoch_times` said so far.
        now_ms = _least(group, watermarks, 0) if now is None else now[1]
        active = [each for each in group if each[0] not in idle]
        next_ms = _least(active, watermarks, 1) if active else _greatest(group, watermarks)
        if now_ms == WATERMARK_MAX:
            # A restored pipeline may find more in a source that had ended.
            now_ms = next_ms
        found[name] = [now_ms, max(now_ms, next_ms)]
    return {LEAST: found, SEEN: seen}


def _least(
    group: Sequence[tuple[str, int]], watermarks: Mapping[str, Sequence[int]], at: int
) -> int:
    return min(held_back(watermarks[name][at], held_ms) for name, held_ms in group)


def _greatest(group: Sequence[tuple[str, int]], watermarks: Mapping[str, Sequence[int]]) -> int:
    return max(held_back(watermarks[name][1], held_ms) for name, held_ms in group)


def _note_close(spec: WriterSpec, epoch: int, took_ms: float) -> None:
    """Keep what closing an epoch took; the epoch is closed, whether that works or not."""
    key = slot_key(spec.pipeline, CLOSES_NAME)
    limit = ("MAXLEN", "=", spec.progress_max)
    # Nothing depends on it: readers show null where it was not noted.
    transport = transport_of(spec)
    if (ahead := transport.ahead()) is not None:
        ahead.send([("XADD", key, *limit, f"{epoch}-0", "ms", f"{took_ms:.3f}")])
        _noted[transport] = ahead


def _effects(spec: WriterSpec, epoch: int, parts: EpochParts) -> list[Effect]:
    """What closing the epoch does in the pipeline's slot, besides moving the marker."""
    effects: list[Effect] = [
        ApplyStaged(each["name"].encode(), each["chunks"])
        for number, staged in sorted(parts.staged.items())
        if spec.sinks[number].connector in STAGED_CONNECTORS
        for each in staged
    ]
    if parts.dead_count:
        kept = parts.dead[-spec.dead_letters_max :]
        entries = [[b"letter", note.encode()] for _, note in kept]
        effects.append(StreamAppend(DEAD_NAME.encode(), entries, spec.dead_letters_max))
        effects.append(CounterAdd(DEAD_COUNT_NAME.encode(), parts.dead_count))
    return effects + record_effects(progress_record(spec, epoch, parts), spec.progress_max)


def record_effects(record: dict[str, Any], progress_max: int) -> list[Effect]:
    """Keep an epoch's progress record, and add it to the sums that lose none to trimming."""
    epoch = record["epoch"]
    sums: list[Effect] = [
        HashAdd(TOTALS_NAME.encode(), name.encode(), record[name])
        for name in ("rows_in", "rows_out")
        if record[name]
    ]
    text = orjson.dumps(record, option=orjson.OPT_SORT_KEYS | orjson.OPT_SERIALIZE_NUMPY)
    name, entry_id = PROGRESS_NAME.encode(), f"{epoch}-0".encode()
    return [*sums, StreamAppend(name, [[b"progress", text]], progress_max, entry_id=entry_id)]


def progress_record(spec: WriterSpec, epoch: int, parts: EpochParts) -> dict[str, Any]:
    """What an epoch did, in counts, as `/progress` shows it."""
    nodes = {node: _in_ms(statistics) for node, statistics in parts.notes.nodes().items()}
    sinks: dict[str, int] = {}
    for number, rows in sorted(parts.rows.items()):
        table = spec.sinks[number].table
        sinks[table] = sinks.get(table, 0) + rows
    return {
        "epoch": epoch,
        "run": spec.run,
        "time_ms": parts.time_ms,
        "rows_in": parts.notes.rows_in,
        "rows_out": sum(sinks.values()),
        "dead": parts.dead_count,
        "sinks": sinks,
        "nodes": nodes,
        "offsets": parts.notes.offsets,
    }


def _in_ms(statistics: dict[str, int]) -> dict[str, float]:
    """Nanoseconds as milliseconds; sums over partitions, so more than the clock's time."""
    return {
        f"{name.removesuffix('_ns')}_ms" if name.endswith("_ns") else name: (
            round(value / 1e6, 3) if name.endswith("_ns") else value
        )
        for name, value in statistics.items()
    }
