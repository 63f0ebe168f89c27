"""Run jobs on Flink's own local cluster with RocksDB; in an environment of Flink's own.

Reads one JSON document from standard input, writes one to standard output:

    {"jobs": [["CREATE ...", ..., "INSERT ..."], ...], "folder": "...", "parallelism": 2}
    {"version": "2.3.0", "seconds": [[12.3, 10.1], ...]}

A job has two times: from its submission to its end, with the start of its local cluster, and the
net time that Flink itself gives, without. Only PyFlink and the standard library are imported.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any


def main() -> None:
    """Run the jobs in order, in one JVM."""
    asked = json.load(sys.stdin)
    seconds = [_run(job, asked) for job in asked["jobs"]]
    json.dump({"version": version("apache-flink"), "seconds": seconds}, sys.stdout)


def _run(job: list[str], asked: dict[str, Any]) -> tuple[float, float]:
    from pyflink.table import EnvironmentSettings, TableEnvironment

    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    checkpoints = Path(asked["folder"]) / "checkpoints"
    checkpoints.mkdir(exist_ok=True)
    for name, value in {
        "parallelism.default": str(asked["parallelism"]),
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "2 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": checkpoints.as_uri(),
        "taskmanager.memory.managed.size": "512 mb",
        "taskmanager.numberOfTaskSlots": str(asked["parallelism"]),
    }.items():
        tables.get_config().set(name, value)
    *others, insert = job
    for statement in others:
        tables.execute_sql(statement)
    started = time.perf_counter()
    result = tables.execute_sql(insert)
    ended = result.get_job_client().get_job_execution_result()
    result.wait()
    whole = time.perf_counter() - started
    return whole, ended.result().get_net_runtime() / 1_000


if __name__ == "__main__":
    main()
