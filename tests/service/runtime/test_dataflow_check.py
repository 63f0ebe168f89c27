"""What a plan is refused for before Spark sees it, and what its operators are."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest

from operators.errors import InvalidSpec
from service.plan import load_plan
from service.plan.errors import InvalidProperty
from service.runtime.dataflow import check_plan, plan_sinks, stateful_nodes
from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidNodeOption,
    InvalidTableOption,
    PathOutsideRoot,
    UnsupportedChangelog,
    UnsupportedConnector,
    UnsupportedNode,
)
from service.runtime.expressions import UnsupportedExpression
from service.runtime.records import RunOptions
from service.settings import DatabaseSettings, ExecutionSettings, FilesSettings, Settings
from service.sql import compile_script
from state.multiset.strategy import Strategy
from tests.integration.pipelines import PlanBuilder, call, ref
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    from pathlib import Path

SERVERS = "properties__bootstrap__servers"
KAFKA = {"connector": "kafka", "topic": "t", SERVERS: "b:9092,C:9093"}
UPSERT_KAFKA = {
    **KAFKA,
    "connector": "upsert-kafka",
    "key__format": "json",
    "value__format": "json",
}
COLUMNS = {"k": "STRING", "v": "INT"}
SOURCE = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
SINK = {"connector": "filesystem", "format": "changelog-json", "path": "out"}


def settings(root: Path) -> Settings:
    hosts = DatabaseSettings(hosts=("B", "c:9093"))
    return Settings(files=FilesSettings(root=root), databases=hosts)


def plan_of(source: dict[str, str], sink: dict[str, str], **properties: Any) -> dict[str, Any]:
    plan = PlanBuilder()
    scan = plan.scan("s", COLUMNS, **source)
    plan.sink("snk", COLUMNS, scan, **{"key": ["k"], **properties}, **sink)
    return plan.document()


def check(root: Path, document: dict[str, Any]) -> None:
    check_plan(load_plan(document), settings(root))


def test_a_plan_that_runs_is_accepted(tmp_path: Path) -> None:
    check(tmp_path, plan_of(SOURCE, SINK))
    check(tmp_path, plan_of({**SOURCE, "path": "in/*.jsonl"}, {"connector": "redis"}))
    check(tmp_path, plan_of({"connector": "ingress"}, {"connector": "print"}))
    check(tmp_path, plan_of({"connector": "datagen"}, {"connector": "blackhole"}))
    check(tmp_path, plan_of(SOURCE, {**KAFKA, "format": "changelog-json"}))
    check(tmp_path, plan_of(SOURCE, UPSERT_KAFKA))
    kafka = {
        "connector": "kafka",
        "topic": "orders",
        "properties__bootstrap__servers": "broker:9092",
        "scan__startup__mode": "earliest-offset",
        "value__format": "changelog-json",
    }
    check(tmp_path, plan_of(kafka, SINK))


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ({"connector": "kafka"}, InvalidTableOption, "no format"),
        ({"connector": "kafka", "format": "avro"}, UnsupportedConnector, "avro"),
        ({"connector": "upsert-kafka"}, InvalidTableOption, "value.format"),
        ({"connector": "jdbc"}, UnsupportedConnector, "not a stream"),
        ({"connector": "nosuch"}, UnsupportedConnector, "nosuch"),
        ({"connector": "mysql-cdc"}, UnsupportedConnector, "mysql-cdc"),
        ({**SOURCE, "format": "avro"}, UnsupportedConnector, "avro"),
        ({**SOURCE, "path": ""}, InvalidTableOption, "path"),
        ({**SOURCE, "path": "../secret"}, PathOutsideRoot, "outside"),
        ({**SOURCE, "path": "../*/secret"}, PathOutsideRoot, "outside"),
        ({**SOURCE, "path": "s3://b/x"}, UnsupportedConnector, "s3"),
        ({**SOURCE, "changelog_mode": "I,X"}, InvalidTableOption, "I,X"),
        ({**SOURCE, "source__monitor_interval": "soon"}, InvalidTableOption, "monitor"),
        ({"connector": "datagen", "rows_per_second": "0"}, InvalidTableOption, "rows-per-second"),
        ({"connector": "datagen", "rows_per_second": "9" * 5_000}, InvalidTableOption, "18 digits"),
        ({"connector": "datagen", "number_of_rows": "x"}, InvalidTableOption, "datagen"),
        ({"connector": "datagen", "number_of_rows": "9" * 5_000}, InvalidTableOption, "datagen"),
        ({"connector": "datagen", "fields.v.max": "inf"}, InvalidTableOption, "finite"),
        ({"connector": "datagen", "fields.v.min": "nan"}, InvalidTableOption, "finite"),
        ({"connector": "ingress", "format": "csv"}, UnsupportedConnector, "ingress"),
    ],
)
def test_sources_that_cannot_be_are_refused_with_their_place(
    tmp_path: Path, source: dict[str, str], error: type[DataflowError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        check(tmp_path, plan_of(source, SINK))

    assert caught.value.node_id == 1
    assert caught.value.path.startswith("/nodes/0/scanTableSource/table")


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ({"connector": "mysql-cdc"}, "with format debezium-json; sources are"),
        ({"connector": "filesystem", "path": "in", "formaat": "json"}, '"format" by "formaat"'),
    ],
)
def test_the_hint_says_what_to_do_instead(
    tmp_path: Path, source: dict[str, str], hint: str
) -> None:
    with pytest.raises(DataflowError) as caught:
        check(tmp_path, plan_of(source, SINK))

    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("sink", "properties", "error", "words"),
    [
        ({**KAFKA, "format": "json"}, {}, UnsupportedChangelog, "inserts only"),
        ({**KAFKA, "format": "avro"}, {}, UnsupportedConnector, 'format "avro"'),
        ({**KAFKA, "format": "json", "changelog_mode": "upsert"}, {}, InvalidTableOption, "kinds"),
        (
            {**KAFKA, "connector": "upsert-kafka"},
            {},
            InvalidTableOption,
            '"value.format" is missing',
        ),
        ({**UPSERT_KAFKA, SERVERS: "b, c:9092"}, {}, InvalidTableOption, "settings do not list"),
        (UPSERT_KAFKA, {"key": []}, InvalidTableOption, "primary key"),
        ({**KAFKA, "format": "json"}, {"mode": ["INSERT"]}, InvalidTableOption, "inserts cannot"),
        ({**UPSERT_KAFKA, "format": "json"}, {}, InvalidTableOption, 'option "format"'),
        ({"connector": "redis"}, {"key": []}, InvalidTableOption, "primary key"),
        ({**SINK, "path": "../out"}, {}, PathOutsideRoot, "outside"),
        ({**SINK, "changelog_mode": "all"}, {}, InvalidTableOption, "all"),
        ({**SINK, "changelog_mode": "append"}, {}, UnsupportedChangelog, "inserts only"),
        ({**SINK, "format": "parquet"}, {}, UnsupportedChangelog, "inserts only"),
        ({**SINK, "format": "csv", "changelog_mode": "upsert"}, {}, InvalidTableOption, "csv"),
        ({**SINK, "changelog_mode": "upsert"}, {"key": []}, InvalidTableOption, "primary key"),
    ],
)
def test_sinks_that_cannot_be_are_refused_with_their_place(
    tmp_path: Path,
    sink: dict[str, str],
    properties: dict[str, Any],
    error: type[DataflowError],
    words: str,
) -> None:
    with pytest.raises(error, match=words) as caught:
        check(tmp_path, plan_of(SOURCE, sink, **properties))

    assert caught.value.node_id == 2
    assert caught.value.path.startswith("/nodes/1/dynamicTableSink/table")


def test_a_column_that_is_to_be_a_records_time_does_not_land_in_its_value(tmp_path: Path) -> None:
    document = plan_of(SOURCE, UPSERT_KAFKA)
    table = document["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]
    column = {"name": "at", "kind": "METADATA", "isVirtual": True, "dataType": "TIMESTAMP(3)"}
    table["schema"]["columns"].append(column)
    check(tmp_path, document)

    table["schema"]["columns"] = [
        table["schema"]["columns"][0],
        {"name": "v", "kind": "METADATA", "metadataKey": "timestamp", "dataType": "INT"},
    ]
    with pytest.raises(InvalidProperty, match="takes 1") as caught:
        check(tmp_path, document)
    assert caught.value.path == "/nodes/1/outputType"
    assert caught.value.hint == "metadata column 'v' is written where WritingMetadata has its key"


def test_a_metadata_column_of_a_source_is_not_read_out_of_its_value(tmp_path: Path) -> None:
    """Plans that were made of SQL here once did not say that metadata is read."""
    source = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'"
    (planned,) = compile_script(
        "CREATE TABLE s (id INT, size BIGINT NOT NULL METADATA FROM 'file.size' VIRTUAL) "
        f"WITH ({source}); CREATE TABLE o (id INT, n BIGINT) WITH ('connector' = 'blackhole'); "
        "INSERT INTO o SELECT id, size FROM s"
    )
    check(tmp_path, planned.document)
    del planned.document["nodes"][0]["scanTableSource"]["abilities"]

    with pytest.raises(UnsupportedNode, match="metadata column 'size' and does not") as caught:
        check(tmp_path, planned.document)
    assert caught.value.path.endswith("/schema/columns/1")


@pytest.mark.parametrize(
    ("connector", "key", "words"),
    [
        ({"connector": "filesystem"}, "file.paths", "has file.path, file.name, file.size, file.mo"),
        ({"connector": "datagen"}, "time", 'connector "datagen" has no metadata'),
        ({"connector": "ingress"}, "time", 'connector "ingress" has no metadata'),
        ({"connector": "kafka"}, "leader-epoch", "Spark's Kafka source does not give it"),
        ({"connector": "kafka"}, "value.source.table", "metadata of formats is not read"),
        ({"connector": "kafka"}, "key", "has topic, partition, headers, offset, timestamp, time"),
    ],
)
def test_metadata_that_is_not_read_is_refused_by_its_key(
    tmp_path: Path, connector: dict[str, str], key: str, words: str
) -> None:
    document = plan_of(connector, SINK)
    scan = document["nodes"][0]["scanTableSource"]
    column = {"name": "v", "kind": "METADATA", "metadataKey": key, "dataType": "INT"}
    scan["table"]["resolvedTable"]["schema"]["columns"][1] = column | {"isVirtual": True}
    scan["abilities"] = [{"type": "ReadingMetadata", "metadataKeys": [key]}]

    with pytest.raises(UnsupportedNode, match=f"metadata '{key}' of table s is not read") as caught:
        check(tmp_path, document)

    assert words in str(caught.value)
    assert (caught.value.node_id, caught.value.path) == (
        1,
        "/nodes/0/scanTableSource/abilities/0",
    )


@pytest.mark.parametrize(
    "sink", [SINK, {"connector": "redis"}, {"connector": "print"}, {"connector": "blackhole"}]
)
def test_metadata_is_written_by_no_sink_but_kafkas(tmp_path: Path, sink: dict[str, str]) -> None:
    document = plan_of(SOURCE, sink)
    spec = document["nodes"][1]["dynamicTableSink"]
    columns = spec["table"]["resolvedTable"]["schema"]["columns"]
    columns[1] |= {"kind": "METADATA", "isVirtual": False}
    spec["abilities"] = [{"type": "WritingMetadata", "metadataKeys": ["v"]}]

    with pytest.raises(UnsupportedNode, match="metadata 'v' of table snk is not written") as caught:
        check(tmp_path, document)
    assert caught.value.path == "/nodes/1/dynamicTableSink/abilities/0"


def test_an_insert_only_plan_may_go_to_an_append_sink(tmp_path: Path) -> None:
    check(tmp_path, plan_of(SOURCE, {**SINK, "format": "parquet"}, mode=["INSERT"]))


def test_nodes_and_expressions_that_are_not_run_are_named(tmp_path: Path) -> None:
    plan = PlanBuilder()
    scan = plan.scan("s", COLUMNS, **SOURCE)
    calc = plan.calc(COLUMNS, scan, [call("NO_SUCH", "STRING", ref(0, "STRING")), ref(1, "INT")])
    plan.sink("snk", COLUMNS, calc, **SINK)

    with pytest.raises(UnsupportedExpression, match="NO_SUCH"):
        check(tmp_path, plan.document())


def test_types_that_no_column_can_hold_are_refused(tmp_path: Path) -> None:
    plan = PlanBuilder()
    columns = {"t": "TIMESTAMP(9)"}
    scan = plan.scan("s", columns, **SOURCE)
    plan.sink("snk", columns, scan, **SINK)

    with pytest.raises(UnsupportedNode, match=r"TIMESTAMP\(9\)"):
        check(tmp_path, plan.document())


def test_operators_follow_the_plan_unless_options_override(tmp_path: Path) -> None:
    document = plan_of(SOURCE, SINK, materialize=True, upsert_key=[1])
    document["nodes"][1]["upsertMaterializeStrategy"] = "MAP"
    document["nodes"][1]["state"][0]["ttl"] = "2 h"
    options = RunOptions.of(ExecutionSettings(default_ttl_ms=77))

    (plain,) = stateful_nodes(load_plan(document))
    document["nodes"][1]["state"] = []
    (overridden,) = stateful_nodes(load_plan(document), options, orphans_max=3)

    assert (plain.id, plain.node_id) == ("2_sink-materializer", 2)
    assert (plain.spec.key, plain.spec.upsert_key) == ((0,), (1,))
    assert (plain.spec.strategy, plain.spec.ttl_ms) == (Strategy.MAP, 7_200_000)
    assert (overridden.spec.ttl_ms, overridden.spec.orphans_max) == (77, 3)


def test_thresholds_without_a_gap_are_refused() -> None:
    document = plan_of(SOURCE, SINK, materialize=True)
    options = RunOptions.of(ExecutionSettings())
    odd = {"adaptive_threshold_high": 5, "adaptive_threshold_low": 5}
    values = {name: getattr(options, name) for name in options.__slots__}

    with pytest.raises(InvalidSpec):
        stateful_nodes(load_plan(document), RunOptions(**{**values, **odd}))


WINDOWS = """
CREATE TABLE t (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen');
CREATE TABLE s (id INT, c BIGINT, e TIMESTAMP(3)) WITH ('connector' = 'print');
INSERT INTO s SELECT id, COUNT(*), window_end
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY id, window_start, window_end;
"""


def test_an_operator_that_waits_for_watermarks_must_get_some(tmp_path: Path) -> None:
    (document,) = [each.document for each in compile_script(WINDOWS)]
    check(tmp_path, document)

    with pytest.raises(UnsupportedNode, match="waits for watermarks"):
        check(tmp_path, without_node(document, "watermark-assigner"))


def test_a_table_is_read_with_one_set_of_options(tmp_path: Path) -> None:
    """Notes and offsets know a source by its table's name."""
    plan = PlanBuilder()
    scans = [plan.scan("s", COLUMNS, **{**SOURCE, "path": path}) for path in ("in", "in")]
    union = plan.node("union_1", COLUMNS, scans)
    plan.sink("snk", COLUMNS, union, key=["k"], **SINK)
    document = plan.document()
    check(tmp_path, document)
    options = document["nodes"][1]["scanTableSource"]["table"]["resolvedTable"]["options"]
    options["path"] = "elsewhere"

    with pytest.raises(UnsupportedNode, match='several values of option "path"') as caught:
        check(tmp_path, document)

    assert (caught.value.node_id, caught.value.path) == (
        2,
        "/nodes/1/scanTableSource/table/resolvedTable/options",
    )


def test_what_a_look_up_gives_goes_one_way(tmp_path: Path) -> None:
    document = recorded_plan("085_")
    check(tmp_path, document)
    sink = next(each for each in document["nodes"] if "sink" in each["type"])
    other = deepcopy(sink) | {"id": 99}
    document["nodes"].append(other)
    edge = next(each for each in document["edges"] if each["target"] == sink["id"])
    document["edges"].append(edge | {"target": 99})

    with pytest.raises(UnsupportedNode, match="if several nodes read it"):
        check(tmp_path, document)


def without_node(document: dict[str, Any], kind: str) -> dict[str, Any]:
    """The plan with what a node reads in its place."""
    document = deepcopy(document)
    gone = next(each for each in document["nodes"] if kind in each["type"])
    source = next(e["source"] for e in document["edges"] if e["target"] == gone["id"])
    document["nodes"].remove(gone)
    document["edges"] = [
        e | {"source": source if e["source"] == gone["id"] else e["source"]}
        for e in document["edges"]
        if e["target"] != gone["id"]
    ]
    return document


ZONE = "table.local-time-zone"


def windows_of(expression: str) -> dict[str, Any]:
    """A plan of two windows behind one another, as Flink writes it: they alone say the zone."""
    (planned,) = compile_script(
        "CREATE TABLE s (k BIGINT, t STRING, ts TIMESTAMP_LTZ(3), WATERMARK FOR ts AS ts) WITH "
        "('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');"
        "CREATE TABLE snk (k STRING, c BIGINT) WITH ('connector' = 'filesystem', "
        "'format' = 'changelog-json', 'path' = 'out');"
        f"COMPILE PLAN 'p' FOR INSERT INTO snk SELECT {expression}, COUNT(*) FROM "
        "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY k, t, window_start, "
        "window_end;"
    )
    return planned.document


def in_zones(document: dict[str, Any], *zones: str) -> dict[str, Any]:
    """The plan, whose nodes that say a zone say these in turn."""
    sayers = [node for node in document["nodes"] if ZONE in node.get("configuration", {})]
    for number, node in enumerate(sayers):
        node["configuration"][ZONE] = zones[number % len(zones)]
    return document


def test_the_zone_of_windows_is_that_of_all_expressions(tmp_path: Path) -> None:
    check(tmp_path, in_zones(windows_of("FROM_UNIXTIME(k)"), "Asia/Tokyo"))

    document = in_zones(windows_of("CAST(UNIX_TIMESTAMP(t) AS STRING)"), "Asia/Tokyo")
    with pytest.raises(UnsupportedExpression, match="UNIX_TIMESTAMP in the time zone Asia/Tokyo"):
        check(tmp_path, document)


def test_an_expression_whose_zone_is_in_doubt_is_refused(tmp_path: Path) -> None:
    document = windows_of("FROM_UNIXTIME(k)")
    document["nodes"][0]["configuration"] = {ZONE: "Europe/Berlin"}

    with pytest.raises(UnsupportedNode, match="FROM_UNIXTIME depends on the time zone"):
        check(tmp_path, in_zones(document, "Europe/Berlin", "Asia/Tokyo"))


def test_windows_whose_zone_is_in_doubt_are_refused(tmp_path: Path) -> None:
    """They took UTC, though no node says it."""
    document = windows_of("CAST(k AS STRING)")
    local, final = (node for node in document["nodes"] if ZONE in node.get("configuration", {}))
    del final["configuration"]
    calc = document["nodes"][-2]
    local["configuration"], calc["configuration"] = {ZONE: "Asia/Tokyo"}, {ZONE: "Europe/Berlin"}

    with pytest.raises(UnsupportedNode, match="windows depend on the time zone") as refused:
        check(tmp_path, document)

    assert refused.value.node_id == final["id"]
    assert refused.value.path == f"/nodes/{document['nodes'].index(final)}"
    calc["configuration"] = {ZONE: "Asia/Tokyo"}
    check(tmp_path, document)


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "GMT+99:00", "", "Europe", "\x00"])
def test_a_zone_that_there_is_not_is_refused(tmp_path: Path, zone: str) -> None:
    document = windows_of("FROM_UNIXTIME(k)")
    document["nodes"][-2]["configuration"] = {ZONE: zone}

    with pytest.raises(InvalidNodeOption, match="no zone that there is"):
        check(tmp_path, document)


