"""Options of tables and nodes: honoured, known to change nothing, or refused by name and place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import load_plan
from service.plan.errors import InvalidProperty
from service.runtime.dataflow import check_plan, stateful_nodes
from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidNodeOption,
    InvalidTableOption,
    UnsupportedConnector,
    UnsupportedNode,
)
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings, FilesSettings, Settings
from tests.integration.pipelines import PlanBuilder
from tests.service.plans import FLIGHTS

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
CSV = FILES | {"format": "csv"}
STRATEGY = "table.exec.sink.upsert-materialize-strategy"


def plan_of(
    source: dict[str, str],
    sink: dict[str, str] | None = None,
    columns: dict[str, str] | None = None,
    **properties: Any,
) -> dict[str, Any]:
    """A scan and a sink with exactly these options."""
    plan = PlanBuilder()
    columns = columns or {"k": "STRING", "v": "INT"}
    scan = plan.scan("s", columns)
    plan.sink("snk", columns, scan, **{"key": ["k"], **properties})
    document = plan.document()
    table_of(document, 0)["options"] = source
    table_of(document, 1)["options"] = sink or {"connector": "blackhole"}
    return document


def table_of(document: dict[str, Any], node: int) -> dict[str, Any]:
    role = "dynamicTableSink" if node else "scanTableSource"
    found: dict[str, Any] = document["nodes"][node][role]["table"]["resolvedTable"]
    return found


def check(root: Path, document: dict[str, Any], **execution: Any) -> None:
    settings = Settings(files=FilesSettings(root=root), execution=ExecutionSettings(**execution))
    check_plan(load_plan(orjson.dumps(document)), settings)


def refused(root: Path, document: dict[str, Any], error: type[DataflowError]) -> DataflowError:
    with pytest.raises(error) as caught:
        check(root, document)
    return caught.value


@pytest.mark.parametrize(
    "options",
    [
        FILES | {"source.monitor-interval": "5 s", "changelog-mode": "I,UA,D"},
        FILES | {"source.report-statistics": "ALL", "sink.rolling-policy.file-size": "1 mb"},
        FILES | {"property-version": "1", "scan.parallelism": "4"},
        FILES | {"format": "json", "json.ignore-parse-errors": "FALSE"},
        CSV | {"csv.field-delimiter": "\\t", "csv.null-literal": "NULL"},
        CSV | {"csv.quote-character": "'", "csv.escape-character": "\\"},
        {"connector": "ingress", "format": "changelog-json", "changelog-mode": "I"},
        {"connector": "datagen", "rows-per-second": "5", "fields.k.length": "3"},
        {"connector": "datagen", "fields.v.kind": "sequence", "fields.v.end": "9"},
    ],
)
def test_options_that_are_honoured_or_change_nothing_are_taken(
    tmp_path: Path, options: dict[str, str]
) -> None:
    check(tmp_path, plan_of(options))


@pytest.mark.parametrize(
    ("options", "name", "hint"),
    [
        (FILES | {"source.monitor-intervall": "5 s"}, "source.monitor-intervall", "interval"),
        (FILES | {"changelog_mode": "I"}, "changelog_mode", '"changelog-mode"'),
        (FILES | {"lookup": "true"}, "lookup", "options are"),
        (FILES | {"csv.null-literal": "x"}, "csv.null-literal", "options are"),
        (FILES | {"source.path.regex-pattern": "x"}, "source.path.regex-pattern", ""),
        (FILES | {"auto-compaction": "true"}, "auto-compaction", "false"),
        (CSV | {"csv.ignore-parse-errors": "true"}, "csv.ignore-parse-errors", "false"),
        (CSV | {"csv.disable-quote-character": "true"}, "csv.disable-quote-character", "false"),
        (CSV | {"csv.delimiter": ";"}, "csv.delimiter", "csv.field-delimiter"),
        ({"connector": "ingress", "path": "in"}, "path", "options are"),
        ({"connector": "datagen", "fields.x.kind": "random"}, "fields.x.kind", ".kind"),
        ({"connector": "datagen", "fields.k.var-len": "true"}, "fields.k.var-len", "fields.k"),
        (FILES | {"a/b~c": ""}, "a/b~c", "options are"),
    ],
)
def test_any_other_option_is_refused_with_its_place_and_the_nearest_name(
    tmp_path: Path, options: dict[str, str], name: str, hint: str
) -> None:
    error = refused(tmp_path, plan_of(options), InvalidTableOption)

    assert f'"{name}"' in error.message
    assert hint in error.hint
    escaped = name.replace("~", "~0").replace("/", "~1")
    assert error.path == f"/nodes/0/scanTableSource/table/resolvedTable/options/{escaped}"
    assert error.node_id == 1


def test_options_of_sinks_are_held_to_the_same_list(tmp_path: Path) -> None:
    sink = {"connector": "redis", "changelog-mode": "retract"}
    error = refused(tmp_path, plan_of(FILES, sink), InvalidTableOption)

    assert error.path == ("/nodes/1/dynamicTableSink/table/resolvedTable/options/changelog-mode")
    assert error.hint == "leave it out, or set it to upsert"


@pytest.mark.parametrize(
    "option",
    [
        *({"csv.field-delimiter": each} for each in ("||", "", "é", "\n", "\x00")),
        *({"csv.quote-character": each} for each in ('""', "", ",")),
        {"csv.escape-character": "ab"},
        {"csv.escape-character": ","},
    ],
)
def test_csv_characters_that_cannot_be_are_refused(tmp_path: Path, option: dict[str, str]) -> None:
    insert_only = {"mode": ["INSERT"]}

    for document in (plan_of(CSV | option), plan_of(FILES, CSV | option, **insert_only)):
        error = refused(tmp_path, document, InvalidTableOption)
        assert "csv" in error.message


@pytest.mark.parametrize("name", ["quote-character", "escape-character", "null-literal"])
def test_what_a_csv_sink_does_not_write_is_refused(tmp_path: Path, name: str) -> None:
    document = plan_of(FILES, CSV | {f"csv.{name}": "'"}, mode=["INSERT"])

    assert "null as an empty field" in refused(tmp_path, document, InvalidTableOption).message


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<STRING, INT>", "ROW<`a` INT>"])
def test_types_that_csv_cannot_hold_are_refused_with_column_and_place(
    tmp_path: Path, kind: str
) -> None:
    columns = {"k": "STRING", "v": kind}
    source = refused(tmp_path, plan_of(CSV, columns=columns), UnsupportedConnector)
    sink = plan_of(FILES, CSV, columns=columns, mode=["INSERT"])
    written = refused(tmp_path, sink, UnsupportedConnector)

    schema = "table/resolvedTable/schema/columns/1"
    assert source.path == f"/nodes/0/scanTableSource/{schema}"
    assert written.path == f"/nodes/1/dynamicTableSink/{schema}"
    assert "column v of type" in source.message
    check(tmp_path, plan_of(CSV, CSV, columns={"k": "STRING", "v": "BYTES"}, mode=["INSERT"]))


def test_a_partitioned_table_is_refused(tmp_path: Path) -> None:
    for node in (0, 1):
        document = plan_of(FILES, FILES)
        table_of(document, node)["partitionKeys"] = ["k"]
        error = refused(tmp_path, document, UnsupportedConnector)
        assert error.path.endswith("/resolvedTable/partitionKeys")
        table_of(document, node)["partitionKeys"] = []
        check(tmp_path, document)


def test_the_testing_aid_needs_the_setting(tmp_path: Path) -> None:
    document = plan_of(FILES | {"testing.time-field": "t", "testing.epochs": "[]"})

    error = refused(tmp_path, document, InvalidTableOption)
    assert "TAILRACE_EXECUTION__TESTING_OPTIONS_ENABLED" in error.hint
    check(tmp_path, document, testing_options_enabled=True)
    with pytest.raises(InvalidTableOption, match="JSON lines"):
        check(
            tmp_path,
            plan_of(CSV | {"testing.time-field": "t", "testing.epochs": "[]"}),
            testing_options_enabled=True,
        )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("table.exec.sink.keyed-shuffle", "", "AUTO"),
        (f"{STRATEGY}.type", "MAP", "the plan says LEGACY"),
        (f"{STRATEGY}.adaptive.threshold.high", "many", "1000"),
        (f"{STRATEGY}.adaptive.threshold.low", "-1", "1000"),
    ],
)
def test_values_of_node_options_that_are_none_of_theirs_are_refused(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    document = plan_of(FILES, materialize=True)
    document["nodes"][1]["configuration"] = {name: value}

    error = refused(tmp_path, document, InvalidNodeOption)

    assert f'"{name}"' in error.message
    assert words in error.hint
    assert (error.node_id, error.path) == (2, f"/nodes/1/configuration/{name}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("table.exec.sink.not-null-enforcer", "ERROR, DROP"),
        ("table.exec.sink.type-length-enforcer", "TRIM_PAD"),
    ],
)
def test_values_that_flink_refuses_to_load_are_refused_with_the_plan(name: str, words: str) -> None:
    document = plan_of(FILES, materialize=True)
    document["nodes"][1]["configuration"] = {name: "FOO"}

    with pytest.raises(InvalidProperty) as refusal:
        load_plan(document)

    assert words in refusal.value.hint
    assert (refusal.value.node_id, refusal.value.path) == (2, f"/nodes/1/configuration/{name}")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("table.exec.sink.not-null-enforcr", "DROP", "not-null-enforcer"),
        ("table.exec.mini-batch.enabled", "true", "without it"),
    ],
)
def test_node_options_that_are_not_honoured_are_refused_by_name(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    document = plan_of(FILES, materialize=True)
    document["nodes"][1]["configuration"] = {name: value}

    error = refused(tmp_path, document, UnsupportedNode)

    assert f'"{name}"' in error.message
    assert words in error.hint
    assert (error.node_id, error.path) == (2, f"/nodes/1/configuration/{name}")


def test_a_node_that_is_no_sink_has_no_options_here(tmp_path: Path) -> None:
    document = plan_of(FILES)
    document["nodes"][0]["configuration"] = {"table.exec.sink.not-null-enforcer": "DROP"}

    assert refused(tmp_path, document, UnsupportedNode).node_id == 1


def test_values_are_read_without_regard_to_case_and_recorded_ones_are_taken(
    tmp_path: Path,
) -> None:
    document = plan_of(FILES)
    document["nodes"][1]["configuration"] = {"table.exec.sink.not-null-enforcer": "drop"}

    check(tmp_path, document)
    check(tmp_path, FLIGHTS)


def test_thresholds_of_the_plan_count_unless_the_pipeline_has_its_own() -> None:
    document = plan_of(FILES, materialize=True)
    prefix = f"{STRATEGY}.adaptive.threshold"
    document["nodes"][1]["configuration"] = {f"{prefix}.high": "30", f"{prefix}.low": "20"}
    plan, settings = load_plan(orjson.dumps(document)), ExecutionSettings()
    own = PipelineOptions(adaptive_threshold_high=50).resolved(settings)

    (planned,) = stateful_nodes(plan)
    (overridden,) = stateful_nodes(plan, own)

    assert (planned.spec.high, planned.spec.low) == (30, 20)
    assert (overridden.spec.high, overridden.spec.low) == (50, 20)
