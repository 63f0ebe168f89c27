"""Aggregations as plans have them: recorded plans of Flink, and what is refused."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate.group_aggregate import GroupAggregateSpec, IncrementalAggregateSpec
from operators.changelog import Change, RowKind, materialize
from operators.testing.batch_aggregate import grouped
from operators.testing.operator_harness import At, OperatorHarness, delete, insert
from service.plan import PlanError, load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import BUILDERS, StatefulNode
from service.runtime.specs.two_phase import identity_nodes
from state.errors import OperatorFailed
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import OperatorSpec

RECORDED = Path(__file__).parents[3] / "oracles" / "recorded" / "plans"


def document(case: str) -> dict[str, Any]:
    (folder,) = RECORDED.glob(f"{case}_*")
    edited = folder / "plan.edited.json"
    path = edited if edited.exists() else folder / "plan.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def specs(plan_document: dict[str, Any]) -> list[OperatorSpec]:
    """The specs of a plan's aggregations, in its order."""
    plan = load_plan(plan_document)
    return [
        BUILDERS[node.node_type.short](StatefulNode(node, plan))
        for node in plan.nodes
        if "aggregate" in node.type and node.id not in identity_nodes(plan)
    ]


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line]


def changes(found: Sequence[dict[str, Any]], names: Sequence[str]) -> list[Change]:
    return [
        Change(RowKind.from_short(each["op"]), tuple(each["data"].get(name) for name in names))
        for each in found
    ]


@pytest.mark.parametrize(
    ("case", "columns", "shown"),
    [
        ("030", ("k", "c", "cv", "mn", "mx", "cd", "la"), (0, 1, 2, 4, 5, 6, 7)),
        ("031", ("k", "c", "cv", "mn", "mx", "cd", "la"), (0, 1, 2, 4, 5, 6, 7)),
        ("032", ("k", "c", "cv", "mn", "mx", "cd", "la"), (0, 1, 2, 4, 5, 6, 7)),
        ("035", ("c", "sm", "mx", "cd"), (0, 1, 2, 3)),
        ("037", ("k", "c", "sm"), (0, 1, 2)),
        ("040", ("k", "c", "cv", "mn", "mx", "cd", "la"), (0, 1, 2, 4, 5, 6, 7)),
        ("081", ("k", "EXPR$1"), (0, 1)),
    ],
)
def test_emits_what_flink_did(case: str, columns: Sequence[str], shown: Sequence[int]) -> None:
    """The changelog of each key: columns that the plan computes behind the node are left out."""
    (folder,) = RECORDED.glob(f"{case}_*")
    (spec,) = specs(document(case))
    (source,) = (folder / "inputs").iterdir()
    names = [columns[-1] if each == "EXPR$1" else each for each in spec.inputs[0].names]
    given_lines = lines(source)
    steps: list[Change | At] = []
    for line, change in zip(given_lines, changes(given_lines, names), strict=True):
        steps += [] if spec.bundles else [At(line["t"])]
        steps.append(change)
    emitted = [
        Change(each.kind, tuple(each.row[at] for at in shown))
        for each in OperatorHarness.on_heap(spec).run(steps)
    ]
    sink = lines(folder / "expected_changelog.jsonl")
    wanted = changes(sink, ["c" if each == "EXPR$1" else each for each in columns])
    assert by_key(emitted, spec) == by_key(wanted, spec)


def by_key(found: Sequence[Change], spec: OperatorSpec) -> dict[Any, list[Change]]:
    width = len(spec.inputs[0].key)
    groups: dict[Any, list[Change]] = {}
    for each in found:
        groups.setdefault(each.row[:width], []).append(each)
    return groups


def test_the_recorded_split_distinct_in_three_nodes() -> None:
    middle, final = specs(document("042"))
    assert isinstance(middle, IncrementalAggregateSpec)
    assert isinstance(final, GroupAggregateSpec)
    assert middle.output.names == ("k", "accumulators")
    assert middle.inputs[0].names == ("k", "s", "v", "$f3", "$f4", "$g_1", "$g_3", "$g_2")
    assert middle.inputs[0].key == (0, 3, 4)
    assert final.inputs[0].types == middle.output.types
    assert final.inputs[0].key == (0,)
    assert final.output.names == ("k", "$f1", "$f2", "$f3")
    assert [each.function for each in final.calls] == ["COUNT", "COUNT", "SUM"]


