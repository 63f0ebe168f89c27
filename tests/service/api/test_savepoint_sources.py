"""What a restored query reads: the same tables, in whatever order and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest

from state.backends.interface import EpochStamp
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.savepoint import read_manifest
from tests.service.api.test_savepoints import fake_checkpoint, taken
from tests.service.app_client import until

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


def record_ends(app: AppClient, *ends: str) -> None:
    """What Spark leaves of a query whose sources were read to here by its first epoch."""
    folder = fake_checkpoint(app, "p", 1)
    (folder / "offsets" / "0").write_text("\n".join(["v1", "{}", *ends]))


def ends_of(app: AppClient, name: str) -> list[str]:
    """Where the first epoch of a restored query ended."""
    identity = app.json(f"/v1/pipelines/{name}")["id"]
    folder = app.settings.spark.checkpoint_folder.absolute() / identity
    return (folder / "offsets" / "0").read_text().split("\n")[2:]


def test_rows_that_stand_in_a_plan_are_one_of_its_sources(
    app: AppClient, redis_client: redis.Redis
) -> None:
    """Spark has an offset of them, in the plan's order, as of every other source."""
    assert app.post("/v1/pipelines", {"name": "p", "sql": BEHIND}).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    record_ends(app, '{"id":"7-0","rows":3,"tick":4,"time":5}', '{"at":1,"tick":4,"time":5}')
    made = taken(app)
    assert made["state"] == "COMPLETED", made
    restore = {"savepoint": f"p/{made['id']}"}

    for at, sql in enumerate((ALONE, BEFORE, BEHIND)):
        restored = app.post("/v1/pipelines", {"name": f"q{at}", "sql": sql, "restore": restore})
        assert restored.status_code == 201, restored.text
    ends = {"s": '{"id":"7-0","rows":3,"tick":4,"time":5}', "values": '{"at":1,"tick":4,"time":5}'}
    for at, names in enumerate((["s"], ["values", "s"], ["s", "values"])):
        until(lambda at=at: app.json(f"/v1/pipelines/q{at}")["restore"]["done"])
        assert ends_of(app, f"q{at}") == [ends[each] for each in names]


TWO_SINKS = """
CREATE TABLE s (id INT, v STRING) WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'print');
CREATE TABLE u (v STRING) WITH ('connector' = '{}');
EXECUTE STATEMENT SET BEGIN INSERT INTO t SELECT id, v FROM s; {} END;
"""


OF_U = "INSERT INTO u SELECT v FROM s WHERE id > 1;"


END = '{"id":"7-0","rows":3,"tick":4,"time":5}'


@pytest.mark.parametrize(
    ("before", "ends", "after", "found"),
    [
        (OF_U, [END, END], "", [END]),
        ("", [END], OF_U, [END, END]),
        # Of a query whose ticks were apart; one that reads a table twice has none.
        ("", ['{"id":"7-0","rows":3,"tick":0}', '{"tick":4,"time":5}'], OF_U, [END, END]),
        # Two readers of one table: ticks may differ, places not.
        (OF_U, [END, END.replace("4", "3")], "", [END]),
    ],
)
def test_a_table_is_read_on_from_where_it_was_however_often(
    app: AppClient,
    redis_client: redis.Redis,
    before: str,
    ends: list[str],
    after: str,
    found: list[str],
) -> None:
    """Spark has as many ends of a table as there are ways from it to a sink."""
    body = {"name": "p", "sql": TWO_SINKS.format("print", before)}
    assert app.post("/v1/pipelines", body).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    record_ends(app, *ends)
    restore = {"savepoint": f"p/{taken(app)['id']}"}

    body = {"name": "q", "sql": TWO_SINKS.format("print", after), "restore": restore}
    assert app.post("/v1/pipelines", body).status_code == 201
    until(lambda: app.json("/v1/pipelines/q")["restore"]["done"])

    assert [orjson.loads(each) for each in ends_of(app, "q")] == list(map(orjson.loads, found))


def test_a_checkpoint_with_two_ends_of_one_table_is_not_gone_on_from(
    app: AppClient, redis_client: redis.Redis
) -> None:
    body = {"name": "p", "sql": TWO_SINKS.format("print", OF_U)}
    assert app.post("/v1/pipelines", body).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    record_ends(app, END, END.replace("7-0", "6-0"))
    restore = {"savepoint": f"p/{taken(app)['id']}"}

    fewer = {"name": "q", "sql": TWO_SINKS.format("print", ""), "restore": restore}
    assert app.post("/v1/pipelines", fewer).status_code == 201
    until(lambda: app.json("/v1/pipelines/q")["status"]["state"] == "FAILED")

    error = app.json("/v1/pipelines/q")["status"]["error"]
    assert error["code"] == "savepoint-mismatch"
    assert "two ends of one table" in error["message"]


def test_a_table_that_is_read_for_the_first_time_begins_at_its_beginning(
    app: AppClient, redis_client: redis.Redis
) -> None:
    body = {"name": "p", "sql": TWO_SINKS.format("print", "")}
    assert app.post("/v1/pipelines", body).status_code == 201
    ledger = EpochLedger(RedisTransport(redis_client), "p")
    ledger.close_epoch(EpochStamp(1, ledger.open_run([], 8), 1_000), {}, [])
    record_ends(app, END)
    restore = {"savepoint": f"p/{taken(app)['id']}"}
    more = "CREATE TABLE r (v STRING) WITH ('connector' = 'ingress'); "
    sql = more + TWO_SINKS.format("print", "INSERT INTO u SELECT v FROM r;")

    assert (
        app.post("/v1/pipelines", {"name": "q", "sql": sql, "restore": restore}).status_code == 201
    )
    until(lambda: app.json("/v1/pipelines/q")["restore"]["done"])

    assert ends_of(app, "q") == [END, "-"]


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
