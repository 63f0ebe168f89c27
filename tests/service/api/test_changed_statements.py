"""A statement is changed over a savepoint: what `diff` and `validate` say, a restore does."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from operators.testing.operator_harness import OperatorHarness, insert
from operators.upsert_materializer import MaterializerSpec
from service.plan import load_plan
from service.runtime.operators import stateful_nodes
from service.sql import compile_script
from tests.service.api.test_savepoints import fake_checkpoint, restored, taken
from tests.service.api.test_state import Flights, flight
from tests.service.app_client import until
from tests.service.keyed_states import KEY
from tests.service.plans import INGRESS, OPERATOR, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    import redis

    from tests.service.app_client import AppClient

P = "/v1/pipelines/p"


def renumbered(plan: dict[str, Any], by: int) -> dict[str, Any]:
    """The plan with other node ids, as another statement beside it would make them."""
    found = copy.deepcopy(plan)
    for node in found["nodes"]:
        node["id"] += by
    for edge in found["edges"]:
        edge["source"] += by
        edge["target"] += by
    return found


def named(plan: dict[str, Any], before: str, after: str) -> dict[str, Any]:
    """The plan with another name of a table."""
    text = orjson.dumps(plan).decode().replace(f"`{before}`", f"`{after}`")
    found: dict[str, Any] = orjson.loads(text)
    return found


@pytest.fixture
def flights(app: AppClient, redis_client: redis.Redis) -> Flights:
    made = Flights(app, redis_client)
    made.run_epoch(*[("+I", flight(f"f{n}")) for n in range(3)])
    made.run_epoch(("-D", flight("f2")), ("-D", flight("f9", "N9")))
    fake_checkpoint(app, "p", 2)
    return made


def test_state_and_rows_follow_what_they_mean_not_their_names(
    app: AppClient, flights: Flights
) -> None:
    place = f"p/{taken(app)['id']}"
    changed = renumbered(named(flights_plan(source=INGRESS), "latest_flight", "newest"), 10)

    found = app.post(
        "/v1/plans/diff", {"before": {"pipeline": "p"}, "after": {"plan": changed}}
    ).json()
    restored(app, "q", place, plan=changed)

    operator = OPERATOR.replace("3", "13")
    assert found["keeps_state"]
    assert found["keeps_tables"]
    assert [(each["fate"], each["after_id"]) for each in found["state"]] == [("kept", 13)]
    history = f"keys/{KEY}/history"
    before = app.json(f"{P}/operators/{OPERATOR}/{history}")["items"]
    assert app.json(f"/v1/pipelines/q/operators/{operator}/{history}")["items"] == before != []
    assert app.json(f"/v1/pipelines/q/operators/{operator}/orphans")["count"] == 1
    rows = app.json(f"{P}/tables/latest_flight")["items"]
    moved = app.json("/v1/pipelines/q/tables/newest")["items"]
    assert [each["row"] for each in moved] == [each["row"] for each in rows] != []


def test_a_table_that_is_gone_leaves_nothing(
    app: AppClient, flights: Flights, redis_client: redis.Redis
) -> None:
    place = f"p/{taken(app)['id']}"
    changed = named(flights_plan(source=INGRESS, sink={"connector": "print"}), "latest_flight", "l")

    restored(app, "q", place, plan=changed)

    assert redis_client.exists("tailrace:{p}:table:latest_flight")
    assert not redis_client.exists("tailrace:{q}:table:latest_flight")
    assert app.json("/v1/pipelines/q")["restore"]["notes"] == [
        "table l is new: it begins empty: of what was read before it gets nothing",
        "table latest_flight is not written any more",
    ]


CHANGED = """CREATE TABLE p (pid INT NOT NULL, id INT, amount INT, state STRING,
  PRIMARY KEY (pid) NOT ENFORCED) WITH ('connector' = 'ingress');
