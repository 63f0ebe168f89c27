"""Plans that the tests post: as Flink 2.3 writes them, with the connectors that a test wants."""

from __future__ import annotations

from typing import Any

_STRING = "VARCHAR(2147483647)"
_INPUT = [{"requiredDistribution": {"type": "UNKNOWN"}, "damBehavior": "PIPELINED", "priority": 0}]


def materializer_plan(
    path: str,
    *,
    strategy: str = "ADAPTIVE",
    ttl: str = "0 ms",
    source: dict[str, str] | None = None,
    sink: dict[str, str] | None = None,
) -> dict[str, Any]:
    """`INSERT INTO latest SELECT * FROM s`: s(id, k, v) keyed by id, latest keyed by k."""
    columns = {"id": "INT NOT NULL", "k": "INT", "v": _STRING}
    source = source or {
        "connector": "filesystem",
        "format": "changelog-json",
        "path": path,
        "changelog-mode": "I,UB,UA,D",
    }
    return {
        "flinkVersion": "2.3",
        "nodes": [
            {
                "id": 1,
                "type": "stream-exec-table-source-scan_2",
                "scanTableSource": {"table": _table("s", columns, "id", source)},
                "outputType": _row(columns),
                "description": "TableSourceScan(table=[[default_catalog, default_database, s]])",
            },
            {
                "id": 2,
                "type": "stream-exec-sink_2",
                "configuration": {"table.exec.sink.not-null-enforcer": "ERROR"},
                "dynamicTableSink": {
                    "table": _table(
                        "latest",
                        {**columns, "k": "INT NOT NULL"},
                        "k",
                        sink or {"connector": "redis", "changelog-mode": "upsert"},
                    )
                },
                "inputChangelogMode": ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"],
                "requireUpsertMaterialize": True,
                "upsertMaterializeStrategy": strategy,
                "state": [{"index": 0, "ttl": ttl, "name": "sinkMaterializeState"}],
                "inputUpsertKey": [0],
                "conflictStrategy": {"behavior": "DEDUPLICATE"},
                "inputProperties": _INPUT,
                "outputType": _row(columns),
                "description": "Sink(table=[default_catalog.default_database.latest])",
            },
        ],
        "edges": [
            {
                "source": 1,
                "target": 2,
                "shuffle": {"type": "FORWARD"},
                "shuffleMode": "PIPELINED",
            }
        ],
    }


def _table(name: str, columns: dict[str, str], key: str, options: dict[str, str]) -> dict[str, Any]:
    return {
        "identifier": f"`default_catalog`.`default_database`.`{name}`",
        "resolvedTable": {
            "schema": {
                "columns": [{"name": k, "dataType": v} for k, v in columns.items()],
                "primaryKey": {"name": f"PK_{key}", "type": "PRIMARY_KEY", "columns": [key]},
            },
            "options": options,
        },
    }


def _row(columns: dict[str, str]) -> str:
    return "ROW<" + ", ".join(f"`{name}` {kind}" for name, kind in columns.items()) + ">"
