"""Scripts of statements over HTTP: what they declare, show, compile, explain and start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.settings import LimitSettings
from tests.oracles import RECORDED
from tests.service.api.test_pipelines import PATH
from tests.service.app_client import until
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

URL = "/v1/statements"
TABLES = """
CREATE TABLE s (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (v) NOT ENFORCED)
  WITH ('connector' = 'redis');
"""
INSERT = "INSERT INTO t SELECT id, v FROM s ON CONFLICT DO DEDUPLICATE"

RESTORE = "SET 'table.plan.restore.catalog-objects' = 'x'"
FORCE = "SET 'table.plan.force-recompile' = 'x'"


def run(app: AppClient, sql: str, **more: Any) -> list[dict[str, Any]]:
    """The results of a script that must succeed."""
    answer = app.post(URL, {"sql": sql, **more})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def rows(app: AppClient, sql: str, **more: Any) -> list[list[Any]]:
    """The rows of a script's last statement."""
    found: list[list[Any]] = run(app, sql, **more)[-1]["rows"]
    return found


def failed(app: AppClient, sql: str, status: int, slug: str, **more: Any) -> dict[str, Any]:
    """The problem of a script that must fail."""
    return assert_problem(app.post(URL, {"sql": sql, **more}), status, slug)


def plan_of(app: AppClient, name: str) -> dict[str, Any]:
    found: dict[str, Any] = app.json(f"{PATH}/{name}/plan")
    return found


def test_each_statement_has_a_result_with_its_place(app: AppClient) -> None:
    found = run(app, "SET 'a' = 'b';\nSHOW TABLES;\n  RESET; SET")

    assert [(each["statement"], each["result_kind"]) for each in found] == [
        ("SET", "SUCCESS"),
        ("SHOW TABLES", "SUCCESS_WITH_CONTENT"),
        ("RESET", "SUCCESS"),
        ("SET", "SUCCESS_WITH_CONTENT"),
    ]
    assert found[2]["position"] == {"line": 3, "column": 3}
    assert found[0]["columns"] == [{"name": "result", "type": "STRING"}]
    assert found[0]["rows"] == [["OK"]]
    assert found[1]["rows"] == found[3]["rows"] == []


def test_a_script_has_a_catalogue_of_its_own(app: AppClient) -> None:
    assert rows(app, TABLES + "SHOW TABLES") == [["s"], ["t"]]
    assert rows(app, TABLES + "DROP TABLE s; SHOW TABLES") == [["t"]]
    assert rows(app, "SHOW TABLES") == []


def test_an_insert_starts_a_pipeline_and_says_where_it_is(app: AppClient) -> None:
    result = run(app, f"{TABLES} {INSERT}")[-1]

    assert result["statement"] == "INSERT"
    assert result["pipeline"] == {"name": "insert-into_t", "href": f"{PATH}/insert-into_t"}
    until(lambda: app.json(result["pipeline"]["href"])["status"]["state"] == "RUNNING")
    compiled = app.post("/v1/plans/compile", {"sql": f"{TABLES} {INSERT}"}).json()
    assert plan_of(app, "insert-into_t") == compiled


CREATE_AS = "CREATE TABLE u (PRIMARY KEY (id) NOT ENFORCED) WITH ({}) AS SELECT id, v FROM s"


def test_a_table_of_a_query_starts_the_pipeline_that_fills_it(app: AppClient) -> None:
    created = CREATE_AS.format("'connector' = 'redis'")
    result = run(app, f"{TABLES} {created}", session="mine")[-1]

    assert result["statement"] == "CREATE TABLE"
    assert result["pipeline"] == {"name": "insert-into_u", "href": f"{PATH}/insert-into_u"}
    until(lambda: app.json(result["pipeline"]["href"])["status"]["state"] == "RUNNING")
    assert rows(app, "DROP TABLE s; DESCRIBE u", session="mine") == [
        ["id", "INT", False, "PRI(id)", None, None],
        ["v", "STRING", True, None, None, None],
    ]
    compiled = app.post("/v1/plans/compile", {"sql": f"{TABLES} {created}"}).json()
    assert plan_of(app, "insert-into_u") == compiled


