"""`/v1/pipelines` over a real registry and supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.api import ttl_extension
from service.api.etags import check_unchanged
from service.plan.errors import PlanSyntaxError
from service.runtime.admission import storable
from service.settings import LimitSettings
from state.registry import EXTENSION
from tests.service.app_client import until
from tests.service.plans import FLIGHTS, INGRESS, OPERATOR, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

PATH = "/v1/pipelines"


def body(name: str = "p", **more: Any) -> dict[str, Any]:
    return {"name": name, "plan": flights_plan(source=INGRESS), **more}


def state_of(app: AppClient, name: str = "p") -> str:
    return str(app.json(f"{PATH}/{name}")["status"]["state"])


def test_a_pipeline_is_created_with_location_and_tag(app: AppClient) -> None:
    answer = app.post(PATH, body(labels={"team": "ops"}, options={"default_ttl_ms": 5}))

    assert answer.status_code == 201
    assert answer.headers["location"] == f"{PATH}/p"
    made = answer.json()
    assert made["name"] == "p"
    assert made["desired_state"] == "STOPPED"
    assert made["labels"] == {"team": "ops"}
    assert made["options"]["default_ttl_ms"] == 5
    assert made["options"]["max_parallelism"] == 128
    assert made["flink_version"] == "2.3"
    found = app.get(f"{PATH}/p")
    assert found.status_code == 200
    assert found.headers["etag"].startswith('"1.')
    assert app.json(f"{PATH}/p/plan") == flights_plan(source=INGRESS)


def test_a_misspelt_member_is_told_with_the_one_that_is_meant(app: AppClient) -> None:
    given = body(labls={}, options={"tick_intervall_ms": 5, "tick_interval_ms": "{x}", "xyzzy": 1})

    problem = assert_problem(app.post(PATH, given), 422, "invalid-request")

    told = {each["path"]: each["message"] for each in problem["errors"]}
    assert told == {
        "/labls": 'is not known here; did you mean "labels"?',
        "/options/tick_intervall_ms": ('is not known here; did you mean "tick_interval_ms"?'),
        "/options/tick_interval_ms": "must be a whole number",
        "/options/xyzzy": "is not known here",
    }


def test_secrets_of_a_plan_are_kept_and_not_shown(app: AppClient, redis_client: Any) -> None:
    sink = {"connector": "jdbc", "url": "jdbc:sqlite:db.sqlite", "table-name": "t"}
    plan = flights_plan(source=INGRESS, sink=sink | {"username": "u", "password": "hunter-2"})

    created = app.post(PATH, {"name": "p", "plan": plan})
    shown = app.get(f"{PATH}/p/plan")
    again = app.post(PATH, {"name": "q", "plan": shown.json()})

    assert created.status_code == 201, created.text
    explained = app.post("/v1/plans/explain", {"plan": plan})
    for answer in (created, shown, explained, app.get(f"{PATH}/p"), app.get(PATH)):
        assert answer.status_code in (200, 201)
        assert "hunter-2" not in answer.text
    masked = sink | {"username": "u", "password": "******"}
    assert shown.json() == flights_plan(source=INGRESS, sink=masked)
    assert b"hunter-2" in redis_client.hget("tailrace:{p}:pipeline", "plan")
    assert_problem(again, 422, "table-option-invalid")
    assert "is masked" in again.text


def test_a_plan_may_come_as_its_text_or_from_a_file(app: AppClient) -> None:
    plan = flights_plan(source=INGRESS)
    root = app.settings.files.root
    (root / "plans").mkdir()
    (root / "plans" / "p.json").write_bytes(orjson.dumps(plan))

    as_text = app.post(PATH, {"name": "text", "plan": orjson.dumps(plan).decode()})
    as_file = app.post(PATH, {"name": "file", "plan_uri": "plans/p.json"})
    as_address = app.post(PATH, {"name": "address", "plan_uri": "file:plans/p.json"})

    for answer in (as_text, as_file, as_address):
        assert answer.status_code == 201, answer.text
    assert app.json(f"{PATH}/file/plan") == app.json(f"{PATH}/text/plan") == plan


@pytest.mark.parametrize(
    ("uri", "slug"),
    [
        ("../outside.json", "path-outside-root"),
        ("/etc/hostname", "path-outside-root"),
        ("absent.json", "plan-uri-refused"),
        (".", "plan-uri-refused"),
        ("a\x00b", "plan-uri-refused"),
        ("http://127.0.0.1:1/p.json", "plan-uri-refused"),
        ("gopher://x/p.json", "plan-uri-refused"),
        ("http://[", "plan-uri-refused"),
        ("x" * 1_000, "plan-uri-refused"),
    ],
)
def test_a_plan_from_elsewhere_is_refused(app: AppClient, uri: str, slug: str) -> None:
    (app.settings.files.root.parent / "outside.json").write_bytes(orjson.dumps(FLIGHTS))

    assert_problem(app.post(PATH, {"name": "p", "plan_uri": uri}), 422, slug)


def test_exactly_one_of_plan_and_address_is_taken(app: AppClient) -> None:
    both = app.post(PATH, {**body(), "plan_uri": "p.json"})
    neither = app.post(PATH, {"name": "p"})

    assert_problem(both, 422, "invalid-request")
    assert_problem(neither, 422, "invalid-request")


def test_a_name_is_given_once(app: AppClient) -> None:
    app.post(PATH, body())

    assert_problem(app.post(PATH, body()), 409, "pipeline-exists")


@pytest.mark.parametrize("name", ["", "P", "a b", "a:b", "{a}", "-a", "a" * 64, 7, None])
def test_a_name_of_another_form_is_refused(app: AppClient, name: Any) -> None:
    assert_problem(app.post(PATH, body(name)), 422, "invalid-request")


def test_there_are_at_most_so_many_pipelines(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(pipelines_max=2))
    for name in ("a", "b"):
        assert app.post(PATH, body(name)).status_code == 201

    answer = app.post(PATH, body("c"))

    assert_problem(answer, 429, "pipeline-limit")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_plan_that_would_not_run_is_refused_with_its_place(app: AppClient) -> None:
    jdbc = app.post(PATH, {"name": "p", "plan": flights_plan(source={"connector": "jdbc"})})
    broken = app.post(PATH, {"name": "p", "plan": {**FLIGHTS, "edges": []}})

    problem = assert_problem(jdbc, 422, "plan-unsupported")
    assert problem["node_id"] == 1
    assert problem["path"].startswith("/nodes/0")
    assert_problem(broken, 422, "plan-invalid")
    assert app.json(PATH)["items"] == []


def test_a_number_that_no_json_of_ours_can_hold_is_refused(app: AppClient) -> None:
    plan = {**FLIGHTS, "extra": 10**30}

    refused = assert_problem(app.post(PATH, {"name": "p", "plan": plan}), 422, "plan-invalid")

    assert "64-bit" in refused["detail"]


def test_a_text_that_no_json_can_hold_is_not_called_a_number() -> None:
    with pytest.raises(PlanSyntaxError, match="surrogates"):
        storable({**FLIGHTS, "extra": "\ud800"})


def test_thresholds_without_a_gap_are_refused(app: AppClient) -> None:
    options = {"adaptive_threshold_high": 5, "adaptive_threshold_low": 9}

    assert_problem(app.post(PATH, body(options=options)), 422, "plan-invalid")


def test_pipelines_are_listed_by_name_page_by_page(app: AppClient) -> None:
    names = [f"p{n:02d}" for n in range(7)]
    for name in reversed(names):
        app.post(PATH, body(name, labels={"odd": str(int(name[1:]) % 2)}))

    for limit in (1, 3, 7, 100):
        assert [each["name"] for each in app.pages(PATH, limit=limit)] == names
    odd = [each["name"] for each in app.pages(PATH, limit=2, label="odd=1")]
    assert odd == ["p01", "p03", "p05"]
    assert list(app.pages(PATH, state="FAILED")) == []


@pytest.mark.parametrize("query", ["state=running", "state=", "label=odd", "label==1"])
def test_a_filter_that_can_hold_for_nothing_is_refused(app: AppClient, query: str) -> None:
    assert_problem(app.get(f"{PATH}?{query}"), 422, "invalid-request")


@pytest.mark.parametrize("cursor", ["x", "e30", "WzFd", "", "é", "W10", "bnVsbA"])
def test_a_cursor_of_another_list_is_refused(app: AppClient, cursor: str) -> None:
    answer = app.get(PATH, params={"cursor": cursor})

    assert_problem(answer, 422, "cursor-invalid")


def test_a_pipeline_starts_stops_and_restarts(app: AppClient) -> None:
    app.post(PATH, body(start=True))
    until(lambda: state_of(app) == "RUNNING")
    running = app.json(f"{PATH}/p")
    assert running["status"]["run"] == 1
    assert running["status"]["query_id"]

    answer = app.post(f"{PATH}/p/restart")
    assert answer.status_code == 202
    until(lambda: app.json(f"{PATH}/p")["status"]["run"] == 2)

    answer = app.post(f"{PATH}/p/stop")
    assert answer.status_code == 202
    assert answer.json()["desired_state"] == "STOPPED"
    until(lambda: state_of(app) == "STOPPED")
    assert app.post(f"{PATH}/p/start").json()["desired_state"] == "RUNNING"
    until(lambda: state_of(app) == "RUNNING")


def test_options_and_labels_are_merged(app: AppClient) -> None:
    app.post(PATH, body(labels={"a": "1", "b": "2"}, options={"tick_interval_ms": 500}))

    changed = app.request(
        "PATCH",
        f"{PATH}/p",
        json={"labels": {"a": None, "c": "3"}, "options": {"default_ttl_ms": 9}},
    ).json()

    assert changed["labels"] == {"b": "2", "c": "3"}
    assert changed["options"]["tick_interval_ms"] == 500
    assert changed["options"]["default_ttl_ms"] == 9
    assert changed["version"] == 2
    back = app.request("PATCH", f"{PATH}/p", json={"options": {"tick_interval_ms": None}}).json()
    assert back["options"]["tick_interval_ms"] == app.settings.execution.tick_interval_ms


def test_null_takes_back_all_options_and_all_labels(app: AppClient) -> None:
    fixed = {"max_parallelism": 4, "local_time_zone": "Asia/Tokyo"}
    app.post(PATH, body(labels={"a": "1"}, options={"tick_interval_ms": 500, **fixed}))

    changed = app.request("PATCH", f"{PATH}/p", json={"options": None, "labels": None}).json()

    assert changed["labels"] == {}
    assert changed["options"]["tick_interval_ms"] == app.settings.execution.tick_interval_ms
    assert {name: changed["options"][name] for name in fixed} == fixed
    assert app.request("PATCH", f"{PATH}/p", json={}).json()["version"] == changed["version"] == 2


def test_a_label_whose_name_is_wrong_is_told_by_its_place(app: AppClient) -> None:
    problem = assert_problem(app.post(PATH, body(labels={"a b": "c"})), 422, "invalid-request")

    (told,) = problem["errors"]
    assert told["path"] == "/labels/a b"
    assert told["message"].startswith("its name: must match pattern")


def test_what_may_not_change_stays(app: AppClient) -> None:
    app.post(PATH, body())

    groups = app.request("PATCH", f"{PATH}/p", json={"options": {"max_parallelism": 4}})
    labels = {f"l{n}": "x" for n in range(app.settings.limits.labels_max + 1)}
    zone = app.request("PATCH", f"{PATH}/p", json={"options": {"local_time_zone": "Asia/Tokyo"}})
    many = app.request("PATCH", f"{PATH}/p", json={"labels": labels})
    unknown = app.request("PATCH", f"{PATH}/p", json={"plan": {}})

    for answer in (groups, zone, many, unknown):
        assert_problem(answer, 422, "invalid-request")
    assert_problem(app.post(PATH, body("q", labels=labels)), 422, "invalid-request")


def test_a_zone_that_flink_does_not_know_is_refused(app: AppClient) -> None:
    for zone in ("UTC+8", "+08:00", "Nowhere/At_All"):
        answer = app.post(PATH, body(options={"local_time_zone": zone}))

        assert_problem(answer, 422, "invalid-request")


def test_options_that_no_query_could_start_with_are_refused_and_nothing_changes(
    app: AppClient,
) -> None:
    app.post(PATH, body())
    options = {"adaptive_threshold_high": 5, "adaptive_threshold_low": 9}

    answer = app.request("PATCH", f"{PATH}/p", json={"options": options, "labels": {"a": "1"}})

    assert_problem(answer, 422, "plan-invalid")
    kept = app.json(f"{PATH}/p")
    assert (kept["version"], kept["labels"]) == (1, {})
    assert kept["options"]["adaptive_threshold_high"] is None
    app.json(f"{PATH}/p/operators")


def test_of_two_changes_to_one_version_the_second_is_refused(app: AppClient) -> None:
    tag = app.post(PATH, body()).headers["etag"]
    first = app.request(
        "PATCH", f"{PATH}/p", json={"labels": {"a": "1"}}, headers={"If-Match": tag}
    )
    second = app.request(
        "PATCH", f"{PATH}/p", json={"labels": {"a": "2"}}, headers={"If-Match": tag}
    )

    assert first.status_code == 200
    assert_problem(second, 412, "precondition-failed")
    assert app.json(f"{PATH}/p")["labels"] == {"a": "1"}
    gone = app.request("DELETE", f"{PATH}/p", headers={"If-Match": tag})
    assert_problem(gone, 412, "precondition-failed")
    for verb in ("start", "stop", "restart"):
        answer = app.post(f"{PATH}/p/{verb}", headers={"If-Match": tag})
        assert_problem(answer, 412, "precondition-failed")
    foreign = app.request("DELETE", f"{PATH}/p", headers={"If-Match": 'W/"1.x"'})
    assert_problem(foreign, 412, "precondition-failed")
    matching = first.headers["etag"]
    assert app.request("DELETE", f"{PATH}/p", headers={"If-Match": matching}).status_code == 204


def test_whether_there_is_a_pipeline_comes_before_its_version(app: AppClient) -> None:
    for headers in ({"If-Match": '"1"'}, {"If-Match": 'W/"1.00000000.aa"'}, {"If-Match": ""}):
        gone = app.request("DELETE", f"{PATH}/p", headers=headers)
        assert_problem(gone, 404, "pipeline-not-found")
    app.post(PATH, body())
    assert_problem(app.post(f"{PATH}/p/stop", headers=headers), 412, "precondition-failed")


@pytest.mark.parametrize("verb", ["start", "stop", "restart"])
def test_a_verb_takes_no_body_that_says_something(app: AppClient, verb: str) -> None:
    app.post(PATH, body())

    refused = app.post(f"{PATH}/p/{verb}", {"drain": True})

    assert_problem(refused, 422, "invalid-request")
    assert app.json(f"{PATH}/p")["version"] == 1
    assert app.post(f"{PATH}/p/{verb}", {}).status_code == 202


def test_of_many_members_that_are_not_known_the_first_are_told(app: AppClient) -> None:
    answer = app.post(PATH, body(**{f"label{n}": 1 for n in range(1_000)}))

    told = assert_problem(answer, 422, "invalid-request")["errors"]
    assert len(told) == 100
    assert told[0]["path"] == "/label0"


def test_an_extension_is_made_of_what_was_read(app: AppClient) -> None:
    app.post(PATH, body())
    place = f"{PATH}/p/ttl-extension"
    tag = app.get(place).headers["etag"]
    plain = {"content": b'{"by_ms": 5}', "headers": {"Content-Type": "text/plain"}}
    assert_problem(app.request("POST", place, **plain), 415, "unsupported-media-type")

    assert app.post(place, {"by_ms": 5}, headers={"If-Match": f'"x", {tag}'}).status_code == 200
    again = app.post(place, {"by_ms": 5}, headers={"If-Match": tag})

    assert_problem(again, 412, "precondition-failed")
    assert app.json(place)["extension_ms"] == 5
    assert app.post(place, {"by_ms": 5}, headers={"If-Match": "*"}).status_code == 200


def test_of_two_extensions_of_what_was_read_one_is_made(
    app: AppClient, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.post(PATH, body())
    place = f"{PATH}/p/ttl-extension"
    tag = app.get(place).headers["etag"]

    def overtaken(*arguments: Any) -> None:
        check_unchanged(*arguments)
        # Between what the other one has compared and what it writes.
        redis_client.hincrby("tailrace:{p}:registry", EXTENSION, 7)

    monkeypatch.setattr(ttl_extension, "check_unchanged", overtaken)
    answer = app.post(place, {"by_ms": 5}, headers={"If-Match": tag})

    assert_problem(answer, 412, "precondition-failed")
    assert app.json(place)["extension_ms"] == 7


def test_what_was_read_of_a_pipeline_is_not_of_a_new_one_of_its_name(app: AppClient) -> None:
    tag = app.post(PATH, body()).headers["etag"]
    app.request("DELETE", f"{PATH}/p")
    until(lambda: app.post(PATH, body()).status_code == 201)

    for method, path, sent in (
        ("DELETE", "", None),
        ("PATCH", "", {"labels": {"a": "1"}}),
        ("POST", "/restart", None),
        ("POST", "/savepoints", {}),
        ("PATCH", f"/operators/{OPERATOR}/ttl", {"states": {"sinkMaterializeState": "1 d"}}),
    ):
        answer = app.request(method, f"{PATH}/p{path}", json=sent, headers={"If-Match": tag})
        assert_problem(answer, 412, "precondition-failed")
    found = app.get(f"{PATH}/p")
    assert (found.json()["version"], found.json()["labels"]) == (1, {})
    gone = app.request("DELETE", f"{PATH}/p", headers={"If-Match": found.headers["etag"]})
    assert gone.status_code == 204


def test_a_changing_status_does_not_make_a_change_fail(app: AppClient) -> None:
    created = app.post(PATH, body(start=True))
    until(lambda: state_of(app) == "RUNNING")
    assert app.get(f"{PATH}/p").headers["etag"] != created.headers["etag"]

    answer = app.request(
        "PATCH",
        f"{PATH}/p",
        json={"labels": {"a": "1"}},
        headers={"If-Match": created.headers["etag"]},
    )

    assert answer.status_code == 200


def test_a_deleted_pipeline_is_gone_and_its_name_free_again(app: AppClient) -> None:
    app.post(PATH, body(start=True))
    until(lambda: state_of(app) == "RUNNING")

    assert app.request("DELETE", f"{PATH}/p").status_code == 204

    assert_problem(app.request("DELETE", f"{PATH}/p"), 404, "pipeline-not-found")
    until(lambda: app.get(f"{PATH}/p").status_code == 404)
    assert app.post(PATH, body()).status_code == 201


def test_a_name_is_free_exactly_when_nothing_says_that_it_is_being_deleted(app: AppClient) -> None:
    app.post(PATH, body(start=True))
    until(lambda: state_of(app) == "RUNNING")
    app.spark.is_away = True
    assert app.request("DELETE", f"{PATH}/p").status_code == 204

    for answer in (
        app.get(f"{PATH}/p"),
        app.get(f"{PATH}/p/progress"),
        app.post(f"{PATH}/p/start"),
        app.post(PATH, body()),
    ):
        problem = assert_problem(answer, 409, "pipeline-deleting")
        assert problem["code"] == "pipeline.deleting"
        assert int(answer.headers["retry-after"]) >= 1
    assert app.json(PATH)["items"] == []
    # It is done, as far as who deletes is concerned.
    assert_problem(app.request("DELETE", f"{PATH}/p"), 404, "pipeline-not-found")

    app.spark.is_away = False
    until(lambda: app.get(f"{PATH}/p").status_code == 404)
    assert app.post(PATH, body()).status_code == 201


def test_unknown_pipelines_are_a_problem_everywhere(app: AppClient) -> None:
    for path in ("", "/plan", "/progress", "/dead-letters", "/operators", "/tables", "/tables/t"):
        assert_problem(app.get(f"{PATH}/absent{path}"), 404, "pipeline-not-found")
    for verb in ("start", "stop", "restart"):
        assert_problem(app.post(f"{PATH}/absent/{verb}"), 404, "pipeline-not-found")


def test_without_redis_the_answer_is_503_with_retry_after(
    app: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    import redis

    def away(*_: object, **__: object) -> None:
        raise redis.ConnectionError("Error 111 connecting to 10.0.0.1:6379")

    monkeypatch.setattr(redis.Redis, "execute_command", away)

    answer = app.get(f"{PATH}/p")

    assert_problem(answer, 503, "state-unavailable")
    assert answer.headers["retry-after"]
    assert "10.0.0.1" not in answer.text
