"""`PUT /v1/pipelines/{p}`: another statement under the name and on the state of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.runtime.errors import StartFailed
from tests.service.api.test_changed_statements import named, renumbered
from tests.service.api.test_savepoints import fake_checkpoint
from tests.service.api.test_state import Flights, flight
from tests.service.app_client import until
from tests.service.keyed_states import KEY
from tests.service.plans import INGRESS, OPERATOR, change, flights_plan
from tests.service.plans import flight as outside
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

P = "/v1/pipelines/p"
MOVED = OPERATOR.replace("3", "13")
LINES = {"content-type": "application/x-ndjson"}


def changed_plan() -> dict[str, Any]:
    return renumbered(named(flights_plan(source=INGRESS), "latest_flight", "newest"), 10)


def history(app: AppClient, operator: str) -> Any:
    return app.json(f"{P}/operators/{operator}/keys/{KEY}/history")["items"]


def put(app: AppClient, body: dict[str, Any], **headers: str) -> Any:
    return app.request("PUT", P, json=body, headers=headers)


def outcome(app: AppClient) -> str:
    until(lambda: app.json(P)["replacement"]["outcome"] != "IN_PROGRESS")
    found: str = app.json(P)["replacement"]["outcome"]
    return found


@pytest.fixture
def flights(app: AppClient, redis_client: redis.Redis) -> Flights:
    """Two closed epochs, and a change at the door that no epoch has read."""
    made = Flights(app, redis_client)
    made.run_epoch(*[("+I", flight(f"f{n}")) for n in range(3)])
    made.run_epoch(("-D", flight("f2")), ("-D", flight("f9", "N9")))
    line = change("+I", outside("f7"))
    app.post(f"{P}/ingress/flights", content=line, headers=LINES).raise_for_status()
    fake_checkpoint(app, "p", 2)
    return made


def test_a_statement_is_replaced_in_place(
    app: AppClient, flights: Flights, redis_client: redis.Redis
) -> None:
    before, kept = app.get(P), history(app, OPERATOR)
    rows = app.json(f"{P}/tables/latest_flight")["items"]
    waiting: Any = redis_client.xrange("tailrace:{p}:ingress:flights")

    answer = put(app, {"plan": changed_plan()}, **{"If-Match": before.headers["etag"]})

    assert answer.status_code == 202, answer.text
    assert outcome(app) == "REPLACED"
    shown = app.json(P)
    assert shown["id"] != before.json()["id"]
    assert shown["options"] == before.json()["options"]
    assert shown["replacement"]["error"] is None
    assert shown["restore"]["savepoint"] == shown["replacement"]["savepoint"]
    assert history(app, MOVED) == kept != []
    assert app.get(f"{P}/operators/{OPERATOR}").status_code == 404
    moved = app.json(f"{P}/tables/newest")["items"]
    assert [each["row"] for each in moved] == [each["row"] for each in rows] != []
    assert redis_client.xrange("tailrace:{p}:ingress:flights") == waiting != []
    stale = put(app, {"plan": changed_plan()}, **{"If-Match": before.headers["etag"]})
    assert_problem(stale, 412, "precondition-failed")


def test_one_that_does_not_fit_leaves_all_as_it_was(app: AppClient, flights: Flights) -> None:
    kept, identity = history(app, OPERATOR), app.json(P)["id"]
    other = flights_plan(source=INGRESS)
    other["nodes"][-1]["requireUpsertMaterialize"] = False

    assert put(app, {"plan": other}).status_code == 202

    assert outcome(app) == "REFUSED"
    error = app.json(P)["replacement"]["error"]
    assert error["code"] == "savepoint-mismatch"
    assert f"the state of {OPERATOR} is dropped" in error["message"]
    assert "allow_non_restored_state" in error["message"]
    assert (history(app, OPERATOR), app.json(P)["id"]) == (kept, identity)
    assert put(app, {"plan": other, "allow_non_restored_state": True}).status_code == 202
    assert outcome(app) == "REPLACED"
    assert app.json(f"{P}/operators")["items"] == []


def test_one_that_does_not_start_is_taken_back(
    app: AppClient, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = history(app, OPERATOR)
    assert app.post(f"{P}/start").status_code == 202
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    start = app.spark.start
    refused = iter([StartFailed("there is no such table", code="dataflow.invalid-table-option")])

    async def once_refused(starter: Any) -> Any:
        for error in refused:
            raise error
        return await start(starter)

    monkeypatch.setattr(app.spark, "start", once_refused)

    assert put(app, {"plan": changed_plan()}).status_code == 202

    assert outcome(app) == "TAKEN_BACK"
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    shown = app.json(P)
    assert shown["replacement"]["error"]["code"] == "dataflow.invalid-table-option"
    assert shown["status"]["error"] is None
    assert history(app, OPERATOR) == kept != []


def test_meanwhile_nothing_is_taken_in_that_would_be_lost(
    app: AppClient, flights: Flights, redis_client: redis.Redis
) -> None:
    assert app.post(f"{P}/start").status_code == 202
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    app.spark.is_away = True
    answer = put(app, {"plan": changed_plan()})
    place = answer.json()["replacement"]["savepoint"].rpartition("/")[2]

    line = change("+I", outside("f8"))
    ingress = app.post(f"{P}/ingress/flights", content=line, headers=LINES)

    assert_problem(ingress, 409, "pipeline-conflict")
    assert redis_client.xlen("tailrace:{p}:ingress:flights") == 1
    assert app.json(f"{P}/savepoints/latest")["id"] == place
    gone = app.request("DELETE", f"{P}/savepoints/{place}")
    assert_problem(gone, 409, "pipeline-conflict")
    assert_problem(app.request("DELETE", P), 409, "pipeline-conflict")
    assert_problem(put(app, {"plan": changed_plan()}), 409, "pipeline-conflict")
    assert_problem(app.post(f"{P}/savepoints", {}), 409, "pipeline-conflict")
    app.spark.is_away = False
    until(lambda: (app.json(P)["restore"] or {"done": False})["done"])
    assert_problem(
        app.post(f"{P}/ingress/flights", content=line, headers=LINES), 409, "pipeline-conflict"
    )
    assert app.post(f"{P}/stop").status_code == 202
    assert outcome(app) == "REPLACED"
    taken = app.post(f"{P}/ingress/flights", content=line, headers=LINES)
    assert taken.status_code == 202


def test_what_is_no_plan_or_no_pipeline_is_refused_at_once(
    app: AppClient, flights: Flights
) -> None:
    assert_problem(put(app, {"plan": {"nodes": []}}), 422, "plan-invalid")
    assert_problem(put(app, {"sql": "SELECT 1 FROM"}), 422, "sql-invalid")
    assert_problem(put(app, {}), 422, "invalid-request")
    other = app.request("PUT", "/v1/pipelines/q", json={"plan": changed_plan()})
    assert_problem(other, 404, "pipeline-not-found")
    assert app.json(P)["replacement"] is None
