"""Which expressions read the session's time zone, and that they are refused where it is not UTC."""

from __future__ import annotations

import pytest

from service.plan.local_zone import is_utc, zone_readers
from service.sql.errors import UnsupportedSql
from service.sql.session import compile_script

TABLES = """
CREATE TABLE t (z TIMESTAMP_LTZ(3), y TIMESTAMP_LTZ(3), ts TIMESTAMP(3), s STRING, l BIGINT)
  WITH ('connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I');
CREATE TABLE snk (e STRING) WITH ('connector' = 'redis', 'changelog-mode' = 'I');
"""


def compiled(expression: str, zone: str) -> None:
    compile_script(
        f"{TABLES} SET 'table.local-time-zone' = '{zone}';"
        f"COMPILE PLAN 'plan.json' FOR INSERT INTO snk SELECT {expression} FROM t;"
    )


READS = [
    ("CAST(z AS STRING)", "CAST"),
    ("CAST(CAST(z AS DATE) AS STRING)", "CAST"),
    ("CAST(CAST(ts AS TIMESTAMP_LTZ(3)) = z AS STRING)", "CAST"),
    ("CAST(EXTRACT(HOUR FROM z) AS STRING)", "EXTRACT"),
    ("DATE_FORMAT(z, 'yyyy')", "DATE_FORMAT"),
    ("FROM_UNIXTIME(l)", "FROM_UNIXTIME"),
    ("CAST(UNIX_TIMESTAMP(s) AS STRING)", "UNIX_TIMESTAMP"),
    ("CAST(z + INTERVAL '1' MONTH > y AS STRING)", "+"),
    ("CAST(CURRENT_DATE AS STRING)", "CURRENT_DATE"),
]
READS_NOT = [
    "s",
    "CAST(ts AS STRING)",
    "CAST(z > y AS STRING)",
    "CAST(z + INTERVAL '1' DAY > y AS STRING)",
    "CAST(COALESCE(z, y) = z AS STRING)",
    "CAST(TO_TIMESTAMP_LTZ(l, 3) = z AS STRING)",
    "CAST(UNIX_TIMESTAMP() AS STRING)",
]


@pytest.mark.parametrize(("expression", "name"), READS)
def test_what_reads_the_zone_is_refused_by_name_in_another_one(expression: str, name: str) -> None:
    with pytest.raises(UnsupportedSql) as caught:
        compiled(expression, "Asia/Shanghai")

    assert f"{name} in the time zone Asia/Shanghai" in str(caught.value).replace("TRY_", "")


@pytest.mark.parametrize("expression", [expression for expression, _ in READS])
def test_it_is_planned_in_utc(expression: str) -> None:
    compiled(expression, "UTC")


@pytest.mark.parametrize("expression", READS_NOT)
def test_an_instant_itself_has_no_zone(expression: str) -> None:
    compiled(expression, "America/Los_Angeles")


@pytest.mark.parametrize(
    ("zone", "expected"), [("UTC", True), ("Etc/UTC", True), ("Europe/Berlin", False)]
)
def test_the_names_of_utc(zone: str, expected: bool) -> None:
    assert is_utc(zone) is expected


def test_expressions_are_found_wherever_they_stand_in_a_node() -> None:
    call = {
        "kind": "CALL",
        "internalName": "$FROM_UNIXTIME$1",
        "operands": [{"kind": "INPUT_REF", "inputIndex": 0, "type": "BIGINT"}],
        "type": "VARCHAR(2147483647)",
    }

    found = list(zone_readers({"a": [{"b": call}]}, "/nodes/0", literals=False))

    assert found == [("FROM_UNIXTIME", "/nodes/0/a/0/b")]
