"""What an address takes: its methods, and the names in its query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.api.addresses import Addresses
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

JSON = "application/json"
KEYS = "/v1/pipelines/p/operators/o/keys"


@pytest.mark.parametrize(
    ("method", "path", "hint"),
    [
        ("GET", "/v1/pipelines?labe=a=b", 'did you mean "label"?'),
        # It would have dropped the state.
        ("DELETE", "/v1/pipelines/p?stat=keep", 'did you mean "state"?'),
        ("POST", "/v1/pipelines/p/start?force=1", "it takes none"),
        ("GET", f"{KEYS}?q=N1", "there are: prefix, limit, cursor"),
    ],
)
def test_a_name_that_nothing_reads_is_refused(
    app: AppClient, method: str, path: str, hint: str
) -> None:
    body = assert_problem(app.request(method, path), 422, "invalid-request")

    assert body["hint"] == hint
    (error,) = body["errors"]
    assert error["in"] == "query"
    assert error["path"].removeprefix("/") in path


def test_a_name_that_is_read_once_is_given_once(app: AppClient) -> None:
    twice = app.get("/v1/pipelines?limit=1&limit=2")
    several = app.get("/v1/pipelines?label=a=b&label=c=d")

    assert assert_problem(twice, 422, "invalid-request")["errors"][0]["path"] == "/limit"
    assert several.status_code == 200


@pytest.mark.parametrize(
    "path", ["/v1/pipelines/p/operators/o/keys/%FF", "/v1/pipelines?label=%FF"]
)
def test_an_address_that_is_no_utf_8_is_refused(app: AppClient, path: str) -> None:
    assert "UTF-8" in assert_problem(app.get(path), 422, "invalid-request")["detail"]


def test_probes_may_add_what_they_like(app: AppClient) -> None:
    assert app.get("/healthz?from=probe").status_code == 200


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/v1/pipelines", "GET, HEAD, OPTIONS, POST"),
        ("/v1/pipelines/p", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ("/v1/pipelines/p/operators/o/ttl", "GET, HEAD, OPTIONS, PATCH"),
        ("/v1/plans/validate", "OPTIONS, POST"),
    ],
)
def test_a_wrong_method_is_told_all_right_ones(app: AppClient, path: str, allow: str) -> None:
    answer = app.request("TRACE", path)

    assert_problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == allow


def test_options_tells_the_methods_of_an_address(app: AppClient) -> None:
    answer = app.request("OPTIONS", "/v1/pipelines/p")

    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"
    assert_problem(app.request("OPTIONS", "/v1/nothing"), 404, "not-found")


@pytest.mark.parametrize("limit", ["1_0", "%2B1", "1.0", "%201"])
def test_a_limit_is_written_in_digits(app: AppClient, limit: str) -> None:
    answer = app.get(f"/v1/pipelines?limit={limit}")

    problem = assert_problem(answer, 422, "invalid-request")
    assert problem["errors"][0]["message"] == "must be a whole number in digits"


def test_a_list_may_be_there_more_than_once() -> None:
    document = {
        "paths": {
            "/a/{b}": {
                "get": {
                    "parameters": [
                        {"name": "x", "in": "query", "schema": {"type": "string"}},
                        {"name": "y", "in": "query", "schema": {"anyOf": [{"type": "array"}]}},
                        {"name": "z", "in": "header", "schema": {"type": "string"}},
                    ]
                }
            }
        }
    }
    addresses = Addresses.of(document)

    assert addresses.by_template["/a/{b}"].queries == {"GET": {"x": False, "y": True}}
    assert addresses.methods("/a/c") == {"GET", "HEAD", "OPTIONS"}
    assert addresses.methods("/a/c/d") == frozenset()
    assert addresses.template("/a/c", "GET") == "/a/{b}"
    assert addresses.template("/a/c", "POST") is None


def test_what_is_refused_before_its_route_is_counted_at_its_address(app: AppClient) -> None:
    refused = app.post("/v1/pipelines/p/savepoints", content=b"{", headers={"Content-Type": JSON})

    assert refused.status_code == 400
    counted = 'method="POST",route="/v1/pipelines/{pipeline}/savepoints",status="400"} 1.0'
    assert counted in app.get("/metrics").text


def test_a_body_is_asked_for_only_where_something_must_be_said(app: AppClient) -> None:
    document = app.json("/v1/openapi.json")
    schemas = document["components"]["schemas"]
    asked = {}
    for path, methods in document["paths"].items():
        if "requestBody" not in (post := methods.get("post", {})):
            continue
        shape = post["requestBody"]["content"].get("application/json", {}).get("schema", {})
        name = shape.get("$ref", "").rpartition("/")[2]
        # Of a plan exactly one way must be given.
        says_all = not schemas.get(name, {"required": [""]}).get("required")
        if says_all and "plan_uri" not in schemas[name]["properties"]:
            asked[path] = post["requestBody"].get("required", False)

    assert asked == {"/v1/pipelines/{pipeline}/savepoints": False}
