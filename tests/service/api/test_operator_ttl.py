"""One operator's times to live over HTTP: shown, changed in the plan, in force a run later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.service.api.test_pipelines import PATH
from tests.service.api.test_state import Flights, flight
from tests.service.app_client import until
from tests.service.plans import INGRESS, OPERATOR, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

OF_OPERATOR = f"{PATH}/p/operators/{OPERATOR}"
TTL = f"{OF_OPERATOR}/ttl"
STATE = "sinkMaterializeState"


def patch(app: AppClient, ttl: str, name: str = STATE, **headers: str) -> Any:
    return app.request("PATCH", TTL, json={"states": {name: ttl}}, headers=headers)


def create(app: AppClient, ttl: str | None = None) -> dict[str, Any]:
    plan = flights_plan(source=INGRESS, ttl=ttl)
    assert app.post(PATH, {"name": "p", "plan": plan}).status_code == 201
    return plan


def state_of(app: AppClient) -> dict[str, Any]:
    """What is said of the operator's one state."""
    [found] = app.json(TTL)["states"]
    return dict(found)


def run_again(app: AppClient) -> None:
    """Start the pipeline, or restart it, and wait for the new run."""
    before = app.json(f"{PATH}/p")["status"]["run"] or 0
    app.post(f"{PATH}/p/restart")
    until(lambda: (app.json(f"{PATH}/p")["status"]["run"] or 0) > before)
    until(lambda: app.json(f"{PATH}/p")["status"]["state"] == "RUNNING")


def test_a_time_to_live_is_shown_with_where_it_is_from(app: AppClient) -> None:
    create(app, "36 h")

    assert app.json(TTL) == {
        "operator": OPERATOR,
        "node_id": 3,
        "states": [
            {
                "name": STATE,
                "input": 0,
                "ttl": "36 h",
                "ttl_ms": 129_600_000,
                "origin": "plan",
                "in_force_ms": None,
            }
        ],
    }


def test_a_change_changes_nothing_else_of_the_plan(app: AppClient) -> None:
    plan = create(app, "36 h")

    answer = patch(app, "PT48H")

    assert answer.status_code == 200, answer.text
    assert (state_of(app)["ttl"], state_of(app)["ttl_ms"]) == ("2 d", 172_800_000)
    plan["nodes"][-1]["state"][0]["ttl"] = "2 d"
    assert app.json(f"{PATH}/p/plan") == plan
    assert app.json(f"{PATH}/p")["version"] == 2
    assert answer.headers["etag"] == app.get(TTL).headers["etag"]
    assert patch(app, "2 d").status_code == 200
    assert app.json(f"{PATH}/p")["version"] == 2


def test_a_plan_that_said_nothing_says_it_now(app: AppClient) -> None:
    plan = flights_plan(source=INGRESS)
    plan["nodes"][-1]["state"] = None
    app.post(PATH, {"name": "p", "plan": plan, "options": {"default_ttl_ms": 5_000}})

    assert (state_of(app)["ttl"], state_of(app)["origin"]) == ("5 s", "default")
    patch(app, "1 d")

    assert (state_of(app)["ttl"], state_of(app)["origin"]) == ("1 d", "plan")
    state = app.json(f"{PATH}/p/plan")["nodes"][-1]["state"]
    assert state == [{"index": 0, "ttl": "1 d", "name": STATE}]


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({"states": {"left/State": "1 d"}}, "/states/left~1State", STATE),
        ({"states": {STATE: "soon"}}, f"/states/{STATE}", "36 h"),
        ({"states": {STATE: "-1 ms"}}, f"/states/{STATE}", "36 h"),
        ({"states": {STATE: "99999999999999999999 d"}}, f"/states/{STATE}", "2^63-1 ms"),
        ({"states": {STATE: " "}}, f"/states/{STATE}", "36 h"),
        ({"states": {STATE: ""}}, f"/states/{STATE}", "at least 1 character"),
        ({"states": {STATE: 5}}, f"/states/{STATE}", "must be a string"),
        ({"states": {}}, "/states", "at least 1 item"),
        ({}, "/states", "required"),
        ({"states": {STATE: "1 d"}, "more": 1}, "/more", "not known here"),
    ],
)
def test_what_is_no_change_is_refused(app: AppClient, body: Any, path: str, message: str) -> None:
    plan = create(app)

    problem = assert_problem(app.request("PATCH", TTL, json=body), 422, "invalid-request")

    assert app.json(f"{PATH}/p/plan") == plan
    (error,) = problem["errors"]
    assert (error["in"], error["path"]) == ("body", path)
    assert message in error["message"]
    assert problem["detail"] == f"body {path}: {error['message']}"


