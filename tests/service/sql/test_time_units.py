"""TIMESTAMPDIFF, TIMESTAMPADD and TRY_CAST: the expressions that Flink 2.3 writes."""

from __future__ import annotations

from typing import Any

import pytest

from service.sql import UnsupportedSql, ValidationError
from tests.service.sql.scripts import WITH, plan

TABLES = (
    "CREATE TABLE t (ts TIMESTAMP(3), tz TIMESTAMP_LTZ(3), da DATE, ti TIME, x INT, s STRING) "
    f"WITH ({WITH} = 'I');"
)


def selected(expression: str, kind: str) -> Any:
    table = f"CREATE TABLE o (a {kind}) WITH ({WITH} = 'I');"
    document = plan(f"{TABLES}{table}INSERT INTO o SELECT {expression} FROM t")
    return _shown(document["nodes"][1]["projection"][0])


def _shown(rex: dict[str, Any]) -> str:
    if rex["kind"] == "INPUT_REF":
        return f"${rex['inputIndex']}"
    if rex["kind"] == "LITERAL":
        return f"{rex['value']}:{rex['type']}"
    inside = ", ".join(_shown(each) for each in rex["operands"])
    return f"{rex['internalName'].split('$')[1]}({inside}):{rex['type']}"


@pytest.mark.parametrize(
    ("expression", "kind", "wanted"),
    [
        (
            "TIMESTAMPDIFF(HOUR, da, ts)",
            "INT",
            "CAST(/INT(REINTERPRET(-($0, $2):INTERVAL HOUR):BIGINT, "
            "3600000:INT NOT NULL):BIGINT):INT",
        ),
        (
            "TIMESTAMPDIFF(MONTH, ts, ts)",
            "INT",
            "CAST(REINTERPRET(-($0, $0):INTERVAL MONTH):BIGINT):INT",
        ),
        (
            "TIMESTAMPDIFF(QUARTER, ts, ts)",
            "INT",
            "/INT(CAST(REINTERPRET(-($0, $0):INTERVAL MONTH):BIGINT):INT, 3:INT NOT NULL):INT",
        ),
        (
            "TIMESTAMPADD(SECOND, 3, ts)",
            "TIMESTAMP(3)",
            "+($0, 3000:INTERVAL SECOND(6) NOT NULL):TIMESTAMP(3)",
        ),
        (
            "TIMESTAMPADD(DAY, x, ts)",
            "TIMESTAMP(3)",
            "+($0, *(86400000:INTERVAL DAY(2) NOT NULL, $4):INTERVAL DAY(2)):TIMESTAMP(3)",
        ),
        (
            "TIMESTAMPADD(DAY, CAST(NULL AS INT), ts)",
            "TIMESTAMP(3)",
            "+($0, *(86400000:INTERVAL DAY(2) NOT NULL, None:INT):INTERVAL DAY(2)):TIMESTAMP(3)",
        ),
        ("CAST(CAST(NULL AS STRING) AS DATE)", "DATE", "None:DATE"),
        ("TIMESTAMPADD(MONTH, -1, da)", "DATE", "+($2, -1:INTERVAL MONTH NOT NULL):DATE"),
        (
            "TIMESTAMPADD(HOUR, 1, da)",
            "TIMESTAMP(6)",
            "+($2, 3600000:INTERVAL HOUR NOT NULL):TIMESTAMP(6)",
        ),
        (
            "TIMESTAMPADD(SECOND, x, da)",
            "TIMESTAMP(6)",
            "+($2, *(1000:INTERVAL SECOND(6) NOT NULL, $4):INTERVAL SECOND(6)):TIMESTAMP(6)",
        ),
        ("TRY_CAST(s AS INT)", "INT", "TRY_CAST($5):INT"),
        ("TRY_CAST(x AS INT)", "INT", "$4"),
    ],
)
def test_expressions_are_flinks(expression: str, kind: str, wanted: str) -> None:
    """As recorded of Flink; TRY_CAST was planned as CAST, or refused."""
    assert selected(expression, kind) == wanted


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("TIMESTAMPDIFF(DAY, tz, ts)", "TIMESTAMP_LTZ only supports diff between the same type"),
        ("TIMESTAMPDIFF(DAY, ti, ts)", "TIME needs another TIME"),
        ("TIMESTAMPDIFF(DAY, s, ts)", "needs two times"),
        ("TIMESTAMPDIFF(DAYS, ts, ts)", "unknown unit of time DAYS .did you mean DAY"),
        ("TIMESTAMPDIFF(DAY, ts)", "needs a unit of time and two values"),
        ("TIMESTAMPDIFF('DAY', ts, ts)", "needs a unit of time and two values"),
        ("TIMESTAMPADD(DAY, 1, x)", "needs a time"),
        ("TIMESTAMPADD(DAY, 1, ti)", "needs a time"),
    ],
)
def test_what_means_nothing(expression: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=reason) as caught:
        selected(expression, "INT")
    assert caught.value.position is not None


@pytest.mark.parametrize(
    "expression", ["TIMESTAMPADD(DAY, 1.5, ts)", "TIMESTAMPADD(MILLISECOND, 1, ts)"]
)
def test_what_is_refused_by_name(expression: str) -> None:
    with pytest.raises(UnsupportedSql, match=r"line 2, column \d+: TIMESTAMPADD of "):
        selected(expression, "INT")
