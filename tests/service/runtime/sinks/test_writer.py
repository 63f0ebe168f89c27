"""The writer and the close of an epoch on a real Redis, without Spark."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from operators.changelog import RowKind
from operators.wire import (
    DEAD_LETTER,
    TICK,
    SourceNote,
    WorkerError,
    dead_letter_note,
    to_note,
)
from service.runtime.dataflow_errors import SinkRefused
from service.runtime.sinks.commit import close, sum_up
from service.runtime.sinks.spec import SinkSpec, WriterSpec
from service.runtime.sinks.writer import write_part
from service.runtime.table_reader import SlotReader
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from service.runtime.sinks.message import PartMessage

STRUCT = pa.struct([("f0", pa.string()), ("f1", pa.int32())])
Change = tuple[str, str | None, int | None]


def sink(connector: str, mode: str = "upsert", **options: str) -> SinkSpec:
    return SinkSpec(
        node=3,
        table=f"{connector}_out",
        connector=connector,
        names=("k", "v"),
        types=("STRING", "INT"),
        primary_key=(0,),
        mode=mode,
        options=options,
    )


@pytest.fixture
def writer(redis_client: redis.Redis, tmp_path: Path) -> WriterSpec:
    ledger = EpochLedger(redis_client, "p")
    spec = WriterSpec(
        pipeline="p",
        run=ledger.open_run([], 8),
        redis_url=f"redis://127.0.0.1:{redis_client.connection_pool.connection_kwargs['port']}/0",
        incarnation=None,
        files_root=str(tmp_path),
        sinks=(),
        max_parallelism=8,
    )
    return WriterSpec.from_json(spec.to_json())


def with_sinks(writer: WriterSpec, *sinks: SinkSpec) -> WriterSpec:
    nodes = tuple(dataclasses.replace(each, node=at) for at, each in enumerate(sinks, 1))
    return WriterSpec.from_json(dataclasses.replace(writer, sinks=nodes).to_json())


def rows(number: int, changes: list[Change], *, sinks: int = 1, first: int = 0) -> pa.RecordBatch:
    """Changes of one sink, as they reach the writer: as plain columns where it is the only one."""
    count = len(changes)
    columns: dict[str, Any] = {
        "_sink": pa.array([number] * count, pa.int32()),
        "_kind": pa.array([int(RowKind.from_short(each[0])) for each in changes], pa.int8()),
        "_order": pa.array(range(first, first + count), pa.int64()),
        "_note": pa.nulls(count, pa.string()),
        "_time": pa.array([7] * count, pa.int64()),
        "_seq": pa.array([0] * count, pa.int64()),
    }
    values = [{"f0": each[1], "f1": each[2]} for each in changes]
    if sinks == 1:
        return alone(columns, pa.array(values, STRUCT))
    for at in range(sinks):
        own = at == number
        columns[f"s{at}"] = pa.array(values if own else [None] * count, STRUCT)
    return pa.RecordBatch.from_pydict(columns)


def notes(*texts: tuple[int, str | None], sinks: int = 1) -> pa.RecordBatch:
    """Control rows: (kind, note)."""
    columns: dict[str, Any] = {
        "_sink": pa.array([0] * len(texts), pa.int32()),
        "_kind": pa.array([kind for kind, _ in texts], pa.int8()),
        "_order": pa.array(range(len(texts)), pa.int64()),
        "_note": pa.array([note for _, note in texts], pa.string()),
        "_time": pa.array([7] * len(texts), pa.int64()),
        "_seq": pa.nulls(len(texts), pa.int64()),
    }
    if sinks == 1:
        return alone(columns, pa.nulls(len(texts), STRUCT))
    columns |= {f"s{at}": pa.nulls(len(texts), STRUCT) for at in range(sinks)}
    return pa.RecordBatch.from_pydict(columns)


def alone(columns: dict[str, Any], values: pa.StructArray) -> pa.RecordBatch:
    """The rows of the only sink: its columns are in no struct."""
    del columns["_sink"]
    own = dict(zip(STRUCT.names, values.flatten(), strict=True))
    return pa.RecordBatch.from_pydict(columns | own)


def tick(epoch: int, *, sinks: int = 1, rows_read: int = 0) -> pa.RecordBatch:
    return notes((TICK, to_note(SourceNote("s", 0, rows_read, {"at": epoch}))), sinks=sinks)


def run(spec: WriterSpec, epoch: int, *partitions: list[pa.RecordBatch]) -> list[PartMessage]:
    """Write all partitions and close the epoch, as Spark would."""
    messages = [
        pickle.loads(pickle.dumps(write_part(spec, epoch, at, iter(each))))
        for at, each in enumerate(partitions)
    ]
    close(spec, epoch, sum_up(messages))
    return messages


def test_a_redis_table_has_the_last_row_of_each_key(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("redis"))
    first: list[Change] = [("+I", "a", 1), ("+U", "a", 2), ("+I", "b", 1), ("-D", "b", 1)]

    run(spec, 1, [rows(0, first), tick(1)], [rows(0, [("+I", "c", 3)])])
    run(spec, 2, [rows(0, [("-D", "c", 3), ("+I", "d", 4)]), tick(2)])

    table = redis_client.hgetall("tailrace:{p}:table:redis_out")
    assert {k: orjson.loads(v) for k, v in table.items()} == {
        b'["a"]': {"k": "a", "v": 2},
        b'["d"]': {"k": "d", "v": 4},
    }


@pytest.mark.parametrize("connector", ["redis", "print"])
def test_two_sinks_of_one_table_keep_each_others_rows(
    redis_client: redis.Redis, writer: WriterSpec, connector: str
) -> None:
    """Two statements write it, with other kinds of change or options."""
    spec = with_sinks(writer, sink(connector), sink(connector))
    first: list[Change] = [("+I", "a", 1), ("+I", "b", 2)]
    second: list[Change] = [("+I", "c", 3)]

    run(spec, 1, [rows(0, first, sinks=2), rows(1, second, sinks=2), tick(1, sinks=2)])

    table = redis_client.hgetall("tailrace:{p}:table:redis_out")
    entries = redis_client.xrange("tailrace:{p}:print:print_out")
    printed = [orjson.loads(fields[b"change"])["data"] for _, fields in entries]
    found = [orjson.loads(each) for each in table.values()] + printed
    assert sorted((each["k"], each["v"]) for each in found) == [("a", 1), ("b", 2), ("c", 3)]
    ((_, fields),) = redis_client.xrange("tailrace:{p}:progress")
    record = orjson.loads(fields[b"progress"])
    assert (record["rows_out"], record["sinks"]) == (3, {f"{connector}_out": 3})


def test_rows_are_sorted_by_order_before_they_are_applied(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("redis"))

    late, early = rows(0, [("+U", "a", 9)], first=5), rows(0, [("+I", "a", 1)], first=2)
    run(spec, 1, [late, early, tick(1)])

    assert orjson.loads(redis_client.hget("tailrace:{p}:table:redis_out", '["a"]') or b"")["v"] == 9


def test_a_key_group_that_came_along_is_no_column_of_a_sink(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    batch = rows(0, [("+I", "a", 1)])
    with_group = batch.append_column("_kg", pa.array([3], pa.int32()))

    run(
        with_sinks(writer, sink("redis")),
        1,
        [with_group, tick(1).append_column("_kg", with_group["_kg"])],
    )

    assert orjson.loads(redis_client.hget("tailrace:{p}:table:redis_out", '["a"]') or b"") == {
        "k": "a",
        "v": 1,
    }


def test_rows_of_tasks_that_read_in_turns_are_sorted(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("redis"))
    changes: list[Change] = [("+U", "a", number) for number in range(5)]
    one, other = rows(0, changes[0:1], first=0), rows(0, changes[1:2], first=1)
    odd = pa.Table.from_batches([other, rows(0, changes[3:4], first=3)]).combine_chunks()
    even = pa.Table.from_batches([one, rows(0, changes[4:5], first=4)]).combine_chunks()

    run(spec, 1, [*even.to_batches(), *odd.to_batches(), tick(1)])

    assert orjson.loads(redis_client.hget("tailrace:{p}:table:redis_out", '["a"]') or b"")["v"] == 4


def test_progress_notes_and_dead_letters_are_closed_with_the_epoch(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("blackhole"))
    letter = dead_letter_note("s", "in/a:3", "no JSON")

    run(
        spec,
        1,
        [rows(0, [("+I", "a", 1)]), tick(1, rows_read=2), notes((DEAD_LETTER, letter))],
        [tick(1, rows_read=2)],
    )

    (entry,) = redis_client.xrange("tailrace:{p}:progress")
    record = orjson.loads(entry[1][b"progress"])
    assert entry[0] == b"1-0"
    assert (record["rows_in"], record["rows_out"], record["dead"]) == (2, 1, 1)
    assert record["offsets"] == {"s": {"at": 1}}
    ((_, dead),) = redis_client.xrange("tailrace:{p}:dead")
    assert orjson.loads(dead[b"letter"])["position"] == "in/a:3"
    assert redis_client.get("tailrace:{p}:dead:count") == b"1"


def test_what_a_close_took_is_noted_once_beside_its_record(
    redis_client: redis.Redis, writer: WriterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = dataclasses.replace(with_sinks(writer, sink("blackhole")), progress_max=2)
    clock_ns = itertools.count(0, 2_500_000)
    clock = SimpleNamespace(perf_counter_ns=lambda: next(clock_ns))
    monkeypatch.setattr("service.runtime.sinks.commit.time", clock)
    slot = SlotReader(redis_client, "p")
    run(spec, 1, [tick(1)])
    record = redis_client.xrange("tailrace:{p}:progress")

    next(clock_ns)
    run(spec, 1, [tick(1)])

    assert redis_client.xrange("tailrace:{p}:progress") == record
    assert b"close" not in record[0][1][b"progress"]
    assert [each["close_ms"] for each in slot.progress(None, 10)[1]] == [2.5]
    run(spec, 2, [tick(2)])
    run(spec, 3, [tick(3)])
    assert redis_client.xlen("tailrace:{p}:closes") == 2
    redis_client.xdel("tailrace:{p}:closes", "2-0")
    assert [each["close_ms"] for each in slot.progress(None, 10)[1]] == [2.5, None]
    assert [each["close_ms"] for each in slot.progress_after(0, 10)] == [None, 2.5]


def test_an_epoch_is_closed_though_the_time_of_it_cannot_be_noted(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    redis_client.set("tailrace:{p}:closes", "of another type")

    run(with_sinks(writer, sink("blackhole")), 1, [tick(1)])

    assert EpochLedger(redis_client, "p").marker().epoch == 1


def test_offsets_of_a_source_that_rested_stay_in_the_marker(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("blackhole"))
    other = notes((TICK, to_note(SourceNote("other", 0, 0, {"at": 9}))))

    run(spec, 1, [tick(1), other])
    run(spec, 2, [tick(2)])

    marker = EpochLedger(redis_client, "p").marker()
    held = orjson.loads(marker.offsets)
    assert {name: held[name] for name in ("other", "s")} == {"other": {"at": 9}, "s": {"at": 2}}


def test_partitions_of_a_source_that_rested_stay_in_the_marker(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("blackhole"))

    def read(partition: str, end: int) -> pa.RecordBatch:
        offsets = {"topics": {"t": {partition: end}}}
        return notes((TICK, to_note(SourceNote("k", f"t/{partition}", 1, offsets))))

    run(spec, 1, [tick(1), read("0", 5), read("1", 8)])
    run(spec, 2, [tick(2), read("1", 9)])

    marker = EpochLedger(redis_client, "p").marker()
    assert orjson.loads(marker.offsets)["k"] == {"topics": {"t": {"0": 5, "1": 9}}}


def test_what_lost_attempts_staged_is_not_applied(
    redis_client: redis.Redis, writer: WriterSpec
) -> None:
    spec = with_sinks(writer, sink("redis"))
    write_part(spec, 1, 0, iter([rows(0, [("+I", "lost", 1)])]))

    run(spec, 1, [rows(0, [("+I", "a", 1)]), tick(1)])

    assert redis_client.hkeys("tailrace:{p}:table:redis_out") == [b'["a"]']
    assert not list(redis_client.scan_iter("*stage:*"))


def test_an_epoch_closed_before_changes_nothing_again(
    redis_client: redis.Redis, writer: WriterSpec, tmp_path: Path
) -> None:
    spec = with_sinks(
        writer,
        sink("redis"),
        sink("filesystem", path="out", format="changelog-json"),
        sink("print"),
    )
    parts = [
        *(rows(at, [("+I", "a", 1)], sinks=3) for at in range(3)),
        tick(1, sinks=3),
    ]
    run(spec, 1, parts)
    before = {each.name: each.stat().st_ino for each in (tmp_path / "out").glob("part-*")}

    run(spec, 1, parts)

    assert redis_client.xlen("tailrace:{p}:print:print_out") == 1
    assert redis_client.xlen("tailrace:{p}:progress") == 1
    after = {each.name: each.stat().st_ino for each in (tmp_path / "out").glob("part-*")}
    assert after == before
    assert not list((tmp_path / "out" / ".staging").iterdir())


def test_closing_with_other_offsets_is_state_lost(writer: WriterSpec) -> None:
    spec = with_sinks(writer, sink("blackhole"))
    run(spec, 1, [tick(1)])

    told = r"\[tailrace:state-lost\] .* with other offsets; restore the redis that belongs"
    with pytest.raises(WorkerError, match=told):
        run(spec, 1, [tick(7)])


def test_an_older_run_cannot_close(redis_client: redis.Redis, writer: WriterSpec) -> None:
    EpochLedger(redis_client, "p").open_run([], 8)

    with pytest.raises(WorkerError, match=r"\[tailrace:state-fenced\]"):
        run(with_sinks(writer, sink("blackhole")), 1, [tick(1)])


def test_a_sink_of_inserts_refuses_updates(writer: WriterSpec) -> None:
    changes: list[Change] = [("+I", "a", 1), ("-U", "a", 1), ("+U", "a", 2)]

    with pytest.raises(SinkRefused, match=r"\[tailrace:sink-refused\] .* inserts only and got -U"):
        run(with_sinks(writer, sink("print", "append")), 2, [rows(0, changes), tick(2)])


def test_a_print_sink_keeps_the_newest(redis_client: redis.Redis, writer: WriterSpec) -> None:
    spec = dataclasses.replace(with_sinks(writer, sink("print")), print_rows_max=2)

    run(spec, 1, [rows(0, [("+I", each, 1) for each in "abcd"]), tick(1)])

    lines = redis_client.xrange("tailrace:{p}:print:print_out")
    assert [orjson.loads(each[b"change"])["data"]["k"] for _, each in lines] == ["c", "d"]


@pytest.mark.parametrize(
    ("form", "extension", "expected"),
    [
        ("changelog-json", "jsonl", b'{"op":"+I","data":{"k":"a","v":1}}\n'),
        ("json", "jsonl", b'{"k":"a","v":1}\n'),
        ("csv", "csv", b'"a",1\n'),
    ],
)
def test_files_of_each_format(
    writer: WriterSpec, tmp_path: Path, form: str, extension: str, expected: bytes
) -> None:
    run(
        with_sinks(writer, sink("filesystem", "append", path="out", format=form)),
        1,
        [rows(0, [("+I", "a", 1)]), tick(1)],
    )

    assert (tmp_path / f"out/part-0000000001-00000-0000000001.{extension}").read_bytes() == expected
    manifest = orjson.loads((tmp_path / "out/_committed-0000000001").read_bytes())
    assert manifest == {
        "epoch": 1,
        "files": [{"name": f"part-0000000001-00000-0000000001.{extension}", "rows": 1}],
    }


def test_parquet_files(writer: WriterSpec, tmp_path: Path) -> None:
    spec = with_sinks(writer, sink("filesystem", "append", path="out", format="parquet"))

    run(spec, 1, [rows(0, [("+I", "a", 1), ("+I", None, None)]), tick(1)])

    table = pq.read_table(tmp_path / "out/part-0000000001-00000-0000000001.parquet")
    assert table.to_pylist() == [{"k": "a", "v": 1}, {"k": None, "v": None}]


def test_an_epoch_without_rows_leaves_no_file(writer: WriterSpec, tmp_path: Path) -> None:
    run(with_sinks(writer, sink("filesystem", path="out", format="json")), 1, [tick(1)])

    assert not (tmp_path / "out").exists()


def test_a_commit_that_died_halfway_is_made_again_with_other_files(
    writer: WriterSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = with_sinks(writer, sink("filesystem", path="out", format="changelog-json"))
    halves = [[rows(0, [("+I", each, 1)])] for each in "abc"]

    with monkeypatch.context() as patch:
        patch.setattr("state.epochs.EpochLedger.close_epoch", _die)
        with pytest.raises(ZeroDivisionError):
            run(spec, 1, *halves, [tick(1)])
    whole = rows(0, [("+I", each, 1) for each in "abc"])
    run(spec, 1, [whole, tick(1)])

    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        ".staging",
        "_committed-0000000001",
        "part-0000000001-00000-0000000001.jsonl",
    ]
    assert (tmp_path / "out/part-0000000001-00000-0000000001.jsonl").read_bytes().count(b"\n") == 3


def _die(*_: object) -> None:
    raise ZeroDivisionError