CREATE TABLE r (id INT NOT NULL, n BIGINT, paid INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE c (pid INT NOT NULL, id INT, PRIMARY KEY (pid) NOT ENFORCED)
  WITH ('connector' = 'redis');
EXECUTE STATEMENT SET BEGIN
INSERT INTO r SELECT id, COUNT(*), SUM(amount) FROM p WHERE {} GROUP BY id;
INSERT INTO c SELECT pid, id FROM p WHERE {};
END;"""
OK = "state = 'OK'"


def saved(app: AppClient, client: redis.Redis, sql: str) -> dict[str, Any]:
    """A savepoint of a statement whose aggregate has read two rows."""
    (operator,) = stateful_nodes(load_plan(compile_script(sql)[-1].document))
    assert not isinstance(operator.spec, MaterializerSpec)
    harness = OperatorHarness.on_redis(
        operator.spec, client, pipeline="p", node=operator.id, max_parallelism=8
    )
    harness.run([insert(1, 5), insert(1, 7)])
    harness.close()
    client.hset("tailrace:{p}:totals", "rows_in", 2)
    options = {"max_parallelism": 8}
    assert app.post("/v1/pipelines", {"name": "p", "sql": sql, "options": options}).is_success
    fake_checkpoint(app, "p", 1)
    made = taken(app)
    assert made["state"] == "COMPLETED", made
    assert [each["keys"] for each in made["states"]] == [1]
    return made


@pytest.mark.parametrize(
    ("of_r", "of_c", "fate", "outcomes"),
    [
        (OK, OK, "kept", ["kept", "kept"]),
        (OK, "pid > 0", "kept", ["kept", "outdated"]),
        ("state IN ('OK', 'REFUNDED')", OK, "dropped", ["outdated", "kept"]),
    ],
)
def test_a_changed_condition_keeps_neither_state_above_it_nor_rows(
    app: AppClient,
    redis_client: redis.Redis,
    of_r: str,
    of_c: str,
    fate: str,
    outcomes: list[str],
) -> None:
    made = saved(app, redis_client, CHANGED.format(OK, OK))
    sql = CHANGED.format(of_r, of_c)
    body: dict[str, Any] = {"sql": sql, "restore": {"savepoint": f"p/{made['id']}"}}

    found = app.post("/v1/plans/diff", {"before": {"pipeline": "p"}, "after": {"sql": sql}}).json()
    checked = app.post("/v1/plans/validate", body).json()
    answer = app.post("/v1/pipelines", {"name": "q", **body})

    is_whole = fate == "kept" and set(outcomes) == {"kept"}
    assert found["state"][0]["fate"] == fate
    by_table = {each["after"][-2:-1]: each["outcome"] for each in found["tables"]}
    assert by_table == dict(zip("rc", outcomes, strict=True))
    assert (found["keeps_state"], found["keeps_tables"]) == (
        fate == "kept",
        set(outcomes) == {"kept"},
    )
    assert checked["valid"] is is_whole
    if is_whole:
        assert answer.status_code == 201, answer.text
        return
    assert_problem(answer, 409, "savepoint-unusable")
    told = [each for each in checked["findings"] if each["severity"] == "error"]
    assert answer.json()["detail"] == "; ".join(each["message"] for each in told)
    table = "r" if outcomes[0] == "outdated" else "c"
    assert told[-1]["code"] == "restore-table-outdated"
    assert told[-1]["message"].startswith(f"table {table} is outdated: it has rows that the plan")
    body["restore"]["allow_outdated_rows"] = True
    if fate == "dropped":
        assert told[0]["code"] == "restore-state-dropped"
        assert_problem(app.post("/v1/pipelines", {"name": "q", **body}), 409, "savepoint-unusable")
        body["restore"]["allow_non_restored_state"] = True
    assert app.post("/v1/plans/validate", body).json()["valid"]
    assert app.post("/v1/pipelines", {"name": "q", **body}).status_code == 201
    until(lambda: app.json("/v1/pipelines/q")["restore"]["done"])


T = "id INT NOT NULL, grp STRING, amt DECIMAL(10, 2)"
EVOLVED = """CREATE TABLE t ({t}, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'ingress', 'format' = 'debezium-json');
CREATE TABLE cp (id INT NOT NULL, grp STRING, amt DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE ag (grp STRING NOT NULL, n BIGINT, s DECIMAL(38, 2), PRIMARY KEY (grp) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE {lastof} (grp STRING NOT NULL, id INT, PRIMARY KEY (grp) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE x (id INT NOT NULL, grp STRING, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector' = 'redis');
EXECUTE STATEMENT SET BEGIN {inserts} END;"""
INSERTS = [
    "INSERT INTO cp SELECT id, grp, amt FROM t;",
    "INSERT INTO ag SELECT grp, COUNT(*), SUM(amt) FROM t WHERE grp IS NOT NULL GROUP BY grp;",
    "INSERT INTO lastof SELECT grp, id FROM t WHERE grp IS NOT NULL ON CONFLICT DO DEDUPLICATE;",
]
MORE = "INSERT INTO x SELECT id, grp FROM t;"


def evolved(t: str = T, lastof: str = "lastof", inserts: list[str] = INSERTS) -> str:
    text = " ".join(inserts).replace("lastof", lastof)
    return EVOLVED.format(t=t, lastof=lastof, inserts=text)


@pytest.mark.parametrize(
    "after",
    [
        evolved(f"{T}, note STRING"),
        evolved(f"note STRING, {T}"),
        evolved(inserts=[*INSERTS, MORE]),
        evolved(inserts=[MORE, *reversed(INSERTS)]),
        evolved(lastof="lastone"),
        evolved(inserts=INSERTS[1:]),
        evolved(
            inserts=[INSERTS[0], INSERTS[1].replace("grp IS NOT NULL", "NOT grp IS NULL"), MORE]
        ),
    ],
    ids=["column behind", "column before", "output", "outputs turned", "name", "one less", "words"],
)
def test_what_does_not_touch_a_state_keeps_it(app: AppClient, after: str) -> None:
    found = app.post(
        "/v1/plans/diff", {"before": {"sql": evolved()}, "after": {"sql": after}}
    ).json()

    lost = [each["names"] for each in found["state"] if each["fate"] == "dropped"]
    is_gone = "INTO last" not in after
    assert lost == ([["sinkMaterializeState"]] if is_gone else [])
    outcomes = {each["outcome"] for each in found["tables"]}
    assert outcomes <= {"kept", "new", "gone"}
    assert [each["after"] for each in found["tables"] if each["outcome"] == "new"] == (
        ["`default_catalog`.`default_database`.`x`"] if MORE in after else []
    )


def test_the_latest_savepoint_is_not_an_older_one_while_it_is_being_taken(
    app: AppClient, redis_client: redis.Redis
) -> None:
    Flights(app, redis_client)
    latest = f"{P}/savepoints/latest"
    assert_problem(app.get(latest), 404, "savepoint-not-found")
    older = taken(app)
    assert app.json(latest) == older
    assert app.post(f"{P}/start").status_code == 202
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    app.spark.is_away = True
    newer = app.post(f"{P}/savepoints", {"stop": True}).json()
    body = {"name": "q", "plan": flights_plan(source=INGRESS), "restore": {"savepoint": "p/latest"}}

    problem = assert_problem(app.post("/v1/pipelines", body), 409, "pipeline-conflict")

    assert problem["code"] == "pipeline.savepoint-pending"
    assert newer["id"] in problem["detail"]
    assert app.json(latest) == newer
    assert_problem(app.request("DELETE", latest), 404, "savepoint-not-found")
    app.spark.is_away = False
    until(lambda: app.json(latest)["state"] == "COMPLETED")
    made = app.post("/v1/pipelines", body)
    assert made.status_code == 201
    assert made.json()["restore"]["savepoint"] == f"p/{newer['id']}"


def test_a_deleted_pipeline_that_leaves_a_savepoint_is_waited_for(
    app: AppClient, redis_client: redis.Redis
) -> None:
    Flights(app, redis_client)
    taken(app)
    assert app.post(f"{P}/start").status_code == 202
    until(lambda: app.json(P)["status"]["state"] == "RUNNING")
    app.spark.is_away = True
    assert app.request("DELETE", f"{P}?state=keep").status_code == 202
    body = {"name": "q", "plan": flights_plan(source=INGRESS), "restore": {"savepoint": "p/latest"}}

    assert_problem(app.post("/v1/pipelines", body), 409, "pipeline-conflict")

    app.spark.is_away = False