def test_what_is_not_there_is_told_apart(app: AppClient) -> None:
    create(app)

    for path, slug in (
        (f"{PATH}/q/operators/{OPERATOR}/ttl", "pipeline-not-found"),
        (f"{PATH}/p/operators/9_join/ttl", "operator-not-found"),
    ):
        assert_problem(app.get(path), 404, slug)
        body = {"states": {STATE: "1 d"}}
        assert_problem(app.request("PATCH", path, json=body), 404, slug)


def test_of_two_changes_to_one_version_the_second_is_refused(app: AppClient) -> None:
    create(app)
    tag = app.get(f"{PATH}/p").headers["etag"]

    assert patch(app, "1 d", **{"If-Match": tag}).status_code == 200
    assert_problem(patch(app, "2 d", **{"If-Match": tag}), 412, "precondition-failed")
    assert state_of(app)["ttl"] == "1 d"
    assert patch(app, "2 d", **{"If-Match": app.get(TTL).headers["etag"]}).status_code == 200


def test_a_change_counts_from_the_next_start_on_and_stamps_stay(
    app: AppClient, redis_client: redis.Redis
) -> None:
    flights = Flights(app, redis_client, ttl="50 ms")
    flights.run_epoch(("+I", flight("f1")), time_ms=1_000)
    run_again(app)
    history = f"{OF_OPERATOR}/keys/N1/history"
    assert_problem(app.get(history), 410, "key-expired")
    groups = f"tailrace:{{p:{OPERATOR}:*"
    stored = {
        key: redis_client.hgetall(key)
        for key in redis_client.scan_iter(groups, _type="hash")
        if not key.endswith(b":meta")
    }
    assert len(stored) == 1

    assert patch(app, "1000000 d").status_code == 200

    assert_problem(app.get(history), 410, "key-expired")
    assert (state_of(app)["ttl_ms"], state_of(app)["in_force_ms"]) == (86_400_000_000_000, 50)
    assert app.json(OF_OPERATOR)["ttl_ms"] == 50
    run_again(app)
    [entry] = app.json(history)["items"]
    assert entry["inserted_at"] == "1970-01-01T00:00:01.000Z"
    assert app.json(OF_OPERATOR)["ttl_ms"] == state_of(app)["in_force_ms"] == 86_400_000_000_000
    now = {key: redis_client.hgetall(key) for key in stored}
    assert now == stored


def test_a_second_change_before_the_next_start_does_not_come_into_force_either(
    app: AppClient, redis_client: redis.Redis
) -> None:
    Flights(app, redis_client, ttl="50 ms")
    run_again(app)

    for ttl in ("1 d", "2 d"):
        patch(app, ttl)

        assert app.json(OF_OPERATOR)["ttl_ms"] == state_of(app)["in_force_ms"] == 50
    run_again(app)
    assert app.json(OF_OPERATOR)["ttl_ms"] == state_of(app)["in_force_ms"] == 172_800_000


def test_flip_292_a_plan_is_compiled_changed_and_explained(app: AppClient) -> None:
    """COMPILE PLAN to a file, EXECUTE it, change one TTL over HTTP, read the plan again."""
    tables = """
    CREATE TABLE s (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)
      WITH ('connector' = 'ingress', 'format' = 'changelog-json');
    CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (v) NOT ENFORCED)
      WITH ('connector' = 'redis');
    """
    insert = "INSERT INTO t SELECT id, v FROM s ON CONFLICT DO DEDUPLICATE"
    script = f"{tables} COMPILE PLAN 'p.json' FOR {insert}; EXECUTE PLAN 'p.json'"
    answer = app.post("/v1/statements", {"sql": script})
    pipeline = answer.json()["results"][-1]["pipeline"]["href"]
    [operator] = app.json(f"{pipeline}/operators")["items"]

    body = {"states": {STATE: "7 d"}}
    changed = app.request("PATCH", f"{pipeline}/operators/{operator['id']}/ttl", json=body)

    assert changed.status_code == 200, changed.text
    text = app.post(
        "/v1/plans/explain",
        {"plan": app.json(f"{pipeline}/plan")},
        headers={"Accept": "text/plain"},
    ).text
    assert "ttl 7 d (from 7 d in the plan)" in text
    difference = app.post(
        "/v1/plans/diff",
        {
            "before": {"plan_uri": "p.json"},
            "after": {"pipeline": pipeline.rpartition("/")[2]},
        },
    ).json()
    [ttl] = difference["ttl"]
    assert (ttl["name"], ttl["before_ms"], ttl["after_ms"]) == (STATE, 0, 604_800_000)
    assert [each["fate"] for each in difference["state"]] == ["migrated"]
