"""Whether Spark's workers see a folder that the service and Spark's server see.

Executors of a cluster may run where the folder of checkpoints is not. Then a query does without
what its workers would read there; see `service/runtime/quiet_epochs.py`.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import structlog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession

log = structlog.get_logger(__name__)


def workers_see(spark: SparkSession, folder: Path, *, tasks: int) -> bool:
    """Whether tasks of Spark's workers read what is written into a folder now.

    Args:
        spark: The `SparkSession`.
        folder: Made if it is not there.
        tasks: How many tasks look, each for itself.
    """
    token = uuid.uuid4().hex
    probe = folder / f".seen-by-workers-{token}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_text(token, "utf-8")
    except OSError as error:
        log.info("folder cannot be written", folder=str(folder), reason=error.strerror)
        return False
    try:
        found = _texts_on_workers(spark, str(probe), tasks)
    finally:
        probe.unlink(missing_ok=True)
    return found == {token}


def _texts_on_workers(spark: SparkSession, path: str, tasks: int) -> set[str]:
    # Local, so that it goes to the workers by value: they may lack this module.
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pathlib import Path

        import pyarrow as pa

        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            text = ""
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"text": [text]})

    rows = spark.range(0, tasks, 1, tasks).mapInArrow(report, "text string").collect()
    return {str(row.text) for row in rows}
