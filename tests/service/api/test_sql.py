"""SQL over HTTP: compiled as Flink would, run as a pipeline, refused with line and column."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
