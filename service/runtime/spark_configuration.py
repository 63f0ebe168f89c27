"""How our Spark Connect servers are set up: the measured configuration and their environment.

Used by the launcher and by servers in containers. Where a line is not Spark's default, the comment
beside it says what it is for.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
"""The class that spark-submit runs."""
LOOPBACK = "127.0.0.1"
TASK_ATTEMPTS = 4
"""`local[N]` alone never tries a task again: one dead Python worker would end the query."""
SPEC_OPTION = "secret_spec"
"""The option in which our data sources get their specs. A spec holds the address of Redis and so
its password: Spark shows no option in plans, logs and pages whose name is one of a secret."""
REDACTED_NAMES = "(?i)secret|password|token|access[.]?key"
SESSION_CONFIGURATION = {
    # First thing in a session: else each start of a query leaves a Python daemon behind.
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Exchanges are by key group into as many partitions as the plan says: nothing to adapt, and
    # every stage of every epoch would be planned, and waited for, on its own.
    "spark.sql.adaptive.enabled": "false",
    # A source whose rows are not wanted is not read (`ticks_apart`). Spark keeps it in the plan for
    # the sake of state of its own behind it, which our queries have none of.
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "true",
    # The two small files that an epoch leaves in the checkpoint: ten processes (`readlink`,
    # `chmod`) were started for them. For streams of this session, on local disks: `fs.file.impl`
    # for a whole server would break what asks Hadoop for its local file system.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""What every session sets before its first query."""
_COMPILING = " ".join(
    f"-XX:Tier4{name}={calls}"
    for name, calls in {
        "InvocationThreshold": 20_000,
        "MinInvocationThreshold": 2_400,
        "CompileThreshold": 60_000,
        "BackEdgeThreshold": 160_000,
    }.items()
)
"""Java compiles what is called often a second time, at length. Four times its own thresholds: much
of Spark is called often only while a query begins, and compiling it took a third of the processor
time of a query's first epochs."""
_REGIONS = "-XX:G1HeapRegionSize=4m"
"""Each task's result is written into an array of 1 MiB. Where regions are as small, as Java's own
are for our heaps, that is a huge object, for which it begins to look for garbage."""
WORKER_PYTHON = Path(__file__).with_name("worker_python.sh")
"""What Spark starts as Python: clears its search path of archives (see there)."""
_MEMORY_MINIMUM_MB = 1024
_MEMORY_MAXIMUM_MB = 3072


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """What differs from one Spark Connect server to another."""

    cores: int = 0
    """Threads that run tasks; 0 takes the processors of this machine."""
    memory_mb: int = 0
    """Heap of the JVM; 0 takes half of the machine's memory, from 1 to 3 GiB."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Configuration on top of ours, or in place of it."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at a time."""
        return self.cores or os.cpu_count() or 1


def spark_configuration(
    folder: Path, *, port: int, address: str = LOOPBACK, options: SparkOptions
) -> dict[str, str]:
    """The configuration of a Spark Connect server as pipelines need it.

    Args:
        folder: Where the server may write scratch data.
        port: Where it listens.
        address: The interface it listens on; everything else of Spark stays on loopback.
        options: Size, and settings that replace these.
    """
    return {
        "spark.master": f"local[{options.parallelism},{TASK_ATTEMPTS}]",
        "spark.app.name": "tailrace",
        "spark.driver.memory": f"{options.memory_mb or _memory_mb()}m",
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": address,
        # A session without calls would time out, and its queries be stopped.
        "spark.connect.session.manager.defaultSessionTimeout": "-1",
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(options.parallelism),
        # Workers: forks of a process that has imported everything, spoken to by unix sockets.
        "spark.python.daemon.module": "service.runtime.daemon",
        "spark.python.unix.domain.socket.enabled": "true",
        # Each small file of a checkpoint cost a forked `chmod`: these three take it away, which
        # halves the time of an empty epoch. For local disks only. (Do not set fs.file.impl too.)
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
        "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
        "spark.driver.extraJavaOptions": (
            f"-Djdk.lang.Process.launchMechanism=VFORK {_COMPILING} {_REGIONS}"
        ),
        # Of each stage's code, some 20 kB, a copy is made in an array of this size, which is filled
        # with zeros first: 4 MiB are Spark's own.
        "spark.broadcast.blockSize": "128k",
        # Else the size of a batch for Python is added up again for each row, column by column: a
        # quarter of the time of tasks. So the number of rows bounds it; 2 GiB are its end.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
        # Spark's default, and what `SPEC_OPTION` counts on.
        "spark.redaction.regex": REDACTED_NAMES,
        # No page of Spark's own, and little kept for it: memory must not grow with epochs.
        "spark.ui.enabled": "false",
        "spark.sql.streaming.ui.enabled": "false",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        "spark.sql.ui.retainedExecutions": "20",
        **options.extra,
    }


def spark_environment(
    java_home: Path, home: Path, configuration: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the server and so of its Python workers.

    Spark's own variables of the caller are left out, as they would change the server; ours too, as
    they may hold secrets and nothing below the service reads them.
    """
    ours = ("SPARK_", "PYSPARK_", "TAILRACE_")
    kept = {name: value for name, value in environment.items() if not name.startswith(ours)}
    packages = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([packages, *filter(None, [kept.get("PYTHONPATH")])])
    # Where files of this package cannot be run, Spark's way of starting Python is only slower.
    started = str(WORKER_PYTHON) if os.access(WORKER_PYTHON, os.X_OK) else sys.executable
    return kept | {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_CONNECT_MODE": "0",
        **dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), started),
        "PYTHONPATH": paths,
        "TAILRACE_PYTHON": sys.executable,
        "TAILRACE_PACKAGES": paths,
    }


def write_configuration(folder: Path, properties: Mapping[str, str]) -> None:
    """Write what `SPARK_CONF_DIR` is to hold: the properties, and how much is logged."""
    lines = [f"{name} {_property_value(value)}\n" for name, value in properties.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines), "utf-8")
    (folder / "log4j2.properties").write_text(_LOG_CONFIGURATION, "utf-8")


def _property_value(value: str) -> str:
    """A value as java.util.Properties reads it back."""
    return value.replace("\\", "\\\\")


def _memory_mb() -> int:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return _MEMORY_MINIMUM_MB
    return min(max(total // 2**21, _MEMORY_MINIMUM_MB), _MEMORY_MAXIMUM_MB)


# At INFO Spark writes dozens of lines for each epoch.
_LOG_CONFIGURATION = """\
rootLogger.level = warn
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} %p %c{1}: %m%n%ex
"""
