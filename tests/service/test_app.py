"""The layers around all routes: ids, headers, errors, limits, documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import structlog

from service.problem_types import CATALOGUE
from service.runtime.connectors import SOURCES
from service.runtime.sinks.tables import CONNECTORS as SINKS
from service.settings import HttpSettings, LimitSettings

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

JSON = {"Content-Type": "application/json"}


def assert_problem(answer: Any, status: int, slug: str) -> dict[str, Any]:
    """The body of a problem of this kind."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["type"] == f"/docs/problems/{slug}"
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    return body


def test_every_answer_carries_an_id_and_security_headers(app: AppClient) -> None:
    for path in ("/healthz", "/nowhere", "/docs"):
        headers = app.get(path).headers
        assert headers["x-request-id"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]


def test_a_harmless_request_id_is_kept_and_another_replaced(app: AppClient) -> None:
    kept = app.get("/healthz", headers={"X-Request-Id": "abc-1.2"})
    replaced = app.get("/healthz", headers={"X-Request-Id": 'a"b\\n' + "x" * 100})

    assert kept.headers["x-request-id"] == "abc-1.2"
    assert len(replaced.headers["x-request-id"]) == 32


def test_an_unknown_route_is_a_problem(app: AppClient) -> None:
    assert "/docs" in assert_problem(app.get("/v1/nowhere"), 404, "not-found")["hint"]
    of_key = app.get("/v1/pipelines/p/tables/t/a%2Fb")
    assert "-?key=[...]" in assert_problem(of_key, 404, "not-found")["hint"]


def test_a_wrong_method_is_a_problem_that_lists_the_right_ones(app: AppClient) -> None:
    answer = app.request("PUT", "/v1/pipelines")

    assert_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"]


def test_an_unexpected_error_tells_nothing(app: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(type(app.app.state.services.registry), "list", fail)

    with structlog.testing.capture_logs() as logs:
        answer = app.get("/v1/pipelines")

    body = assert_problem(answer, 500, "internal")
    assert "secret" not in str(body)
    assert [each["event"] for each in logs] == ["request failed", "request"]


def test_the_access_log_has_the_route_and_no_key(app: AppClient) -> None:
    with structlog.testing.capture_logs() as logs:
        app.get("/v1/pipelines/p/operators/o/keys/N14228?key=N14228")

    (line,) = logs
    assert line["route"] == "/v1/pipelines/{pipeline}/operators/{operator}/keys/{key}"
    assert line["status"] == 404
    assert "N14228" not in str(line)


def test_head_is_answered_as_get_without_the_body(app: AppClient) -> None:
    for path in ("/healthz", "/v1/info", "/v1/pipelines", "/metrics", "/docs"):
        whole, head = app.get(path), app.request("HEAD", path)

        assert (head.status_code, head.content) == (200, b"")
        assert head.headers.get("etag") == whole.headers.get("etag")
        assert head.headers["content-type"] == whole.headers["content-type"]
    missing = app.request("HEAD", "/v1/pipelines/absent")
    assert (missing.status_code, missing.content) == (404, b"")
    refused = app.request("HEAD", "/v1/plans/validate")
    assert (refused.status_code, refused.headers["allow"]) == (405, "OPTIONS, POST")


def test_metrics_count_by_route_and_never_by_path(app: AppClient) -> None:
    app.get("/v1/pipelines/N14228")
    app.get("/nowhere/N14228")
    app.request("BREW", "/healthz")

    text = app.get("/metrics").text

    counted = (
        'tailrace_http_requests_total{method="GET",route="/v1/pipelines/{pipeline}",status="404"}'
    )
    assert f"{counted} 1.0" in text
    assert 'route="unmatched"' in text
    assert 'method="OTHER"' in text
    assert "N14228" not in text
    assert "BREW" not in text


@pytest.mark.parametrize(
    ("content", "slug"),
    [
        (b"{", "malformed-body"),
        (b'{"a": NaN}', "malformed-body"),
        (b'{"a": "\\ud800"}', "malformed-body"),
        (b"\xff", "malformed-body"),
        (b"[" * 1_000 + b"]" * 1_000, "body-too-deep"),
    ],
)
def test_what_is_not_json_is_refused_before_any_route(
    app: AppClient, content: bytes, slug: str
) -> None:
    answer = app.post("/v1/plans/validate", content=content, headers=JSON)

    assert_problem(answer, 400, slug)


def test_a_body_that_is_no_object_is_told_in_words(app: AppClient) -> None:
    problem = assert_problem(app.post("/v1/pipelines", [1]), 422, "invalid-request")

    assert problem["detail"] == "body: must be an object"


def test_a_body_that_is_not_utf_8_is_told_with_its_place(app: AppClient) -> None:
    content = '{"sql":\n "SELECT \'ö'.encode() + b"\xe4'\"}"

    answer = app.post("/v1/plans/compile", content=content, headers=JSON)

    problem = assert_problem(answer, 400, "malformed-body")
    assert problem["detail"] == "the body is not UTF-8: line 2 column 12"


def test_a_body_that_is_not_said_to_be_json_is_refused(app: AppClient) -> None:
    for headers in ({}, {"Content-Type": "text/plain"}):
        answer = app.post("/v1/pipelines", content=b"{}", headers=headers)
        assert_problem(answer, 415, "unsupported-media-type")
    zipped = {**JSON, "Content-Encoding": "gzip"}
    answer = app.post("/v1/pipelines", content=b"{}", headers=zipped)
    assert_problem(answer, 415, "unsupported-media-type")


def test_a_body_over_the_limit_is_refused_with_and_without_its_length(make_app: Any) -> None:
    limits = LimitSettings(body_size_max_bytes=2_048, line_size_max_bytes=1_024)
    app = make_app(limits=limits)

    async def in_parts() -> Any:
        for _ in range(30):
            yield b" " * 100

    told = app.post("/v1/plans/validate", content=b" " * 3_000, headers=JSON)
    untold = app.post("/v1/plans/validate", content=in_parts(), headers=JSON)

    assert_problem(told, 413, "body-too-large")
    assert_problem(untold, 413, "body-too-large")
    assert "content-length" not in untold.request.headers


def test_a_validation_error_names_places_and_no_values(app: AppClient) -> None:
    answer = app.post("/v1/pipelines", {"name": "N14228!", "plan": {}, "lables": {}})

    body = assert_problem(answer, 422, "invalid-request")
    assert {each["path"] for each in body["errors"]} == {"/name", "/lables"}
    first = body["errors"][0]
    assert body["detail"].startswith(f"body {first['path']}: {first['message']} (and 1 more")
    assert "N14228" not in answer.text


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ({}, "", "give exactly one of plan, plan_uri, sql; here is none"),
        (
            {"plan_uri": "a.json", "sql": "SET"},
            "",
            "give exactly one of plan, plan_uri, sql; here is plan_uri and sql",
        ),
        ({"plan": 5}, "/plan", "must be a plan's JSON object, or its text"),
        ({"sql": "SET", "options": 5}, "/options", "must be an object"),
        ({"sql": "SET", "labels": [1]}, "/labels", "must be an object"),
        ({"sql": "SET", "start": "yes"}, "/start", "must be true or false"),
        (
            {"sql": "SET", "options": {"rows_per_epoch_max": 0}},
            "/options/rows_per_epoch_max",
            "must be greater than or equal to 1",
        ),
        ({"sql": ""}, "/sql", "must have at least 1 character"),
    ],
)
def test_what_is_wrong_with_a_body_is_told_in_words(
    app: AppClient, body: dict[str, Any], path: str, message: str
) -> None:
    answer = app.post("/v1/pipelines", {"name": "p", **body})

    (error,) = assert_problem(answer, 422, "invalid-request")["errors"]
    assert error == {"in": "body", "path": path, "message": message}


