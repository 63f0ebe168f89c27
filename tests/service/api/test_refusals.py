"""A plan that is refused: with 422, the node's id and type, and the place in the document."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.sql import compile_script
from tests.service.mutations import REMOVED, kinds, mutated, mutations
from tests.service.plan.builders import call, literal, recorded_plan, ref
from tests.service.plans import INGRESS, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from tests.service.app_client import AppClient

VALIDATE, PIPELINES, STATEMENTS = "/v1/plans/validate", "/v1/pipelines", "/v1/statements"
CALC, SINK = "stream-exec-calc_1", "stream-exec-sink_2"


def refused(app: AppClient, plan: Any, **more: Any) -> dict[str, Any]:
    """The problem of creation, which validation finds with the same words and place."""
    checked = app.post(VALIDATE, {"plan": plan, **more})
    assert checked.status_code == 200, checked.text
    found = [each for each in checked.json()["findings"] if each["severity"] == "error"]
    taken = app.post(PIPELINES, {"name": "p", "plan": plan, **more})
    assert taken.status_code == 422, taken.text
    problem: dict[str, Any] = taken.json()
    told = [problem[name] for name in ("detail", "node_id", "node_type", "path")]
    assert told == [found[0][name] for name in ("message", "node_id", "type", "path")]
    return problem


@pytest.mark.parametrize("kind", kinds())
def test_a_malformed_node_is_no_server_error(kind: str, app: AppClient) -> None:
    """A few of what `test_malformed_nodes` tries, by the front door."""
    asked = 0
    for place, value in islice(mutations(kind, 2), 0, None, 7):
        plan = mutated(place, value)
        checked = app.post(VALIDATE, {"plan": plan})
        assert checked.status_code == 200, (place, value is REMOVED, checked.text)
        if not checked.json()["valid"]:
            problem = refused(app, plan)
            assert problem["path"].startswith("/nodes/")
            assert problem["node_type"]
        asked += 1
    assert asked


def calc_plan(rex: dict[str, Any]) -> dict[str, Any]:
    plan = flights_plan(source=INGRESS)
    node = next(each for each in plan["nodes"] if each["type"] == CALC)
    node["condition"] = call("=", rex, literal(1))
    return plan


def test_an_expression_that_is_not_run_names_its_node(app: AppClient) -> None:
    plan = calc_plan(call("NO_SUCH_FUNCTION", ref(0), type_text="INT"))

    problem = refused(app, plan)

    assert (problem["node_id"], problem["node_type"]) == (2, CALC)
    assert problem["path"] == "/nodes/1/condition/operands/0"


def test_a_filter_of_a_changelog_normalize_is_checked(app: AppClient) -> None:
    plan = recorded_plan("013_")
    for node in plan["nodes"]:
        if "filterCondition" in node:
            node["filterCondition"] = call("NO_SUCH_FUNCTION", ref(0))
        for role in ("scanTableSource", "dynamicTableSink"):
            if role in node:
                options = INGRESS if role == "scanTableSource" else {"connector": "print"}
                node[role]["table"]["resolvedTable"]["options"] = options

    problem = refused(app, plan)

    assert problem["node_type"] == "stream-exec-changelog-normalize_1"
    assert problem["path"].endswith("/filterCondition")
    assert problem["type"].endswith("/plan-unsupported")


def test_a_spec_that_cannot_be_names_its_node(app: AppClient) -> None:
    options = {"adaptive_threshold_high": 5, "adaptive_threshold_low": 9}

    problem = refused(app, flights_plan(), options=options)

    assert (problem["node_id"], problem["node_type"], problem["path"]) == (3, SINK, "/nodes/2")


def test_a_property_that_only_reading_finds_names_its_type_when_explained(app: AppClient) -> None:
    plan = flights_plan()
    del plan["nodes"][1]["projection"]

    problem = assert_problem(app.post("/v1/plans/explain", {"plan": plan}), 422, "plan-invalid")

    assert (problem["node_id"], problem["node_type"]) == (2, CALC)
    assert problem["path"] == "/nodes/1/projection"


TABLES = """
CREATE TABLE s (id INT, v STRING) WITH ('connector' = 'ingress', 'changelog-mode' = 'I');
CREATE TABLE t (id INT, v STRING) WITH ('connector' = 'print');
"""


def test_a_statement_that_is_refused_names_its_node(app: AppClient) -> None:
    refused = "CARDINALITY(ARRAY_DISTINCT(ARRAY[CAST(id AS DOUBLE)]))"
    insert = f"INSERT INTO t SELECT id, CAST({refused} AS STRING) FROM s"
    [planned] = compile_script(TABLES + insert)
    path = "/nodes/1/projection/1"

    problem = assert_problem(
        app.post(STATEMENTS, {"sql": TABLES + insert}), 422, "plan-unsupported"
    )

    assert planned.document["nodes"][1]["type"] == CALC
    assert (problem["node_id"], problem["node_type"]) == (planned.document["nodes"][1]["id"], CALC)
    assert problem["path"].startswith(path)


WINDOW = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"


def above(plan: dict[str, Any], node_id: int) -> set[int]:
    """The node and all that it reads from."""
    found, ahead = set(), {node_id}
    while ahead:
        found |= ahead
        ahead = {each["source"] for each in plan["edges"] if each["target"] in ahead} - found
    return found


def test_a_window_join_of_differing_decimals_is_refused(app: AppClient) -> None:
    """Keys are compared as text: 1.00 and 1.0000 would never meet. Our own SQL casts them."""
    columns = "(m DECIMAL(12, 4), ts TIMESTAMP(3), WATERMARK FOR ts AS ts)"
    source = "WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
    script = (
        f"CREATE TABLE a {columns} {source} CREATE TABLE b {columns} {source}"
        "CREATE TABLE t (m DECIMAL(12, 4)) WITH ('connector' = 'print');"
        f"INSERT INTO t SELECT a.m FROM (SELECT * FROM {WINDOW.format('a')}) a JOIN "
        f"(SELECT * FROM {WINDOW.format('b')}) b ON a.m = b.m "
        "AND a.window_start = b.window_start AND a.window_end = b.window_end"
    )
    plan = dict(compile_script(script)[-1].document)
    [join] = [each for each in plan["nodes"] if each["type"] == "stream-exec-window-join_1"]
    _, right = [each["source"] for each in plan["edges"] if each["target"] == join["id"]]
    narrowed = above(plan, right)
    plan["nodes"] = [
        orjson.loads(orjson.dumps(each).replace(b"DECIMAL(12, 4)", b"DECIMAL(10, 2)"))
        if each["id"] in narrowed
        else each
        for each in plan["nodes"]
    ]

    problem = refused(app, plan)

    assert problem["node_type"] == "stream-exec-window-join_1"
    assert problem["path"].endswith("/joinSpec/leftKeys")
    assert "types of compared columns differ" in problem["detail"]


def conflict_plan(behavior: str | None) -> dict[str, Any]:
    """The demo's plan with another ON CONFLICT, or without a materializer."""
    plan = flights_plan(source=INGRESS)
    sink = plan["nodes"][-1]
    sink.pop("conflictStrategy", None)
    if behavior is None:
        for name in ("requireUpsertMaterialize", "state", "upsertMaterializeStrategy"):
            sink.pop(name, None)
    else:
        sink["conflictStrategy"] = {"behavior": behavior}
    return plan


