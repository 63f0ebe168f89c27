"""Validation cases: a document, and whether Flink takes it at load, explain and execute."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from service.plan import PlanError, load_plan
from tests.oracles.cases import Case, Outcome


def run_validation(case: Case) -> Outcome:
    """Load the document; what Flink refuses at any stage is to be refused here, at load."""
    entry = case.content
    stages = ("load", "explain", "execute")
    accepted = all(entry.get(stage) == "ok" for stage in stages)
    document = entry["plan"]
    text = document if isinstance(document, str) else orjson.dumps(document)
    file = Path(case.name.removesuffix(f": {entry['case']}"))
    try:
        load_plan(text, catalog=_catalog(file))
    except PlanError as refusal:
        if accepted:
            return Outcome(case.name, f"Flink accepts it; refused: {refusal}")
        if not str(refusal).strip():
            return Outcome(case.name, "refused without a message")
        return Outcome(case.name)
    if not accepted:
        stage = next(stage for stage in stages if entry.get(stage) != "ok")
        return Outcome(case.name, f"Flink refuses it at {stage}; accepted")
    return Outcome(case.name)


@lru_cache
def _catalog(file: Path) -> dict[str, Any]:
    """The catalogue of the recorded session, as far as the file shows it.

    The cases are mutations of plans over a few tables that were registered; what most documents
    say of a table is what the catalogue held, and what a single one says is its mutation.
    """
    seen: dict[str, Counter[bytes]] = {}
    for entry in orjson.loads(file.read_bytes()):
        for table in _tables(entry["plan"]):
            schema = table.get("resolvedTable", {}).get("schema")
            if schema is not None:
                text = orjson.dumps(table["resolvedTable"], option=orjson.OPT_SORT_KEYS)
                seen.setdefault(table["identifier"], Counter())[text] += 1
    return {
        identifier: orjson.loads(counts.most_common(1)[0][0])
        for identifier, counts in seen.items()
        if counts.most_common(1)[0][1] > 1
    }


def _tables(document: Any) -> list[dict[str, Any]]:
    nodes = document.get("nodes") if isinstance(document, dict) else None
    tables = []
    for node in nodes if isinstance(nodes, list) else ():
        for key in ("scanTableSource", "dynamicTableSink"):
            table = node.get(key, {}).get("table") if isinstance(node, dict) else None
            if isinstance(table, dict) and "identifier" in table:
                tables.append(table)
    return tables