def test_a_misspelt_connector_is_found_where_it_is_declared(app: AppClient) -> None:
    declared = "CREATE TABLE k (id INT) WITH ('connector' = '{}')"

    problem = failed(app, declared.format("kafak"), 422, "plan-unsupported", session="mine")
    assert problem["hint"] == 'did you mean "kafka"?'
    assert rows(app, "SHOW TABLES", session="mine") == []
    # Another one may be meant for a plan that runs elsewhere.
    run(app, declared.format("nowhere"), session="mine")
    assert rows(app, "SHOW TABLES", session="mine") == [["k"]]


@pytest.mark.parametrize(
    ("options", "slug"),
    [
        ("'connector' = 'nowhere'", "sql-invalid"),
        ("'connector' = 'print', 'a' = 'b'", "table-option-invalid"),
    ],
)
def test_a_table_of_a_query_whose_pipeline_is_refused_is_not_there(
    app: AppClient, options: str, slug: str
) -> None:
    sql = f"{TABLES} {CREATE_AS.format(options)}"
    problem = failed(app, sql, 422, slug, session="mine")

    assert problem["statement"] == 3
    assert rows(app, "SHOW TABLES", session="mine") == [["s"], ["t"]]


def test_a_hint_counts_for_the_pipeline_that_its_statement_starts(app: AppClient) -> None:
    """Although the session describes the tables otherwise, whatever a restored plan takes."""
    own = TABLES.replace("changelog-json'", "changelog-json', 'changelog-mode' = 'I,UA,D'")
    hinted = INSERT.replace("FROM s", "FROM s /*+ OPTIONS('changelog-mode' = 'I') */")
    setting = "SET 'table.plan.restore.catalog-objects' = 'IDENTIFIER';"
    run(app, f"{own} {setting} {hinted}")

    source = plan_of(app, "insert-into_t")["nodes"][0]["scanTableSource"]["table"]
    assert source["resolvedTable"]["options"]["changelog-mode"] == "I"


def test_a_pipeline_bears_the_name_and_options_that_are_asked_for(app: AppClient) -> None:
    sql = f"{TABLES} SET 'pipeline.name' = 'mine'; {INSERT}"
    run(app, sql, options={"max_parallelism": 4})

    assert app.json(f"{PATH}/mine")["options"]["max_parallelism"] == 4
    problem = failed(app, sql, 409, "pipeline-exists")
    assert problem["statement"] == 4
    assert [each["statement"] for each in problem["results"]] == [
        "CREATE TABLE", "CREATE TABLE", "SET",
    ]  # fmt: skip  # a list of names, several a line
    failed(app, f"{TABLES} SET 'pipeline.name' = 'Not Mine'; {INSERT}", 422, "invalid-request")


ASYNC = "execution.async-state"
FEW = (
    f"SET '{ASYNC}.total-buffer-size' = '50'; SET '{ASYNC}.active-buffer-size' = '20';"
    f"SET '{ASYNC}.active-buffer-timeout' = '2 s';"
)


def test_bounds_of_asynchronous_state_are_set_by_their_names_in_flink(app: AppClient) -> None:
    run(app, f"{TABLES} {FEW} {INSERT}", options={"async_batch_max": 7})

    options = app.json(f"{PATH}/insert-into_t")["options"]
    assert options["async_in_flight_max"] == 50
    assert options["async_batch_max"] == 7
    assert options["async_timeout_ms"] == 2_000


def test_a_script_says_when_its_sources_are_idle(app: AppClient) -> None:
    run(app, f"{TABLES} SET 'table.exec.source.idle-timeout' = '5 s'; {INSERT}")

    assert app.json(f"{PATH}/insert-into_t")["options"]["source_idle_timeout_ms"] == 5_000