EMITS = {"emit_expired": True}
NET = {"net_changes": True}
STRATEGY = {"upsert_materialize_strategy": "MAP"}


@pytest.mark.parametrize(
    ("behavior", "options", "is_taken"),
    [
        *(("DEDUPLICATE", each, True) for each in (EMITS, NET, STRATEGY)),
        *(("NOTHING", each, each is NET) for each in (EMITS, NET, STRATEGY)),
        *(("ERROR", each, each is NET) for each in (EMITS, NET, STRATEGY)),
        *((None, each, False) for each in (EMITS, NET, STRATEGY)),
        (None, {"emit_expired": False, "net_changes": False}, True),
    ],
)
def test_an_option_that_nothing_follows_is_refused_by_name(
    app: AppClient, behavior: str | None, options: dict[str, Any], is_taken: bool
) -> None:
    plan = conflict_plan(behavior)
    if is_taken:
        assert app.post(VALIDATE, {"plan": plan, "options": options}).json()["valid"]
        return

    problem = refused(app, plan, options=options)

    [name] = options
    assert problem["type"].endswith("/invalid-request")
    assert problem["path"] == f"/options/{name}"
    assert f'"{name}"' in problem["detail"]
    assert (problem["node_id"], problem["node_type"]) == (3, SINK)


def test_an_option_that_nothing_follows_is_refused_when_it_is_set_later(app: AppClient) -> None:
    created = app.post(PIPELINES, {"name": "p", "plan": conflict_plan("NOTHING"), "start": False})
    assert created.status_code == 201, created.text
    headers = {"If-Match": created.headers["etag"], "Content-Type": "application/merge-patch+json"}

    answer = app.request("PATCH", f"{PIPELINES}/p", json={"options": EMITS}, headers=headers)

    assert_problem(answer, 422, "invalid-request")
