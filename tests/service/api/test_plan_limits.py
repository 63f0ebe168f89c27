"""Compiled plans that are large, deep or slow: every way in ends in an answer within limits."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan.findings import WARNINGS_MAX
from service.settings import LimitSettings
from tests.service.plans import INGRESS, flights_plan
from tests.service.test_app import assert_problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.service.app_client import AppClient

VALIDATE, EXPLAIN, DIFF = "/v1/plans/validate", "/v1/plans/explain", "/v1/plans/diff"
PIPELINES, STATEMENTS = "/v1/pipelines", "/v1/statements"
CALCS = 1_000
SOON = LimitSettings(planning_timeout_ms=10)
"""Less than a plan of a megabyte takes on any machine."""


def chain(calcs: int) -> dict[str, Any]:
    """A plan with so many nodes one behind the other, of 1.3 kB each."""
    plan = flights_plan(source=INGRESS)
    scan, calc, sink = plan["nodes"]
    calc = {**calc, "condition": None}
    plan["nodes"] = [scan, *({**calc, "id": at + 2} for at in range(calcs))]
    plan["nodes"].append({**sink, "id": calcs + 2})
    edge = plan["edges"][0]
    plan["edges"] = [{**edge, "source": at, "target": at + 1} for at in range(1, calcs + 2)]
    return plan


def nested(head: str, levels: int, tail: str) -> str:
    """A plan whose condition has so much inside each other, as text."""
    plan = flights_plan(source=INGRESS)
    plan["nodes"][1]["condition"] = "CONDITION"
    inner = orjson.dumps(flights_plan()["nodes"][1]["condition"]).decode()
    return orjson.dumps(plan).decode().replace('"CONDITION"', head * levels + inner + tail * levels)


def wide(columns: int) -> dict[str, Any]:
    """A plan whose tables have so many columns."""
    plan = flights_plan(source=INGRESS, sink={"connector": "print"})
    row = f"ROW<{', '.join(f'`c{at}` INT' for at in range(columns))}>"
    for node in plan["nodes"]:
        node["outputType"] = row
        for role in ("scanTableSource", "dynamicTableSink"):
            if role in node:
                node[role].pop("abilities", None)
                schema = node[role]["table"]["resolvedTable"]["schema"]
                schema["columns"] = [{"name": f"c{at}", "dataType": "INT"} for at in range(columns)]
                schema["watermarkSpecs"] = []
                schema.pop("primaryKey", None)
    plan["nodes"][1]["condition"] = None
    plan["nodes"][1]["projection"] = [
        {"kind": "INPUT_REF", "inputIndex": at, "type": "INT"} for at in range(columns)
    ]
    for name in ("state", "requireUpsertMaterialize", "inputUpsertKey", "conflictStrategy"):
        plan["nodes"][2].pop(name, None)
    return plan


def ways_in(plan: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every address that takes a compiled plan, with a body that has this one."""
    return [
        (VALIDATE, {"plan": plan}),
        (EXPLAIN, {"plan": plan}),
        (DIFF, {"before": {"plan": flights_plan()}, "after": {"plan": plan}}),
        (DIFF, {"before": {"plan": plan}, "after": {"plan": flights_plan()}}),
        (PIPELINES, {"name": "p", "plan": plan, "start": False}),
    ]


@pytest.mark.parametrize("way", range(5), ids=lambda way: ways_in(None)[way][0])
@pytest.mark.parametrize("form", [dict, lambda plan: orjson.dumps(plan).decode()], ids=["", "text"])
def test_a_plan_that_takes_too_long_is_answered(
    make_app: Any, form: Callable[[Any], Any], way: int
) -> None:
    app = make_app(limits=SOON)
    path, body = ways_in(form(chain(CALCS)))[way]
    assert len(orjson.dumps(body)) > 1_000_000

    problem = assert_problem(app.post(path, body), 422, "plan-timeout")

    assert problem["code"] == "plan.timeout"
    assert app.json(PIPELINES)["items"] == []


def test_a_plan_in_a_file_that_takes_too_long_is_answered(make_app: Any) -> None:
    app = make_app(limits=SOON)
    app.settings.files.root.joinpath("big.json").write_bytes(orjson.dumps(chain(CALCS)))

    for path, body in (
        (VALIDATE, {"plan_uri": "big.json"}),
        (STATEMENTS, {"sql": "EXPLAIN PLAN 'big.json'"}),
        (STATEMENTS, {"sql": "EXECUTE PLAN 'big.json'"}),
    ):
        reply = app.post(path, body)
        assert reply.status_code == 422
        # The time of a statement begins before that of its plan.
        assert reply.json()["code"] in ("plan.timeout", "sql.timeout")
    assert app.json(PIPELINES)["items"] == []


def test_changes_of_a_plan_that_take_too_long_are_answered(make_app: Any) -> None:
    app: AppClient = make_app()
    path, body = ways_in(chain(CALCS))[-1]
    assert app.post(path, body).status_code == 201
    operator = f"{PIPELINES}/p/operators/{CALCS + 2}_sink-materializer/ttl"
    before = app.json(operator)

    slow: AppClient = make_app(limits=SOON)
    for address, change in (
        (operator, {"states": {"sinkMaterializeState": "1 h"}}),
        (f"{PIPELINES}/p", {"options": {"default_ttl_ms": 5}}),
    ):
        assert_problem(slow.request("PATCH", address, json=change), 422, "plan-timeout")

    assert app.json(operator) == before
    assert app.request("PATCH", operator, json={"states": {"sinkMaterializeState": "1 h"}})