def test_a_pipeline_of_a_script_has_what_the_script_sets(app: AppClient) -> None:
    answer = app.post(PATH, {"name": "few", "sql": f"{TABLES} {FEW} {INSERT}"})

    assert answer.status_code == 201, answer.text
    assert app.json(f"{PATH}/few")["options"]["async_in_flight_max"] == 50


def test_thresholds_of_adaptive_are_set_by_their_names_in_flink(app: AppClient) -> None:
    prefix = "table.exec.sink.upsert-materialize-strategy.adaptive.threshold"
    run(app, f"{TABLES} SET '{prefix}.high' = '9'; SET '{prefix}.low' = '4'; {INSERT}")

    options = app.json(f"{PATH}/insert-into_t")["options"]
    assert (options["adaptive_threshold_high"], options["adaptive_threshold_low"]) == (9, 4)


def test_without_asynchronous_state_there_is_one_change_in_flight(app: AppClient) -> None:
    run(app, f"{TABLES} {FEW} SET 'table.exec.async-state.enabled' = 'false'; {INSERT}")

    assert app.json(f"{PATH}/insert-into_t")["options"]["async_in_flight_max"] == 1


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        (f"{ASYNC}.total-buffer-size", "0", "greater than or equal to 1"),
        (f"{ASYNC}.total-buffer-size", "many", "must be a whole number"),
        (f"{ASYNC}.active-buffer-timeout", "0 ms", "greater than or equal to 1"),
        (f"{ASYNC}.active-buffer-timeout", "soon", "active-buffer-timeout"),
        (f"{ASYNC}.total-buffer-sise", "1", "is not honoured"),
        ("table.exec.async-state.enabled", "maybe", "must be true or false"),
    ],
)
def test_bounds_of_asynchronous_state_that_cannot_be_are_refused(
    app: AppClient, option: str, value: str, reason: str
) -> None:
    script = f"{TABLES} SET '{option}' = '{value}'; {INSERT}"
    of_pipeline = app.post(PATH, {"name": "few", "sql": script})
    for problem in (failed(app, script, 422, "sql-invalid"), of_pipeline.json()):
        assert option in problem["detail"]
        assert reason in problem["detail"]
        assert problem["detail"].startswith(f"line {problem['line']}, column {problem['column']}: ")


def test_a_statement_set_is_one_pipeline(app: AppClient) -> None:
    more = TABLES + "CREATE TABLE u (v STRING) WITH ('connector' = 'print');"
    inserts = f"BEGIN {INSERT}; INSERT INTO u SELECT v FROM s; END"
    result = run(app, f"{more} EXECUTE STATEMENT SET {inserts}")[-1]

    assert result["statement"] == "EXECUTE STATEMENT SET"
    assert result["pipeline"]["name"] == "insert-into_t_u"
    set_first = run(app, f"{more} SET 'pipeline.name' = 'b'; BEGIN STATEMENT SET; {INSERT}; END;")
    assert set_first[-1]["pipeline"]["name"] == "b"


def test_a_temporary_table_is_in_the_plan_that_runs(app: AppClient) -> None:
    """A plan names it only, as Flink's does; what runs must not depend on the session."""
    tables = TABLES.replace("CREATE TABLE", "CREATE TEMPORARY TABLE")
    run(app, f"{tables} COMPILE PLAN 'p.json' FOR {INSERT}; {INSERT}")

    source = plan_of(app, "insert-into_t")["nodes"][0]["scanTableSource"]["table"]
    assert source["resolvedTable"]["options"]["connector"] == "ingress"
    written = orjson.loads((app.settings.files.root / "p.json").read_bytes())
    assert "resolvedTable" not in written["nodes"][0]["scanTableSource"]["table"]
    failed(app, "EXECUTE PLAN 'p.json'", 422, "plan-invalid")
    run(app, f"{tables} SET 'pipeline.name' = 'again'; EXECUTE PLAN 'p.json'")
    assert plan_of(app, "again") == plan_of(app, "insert-into_t")


