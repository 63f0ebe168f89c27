"""What differs between two plans, and what becomes of state: on plans that Flink wrote."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import PlanError, diff, load_plan
from tests.service.plan.builders import recorded, recorded_plan

JOIN = "007_flip292_example2_ttl_right"
AGGREGATE = "005_flip292_example1_ttl_agg"
MATERIALIZER = "100_sink_materialize_legacy"
OVER = "131_over_agg"


def difference(before: dict[str, Any], after: dict[str, Any], **more: int) -> Any:
    return diff(load_plan(before), load_plan(after), **more)


def node(plan: dict[str, Any], kind: str) -> dict[str, Any]:
    """The first node of a type."""
    found: dict[str, Any] = next(
        each for each in plan["nodes"] if each["type"].startswith(f"stream-exec-{kind}_")
    )
    return found


def fates(found: Any) -> dict[str, str]:
    return {each.type.removeprefix("stream-exec-"): each.fate for each in found.states}


def loadable() -> list[dict[str, Any]]:
    """The recorded plans that hold all of their tables."""
    found = []
    for entry in recorded():
        try:
            load_plan(entry["plan"])
        except PlanError:
            # It names its tables only, or is one that Flink refuses.
            continue
        found.append(entry)
    return found


def test_a_plan_does_not_differ_from_itself() -> None:
    plans = loadable()
    assert len(plans) > 50

    for entry in plans:
        found = difference(entry["plan"], entry["plan"])
        assert found.is_empty, entry["case"]
        assert found.keeps_state
        assert found.ttls == ()
        assert set(fates(found).values()) <= {"kept"}


def test_descriptions_make_no_difference() -> None:
    other = recorded_plan(JOIN)
    for each in other["nodes"]:
        each["description"] = "x"

    assert difference(recorded_plan(JOIN), other).is_empty


def test_a_time_to_live_is_a_change_that_keeps_state() -> None:
    before, after = recorded_plan(JOIN), recorded_plan(JOIN)
    node(after, "join")["state"][1]["ttl"] = "1 d"

    found = difference(before, after)

    [ttl] = found.ttls
    assert (ttl.name, ttl.index, ttl.after_ms) == ("rightState", 1, 86_400_000)
    assert ttl.before_ms == 7 * 86_400_000
    assert [each.properties for each in found.changed] == [("state",)]
    assert fates(found) == {"join_1": "kept", "sink_2": "kept"}
    assert found.keeps_state


def test_switching_a_time_to_live_on_or_off_migrates() -> None:
    before, after = recorded_plan(JOIN), recorded_plan(JOIN)
    node(after, "join")["state"][0]["ttl"] = "0 ms"

    found = difference(before, after)

    assert fates(found) == {"join_1": "migrated", "sink_2": "kept"}
    [join] = [each for each in found.states if each.fate == "migrated"]
    assert join.reason == "TTL is switched on or off for leftState"
    assert join.names == ("leftState", "rightState")


def test_the_default_counts_where_a_plan_says_nothing() -> None:
    before, after = recorded_plan(JOIN), recorded_plan(JOIN)
    node(before, "join")["state"] = None

    found = difference(before, after, before_ttl_ms=60_000)

    assert [(each.name, each.before_ms) for each in found.ttls] == [
        ("leftState", 60_000),
        ("rightState", 60_000),
    ]
    assert difference(before, after, before_ttl_ms=7 * 86_400_000).ttls == ()


def test_another_layout_of_histories_migrates() -> None:
    after = recorded_plan(MATERIALIZER)
    node(after, "sink")["upsertMaterializeStrategy"] = "MAP"

    found = difference(recorded_plan(MATERIALIZER), after)

    assert fates(found) == {"sink_2": "migrated"}
    assert found.states[0].reason == "histories are kept as MAP instead of LEGACY"


@pytest.mark.parametrize(
    ("case", "kind", "edit", "reason"),
    [
        (AGGREGATE, "group-aggregate", {"aggCallNeedRetractions": [True] * 3}, "aggCallNeed"),
        (AGGREGATE, "group-aggregate", {"grouping": [0, 1]}, "grouping"),
        (AGGREGATE, "deduplicate", {"keepLastRow": True}, "keepLastRow"),
        (JOIN, "join", {"leftUpsertKeys": []}, "leftUpsertKeys"),
        (MATERIALIZER, "sink", {"inputUpsertKey": [0]}, "inputUpsertKey"),
    ],
)
def test_state_of_another_form_is_dropped(
    case: str, kind: str, edit: dict[str, Any], reason: str
) -> None:
    after = recorded_plan(case)
    node(after, kind).update(edit)

    found = difference(recorded_plan(case), after)

    # What stands above it is of other rows then.
    lost, *_ = [each for each in found.states if each.fate == "dropped"]
    assert lost.type.startswith(f"stream-exec-{kind}")
    assert f"{reason}" in lost.reason
    assert not found.keeps_state


def test_another_kind_of_join_reads_other_state() -> None:
    after = recorded_plan(JOIN)
    node(after, "join")["joinSpec"]["joinType"] = "LEFT"

    lost, *_ = [
        each for each in difference(recorded_plan(JOIN), after).states if each.fate == "dropped"
    ]
    assert lost.reason.endswith("joinSpec differs")


def test_over_in_another_order_would_read_state_of_the_old_one() -> None:
    """Nothing in the form of what is stored tells two columns of one type apart."""
    after = recorded_plan(OVER)
    [group] = node(after, "over-aggregate")["overSpec"]["groups"]
    group["orderBy"]["fields"][0]["index"] += 1

    found = difference(recorded_plan(OVER), after)

    assert {each.fate for each in found.states} == {"dropped", "new"}
    assert not found.keeps_state
    assert fates(difference(recorded_plan(OVER), recorded_plan(OVER)))["over-aggregate_1"] == "kept"


def test_a_condition_beside_the_keys_keeps_state_below_it() -> None:
    after = recorded_plan(JOIN)
    node(after, "join")["joinSpec"]["nonEquiCondition"] = {
        "kind": "LITERAL", "value": True, "type": "BOOLEAN NOT NULL",
    }  # fmt: skip  # a table: a case a line

    found = difference(recorded_plan(JOIN), after)

    assert fates(found) == {"join_1": "kept", "sink_2": "new"}
    assert [each.properties for each in found.changed] == [("joinSpec",)]
    assert [each.outcome for each in found.tables] == ["outdated"]


def test_a_node_with_another_id_keeps_its_state() -> None:
    before, after = recorded_plan(AGGREGATE), recorded_plan(AGGREGATE)
    aggregate = node(after, "group-aggregate")
    old = aggregate["id"]
    aggregate["id"] = 77
    for edge in after["edges"]:
        for end in ("source", "target"):
            edge[end] = 77 if edge[end] == old else edge[end]

    found = difference(before, after)

    assert [each.id for each in found.removed] == [old]
    assert [each.id for each in found.added] == [77]
    assert found.renumbered == ((old, 77),)
    same = node(before, "deduplicate")["id"]
    assert [(each.node_id, each.fate, each.after_id) for each in found.states] == [
        (same, "kept", same),
        (old, "kept", 77),
    ]
    # What stood behind it takes its changes from another node.
    assert [each.properties for each in found.changed] == [("inputs",)]


def test_other_plans_have_nothing_in_common() -> None:
    found = difference(recorded_plan(AGGREGATE), recorded_plan(MATERIALIZER))

    assert not found.is_empty
    assert set(fates(found).values()) == {"dropped", "new"}
