"""The embedded Spark Connect server runs Python workers as the configuration promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from service.runtime.launcher import package_version

if TYPE_CHECKING:
    from collections.abc import Iterator


def _describe_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import gc
    import sys

    from service.runtime.launcher import package_version

    for _ in batches:
        facts = {
            "version": [package_version()],
            "module": [sys.argv[0]],
            "frozen": [gc.get_freeze_count()],
        }
        yield pa.RecordBatch.from_pydict(facts)


def test_workers_have_our_package_and_are_forked_from_the_preloading_daemon(spark: Any) -> None:
    rows = spark.range(1).mapInArrow(_describe_worker, "version string, module string, frozen long")

    found = rows.collect()[0]

    assert found.version == package_version()
    assert found.module.endswith("service/runtime/daemon.py")
    assert found.frozen > 10_000


def test_sessions_use_utc_and_as_many_shuffle_partitions_as_cores(spark: Any) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
