"""Tables and runs that tests of the planner share."""

from __future__ import annotations

from typing import Any

from service.sql import compile_script

WITH = "'connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode'"
TABLES = (
    f"CREATE TABLE s (id INT, k STRING, v INT) WITH ({WITH} = 'I');"
    f"CREATE TABLE c (id INT NOT NULL, v INT, PRIMARY KEY (id) NOT ENFORCED)"
    f" WITH ({WITH} = 'I,UB,UA,D');"
    f"CREATE TABLE snk (a INT) WITH ({WITH} = 'retract');\n"
)
"""On line 1, so that what a test adds begins line 2."""


def plan(sql: str) -> dict[str, Any]:
    """The plan of the last statement, over `TABLES`."""
    return compile_script(TABLES + sql)[-1].document


def node_types(document: dict[str, Any]) -> list[str]:
    """The types of a plan's nodes in order, short: `calc`, `group-aggregate`, `sink`."""
    return [
        each["type"].removeprefix("stream-exec-").rpartition("_")[0] for each in document["nodes"]
    ]


def output_types(document: dict[str, Any]) -> list[Any]:
    """The types of the columns that the sink is given."""
    return [each["fieldType"] for each in _fields(document["nodes"][-2]["outputType"])]


def _fields(row: Any) -> list[dict[str, Any]]:
    return list(row["fields"]) if isinstance(row, dict) else []
