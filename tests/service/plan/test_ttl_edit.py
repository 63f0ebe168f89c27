"""Changing times to live in a plan's document."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from service.plan import diff, explain, load_plan, with_ttls
from service.plan.errors import DurationError, InvalidProperty
from tests.service.plan.builders import recorded_plan

JOIN = "007_flip292_example2_ttl_right"


def join_id() -> int:
    plan = load_plan(recorded_plan(JOIN))
    return next(node.id for node in plan.nodes if node.node_type.short == "join")


def test_one_side_of_a_join_is_changed_and_nothing_else() -> None:
    document = recorded_plan(JOIN)
    before = copy.deepcopy(document)

    edited = with_ttls(load_plan(document), join_id(), {"rightState": "24h"}, default_ttl_ms=0)

    assert document == before
    assert [each["ttl"] for each in _join(edited)["state"]] == ["7 d", "1 d"]
    found = diff(load_plan(before), load_plan(edited))
    assert [(each.name, each.after_ms) for each in found.ttls] == [("rightState", 86_400_000)]
    assert "ttl 1 d (from 1 d in the plan)" in explain(load_plan(edited)).text


def test_where_a_plan_says_nothing_the_others_get_the_default() -> None:
    document = recorded_plan(JOIN)
    _join(document)["state"] = []

    edited = with_ttls(load_plan(document), join_id(), {"leftState": "1 d"}, default_ttl_ms=60_000)

    assert _join(edited)["state"] == [
        {"index": 0, "ttl": "1 d", "name": "leftState"},
        {"index": 1, "ttl": "1 min", "name": "rightState"},
    ]


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(InvalidProperty) as caught:
        with_ttls(load_plan(recorded_plan(JOIN)), join_id(), {"midState": "1 d"}, default_ttl_ms=0)

    assert caught.value.node_id == join_id()
    assert caught.value.path.endswith("/state")


@pytest.mark.parametrize("text", ["x", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(DurationError):
        with_ttls(load_plan(recorded_plan(JOIN)), join_id(), {"leftState": text}, default_ttl_ms=0)


def _join(document: dict[str, Any]) -> dict[str, Any]:
    return next(each for each in document["nodes"] if each["id"] == join_id())
