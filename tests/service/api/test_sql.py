"""SQL over HTTP: compiled as Flink would, run as a pipeline, refused with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.plan import load_plan
from tests.oracles import RECORDED
from tests.service.api.test_pipelines import PATH
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

COMPILE = "/v1/plans/compile"
CASE = RECORDED / "plans" / "100_sink_materialize_legacy"
SCRIPT = (CASE / "query.sql").read_text()


def test_a_script_becomes_the_plan_that_flink_recorded(app: AppClient) -> None:
    answer = app.post(COMPILE, {"sql": SCRIPT})

    assert answer.status_code == 200, answer.text
    types = [node.type for node in load_plan(answer.json()).nodes]
    assert types == [node.type for node in load_plan((CASE / "plan.json").read_bytes()).nodes]


def test_a_pipeline_may_be_created_from_sql(app: AppClient) -> None:
    made = app.post(PATH, {"name": "p", "sql": SCRIPT})

    assert made.status_code == 201, made.text
    assert app.json(f"{PATH}/p/plan") == app.post(COMPILE, {"sql": SCRIPT}).json()
    (operator,) = app.json(f"{PATH}/p/operators")["items"]
    assert operator["strategy"] == "LEGACY"


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT * FROM nowhere", "line 1, column"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'datagen')", "asks for 0 plans"),
        ("MATCH what", "line 1, column 1"),
        ("(" * 5_000, ""),
    ],
)
def test_what_is_wrong_is_told_with_its_place(app: AppClient, sql: str, words: str) -> None:
    for answer in (app.post(COMPILE, {"sql": sql}), app.post(PATH, {"name": "p", "sql": sql})):
        assert_problem(answer, 422, "sql-invalid")
        assert words in answer.json()["detail"]


def test_sql_and_a_plan_are_one_too_many(app: AppClient) -> None:
    body = {"name": "p", "sql": SCRIPT, "plan": {}}

    assert_problem(app.post(PATH, body), 422, "invalid-request")
    assert_problem(app.post(PATH, {"name": "p"}), 422, "invalid-request")


def test_a_pipeline_of_temporary_tables_is_whole(app: AppClient) -> None:
    """A plan has only their names; nobody could read it again without the script."""
    script = SCRIPT.replace("CREATE TABLE", "CREATE TEMPORARY TABLE")

    answer = app.post(PATH, {"name": "p", "sql": script})

    assert answer.status_code == 201, answer.text
    assert app.json(f"{PATH}/p/plan") == app.post(COMPILE, {"sql": SCRIPT}).json()


ZONED = """
CREATE TABLE t (z TIMESTAMP_LTZ(3))
  WITH ('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');
CREATE TABLE snk (e STRING)
  WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'out');
INSERT INTO snk SELECT CAST(z AS STRING) FROM t;
"""
ZONE = "table.local-time-zone"


def zones_of(plan: dict[str, Any]) -> list[str]:
    configurations = [node.get("configuration", {}) for node in plan["nodes"]]
    return [each[ZONE] for each in configurations if ZONE in each]


def test_the_zone_that_set_says_is_kept_with_the_plan(app: AppClient) -> None:
    script = f"SET '{ZONE}' = 'Europe/Berlin'; {ZONED}"

    made = app.post(PATH, {"name": "p", "sql": script})

    assert made.status_code == 201, made.text
    assert made.json()["options"]["local_time_zone"] == "Europe/Berlin"
    assert zones_of(app.json(f"{PATH}/p/plan")) == ["Europe/Berlin"]


def test_an_option_says_the_zone_of_a_plan_that_names_none(app: AppClient) -> None:
    plan = app.post(COMPILE, {"sql": ZONED}).json()
    options = {"local_time_zone": "GMT+08:00"}

    made = app.post(PATH, {"name": "p", "plan": plan, "options": options})

    assert made.status_code == 201, made.text
    assert zones_of(plan) == []
    assert zones_of(app.json(f"{PATH}/p/plan")) == ["GMT+08:00"]
    changed = app.request("PATCH", f"{PATH}/p", json={"options": {"tick_interval_ms": 500}})
    assert changed.status_code == 200, changed.text
    assert changed.json()["options"]["local_time_zone"] == "GMT+08:00"


WINDOWS = """
CREATE TABLE t (k INT, z TIMESTAMP_LTZ(3), WATERMARK FOR z AS z)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');
CREATE TABLE snk (d TIMESTAMP(3), c BIGINT)
  WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'out');
