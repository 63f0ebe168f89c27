"""Plans whose tables a catalogue describes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from service.plan import load_plan
from service.plan.errors import SchemaMismatch, UnresolvedTable
from service.plan.restore import restored
from tests.service.plans import flights_plan

HOLDERS = ("scanTableSource", "dynamicTableSink")


def tables(plan: dict[str, Any]) -> dict[str, Any]:
    """The tables of a plan by identifier, as a catalogue gives them."""
    found = {}
    for node in plan["nodes"]:
        for holder in HOLDERS:
            if holder in node:
                table = node[holder]["table"]
                found[table["identifier"]] = copy.deepcopy(table["resolvedTable"])
    return found


def reduced(plan: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The plan without these members of its tables."""
    made = copy.deepcopy(plan)
    for node in made["nodes"]:
        for holder in HOLDERS:
            if holder in node:
                for key in keys:
                    node[holder]["table"].pop(key, None)
                    node[holder]["table"].get("resolvedTable", {}).pop(key, None)
    return made


def test_names_are_described_by_the_catalogue() -> None:
    plan = flights_plan()

    assert restored(reduced(plan, "resolvedTable"), tables(plan)).document == plan
    assert restored(reduced(plan, "options"), tables(plan)).document == plan


def test_options_are_merged_and_the_catalogues_win() -> None:
    plan = flights_plan(source={"connector": "a", "only": "plan"})
    known = tables(plan)
    source = next(iter(known))
    known[source]["options"] = {"connector": "b", "more": "catalogue"}

    found = restored(plan, known).document["nodes"][0]["scanTableSource"]["table"]

    assert found["resolvedTable"]["options"] == {
        "connector": "b",
        "only": "plan",
        "more": "catalogue",
    }
    assert plan["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["options"]["only"]


def test_what_a_hint_set_stays() -> None:
    """As in Flink 2.3, and as it describes the node."""
    given = {"connector": "datagen", "number-of-rows": "2", "rows": "3", "url": "secret"}
    plan = flights_plan(source=given)
    plan["nodes"][0]["description"] = (
        "TableSourceScan(table=[[default_catalog, default_database, s]], fields=[id, k, v], "
        "hints=[[[OPTIONS options:{number-of-rows=2, url=******}]]])"
    )
    known = tables(plan)
    options = {"connector": "datagen", "number-of-rows": "1", "rows": "9", "url": "other"}
    known[next(iter(known))]["options"] = options

    found = restored(plan, known).document["nodes"][0]["scanTableSource"]["table"]
    assert found["resolvedTable"]["options"] == {**given, "rows": "9"}
    found = restored(plan, known, "IDENTIFIER").document["nodes"][0]["scanTableSource"]["table"]
    assert found["resolvedTable"]["options"] == options


def test_of_a_new_plan_its_own_options_win_for_a_hint_may_have_changed_them() -> None:
    plan = flights_plan(source={"connector": "b", "hinted": "plan"})
    known = tables(plan)
    known[next(iter(known))]["options"] = {"connector": "b", "hinted": "catalogue"}

    for objects in ("ALL", "IDENTIFIER"):
        found = restored(plan, known, objects, is_new=True).document["nodes"][0]
        table = found["scanTableSource"]["table"]["resolvedTable"]
        assert table["options"] == {"connector": "b", "hinted": "plan"}


def test_a_plan_that_is_whole_needs_no_catalogue() -> None:
    plan = flights_plan()

    assert restored(plan, {}).document == plan
    with pytest.raises(UnresolvedTable):
        restored(reduced(plan, "resolvedTable"), {})


def test_another_schema_is_refused_unless_the_plan_alone_counts() -> None:
    plan = flights_plan()
    known = tables(plan)
    known[next(iter(known))]["schema"]["columns"].pop()

    with pytest.raises(SchemaMismatch):
        restored(plan, known)
    assert restored(plan, known, "ALL_ENFORCED").document == load_plan(plan).document


def test_the_catalogue_alone_may_count() -> None:
    plan = flights_plan(source={"connector": "a"})
    known = tables(flights_plan(source={"connector": "b"}))

    found = restored(plan, known, "IDENTIFIER").document["nodes"][0]["scanTableSource"]["table"]

    assert found["resolvedTable"]["options"] == {"connector": "b"}
    with pytest.raises(UnresolvedTable):
        restored(plan, {}, "IDENTIFIER")
