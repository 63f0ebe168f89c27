"""Metadata columns in SQL: what tables say of them, what is refused; plans are in `recorded`."""

from __future__ import annotations

from typing import Any

import pytest

from service.plan import explain, load_plan, unsupported
from service.plan.errors import InvalidProperty, PlanError
from service.plan.nodes import Sink
from service.sql import SqlError, ValidationError, compile_script

FILES = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'"
SINK = "CREATE TABLE o (x STRING) WITH ('connector' = 'blackhole');"


def compiled(columns: str, query: str, options: str = FILES) -> dict[str, Any]:
    script = f"CREATE TABLE s ({columns}) WITH ({options}); {SINK} INSERT INTO o {query}"
    return compile_script(script)[-1].document


def test_the_schema_in_a_plan_is_as_flink_writes_it() -> None:
    document = compiled(
        "id INT, p STRING NOT NULL METADATA FROM 'file.path' VIRTUAL, "
        "`file.name` STRING NOT NULL METADATA, "
        "m TIMESTAMP(3) METADATA FROM 'file.modification-time' VIRTUAL COMMENT 'when', "
        "WATERMARK FOR m AS m",
        "SELECT p FROM s",
    )

    # Recorded from Flink 2.3, but for the comment, which it writes last.
    assert document["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["schema"] == {
        "columns": [
            {"name": "id", "dataType": "INT"},
            {
                "name": "p",
                "kind": "METADATA",
                "dataType": "VARCHAR(2147483647) NOT NULL",
                "metadataKey": "file.path",
                "isVirtual": True,
            },
            {
                "name": "file.name",
                "kind": "METADATA",
                "dataType": "VARCHAR(2147483647) NOT NULL",
                "isVirtual": False,
            },
            {
                "name": "m",
                "kind": "METADATA",
                "dataType": {
                    "type": "TIMESTAMP_WITHOUT_TIME_ZONE",
                    "precision": 3,
                    "kind": "ROWTIME",
                },
                "metadataKey": "file.modification-time",
                "isVirtual": True,
                "comment": "when",
            },
        ],
        "watermarkSpecs": [
            {
                "rowtimeAttribute": "m",
                "expression": {
                    "rexNode": {"kind": "INPUT_REF", "inputIndex": 3, "type": "TIMESTAMP(3)"},
                    "serializableString": "`m`",
                },
            }
        ],
    }


def test_explanations_name_what_is_read() -> None:
    document = compiled(
        "s BIGINT NOT NULL METADATA FROM 'file.size' VIRTUAL, id INT",
        "SELECT CAST(s AS STRING) FROM s",
    )

    shown = "TableSourceScan(table=[[default_catalog, default_database, s, metadata=[file.size]]]"
    assert document["nodes"][0]["description"].startswith(shown)
    assert shown in explain(load_plan(document)).text


def test_a_cast_to_event_time_is_told_as_flink_tells_it() -> None:
    document = compiled(
        "id INT, m TIMESTAMP_LTZ(3) NOT NULL METADATA FROM 'file.modification-time' VIRTUAL, "
        "WATERMARK FOR m AS m",
        "SELECT CAST(id AS STRING) FROM s",
    )

    described = [each["description"] for each in document["nodes"]]
    assert "Calc(select=[id, CAST(m AS TIMESTAMP_LTZ(3) *ROWTIME*) AS m])" in described


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("x STRING METADATA FROM 'file.paths'", FILES, "Invalid metadata key 'file.paths' in col"),
        ("x STRING METADATA VIRTUAL", FILES, "Invalid metadata key 'x' in column 'x' of table"),
        ("x STRING METADATA FROM ''", FILES, "Invalid metadata key ''"),
        (
            "x BIGINT METADATA FROM 'file.modification-time'",
            FILES,
            "Invalid data type for metadata",
        ),
        ("x BOOLEAN METADATA FROM 'file.modification-time'", FILES, "Invalid data type"),
        ("x TIMESTAMP_LTZ(3) METADATA FROM 'file.size'", FILES, "Invalid data type"),
        ("x ARRAY<STRING> METADATA FROM 'file.name'", FILES, "Invalid data type"),
        ("x ROW<a INT> METADATA FROM 'file.name'", FILES, "Invalid data type"),
        ("x STRING METADATA", "'connector' = 'datagen'", "declares metadata columns"),
        ("x STRING METADATA", "'connector' = 'ingress'", "declares metadata columns"),
        ("x STRING METADATA FROM 'leader-epoch'", "'connector' = 'kafka'", "Invalid metadata key"),
        ("x STRING METADATA FROM 'value.source.table'", "'connector' = 'kafka'", "Invalid metada"),
        ("x ARRAY<INT> METADATA FROM 'headers'", "'connector' = 'kafka'", "Invalid data type"),
    ],
)
def test_what_the_source_does_not_have_is_refused_though_nobody_reads_it(
    columns: str, options: str, reason: str
) -> None:
    """As in Flink; the statement is at fault, not the declaration."""
    with pytest.raises(ValidationError) as caught:
        compiled(f"id INT, {columns}", "SELECT CAST(id AS STRING) FROM s", options)

    assert reason in caught.value.reason
    assert caught.value.position is not None
    assert compile_script(f"CREATE TABLE s (id INT, {columns}) WITH ({options})") == []


