"""Epochs that no task of the only source reads: stages make the ticks that it would have sent."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

from operators.changelog import RowKind
from operators.compacting_materializer import CompactingSpec
from operators.spec import InputSpec, RowSpec
from operators.upsert_materializer import MaterializerSpec
from operators.wire import (
    INPUT,
    KEY_GROUP,
    KIND,
    NOTE,
    ORDER,
    TICK,
    TIME,
    SourceNote,
    WorkerError,
    input_column,
    to_note,
)
from operators.worker import OperatorTask, TaskSettings, installed_version
from service.runtime import map_tasks
from service.runtime.dataflow_errors import SourceChanged, SourceUnavailable
from service.runtime.map_tasks import OperatorStage
from service.runtime.quiet_epochs import (
    QuietSource,
    operator_batches,
    planned_end,
    with_ticks,
    writer_batches,
    written_part,
)
from service.runtime.sinks.commit import close, sum_up
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.writer import write_part
from state.epochs import EpochLedger
from state.key_groups import key_group
from state.types import parse_type
from tests.service.runtime.sources.readers import make_reader, read_epoch, url_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import redis

    from service.runtime.sinks.message import PartMessage

TEXTS = ("STRING", "INT")
TYPES = tuple(map(parse_type, TEXTS))
PARTITIONS, KEY_GROUPS = 2, 8
NODE = "3_sink-materializer"
JSON = {"path": "in", "format": "changelog-json", "source.monitor-interval": "0 ms"}


def record(checkpoint: Path, epoch: int, *ends: dict[str, Any], version: str = "v1") -> str:
    """What Spark writes of an epoch before it runs; the checkpoint's path."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    lines = [version, '{"batchWatermarkMs":0}', *(orjson.dumps(each).decode() for each in ends)]
    (checkpoint / "offsets" / str(epoch - 1)).write_text("\n".join(lines))
    return str(checkpoint)


def end(time_ms: int) -> dict[str, int]:
    return {"file": 1, "at": 0, "tick": 7, "time": time_ms}


# the source


