"""Scripts that take long: they end in time, and nobody else waits for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import pytest

from service.api import planning
from service.api.errors import PlannerBusy
from service.api.planning import Planning
from service.settings import LimitSettings
from service.sql import SqlTimeout, compile_script, deadline
from service.sql.deadline import check_time
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

COMPILE, DIFF, STATEMENTS = "/v1/plans/compile", "/v1/plans/diff", "/v1/statements"
PIPELINES, SESSIONS = "/v1/pipelines", "/v1/sessions"
TABLES = """
CREATE TABLE s (k INT) WITH ('connector' = 'ingress', 'format' = 'changelog-json');
CREATE TABLE t (k INT) WITH ('connector' = 'print');
"""
ENTRIES = "".join(
    f", e{at} AS (SELECT a.k FROM e{at - 1} a JOIN e{at - 1} b ON a.k = b.k)" for at in range(1, 41)
)
ENDLESS = f"{TABLES}INSERT INTO t WITH e0 AS (SELECT k FROM s){ENTRIES} SELECT k FROM e40"
SHORT = f"{TABLES}INSERT INTO t SELECT k FROM s"
LIMITS = LimitSettings(planning_timeout_ms=700)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (COMPILE, {"sql": ENDLESS}),
        (STATEMENTS, {"sql": ENDLESS}),
        (STATEMENTS, {"sql": ENDLESS.replace("INSERT", "EXPLAIN INSERT")}),
        (PIPELINES, {"name": "p", "sql": ENDLESS}),
        (DIFF, {"before": {"sql": SHORT}, "after": {"sql": ENDLESS}}),
    ],
    ids=["compile", "insert", "explain", "pipeline", "diff"],
)
def test_planning_that_takes_too_long_is_answered(make_app: Any, path: str, body: Any) -> None:
    app = make_app(limits=LIMITS)

    problem = assert_problem(app.post(path, body), 422, "sql-timeout")

    # A machine that does other work may not come to the statement that never ends.
    assert problem["line"] in (2, 3, 4)
    assert problem["detail"].startswith(f"line {problem['line']}, column {problem['column']}: ")
    if path == STATEMENTS and problem.get("statement"):
        assert len(problem["results"]) == problem["statement"] - 1 == problem["line"] - 2
    assert app.json(PIPELINES)["items"] == []


def test_other_requests_are_answered_while_scripts_are_planned(make_app: Any) -> None:
    """Of the API, and of the planner, which has a place left."""
    app: AppClient = make_app(limits=LimitSettings(plannings_max=3, planning_timeout_ms=5_000))
    app.post(COMPILE, {"sql": SHORT})
    answered = 0
    with ThreadPoolExecutor(2) as pool:
        planned = [pool.submit(app.post, COMPILE, {"sql": ENDLESS}) for _ in range(2)]
        while not any(each.done() for each in planned):
            app.json(PIPELINES)
            assert app.post(COMPILE, {"sql": SHORT}).status_code == 200
            answered += not any(each.done() for each in planned)
        for each in planned:
            assert_problem(each.result(), 422, "sql-timeout")

    assert answered >= 1


def test_who_gets_no_place_in_time_is_told_to_come_again() -> None:
    async def main() -> None:
        limits = LimitSettings(plannings_max=1, planning_timeout_ms=50)
        may_end, has_begun = threading.Event(), anyio.Event()

        def held() -> str:
            anyio.from_thread.run_sync(has_begun.set)
            may_end.wait()
            return "held"

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Planning(limits).run, held)
            await has_begun.wait()
            try:
                with pytest.raises(PlannerBusy):
                    await Planning(limits).run(int)
            finally:
                may_end.set()
        # The place is free again, also after a call that failed.
        with pytest.raises(ZeroDivisionError):
            await Planning(limits).run(divmod, 1, 0)
        assert await Planning(limits).run(int, "7") == 7

    anyio.run(main)


def test_the_time_of_a_request_is_that_of_all_its_planning() -> None:
    def long() -> None:
        while True:
            check_time()

    async def main() -> None:
        planning = Planning(LimitSettings(planning_timeout_ms=50))
        for call in (long, check_time):
            with pytest.raises(SqlTimeout):
                await planning.run(call)

    anyio.run(main)


class Looks:
    """A clock on which nothing but looking at it takes time: a millisecond a look."""

    def __init__(self) -> None:
        self.count = 0

    def monotonic(self) -> float:
        self.count += 1
        return self.count / 1_000


def test_both_plans_of_a_comparison_share_the_time_of_the_request(
    make_app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Looks()
    for module in (deadline, planning):
        monkeypatch.setattr(module, "time", clock)
    views = ENTRIES.split(", e9 AS")[0]
    script = f"{TABLES}INSERT INTO t WITH e0 AS (SELECT k FROM s){views} SELECT k FROM e8"
    compile_script(script)
    app = make_app(limits=LimitSettings(planning_timeout_ms=clock.count * 3 // 2))

    assert app.post(COMPILE, {"sql": script}).status_code == 200
    reply = app.post(DIFF, {"before": {"sql": script}, "after": {"sql": script}})

    assert_problem(reply, 422, "sql-timeout")


def test_all_waiting_of_a_request_takes_no_longer_than_one_waiting_may() -> None:
    async def main() -> None:
        limits = LimitSettings(plannings_max=1, planning_timeout_ms=500)
        may_end, has_begun = threading.Event(), anyio.Event()

        def held() -> None:
            anyio.from_thread.run_sync(has_begun.set)
            may_end.wait()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Planning(limits).run, held)
            try:
                await has_begun.wait()
                patient = Planning(limits)
                with pytest.raises(PlannerBusy):
                    await patient.run(int)
                begun = anyio.current_time()
                with pytest.raises(PlannerBusy):
                    await patient.run(int)
                assert anyio.current_time() - begun < 0.25
            finally:
                may_end.set()
        # A place that is free is taken without waiting.
        assert await patient.run(int, "7") == 7

    anyio.run(main)


def test_a_script_has_at_most_so_many_characters(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(script_characters_max=1_024))
    comment = "--" + "x" * 1_024

    for path, body in (
        (COMPILE, {"sql": f"{SHORT};{comment}"}),
        (STATEMENTS, {"sql": f"{SHORT};{comment}"}),
        (PIPELINES, {"name": "p", "sql": f"{SHORT};{comment}"}),
    ):
        problem = assert_problem(app.post(path, body), 422, "sql-invalid")
        assert "1024 are allowed" in problem["detail"]
        assert (problem["line"], problem["column"]) == (1, 1)
    assert app.post(COMPILE, {"sql": SHORT}).status_code == 200


def test_a_script_has_at_most_so_many_statements(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(statements_max=3))

    assert app.post(COMPILE, {"sql": SHORT}).status_code == 200
    for path, body in (
        (COMPILE, {"sql": f"{SHORT};\n SET 'a' = 'b'"}),
        (STATEMENTS, {"sql": f"{SHORT};\n SET 'a' = 'b'"}),
        (PIPELINES, {"name": "p", "sql": f"{SHORT};\n SET 'a' = 'b'"}),
    ):
        problem = assert_problem(app.post(path, body), 422, "sql-invalid")
        assert "more than 3 statements" in problem["detail"]
        assert (problem["line"], problem["column"]) == (5, 2)


def test_a_script_of_a_megabyte_is_planned(app: AppClient) -> None:
    long = "x" * 1_000
    declared = "".join(f"SET 'a.{at}' = '{long}';" for at in range(990))
    assert 1_000_000 < len(declared + SHORT) <= app.settings.limits.script_characters_max

    assert app.post(COMPILE, {"sql": declared + SHORT}).status_code == 200
    answer = app.post(
        STATEMENTS, {"sql": f"{declared}{TABLES}EXPLAIN INSERT INTO t SELECT k FROM s"}
    )
    assert len(answer.json()["results"]) == 993
