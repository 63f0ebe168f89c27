"""What Flink 2.3 takes and refuses of 167 edited plans, we take and refuse too."""

from __future__ import annotations

from functools import cache
from typing import Any

import orjson
import pytest

from service.plan import check_document
from tests.service.plan.builders import HERE, edited

STRICTER = {
    # Flink looks at the first inputs of a node and at what leads to a sink; the rest of such a
    # plan would be passed over in silence.
    "agg: edge twice",
    "agg: edge self cycle on calc",
    "agg: back edge cycle agg->calc",
    "agg: root is no sink",
    "agg: isolated scan",
    "agg: scan with an input",
    "join: join three inputs",
    "join: calc two inputs",
    "uni: union one input",
    # Keys that name no column.
    "agg: sink inputUpsertKey out of range",
    "agg: pk names no column (not in catalogue)",
}
"""Refused by us only, and why."""
LATER = {
    "agg: unknown function",
    "agg: sink options connector FOO",
    "agg: configuration number value",
}
"""Valid as plans; `check_plan` refuses the function and the connector, and the option is one that
only nodes have that we do not run."""


@cache
def _recorded() -> dict[str, Any]:
    return orjson.loads((HERE / "flink_outcomes.json").read_bytes())


@cache
def _catalog() -> dict[str, Any]:
    """The tables that were registered: those of the plans as they were written."""
    tables = {}
    for plan in _recorded()["bases"].values():
        for node in plan["nodes"]:
            for key in ("scanTableSource", "dynamicTableSink"):
                if key in node:
                    table = node[key]["table"]
                    tables[table["identifier"]] = table["resolvedTable"]
    return tables


@pytest.mark.parametrize("case", _recorded()["cases"], ids=lambda case: case["name"])
def test_a_plan_is_taken_where_flink_takes_it(case: dict[str, Any]) -> None:
    document = edited(_recorded()["bases"][case["base"]], case["edits"])
    is_taken_by_flink = case["load"] == "ok" and case["explain"] == "ok"
    is_taken = is_taken_by_flink and case["name"] not in STRICTER

    plan, problems = check_document(document, catalog=_catalog())

    if plan is None:
        assert not is_taken, f"refused: {problems[0]}"
        assert all(each.message and (each.path or each.hint) for each in problems)
    else:
        assert is_taken or case["name"] in LATER, "accepted"


def test_the_exceptions_are_cases() -> None:
    names = {case["name"] for case in _recorded()["cases"]}

    assert names >= STRICTER | LATER