def test_the_recorded_split_distinct_in_two_aggregations() -> None:
    partial, final = specs(document("043"))
    assert (partial.inputs[0].key, final.inputs[0].key) == ((0, 2), (0,))
    assert not partial.bundles


def test_a_global_node_takes_the_rows_of_the_local_ones_input() -> None:
    (spec,) = specs(document("040"))
    assert isinstance(spec, GroupAggregateSpec)
    assert spec.inputs[0].names == ("k", "v", "s")
    assert spec.is_two_phase
    assert spec.bundles
    assert spec.state == "globalGroupAggregateState"


@cache
def split(*, retracts: bool) -> tuple[IncrementalAggregateSpec, OperatorSpec]:
    """The recorded plan of three nodes, with sources that take rows back if asked for."""
    changed = document("042")
    for node in changed["nodes"]:
        for name in ("partialAggNeedRetraction", "needRetraction"):
            if name in node:
                node[name] = retracts
        for name in ("partialAggCallNeedRetractions", "aggCallNeedRetractions"):
            if name in node:
                node[name] = [retracts] * len(node[name])
    middle, final = specs(changed)
    assert isinstance(middle, IncrementalAggregateSpec)
    return middle, final


def expanded(change: Change) -> list[Change]:
    """What reaches the middle node of a row: one for each distinct column, and one for the rest."""
    k, s, v = change.row
    buckets = (None if s is None else ord(str(s)) % 2, None if v is None else int(str(v)) % 2)
    rows = [
        (k, s, v, buckets[0], None, True, False, False),
        (k, s, v, None, buckets[1], False, False, True),
        (k, s, v, None, None, False, True, False),
    ]
    return [Change(change.kind, row) for row in rows]


class Split:
    """Both nodes, epoch by epoch."""

    def __init__(self, *, retracts: bool, ttl_ms: tuple[int, int] = (0, 0)) -> None:
        middle, final = split(retracts=retracts)
        self.middle = OperatorHarness.on_heap(middle.model_copy(update={"ttl_ms": ttl_ms[:1]}))
        self.final = OperatorHarness.on_heap(final.model_copy(update={"ttl_ms": ttl_ms[1:]}))

    def run(self, given_changes: Sequence[Change]) -> list[Change]:
        return self.final.run(
            self.middle.run([row for each in given_changes for row in expanded(each)])
        )

    def at(self, now_ms: int) -> None:
        self.middle.run([At(now_ms)])
        self.final.run([At(now_ms)])


rows = st.tuples(
    st.sampled_from("ab"), st.sampled_from([None, "x", "y"]), st.sampled_from([None, 1, 2, 3])
)


@settings(max_examples=60)
@given(data=st.data(), size=st.integers(1, 4), retracts=st.booleans())
def test_a_split_distinct_is_one_distinct(data: st.DataObject, size: int, retracts: bool) -> None:
    """COUNT(DISTINCT s), COUNT(*), SUM(DISTINCT v): three nodes against the definition."""
    live: list[Any] = []
    given_changes: list[Change] = []
    for _ in range(data.draw(st.integers(0, 12))):
        if retracts and live and data.draw(st.booleans()):
            given_changes.append(delete(*live.pop(data.draw(st.integers(0, len(live) - 1)))))
        else:
            live.append(data.draw(rows))
            given_changes.append(insert(*live[-1]))
    nodes = Split(retracts=retracts)
    emitted: list[Change] = []
    for start in range(0, len(given_changes), size):
        emitted += nodes.run(given_changes[start : start + size])
    middle = split(retracts=retracts)[0]
    plain = [each.model_copy(update={"filter": None}) for each in middle.calls]
    expected = {(*group, *values) for group, values in grouped(plain, (0,), given_changes).items()}
    assert set(materialize(emitted)) == expected
    if retracts:
        nodes.run([delete(*row) for row in live])
        assert nodes.middle.stored_names() == nodes.final.stored_names() == set()


