"""Aggregates, join, rank and materializer in one query, killed at random, against SQL in batch.

*The carriers with the most flights of each maker's aircraft.* The planner aggregates before the
join and behind it. The first days of January and a kill of each process by default; the whole year
and ten kills with `make test-year` and `make test-all`, which set the variables below.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pyarrow.parquet
import pytest

from service.demo.flights import write_changelog
from tests.integration.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MONTHS = int(os.environ.get("TAILRACE_TEST_MONTHS", "0"))
"""0: the first days of January."""
WAIT_S = 1_800 if MONTHS else 240
"""For the changes up to the next kill: many, and on a machine that may have other work."""

pytestmark = pytest.mark.timeout(2 * WAIT_S + 1_800)

PLANES = Path(__file__).with_name("planes.parquet")
LAST_DAY = "2013-01-08"
KILLS = int(os.environ.get("TAILRACE_TEST_KILLS", "4"))
SEED = int(os.environ.get("TAILRACE_TEST_SEED", "7"))
"""Of what is killed, and when."""
BEST = 3

SQL = f"""
SET 'table.exec.sink.upsert-materialize' = 'FORCE';
CREATE TABLE flights (
  flight_id STRING, tailnum STRING, carrier STRING, dep_delay INT,
  PRIMARY KEY (flight_id) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'flights',
        'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE planes (
  tailnum STRING, manufacturer STRING, PRIMARY KEY (tailnum) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'planes',
        'changelog-mode' = 'I');
CREATE TABLE best (
  manufacturer STRING, place BIGINT, carrier STRING, flights BIGINT, delay INT,
  PRIMARY KEY (manufacturer, place) NOT ENFORCED
) WITH ('connector' = 'redis');
INSERT INTO best
SELECT manufacturer, place, carrier, flights, delay FROM (
  SELECT *, ROW_NUMBER() OVER (
    PARTITION BY manufacturer ORDER BY flights DESC, carrier ASC) AS place
  FROM (
    SELECT p.manufacturer, f.carrier, COUNT(*) AS flights, SUM(f.dep_delay) AS delay
    FROM flights AS f JOIN planes AS p ON f.tailnum = p.tailnum
    GROUP BY p.manufacturer, f.carrier))
WHERE place <= {BEST};
"""
TABLES = {
    "flights": "flight_id STRING, tailnum STRING, carrier STRING, dep_delay INT",
    "planes": "tailnum STRING, manufacturer STRING",
}
BATCH = f"""
WITH flown AS (
  SELECT data.* FROM flights GROUP BY data HAVING SUM(IF(op IN ('+I', '+U'), 1, -1)) > 0),
counted AS (
  SELECT p.data.manufacturer, f.carrier, COUNT(*) AS n, SUM(f.dep_delay) AS delay
  FROM flown AS f JOIN planes AS p ON f.tailnum = p.data.tailnum
  GROUP BY p.data.manufacturer, f.carrier),
ranked AS (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY manufacturer ORDER BY n DESC, carrier) AS place
  FROM counted)
SELECT * FROM ranked WHERE place <= {BEST}
"""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("chain")) as running:
        yield running


def test_five_operators_survive_kills(system: System) -> None:
    flights = system.files / "flights"
    write_changelog(flights, months=range(1, max(MONTHS, 1) + 1))
    if not MONTHS:
        _cut(flights)
    makers = _write_planes(system.files / "planes")
    lines = sum(len(each.read_bytes().splitlines()) for each in flights.iterdir())
    total = lines + len(makers)
    system.post(
        "/v1/pipelines",
        {"name": "best", "sql": SQL, "options": {"rows_per_epoch_max": total // 20}, "start": True},
    )

    def rows_in() -> int:
        reply = system.http.get("/v1/pipelines/best/progress", params={"limit": 1})
        return int(reply.json()["totals"]["rows_in"]) if reply.is_success else 0

    chance = random.Random(SEED)
    ways = _ways_to_kill(system)
    for number in range(KILLS):
        if number % len(ways) == 0:
            # Each kind of process once, before one comes again.
            chance.shuffle(ways)
        kill = ways[number % len(ways)]
        reached = int(total * (number + chance.random()) / (KILLS + 1))
        system.wait_for(f"{reached} changes", lambda reached=reached: rows_in() >= reached, WAIT_S)
        assert rows_in() < total, "the input ended before the kill: it proves nothing"
        kill()
    system.wait_for("all changes", lambda: rows_in() >= total, timeout_s=1_800)

    found = {
        (row["manufacturer"], row["place"]): (row["carrier"], row["flights"], row["delay"])
        for row in system.table("best", "best")
    }
    assert found == _batch(system), f"seed {SEED}"
    operators = system.get("/v1/pipelines/best/operators")["items"]
    assert [each["kind"] for each in operators] == [
        "group-aggregate",
        "join",
        "group-aggregate",
        "rank",
        "sink-materializer",
    ]


def _cut(folder: Path) -> None:
    """Leave the first days; what changes later stays as it was then."""
    for path in folder.iterdir():
        if path.name > LAST_DAY:
            path.unlink()


def _ways_to_kill(system: System) -> list[Callable[[], None]]:
    def workers() -> None:
        system.wait_for("a Python worker to kill", system.kill_python_workers, 120)

    def service() -> None:
        system.kill_service()
        system.start_service()

    def redis() -> None:
        system.redis.kill()
        system.redis.start()
        system.redis.wait()

    def spark() -> None:
        system.spark.kill()
        system.spark.start()
        system.spark.wait(240)

    return [workers, service, redis, spark]


def _write_planes(folder: Path) -> dict[str, str]:
    """Write the aircraft, and give the maker of each."""
    planes = pyarrow.parquet.read_table(PLANES).to_pydict()
    makers = dict(zip(planes["tailnum"], planes["manufacturer"], strict=True))
    folder.mkdir()
    lines = [
        orjson.dumps({"op": "+I", "data": {"tailnum": tailnum, "manufacturer": maker}})
        for tailnum, maker in makers.items()
    ]
    (folder / "planes.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return makers


def _batch(system: System) -> dict[tuple[str, int], tuple[str, int, int | None]]:
    """The table that SQL in batch gives for what is left of the changelog.

    The server's own session answers, without anything of ours: it reads the files as JSON.
    """
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession.builder.remote(system.spark.remote).create()
    try:
        for name, columns in TABLES.items():
            lines = session.read.schema(f"op STRING, data STRUCT<{columns}>")
            lines.json(str(system.files / name)).createOrReplaceTempView(name)
        rows = session.sql(BATCH).collect()
    finally:
        session.stop()
    return {(each.manufacturer, each.place): (each.carrier, each.n, each.delay) for each in rows}
