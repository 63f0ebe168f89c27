"""The processes beside the driver in which Spark makes our sources and writers, and commits.

Spark starts them with pyspark's own daemon, whatever `spark.python.daemon.module` says, and after
each call, so several times an epoch, pyspark collects all garbage there. That takes as long as much
has been imported: 70 ms of processor time where a writer commits, on two cores that the next epoch
needs as well.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def settle(_role: str) -> None:
    """Take what this process has imported out of its garbage collections: once for each role."""
    gc.collect()
    gc.freeze()
