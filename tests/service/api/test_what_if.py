"""What another time to live would make of a key, held against what it then makes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from operators.testing.operator_harness import Of, insert
from tests.service.api.test_operator_states import JOIN, Run
from tests.service.api.test_operator_ttl import STATE, patch, run_again
from tests.service.api.test_pipelines import PATH
from tests.service.api.test_state import OF_OPERATOR, Flights, flight
from tests.service.plans import INGRESS, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

MINUTE_MS = 60_000
KEY = f"{OF_OPERATOR}/keys/N1"


def ago(minutes: int) -> int:
    return time.time_ns() // 1_000_000 - minutes * MINUTE_MS


def what_if(app: AppClient, ttl: str, path: str = KEY, **query: Any) -> Any:
    return app.json(f"{path}/what-if", params={"ttl": ttl, **query})


def three_flights(app: AppClient, client: redis.Redis, ttl: str | None = None) -> Flights:
    """A key with entries 1, 2 and 3, written 180, 60 and 1 minutes ago."""
    flights = Flights(app, client, plan=flights_plan(source=INGRESS, ttl=ttl))
    for number, minutes in enumerate((180, 60, 1), start=1):
        flights.run_epoch(("+I", flight(f"f{number}")), time_ms=ago(minutes))
    return flights


def live(found: Any, name: str) -> list[Any]:
    return [each["key"] for state in found["states"] for each in state["items"] if each[name]]


@pytest.mark.parametrize(
    ("ttl", "then", "current", "words"),
    [
        ("1 d", [1, 2, 3], 3, "the 3 live rows of this key in history would be the same now."),
        ("2 h", [2, 3], 3, "1 of the 3 live rows of this key in history would be past their time"),
        ("PT30M", [3], 3, "With a ttl of 30 min instead of no ttl, 2 of the 3 live rows"),
        ("1 s", [], None, "Entry 3 would be gone, so that no entry is left; nothing would be"),
        ("0 ms", [1, 2, 3], 3, "With no ttl instead of no ttl, the 3 live rows"),
    ],
)
def test_a_shorter_life_tells_what_would_go(
    app: AppClient, redis_client: redis.Redis, ttl: str, then: Any, current: Any, words: str
) -> None:
    three_flights(app, redis_client)

    found = what_if(app, ttl)

    assert (live(found, "live"), live(found, "live_then")) == ([1, 2, 3], then)
    (state,) = found["states"]
    assert (state["live"], state["live_then"], state["ttl_ms"]) == (3, len(then), None)
    assert found["current_sequence_number"] == 3
    assert found["current_sequence_number_then"] == current
    assert words in found["text"]
    assert state["items"][0]["value"]["flight_id"] == "f1"
    assert (state["items"][0]["expires_at_then"] is None) == (1 not in then or ttl == "0 ms")


def test_what_was_told_is_what_a_change_then_makes(
    app: AppClient, redis_client: redis.Redis
) -> None:
    three_flights(app, redis_client, ttl="1 d")
    told = what_if(app, "2 h", state=STATE)
    plan = app.json(f"{PATH}/p/plan")

    assert app.json(f"{KEY}/history")["entries"] == 3, "nothing has changed"
    assert app.json(f"{PATH}/p/plan") == plan
    patch(app, "2 h")
    run_again(app)

    after = app.json(f"{KEY}/history")
    assert [each["sequence_number"] for each in after["items"]] == live(told, "live_then")
    expires = [each["expires_at_then"] for each in told["states"][0]["items"] if each["live_then"]]
    assert [each["expires_at"] for each in after["items"]] == expires
    assert after["items"][-1]["sequence_number"] == told["current_sequence_number_then"]


def test_a_longer_life_gives_back_what_is_not_cleaned_up_yet(
    app: AppClient, redis_client: redis.Redis
) -> None:
    flights = Flights(app, redis_client, plan=flights_plan(source=INGRESS, ttl="1 h"))
    flights.run_epoch(("+I", flight("f1")), time_ms=ago(90))
    assert_problem(app.get(KEY), 410, "key-expired")

    found = what_if(app, "2 h")

    assert (live(found, "live"), live(found, "live_then")) == ([], [1])
    assert (found["current_sequence_number"], found["current_sequence_number_then"]) == (None, 1)
    assert "1 row of this key in history that is past its time and not cleaned" in found["text"]
    assert "would be live again, beside 0" in found["text"]
    assert "Entry 1 would be live again, and the newest" in found["text"]
    gone = app.get(f"{KEY}/what-if", params={"ttl": "5 min"})
    assert_problem(gone, 410, "key-expired")


def test_a_page_is_bounded_and_a_history_is_counted_whole(
    app: AppClient, redis_client: redis.Redis
) -> None:
    three_flights(app, redis_client)

    (state,) = what_if(app, "2 h", limit=1)["states"]

    assert [each["key"] for each in state["items"]] == [1]
    assert (state["live"], state["live_then"], state["is_whole"]) == (3, 2, False)


@pytest.fixture
def join(app: AppClient, redis_client: redis.Redis) -> Any:
    script = f"SET 'table.exec.state.ttl' = '3 h'; {JOIN}"
    made = Run(app, redis_client, script, "_join")
    yield made
    made.harness.close()


def test_a_join_is_told_side_by_side(app: AppClient, join: Run) -> None:
    join.harness.now_ms = ago(150)
    join.harness.run_epoch([Of(1, insert(*join.row(1, tail="N1", model="A320")))])
    for number, minutes in ((1, 120), (2, 1)):
        join.harness.now_ms = ago(minutes)
        join.harness.run_epoch([Of(0, insert(*join.row(0, id=number, tail="N1")))])
    key = f"{join.path}/keys/N1"

    found = what_if(app, "1 h", key)
    both = {each["state"]: each for each in found["states"]}
    right = {each["state"]: each for each in what_if(app, "1 h", key, state="rightState")["states"]}

    assert (both["leftState"]["live"], both["leftState"]["live_then"]) == (2, 1)
    assert [each["value"]["row"]["id"] for each in both["leftState"]["items"]] == [1, 2]
    assert [each["live_then"] for each in both["leftState"]["items"]] == [False, True]
    assert (both["rightState"]["live"], both["rightState"]["live_then"]) == (1, 0)
    assert "the live element of this key in rightState would be past its time" in found["text"]
    assert right["leftState"]["live_then"] == 2
    assert right["leftState"]["ttl_ms_then"] == 3 * 60 * MINUTE_MS


def test_what_never_had_a_life_begins_it_when_one_is_given(
    app: AppClient, redis_client: redis.Redis
) -> None:
    join = Run(app, redis_client, JOIN, "_join")
    join.harness.now_ms = ago(120)
    join.harness.run_epoch([Of(0, insert(*join.row(0, id=1, tail="N1")))])

    (state,) = what_if(app, "1 h", f"{join.path}/keys/N1")["states"]

    join.harness.close()
    (element,) = state["items"]
    assert element["live_then"]
    assert element["expires_at"] is None
    assert element["expires_at_then"] is not None


@pytest.mark.parametrize(
    ("query", "path", "message"),
    [
        ({}, "/ttl", "required"),
        ({"ttl": ""}, "/ttl", "at least 1 character"),
        ({"ttl": "soon"}, "/ttl", "36 h"),
        ({"ttl": "1 h", "state": "leftState"}, "/state", STATE),
    ],
)
def test_what_is_no_question_is_refused(
    app: AppClient, redis_client: redis.Redis, query: Any, path: str, message: str
) -> None:
    three_flights(app, redis_client)

    problem = assert_problem(app.get(f"{KEY}/what-if", params=query), 422, "invalid-request")

    (error,) = problem["errors"]
    assert (error["in"], error["path"]) == ("query", path)
    assert message in error["message"]


def test_what_is_not_there_is_told_apart(app: AppClient, redis_client: redis.Redis) -> None:
    three_flights(app, redis_client)
    query = {"ttl": "1 h"}

    unknown = app.get(f"{OF_OPERATOR}/keys/N404/what-if", params=query)
    operator = app.get(f"{PATH}/p/operators/9_join/keys/N1/what-if", params=query)

    assert_problem(unknown, 404, "key-not-found")
    assert_problem(operator, 404, "operator-not-found")