@pytest.mark.parametrize(
    "query",
    ["x FROM m GROUP BY x", "DISTINCT x FROM m", "l.x FROM m AS l JOIN m AS r ON l.x = r.x"],
)
def test_a_key_that_is_a_map_is_refused(tmp_path: Path, query: str) -> None:
    source = "'connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I'"
    (planned,) = compile_script(
        f"CREATE TABLE m (x MAP<STRING, INT>) WITH ({source});"
        "CREATE TABLE snk (x MAP<STRING, INT>) WITH ('connector' = 'filesystem', "
        "'format' = 'changelog-json', 'path' = 'out');"
        f"COMPILE PLAN 'p' FOR INSERT INTO snk SELECT {query};"
    )

    with pytest.raises(UnsupportedNode, match="maps cannot be part of a key"):
        check(tmp_path, planned.document)


def test_a_condition_inside_an_operator_is_of_the_zone_too() -> None:
    source = "'connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I'"
    (planned,) = compile_script(
        f"CREATE TABLE a (k BIGINT, z TIMESTAMP_LTZ(3)) WITH ({source});"
        f"CREATE TABLE b (k BIGINT, s STRING) WITH ({source});"
        "CREATE TABLE snk (k BIGINT) WITH ('connector' = 'filesystem', "
        "'format' = 'changelog-json', 'path' = 'out');"
        f"SET '{ZONE}' = 'Europe/Berlin';"
        "COMPILE PLAN 'p' FOR INSERT INTO snk SELECT a.k FROM a JOIN b "
        "ON a.k = b.k AND DATE_FORMAT(a.z, 'HH') < b.s;"
    )

    (join,) = stateful_nodes(load_plan(planned.document))

    assert "LOCAL_OF_INSTANT" in repr(join.spec)
    assert "Europe/Berlin" in repr(join.spec)


def test_a_sink_knows_that_its_table_forbids_null_whatever_the_query_says() -> None:
    """A key that makes a number of NULL (bigserial, INTEGER PRIMARY KEY) takes it then."""
    script = (
        "CREATE TABLE s (id BIGINT, v INT, w INT NOT NULL) WITH ('connector' = 'ingress');"
        "CREATE TABLE t (id BIGINT NOT NULL, v INT, w INT, PRIMARY KEY (id) NOT ENFORCED) WITH "
        "('connector' = 'jdbc', 'url' = 'jdbc:sqlite:t.db', 'table-name' = 't');"
        "INSERT INTO t SELECT id, v, w FROM s ON CONFLICT DO DEDUPLICATE;"
    )
    plan = load_plan(compile_script(script)[-1].document)

    (sink,) = plan_sinks(plan, "/", ())

    assert sink.types == ("BIGINT NOT NULL", "INT", "INT NOT NULL")