@pytest.mark.parametrize(
    ("key", "kinds"),
    [
        ("file.size", "INT STRING DECIMAL(10,2) BOOLEAN DOUBLE TINYINT CHAR(3)"),
        ("file.modification-time", "DATE TIME STRING TIMESTAMP(3) TIMESTAMP(0) TIMESTAMP_LTZ(6)"),
        ("file.name", "BYTES INT DATE VARCHAR(5) BOOLEAN TIMESTAMP_LTZ(3)"),
    ],
)
def test_the_types_that_flink_casts_to_are_taken(key: str, kinds: str) -> None:
    for kind in kinds.split():
        document = compiled(f"x {kind} METADATA FROM '{key}'", "SELECT CAST(x AS STRING) FROM s")
        assert [each["type"] for each in document["nodes"]][1] == "stream-exec-calc_1"


def test_two_columns_of_one_key_are_refused_where_they_are_declared() -> None:
    with pytest.raises(
        ValidationError, match="`a` and `topic` in the table are both from the same"
    ):
        compile_script(
            "CREATE TABLE s (a STRING METADATA FROM 'topic', topic STRING METADATA VIRTUAL) "
            "WITH ('connector' = 'kafka')"
        )


@pytest.mark.parametrize(
    "declaration",
    [
        "x STRING METADATA VIRTUAL FROM 'file.name'",
        "x STRING METADATA FROM file",
        "x STRING VIRTUAL",
        "x METADATA",
        "x STRING METADATA FROM 'file.name' VIRTUAL, PRIMARY KEY (x) NOT ENFORCED",
        "x STRING METADATA FROM 'file.name' PRIMARY KEY NOT ENFORCED",
    ],
)
def test_declarations_that_are_none_are_refused(declaration: str) -> None:
    with pytest.raises(SqlError):
        compile_script(f"CREATE TABLE s (id INT, {declaration}) WITH ({FILES})")


@pytest.mark.parametrize("connector", ["filesystem", "print", "blackhole", "redis", "jdbc"])
def test_a_column_that_would_be_written_is_refused_at_the_statement(connector: str) -> None:
    table = f"CREATE TABLE t (id INT, x STRING METADATA) WITH ('connector' = '{connector}');"

    with pytest.raises(ValidationError, match=r"Table '.*t' declares persistable metadata columns"):
        compile_script(f"{table} INSERT INTO t VALUES (1, 'a')")


def test_what_a_kafka_sink_writes_is_in_the_plan() -> None:
    """Plans of it are in `recorded/written-metadata.jsonl`; here is that they are read again."""
    table = (
        "CREATE TABLE t (h INT METADATA VIRTUAL, tm TIMESTAMP(3) METADATA FROM 'timestamp', "
        "id INT PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'upsert-kafka');"
    )
    (planned,) = compile_script(
        f"{table} INSERT INTO t SELECT TIMESTAMP '2026-01-01 00:00:00', 1 "
        "ON CONFLICT DO DEDUPLICATE"
    )
    plan = load_plan(planned.document)

    sink = plan.nodes[-1].view
    assert isinstance(sink, Sink)
    assert [each.name for each in sink.columns] == ["id", "tm"]
    assert (sink.metadata_keys, sink.primary_key) == (("timestamp",), (0,))
    assert list(unsupported(plan)) == []


