"""The time zone of a plan: where it stands, which expressions read it, what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from operators.expressions import compile_rex
from operators.expressions.rex import Call, walk
from operators.windows.spec import WindowAggregateSpec
from service.plan import load_plan
from service.plan.errors import InvalidProperty
from service.plan.local_zone import ZONE_OPTION, common_zone, is_utc, with_zone, zone_readers
from service.plan.nodes import Calc
from service.plan.rex import ZONE_MARK, parse_rex
from service.runtime.operators import stateful_nodes
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.session import compile_script

TABLES = """
CREATE TABLE t (z TIMESTAMP_LTZ(3), y TIMESTAMP_LTZ(3), ts TIMESTAMP(3), s STRING, l BIGINT)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');
CREATE TABLE snk (e STRING) WITH ('connector' = 'redis', 'changelog-mode' = 'I');
"""


def compiled(expression: str, zone: str | None) -> dict[str, Any]:
    setting = "" if zone is None else f"SET 'table.local-time-zone' = '{zone}';"
    (planned,) = compile_script(
        f"{TABLES} {setting}"
        f"COMPILE PLAN 'plan.json' FOR INSERT INTO snk SELECT {expression} FROM t;"
    )
    return planned.document


def said(document: dict[str, Any]) -> list[str]:
    return [
        node["configuration"][ZONE_OPTION]
        for node in document["nodes"]
        if ZONE_OPTION in node.get("configuration", {})
    ]


def names(document: dict[str, Any]) -> set[str]:
    """The functions of the plan's Calc nodes, as they are evaluated."""
    return {
        part.name
        for node in load_plan(document).nodes
        if isinstance(node.view, Calc)
        for rex in node.view.projection
        for part in walk(rex)
        if isinstance(part, Call)
    }


READS = [
    ("CAST(z AS STRING)", "LOCAL_OF_INSTANT"),
    ("CAST(CAST(z AS DATE) AS STRING)", "LOCAL_OF_INSTANT"),
    ("CAST(CAST(ts AS TIMESTAMP_LTZ(3)) = z AS STRING)", "INSTANT_OF_LOCAL"),
    ("CAST(EXTRACT(HOUR FROM z) AS STRING)", "CLOCK_OF_INSTANT"),
    ("DATE_FORMAT(z, 'yyyy')", "LOCAL_OF_INSTANT"),
    ("FROM_UNIXTIME(l)", "CLOCK_OF_SECONDS"),
    ("CAST(FLOOR(z TO HOUR) = y AS STRING)", "INSTANT_OF_CLOCK"),
    ("CAST(CURRENT_DATE AS STRING)", "LOCAL_OF_INSTANT"),
    ("CAST(LOCALTIMESTAMP AS STRING)", "LOCAL_OF_INSTANT"),
]
REFUSED = [
    ("CAST(UNIX_TIMESTAMP(s) AS STRING)", "UNIX_TIMESTAMP"),
    ("CAST(ARRAY[z] AS STRING)", "CAST"),
]
READS_NOT = [
    "s",
    "CAST(ts AS STRING)",
    "CAST(z > y AS STRING)",
    "CAST(z + INTERVAL '1' DAY > y AS STRING)",
    "CAST(z + INTERVAL '1' MONTH > y AS STRING)",
    "CAST(COALESCE(z, y) = z AS STRING)",
    "CAST(TO_TIMESTAMP_LTZ(l, 3) = z AS STRING)",
    "CAST(UNIX_TIMESTAMP() AS STRING)",
]


@pytest.mark.parametrize(("expression", "function"), READS)
def test_a_node_that_reads_the_zone_names_it(expression: str, function: str) -> None:
    document = compiled(expression, "Asia/Shanghai")

    assert said(document) == ["Asia/Shanghai"]
    assert function in names(document)
    assert said(compiled(expression, None)) == []


@pytest.mark.parametrize("expression", [expression for expression, _ in READS])
def test_in_utc_expressions_are_as_they_were(expression: str) -> None:
    document = compiled(expression, "UTC")

    assert said(document) == []
    assert not {name for name in names(document) if "_OF_" in name}


@pytest.mark.parametrize(("expression", "name"), REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(expression: str, name: str) -> None:
    with pytest.raises(UnsupportedSql) as caught:
        compiled(expression, "Asia/Shanghai")

    assert f"{name} in the time zone Asia/Shanghai" in str(caught.value).replace("TRY_", "")


@pytest.mark.parametrize("expression", READS_NOT)
def test_an_instant_itself_has_no_zone(expression: str) -> None:
    assert said(compiled(expression, "America/Los_Angeles")) == []


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "+08:00", "UTC+8", "EST", "GMT+19:00"])
def test_what_is_no_zone_of_flink_is_refused(zone: str) -> None:
    with pytest.raises(ValidationError, match="cannot be"):
        compiled("s", zone)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [("UTC", True), ("Etc/UTC", True), ("Europe/Berlin", False), ("Nowhere/At_All", False)],
)
def test_the_names_of_utc(zone: str, expected: bool) -> None:
    assert is_utc(zone) is expected