def test_a_plan_is_overwritten_only_where_that_is_asked_for(app: AppClient) -> None:
    file = app.settings.files.root / "plans" / "a.json"
    other = INSERT.replace("id, v", "id + 1, v")
    first = run(app, f"{TABLES} COMPILE PLAN 'plans/a.json' FOR {INSERT}")[-1]
    text = file.read_text()
    kept = run(app, f"{TABLES} COMPILE PLAN 'plans/a.json' IF NOT EXISTS FOR {other}")[-1]

    assert (first["plan_uri"], first["plan_written"]) == ("plans/a.json", True)
    assert (kept["rows"], kept["plan_written"]) == ([["OK"]], False)
    problem = failed(app, f"{TABLES} COMPILE PLAN 'plans/a.json' FOR {other}", 409, "plan-exists")
    assert "force-recompile" in problem["hint"]
    assert file.read_text() == text
    force = "SET 'table.plan.force-recompile' = 'true';"
    run(app, f"{TABLES} {force} COMPILE PLAN 'plans/a.json' FOR {other}")
    assert file.read_text() != text
    assert [each.name for each in file.parent.iterdir()] == ["a.json"]


def test_what_is_no_plan_is_never_overwritten(app: AppClient) -> None:
    file = app.settings.files.root / "rows.jsonl"
    file.write_text('{"op":"+I","data":{}}')

    force = "SET 'table.plan.force-recompile' = 'true';"
    failed(app, f"{TABLES} {force} COMPILE PLAN 'rows.jsonl' FOR {INSERT}", 409, "plan-exists")

    assert file.read_text() == '{"op":"+I","data":{}}'


def test_compile_and_execute_runs_the_plan_that_is_there(app: AppClient) -> None:
    """As in Flink: the statement beside an existing plan is ignored, even with force-recompile."""
    run(app, f"{TABLES} COMPILE PLAN 'a.json' FOR {INSERT}")
    other = INSERT.replace("FROM s", "FROM s WHERE id > 5")
    force = "SET 'table.plan.force-recompile' = 'true';"
    there = run(app, f"{TABLES} {force} COMPILE AND EXECUTE PLAN 'a.json' FOR {other}")[-1]
    name = "SET 'pipeline.name' = 'other';"
    new = run(app, f"{TABLES} {name} COMPILE AND EXECUTE PLAN 'b.json' FOR {other}")[-1]

    assert there["plan_written"] is False
    assert new["plan_written"] is True
    root = app.settings.files.root
    assert plan_of(app, "insert-into_t") == orjson.loads((root / "a.json").read_bytes())
    assert plan_of(app, "other") == orjson.loads((root / "b.json").read_bytes())
    assert plan_of(app, "other") != plan_of(app, "insert-into_t")


def test_state_of_which_a_plan_says_nothing_lives_as_the_session_says(app: AppClient) -> None:
    run(app, f"{TABLES} COMPILE PLAN 'a.json' FOR {INSERT}")
    file = app.settings.files.root / "a.json"
    plan = orjson.loads(file.read_bytes())
    del plan["nodes"][-1]["state"]
    file.write_bytes(orjson.dumps(plan))

    run(app, "SET 'table.exec.state.ttl' = '2 h'; EXECUTE PLAN 'a.json'")

    [operator] = app.json(f"{PATH}/insert-into_t/operators")["items"]
    assert operator["ttl_ms"] == 7_200_000