@pytest.mark.parametrize("plan", [chain(CALCS), wide(10_000)], ids=["nodes", "columns"])
def test_a_plan_of_a_megabyte_is_read_everywhere(app: AppClient, plan: dict[str, Any]) -> None:
    assert len(orjson.dumps(plan)) > 1_000_000

    for path, body in ways_in(plan):
        answer = app.post(path, body)
        assert answer.status_code == (201 if path == PIPELINES else 200), answer.text[:300]
        if path == VALIDATE:
            assert answer.json()["valid"] is True


NOT = '{"kind":"CALL","syntax":"PREFIX","internalName":"$NOT$1","operands":['
OF_NOT = '],"type":"BOOLEAN NOT NULL"}'


@pytest.mark.parametrize(
    ("head", "levels", "tail"),
    [(NOT, 300, OF_NOT), (NOT, 50_000, OF_NOT), ("[", 100_000, "]"), ('{"a":', 100_000, "}")],
    ids=["operands", "many operands", "arrays", "objects"],
)
def test_what_is_inside_each_other(app: AppClient, head: str, levels: int, tail: str) -> None:
    text = nested(head, levels, tail)
    document = f'{{"plan": {text}}}'

    for path, body in ways_in(text):
        assert_problem(app.post(path, body), 400, "body-too-deep")
    answer = app.post(VALIDATE, content=document, headers={"Content-Type": "application/json"})
    assert_problem(answer, 400, "body-too-deep")
    app.settings.files.root.joinpath("deep.json").write_text(text)
    assert_problem(app.post(STATEMENTS, {"sql": "EXPLAIN PLAN 'deep.json'"}), 400, "body-too-deep")


@pytest.mark.parametrize("levels", [200, 100_000])
def test_types_inside_each_other(app: AppClient, levels: int) -> None:
    plan = flights_plan(source=INGRESS)
    plan["nodes"][1]["outputType"] = f"ROW<`a` {'ARRAY<' * levels}INT{'>' * levels}>"

    for path, body in ways_in(plan):
        answer = app.post(path, body)
        if path == VALIDATE:
            [found] = answer.json()["findings"]
            assert found["code"] == "plan.invalid-type"
        else:
            assert_problem(answer, 422, "plan-invalid")
        assert len(answer.content) < 10_000


def test_more_nodes_than_a_plan_may_have(app: AppClient) -> None:
    plan = flights_plan(source=INGRESS)
    small = {
        "id": 5,
        "type": "stream-exec-union_1",
        "description": "",
        "outputType": "ROW<`a` INT>",
    }
    plan["nodes"] += [{**small, "id": at} for at in range(10, 10_010)]

    for path, body in ways_in(plan)[1:]:
        problem = assert_problem(app.post(path, body), 422, "plan-invalid")
        assert "10000 are allowed" in problem["detail"]


def test_the_text_of_a_long_chain_grows_with_its_length_only(app: AppClient) -> None:
    short, long = (
        app.post(EXPLAIN, {"plan": chain(calcs)}, headers={"Accept": "text/plain"}).text
        for calcs in (500, 1_000)
    )

    assert len(long) < 3 * len(short)
    assert "(level 1001) +- TableSourceScan" in long
    assert long.count("Calc(") == 1_000


def test_doubts_about_pairs_of_nodes_are_not_all_told(app: AppClient) -> None:
    """Sixty producers and sixty consumers are 3,600 pairs."""
    plan = flights_plan(source=INGRESS)
    scan, _, sink = plan["nodes"]
    group = {
        "type": "stream-exec-group-aggregate_1",
        "grouping": [0],
        "aggCalls": [],
        "aggCallNeedRetractions": [],
        "generateUpdateBefore": True,
        "needRetraction": True,
        "inputProperties": plan["nodes"][1]["inputProperties"],
        "outputType": scan["outputType"],
        "description": "",
    }
    edge = plan["edges"][0]
    union = {**group, "id": 2, "type": "stream-exec-union_1"}
    nodes, edges = [scan, union], []
    for at in range(60):
        state = {"index": 0, "name": "groupAggregateState"}
        nodes.append({**group, "id": 100 + at, "state": [{**state, "ttl": "1 d"}]})
        nodes.append({**group, "id": 200 + at, "state": [{**state, "ttl": "1 h"}]})
        nodes.append({**copy.deepcopy(sink), "id": 300 + at})
        ends = [(1, 100 + at), (100 + at, 2), (2, 200 + at), (200 + at, 300 + at)]
        edges += [{**edge, "source": source, "target": target} for source, target in ends]
    union["inputProperties"] = union["inputProperties"] * 60
    plan = {**plan, "nodes": nodes, "edges": edges}

    found = app.post(VALIDATE, {"plan": plan}).json()["findings"]

    assert [each["code"] for each in found].count("plan.ttl-misaligned") == WARNINGS_MAX
