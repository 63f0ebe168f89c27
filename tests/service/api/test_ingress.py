"""Ingress: typed check, all or nothing, limits, completion; and what the reader finds."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.runtime import intake
from service.runtime.slot_keys import ingress_key
from service.settings import LimitSettings
from tests.service.api.test_pipelines import PATH, body
from tests.service.api.test_state import Flights
from tests.service.app_client import until
from tests.service.plans import change, flight, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis
    from httpx import Response

    from tests.service.app_client import AppClient

NDJSON = {"Content-Type": "application/x-ndjson"}
INGRESS = f"{PATH}/p/ingress/flights"


def send(app: AppClient, *lines: bytes, **headers: str) -> Response:
    return app.post(INGRESS, content=b"\n".join(lines), headers={**NDJSON, **headers})


def entries(client: redis.Redis) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in client.xrange(ingress_key("p", "flights"))]


def good(n: int = 1) -> bytes:
    return change("+I", flight(f"f{n}"))


def dead_letters_in(metrics: str) -> int:
    (found,) = re.findall(
        r'^tailrace_pipeline_dead_letters_total\{pipeline="p"\} (\d+)', metrics, re.MULTILINE
    )
    return int(found)


@pytest.fixture
def app(make_app: Any) -> AppClient:
    """An application that has the pipeline."""
    made: AppClient = make_app()
    made.post(PATH, body())
    return made


def test_changes_are_taken_as_one_entry_just_as_they_came(
    app: AppClient, redis_client: redis.Redis
) -> None:
    first, second = good(1), change("-D", flight("f2", None))

    answer = send(app, first, b"", second + b"\r", b"")

    assert answer.status_code == 202
    assert answer.json()["accepted"] == 2
    assert answer.json()["rejected"] == []
    (entry,) = entries(redis_client)
    assert entry[b"n"] == b"2"
    assert entry[b"d"] == first + b"\n" + second


def test_the_reader_of_the_query_finds_what_was_accepted(
    app: AppClient, redis_server: Any, redis_client: redis.Redis
) -> None:
    from service.runtime.sources.decoding import LineDecoder
    from service.runtime.sources.spec import SourceSpec

    send(app, good(1), b"nonsense", good(2))
    (entry,) = entries(redis_client)
    source = app.app.state.services.contents.of(app.app.state.services.registry.get("p")).source(
        "flights"
    )
    spec = SourceSpec(
        "ingress", "flights", "p", "", source.names, source.types, (), dict(source.options)
    )

    decoded = LineDecoder(spec, "changelog-json").decode(entry[b"d"])

    assert len(decoded.kinds) == int(entry[b"n"]) == 2
    assert list(decoded.rejected) == []


def test_malformed_lines_are_counted_and_kept_without_their_content(
    app: AppClient, redis_client: redis.Redis
) -> None:
    secret = "N14228"
    wrong_type = change("+I", flight("f1", dep_delay=secret))
    no_key = orjson.dumps({"op": "+I", "data": {"tailnum": secret}})

    answer = send(app, good(), b"{" + secret.encode(), wrong_type, b'{"op": "+X"}', no_key, b"[]")

    told = answer.json()
    assert answer.status_code == 202
    assert told["accepted"] == 1
    assert told["rejected_count"] == 5
    assert [each["line"] for each in told["rejected"]] == [2, 3, 4, 5, 6]
    assert "dep_delay" in told["rejected"][1]["reason"]
    assert "flight_id" in told["rejected"][3]["reason"]
    kept = app.json(f"{PATH}/p/dead-letters")
    assert kept["count"] == 5
    assert [each["position"] for each in kept["items"]] == [
        f"request {told['request_id']} line {n}" for n in range(2, 7)
    ]
    assert told["request_id"] == answer.headers["X-Request-Id"]
    assert {each["origin"] for each in kept["items"]} == {"ingress"}
    assert secret not in answer.text
    assert secret not in str(kept)
    assert len(entries(redis_client)) == 1


def test_a_body_without_a_single_change_is_complete_at_once(app: AppClient) -> None:
    for content in (b"", b"\n\n", b"nonsense"):
        answer = send(app, content)
        assert answer.status_code == 202
        assert answer.json()["accepted"] == 0
        assert app.json(answer.json()["completion"])["status"] == "done"


def test_a_pipeline_that_is_to_fail_takes_nothing_of_a_malformed_body(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app()
    app.post(PATH, body(options={"on_malformed": "fail"}))

    answer = send(app, good(), b"nonsense")

    problem = assert_problem(answer, 422, "malformed-changes")
    assert problem["rejected_count"] == 1
    assert problem["rejected"][0]["line"] == 2
    assert entries(redis_client) == []
    kept = app.json(f"{PATH}/p/dead-letters")
    assert kept["count"] == 1
    assert kept["items"][0]["position"] == f"request {problem['request_id']} line 2"
    counted = 'ingress_changes_total{outcome="rejected",pipeline="p",table="flights"} 1.0'
    text = app.get("/metrics").text
    assert counted in text
    assert dead_letters_in(text) == app.json(f"{PATH}/p/progress")["totals"]["dead"] == 1
    assert send(app, good()).status_code == 202


def test_dead_letters_are_one_figure_whatever_their_way_in(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app()
    flights = Flights(app, redis_client)

    def told(by: AppClient) -> tuple[int, int, int]:
        totals = by.json(f"{PATH}/p/progress")["totals"]
        listed = by.json(f"{PATH}/p/dead-letters")["count"]
        return totals["dead"], listed, dead_letters_in(by.get("/metrics").text)

    assert told(app) == (0, 0, 0), "a series that begins at 2 has never grown"
    send(app, b"nonsense", b"more of it")
    assert told(app) == (2, 2, 2)
    flights.run_epoch(dead=[{"table": "flights", "position": "f:1", "reason": "not JSON"}])
    assert told(app) == (3, 3, 3)
    send(app, b"nonsense")
    assert told(app) == (4, 4, 4)
    # Another service, as after a restart: what came while nobody looked is not lost.
    assert told(make_app()) == (4, 4, 4)


def test_dead_letters_of_another_pipeline_of_the_name_begin_at_nothing(app: AppClient) -> None:
    send(app, b"nonsense", b"nonsense")
    assert dead_letters_in(app.get("/metrics").text) == 2
    registry = app.app.state.services.registry
    app.request("DELETE", f"{PATH}/p")
    until(lambda: "p" not in registry.names())
    app.post(PATH, body())
    send(app, b"nonsense")

    assert dead_letters_in(app.get("/metrics").text) == 1


def test_dead_letters_of_two_requests_are_told_apart(app: AppClient) -> None:
    answers = [send(app, b"nonsense").json()["request_id"] for _ in range(2)]

    kept = app.json(f"{PATH}/p/dead-letters")["items"]

    assert [each["position"] for each in kept] == [f"request {each} line 1" for each in answers]
    assert len(set(answers)) == 2


@pytest.mark.parametrize("kind", ["application/json", "text/plain", ""])
def test_another_media_type_is_refused(app: AppClient, kind: str) -> None:
    headers = {"Content-Type": kind} if kind else {}

    answer = app.post(INGRESS, content=good(), headers=headers)

    assert_problem(answer, 415, "unsupported-media-type")


def test_tables_that_take_no_changes_are_told_apart(make_app: Any) -> None:
    app = make_app()
    app.post(PATH, {"name": "p", "plan": flights_plan()})

    assert_problem(send(app, good()), 409, "not-an-ingress-table")
    answer = app.post(f"{PATH}/p/ingress/latest_flight", content=good(), headers=NDJSON)
    assert_problem(answer, 404, "table-not-found")
    answer = app.post(f"{PATH}/absent/ingress/flights", content=good(), headers=NDJSON)
    assert_problem(answer, 404, "pipeline-not-found")


def test_limits_of_lines_and_of_their_length(make_app: Any, redis_client: redis.Redis) -> None:
    app = make_app(
        limits=LimitSettings(
            ingress_changes_max=3, body_size_max_bytes=4_096, line_size_max_bytes=512
        )
    )
    app.post(PATH, {"name": "p", "plan": flights_plan(source={"connector": "ingress"})})
    app.app.state.services.registry.create("p", flights_plan(source={"connector": "ingress"}))

    assert_problem(send(app, *[good()] * 4), 413, "body-too-large")
    assert_problem(send(app, b"x" * 5_000), 413, "body-too-large")
    answer = send(app, good(1), change("+I", flight("f" * 600)), good(2))
    assert answer.json()["accepted"] == 2
    assert answer.json()["rejected"] == [{"line": 2, "reason": "the line is longer than 512 bytes"}]


def test_changes_of_a_pipeline_that_was_deleted_meanwhile_reach_no_other(
    app: AppClient, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = app.app.state.services.registry
    real = intake.check_lines

    def check_while_another_takes_the_name(*arguments: Any) -> Any:
        app.request("DELETE", f"{PATH}/p")
        until(lambda: "p" not in registry.names())
        assert app.post(PATH, body()).status_code == 201
        return real(*arguments)

    monkeypatch.setattr(intake, "check_lines", check_while_another_takes_the_name)
    answer = send(app, good(), b"nonsense", **{"Idempotency-Key": "once"})

    assert_problem(answer, 404, "pipeline-not-found")
    assert entries(redis_client) == []
    assert app.json(f"{PATH}/p/dead-letters")["count"] == 0
    monkeypatch.undo()
    assert send(app, good(), **{"Idempotency-Key": "once"}).status_code == 202


def test_too_many_waiting_changes_are_429_and_leave_nothing(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app(limits=LimitSettings(ingress_backlog_max=5))
    app.post(PATH, body())
    assert send(app, *[good(n) for n in range(4)]).status_code == 202

    refused = send(app, good(5), good(6), b"nonsense")

    assert_problem(refused, 429, "backlog-full")
    assert int(refused.headers["retry-after"]) >= 1
    assert len(entries(redis_client)) == 1
    assert app.json(f"{PATH}/p/dead-letters")["count"] == 0
    assert send(app, good(5)).status_code == 202
    # Once the query has read and deleted an entry, there is room again.
    oldest = redis_client.xrange(ingress_key("p", "flights"))[0][0]
    redis_client.xdel(ingress_key("p", "flights"), oldest)
    assert send(app, *[good(n) for n in range(4)]).status_code == 202
    assert_problem(send(app, good()), 429, "backlog-full")


def test_an_empty_stream_takes_a_request_above_the_limit(make_app: Any) -> None:
    app = make_app(limits=LimitSettings(ingress_backlog_max=1))
    app.post(PATH, body())

    assert send(app, good(1), good(2), good(3)).status_code == 202


def test_the_same_request_twice_is_one_entry(app: AppClient, redis_client: redis.Redis) -> None:
    key = {"Idempotency-Key": "k"}

    first = send(app, good(), b"nonsense", **key)
    second = send(app, good(), b"nonsense", **key)

    assert second.content == first.content
    assert second.status_code == 202
    assert len(entries(redis_client)) == 1
    assert app.json(f"{PATH}/p/dead-letters")["count"] == 1
    assert_problem(send(app, good(2), **key), 422, "idempotency-mismatch")


def test_the_answer_is_recorded_with_the_effect(
    app: AppClient, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service dies after Redis took the changes: the repeated request finds its answer."""
    from service.api.idempotency import Idempotency

    monkeypatch.setattr(Idempotency, "_end", lambda *_: None)
    real = intake.take

    def dies(*arguments: Any, **more: Any) -> Any:
        real(*arguments, **more)
        raise ZeroDivisionError

    monkeypatch.setattr(intake, "take", dies)
    assert send(app, good(), **{"Idempotency-Key": "k"}).status_code == 500
    monkeypatch.setattr(intake, "take", real)

    again = send(app, good(), **{"Idempotency-Key": "k"})

    assert again.status_code == 202
    assert again.json()["accepted"] == 1
    assert len(entries(redis_client)) == 1
    assert app.get(again.json()["completion"]).status_code == 202