CALL: dict[str, Any] = {
    "kind": "CALL",
    "internalName": "$UNIX_TIMESTAMP$1",
    "operands": [{"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647)"}],
    "type": "BIGINT",
}


def test_expressions_are_found_wherever_they_stand_in_a_node() -> None:
    found = list(zone_readers({"a": [{"b": CALL}]}, "/nodes/0"))

    assert found == [("UNIX_TIMESTAMP", "/nodes/0/a/0/b")]


def test_a_computed_column_is_of_the_nodes_that_evaluate_it() -> None:
    """So a sink's, which nobody evaluates, and an unused one of a source name no zone."""
    column = {"name": "c", "kind": "COMPUTED", "expression": {"rexNode": CALL}}

    assert list(zone_readers({"schema": {"columns": [column]}}, "/nodes/0")) == []


def test_a_sink_with_a_computed_column_runs_in_any_zone() -> None:
    script = TABLES + (
        "CREATE TABLE c (z TIMESTAMP_LTZ(3), d AS CAST(z AS DATE))"
        " WITH ('connector' = 'print');"
        "SET 'table.local-time-zone' = 'Europe/Berlin';"
        "COMPILE PLAN 'plan.json' FOR INSERT INTO c SELECT CAST(ts AS TIMESTAMP_LTZ(3)) FROM t;"
    )
    (planned,) = compile_script(script)

    assert said(planned.document) == ["Europe/Berlin"]
    assert ZONE_OPTION not in planned.document["nodes"][-1]["configuration"]


def test_a_plan_that_names_the_zone_anyway_is_refused_where_it_is_evaluated() -> None:
    rex = parse_rex({**CALL, ZONE_MARK: "Asia/Tokyo"}, "/at")

    with pytest.raises(Exception, match="UNIX_TIMESTAMP in the time zone Asia/Tokyo") as caught:
        compile_rex(rex)
    assert "/at" in str(caught.value)


def test_the_zone_of_a_request_is_written_into_the_plan() -> None:
    document = compiled("CAST(z AS STRING)", None)

    zoned = with_zone(document, "Europe/Berlin")

    assert zoned == compiled("CAST(z AS STRING)", "Europe/Berlin")
    assert with_zone(zoned, "Europe/Berlin") == zoned
    assert said(document) == []


def windows() -> dict[str, Any]:
    """A plan of windows of a TIMESTAMP_LTZ, whose nodes say no zone."""
    script = (
        "CREATE TABLE w (z TIMESTAMP_LTZ(3), WATERMARK FOR z AS z)"
        " WITH ('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');"
        "CREATE TABLE c (n BIGINT) WITH ('connector' = 'print');"
        "COMPILE PLAN 'plan.json' FOR INSERT INTO c SELECT COUNT(*)"
        " FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(z), INTERVAL '1' DAY))"
        " GROUP BY window_start, window_end;"
    )
    (planned,) = compile_script(script)
    for node in planned.document["nodes"]:
        node.get("configuration", {}).pop(ZONE_OPTION, None)
    return planned.document


def zones_of_windows(document: dict[str, Any]) -> set[str]:
    found = stateful_nodes(load_plan(document))
    return {each.spec.zone for each in found if isinstance(each.spec, WindowAggregateSpec)}


def test_windows_that_say_no_zone_are_of_that_of_the_request_or_of_other_nodes() -> None:
    assert zones_of_windows(windows()) == {"UTC"}
    assert zones_of_windows(with_zone(windows(), "Europe/Berlin")) == {"Europe/Berlin"}

    document = windows()
    document["nodes"][0]["configuration"] = {ZONE_OPTION: "Asia/Tokyo"}
    assert zones_of_windows(document) == {"Asia/Tokyo"}


def test_the_plan_and_the_request_must_agree() -> None:
    document = compiled("CAST(z AS STRING)", "Asia/Tokyo")

    with pytest.raises(InvalidProperty, match="is for the time zone Asia/Tokyo"):
        with_zone(document, "Europe/Berlin")


def test_default_is_no_zone_and_gives_way_to_one() -> None:
    document = compiled("CAST(z AS STRING)", None)
    for node in document["nodes"]:
        node["configuration"] = {ZONE_OPTION: "default"}

    assert common_zone(document["nodes"]) is None
    assert set(said(with_zone(document, "Europe/Berlin"))) == {"Europe/Berlin"}


def test_a_zone_of_one_node_is_that_of_all() -> None:
    document = compiled("CAST(z AS STRING)", None)
    document["nodes"][0]["configuration"] = {ZONE_OPTION: "Europe/Berlin"}

    assert "LOCAL_OF_INSTANT" in names(document)
