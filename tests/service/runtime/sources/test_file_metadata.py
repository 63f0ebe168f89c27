"""Metadata of files as columns: what was found at the discovery, whatever becomes of the file."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from service.plan.metadata import readable_metadata
from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources import file_formats
from state.types import format_type
from tests.service.runtime.sources.readers import make_reader, read_all, read_epoch

if TYPE_CHECKING:
    from pathlib import Path

    import redis

METADATA = tuple((key, format_type(kind)) for key, kind in readable_metadata("filesystem").items())
JSON = {"path": "in", "format": "json", "source.monitor-interval": "0 ms"}
LOG = "tailrace:{p}:files:t"


def write(path: Path, content: bytes, modified_ms: int = 1_700_000_000_123) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    # Parts of a millisecond are left out, as in Flink.
    os.utime(path, ns=(0, modified_ms * 1_000_000 + 999_999))


def instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1_000, UTC).replace(
        microsecond=milliseconds % 1_000 * 1_000
    )


def parquet(rows: dict[str, list[object]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", b'{"id": 1, "k": "a"}\n{"id": 2, "k": "b"}\n'),
        ("csv", b"1,a\n2,b\n"),
        ("changelog-json", b'{"op": "+I", "data": {"id": 1, "k": "a"}}\n' * 2),
        ("parquet", parquet({"id": [1, 2], "k": ["a", "b"]})),
    ],
)
def test_each_row_has_what_its_file_tells(
    redis_client: redis.Redis, tmp_path: Path, form: str, content: bytes
) -> None:
    write(tmp_path / "in/sub dir/\u00e4 1.x", content)
    reader = make_reader(
        redis_client, tmp_path, options={**JSON, "format": form}, metadata=METADATA
    )

    ((first, second),) = (each.rows for each in read_all(reader))

    path = str(tmp_path / "in/sub dir/\u00e4 1.x")
    told = (path, "\u00e4 1.x", len(content), instant(1_700_000_000_123))
    assert first == (0, 1, "a", *told)
    assert second[3:] == told


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_metadata_is_read_without_any_column(
    redis_client: redis.Redis, tmp_path: Path, form: str
) -> None:
    lines = {"csv": b"1,a\n2,b\n", "json": b'{"id": 1}\n{"id": 2}\n'}
    write(tmp_path / "in/a", lines.get(form) or parquet({"id": [1, 2]}))
    reader = make_reader(
        redis_client,
        tmp_path,
        options={**JSON, "format": form},
        names=(),
        types=(),
        metadata=METADATA[1:2],
    )

    assert [each.rows for each in read_all(reader)] == [[(0, "a"), (0, "a")]]


def test_a_refused_line_has_none(redis_client: redis.Redis, tmp_path: Path) -> None:
    write(tmp_path / "in/a", b'{"id": 1}\nno\n{"id": 3}\n')
    reader = make_reader(redis_client, tmp_path, options=JSON, metadata=METADATA[1:2])

    (epoch,) = read_all(reader)

    assert epoch.rows == [(0, 1, None, "a"), (0, 3, None, "a")]
    assert len(epoch.dead) == 1


def test_a_replay_tells_what_was_told_before(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the file was touched, and the root is another folder by now."""
    monkeypatch.setattr(file_formats.LineFormat, "task_units", 16)
    write(tmp_path / "old/in/a", b"".join(b'{"id": %d}\n' % each for each in range(9)), 1_000)
    write(tmp_path / "old/in/b", b'{"id": 9}\n', 2_000)
    reader = make_reader(redis_client, tmp_path / "old", options=JSON, metadata=METADATA)
    epochs = read_all(reader, rows_max=4)

    shutil.move(tmp_path / "old", tmp_path / "new")
    os.utime(tmp_path / "new/in/a")
    write(tmp_path / "new/in/b", b'{"id": 9}\n', 9_000)
    moved = make_reader(redis_client, tmp_path / "new", options=JSON, metadata=METADATA)
    start = moved.initialOffset()
    for each in epochs:
        again = read_epoch(moved, start, each.end)
        assert (again.rows, again.orders) == (each.rows, each.orders)
        start = each.end
    write(tmp_path / "new/in/c", b'{"id": 10}\n', 3_000)
    last = read_epoch(moved, start, moved.latestOffset(start, moved.getDefaultReadLimit()))

    assert epochs[0].tasks == 2
    assert {row[3] for each in epochs for row in each.rows} == {
        str(tmp_path / "old/in/a"),
        str(tmp_path / "old/in/b"),
    }
    assert last.rows == [(0, 10, None, str(tmp_path / "new/in/c"), "c", 11, instant(3_000))]


def test_a_log_without_metadata_is_as_it_was(redis_client: redis.Redis, tmp_path: Path) -> None:
    write(tmp_path / "in/a", b'{"id": 1}\n', 5)
    read_all(make_reader(redis_client, tmp_path, options=JSON))
    entries = redis_client.lrange(LOG, 0, -1)
    redis_client.delete(LOG)
    read_all(make_reader(redis_client, tmp_path, options=JSON, metadata=METADATA[:1]))

    assert list(map(orjson.loads, entries)) == [["in/a", 10, 10]]
    assert list(map(orjson.loads, redis_client.lrange(LOG, 0, -1))) == [
        ["in/a", 10, 10, str(tmp_path), 5]
    ]


def test_a_file_whose_metadata_was_not_noted_is_named(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    """A savepoint of a plan that read none was restored to one that does."""
    write(tmp_path / "in/a", b'{"id": 1}\n')
    before = make_reader(redis_client, tmp_path, options=JSON)
    (epoch,) = read_all(before)
    reader = make_reader(redis_client, tmp_path, options=JSON, metadata=METADATA[:1])

    with pytest.raises(SourceChanged, match="in/a was discovered by a plan that read no metadata"):
        reader.partitions(reader.initialOffset(), epoch.end)

    write(tmp_path / "in/b", b'{"id": 2}\n')
    after = reader.latestOffset(epoch.end, reader.getDefaultReadLimit())
    assert read_epoch(reader, epoch.end, after).rows == [(0, 2, None, str(tmp_path / "in/b"))]
