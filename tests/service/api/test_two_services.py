"""Two services on one Redis: one supervises, both answer; who loses the lease stops at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.runtime.lease import LEASE
from service.settings import ExecutionSettings
from tests.service.app_client import until
from tests.service.plans import INGRESS, flights_plan

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

PATH = "/v1/pipelines"


def body(name: str = "p", **more: Any) -> dict[str, Any]:
    return {"name": name, "plan": flights_plan(source=INGRESS), **more}


def status_of(app: AppClient, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = app.json(f"{PATH}/{name}")["status"]
    return found


def runs(app: AppClient, run: int) -> bool:
    status = status_of(app)
    return (status["state"], status["run"]) == ("RUNNING", run)


def lease_of(app: AppClient) -> dict[str, Any]:
    found: dict[str, Any] = app.json("/readyz")["lease"]
    return found


def test_both_are_ready_and_say_which_of_them_supervises(make_app: Any) -> None:
    holder, other = make_app(), make_app()

    until(lambda: lease_of(other)["holder"] is not None)

    assert lease_of(holder)["held"] is True
    assert lease_of(other)["held"] is False
    assert lease_of(other)["holder"] == lease_of(holder)["service"]
    assert lease_of(other)["service"] != lease_of(holder)["service"]
    for each in (holder, other):
        assert each.json("/v1/info")["lease"] == lease_of(each)
    assert "tailrace_lease_held 1.0" in holder.get("/metrics").text
    assert "tailrace_lease_held 0.0" in other.get("/metrics").text


def test_what_one_is_asked_for_the_other_carries_out(make_app: Any) -> None:
    holder, other = make_app(), make_app()

    assert other.post(PATH, body(start=True)).status_code == 201
    until(lambda: runs(other, 1))
    assert runs(holder, 1)
    assert other.post(f"{PATH}/p/restart").status_code == 202
    until(lambda: runs(other, 2))
    assert other.post(f"{PATH}/p/stop").status_code == 202
    until(lambda: status_of(other)["state"] == "STOPPED")
    assert status_of(holder)["state"] == "STOPPED"
    assert other.post(f"{PATH}/p/start").status_code == 202
    until(lambda: runs(other, 3))
    assert other.request("DELETE", f"{PATH}/p").status_code == 204
    until(lambda: other.post(PATH, body()).status_code == 201)


def test_the_other_one_takes_over_when_the_holder_stops(make_app: Any) -> None:
    holder, other = make_app(), make_app()
    assert holder.post(PATH, body(start=True)).status_code == 201
    until(lambda: runs(other, 1))

    holder.__exit__()

    until(lambda: lease_of(other)["held"])
    # Its Spark is another one, which does not know the query.
    until(lambda: runs(other, 2))


def test_who_loses_the_lease_supervises_no_more_until_it_has_it_again(
    app: AppClient, redis_client: redis.Redis
) -> None:
    assert app.post(PATH, body(start=True)).status_code == 201
    until(lambda: runs(app, 1))

    redis_client.set(LEASE, "f" * 32)
    until(lambda: not lease_of(app)["held"])
    assert lease_of(app)["holder"] == "f" * 8
    app.post(f"{PATH}/p/stop")
    kept = redis_client.hgetall("tailrace:{p}:pipeline")
    assert b"query" in kept
    redis_client.delete(LEASE)

    until(lambda: status_of(app)["state"] == "STOPPED")
    assert lease_of(app)["held"]


def test_a_redis_that_is_silent_for_longer_than_the_lease_ends_it(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app(execution=ExecutionSettings(lease_ms=1_000))
    supervision = app.app.state.services.supervisor
    assert app.post(PATH, body(start=True)).status_code == 201
    until(lambda: runs(app, 1))

    redis_client.client_pause(4_000)

    until(lambda: supervision.lease.holder is None)
    assert status_of_nobody(supervision)
    until(lambda: supervision.lease.is_held)
    until(lambda: runs(app, 1))


def test_a_lease_that_is_none_of_ours_in_form_is_not_taken(
    make_app: Any, redis_client: redis.Redis
) -> None:
    redis_client.rpush(LEASE, "what is this")
    app = make_app()
    assert app.post(PATH, body(start=True)).status_code == 201

    assert lease_of(app)["holder"] is None
    redis_client.delete(LEASE)

    until(lambda: runs(app, 1))


def status_of_nobody(supervision: Any) -> bool:
    """Whether no keeper says anything of the pipeline."""
    return str(supervision.status("p").state) == "CREATED"
