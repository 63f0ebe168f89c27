"""`/v1/plans`: validation and explanation, without anything stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.service.plans import FLIGHTS, INGRESS, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

VALIDATE, EXPLAIN = "/v1/plans/validate", "/v1/plans/explain"


def validate(app: AppClient, plan: Any, **more: Any) -> dict[str, Any]:
    answer = app.post(VALIDATE, {"plan": plan, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_plan_that_runs_is_valid(app: AppClient, redis_client: redis.Redis) -> None:
    for plan in (flights_plan(source=INGRESS), orjson.dumps(flights_plan()).decode()):
        assert validate(app, plan) == {"valid": True, "flink_version": "2.3", "findings": []}
    assert redis_client.keys("tailrace:{*") == []


def test_everything_that_is_wrong_is_found_at_once(app: AppClient) -> None:
    plan = flights_plan()
    plan["nodes"][1].pop("projection")
    plan["nodes"][2]["state"][0]["ttl"] = "soon"

    found = validate(app, plan)

    assert found["valid"] is False
    assert [each["node_id"] for each in found["findings"]] == [2, 3]
    assert {each["severity"] for each in found["findings"]} == {"error"}
    assert all(each["path"].startswith("/nodes/") for each in found["findings"])


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"nodes": 1}', "\ud83d" + "x"])
def test_text_that_is_no_plan_is_found_not_valid(app: AppClient, text: str) -> None:
    if "\ud83d" in text:
        content = b'{"plan": "\\ud83d\\u0078"}'
        answer = app.post(VALIDATE, content=content, headers={"Content-Type": "application/json"})
        assert_problem(answer, 400, "malformed-body")
        return
    assert validate(app, text)["valid"] is False


def test_what_we_cannot_run_is_told_apart_with_its_type(app: AppClient) -> None:
    found = validate(app, flights_plan(source={"connector": "jdbc"}))

    (finding,) = found["findings"]
    assert found["valid"] is False
    assert finding["kind"] == "unsupported"
    assert finding["node_id"] == 1
    assert finding["type"] == "stream-exec-table-source-scan_2"
    assert "connector" in finding["path"]


def test_options_are_checked_with_the_plan(app: AppClient) -> None:
    options = {"adaptive_threshold_high": 5, "adaptive_threshold_low": 9}

    assert validate(app, flights_plan(), options=options)["valid"] is False


def test_valid_means_that_creation_takes_it(app: AppClient) -> None:
    plans = [
        flights_plan(),
        flights_plan(source={"connector": "filesystem", "format": "xml", "path": "x"}),
        flights_plan(source={"connector": "filesystem", "format": "json", "path": "../x"}),
        flights_plan(sink={"connector": "blackhole"}),
        flights_plan(ttl="1 fortnight"),
        {**FLIGHTS, "nodes": []},
    ]
    for number, plan in enumerate(plans):
        taken = app.post("/v1/pipelines", {"name": f"p{number}", "plan": plan})
        assert taken.status_code == (201 if validate(app, plan)["valid"] else 422), taken.text


def test_a_plan_is_explained_as_json_or_as_text(app: AppClient) -> None:
    body = {"plan": flights_plan()}

    as_json = app.post(EXPLAIN, body)
    as_text = app.post(EXPLAIN, body, headers={"Accept": "text/plain"})
    preferring = app.post(EXPLAIN, body, headers={"Accept": "application/json;q=0.1, text/*"})
    neither = app.post(EXPLAIN, body, headers={"Accept": "image/png, text/plain;q=0"})

    assert as_json.headers["content-type"] == "application/json"
    assert isinstance(as_json.json(), dict)
    assert as_text.headers["content-type"] == preferring.headers["content-type"]
    assert as_text.headers["content-type"].startswith("text/plain")
    assert "latest_flight" in as_text.text
    assert_problem(neither, 406, "not-acceptable")


def test_only_a_plan_that_can_be_read_is_explained(app: AppClient) -> None:
    assert_problem(app.post(EXPLAIN, {"plan": {}}), 422, "plan-invalid")


@pytest.mark.parametrize("text", ["1E30000000", "9" * 5_000])
@pytest.mark.parametrize("kind", ["DECIMAL(38, 0) NOT NULL", "BIGINT NOT NULL"])
def test_a_literal_that_is_far_too_large_is_a_finding(app: AppClient, text: str, kind: str) -> None:
    plan = flights_plan()
    literal = {"kind": "LITERAL", "value": text, "type": kind}
    calc = next(each for each in plan["nodes"] if "condition" in each)
    calc["condition"] = {
        "kind": "CALL",
        "syntax": "BINARY",
        "internalName": "$=$1",
        "operands": [literal, literal],
        "type": "BOOLEAN NOT NULL",
    }

    answer = app.post("/v1/plans/validate", {"plan": plan})

    assert answer.status_code == 200
    (finding,) = answer.json()["findings"]
    assert finding["severity"] == "error"
    assert finding["path"].startswith("/nodes/1/condition/operands/0")
