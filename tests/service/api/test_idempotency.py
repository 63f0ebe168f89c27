"""`Idempotency-Key`: once in effect, the same in answer."""

from __future__ import annotations

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pytest
import structlog
from pydantic import SecretStr
from starlette.responses import Response

from service.api.errors import IdempotencyInProgress, PlannerBusy, StatementFailed
from service.api.idempotency import Idempotency, end_under_way
from service.runtime.slot_keys import ingress_key
from service.settings import AuthSettings, LimitSettings
from tests.service.api.test_pipelines import PATH, body
from tests.service.app_client import until
from tests.service.plans import INGRESS, change, flight, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

KEY = {"Idempotency-Key": "k-1"}
NDJSON = "application/x-ndjson"


def test_a_repeated_request_gets_the_first_answer(app: AppClient) -> None:
    first = app.post(PATH, body(), headers=KEY)
    second = app.post(PATH, body(), headers=KEY)

    assert first.status_code == second.status_code == 201
    assert second.content == first.content
    assert second.headers["etag"] == first.headers["etag"]
    assert second.headers["location"] == first.headers["location"]
    assert second.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers


def deleted(app: AppClient) -> None:
    assert app.request("DELETE", f"{PATH}/p").status_code == 204
    until(lambda: app.app.state.services.registry.names() == frozenset())


def test_a_repeated_creation_makes_no_second_pipeline_behind_a_deletion(app: AppClient) -> None:
    first = app.post(PATH, body(), headers=KEY)
    deleted(app)

    second = app.post(PATH, body(), headers=KEY)

    assert (second.status_code, second.content) == (201, first.content)
    assert second.headers["idempotency-replayed"] == "true"
    assert_problem(app.get(f"{PATH}/p"), 404, "pipeline-not-found")


def test_what_was_asked_of_a_pipeline_is_not_done_to_the_next_of_its_name(app: AppClient) -> None:
    app.post(PATH, body())
    first = app.post(f"{PATH}/p/start", headers=KEY)
    deleted(app)
    gone = app.post(f"{PATH}/p/start", headers=KEY)
    app.post(PATH, body())

    again = app.post(f"{PATH}/p/start", headers=KEY)

    assert gone.content == again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert app.json(f"{PATH}/p")["desired_state"] == "STOPPED"


def test_changes_are_taken_by_a_pipeline_that_is_made_anew(app: AppClient) -> None:
    """The pipeline before was another one: it has taken them along."""
    lines = {"content": change("+I", flight("f1")), "headers": {**KEY, "content-type": NDJSON}}
    tokens = list[str]()
    for _ in range(2):
        app.post(PATH, body(plan=flights_plan(source=INGRESS)))
        answers = [app.post(f"{PATH}/p/ingress/flights", **lines) for _ in range(2)]
        assert answers[0].status_code == 202
        assert answers[1].content == answers[0].content
        tokens.append(answers[0].json()["token"])
        deleted(app)

    assert tokens[0] != tokens[1]


def test_changes_that_an_earlier_version_has_taken_are_not_taken_again(
    app: AppClient, redis_client: redis.Redis
) -> None:
    """It kept its answers by the pipeline's name; one of an earlier pipeline is none of this."""
    app.post(PATH, body(plan=flights_plan(source=INGRESS)))
    lines = {"content": change("+I", flight("f1")), "headers": {**KEY, "content-type": NDJSON}}
    first = app.post(f"{PATH}/p/ingress/flights", **lines)
    (kept,) = redis_client.keys("tailrace:{p}:idempotency:*")
    redis_client.rename(kept, kept.rpartition(b":")[0])

    again = [app.post(f"{PATH}/p/ingress/flights", **lines) for _ in range(2)]

    assert [each.content for each in again] == [first.content] * 2
    assert redis_client.xlen(ingress_key("p", "flights")) == 1
    deleted(app)
    app.post(PATH, body(plan=flights_plan(source=INGRESS)))
    other = app.post(f"{PATH}/p/ingress/flights", **lines)
    assert other.json()["token"] != first.json()["token"]


def test_the_key_of_another_request_is_refused(app: AppClient) -> None:
    app.post(PATH, body("a"), headers=KEY)

    assert_problem(app.post(PATH, body("b"), headers=KEY), 422, "idempotency-mismatch")


def test_a_key_is_its_callers_alone(make_app: Any) -> None:
    keys = {name: f"{name}-0123456789abcdef" for name in ("one", "other")}
    hashed = [f"{name}:operate:{sha256(key.encode()).hexdigest()}" for name, key in keys.items()]
    app = make_app(auth=AuthSettings(keys=tuple(map(SecretStr, hashed))))

    answers = [
        app.post(PATH, body(name), headers={**KEY, "X-API-Key": key}) for name, key in keys.items()
    ]

    assert [each.status_code for each in answers] == [201, 201]
    assert [each.json()["name"] for each in answers] == ["one", "other"]


def test_a_request_that_was_refused_may_be_corrected_under_its_key(app: AppClient) -> None:
    app.post(PATH, body("a"))
    assert_problem(app.post(PATH, body("a"), headers=KEY), 409, "pipeline-exists")

    assert app.post(PATH, body("b"), headers=KEY).status_code == 201


def test_a_request_that_still_runs_is_a_conflict(app: AppClient, redis_client: redis.Redis) -> None:
    app.post(PATH, body(), headers=KEY)
    (record,) = redis_client.keys("tailrace:idempotency:*")
    stored = redis_client.get(record)
    assert stored is not None
    redis_client.set(
        record, orjson.dumps({"fingerprint": orjson.loads(stored)["fingerprint"], "owner": "x"})
    )

    answer = app.post(PATH, body(), headers=KEY)

    assert_problem(answer, 409, "idempotency-in-progress")
    assert answer.headers["retry-after"]