@pytest.mark.parametrize(
    ("sql", "slug", "status"),
    [
        ("EXECUTE PLAN 'absent.json'", "plan-uri-refused", 422),
        ("EXECUTE PLAN '../x.json'", "path-outside-root", 422),
        ("EXECUTE PLAN 'https://example.test/x.json'", "plan-uri-refused", 422),
        (f"COMPILE PLAN '../x.json' FOR {INSERT}", "path-outside-root", 422),
        (f"COMPILE PLAN 's3://bucket/x.json' FOR {INSERT}", "plan-uri-refused", 422),
        ("EXPLAIN PLAN 'absent.json'", "plan-uri-refused", 422),
        ("SELECT 1", "sql-invalid", 422),
        ("EXPLAIN SELECT nosuch FROM s", "sql-invalid", 422),
        ("SHOW JARS", "sql-invalid", 422),
        ("DESCRIBE nosuch", "sql-invalid", 422),
        ("INSERT INTO t SELECT id, v FROM s", "sql-invalid", 422),
        (f"{RESTORE}; EXECUTE PLAN 'ok.json'", "sql-invalid", 422),
        (f"{FORCE}; COMPILE PLAN 'c' FOR {INSERT}", "sql-invalid", 422),
        ("'", "sql-invalid", 422),
    ],
)  # fmt: skip  # a table: a case a line
def test_what_cannot_be_done_is_refused(app: AppClient, sql: str, slug: str, status: int) -> None:
    run(app, f"{TABLES} COMPILE PLAN 'ok.json' FOR {INSERT}")

    failed(app, TABLES + sql, status, slug)

    assert app.json(PATH)["items"] == []


def test_nothing_runs_of_a_script_that_cannot_be_parsed(app: AppClient) -> None:
    problem = failed(app, f"{TABLES} {INSERT};\nSELECT 1", 422, "sql-invalid")

    assert problem["detail"].startswith("line 7, column 1: ")
    assert "results" not in problem
    assert app.json(PATH)["items"] == []


def test_a_script_has_at_most_so_many_statements(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(statements_max=2))

    assert len(run(app, "SET; SET;")) == 2
    failed(app, "SET; SET; SET", 422, "sql-invalid")


def test_a_request_is_done_once_for_each_idempotency_key(app: AppClient) -> None:
    headers = {"Idempotency-Key": "k"}
    first = app.post(URL, {"sql": f"{TABLES} {INSERT}"}, headers=headers)
    again = app.post(URL, {"sql": f"{TABLES} {INSERT}"}, headers=headers)

    assert first.status_code == again.status_code == 200
    assert again.json() == first.json()
    assert len(app.json(PATH)["items"]) == 1


@pytest.mark.parametrize(
    ("script", "session"),
    [
        (f"{TABLES} {INSERT}; EXECUTE PLAN 'late.json'", None),
        (f"{TABLES} COMPILE PLAN 'a.json' FOR {INSERT}; EXECUTE PLAN 'late.json'", None),
        (f"{TABLES} EXECUTE PLAN 'late.json'", "mine"),
        ("SET 'a' = 'b'; EXECUTE PLAN 'late.json'", "mine"),
        # One statement, which has written a plan when it fails.
        (f"{TABLES} SET 'pipeline.name' = 'No'; COMPILE AND EXECUTE PLAN 'b' FOR {INSERT}", None),
    ],
    ids=["pipeline", "plan", "declaration", "option", "half a statement"],
)
def test_a_script_that_failed_after_an_effect_is_not_run_again_under_its_key(
    app: AppClient, script: str, session: str | None
) -> None:
    headers = {"Idempotency-Key": "k"}
    body = {"sql": script, "session": session}
    first = app.post(URL, body, headers=headers)
    run(app, f"{TABLES} SET 'pipeline.name' = 'x'; COMPILE PLAN 'late.json' FOR {INSERT}")
    again = app.post(URL, body, headers=headers)

    assert first.status_code == 422
    assert len(first.json()["results"]) == first.json()["statement"] - 1
    assert (again.status_code, again.content) == (422, first.content)
    assert again.headers["content-type"] == "application/problem+json"
    assert again.headers["idempotency-replayed"] == "true"
    changed = app.post(URL, {**body, "sql": f"{script};"}, headers=headers)
    assert_problem(changed, 422, "idempotency-mismatch")


