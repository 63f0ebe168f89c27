"""The time of an epoch, where a source tells it: part of the offset that ends the epoch."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import orjson
import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.sources import base
from tests.service.runtime.sources.readers import make_reader, read_all, read_epoch

if TYPE_CHECKING:
    from pathlib import Path

    import redis

JSON = {"path": "in", "format": "changelog-json", "source.monitor-interval": "0 ms"}
LIMIT = ReadMaxRows(100)


def write_line(root: Path, number: int) -> None:
    (root / "in").mkdir(exist_ok=True)
    data = {"id": number, "k": "k"}
    (root / "in" / f"{number}.jsonl").write_bytes(orjson.dumps({"op": "+I", "data": data}) + b"\n")


def test_all_rows_of_an_epoch_have_the_time_of_its_offset_whenever_they_are_read(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_line(tmp_path, 1)
    reader = make_reader(redis_client, tmp_path, options=JSON, tells_time=True)
    before_ms = int(time.time() * 1_000)

    (epoch,) = read_all(reader)
    later = make_reader(redis_client, tmp_path, options=JSON, tells_time=True)
    again = read_epoch(later, later.initialOffset(), epoch.end)

    assert epoch.end["time"] >= before_ms
    assert epoch.times == again.times == {epoch.end["time"]}
    assert epoch.rows == [(0, 1, "k")]


def test_the_clock_alone_begins_no_epoch_and_a_tick_does(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = make_reader(
        redis_client, tmp_path, options=JSON, tells_time=True, tick_interval_ms=1_000
    )
    clock_ns = [5_000_000_000_000]
    monkeypatch.setattr(base.time, "time_ns", lambda: clock_ns[0])
    monkeypatch.setattr(base.time, "time", lambda: clock_ns[0] / 1e9)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)

    clock_ns[0] += 999_000_000
    same = reader.latestOffset(first, LIMIT)
    clock_ns[0] += 1_000_000
    ticked = reader.latestOffset(first, LIMIT)

    assert same == first
    assert (first["time"], ticked["time"]) == (5_000_000, 5_001_000)
    assert ticked["tick"] == first["tick"] + 1


@pytest.mark.parametrize("connector", ["filesystem", "ticks"])
@pytest.mark.parametrize("longer_ms", [1_001, 2_000, 86_400_000])
def test_ticks_go_on_at_an_interval_that_was_made_longer(
    redis_client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    connector: str,
    longer_ms: int,
) -> None:
    """Its numbers are smaller than the one that is held."""
    options = JSON if connector == "filesystem" else {}
    shorter, longer = (
        make_reader(
            redis_client, tmp_path, connector=connector, options=options, tick_interval_ms=each
        )
        for each in (1_000, longer_ms)
    )
    clock_s = [1_800_000_000.0]
    monkeypatch.setattr(base.time, "time", lambda: clock_s[0])
    held = shorter.latestOffset(shorter.initialOffset(), LIMIT)

    ticks = []
    for _ in range(3):
        held = longer.latestOffset(held, LIMIT)
        ticks.append(held["tick"])
        clock_s[0] += longer_ms / 1_000

    first = 1_800_000_000_000 // longer_ms
    assert ticks == [first, first + 1, first + 2]


def test_a_clock_that_was_set_back_a_little_takes_no_tick_back(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = make_reader(redis_client, tmp_path, options=JSON, tick_interval_ms=1_000)
    monkeypatch.setattr(base.time, "time", lambda: 10_000_000.0)
    held = reader.latestOffset(reader.initialOffset(), LIMIT)

    monkeypatch.setattr(base.time, "time", lambda: 10_000_000.0 - 3_599)

    assert reader.latestOffset(held, LIMIT) == held


def test_the_first_offset_has_a_time_though_nothing_is_there(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    """Spark runs an epoch up to it, whatever it says."""
    reader = make_reader(redis_client, tmp_path, options=JSON, tells_time=True)

    first = reader.latestOffset(reader.initialOffset(), LIMIT)

    assert first["tick"] == 0
    assert read_epoch(reader, reader.initialOffset(), first).times == {first["time"]}
    assert reader.latestOffset(first, LIMIT) == first


def test_the_time_does_not_go_back_with_the_clock(
    redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_line(tmp_path, 1)
    reader = make_reader(redis_client, tmp_path, options=JSON, tells_time=True)
    first = reader.latestOffset(reader.initialOffset(), LIMIT)
    write_line(tmp_path, 2)

    monkeypatch.setattr(base.time, "time_ns", lambda: 1_000_000)
    second = reader.latestOffset(first, LIMIT)

    assert second["file"] == 2
    assert second["time"] == first["time"]


def test_an_epoch_that_an_earlier_version_planned_has_the_time_of_its_tick(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_line(tmp_path, 1)
    reader = make_reader(
        redis_client, tmp_path, options=JSON, tells_time=True, tick_interval_ms=1_000
    )
    end = reader.latestOffset(reader.initialOffset(), LIMIT)
    planned = {name: value for name, value in end.items() if name != "time"}

    again = read_epoch(reader, reader.initialOffset(), planned)

    assert again.times == {end["tick"] * 1_000}


def test_an_epoch_without_a_time_and_without_a_tick_is_refused(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_line(tmp_path, 1)
    reader = make_reader(redis_client, tmp_path, options=JSON, tells_time=True)
    (epoch,) = read_all(reader)
    planned = {name: value for name, value in epoch.end.items() if name != "time"}

    with pytest.raises(SourceChanged, match="without a time"):
        read_epoch(reader, reader.initialOffset(), planned)


def test_where_spark_tells_the_time_an_offset_has_none(
    redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_line(tmp_path, 1)
    reader = make_reader(redis_client, tmp_path, options=JSON)

    (epoch,) = read_all(reader)

    assert epoch.end == {"file": 1, "at": 0, "tick": 0}
    assert epoch.times == set()
