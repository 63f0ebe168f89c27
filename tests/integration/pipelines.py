"""Plans of few nodes, and pipelines that run them on real Spark and Redis."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import orjson

from operators.worker import installed_version
from service.plan import load_plan
from service.runtime.databases import claim_databases
from service.runtime.dataflow import PipelineJob, start_query, stateful_nodes
from service.runtime.records import RunOptions
from service.runtime.topics import claim_of_topics
from state.epochs import EpochLedger
from tests.oracles.plans import STARVED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

Columns = dict[str, str]
WAIT_S = 240
MODE = ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"]


def row_type(columns: Columns) -> str:
    return "ROW<" + ", ".join(f"`{name}` {kind}" for name, kind in columns.items()) + ">"


def table(name: str, columns: Columns, key: Sequence[str], options: Mapping[str, str]) -> Any:
    schema: dict[str, Any] = {
        "columns": [{"name": each, "dataType": kind} for each, kind in columns.items()]
    }
    if key:
        schema["primaryKey"] = {"name": "PK", "type": "PRIMARY_KEY", "columns": list(key)}
    return {
        "identifier": f"`default_catalog`.`default_database`.`{name}`",
        "resolvedTable": {"schema": schema, "options": dict(options)},
    }


class PlanBuilder:
    """Nodes with forward edges, numbered from 1."""

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []

    def scan(self, name: str, columns: Columns, **options: str) -> int:
        spec = {"table": table(name, columns, (), _dashed(options))}
        return self._add("table-source-scan_2", columns, (), scanTableSource=spec)

    def node(self, kind: str, columns: Columns, inputs: Sequence[int], **properties: Any) -> int:
        return self._add(kind, columns, inputs, **properties)

    def calc(self, columns: Columns, source: int, projection: Any, condition: Any = None) -> int:
        return self._add("calc_1", columns, [source], projection=projection, condition=condition)

    def sink(
        self,
        name: str,
        columns: Columns,
        source: int,
        *,
        key: Sequence[str] = (),
        materialize: bool = False,
        upsert_key: Sequence[int] = (),
        mode: Sequence[str] = tuple(MODE),
        configuration: Mapping[str, str] | None = None,
        **options: str,
    ) -> int:
        properties: dict[str, Any] = {
            "dynamicTableSink": {"table": table(name, columns, key, _dashed(options))},
            "inputChangelogMode": list(mode),
            "configuration": dict(configuration or {}),
        }
        if materialize:
            properties["requireUpsertMaterialize"] = True
            properties["state"] = [{"index": 0, "ttl": "0 ms", "name": "sinkMaterializeState"}]
        if upsert_key:
            properties["inputUpsertKey"] = list(upsert_key)
        return self._add("sink_2", columns, [source], **properties)

    def document(self) -> dict[str, Any]:
        return {"flinkVersion": "2.3", "nodes": self.nodes, "edges": self.edges}

    def _add(self, kind: str, columns: Columns, inputs: Sequence[int], **properties: Any) -> int:
        number = len(self.nodes) + 1
        self.nodes.append(
            {
                "id": number,
                "type": f"stream-exec-{kind}",
                "inputProperties": [_INPUT] * len(inputs),
                "outputType": row_type(columns),
                "description": f"{kind} {number}",
                **properties,
            }
        )
        self.edges += [
            {
                "source": each,
                "target": number,
                "shuffle": {"type": "FORWARD"},
                "shuffleMode": "PIPELINED",
            }
            for each in inputs
        ]
        return number


_INPUT = {
    "requiredDistribution": {"type": "UNKNOWN"},
    "damBehavior": "PIPELINED",
    "priority": 0,
}


def ref(index: int, kind: str) -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": kind}


def literal(value: Any, kind: str) -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": kind}


def call(name: str, kind: str, *operands: Any, syntax: str = "BINARY") -> dict[str, Any]:
    return {
        "kind": "CALL",
        "syntax": syntax,
        "internalName": f"${name}$1",
        "operands": list(operands),
        "type": kind,
    }


def _dashed(options: Mapping[str, str]) -> dict[str, str]:
    """Option names as keyword arguments: `changelog_mode`, `csv__field_delimiter`."""
    return {name.replace("__", ".").replace("_", "-"): each for name, each in options.items()}


class Pipeline:
    """A pipeline that a test starts, stops and waits for."""

    def __init__(
        self,
        spark: SparkSession,
        client: redis.Redis,
        folder: Path,
        document: Mapping[str, Any],
        *,
        name: str = "p",
        parallelism: int = 2,
        max_parallelism: int = 16,
        checkpoint: str = "checkpoint",
        workers_see_checkpoint: bool = True,
        **options: Any,
    ) -> None:
        self.spark = spark
        self.client = client
        self.folder = folder
        self.name = name
        self.parallelism = parallelism
        self.max_parallelism = max_parallelism
        self.checkpoint = str(folder / checkpoint)
        self.workers_see_checkpoint = workers_see_checkpoint
        self.plan = load_plan(document)
        values = {
            "trigger_interval_ms": 0,
            "tick_interval_ms": 0,
            "rows_per_epoch_max": 1_000_000,
            "max_parallelism": max_parallelism,
            "on_malformed": "dead-letter",
            "default_ttl_ms": 0,
        }
        self.options = RunOptions(**{**values, **options})
        self.query: Any = None
        self.ledger = EpochLedger(client, name)

    @property
    def redis_url(self) -> str:
        return f"redis://127.0.0.1:{self.client.connection_pool.connection_kwargs['port']}/0"

    def start(self) -> Pipeline:
        nodes = [each.id for each in stateful_nodes(self.plan, self.options)]
        run = self.ledger.open_run(nodes, self.max_parallelism)
        marker = self.ledger.marker()
        job = PipelineJob(
            pipeline=self.name,
            plan=self.plan,
            run=run,
            incarnation=self.ledger.incarnation,
            redis_url=self.redis_url,
            checkpoint=self.checkpoint,
            closed_epoch=marker.epoch,
            closed_offsets=marker.offsets,
            options=self.options,
            parallelism=self.parallelism,
            max_parallelism=self.max_parallelism,
            files_root=str(self.folder),
            version=installed_version(),
            allow_testing=True,
            pipeline_id=f"id-of-{self.name}",
            database_hosts=("127.0.0.1",),
            workers_see_checkpoint=self.workers_see_checkpoint,
        )
        claim_databases(job, marker=marker.epoch)
        claim_of_topics(job, marker=marker.epoch, begun=dict)
        self.query = start_query(self.spark, job)
        return self

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
            self.query = None

    def fence(self) -> int:
        """The last closed epoch, once nothing of the run that was stopped can close another one.

        Spark does not wait for the process that commits: it may be through with it behind `stop`.
        """
        self.client.incr(f"tailrace:{{{self.name}}}:run")
        return self.ledger.marker().epoch

    def __enter__(self) -> Pipeline:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def progress(self) -> list[dict[str, Any]]:
        """The record of each closed epoch."""
        entries: Any = self.client.xrange(f"tailrace:{{{self.name}}}:progress")
        return [orjson.loads(fields[b"progress"]) for _, fields in entries]

    def wait(
        self, until: Callable[[list[dict[str, Any]]], bool], *, may_fail: bool = False
    ) -> list[dict[str, Any]]:
        """Return the records once they are as wanted; woken by the close of each epoch.

        Args:
            until: Looks at the records.
            may_fail: A query that failed ends the wait, too.
        """
        deadline = time.monotonic() + WAIT_S
        while not until(records := self.progress()):
            failure = self.query.exception()
            if failure is not None:
                if may_fail:
                    break
                # A supervisor would start the query again, too.
                assert STARVED in str(failure), str(failure)[:4_000]
                self.start()
            assert time.monotonic() < deadline, f"still {records[-3:]}"
            after = f"{records[-1]['epoch']}-0" if records else "0-0"
            self.client.xread({f"tailrace:{{{self.name}}}:progress": after}, block=1_000)
        return records

    def wait_for_rows(self, count: int) -> list[dict[str, Any]]:
        """Until the sources have read so many changes, dead letters included."""
        return self.wait(lambda all_: sum(each["rows_in"] + each["dead"] for each in all_) >= count)

    def table(self, sink: str) -> dict[str, Any]:
        """The rows of a Redis table by canonical key."""
        rows: Any = self.client.hgetall(f"tailrace:{{{self.name}}}:table:{sink}")
        return {key.decode(): orjson.loads(row) for key, row in rows.items()}

    def printed(self, sink: str) -> list[tuple[str, dict[str, Any]]]:
        """The changes that a print sink has."""
        entries: Any = self.client.xrange(f"tailrace:{{{self.name}}}:print:{sink}")
        lines = [orjson.loads(fields[b"change"]) for _, fields in entries]
        return [(each["op"], each["data"]) for each in lines]

    def dead_letters(self) -> list[dict[str, Any]]:
        entries: Any = self.client.xrange(f"tailrace:{{{self.name}}}:dead")
        return [orjson.loads(fields[b"letter"]) for _, fields in entries]

    def files(self, path: str) -> list[dict[str, Any]]:
        """Lines of a filesystem sink in order of epoch and partition."""
        names = sorted((self.folder / path).glob("part-*.jsonl"))
        return [orjson.loads(each) for name in names for each in name.read_bytes().splitlines()]


def write_lines(path: Path, lines: Sequence[bytes]) -> None:
    """Put a file of lines in place at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(b"".join(each.rstrip(b"\n") + b"\n" for each in lines))
    hidden.rename(path)


def change(op: str, **data: Any) -> bytes:
    return orjson.dumps({"op": op, "data": data})


def final_table(changes: Sequence[Mapping[str, Any]], key: str) -> dict[Any, dict[str, Any]]:
    """What upserts leave."""
    found: dict[Any, dict[str, Any]] = {}
    for each in changes:
        if each["op"] == "-D":
            found.pop(each["data"][key], None)
        else:
            found[each["data"][key]] = each["data"]
    return found