@pytest.mark.parametrize(
    "script",
    ["EXECUTE PLAN 'late.json'", f"SHOW TABLES; {TABLES} EXECUTE PLAN 'late.json'"],
    ids=["first statement", "declarations that end with the request"],
)
def test_a_script_that_failed_without_an_effect_may_be_sent_again(
    app: AppClient, script: str
) -> None:
    headers = {"Idempotency-Key": "k"}
    failed_first = app.post(URL, {"sql": script}, headers=headers)
    run(app, f"{TABLES} COMPILE PLAN 'late.json' FOR {INSERT}")
    again = app.post(URL, {"sql": script}, headers=headers)

    assert_problem(failed_first, 422, "plan-uri-refused")
    assert again.status_code == 200, again.text
    assert "idempotency-replayed" not in again.headers


# The examples of FLIP-292, as recorded from Flink 2.3.

COMPILED = ("001", "002", "005", "007", "009")


def query(number: str) -> tuple[str, dict[str, Any]]:
    """The SQL of a case, and the plan that Flink made of it."""
    [folder] = (RECORDED / "plans").glob(f"{number}_*")
    plan = folder / "plan.json"
    found = orjson.loads(plan.read_bytes()) if plan.exists() else {}
    return (folder / "query.sql").read_text(), found


@pytest.mark.parametrize("number", COMPILED)
def test_flip_292_compile_explain_edit_explain(app: AppClient, number: str) -> None:
    sql, recorded = query(number)
    result = run(app, sql)[-1]
    assert (result["statement"], result["plan_uri"]) == ("COMPILE PLAN", "plan.json")
    file = app.settings.files.root / "plan.json"
    plan = orjson.loads(file.read_bytes())
    assert [node["type"] for node in plan["nodes"]] == [node["type"] for node in recorded["nodes"]]

    [[before]] = rows(app, "EXPLAIN PLAN 'plan.json'")
    for node, flink in zip(plan["nodes"], recorded["nodes"], strict=True):
        assert node["description"] == flink["description"]
        assert node["description"] in before
    for node in plan["nodes"]:
        for entry in node.get("state", ()):
            entry["ttl"] = "36 h"
    file.write_bytes(orjson.dumps(plan))
    [[after]] = rows(app, "EXPLAIN CHANGELOG_MODE PLAN 'plan.json'")

    assert "== State ==" in before
    assert "ttl 36 h (from 36 h in the plan)" in after
    assert "ttl 36 h" not in before
    assert "changelogMode=[NONE])\n" in after
    assert "changelogMode" not in before


def test_flip_292_example_2_on_changelogs_asks_for_a_conflict_clause(app: AppClient) -> None:
    sql, _ = query("00A")

    problem = failed(app, sql, 422, "sql-invalid")

    assert "upsert key that differs from the primary key" in problem["detail"]
    assert "ON CONFLICT DO DEDUPLICATE" in problem["detail"]
    assert problem["statement"] == len(problem["results"]) + 1


TIMED = INSERT.replace("SELECT id, v", "SELECT id, DATE_FORMAT(NOW(), 'yyyy')")


def test_who_starts_what_may_write_a_wrong_table_is_told_once(app: AppClient) -> None:
    found = run(app, f"{TABLES}{INSERT}; SET 'pipeline.name' = 'b'; {TIMED}")

    told = [[each["code"] for each in result["warnings"]] for result in found]
    assert told == [[], [], [], [], ["plan.non-deterministic-update"]]
    created = app.post(PATH, {"name": "c", "plan": plan_of(app, "b")})
    assert created.status_code == 201
    assert created.json()["warnings"] == found[-1]["warnings"]
    assert "TRY_RESOLVE" in created.json()["warnings"][0]["hint"]
    assert "warnings" not in app.json(f"{PATH}/c")
