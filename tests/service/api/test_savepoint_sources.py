"""A savepoint is restored by plans that read what it was taken of: tables, rows, and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.backends.interface import EpochStamp
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.savepoint import read_manifest
from tests.service.api.test_savepoints import fake_checkpoint, taken
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient


TABLES = """
CREATE TABLE s (id INT, v STRING) WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'print');
INSERT INTO t """


ROWS = "SELECT * FROM (VALUES (1, 'a')) AS x (id, v)"


ALONE = f"{TABLES} SELECT id, v FROM s"


BEHIND = f"{ALONE} UNION ALL {ROWS}"


BEFORE = f"{TABLES} {ROWS} UNION ALL SELECT id, v FROM s"


def test_rows_that_stand_in_a_plan_are_one_of_its_sources(
    app: AppClient, redis_client: redis.Redis
) -> None:
    """Spark has an offset of them, in the plan's order, as of every other source."""
    assert app.post("/v1/pipelines", {"name": "p", "sql": BEHIND}).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    fake_checkpoint(app, "p", 1)
    made = taken(app)
    assert made["state"] == "COMPLETED", made
    restore = {"savepoint": f"p/{made['id']}"}

    for sql, reads in ((ALONE, "s (ingress)"), (BEFORE, "values (), s (ingress)")):
        answer = app.post("/v1/pipelines", {"name": "q", "sql": sql, "restore": restore})
        assert_problem(answer, 409, "savepoint-unusable")
        told = f"reads s (ingress), values (), this one reads {reads}"
        assert answer.json()["detail"].endswith(told)
    same = app.post("/v1/pipelines", {"name": "q", "sql": BEHIND, "restore": restore})
    assert same.status_code == 201, same.text


TWO_SINKS = """
CREATE TABLE s (id INT, v STRING) WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'print');
CREATE TABLE u (v STRING) WITH ('connector' = '{}');
EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id, v FROM s; {} END;
"""


OF_U = "INSERT INTO u SELECT v FROM s WHERE id > 1;"


def test_a_plan_that_reads_a_table_less_often_is_refused(
    app: AppClient, redis_client: redis.Redis
) -> None:
    """Spark has as many offsets of a table as there are ways from it to a sink."""
    body = {"name": "p", "sql": TWO_SINKS.format("print", OF_U)}
    assert app.post("/v1/pipelines", body).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    fake_checkpoint(app, "p", 1)
    restore = {"savepoint": f"p/{taken(app)['id']}"}

    fewer = {"name": "q", "sql": TWO_SINKS.format("print", ""), "restore": restore}
    answer = app.post("/v1/pipelines", fewer)
    unwanted = {"name": "q", "sql": TWO_SINKS.format("blackhole", OF_U), "restore": restore}

    assert_problem(answer, 409, "savepoint-unusable")
    assert answer.json()["detail"].endswith("reads s, s, this one would read s")
    assert app.post("/v1/pipelines", unwanted).status_code == 201


def test_a_table_that_is_read_too_often_to_be_listed_is_not(
    app: AppClient, redis_client: redis.Redis
) -> None:
    """Views of a view twice: with each there are twice as many ways to the sink, 1,024 at last."""
    tables = TWO_SINKS.partition("EXECUTE")[0].format("print")
    views = "".join(
        f"CREATE TEMPORARY VIEW v{n} AS SELECT * FROM {of} UNION ALL SELECT * FROM {of};"
        for n, of in enumerate(["s", *(f"v{n}" for n in range(9))])
    )
    sql = f"{tables} {views} INSERT INTO t SELECT * FROM v9;"
    assert app.post("/v1/pipelines", {"name": "p", "sql": sql}).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    fake_checkpoint(app, "p", 1)
    made = taken(app)["id"]

    manifest = read_manifest(app.settings.savepoints.folder / "p" / made)
    again = {"name": "q", "sql": sql, "restore": {"savepoint": f"p/{made}"}}

    assert manifest.about["reads"] is None
    assert app.post("/v1/pipelines", again).status_code == 201