def test_a_request_that_stood_still_is_not_taken_beside_the_one_sent_in_its_place(
    app: AppClient, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine slept for longer than its lock; the client has given up and asked again."""
    key = {"Idempotency-Key": "k"}
    check, again = intake.check_lines, []

    def sleeps(*arguments: Any) -> Any:
        monkeypatch.setattr(intake, "check_lines", check)
        (lock,) = redis_client.keys("tailrace:{p}:idempotency:*")
        redis_client.delete(lock)
        again.append(send(app, good(), **key))
        return check(*arguments)

    monkeypatch.setattr(intake, "check_lines", sleeps)

    late = send(app, good(), **key)

    assert again[0].status_code == 202
    assert len(entries(redis_client)) == 1
    assert_problem(late, 409, "idempotency-in-progress")
    replayed = send(app, good(), **key)
    assert replayed.json() == again[0].json()
    assert replayed.headers["idempotency-replayed"] == "true"


def test_completion_follows_what_closed_epochs_have_read(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app()
    flights = Flights(app, redis_client)
    tokens = [send(app, good(n)).json()["completion"] for n in range(3)]
    ids = [each.decode() for each, _ in redis_client.xrange(ingress_key("p", "flights"))]
    assert [app.get(each).status_code for each in tokens] == [202, 202, 202]

    flights.run_epoch(offsets={"flights": {"id": ids[1], "rows": 2, "tick": 7}})

    assert [app.get(each).status_code for each in tokens] == [200, 200, 202]
    state = {"pipeline_state": "STOPPED"}
    assert app.json(tokens[0]) == {"status": "done", "epoch": 1, **state}
    assert app.get(tokens[2]).json() == {"status": "pending", "epoch": 1, **state}
    app.post(f"{PATH}/p/start")
    until(lambda: app.get(tokens[2]).json()["pipeline_state"] == "RUNNING")


def test_a_foreign_token_is_unknown_and_one_of_an_earlier_pipeline_gone(app: AppClient) -> None:
    for token in ("x", "W10.1-1", "e30.1-1", "WyJhIiwiYiJd.x-y", "WyJhIiwxXQ.1-1"):
        answer = app.get(f"{PATH}/p/completion/{token}")
        assert_problem(answer, 404, "token-not-found")
    earlier = intake.token_of("0" * 32, "flights", "1-1")
    assert_problem(app.get(f"{PATH}/p/completion/{earlier}"), 410, "token-gone")


def test_stream_ids_are_compared_as_numbers() -> None:
    assert intake.is_behind("9-1", "10-0")
    assert intake.is_behind("10-2", "10-10")
    assert intake.is_behind("10-2", "10-2")
    assert not intake.is_behind("10-3", "10-2")
    assert not intake.is_behind("11-0", "10-9")


def test_a_table_may_have_a_slash_in_its_name(make_app: Any, redis_client: redis.Redis) -> None:
    app = make_app()
    script = (
        "CREATE TABLE `a/b c` (id INT) WITH ('connector' = 'ingress');"
        "CREATE TABLE o (id INT) WITH ('connector' = 'print');"
        "SET 'pipeline.name' = 'q'; INSERT INTO o SELECT id FROM `a/b c`"
    )
    assert app.post("/v1/statements", {"sql": script}).status_code == 200

    for name in ("a%2Fb%20c", "a/b%20c"):
        answer = app.post(
            f"{PATH}/q/ingress/{name}", content=b'{"op":"+I","data":{"id":1}}', headers=NDJSON
        )
        assert (answer.status_code, answer.json()["accepted"]) == (202, 1)
    assert len(redis_client.xrange(ingress_key("q", "a/b c"))) == 2
    assert app.get(f"{PATH}/q/ingress/a%2Fb").headers["allow"] == "OPTIONS, POST"
    answer = app.post(f"{PATH}/q/ingress/a%2Fb", content=good(), headers=NDJSON)
    assert_problem(answer, 404, "table-not-found")
    counted = 'method="POST",route="/v1/pipelines/{pipeline}/ingress/{table}",status="202"} 2.0'
    assert counted in app.get("/metrics").text


UPSERTS = """
CREATE TABLE s (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH
  ('connector' = 'ingress', 'format' = 'debezium-json', 'changelog-mode' = 'I,UA,D');
CREATE TABLE t (id INT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE n (v STRING NOT NULL, c BIGINT, PRIMARY KEY (v) NOT ENFORCED)
  WITH ('connector' = 'redis');
"""


@pytest.mark.parametrize(
    ("insert", "accepted"),
    [
        ("INSERT INTO t SELECT id, v FROM s", 0),
        ("INSERT INTO n SELECT v, COUNT(*) FROM s GROUP BY v", 1),
    ],
    ids=["nobody keeps the last row", "the last row has the value"],
)
def test_a_value_that_a_change_leaves_out_is_taken_where_the_last_row_is_kept(
    app: AppClient, insert: str, accepted: int
) -> None:
    app.post(PATH, {"name": "toast", "sql": f"{UPSERTS}{insert};"})
    row = {"id": 1, "v": "__debezium_unavailable_value"}
    line = orjson.dumps({"op": "u", "before": None, "after": row})

    answer = app.post(f"{PATH}/toast/ingress/s", content=line, headers=NDJSON).json()

    assert answer["accepted"] == accepted
    assert ["not in the change" in each["reason"] for each in answer["rejected"]] == [True] * (
        1 - accepted
    )
