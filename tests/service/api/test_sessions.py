"""Named sessions of SQL: what outlives a request, until it is closed or forgotten."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.api import statements
from service.settings import LimitSettings
from tests.service.api.test_statements import INSERT, TABLES, URL, failed, plan_of, rows, run
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import pytest
    import redis

    from tests.service.app_client import AppClient

SESSIONS = "/v1/sessions"


def test_a_named_session_goes_on_in_the_next_request(app: AppClient) -> None:
    view = "CREATE VIEW big AS SELECT id, v FROM s WHERE id > 5;"
    run(app, f"SET 'table.exec.state.ttl' = '1 h'; {TABLES} {view}", session="mine")

    assert rows(app, "SHOW TABLES", session="mine") == [["big"], ["s"], ["t"]]
    assert rows(app, "SET", session="mine") == [["table.exec.state.ttl", "1 h"]]
    run(app, f"{INSERT.replace('FROM s', 'FROM big')}", session="mine")
    assert plan_of(app, "insert-into_t")["nodes"][-1]["state"][0]["ttl"] == "1 h"
    run(app, "DROP VIEW big; RESET 'table.exec.state.ttl'", session="mine")
    shown = app.json(f"{SESSIONS}/mine")
    assert shown["tables"] == [f"default_catalog.default_database.{name}" for name in "st"]
    assert (shown["views"], shown["options"]) == ([], [])
    assert shown["expires_at"] is not None
    assert rows(app, "SHOW TABLES", session="other") == []


def test_a_view_outlives_its_table_as_in_flink(app: AppClient) -> None:
    run(app, f"{TABLES} CREATE VIEW w AS SELECT v FROM s; DROP TABLE s", session="a")

    assert rows(app, "SHOW VIEWS", session="a") == [["w"]]
    failed(app, "DESCRIBE w", 422, "sql-invalid", session="a")


def test_what_was_declared_before_a_failure_stays(app: AppClient) -> None:
    problem = failed(
        app, f"{TABLES} DROP TABLE nosuch; SHOW TABLES", 422, "sql-invalid", session="a"
    )

    assert (problem["statement"], len(problem["results"])) == (3, 2)
    assert rows(app, "SHOW TABLES", session="a") == [["s"], ["t"]]


def test_a_session_that_has_changed_since_it_was_read_is_not_closed(app: AppClient) -> None:
    run(app, TABLES, session="a")
    tag = app.get(f"{SESSIONS}/a").headers["etag"]
    run(app, "DROP TABLE s", session="a")

    stale = app.request("DELETE", f"{SESSIONS}/a", headers={"If-Match": tag})

    assert_problem(stale, 412, "precondition-failed")
    tag = app.get(f"{SESSIONS}/a").headers["etag"]
    closed = app.request("DELETE", f"{SESSIONS}/a", headers={"If-Match": tag})
    assert closed.status_code == 204


def test_a_session_that_changes_while_it_is_closed_is_not(
    app: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(app, TABLES, session="a")
    tag = app.get(f"{SESSIONS}/a").headers["etag"]
    services, check = app.app.state.services, statements.check_unchanged

    def between(*seen: Any) -> None:
        check(*seen)
        sessions = statements.SqlSessions(services.redis, services.settings.limits)
        before = sessions.load("a")
        assert before is not None
        sessions.save("a", before, replace(before, options={"made": "since"}))

    monkeypatch.setattr(statements, "check_unchanged", between)
    answer = app.request("DELETE", f"{SESSIONS}/a", headers={"If-Match": tag})

    assert_problem(answer, 412, "precondition-failed")
    assert app.json(f"{SESSIONS}/a")["options"] == [{"key": "made", "value": "since"}]


def test_a_session_is_closed_and_then_unknown(app: AppClient) -> None:
    run(app, TABLES, session="a")

    assert app.request("DELETE", f"{SESSIONS}/a").status_code == 204
    assert_problem(app.request("DELETE", f"{SESSIONS}/a"), 404, "session-not-found")
    assert_problem(app.get(f"{SESSIONS}/a"), 404, "session-not-found")
    run(app, "SET 'a' = 'b'; RESET", session="empty")
    assert_problem(app.get(f"{SESSIONS}/empty"), 404, "session-not-found")


def test_there_are_at_most_so_many_sessions_and_none_is_too_large(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(sessions_max=1, session_size_max_bytes=1_024))
    run(app, "SET 'a' = 'b'", session="a")

    answer = app.post(URL, {"sql": "SET 'a' = 'b'", "session": "b"})
    assert_problem(answer, 429, "session-limit")
    assert "retry-after" in answer.headers
    large = f"SET 'a' = '{'x' * 2_000}'"
    failed(app, large, 429, "session-limit", session="a")
    assert rows(app, "SET", session="a") == [["a", "b"]]


def test_a_session_is_forgotten_when_nobody_uses_it(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app(limits=LimitSettings(session_ttl_ms=60_000))
    run(app, TABLES, session="a")

    left_ms = redis_client.pttl("tailrace:sql-session:{a}")
    assert 50_000 < left_ms <= 60_000


def test_secrets_of_a_session_are_masked(app: AppClient) -> None:
    table = "CREATE TABLE k (a INT) WITH ('connector' = 'kafka', 'properties.password' = 'hush')"
    run(app, f"SET 'my.secret' = 'hush'; {table}", session="a")

    for answer in (
        app.post(URL, {"sql": "SET; SHOW CREATE TABLE k", "session": "a"}),
        app.get(f"{SESSIONS}/a"),
    ):
        assert answer.status_code == 200
        assert "hush" not in answer.text
        assert "******" in answer.text