INSERT INTO snk SELECT window_start, COUNT(*)
  FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(z), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
"""


def test_an_option_says_the_zone_of_a_script_that_names_none(app: AppClient) -> None:
    """Windows always name one, so the script must know it when it is planned."""
    options = {"local_time_zone": "Europe/Berlin"}

    made = app.post(PATH, {"name": "p", "sql": WINDOWS, "options": options})
    run = app.post(
        "/v1/statements", {"sql": f"SET 'pipeline.name' = 'q'; {WINDOWS}", "options": options}
    )

    assert made.status_code == 201, made.text
    assert run.status_code == 200, run.text
    for name in ("p", "q"):
        assert set(zones_of(app.json(f"{PATH}/{name}/plan"))) == {"Europe/Berlin"}
    default = f"SET '{ZONE}' = 'default'; {WINDOWS}"
    assert app.post(PATH, {"name": "r", "sql": default, "options": options}).status_code == 201
    own = f"SET '{ZONE}' = 'Asia/Tokyo'; {WINDOWS}"
    answer = app.post(PATH, {"name": "s", "sql": own, "options": options})
    assert_problem(answer, 422, "plan-invalid")
    assert "Asia/Tokyo" in answer.json()["detail"]


def test_a_plan_of_another_zone_than_the_option_is_refused(app: AppClient) -> None:
    plan = app.post(COMPILE, {"sql": f"SET '{ZONE}' = 'Europe/Berlin'; {ZONED}"}).json()
    body = {"name": "p", "plan": plan, "options": {"local_time_zone": "Asia/Tokyo"}}

    answer = app.post(PATH, body)

    assert_problem(answer, 422, "plan-invalid")
    assert "Europe/Berlin" in answer.json()["detail"]
    assert answer.json()["path"].endswith("/configuration/table.local-time-zone")


ROWS_AND_TABLE = (
    "CREATE TABLE o (id INT NOT NULL, pid INT, pt AS PROCTIME()) WITH ('connector' = 'ingress'); "
    "CREATE TABLE e (id INT NOT NULL, cat STRING, PRIMARY KEY (id) NOT ENFORCED) "
    "WITH ('connector' = 'redis'); "
    "CREATE TABLE d (id INT NOT NULL, cat STRING, PRIMARY KEY (id) NOT ENFORCED) WITH "
    "('connector' = 'redis', 'lookup.pipeline' = '{}', 'lookup.table' = '{}'); "
    "INSERT INTO e SELECT o.id, d.cat FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF o.pt "
    "ON d.id = o.pid ON CONFLICT DO DEDUPLICATE;"
)
TABLE = (
    "CREATE TABLE s (id INT NOT NULL, cat STRING, PRIMARY KEY (id) NOT ENFORCED) "
    "WITH ('connector' = 'ingress'); "
    "CREATE TABLE dim (id INT NOT NULL, cat STRING, PRIMARY KEY (id) NOT ENFORCED) "
    "WITH ('connector' = 'redis'); INSERT INTO dim SELECT id, cat FROM s;"
)


def test_a_pipeline_that_is_looked_up_must_be_there(app: AppClient) -> None:
    body = {"name": "look", "sql": ROWS_AND_TABLE.format("dimp", "dim")}
    missing = app.post(PATH, body)

    assert_problem(missing, 422, "table-option-invalid")
    assert 'no pipeline "dimp"' in missing.json()["detail"]
    assert missing.json()["path"].endswith("/lookup.pipeline")

    assert app.post(PATH, {"name": "dimp", "sql": TABLE}).status_code == 201
    other = app.post(PATH, {"name": "look", "sql": ROWS_AND_TABLE.format("dimp", "dims")})
    assert_problem(other, 422, "table-option-invalid")
    assert 'no table "dims"' in other.json()["detail"]
    assert "did you mean dim" in other.json()["hint"]

    assert app.post(PATH, body).status_code == 201
    sql = {"sql": ROWS_AND_TABLE.format("nobody", "dim")}
    assert_problem(app.request("PUT", f"{PATH}/look", json=sql), 422, "table-option-invalid")


def test_a_pipeline_may_look_up_what_it_writes(app: AppClient) -> None:
    made = app.post(PATH, {"name": "self", "sql": ROWS_AND_TABLE.format("self", "e")})

    assert made.status_code == 201, made.text
