"""`/v1/pipelines/{p}/savepoints` and what is restored from them, over real state and files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.runtime.errors import SavepointNotFound
from service.runtime.savepoint_store import SavepointStore, StoredSavepoint
from service.settings import SavepointSettings
from state.multiset.strategy import Strategy
from tests.service.api.test_state import Flights, flight
from tests.service.app_client import until
from tests.service.keyed_states import KEY
from tests.service.plans import INGRESS, OPERATOR, change, flights_plan
from tests.service.plans import flight as outside
from tests.service.prepared import PreparedPipeline
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from tests.service.app_client import AppClient

P = "/v1/pipelines/p"
HISTORY = f"operators/{OPERATOR}/keys/{KEY}/history"


def fake_checkpoint(app: AppClient, name: str, epoch: int, *, committed: int | None = None) -> Path:
    """What Spark leaves of a query that closed so many epochs, and began one more."""
    identity = app.json(f"/v1/pipelines/{name}")["id"]
    folder = app.settings.spark.checkpoint_folder.absolute() / identity
    for log, end in (
        ("offsets", epoch + 1),
        ("commits", epoch if committed is None else committed),
    ):
        (folder / log).mkdir(parents=True)
        for batch in range(end):
            (folder / log / str(batch)).write_text(f"v1\n{log} of {batch}")
    (folder / "metadata").write_text('{"id":"first"}')
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "sources" / "0" / "0").write_text("v1\nwhere it began")
    return folder


def taken(app: AppClient, **body: Any) -> dict[str, Any]:
    """A savepoint, once it is COMPLETED or FAILED."""
    answer = app.post(f"{P}/savepoints", body)
    assert answer.status_code == 202, answer.text
    assert answer.json()["state"] == "IN_PROGRESS"
    place = answer.headers["location"]
    until(lambda: app.json(place)["state"] != "IN_PROGRESS")
    found: dict[str, Any] = app.json(place)
    return found


def restored(app: AppClient, name: str, savepoint: str, **more: Any) -> dict[str, Any]:
    body = {"name": name, "plan": flights_plan(source=INGRESS), **more}
    allow = body.pop("allow_non_restored_state", False)
    body["restore"] = {"savepoint": savepoint, "allow_non_restored_state": allow}
    answer = app.post("/v1/pipelines", body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["restore"]["done"] is False

    def is_through() -> bool:
        shown = app.json(f"/v1/pipelines/{name}")
        return bool(shown["restore"]["done"] or shown["status"]["error"])

    until(is_through)
    shown: dict[str, Any] = app.json(f"/v1/pipelines/{name}")
    assert shown["restore"]["done"], shown
    return shown


@pytest.fixture
def flights(app: AppClient, redis_client: redis.Redis) -> Flights:
    """Two closed epochs, a table, an orphan; and changes at the door that no epoch has read."""
    made = Flights(app, redis_client)
    made.run_epoch(*[("+I", flight(f"f{n}")) for n in range(3)])
    made.run_epoch(("-D", flight("f2")), ("-D", flight("f9", "N9")))
    app.post(
        f"{P}/ingress/flights",
        content=change("+I", outside("f7")) + b"\nnonsense",
        headers={"content-type": "application/x-ndjson"},
    )
    fake_checkpoint(app, "p", 2)
    return made


def test_a_savepoint_is_taken_listed_and_shown(app: AppClient, flights: Flights) -> None:
    made = taken(app)

    assert made["state"] == "COMPLETED"
    assert made["epoch"] == 2
    assert made["filtered"] is True
    assert made["max_parallelism"] == 8
    assert made["size_bytes"] > 0
    assert [(each["operator"], each["name"], each["kind"], each["keys"]) for each in made["states"]]
    assert app.json(f"{P}/savepoints")["items"] == [made]
    second = taken(app, filter_expired=False)
    assert [each["id"] for each in app.pages(f"{P}/savepoints", limit=1)] == [
        second["id"],
        made["id"],
    ]
    assert second["filtered"] is False
    place = f"{P}/savepoints/{made['id']}"
    stale = app.request("DELETE", place, headers={"If-Match": '"x"'})
    assert_problem(stale, 412, "precondition-failed")
    match = {"If-Match": app.get(place).headers["etag"]}
    assert app.request("DELETE", place, headers=match).status_code == 204
    assert_problem(app.get(f"{P}/savepoints/{made['id']}"), 404, "savepoint-not-found")
    assert [each["id"] for each in app.json(f"{P}/savepoints")["items"]] == [second["id"]]


def test_a_savepoint_is_asked_for_without_a_body(app: AppClient, flights: Flights) -> None:
    for headers in ({}, {"content-type": "application/x-www-form-urlencoded"}):
        answer = app.post(f"{P}/savepoints", headers=headers)
        assert answer.status_code == 202, answer.text
        place = answer.headers["location"]
        until(lambda at=place: app.json(at)["state"] != "IN_PROGRESS")
        assert app.json(place)["filtered"] is True

    answer = app.post(f"{P}/savepoints", content=b"stop=true")
    assert_problem(answer, 415, "unsupported-media-type")


def test_a_pipeline_is_restored_under_another_name(
    app: AppClient, flights: Flights, redis_client: redis.Redis
) -> None:
    made = taken(app)

    restored(app, "copy", f"p/{made['id']}")

    copy = "/v1/pipelines/copy"
    assert app.json(f"{copy}/{HISTORY}")["items"] == app.json(f"{P}/{HISTORY}")["items"]
    assert app.json(f"{copy}/{HISTORY}")["epoch"] == 2
    assert app.json(f"{copy}/operators/{OPERATOR}/orphans")["count"] == 1
    tables = [app.json(f"{each}/tables/latest_flight")["items"] for each in (copy, P)]
    assert [each["row"] for each in tables[0]] == [each["row"] for each in tables[1]] != []
    totals = app.json(f"{copy}/progress")["totals"]
    assert totals == app.json(f"{P}/progress")["totals"]
    assert totals["dead"] == 1
    waiting: Any = redis_client.xrange("tailrace:{p}:ingress:flights")
    assert redis_client.xrange("tailrace:{copy}:ingress:flights") == waiting
    identity = app.json(copy)["id"]
    folder = app.settings.spark.checkpoint_folder.absolute() / identity
    logs = {
        str(each.relative_to(folder)): each.read_text()
        for each in folder.rglob("*")
        if each.is_file()
    }
    metadata = orjson.loads(logs.pop("metadata"))
    assert metadata["id"] != "first", "Spark would end the first query"
    assert logs == {
        "offsets/0": "v1\noffsets of 0",
        "offsets/1": "v1\noffsets of 1",
        "commits/0": "v1\ncommits of 0",
        "commits/1": "v1\ncommits of 1",
        "sources/0/0": "v1\nwhere it began",
    }


def test_a_query_that_ended_before_its_commit_is_restored_behind_it(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app()
    flights = Flights(app, redis_client)
    flights.run_epoch(("+I", flight("f1")))
    flights.run_epoch(("+I", flight("f2")))
    fake_checkpoint(app, "p", 2, committed=1)

    made = taken(app)
    restored(app, "copy", f"p/{made['id']}")

    identity = app.json("/v1/pipelines/copy")["id"]
    folder = app.settings.spark.checkpoint_folder.absolute() / identity
    assert (folder / "commits" / "1").read_bytes() == b'v1\n{"nextBatchWatermarkMs":0}'


def test_a_checkpoint_that_planned_the_closed_epoch_anew_is_not_saved(
    make_app: Any, redis_client: redis.Redis
) -> None:
    app = make_app()
    flights = Flights(app, redis_client)
    flights.run_epoch(("+I", flight("f1")), offsets={"flights": {"id": "4-0", "rows": 1}})
    record = fake_checkpoint(app, "p", 1, committed=0) / "offsets" / "0"

    for identity, state in (("5-0", "FAILED"), ("4-0", "COMPLETED")):
        record.write_text(f'v1\n{{}}\n{{"id":"{identity}","rows":1,"tick":0,"time":7}}')
        assert taken(app)["state"] == state


def test_deleting_with_keep_leaves_a_savepoint_to_go_on_from(
    app: AppClient, flights: Flights, redis_client: redis.Redis
) -> None:
    before = app.json(f"{P}/{HISTORY}")["items"]

    answer = app.request("DELETE", f"{P}?state=keep")

    assert answer.status_code == 202
    place = answer.headers["location"]
    until(lambda: app.json(place)["state"] == "COMPLETED")
    until(lambda: not [*redis_client.scan_iter("tailrace:{p:*")])
    until(lambda: app.get(P).status_code == 404)
    until(lambda: redis_client.zscore("tailrace:deletions", "p") is None)
    assert app.json(place)["filtered"] is False
    restored(app, "p", "latest")
    assert app.json(f"{P}/{HISTORY}")["items"] == before
    assert app.json(P)["options"]["max_parallelism"] == 8


@pytest.mark.parametrize("is_deleting", [False, True])
def test_a_savepoint_that_is_being_taken_goes_only_if_that_is_asked_for(
    app: AppClient, redis_client: redis.Redis, is_deleting: bool
) -> None:
    Flights(app, redis_client)
    assert app.post(f"{P}/start").status_code == 202
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    app.spark.is_away = True
    order = ("DELETE", f"{P}?state=keep") if is_deleting else ("POST", f"{P}/savepoints")
    place = app.request(*order, **({} if is_deleting else {"json": {}})).headers["location"]

    problem = assert_problem(app.request("DELETE", P), 409, "pipeline-conflict")

    assert problem["code"] == "pipeline.savepoint-pending"
    assert "?state=drop" in problem["hint"]
    assert app.json(place)["state"] == "IN_PROGRESS"
    assert app.request("DELETE", f"{P}?state=drop").status_code == 204
    app.spark.is_away = False
    until(lambda: redis_client.zscore("tailrace:deletions", "p") is None)
    assert_problem(app.get(place), 404, "savepoint-not-found")


def test_a_savepoint_that_cannot_be_taken_says_why_and_the_pipeline_stays(
    app: AppClient, redis_client: redis.Redis
) -> None:
    flights = Flights(app, redis_client)
    flights.run_epoch(("+I", flight("f1")))
    fake_checkpoint(app, "p", 3)

    made = taken(app)

    assert made["state"] == "FAILED"
    assert made["error"]["code"] == "state-lost"
    assert re.search("closed at epoch 1.*checkpoint is at epoch 3", made["error"]["message"])
    assert app.get(f"{P}/{HISTORY}").status_code == 200
    body = {"name": "q", "plan": flights_plan(source=INGRESS)}
    body["restore"] = {"savepoint": f"p/{made['id']}"}
    assert_problem(app.post("/v1/pipelines", body), 404, "savepoint-not-found")


def test_a_savepoint_that_does_not_fit_is_refused(app: AppClient, flights: Flights) -> None:
    made = taken(app)
    place = {"savepoint": f"p/{made['id']}"}

    other = {"name": "q", "plan": flights_plan(source={"connector": "datagen"}), "restore": place}
    answer = app.post("/v1/pipelines", other)
    assert_problem(answer, 409, "savepoint-unusable")
    assert "table flights is read from elsewhere" in answer.json()["detail"]

    changed = flights_plan(source=INGRESS)
    changed["nodes"][-1]["requireUpsertMaterialize"] = False
    answer = app.post("/v1/pipelines", {"name": "q", "plan": changed, "restore": place})
    assert_problem(answer, 409, "savepoint-unusable")
    assert f"the state of {OPERATOR} is dropped: no node" in answer.json()["detail"]

    restored(app, "q", f"p/{made['id']}", plan=changed, allow_non_restored_state=True)
    assert app.json("/v1/pipelines/q/operators")["items"] == []
    assert_problem(app.get("/v1/pipelines/r"), 404, "pipeline-not-found")


def test_state_of_other_columns_is_refused_unless_it_may_be_dropped(
    app: AppClient, flights: Flights
) -> None:
    """Its form does not tell: the same columns, of another table of that name."""
    identity = app.json(P)["id"]
    folder = app.settings.spark.checkpoint_folder.absolute() / identity
    for batch in range(2):
        (folder / "offsets" / str(batch)).write_text('v1\n{}\n{"id":"1-0","rows":1}')
    made = taken(app)
    text = orjson.dumps(flights_plan(source=INGRESS)).replace(b"default_database", b"other")
    changed = orjson.loads(text)
    place = {"savepoint": f"p/{made['id']}"}

    answer = app.post("/v1/pipelines", {"name": "q", "plan": changed, "restore": place})

    assert_problem(answer, 409, "savepoint-unusable")
    told = f"the state of {OPERATOR} is dropped: node 3 would read it as something else: the"
    assert told in answer.json()["detail"]
    assert "allow_non_restored_state" in answer.json()["hint"]
    restored(app, "q", f"p/{made['id']}", plan=changed, allow_non_restored_state=True)
    assert app.get(f"/v1/pipelines/q/{HISTORY}").status_code == 404


def test_other_key_groups_may_be_asked_for(app: AppClient, flights: Flights) -> None:
    made = taken(app)

    restored(app, "wide", f"p/{made['id']}", options={"max_parallelism": 32})

    before = app.json(f"{P}/{HISTORY}")["items"]
    assert app.json(f"/v1/pipelines/wide/{HISTORY}")["items"] == before


def test_a_damaged_savepoint_fails_the_new_pipeline_and_nothing_runs(
    app: AppClient, flights: Flights
) -> None:
    made = taken(app)
    folder = app.settings.savepoints.folder / "p" / made["id"]
    part = next(folder.glob("part-*"))
    part.write_bytes(part.read_bytes()[:-1])

    body = {"name": "q", "plan": flights_plan(source=INGRESS), "start": True}
    answer = app.post("/v1/pipelines", {**body, "restore": {"savepoint": f"p/{made['id']}"}})

    assert answer.status_code == 201
    until(lambda: app.json("/v1/pipelines/q")["status"]["state"] == "FAILED")
    shown = app.json("/v1/pipelines/q")
    assert shown["status"]["error"]["code"] == "savepoint-corrupt"
    assert_problem(app.get(f"/v1/pipelines/q/{HISTORY}"), 409, "pipeline-conflict")
    ingress = app.post(
        "/v1/pipelines/q/ingress/flights",
        content=change("+I", outside("f8")),
        headers={"content-type": "application/x-ndjson"},
    )
    assert_problem(ingress, 409, "pipeline-conflict")
    (folder / "manifest.json").write_bytes(b"{")
    shown = app.json(f"{P}/savepoints/{made['id']}")
    assert shown["state"] == "FAILED"
    assert shown["error"]["code"] == "savepoint-corrupt"


def test_there_are_not_more_savepoints_than_may_be(
    make_app: Any, redis_client: redis.Redis, tmp_path: Path
) -> None:
    app = make_app(savepoints=SavepointSettings(folder=tmp_path / "savepoints", per_pipeline_max=1))
    Flights(app, redis_client)
    assert taken(app)["epoch"] == 0

    assert_problem(app.post(f"{P}/savepoints", {}), 429, "savepoint-limit")
    assert_problem(app.request("DELETE", f"{P}?state=keep"), 429, "savepoint-limit")


def test_what_is_no_savepoint_is_refused(app: AppClient, flights: Flights) -> None:
    assert_problem(app.post("/v1/pipelines/none/savepoints", {}), 404, "pipeline-not-found")
    assert app.json("/v1/pipelines/none/savepoints")["items"] == []
    for strange in ("x", "19700101t000000000-00000000", "%2e%2e%2f"):
        assert app.get(f"{P}/savepoints/{strange}").status_code == 404
    for strange in ("../p/latest", "p/..", "P/latest", "a/b/latest", ""):
        body = {"name": "q", "plan": flights_plan(source=INGRESS)}
        body["restore"] = {"savepoint": strange}
        assert_problem(app.post("/v1/pipelines", body), 422, "invalid-request")
    body["restore"] = {"savepoint": "nobody/latest"}
    assert_problem(app.post("/v1/pipelines", body), 404, "savepoint-not-found")


@pytest.mark.parametrize(
    ("body", "options", "is_filtered"),
    [
        ({}, {}, True),
        ({"filter_expired": False}, {}, False),
        # What expires is owed to the sink: it is no savepoint's to drop.
        ({}, {"emit_expired": True}, False),
    ],
)
def test_what_is_expired_as_of_the_epoch_is_left_out(
    app: AppClient, redis_client: redis.Redis, body: Any, options: Any, is_filtered: bool
) -> None:
    flights = Flights(app, redis_client, ttl="10 s")
    if options:
        app.request("PATCH", P, json={"options": options}).raise_for_status()
    prepared = flights.prepared
    # So much is left to the next epochs that there is something to filter.
    prepared._spec = replace(prepared._spec, due_keys_max=1)
    flights.run_epoch(*[("+I", flight(f"f{n}", f"N{n}")) for n in range(40)], time_ms=1_000)
    flights.run_epoch(("+I", flight("live", "live")), time_ms=11_000)
    histories = [*redis_client.scan_iter("tailrace:{p:*:history")]
    held = sum(int(redis_client.hlen(each)) for each in histories)
    assert held > 20
    fake_checkpoint(app, "p", 2)

    (state,) = taken(app, **body)["states"]

    assert (state["keys"], state["expired"]) == ((1, held - 1) if is_filtered else (held, 0))


@pytest.mark.parametrize("strategy", ["LEGACY", "VALUE", "MAP", "ADAPTIVE"])
def test_histories_of_every_strategy_go_on_as_if_they_had_never_stopped(
    app: AppClient, redis_client: redis.Redis, strategy: str
) -> None:
    flights = Flights(app, redis_client)
    spec = replace(flights.prepared._spec, strategy=Strategy(strategy), high=20, low=10)
    flights.prepared._spec = spec
    flights.run_epoch(*[("+I", flight(f"f{n}")) for n in range(50)])
    flights.run_epoch(*[("-D", flight(f"f{n}")) for n in range(0, 50, 3)])
    flights.run_epoch(("+U", flight("f1", status="LANDED")), ("+I", flight("g", "N2")))
    fake_checkpoint(app, "p", 3)
    made = taken(app, stop=True)
    options = {"upsert_materialize_strategy": strategy, "max_parallelism": 8}

    restored(app, "copy", f"p/{made['id']}", options=options, start=True)
    until(lambda: app.json("/v1/pipelines/copy")["status"]["state"] == "RUNNING")

    copied = PreparedPipeline(redis_client, "copy", spec, node=OPERATOR, table="latest_flight")
    assert copied.epoch == 3
    for each in (flights.prepared, copied):
        each._run = each._ledger.open_run([OPERATOR], 8)
        each.run_epoch([("-D", flight("f1")), *[("-D", flight(f"f{n}")) for n in range(32, 50)]])
    for path in (HISTORY, HISTORY.replace(KEY, "N2")):
        before, after = (app.json(f"/v1/pipelines/{name}/{path}") for name in ("p", "copy"))
        assert after == before
        assert after["epoch"] == 4
        assert after["entries"] > 0


def test_a_page_whose_savepoints_are_gone_meanwhile_is_not_the_last(
    app: AppClient, flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [taken(app)["id"] for _ in range(3)]
    shown = SavepointStore.get

    def get(store: SavepointStore, pipeline: str, savepoint: str) -> StoredSavepoint:
        """Somebody deletes the newest between the listing and this."""
        if savepoint == made[-1]:
            raise SavepointNotFound("deleted")
        return shown(store, pipeline, savepoint)

    monkeypatch.setattr(SavepointStore, "get", get)

    found = [each["id"] for each in app.pages(f"{P}/savepoints", limit=1)]

    assert found == [made[1], made[0]]
