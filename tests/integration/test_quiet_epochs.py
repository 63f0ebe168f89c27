"""Epochs that no task of the only source reads, on real Spark: in plans of several forms."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.runtime.worker_view import workers_see
from service.sql import compile_script
from tests.integration.pipelines import Pipeline, change, write_lines

if TYPE_CHECKING:
    import redis
    from pyspark.sql.connect.session import SparkSession

SOURCE = """
CREATE TABLE s (id INT, k STRING, v INT) WITH
  ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in', 'changelog-mode' = 'I');
"""
PRINTED = "CREATE TABLE snk (k STRING, n BIGINT) WITH ('connector' = 'print');"
KEYED = """
CREATE TABLE snk (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'redis');
"""
RESULTS = {
    "no-exchange": 12,
    "materialized": [9, 10, 11],
    "two-ways": 24,
    "joined-with-itself": [32, 32, 32],
    "two-stages": [3],
    # Nothing ever comes to the total, which is there all the same.
    "total-of-nothing": [0, 0, 0],
    # Each row changes the count of its key, by two changes but for the first; and each row itself.
    "way-around": 3 * (1 + 2 * 3) + 12,
}
"""How many changes were printed, or the numbers in a table."""
RESULTS_OF_THREE = {"two-stages": [3], "materialized": [15, 16, 17]}
"""The numbers in a table once three files were read."""
PLANS = {
    "no-exchange": f"{PRINTED} INSERT INTO snk SELECT k, CAST(v AS BIGINT) FROM s WHERE v > 0;",
    "materialized": f"""{KEYED} SET 'table.exec.sink.upsert-materialize' = 'FORCE'; INSERT INTO snk
        SELECT k, CAST(id AS BIGINT) FROM s ON CONFLICT DO DEDUPLICATE;""",
    "two-ways": f"""{PRINTED} INSERT INTO snk
        SELECT k, CAST(v AS BIGINT) FROM s WHERE v > 0
        UNION ALL SELECT k, CAST(id AS BIGINT) FROM s;""",
    "joined-with-itself": f"""{KEYED} INSERT INTO snk
        SELECT a.k, SUM(b.v + a.v) FROM s AS a JOIN s AS b ON a.k = b.k GROUP BY a.k;""",
    "two-stages": f"""{KEYED} INSERT INTO snk
        SELECT CAST(c AS STRING), COUNT(*) FROM (SELECT k, COUNT(*) AS c FROM s GROUP BY k)
        GROUP BY c;""",
    "total-of-nothing": f"""{KEYED} INSERT INTO snk
        SELECT s.k, MAX(t.n) FROM s, (SELECT COUNT(*) AS n FROM s WHERE v > 5) t GROUP BY s.k;""",
    "way-around": f"""{PRINTED} INSERT INTO snk
        SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k)
        UNION ALL SELECT k, CAST(v AS BIGINT) FROM s;""",
}


def lines(first: int) -> list[bytes]:
    return [change("+I", id=n, k=f"k{n % 3}", v=1) for n in range(first, first + 6)]


def is_quiet(record: dict[str, Any]) -> bool:
    return bool(record["rows_in"] == 0)


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_one_source_go_on_through_quiet_epochs(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, name: str
) -> None:
    result, sql = RESULTS[name], PLANS[name]
    document = compile_script(SOURCE + sql)[-1].document
    write_lines(tmp_path / "in/a.jsonl", lines(0))
    options: dict[str, Any] = {"tick_interval_ms": 200, "parallelism": 2}

    with Pipeline(spark, redis_client, tmp_path, document, **options) as pipeline:
        pipeline.wait(lambda all_: len(all_) >= 3 and sum(map(is_quiet, all_)) >= 2)
        write_lines(tmp_path / "in/b.jsonl", lines(6))
        records = pipeline.wait(
            lambda all_: sum(each["rows_in"] for each in all_) >= 12 and is_quiet(all_[-1])
        )
        batches = {each["batchId"]: each for each in pipeline.query.recentProgress}

    quiet = [each for each in records if is_quiet(each)]
    read = [batches[each["epoch"] - 1] for each in quiet if each["epoch"] - 1 in batches]
    assert read
    assert {source["numInputRows"] for each in read for source in each["sources"]} == {0}
    times = [each["time_ms"] for each in records]
    assert times == [each["offsets"]["s"]["time"] for each in records]
    printed = [row["n"] for _, row in pipeline.printed("snk")]
    assert result in (sorted(each["n"] for each in pipeline.table("snk").values()), len(printed))


@pytest.mark.parametrize(("name", "result"), [("two-stages", [3]), ("materialized", [9, 10, 11])])
def test_an_epoch_that_was_planned_quiet_stays_so_when_files_have_come_since(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, name: str, result: list[int]
) -> None:
    document = compile_script(SOURCE + PLANS[name])[-1].document
    write_lines(tmp_path / "in/a.jsonl", lines(0))
    options: dict[str, Any] = {"tick_interval_ms": 200, "parallelism": 2}

    with Pipeline(spark, redis_client, tmp_path, document, **options) as pipeline:
        pipeline.wait(lambda all_: len(all_) >= 2 and is_quiet(all_[-1]))
    last = pipeline.fence()
    planned_ms = _plan_quiet(tmp_path / "checkpoint" / "offsets", last)
    write_lines(tmp_path / "in/b.jsonl", lines(6))
    with pipeline:
        records = pipeline.wait(lambda all_: sum(each["rows_in"] for each in all_) >= 12)

    again = next(each for each in records if each["epoch"] == last + 1)
    assert (again["rows_in"], again["time_ms"]) == (0, planned_ms)
    assert sum(each["rows_in"] for each in records) == 12
    assert sorted(each["n"] for each in pipeline.table("snk").values()) == result


def test_a_folder_is_seen_by_workers_if_it_is_the_same_one_for_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert workers_see(spark, tmp_path / "made", tasks=2)
    assert list((tmp_path / "made").iterdir()) == []
    # The path of an open folder of this process: another process has none, or another one, there.
    own = os.open(tmp_path, os.O_RDONLY)
    try:
        assert not workers_see(spark, Path(f"/proc/self/fd/{own}"), tasks=2)
    finally:
        os.close(own)
    assert not workers_see(spark, Path("/proc/no-folder-can-be-made-here"), tasks=2)


@pytest.mark.parametrize(
    ("name", "seen", "sources"),
    [
        ("two-stages", (False, True, False), 1),
        # As a checkpoint of an earlier version: it goes on with the source that it knows.
        ("materialized", (False, True, False), 1),
        ("materialized", (True, False, True), 2),
    ],
)
def test_epochs_without_data_go_on_as_the_checkpoint_began_whatever_workers_see(
    spark: SparkSession,
    redis_client: redis.Redis,
    tmp_path: Path,
    name: str,
    seen: tuple[bool, ...],
    sources: int,
) -> None:
    document = compile_script(SOURCE + PLANS[name])[-1].document
    options: dict[str, Any] = {"tick_interval_ms": 200, "parallelism": 2}

    for turn, sees in enumerate(seen):
        write_lines(tmp_path / f"in/{turn}.jsonl", lines(6 * turn))
        with Pipeline(
            spark, redis_client, tmp_path, document, workers_see_checkpoint=sees, **options
        ) as pipeline:
            came = len(pipeline.progress())
            records = pipeline.wait(
                lambda all_, came=came, rows=6 * (turn + 1): (
                    len(all_) >= came + 3
                    and sum(each["rows_in"] for each in all_) == rows
                    and is_quiet(all_[-1])
                )
            )
            batches = {each["batchId"]: each for each in pipeline.query.recentProgress}
        quiet = [each["epoch"] - 1 for each in records[came:] if is_quiet(each)]
        read = [batches[each]["sources"] for each in quiet if each in batches]
        assert {len(each) for each in read} == {sources}
        # Rows that Spark counts are ticks.
        assert {any(source["numInputRows"] for source in each) for each in read} == {not sees}
        # Redis has closed the last epoch; Spark asks the next turn for it again, with its ticks.
        _forget(tmp_path / "checkpoint", pipeline.fence())

    table = pipeline.table("snk").values()
    assert sorted(each["n"] for each in table) == RESULTS_OF_THREE[name]


@pytest.mark.parametrize("name", ["no-exchange", "materialized", "two-ways"])
def test_an_epoch_that_redis_has_closed_needs_its_input_no_more(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, name: str
) -> None:
    """Files that were read are archived, and lines that are no changes are to fail from now on."""
    document = compile_script(SOURCE + PLANS[name])[-1].document
    write_lines(tmp_path / "in/a.jsonl", [*lines(0), b"no change"])
    with Pipeline(spark, redis_client, tmp_path, document) as pipeline:
        pipeline.wait_for_rows(7)
    _forget(tmp_path / "checkpoint", pipeline.fence())
    (tmp_path / "in/a.jsonl").unlink()
    write_lines(tmp_path / "in/b.jsonl", lines(6))

    options = {"on_malformed": "fail", "tick_interval_ms": 200}
    with Pipeline(spark, redis_client, tmp_path, document, **options) as pipeline:
        records = pipeline.wait(lambda all_: sum(each["rows_in"] for each in all_) >= 12)

    assert [each["epoch"] for each in records] == list(range(1, len(records) + 1))
    assert sum(each["dead"] for each in records) == 1
    printed = [row["n"] for _, row in pipeline.printed("snk")]
    assert RESULTS[name] in (
        sorted(each["n"] for each in pipeline.table("snk").values()),
        len(printed),
    )


def _forget(checkpoint: Path, closed: int) -> None:
    """Take back what Spark has recorded since it planned an epoch that Redis has closed."""
    for log, first in (("commits", closed - 1), ("offsets", closed)):
        newer = [each for each in (checkpoint / log).iterdir() if _batch_of(each) >= first]
        for each in newer:
            each.unlink()


def _batch_of(path: Path) -> int:
    """The batch that a file of a log is of, its checksum too; -1 for what is no such file."""
    name = path.name.removeprefix(".").removesuffix(".crc")
    return int(name) if name.isdecimal() else -1


def _plan_quiet(offsets: Path, last: int) -> int:
    """Plan the epoch after the last, a tick later, as a server does that is killed right then."""
    names = sorted(int(each.name) for each in offsets.iterdir() if each.name.isdigit())
    *before, text = (offsets / str(names[-1])).read_text().split("\n")
    end = orjson.loads(text)
    if names[-1] == last - 1:
        end |= {"tick": end["tick"] + 1, "time": end["time"] + 7}
        (offsets / str(last)).write_text("\n".join((*before, orjson.dumps(end).decode())))
    return int(end["time"])