@settings(max_examples=40)
@given(came=st.lists(rows, max_size=10), size=st.integers(1, 4), data=st.data())
def test_of_a_split_distinct_the_order_of_answers_makes_no_difference(
    came: list[Any], size: int, data: st.DataObject
) -> None:
    steps = [each for row in came for each in expanded(insert(*row))]
    emits_the_same_any_way(split(retracts=False)[0], steps, data, 3 * size)


def test_distinct_values_of_a_split_expire_by_themselves() -> None:
    """Each node has its own TTL: a value that the middle one forgot counts again."""
    nodes = Split(retracts=False, ttl_ms=(10, 100))
    assert nodes.run([insert("a", "x", 1)]) == [insert("a", 1, 1, 1)]
    nodes.at(10)
    assert nodes.run([insert("a", "x", 1)])[-1].row == ("a", 2, 2, 2)


def test_a_split_takes_no_row_back_where_the_plan_says_so() -> None:
    """COUNT alone could, and would count what the plan's other nodes have not planned for."""
    nodes = Split(retracts=False)
    nodes.run([insert("a", "x", 1)])
    with pytest.raises(OperatorFailed):
        nodes.run([delete("a", None, None)])


def with_call(**fields: Any) -> dict[str, Any]:
    changed = deepcopy(document("030"))
    for node in changed["nodes"]:
        if "aggCalls" in node:
            call = node["aggCalls"][2]
            call.update({name: value for name, value in fields.items() if value is not ...})
    return changed


@pytest.mark.parametrize(
    ("fields", "message", "path"),
    [
        ({"internalName": "$PERCENTILE$1"}, "function PERCENTILE", "internalName"),
        ({"catalogName": "c"}, "functions of users", "catalogName"),
        ({"class": "C"}, "functions of users", "class"),
        ({"approximate": True}, "approximate", "approximate"),
        ({"argList": [7]}, "columns below 3", ""),
        ({"argList": [0]}, "not defined for VARCHAR", ""),
        ({"argList": []}, "0 arguments", ""),
    ],
)  # fmt: skip  # a table: a case a line
def test_what_is_not_run_is_refused(fields: dict[str, Any], message: str, path: str) -> None:
    with pytest.raises(UnsupportedNode, match=message) as refusal:
        specs(with_call(**fields))
    assert refusal.value.path.endswith(path or "")
    assert "aggCalls/2" in refusal.value.path or not path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("grouping", [9]),
        ("grouping", "k"),
        ("aggCalls", {}),
        ("aggCallNeedRetractions", [True]),
        ("needRetraction", "yes"),
        ("generateUpdateBefore", []),
    ],
)
def test_malformed_properties_are_refused(name: str, value: object) -> None:
    changed = document("030")
    for node in changed["nodes"]:
        if "aggCalls" in node:
            node[name] = value
    with pytest.raises((PlanError, UnsupportedNode)) as refusal:
        specs(changed)
    assert name in refusal.value.path


def test_old_plans_may_leave_properties_out() -> None:
    changed = document("030")
    for node in changed["nodes"]:
        if "aggCalls" in node:
            del node["configuration"], node["state"], node["needRetraction"]
            node["generateUpdateBefore"] = None
    (spec,) = specs(changed)
    assert spec.ttl_ms == (0,)
    assert not spec.bundles
    assert not spec.generate_update_before


def test_accumulators_of_nobody_are_refused() -> None:
    changed = document("040")
    changed["nodes"] = [n for n in changed["nodes"] if "local" not in n["type"]]
    gone = [n["id"] for n in document("040")["nodes"] if "local" in n["type"]]
    for edge in changed["edges"]:
        if edge["source"] in gone:
            edge["source"] = next(
                e["source"] for e in document("040")["edges"] if e["target"] in gone
            )
    changed["edges"] = [e for e in changed["edges"] if e["target"] not in gone]
    with pytest.raises(UnsupportedNode, match="accumulators of a"):
        specs(changed)