def test_a_quiet_source_has_no_task_where_it_has_nothing_to_read(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    quiet, other = (
        make_reader(redis_client, tmp_path, options=JSON, tells_time=True, is_quiet=each)
        for each in (True, False)
    )
    start = quiet.initialOffset()
    timeless = {name: value for name, value in start.items() if name != "time"}

    assert quiet.partitions(start, {**start, "tick": 1, "time": 5}) == []
    assert len(other.partitions(start, {**start, "tick": 1, "time": 5})) == 1
    # An epoch that an earlier version planned: only a task finds its time.
    assert len(quiet.partitions(timeless, {**timeless, "tick": 1})) == 1


def test_a_quiet_source_with_changes_is_read_as_ever(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.jsonl").write_bytes(b'{"op":"+I","data":{"id":1,"k":"a"}}\n')
    reader = make_reader(redis_client, tmp_path, options=JSON, tells_time=True, is_quiet=True)
    start = reader.initialOffset()

    found = read_epoch(reader, start, reader.latestOffset(start, reader.getDefaultReadLimit()))

    assert (found.tasks, found.rows) == (1, [(0, 1, "a")])


def test_that_a_source_has_ended_is_told_by_a_task(redis_client: redis.Redis) -> None:
    reader = make_reader(
        redis_client,
        connector="datagen",
        options={"number-of-rows": "0"},
        tells_time=True,
        is_quiet=True,
    )
    start = reader.initialOffset()

    found = read_epoch(reader, start, {**start, "tick": 1, "time": 5})

    assert [orjson.loads(each)["is_last"] for each in found.notes] == [True]


# Spark's record


def test_the_end_of_an_epoch_is_what_spark_wrote_down(tmp_path: Path) -> None:
    checkpoint = record(tmp_path, 3, end(1_000))

    assert planned_end(checkpoint, 3) == end(1_000)


def test_a_source_whose_rows_go_several_ways_has_a_line_for_each(tmp_path: Path) -> None:
    checkpoint = record(tmp_path, 3, end(1_000), end(1_000))

    assert planned_end(checkpoint, 3) == end(1_000)


@pytest.mark.parametrize(
    "ends", [(), (end(1), end(2)), ({"file": 0, "tick": 0},)], ids=["none", "two", "timeless"]
)
def test_the_record_of_another_query_is_refused(tmp_path: Path, ends: Any) -> None:
    checkpoint = record(tmp_path, 3, *ends)

    with pytest.raises(SourceChanged, match="epoch 3"):
        planned_end(checkpoint, 3)


@pytest.mark.parametrize("ends", [(end(1),), (end(1), end(1))], ids=["one", "one in two ways"])
def test_the_record_of_a_query_without_a_source_of_ticks_is_refused_where_there_is_to_be_one(
    tmp_path: Path, ends: Any
) -> None:
    """Its time is that of changes, and may be of an epoch before."""
    checkpoint = record(tmp_path, 3, *ends)

    with pytest.raises(SourceChanged, match="epoch 3"):
        planned_end(checkpoint, 3, has_ticks_apart=True)


def test_a_record_of_another_form_is_refused(tmp_path: Path) -> None:
    checkpoint = record(tmp_path, 3, end(1), version="v9")

    with pytest.raises(SourceChanged, match="epoch 3"):
        planned_end(checkpoint, 3)


@pytest.mark.parametrize("offset", ["-", "", "{"])
def test_a_record_without_an_offset_of_ours_is_refused(tmp_path: Path, offset: str) -> None:
    checkpoint = record(tmp_path, 3)
    with (tmp_path / "offsets" / "2").open("a") as handle:
        handle.write(f"\n{offset}")

    with pytest.raises(SourceChanged, match="epoch 3"):
        planned_end(checkpoint, 3)


def test_without_a_record_the_query_starts_again_and_says_what_workers_must_see(
    tmp_path: Path,
) -> None:
    with pytest.raises(SourceUnavailable, match=r"epoch 3 .* must see the folder of checkpoints"):
        planned_end(str(tmp_path), 3)


# stages


@pytest.mark.parametrize(("rows", "ticks"), [((), 1), ((0, 0), 1), ((2,), 0), ((0, 3), 0)])
def test_a_stage_makes_a_tick_where_no_row_comes(rows: Iterable[int], ticks: int) -> None:
    batches = [pa.record_batch({"a": pa.array([1] * each, pa.int8())}) for each in rows]
    made: list[int] = []

    def tick() -> pa.RecordBatch:
        made.append(1)
        return pa.record_batch({"a": pa.array([9], pa.int8())})

    found = list(with_ticks(batches, tick))

    assert found[: len(batches)] == batches
    assert (len(found) - len(batches), len(made)) == (ticks, ticks)


def test_a_tick_of_an_operator_with_several_inputs_is_in_none_of_their_columns(
    tmp_path: Path,
) -> None:
    source = QuietSource("t", record(tmp_path, 4, end(1_000)))

    (batch,) = operator_batches(source, [TEXTS, TEXTS[:1]], 4, 1, iter(()))

    (row,) = batch.to_pylist()
    note = to_note(SourceNote("t", "quiet", 0, end(1_000)))
    assert (row[INPUT], row[KIND], row[ORDER], row[NOTE], row[TIME]) == (0, TICK, 1, note, 1_000)
    assert row[input_column(0)] is row[input_column(1)] is row[KEY_GROUP] is None
    assert batch.schema.field(input_column(1)).type.num_fields == 1


class World:
    """A pipeline whose only operator forgets after a second, in a run."""

    def __init__(self, client: redis.Redis, folder: Path) -> None:
        self.ledger = EpochLedger(client, "p")
        run = self.ledger.open_run([NODE], KEY_GROUPS)
        settings = TaskSettings(
            pipeline="p",
            operator=NODE,
            run=run,
            redis_url=url_of(client),
            incarnation=None,
            partitions=PARTITIONS,
            max_parallelism=KEY_GROUPS,
            version=installed_version(),
        )
        spec = MaterializerSpec(TYPES, ("k", "v"), (0,), None, ttl_ms=1_000)
        self.task = OperatorTask(settings, spec.to_json())
        sink = SinkSpec(3, "out", "blackhole", ("k", "v"), TEXTS, (0,), "upsert")
        self.writer = WriterSpec(
            pipeline="p",
            run=run,
            redis_url=url_of(client),
            incarnation=None,
            files_root=str(folder),
            sinks=(dataclasses.replace(sink, operator=self.task.to_json()),),
            operators=(NODE,),
            quiet_source="t",
            checkpoint=str(folder / "checkpoint"),
            max_parallelism=KEY_GROUPS,
        )
        self.keys = ["a", "b", "c", "d", "e"]

    def changes(self, partition: int) -> list[dict[str, Any]]:
        """The first epoch's rows in a partition, with the ticks that a source sends."""
        groups = {each: key_group([TYPES[0]], [each], KEY_GROUPS) for each in self.keys}
        rows: list[dict[str, Any]] = [
            {"f0": key, "f1": 1, KIND: int(RowKind.INSERT), ORDER: at, TIME: 1, KEY_GROUP: group}
            for at, (key, group) in enumerate(groups.items())
            if group % PARTITIONS == partition
        ]
        note = to_note(SourceNote("t", 0, len(self.keys), end(1)))
        return [*rows, {KIND: TICK, ORDER: partition, TIME: 1, NOTE: note}]

    def run(self, epoch: int, *, is_quiet: bool) -> dict[str, Any]:
        """An epoch through the writer; its record."""
        messages = []
        for partition in range(PARTITIONS):
            place = epoch, partition
            (like,) = writer_batches(self.writer, *place, iter(()))
            batches = iter(() if is_quiet else (self._wired(self.changes(partition), like),))
            messages.append(written_part(self.writer, *place, batches))
        close(self.writer, epoch, sum_up(messages))
        return orjson.loads(self.ledger.marker().offsets)

    @staticmethod
    def _wired(rows: list[dict[str, Any]], like: pa.RecordBatch) -> pa.RecordBatch:
        wired = [
            {**row, "_sink": 0, input_column(0): {"f0": row.get("f0"), "f1": row.get("f1")}}
            for row in rows
        ]
        return pa.RecordBatch.from_pylist(wired, like.schema)


def test_a_quiet_epoch_cleans_what_is_due_in_every_key_group_and_is_told_as_any_other(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    world = World(redis_client, tmp_path)
    for epoch, time_ms in ((1, 1), (2, 500), (3, 1_002)):
        record(tmp_path / "checkpoint", epoch, end(time_ms))

    world.run(1, is_quiet=False)
    early, late = world.run(2, is_quiet=True), world.run(3, is_quiet=True)

    found = redis_client.xrange("tailrace:{p}:progress")
    first, second, third = (orjson.loads(fields[b"progress"]) for _, fields in found)
    # Offsets tell of changes only, and the time of the epoch beside them.
    place = {"file": 1, "at": 0}
    assert (early, late) == ({"@time": 500, "t": place}, {"@time": 1_002, "t": place})
    assert [each["time_ms"] for each in (first, second, third)] == [1, 500, 1_002]
    assert [each["rows_in"] for each in (first, second, third)] == [5, 0, 0]
    assert [each["nodes"][NODE]["expired"] for each in (first, second, third)] == [0, 0, 5]


MATERIALIZER = MaterializerSpec(TYPES, ("k", "v"), (0,), None)
COMPACTING = CompactingSpec(
    inputs=(InputSpec(types=TYPES, names=("k", "v"), key=(0,)),),
    output=RowSpec(types=TYPES, names=("k", "v")),
    behavior="NOTHING",
)
"""Waits for the watermark, by timers, and may so have work without a change or a TTL."""


@pytest.mark.parametrize(
    ("operator", "notes"),
    [
        ("", 1),
        (MATERIALIZER.to_json(), 1),
        (dataclasses.replace(MATERIALIZER, net_changes=True).to_json(), 1),
        (dataclasses.replace(MATERIALIZER, ttl_ms=1_000).to_json(), 2),
        (COMPACTING.to_json(), 2),
    ],
    ids=["no operator", "no ttl", "net changes", "ttl", "timers"],
)
def test_a_task_without_rows_tells_what_a_tick_through_the_writer_would(
    redis_client: redis.Redis, tmp_path: Path, operator: str, notes: int
) -> None:
    """The operator's own note is there where time alone may give it work."""
    world = World(redis_client, tmp_path)
    record(tmp_path / "checkpoint", 1, end(7))
    task = OperatorTask(world.task.settings, operator).to_json() if operator else ""
    sink = dataclasses.replace(world.writer.sinks[0], operator=task)
    writer = dataclasses.replace(world.writer, sinks=(sink,))
    empty = next(writer_batches(writer, 1, 1, iter(()))).slice(0, 0)

    told = [written_part(writer, 1, 1, iter(each)) for each in ((), (empty,))]
    whole = write_part(writer, 1, 1, writer_batches(writer, 1, 1, iter(())))

    assert [_comparable(each) for each in told] == [_comparable(whole)] * 2
    assert len(whole.notes) == notes


def _comparable(message: PartMessage) -> PartMessage:
    """Without how long an operator's work took."""
    notes = [orjson.loads(each) for each in message.notes]
    kept = [{name: value for name, value in each.items() if name != "statistics"} for each in notes]
    return dataclasses.replace(message, notes=[orjson.dumps(each).decode() for each in kept])


def test_workers_of_another_version_refuse_quiet_epochs_too(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    world = World(redis_client, tmp_path)
    record(tmp_path / "checkpoint", 1, end(7))
    settings = dataclasses.replace(world.task.settings, version="0.0.0-other")
    task = dataclasses.replace(world.task, settings=settings).to_json()
    sink = dataclasses.replace(world.writer.sinks[0], operator=task)

    with pytest.raises(WorkerError, match="version-mismatch"):
        written_part(dataclasses.replace(world.writer, sinks=(sink,)), 1, 1, iter(()))


def test_attempts_of_a_quiet_epoch_are_equal(redis_client: redis.Redis, tmp_path: Path) -> None:
    world = World(redis_client, tmp_path)
    record(tmp_path / "checkpoint", 1, end(1))

    def attempt() -> pa.Table:
        return pa.Table.from_batches(writer_batches(world.writer, 1, 1, iter(())))

    assert attempt() == attempt()


def test_an_operator_that_is_a_stage_passes_its_tick_on(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So stages behind it get it as one of the source's, each partition its own."""
    world = World(redis_client, tmp_path)
    source = QuietSource("t", record(tmp_path, 1, end(40)))
    context = SimpleNamespace(getLocalProperty=lambda name: "0", partitionId=lambda: 1)
    monkeypatch.setattr(map_tasks, "TaskContext", SimpleNamespace(get=lambda: context))

    out = list(OperatorStage(world.task, source, [TEXTS])(iter(())))

    rows = [row for each in out for row in each.to_pylist()]
    assert {(row[KIND], row[ORDER], row[TIME]) for row in rows} == {(TICK, 1, 40)}
    notes = [orjson.loads(row[NOTE]) for row in rows]
    assert [each.get("node") or each["table"] for each in notes] == [NODE, "t"]


def test_a_query_of_several_sources_gets_no_ticks_of_ours(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    writer = dataclasses.replace(World(redis_client, tmp_path).writer, quiet_source="")

    assert list(writer_batches(writer, 1, 0, iter(()))) == []
