"""Files as a source: what is in an epoch, in which order, and the same again on a replay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.runtime.dataflow_errors import MalformedChange, SourceChanged, SourceUnavailable
from service.runtime.sources import file_formats, parquet_files
from tests.service.runtime.sources.readers import Epoch, make_reader, read_all, read_epoch
from tests.service.runtime.unprivileged import closed_folder

if TYPE_CHECKING:
    from pathlib import Path

    import redis

JSON = {"path": "in", "format": "changelog-json"}


def line(number: int, op: str = "+I", **more: object) -> bytes:
    data = {"id": number, "k": f"k{number}"}
    return orjson.dumps({"op": op, "data": data, **more}) + b"\n"


def write(root: Path, name: str, content: bytes) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_all_lines_come_once_in_order_however_they_are_cut(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats.LineFormat, "task_units", 64)
    monkeypatch.setattr(file_formats, "_BLOCK_BYTES", 50)
    write(tmp_path, "in/a.jsonl", b"".join(map(line, range(20))))
    write(tmp_path, "in/b.jsonl", b"".join(map(line, range(20, 33))).rstrip(b"\n"))
    reader = make_reader(redis_client, tmp_path, options=JSON)

    epochs = read_all(reader, rows_max=15)

    assert [len(each.rows) for each in epochs] == [15, 15, 3]
    rows = [row for each in epochs for row in each.rows]
    assert rows == [(0, number, f"k{number}") for number in range(33)]
    assert epochs[0].tasks == 2
    assert all(len(set(each.orders)) == len(each.orders) for each in epochs)
    assert sum(orjson.loads(note)["rows"] for each in epochs for note in each.notes) == 33


def test_new_files_are_picked_up_and_a_replay_reads_the_same(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    options = {**JSON, "source.monitor-interval": "0 ms"}
    write(tmp_path, "in/b.jsonl", line(1))
    reader = make_reader(redis_client, tmp_path, options=options)
    (first,) = read_all(reader)

    write(tmp_path, "in/a.jsonl", line(2))
    second_end = reader.latestOffset(first.end, reader.getDefaultReadLimit())
    write(tmp_path, "in/c.jsonl", line(3))
    restarted = make_reader(redis_client, tmp_path, options=options)

    assert read_epoch(restarted, first.end, second_end).rows == [(0, 2, "k2")]
    assert read_epoch(restarted, restarted.initialOffset(), first.end).rows == [(0, 1, "k1")]
    third_end = restarted.latestOffset(second_end, restarted.getDefaultReadLimit())
    assert read_epoch(restarted, second_end, third_end).rows == [(0, 3, "k3")]


def test_an_epoch_that_redis_has_closed_needs_its_files_no_more(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    """Spark missed the note of it, and asks the next run for it; files that were read are gone."""
    write(tmp_path, "in/a.jsonl", line(1) + b"no change\n")
    (first,) = read_all(make_reader(redis_client, tmp_path, options=JSON))
    (tmp_path / "in/a.jsonl").unlink()
    write(tmp_path, "in/b.jsonl", line(2))
    changes: dict[str, Any] = {"options": JSON, "fail_on_malformed": True}

    def again() -> Epoch:
        reader = make_reader(redis_client, tmp_path, **changes)
        read_epoch(reader, reader.initialOffset(), first.end)
        # Where rows go two ways Spark asks for both.
        return read_epoch(reader, reader.initialOffset(), first.end)

    with pytest.raises(SourceChanged):
        again()
    # As a version that kept ticks in the marker has closed it, too.
    for known in ({}, {"tick": 3}):
        closed = {"t": {**first.end, **known}}
        redis_client.hset("tailrace:{p}:marker", "offsets", orjson.dumps(closed))
        epoch = again()
        assert (epoch.rows, epoch.dead, epoch.tasks) == ([], [], 1)
        assert orjson.loads(epoch.notes[0])["end"] == first.end

    reader = make_reader(redis_client, tmp_path, **changes)
    end = reader.latestOffset(first.end, reader.getDefaultReadLimit())
    assert read_epoch(reader, first.end, end).rows == [(0, 2, "k2")]


@pytest.mark.parametrize(
    "earlier", ["part-0000000007-00000-0000000001.jsonl", "part-0000000007-00000.jsonl"]
)
@pytest.mark.parametrize("are_both_there", [False, True], ids=["seen first", "seen together"])
def test_an_epoch_that_another_run_of_its_pipeline_wrote_again_is_read_once(
    redis_client: redis.Redis, tmp_path: Path, earlier: str, *, are_both_there: bool
) -> None:
    """Its driver died between showing the files and closing: the next run gives them its name."""
    options = {**JSON, "source.monitor-interval": "0 ms"}
    reader = make_reader(redis_client, tmp_path, options=options)
    rows = line(1) + line(2)
    write(tmp_path, f"in/{earlier}", rows)
    if not are_both_there:
        read_all(reader)
    write(tmp_path, "in/part-0000000007-00000-0000000002.jsonl", rows)
    first, *others = read_all(reader)
    (tmp_path / "in" / earlier).unlink()
    write(tmp_path, "in/part-0000000007-00001-0000000002.jsonl", line(3))
    restarted = make_reader(redis_client, tmp_path, options=options)

    again = read_epoch(restarted, restarted.initialOffset(), first.end)
    whole = [row for each in read_all(restarted) for row in each.rows]

    assert not others
    assert first.rows == again.rows == [(0, 1, "k1"), (0, 2, "k2")]
    assert whole == [*first.rows, (0, 3, "k3")]


def test_each_shuffle_partition_gets_one_tick_and_the_first_one_a_note(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    reader = make_reader(
        redis_client, tmp_path, options=JSON, partitions=3, tick_interval_ms=60_000
    )

    (epoch,) = read_all(reader)

    assert sorted(epoch.ticks) == [0, 1, 2]
    assert [orjson.loads(each)["end"] for each in epoch.notes] == [epoch.end]
    assert epoch.end["tick"] > 0
    assert epoch.rows == []


def test_a_changed_file_fails_the_replay(redis_client: redis.Redis, tmp_path: Path) -> None:
    write(tmp_path, "in/a.jsonl", line(1) + line(2))
    reader = make_reader(redis_client, tmp_path, options=JSON)
    (epoch,) = read_all(reader)

    write(tmp_path, "in/a.jsonl", line(1))

    with pytest.raises(SourceChanged, match="bytes"):
        read_epoch(reader, reader.initialOffset(), epoch.end)


def test_bytes_appended_after_the_discovery_are_not_read(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write(tmp_path, "in/a.jsonl", line(1))
    reader = make_reader(redis_client, tmp_path, options=JSON)
    (epoch,) = read_all(reader)

    write(tmp_path, "in/a.jsonl", line(1) + line(2))

    assert read_epoch(reader, reader.initialOffset(), epoch.end).rows == [(0, 1, "k1")]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_file_that_grows_after_its_discovery_fails_and_is_named(
    redis_client: redis.Redis, tmp_path: Path, *, is_restarted: bool
) -> None:
    options = {**JSON, "source.monitor-interval": "0 ms"}
    write(tmp_path, "in/a.jsonl", line(1))
    write(tmp_path, "in/b.jsonl", line(2))
    reader = make_reader(redis_client, tmp_path, options=options)
    (epoch,) = read_all(reader)
    if is_restarted:
        reader = make_reader(redis_client, tmp_path, options=options)

    write(tmp_path, "in/b.jsonl", line(2) + line(3))

    with pytest.raises(SourceChanged, match=r"in/b\.jsonl grew .* rename them into place"):
        reader.latestOffset(epoch.end, reader.getDefaultReadLimit())


def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    options = {**JSON, "source.monitor-interval": "0 ms"}
    write(tmp_path, "in/sub/a.jsonl", line(1))
    reader = make_reader(redis_client, tmp_path, options=options)

    with (
        closed_folder(tmp_path / "in" / "sub"),
        pytest.raises(SourceUnavailable, match='files in "in" cannot be listed: Permission denied'),
    ):
        read_all(reader)

    (epoch,) = read_all(reader)
    assert epoch.rows == [(0, 1, "k1")]


def test_malformed_lines_become_dead_letters_with_their_position(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write(tmp_path, "in/a.jsonl", line(1) + b"{oops\n" + line(2) + b'{"op":"+X","data":{}}\n')
    reader = make_reader(redis_client, tmp_path, options=JSON)

    (epoch,) = read_all(reader)

    assert epoch.rows == [(0, 1, "k1"), (0, 2, "k2")]
    letters = [orjson.loads(each) for each in epoch.dead]
    positions = [each["position"] for each in letters]
    assert positions == ["in/a.jsonl line 2", "in/a.jsonl line 4"]
    assert all(each["table"] == "t" and each["reason"] for each in letters)


def test_a_dead_letter_names_its_line_however_the_file_is_cut(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_formats.LineFormat, "task_units", 64)
    monkeypatch.setattr(file_formats, "_BLOCK_BYTES", 100)
    lines = [b"{oops" if n % 3 == 0 else line(n).rstrip() for n in range(1, 40)]
    lines[10] = b""
    write(tmp_path, "in/a.jsonl", b"\n".join(lines))
    write(tmp_path, "in/b.jsonl", b"{oops\r\n{oops")

    epochs = read_all(make_reader(redis_client, tmp_path, options=JSON), rows_max=7)

    assert len(epochs) > 3
    told = [orjson.loads(each)["position"] for epoch in epochs for each in epoch.dead]
    expected = [f"in/a.jsonl line {n}" for n, each in enumerate(lines, 1) if each == b"{oops"]
    assert sorted(told) == sorted([*expected, "in/b.jsonl line 1", "in/b.jsonl line 2"])


def test_a_kind_that_the_source_may_not_carry_is_a_dead_letter(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write(tmp_path, "in/a.jsonl", line(1) + line(1, "-D") + line(2, "+U"))
    options = {**JSON, "changelog-mode": "I,UA"}

    (epoch,) = read_all(make_reader(redis_client, tmp_path, options=options))

    assert epoch.rows == [(0, 1, "k1"), (2, 2, "k2")]
    assert "-D is not in changelog-mode" in epoch.dead[0]


def test_a_malformed_line_fails_the_epoch_where_that_is_asked(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write(tmp_path, "in/a.jsonl", line(1) + b"{oops\n")
    reader = make_reader(redis_client, tmp_path, options=JSON, fail_on_malformed=True)

    with pytest.raises(
        MalformedChange, match=r"\[tailrace:malformed-change\] t at in/a.jsonl line 2:"
    ):
        read_all(reader)


def test_json_rows_are_inserts(redis_client: redis.Redis, tmp_path: Path) -> None:
    write(tmp_path, "in/a.json", b'{"id":1,"k":"x"}\n{"k":null,"id":2,"z":0}\n')

    (epoch,) = read_all(
        make_reader(redis_client, tmp_path, options={"path": "in", "format": "json"})
    )

    assert epoch.rows == [(0, 1, "x"), (0, 2, None)]


def test_csv_rows_are_split_cast_and_refused_one_by_one(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    content = b'1,"a,b",1.50\r\n\r\n2,,-0.25\r\nx,c,1\r\n3,d\r\n4,e,\r\n'
    write(tmp_path, "in/a.csv", content)
    columns = {"id": "INT", "k": "STRING", "d": "DECIMAL(5, 2)"}

    (epoch,) = read_all(
        make_reader(redis_client, tmp_path, columns, options={"path": "in", "format": "csv"})
    )

    assert [row[:3] for row in epoch.rows] == [(0, 1, "a,b"), (0, 2, None), (0, 4, "e")]
    assert [str(row[3]) for row in epoch.rows] == ["1.50", "-0.25", "None"]
    positions = [orjson.loads(each)["position"] for each in epoch.dead]
    assert positions == ["in/a.csv line 4", "in/a.csv line 5"]


def test_csv_gives_the_columns_asked_for(redis_client: redis.Redis, tmp_path: Path) -> None:
    write(tmp_path, "in/a.csv", b"1;x;7\n2;y;8\n")
    reader = make_reader(
        redis_client,
        tmp_path,
        {"c": "BIGINT", "a": "INT"},
        options={"path": "in", "format": "csv", "csv.field-delimiter": ";"},
        physical=(("a", "INT"), ("b", "STRING"), ("c", "BIGINT")),
    )

    (epoch,) = read_all(reader)

    assert epoch.rows == [(0, 7, 1), (0, 8, 2)]


def test_parquet_is_cut_by_rows(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files.ParquetFormat, "task_units", 4)
    (tmp_path / "in").mkdir()
    table = pa.table({"k": [f"k{each}" for each in range(25)], "id": list(range(25))})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=7)
    pq.write_table(table.slice(0, 3), tmp_path / "in" / "b.parquet")

    epochs = read_all(
        make_reader(redis_client, tmp_path, options={"path": "in", "format": "parquet"}), 10
    )

    assert [len(each.rows) for each in epochs] == [10, 10, 8]
    rows = [row for each in epochs for row in each.rows]
    assert rows == [(0, n, f"k{n}") for n in [*range(25), 0, 1, 2]]


def test_times_of_parquet_have_the_digits_of_their_columns(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    """As those of JSON: a key is one key, and has one key group, however it came."""
    instants = pa.array([None, -1, 999, 1_001_999], pa.timestamp("us"))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"a": instants, "b": instants}), tmp_path / "in" / "a.parquet")

    (epoch,) = read_all(
        make_reader(
            redis_client,
            tmp_path,
            {"a": "TIMESTAMP(3)", "b": "TIMESTAMP(6)"},
            options={"path": "in", "format": "parquet"},
        )
    )

    assert [(a and us(a), b and us(b)) for _, a, b in epoch.rows] == [
        (None, None),
        (-1000, -1),
        (0, 999),
        (1_001_000, 1_001_999),
    ]


PARQUET = {"path": "in", "format": "parquet"}


def test_a_value_of_parquet_that_does_not_fit_is_a_dead_letter_of_its_own(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_PARQUET_ROWS", 3)
    (tmp_path / "in").mkdir()
    ids = [1, None, 3, 1 << 40, 5, None, 7]
    pq.write_table(pa.table({"id": ids, "k": ["x"] * 7}), tmp_path / "in" / "a.parquet")
    columns = {"id": "INT NOT NULL", "k": "STRING"}

    (epoch,) = read_all(make_reader(redis_client, tmp_path, columns, options=PARQUET))

    assert epoch.rows == [(0, each, "x") for each in (1, 3, 5, 7)]
    told = [orjson.loads(each) for each in epoch.dead]
    assert [(each["position"], each["reason"]) for each in told] == [
        ("in/a.parquet row 2", 'column "id" must be INT NOT NULL, found null'),
        ("in/a.parquet row 4", 'column "id" must be INT NOT NULL, found a value that does not fit'),
        ("in/a.parquet row 6", 'column "id" must be INT NOT NULL, found null'),
    ]


@pytest.mark.parametrize("held", [{"id": [1, 2]}, {"other": [1, 2]}])
def test_columns_that_a_parquet_file_lacks_are_null(
    redis_client: redis.Redis, tmp_path: Path, held: dict[str, list[int]]
) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(held), tmp_path / "in" / "a.parquet")

    (epoch,) = read_all(make_reader(redis_client, tmp_path, options=PARQUET))

    assert epoch.rows == [(0, each, None) for each in held.get("id", [None, None])]


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({}, "t: in/b.parquet is not Parquet; take it away"),
        ({"k": ["x"]}, 't: in/b.parquet has no column "id", which is NOT NULL; take it away'),
        ({"id": [{"a": 1}]}, 'column "id" is struct<a: int64>, which is no INT NOT NULL'),
    ],
)
def test_a_parquet_file_that_is_refused_can_be_taken_away(
    redis_client: redis.Redis, tmp_path: Path, columns: dict[str, list[Any]], reason: str
) -> None:
    write(tmp_path, "in/b.parquet", b"no columns")
    if columns:
        pq.write_table(pa.table(columns), tmp_path / "in" / "b.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "in" / "a.parquet")
    table = {"id": "INT NOT NULL", "k": "STRING"}

    with pytest.raises(SourceChanged) as caught:
        read_all(make_reader(redis_client, tmp_path, table, options=PARQUET))
    (tmp_path / "in" / "b.parquet").unlink()
    (epoch,) = read_all(make_reader(redis_client, tmp_path, table, options=PARQUET))

    assert reason in str(caught.value)
    assert epoch.rows == [(0, 1, None)]


def us(instant: datetime) -> int:
    return (instant.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )


def test_epochs_that_are_given_have_their_lines_and_times(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    marks = [0, 0, 300, 3000]
    write(tmp_path, "in/a.jsonl", b"".join(line(n, t=t) for n, t in enumerate(marks)))
    options = given([0, 10], [None, 11], [7, 12], [300, 12], [3000, 20], [None, 21])
    reader = make_reader(redis_client, tmp_path, options=options, tick_interval_ms=1_000)

    epochs = read_all(reader)

    assert [[row[1] for row in each.rows] for each in epochs] == [[0, 1], [], [], [2], [3], []]
    assert [each.times for each in epochs] == [{10}, {11}, {12}, {12}, {20}, {21}]
    assert [orjson.loads(each.notes[0])["is_last"] for each in epochs] == [False] * 4 + [True] * 2


def test_a_line_without_a_mark_is_a_dead_letter_and_ends_no_epoch(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    bad = [b"{oops\n", b"[]\n", line(9), line(9, t="0"), line(9, t=True), b"\n"]
    content = [bad[0], line(1, t=5), *bad[1:3], line(2, t=5), *bad[3:], line(3, t=7)]
    write(tmp_path, "in/a.jsonl", b"".join(content))
    options = given([5, 1], [7, 2])

    epochs = read_all(make_reader(redis_client, tmp_path, options=options))

    assert [[row[1] for row in each.rows] for each in epochs] == [[1, 2], [3]]
    assert [len(each.dead) for each in epochs] == [5, 0]


def given(*epochs: list[int | None]) -> dict[str, str]:
    return {**JSON, "testing.time-field": "t", "testing.epochs": orjson.dumps(epochs).decode()}