def test_a_physical_column_may_have_the_name_of_a_key_that_is_written() -> None:
    """The planner of Flink's, Calcite, numbers the names that a projection has twice."""
    table = (
        "CREATE TABLE t (`timestamp` STRING, tm TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') "
        "WITH ('connector' = 'kafka');"
    )
    (planned,) = compile_script(f"{table} INSERT INTO t SELECT 'a', CAST(NULL AS TIMESTAMP_LTZ(3))")

    sink = load_plan(planned.document).nodes[-1]
    assert sink.output_type.field_names == ("timestamp", "timestamp0")
    assert isinstance(sink.view, Sink)
    assert [each.name for each in sink.view.columns] == ["timestamp", "tm"]


def plan_of_a_written_time(key: str, kind: str) -> dict[str, Any]:
    """A plan that writes another key, or a time of another type."""
    table = (
        "CREATE TABLE t (id INT, tm TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') "
        "WITH ('connector' = 'kafka');"
    )
    (planned,) = compile_script(f"{table} INSERT INTO t SELECT 1, CAST(NULL AS TIMESTAMP_LTZ(3))")
    sink: dict[str, Any] = planned.document["nodes"][-1]
    written = sink["dynamicTableSink"]
    written["abilities"][0]["metadataKeys"] = [key]
    written["table"]["resolvedTable"]["schema"]["columns"][1]["metadataKey"] = key
    sink["outputType"] = f"ROW<`id` INT NOT NULL, `timestamp` {kind}>"
    return planned.document


def test_a_plan_that_writes_another_key_is_refused_by_name() -> None:
    (found,) = unsupported(load_plan(plan_of_a_written_time("offset", "BIGINT")))

    assert found.path == "/nodes/2/dynamicTableSink/abilities/0"
    assert found.reason.endswith('a sink of connector "kafka" takes headers, timestamp')


def test_a_plan_without_the_cast_is_invalid() -> None:
    with pytest.raises(PlanError, match="a cast has to stand below the sink"):
        load_plan(plan_of_a_written_time("timestamp", "TIMESTAMP(3)"))


def test_a_virtual_column_is_none_of_a_sink() -> None:
    table = "CREATE TABLE t (id INT, x STRING METADATA VIRTUAL) WITH ('connector' = 'print');"
    (planned,) = compile_script(f"{table} INSERT INTO t VALUES (1)")

    assert planned.document["nodes"][-1]["outputType"] == "ROW<`EXPR$0` INT NOT NULL>"
    with pytest.raises(ValidationError, match="no column 'x'"):
        compile_script(f"{table} INSERT INTO t (id, x) VALUES (1, 'a')")


def test_keys_of_kafka_stand_in_its_order() -> None:
    document = compiled(
        "`timestamp` TIMESTAMP_LTZ(3) NOT NULL METADATA, id INT, "
        "h MAP<STRING NOT NULL, BYTES NOT NULL> NOT NULL METADATA FROM 'headers' VIRTUAL, "
        "`partition` INT NOT NULL METADATA VIRTUAL, WATERMARK FOR `timestamp` AS `timestamp`",
        "SELECT CAST(id AS STRING) FROM s",
        "'connector' = 'kafka'",
    )

    (ability,) = document["nodes"][0]["scanTableSource"]["abilities"]
    assert ability["metadataKeys"] == ["partition", "headers", "timestamp"]
    load_plan(document)


@pytest.mark.parametrize(
    ("keys", "reason", "at"),
    [
        (["headers", "timestamp"], "no column of the table has the metadata key 'headers'", 0),
        (["timestamp", "timestamp"], "the metadata key 'timestamp' is there twice", 1),
    ],
)
def test_keys_that_a_sink_writes_are_of_columns_once_each(
    keys: list[str], reason: str, at: int
) -> None:
    """A column of the value would be taken for headers, or one of two values be lost."""
    document = plan_of_a_written_time("timestamp", "TIMESTAMP_LTZ(3)")
    sink = document["nodes"][-1]
    sink["dynamicTableSink"]["abilities"][0]["metadataKeys"] = keys
    if keys[0] == keys[1]:
        sink["outputType"] = sink["outputType"].replace(">", ", `again` TIMESTAMP_LTZ(3)>")

    with pytest.raises(InvalidProperty, match=reason) as caught:
        load_plan(document)

    assert caught.value.path.endswith(f"/dynamicTableSink/abilities/0/metadataKeys/{at}")
