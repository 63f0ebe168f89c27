"""Specs of look-up joins, out of plans that Flink wrote, and what they emit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from operators.join.lookup import LookupJoinSpec, LookupKey
from operators.join.lookup_table import LookupCache, LookupRetry, TableFiles, TableHash
from operators.testing.operator_harness import OperatorHarness
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.lookup_join import lookup_join_spec, with_places
from tests.service.runtime.specs.join_cases import CASES, compare, node_of, steps_of

if TYPE_CHECKING:
    from operators.changelog import Change

PLAIN, MATERIALIZED = "085_lookup_join", "087_lookup_join_materialize_agg"


RETRY = {
    "retry-predicate": "lookup_miss",
    "retry-strategy": "FIXED_DELAY",
    "fixed-delay": 10_000,
    "max-attempts": 3,
}


def emitted(case: str) -> tuple[StatefulNode, OperatorHarness, list[Change]]:
    at = node_of(case, "lookup-join")
    spec = with_places(lookup_join_spec(at), files_root=str(CASES / case), redis_url="")
    harness = OperatorHarness.on_heap(spec)
    return at, harness, harness.run(steps_of(case, at, ["o"]))


def test_a_recorded_case() -> None:
    at, _, changes = emitted(PLAIN)
    assert compare(PLAIN, at, changes, ["id", "nm"]) is None


def test_a_recorded_case_with_materialization() -> None:
    """Before the aggregation that follows it in the plan."""
    _, harness, changes = emitted(MATERIALIZED)
    assert [(each.kind.short, *each.row) for each in changes] == [
        ("+I", 1, 1, "one"),
        ("+I", 2, 2, "two"),
        ("+I", 2, 2, "deux"),
        ("-D", 1, 1, "one"),
        ("+U", 2, 2, "two"),
        ("+U", 2, 2, "deux"),
        ("-D", 2, 2, "two"),
        ("-D", 2, 2, "deux"),
    ]
    assert harness.stored_names() == set()


def changed(case: str = PLAIN, options: dict[str, str] | None = None, **given: Any) -> StatefulNode:
    document = json.loads((CASES / case / "plan.json").read_text())
    (node,) = [each for each in document["nodes"] if each["type"] == "stream-exec-lookup-join_1"]
    source = node["temporalTable"]["lookupTableSource"]
    found = source["table"]["resolvedTable"]["options"]
    found.update(options or {})
    for name in given.pop("dropped", ()):
        del found[name]
    source.update(given.pop("source", {}))
    node.update(given)
    plan = load_plan(document)
    return StatefulNode(plan.node(node["id"]), plan)


def test_the_spec_of_a_node() -> None:
    spec = lookup_join_spec(changed())
    assert isinstance(spec, LookupJoinSpec)
    assert spec.table == TableFiles(path="inputs/d.jsonl", with_op=True)
    assert spec.keys == (LookupKey(column=0, field=1),)
    assert spec.inputs[0].key == (1,)
    assert (spec.cache, spec.materializes) == (None, False)


def test_a_table_that_a_sink_of_a_pipeline_keeps() -> None:
    options = {"connector": "redis", "lookup.pipeline": "p", "lookup.table": "t"}
    spec = lookup_join_spec(changed(options=options, dropped=("path", "format")))
    assert spec.table == TableHash(name="tailrace:{p}:table:t", owner="tailrace:{p}:pipeline")
    placed = with_places(spec, files_root="", redis_url="redis://user:secret@host")
    assert isinstance(placed.table, TableHash)
    assert placed.table.url == "redis://user:secret@host"
    assert "secret" not in repr(placed)
    by_another = {"1": {"type": "FieldRef", "index": 0}}
    with pytest.raises(UnsupportedNode, match="whole primary key"):
        lookup_join_spec(
            changed(options=options, dropped=("path", "format"), lookupKeys=by_another)
        )


def test_retries() -> None:
    spec = lookup_join_spec(changed(retryOptions=RETRY))
    assert spec.retry == LookupRetry(retries_max=3, delay_ms=10_000)


def test_materialization_is_by_the_upsert_key() -> None:
    assert lookup_join_spec(changed(MATERIALIZED)).inputs[0].key == (0,)
    by_key = lookup_join_spec(changed(requireUpsertMaterialize=True, inputUpsertKey=[0]))
    assert by_key.inputs[0].key == (0,)
    whole = lookup_join_spec(changed(requireUpsertMaterialize=True))
    assert whole.inputs[0].key == (0, 1)


def test_a_partial_cache() -> None:
    options = {
        "lookup.cache": "PARTIAL",
        "lookup.partial-cache.max-rows": "5",
        "lookup.partial-cache.expire-after-write": "1 min",
        "lookup.partial-cache.cache-missing-key": "false",
    }
    assert lookup_join_spec(changed(options=options)).cache == LookupCache(
        keys_max=5, expire_after_write_ms=60_000, caches_missing=False
    )
    assert lookup_join_spec(changed(options={"lookup.cache": "FULL"})).cache is None


@pytest.mark.parametrize(
    ("options", "given", "reason"),
    [
        ({"connector": "jdbc"}, {}, "connector jdbc is not looked up"),
        ({"connector": "redis"}, {}, "no option lookup.pipeline"),
        ({"format": "csv"}, {}, "format csv"),
        ({"lookup.cache": "SOME"}, {}, "no cache SOME"),
        ({"lookup.partial-cache.max-rows": "0", "lookup.cache": "PARTIAL"}, {}, "at least one"),
        ({"source.monitor-interval": "1 s"}, {}, "option source.monitor-interval"),
        ({"lookup.cache": "PARTIAL"}, {"requireUpsertMaterialize": True}, "a cache, where rows"),
        ({}, {"joinType": "FULL"}, "a FULL join"),
        ({}, {"retryOptions": RETRY | {"retry-predicate": "late"}}, "retry-predicate late"),
        ({}, {"retryOptions": RETRY | {"retry-strategy": "OTHER"}}, "retry-strategy OTHER"),
        ({}, {"retryOptions": RETRY | {"max-attempts": 0}}, "without a number"),
        (
            {},
            {"retryOptions": RETRY | {"fixed-delay": 0, "max-attempts": 1001}},
            "without a number",
        ),
        ({}, {"retryOptions": RETRY | {"fixed-delay": "1 s"}}, "without a number"),
        ({}, {"retryOptions": RETRY | {"max-attempts": 7}}, "more than 60000 ms"),
        ({}, {"source": {"abilities": [{"type": "LimitPushDown"}]}}, "ability LimitPushDown"),
    ],
)
def test_what_is_not_run_is_refused(
    options: dict[str, str], given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        lookup_join_spec(changed(options=options, **given))


def test_a_metadata_column_is_not_looked_for_in_the_rows_of_a_file() -> None:
    node = changed()
    table = node.node.raw["temporalTable"]["lookupTableSource"]["table"]["resolvedTable"]
    name = table["schema"]["columns"][-1]["name"]
    table["schema"]["columns"][-1] |= {"kind": "METADATA", "isVirtual": True}

    with pytest.raises(UnsupportedNode, match=f"metadata column '{name}' of a look-up table"):
        lookup_join_spec(node)


def test_a_key_of_another_type_is_refused() -> None:
    with pytest.raises(UnsupportedNode, match="types of compared columns differ"):
        lookup_join_spec(changed(lookupKeys={"1": {"type": "FieldRef", "index": 0}}))
