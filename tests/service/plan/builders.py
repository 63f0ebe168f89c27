"""Plans for tests: those that Flink wrote, and small ones made on the spot."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import orjson

HERE = Path(__file__).parent
STRING = "VARCHAR(2147483647)"
INPUT = {
    "requiredDistribution": {"type": "UNKNOWN"},
    "damBehavior": "PIPELINED",
    "priority": 0,
}


@cache
def recorded_text() -> bytes:
    return (HERE / "flink_plans.json").read_bytes()


def recorded() -> list[dict[str, Any]]:
    """Every plan of the recorded cases: case, file, plan, and Flink's own explanation of it."""
    return orjson.loads(recorded_text())


def recorded_plan(case: str, file: str = "plan.json") -> dict[str, Any]:
    """One plan, as a copy that a test may change."""
    return next(
        entry["plan"]
        for entry in recorded()
        if entry["case"].startswith(case) and entry["file"] == file
    )


def ref(index: int, type_text: str = "INT") -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": type_text}


def literal(value: Any, type_text: str = "INT NOT NULL") -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": type_text}


def call(name: str, *operands: Any, type_text: str = "BOOLEAN", **more: Any) -> dict[str, Any]:
    return {
        "kind": "CALL",
        "syntax": "BINARY",
        "internalName": f"${name}$1",
        "operands": list(operands),
        "type": type_text,
    } | more


def table(name: str, columns: dict[str, str], *, key: tuple[str, ...] = (), **options: str) -> Any:
    schema: dict[str, Any] = {
        "columns": [{"name": each, "dataType": kind} for each, kind in columns.items()]
    }
    if key:
        schema["primaryKey"] = {
            "name": f"PK_{key[0]}",
            "type": "PRIMARY_KEY",
            "columns": list(key),
        }
    return {
        "identifier": f"`default_catalog`.`default_database`.`{name}`",
        "resolvedTable": {"schema": schema, "options": {"connector": "filesystem"} | options},
    }


def row(columns: dict[str, str]) -> str:
    return f"ROW<{', '.join(f'`{name}` {kind}' for name, kind in columns.items())}>"


def edge(source: int, target: int) -> dict[str, Any]:
    return {
        "source": source,
        "target": target,
        "shuffle": {"type": "FORWARD"},
        "shuffleMode": "PIPELINED",
    }


def node(node_id: int, kind: str, columns: dict[str, str], **properties: Any) -> dict[str, Any]:
    return {
        "id": node_id,
        "type": f"stream-exec-{kind}",
        "outputType": row(columns),
        "description": kind,
    } | properties


def scan(node_id: int, columns: dict[str, str], **properties: Any) -> dict[str, Any]:
    described = table(f"t{node_id}", columns, **{"changelog-mode": "I,UB,UA,D"})
    return node(
        node_id,
        "table-source-scan_2",
        columns,
        scanTableSource={"table": described, **properties},
    )


def sink(node_id: int, columns: dict[str, str], **properties: Any) -> dict[str, Any]:
    key = properties.pop("key", ())
    return node(
        node_id,
        "sink_2",
        columns,
        dynamicTableSink={"table": table(f"s{node_id}", columns, key=key)},
        inputChangelogMode=["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"],
        inputProperties=[INPUT],
        **properties,
    )


def chain(*nodes: dict[str, Any], **root: Any) -> dict[str, Any]:
    """A plan whose nodes follow each other."""
    pairs = itertools.pairwise(nodes)
    edges = [edge(before["id"], after["id"]) for before, after in pairs]
    return {"flinkVersion": "2.3", "nodes": list(nodes), "edges": edges} | root


def edited(document: dict[str, Any], edits: list[list[Any]]) -> dict[str, Any]:
    """A copy with edits: [set, pointer, value], [append, pointer, value] or [remove, pointer]."""
    copy = orjson.loads(orjson.dumps(document))
    for what, pointer, *value in edits:
        if not pointer:
            copy = value[0]
            continue
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]
        ]
        place: Any = copy
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        at = int(last) if isinstance(place, list) else last
        if what == "remove":
            del place[at]
        elif what == "append":
            place[at].append(value[0])
        else:
            place[at] = value[0]
    return copy
