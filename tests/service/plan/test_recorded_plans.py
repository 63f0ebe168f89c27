"""The plans of all recorded cases: they load, keep their JSON, and explain as Flink explains."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from service.plan import RUN_WITHOUT_VIEW, explain, load_plan, unsupported
from service.plan.changelog_modes import node_modes
from service.plan.errors import InvalidStateMetadata
from service.runtime.specs import BUILDERS
from tests.service.plan.builders import recorded

PLANS = [
    entry
    for entry in recorded()
    if (entry["case"], entry["file"]) != ("153_bad_state_count", "plan.edited.json")
]
EXPLAINED = [entry for entry in PLANS if "explain" in entry]
MODES_UNKNOWN = {"042_incremental_agg"}
"""An incremental aggregate changes the mode of the aggregate above; neither is run."""
_ANNOTATION = re.compile(r" \{node=.*\}$")
_ROOT = re.compile(r"[:+\- ]*(\w+)")


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['case']}/{entry['file']}"


@pytest.mark.parametrize("entry", PLANS, ids=_name)
def test_a_plan_of_flink_loads_and_keeps_its_json(entry: dict[str, Any]) -> None:
    plan = load_plan(orjson.dumps(entry["plan"]))

    assert plan.document == entry["plan"]
    assert {node.id for node in plan.nodes} == {node["id"] for node in entry["plan"]["nodes"]}
    positions = {node.id: at for at, node in enumerate(plan.nodes)}
    assert all(positions[edge.source] < positions[edge.target] for edge in plan.edges)


def test_the_plan_with_too_many_states_is_refused() -> None:
    entry = next(each for each in recorded() if each not in PLANS)

    with pytest.raises(InvalidStateMetadata, match=r"2 states .* 1 input") as refusal:
        load_plan(entry["plan"])

    assert (refusal.value.node_id, refusal.value.path) == (4, "/nodes/3/state")


@pytest.mark.parametrize("entry", EXPLAINED, ids=_name)
def test_the_tree_is_the_one_that_flink_draws(entry: dict[str, Any]) -> None:
    section = entry["explain"].split("== Optimized Execution Plan ==")[1].split("\n==")[0]
    theirs = [line for line in section.splitlines() if line.strip()]
    ours = [_ANNOTATION.sub("", line) for line in _tree(explain(load_plan(entry["plan"])).text)]

    if any("reuse_id=" in line for line in theirs):
        # Flink writes a node that is used twice before the trees; we where it is used first.
        assert sum("Reused(" in line for line in ours) == sum("Reused(" in x for x in theirs) - 1
    else:
        assert ours == theirs


@pytest.mark.parametrize("entry", EXPLAINED, ids=_name)
def test_the_changelog_modes_are_those_that_flink_infers(entry: dict[str, Any]) -> None:
    plan = load_plan(entry["plan"])
    section = entry["explain"].partition("== Optimized Physical Plan With Advice ==")[2]
    theirs = [
        (_ROOT.match(line)[1], mode[1].replace("PD", "D"))
        for line in re.split(r"\n(?:No available|advice\[|==)", section)[0].splitlines()
        if (mode := re.search(r"changelogMode=\[([^\]]*)\]", line))
    ]
    ours = [
        (_ROOT.match(line)[1], re.search(r"(?:emits|takes)=\[([^\]]*)\]", line)[1])
        for line in _tree(explain(plan).text)
        if "Reused(" not in line
    ]
    modes = node_modes(plan)
    if entry["case"] in MODES_UNKNOWN:
        return

    for node in plan.sinks:
        assert modes[node.id] == node.view.input_changelog_mode
    if "Reused(" not in explain(plan).text:
        # Flink gives a sink no mode, since it emits nothing.
        assert [mode for _, mode in ours[1:]] == [mode for _, mode in theirs[1:]]


def test_every_recorded_plan_is_run() -> None:
    assert [each for entry in PLANS for each in unsupported(load_plan(entry["plan"]))] == []


def test_what_runs_without_a_view_is_what_operators_are_built_for() -> None:
    fused = {"local-group-aggregate", "local-window-aggregate", "mini-batch-assigner"}

    assert BUILDERS.keys() | fused == RUN_WITHOUT_VIEW


def _tree(text: str) -> list[str]:
    end = re.split(r"\n(?:State|Warnings|Not run yet):", text)[0]
    return [line for line in end.splitlines() if line.strip()]