def test_the_document_names_conditions_and_headers(app: AppClient) -> None:
    paths = app.json("/v1/openapi.json")["paths"]

    def named(path: str, method: str) -> set[str]:
        return {each["name"] for each in paths[path][method]["parameters"]}

    assert "If-Match" in named("/v1/pipelines/{pipeline}", "patch")
    assert "If-None-Match" in named("/v1/pipelines/{pipeline}", "get")
    created = paths["/v1/pipelines"]["post"]["responses"]["201"]["headers"]
    assert {"ETag", "Location", "Idempotency-Replayed"} <= set(created)
    left = paths["/v1/pipelines/{pipeline}"]["delete"]["responses"]
    assert "Location" in left["202"]["headers"]
    assert "ETag" not in left["204"]["headers"]


def test_a_get_is_answered_with_304_until_something_changes(app: AppClient) -> None:
    first = app.get("/v1/pipelines")
    tag = first.headers["etag"]

    for known in (tag, f'"other", W/{tag}', "*"):
        again = app.get("/v1/pipelines", headers={"If-None-Match": known})
        assert again.status_code == 304
        assert again.content == b""
        assert again.headers["etag"] == tag
    changed = app.get("/v1/pipelines", headers={"If-None-Match": '"other"'})
    assert changed.status_code == 200


def test_every_problem_type_has_its_page(app: AppClient) -> None:
    for each in CATALOGUE:
        answer = app.get(each.uri)
        assert answer.status_code == 200
        assert each.title in answer.text
    as_json = app.get(CATALOGUE[0].uri, headers={"Accept": "application/json"}).json()
    assert as_json["status"] == CATALOGUE[0].status
    assert_problem(app.get("/docs/problems/nonsense"), 404, "not-found")
    picture = app.get(CATALOGUE[0].uri, headers={"Accept": "image/png"})
    assert_problem(picture, 406, "not-acceptable")


def test_the_api_describes_itself(app: AppClient) -> None:
    schema = app.json("/v1/openapi.json")
    page = app.get("/docs").text

    assert schema["openapi"].startswith("3.1")
    for path, methods in schema["paths"].items():
        assert path in page
        for operation in methods.values():
            assert operation.get("description"), path
    assert "<script" not in page


def test_the_page_can_be_switched_off(make_app: Any) -> None:
    app = make_app(http=HttpSettings(docs_enabled=False))

    assert_problem(app.get("/docs"), 404, "not-found")


def test_info_names_versions(app: AppClient) -> None:
    info = app.json("/v1/info")

    assert info["name"] == "tailrace"
    assert info["spark"] == "4.3.0"
    assert info["redis"].count(".") == 2
    assert "2.3" in info["flink_plans"]
    assert set(info["sources"]) == SOURCES
    assert set(info["sinks"]) == set(SINKS)


def test_info_is_answered_without_spark(app: AppClient) -> None:
    app.spark.is_away = True

    assert app.json("/v1/info")["spark"] is None
