"""Plans that real Flink 2.3 made of SQL, reduced to what a planner of ours must give too.

`recorded/*.jsonl`: a case a line, with `name`, `sql`, and either `plan` (nodes, edges) and `modes`
(the changelog mode of each edge from the sink down, as EXPLAIN CHANGELOG_MODE shows them), or
`error`. They were recorded with Flink's own planner; tables had a source and a sink that do what
the option `changelog-mode` says. Expressions are reduced to whether there is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from tests.oracles.compile import EXPRESSIONS

FOLDER = Path(__file__).parent / "recorded"
_LEFT_OUT = frozenset({"id", "description", "resolvedTable", "inputProperties"})


@dataclass(frozen=True, slots=True)
class RecordedPlan:
    """One case."""

    name: str
    sql: str
    plan: dict[str, Any] | None
    modes: list[str]
    error: str


def recorded_plans() -> list[RecordedPlan]:
    """All cases, by file and line."""
    files = sorted(FOLDER.glob("*.jsonl"))
    entries = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines()]
    return [
        RecordedPlan(
            entry["name"],
            entry["sql"],
            entry.get("plan"),
            entry.get("modes", []),
            entry.get("error", ""),
        )
        for entry in entries
    ]


def reduced(plan: dict[str, Any]) -> dict[str, Any]:
    """The nodes and edges of a plan, without what may differ."""
    places = {node["id"]: place for place, node in enumerate(plan["nodes"], start=1)}
    edges = [[places[edge["source"]], places[edge["target"]]] for edge in plan["edges"]]
    return {"nodes": [_reduced(node) for node in plan["nodes"]], "edges": edges}


def _reduced(value: Any) -> Any:
    if isinstance(value, list):
        return [_reduced(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        key: entry is not None if key in EXPRESSIONS else _kept(key, entry)
        for key, entry in sorted(value.items())
        if key not in _LEFT_OUT
    }


def _kept(key: str, entry: Any) -> Any:
    if key == "configuration":
        return dict(sorted(entry.items()))
    return _reduced(entry)
