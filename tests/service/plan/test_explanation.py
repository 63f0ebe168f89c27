"""Explanations: keys, changelog modes, states with their origin, warnings, what is not run."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from service.plan import (
    ChangelogMode,
    Finding,
    changelog_modes,
    check_document,
    explain,
    load_plan,
    unsupported,
    upsert_keys,
    validate,
)
from service.plan.state_ttl import state_ttls
from tests.service.plan.builders import (
    INPUT,
    chain,
    edited,
    node,
    recorded_plan,
    ref,
    scan,
    sink,
    table,
)

COLUMNS = {"k": "INT NOT NULL", "v": "INT"}
TTL = "/nodes/2/state/0/ttl"


def keyed(*nodes: dict[str, Any], mode: str = "I,UB,UA,D", **written: Any) -> dict[str, Any]:
    """A scan of a table with primary key k, these nodes, and a sink."""
    first = scan(1, COLUMNS)
    first["scanTableSource"]["table"] = table("t", COLUMNS, key=("k",), **{"changelog-mode": mode})
    return chain(first, *nodes, sink(9, COLUMNS, **written))


def calc(node_id: int, *projection: dict[str, Any], **columns: str) -> dict[str, Any]:
    return node(
        node_id,
        "calc_1",
        columns or COLUMNS,
        projection=list(projection),
        inputProperties=[INPUT],
    )


@pytest.mark.parametrize(
    ("state", "default_ttl_ms", "described"),
    [
        ([{"index": 0, "ttl": "36 h", "name": "s"}], 5, "ttl 36 h (from 36 h in the plan)"),
        ([{"index": 0, "ttl": "0 ms", "name": "s"}], 5, "kept for ever (0 ms in the plan)"),
        ([{"index": 0, "ttl": "999 micro", "name": "s"}], 5,
         "kept for ever (999 micro in the plan)"),
        ([], 90_000, "ttl 90 s (from the default)"),
        (None, 90_000, "ttl 90 s (from the default)"),
        (None, 0, "kept for ever (the default is 0)"),
    ],
)  # fmt: skip  # a table: a case a line
def test_a_state_says_its_ttl_and_where_it_is_from(
    state: list[Any] | None, default_ttl_ms: int, described: str
) -> None:
    plan = load_plan(edited(recorded_plan("100_"), [["set", "/nodes/2/state", state]]))

    (found,) = state_ttls(plan.sinks[0], 1, default_ttl_ms=default_ttl_ms)

    assert found.described == described
    assert described in explain(plan, default_ttl_ms=default_ttl_ms).text
    assert found.name == ("s" if state else "sinkMaterializeState")


def test_a_join_has_a_state_for_each_side() -> None:
    document = recorded_plan("070_")
    join = next(each for each in document["nodes"] if "joinSpec" in each)
    del join["state"]
    plan = load_plan(document)

    states = state_ttls(plan.node(join["id"]), 2, default_ttl_ms=7)

    assert [(each.name, each.ttl_ms, each.origin) for each in states] == [
        ("leftState", 7, "default"),
        ("rightState", 7, "default"),
    ]


def test_the_document_is_json_and_says_the_same() -> None:
    explanation = explain(load_plan(recorded_plan("112_", "plan.edited.json")))

    document = orjson.loads(orjson.dumps(explanation.document))
    written = document["nodes"][2]
    assert written["state"] == [
        {
            "index": 0,
            "name": "sinkMaterializeState",
            "ttl_ms": 1_500,
            "origin": "plan",
            "expires": True,
        }
    ]
    assert document["edges"][0]["changelog_mode"] == ["I", "UB", "UA", "D"]
    assert document["nodes"][0]["upsert_key"] == ["id"]
    assert document["nodes"][1]["upsert_key"] is None
    assert (document["sinks"], document["unsupported"]) == ([3], [])


def test_a_tree_is_drawn_for_each_sink_and_a_shared_node_once() -> None:
    text = explain(load_plan(recorded_plan("140_"))).text

    assert text.count("TableSourceScan(") == 1
    assert "+- Reused(node=1)" in text
    assert text.count("\nSink(") + text.startswith("Sink(") == 2


def test_keys_follow_the_columns() -> None:
    plan = load_plan(
        keyed(
            calc(2, ref(1), ref(0, "INT NOT NULL"), v="INT", k="INT NOT NULL"),
            node(3, "drop-update-before_1", COLUMNS, inputProperties=[INPUT]),
            calc(4, ref(0), ref(0), k="INT NOT NULL", v="INT"),
        )
    )

    assert upsert_keys(plan) == {1: (0,), 2: (1,), 3: (1,), 4: None, 9: None}


def test_a_projected_scan_keeps_its_key_only_whole() -> None:
    document = keyed(calc(2, ref(0), ref(0)))
    ability = {"type": "ProjectPushDown", "projectedFields": [[1]], "producedType": "INT"}
    document["nodes"][0]["scanTableSource"]["abilities"] = [ability]
    document["nodes"][0]["outputType"] = "ROW<`v` INT>"
    with_key = edited(
        document,
        [["set", "/nodes/0/scanTableSource/abilities/0/projectedFields", [[1], [0]]]],
    )

    assert upsert_keys(load_plan(document))[1] is None
    assert upsert_keys(load_plan(with_key))[1] == (1,)


def test_modes_of_edges() -> None:
    plan = load_plan(keyed(node(2, "drop-update-before_1", COLUMNS, inputProperties=[INPUT])))

    modes = changelog_modes(plan)

    assert {(edge.source, edge.target): mode.short for edge, mode in modes.items()} == {
        (1, 2): "I,UB,UA,D",
        (2, 9): "I,UA,D",
    }


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({"format": "json"}, "I"),
        ({"format": "csv", "changelog-mode": "I,UA,D"}, "I,UA,D"),
        ({"format": "changelog-json"}, "I,UB,UA,D"),
        ({"format": "debezium-json"}, "I,UB,UA,D"),
        ({"connector": "kafka", "value.format": "changelog-json"}, "I,UB,UA,D"),
        ({"connector": "kafka", "value.format": "json"}, "I"),
        ({"connector": "ingress"}, "I,UB,UA,D"),
        ({"connector": "upsert-kafka"}, "I,UA,D"),
        ({"connector": "datagen"}, "I"),
        ({"changelog-mode": "nonsense"}, "I,UB,UA,D"),
    ],
)
def test_the_mode_of_a_source_is_declared_or_usual(options: dict[str, str], mode: str) -> None:
    document = keyed(mode="")
    document["nodes"][0]["scanTableSource"]["table"] = table("t", COLUMNS, **options)

    (found,) = changelog_modes(load_plan(document)).values()

    assert found.short == mode


def test_a_mode_knows_its_kinds() -> None:
    mode = ChangelogMode.of("I,D")

    assert (mode.is_insert_only, ChangelogMode.of("i").is_insert_only) == (False, True)
    with pytest.raises(ValueError, match="'X' is none"):
        ChangelogMode.of("I,X")
    with pytest.raises(ValueError, match="none of INSERT"):
        ChangelogMode.named([["INSERT"]])


def truncated(document: dict[str, Any]) -> list[Finding]:
    found = validate(load_plan(document))
    return [each for each in found if each.code == "plan.ttl-truncated"]


def test_a_ttl_below_a_millisecond_is_warned_of() -> None:
    document = edited(recorded_plan("100_"), [["set", TTL, "999 micro"]])

    (warning,) = truncated(document)

    assert (warning.code, warning.node_id, warning.path) == ("plan.ttl-truncated", 3, TTL)
    assert "never expires" in explain(load_plan(document)).text


@pytest.mark.parametrize("zero", ["0 ms", "0", "00 d", "PT0S"])
def test_a_ttl_that_is_zero_is_not(zero: str) -> None:
    assert truncated(edited(recorded_plan("100_"), [["set", TTL, zero]])) == []


def test_a_state_on_a_stateless_node_is_warned_of() -> None:
    document = keyed(calc(2, ref(0), ref(1)), key=("k",))
    document["nodes"][1]["state"] = [{"index": 0, "ttl": "1 d", "name": "s"}]

    assert [each.code for each in validate(load_plan(document))] == ["plan.state-ignored"]


def test_updates_by_another_key_than_the_sinks_are_warned_of() -> None:
    by_value = calc(2, ref(1), ref(1), k="INT NOT NULL", v="INT")

    assert [each.code for each in validate(load_plan(keyed(by_value, key=("k",))))] == [
        "plan.key-mismatch"
    ]
    assert validate(load_plan(keyed(by_value, key=("k",), inputUpsertKey=[0]))) == []
    assert validate(load_plan(keyed(key=("k",)))) == []
    assert validate(load_plan(keyed(by_value, key=("k",), mode="I"))) == []
    assert validate(load_plan(keyed(by_value))) == []


def test_a_materializer_needs_a_primary_key() -> None:
    document = keyed(requireUpsertMaterialize=True)

    assert [each.code for each in validate(load_plan(document))] == [
        "plan.materializer-without-key"
    ]


def test_errors_are_findings_too() -> None:
    _, problems = check_document({"flinkVersion": "1.2", "nodes": [], "edges": []})

    found = [Finding.of(each) for each in problems]

    assert [(each.severity, each.code) for each in found] == [
        ("error", "plan.unknown-flink-version"),
        ("error", "plan.invalid-property"),
    ]


@pytest.mark.parametrize(
    ("abilities", "reasons"),
    [
        ([{"type": "ProjectPushDown", "projectedFields": [[0], [1]]}], []),
        ([{"type": "FilterPushDown", "predicates": []}], []),
        ([{"type": "ReadingMetadata", "metadataKeys": []}], []),
        ([{"type": "ProjectPushDown", "projectedFields": [[0, 1]]}], ["inside of a column"]),
        ([{"type": "PartitionPushDown", "partitions": []}], ["PartitionPushDown"]),
        ([{"type": "SourceWatermark"}], ["SourceWatermark"]),
        ([{"type": "AggregatePushDown"}], ["AggregatePushDown"]),
    ],
)
def test_abilities_of_a_source(abilities: list[Any], reasons: list[str]) -> None:
    document = keyed()
    document["nodes"][0]["scanTableSource"]["abilities"] = abilities

    found = unsupported(load_plan(document))

    assert len(found) == len(reasons)
    for each, reason in zip(found, reasons, strict=True):
        assert reason in each.reason
        assert each.path == "/nodes/0/scanTableSource/abilities/0"


def test_abilities_of_a_sink() -> None:
    document = keyed()
    document["nodes"][-1]["dynamicTableSink"]["abilities"] = [
        {"type": "TargetColumnWriting", "targetColumns": [[0]]},
        {"type": "Overwrite", "overwrite": True},
    ]

    (found,) = unsupported(load_plan(document))

    assert "Overwrite" in found.reason


def test_every_node_that_is_not_run_is_named() -> None:
    document = recorded_plan("071_")
    for each in document["nodes"]:
        each["type"] = each["type"].replace("stream-exec-join", "stream-exec-delta-join")
    found = unsupported(load_plan(document))

    assert [each.type for each in found] == ["stream-exec-delta-join_1"]
    assert found[0].reason == "nodes of type stream-exec-delta-join are not run yet"
