"""The processes beside the driver in which Spark makes our sources and writers, and commits.

Spark starts them with pyspark's own daemon, whatever `spark.python.daemon.module` says, and after
each call, so several times an epoch, pyspark collects all garbage there. That takes as long as much
has been imported: 70 ms of processor time where a writer commits, on two cores that the next epoch
needs as well.
"""

from __future__ import annotations

import gc
from collections import Counter

_CALLS_MAX = 2
"""What the first call of a role imports after it settled is there at the second one: pyarrow, where
a writer is made, is worth 4 ms a collection."""
_calls: Counter[str] = Counter()


def settle(role: str) -> None:
    """Take what this process has imported out of its collections: at a role's first two calls."""
    if _calls[role] < _CALLS_MAX:
        _calls[role] += 1
        gc.collect()
        gc.freeze()