@pytest.mark.parametrize("status", [200, 409], ids=["kept", "freed"])
def test_a_lock_has_an_end_and_whoever_has_the_key_by_then_keeps_it(
    redis_client: redis.Redis, status: int
) -> None:
    """A request that takes longer than its lock neither answers for the next one nor frees it."""
    record, of_the_next = "tailrace:idempotency:k", b'{"fingerprint":"f","owner":"next"}'
    limits = LimitSettings(idempotency_lock_ms=5_000)
    ends_ms: list[Any] = []

    async def takes_long() -> Response:
        ends_ms.append(redis_client.pttl(record))
        redis_client.set(record, of_the_next)
        return Response("late", status)

    async def main() -> Response:
        key = Idempotency(redis_client, limits, "k", record, fingerprint="f", request_id="r")
        return await key.run(takes_long)

    assert anyio.run(main).body == b"late"
    assert 0 < ends_ms[0] <= 5_000
    assert redis_client.get(record) == of_the_next


RECORD = "tailrace:idempotency:k"


def a_key(client: redis.Redis) -> Idempotency:
    """The key of one request, as each attempt of it brings it."""
    return Idempotency(client, LimitSettings(), "k", RECORD, fingerprint="f", request_id="r")


def test_a_request_whose_client_goes_away_behind_its_effect_has_none_again(
    redis_client: redis.Redis,
) -> None:
    effects, begun, answer = list[int](), anyio.Event(), anyio.Event()

    async def acts() -> Response:
        effects.append(1)
        begun.set()
        if len(effects) == 1:
            await answer.wait()
        return Response("done", 201)

    async def main() -> Response:
        gone = asyncio.create_task(a_key(redis_client).run(acts))
        await begun.wait()
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        with pytest.raises(IdempotencyInProgress):
            await a_key(redis_client).run(acts)
        answer.set()
        while True:
            try:
                return await a_key(redis_client).run(acts)
            except IdempotencyInProgress:
                await asyncio.sleep(0)

    again = anyio.run(main)

    assert (again.status_code, again.body) == (201, b"done")
    assert again.headers["idempotency-replayed"] == "true"
    assert effects == [1]


def test_a_service_that_ends_behind_an_effect_leaves_the_key_locked(
    redis_client: redis.Redis,
) -> None:
    begun = anyio.Event()
    ended = list[set[Any]]()

    async def acts() -> Response:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError("nobody wakes it")

    async def main() -> None:
        request = asyncio.create_task(a_key(redis_client).run(acts))
        await begun.wait()
        request.cancel()
        await end_under_way()
        ended.append(asyncio.all_tasks() - {asyncio.current_task()})

    anyio.run(main)

    assert ended == [set()]
    assert 0 < redis_client.pttl(RECORD) <= LimitSettings().idempotency_lock_ms


@pytest.mark.parametrize(
    ("failure", "problems"), [(ZeroDivisionError(), ["internal"]), (IdempotencyInProgress("k"), [])]
)
def test_a_failure_of_a_cancelled_request_is_logged(
    redis_client: redis.Redis, failure: Exception, problems: list[str]
) -> None:
    begun, answer = anyio.Event(), anyio.Event()

    async def fails() -> Response:
        begun.set()
        await answer.wait()
        raise failure

    async def main() -> None:
        request = asyncio.create_task(a_key(redis_client).run(fails))
        await begun.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        answer.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})

    with structlog.testing.capture_logs() as logged:
        anyio.run(main)

    assert [each["problem"] for each in logged] == problems
    assert all(each["exc_info"] is failure for each in logged)


def test_a_record_has_an_end(make_app: Any, redis_client: redis.Redis) -> None:
    app = make_app(limits=LimitSettings(idempotency_ttl_ms=60_000))

    app.post(PATH, body(), headers=KEY)

    (record,) = redis_client.keys("tailrace:idempotency:*")
    assert 0 < redis_client.pttl(record) <= 60_000


def test_verbs_act_once_too(app: AppClient) -> None:
    app.post(PATH, body())

    first = app.post(f"{PATH}/p/start", headers=KEY)
    app.post(f"{PATH}/p/stop")
    again = app.post(f"{PATH}/p/start", headers=KEY)

    assert again.content == first.content
    assert app.json(f"{PATH}/p")["desired_state"] == "STOPPED"
    assert_problem(app.post(f"{PATH}/p/restart", headers=KEY), 422, "idempotency-mismatch")


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "\t", "é".encode()])
def test_a_key_of_another_form_is_refused(app: AppClient, key: Any) -> None:
    answer = app.post(PATH, body(), headers={"Idempotency-Key": key})

    assert_problem(answer, 422, "invalid-request")


def test_an_answer_that_is_kept_says_when_to_come_again(redis_client: redis.Redis) -> None:
    """A script may have done something before a statement found the planner busy."""

    async def fails() -> Response:
        failure = StatementFailed("a statement failed", statement=2, results=[])
        failure.took_effect = True
        raise failure from PlannerBusy("too much is planned")

    async def main() -> Response:
        limits = LimitSettings(retry_after_ms=7_000)
        key = Idempotency(
            redis_client, limits, "k", "tailrace:idempotency:k", fingerprint="f", request_id="r"
        )
        with pytest.raises(StatementFailed):
            await key.run(fails)
        return await key.run(fails)

    again = anyio.run(main)

    assert again.status_code == 503
    assert again.headers["retry-after"] == "7"
    assert again.headers["idempotency-replayed"] == "true"
