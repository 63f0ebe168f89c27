"""What operators have registered, and what keys have in it, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.api.paging import cursor_text
from tests.service.api.test_pipelines import PATH
from tests.service.keyed_states import write_states
from tests.service.plans import OPERATOR, flights_plan
from tests.service.prepared import MAX_PARALLELISM
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

STATES = f"{PATH}/p/operators/{OPERATOR}/states"


@pytest.fixture(autouse=True)
def keyed(app: AppClient, redis_client: redis.Redis) -> None:
    """A pipeline whose operator keeps primitives."""
    options = {"max_parallelism": MAX_PARALLELISM}
    plan = flights_plan(source={"connector": "ingress"})
    app.post(PATH, {"name": "p", "plan": plan, "options": options})
    write_states(redis_client, "p")


def test_states_are_listed_with_what_is_known_of_them(app: AppClient) -> None:
    calls, last, seats = app.json(STATES)["items"]

    assert (calls["name"], calls["kind"]) == ("calls", "list")
    assert (last["name"], last["kind"], last["ttl_ms"]) == ("last", "value", 1_000)
    assert (last["ttl_update"], last["ttl_time"]) == ("OnCreateAndWrite", "ProcessingTime")
    assert (seats["name"], seats["codecs"], seats["ttl_ms"]) == ("seats", ["json", "json"], None)


def test_a_key_is_shown_page_by_page(app: AppClient) -> None:
    whole = app.json(f"{STATES}/seats/keys/N1")
    pages = list(app.pages(f"{STATES}/seats/keys/N1", limit=1))

    none = {"rank": None, "touched_at": None, "expires_at": None}
    shown: list[dict[str, Any]] = [
        {"key": "1A", "value": None, **none},
        {"key": "2B", "value": {"taken": True}, **none},
    ]
    assert whole["items"] == pages == shown
    assert (whole["key"], whole["epoch"], whole["kind"]) == (["N1"], 1, "map")
    calls = list(app.pages(f"{STATES}/calls/keys/N1", limit=1))
    assert [(each["key"], each["value"]) for each in calls] == [(0, "JFK"), (1, "LAX")]


def test_what_is_not_there_is_told_apart(app: AppClient) -> None:
    assert_problem(app.get(f"{STATES}/last/keys/N1"), 410, "key-expired")
    assert_problem(app.get(f"{STATES}/seats/keys/N2"), 404, "key-not-found")
    assert_problem(app.get(f"{STATES}/none/keys/N1"), 404, "state-not-found")
    for path, position in (("seats/keys/N1", (7,)), ("seats/keys", (7, "")), ("none/keys", (7,))):
        cursor = {"cursor": cursor_text(*position)}
        assert_problem(app.get(f"{STATES}/{path}", params=cursor), 422, "cursor-invalid")
    assert_problem(app.get(f"{STATES}/none/keys"), 404, "state-not-found")


def test_a_states_keys_are_listed(app: AppClient) -> None:
    """Those of any kind: what the operator of the plan knows of a state is not asked."""
    for state, entries in (("seats", 2), ("calls", 2)):
        (key,) = app.json(f"{STATES}/{state}/keys")["items"]

        assert (key["key"], key["namespace"], key["layout"]) == (["N1"], "", "packed")
        assert key["entries"] == entries
        assert key["href"] == f"{STATES}/{state}/keys/N1"
    assert app.json(f"{STATES}/seats/keys", params={"prefix": "N2"})["items"] == []
    assert app.json(f"{STATES}/last/keys")["items"] == [], "all of it has expired"
    assert [each["keys"] for each in app.json(STATES)["items"]] == [1, 1, 1]
