"""The preloading daemon imports what workers need and takes it out of garbage collection."""

from __future__ import annotations

import subprocess
import sys

PROBE = """
import gc, json, sys, threading
from service.runtime import daemon
failed = daemon.preload()
print(json.dumps({
    "failed": failed,
    "frozen": gc.get_freeze_count(),
    "threads": threading.active_count(),
    "enabled": gc.isenabled(),
    "modules": sorted(sys.modules),
}))
"""


def _preloaded() -> dict[str, object]:
    import json

    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, check=True, timeout=120, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_preload_imports_all_that_workers_need_and_freezes_it() -> None:
    found = _preloaded()

    modules = set(found["modules"])
    assert found["failed"] == []
    assert {"numpy", "pyarrow.compute", "redis", "pyspark.worker"} <= modules
    assert {"state.backends", "operators.wire", "operators.worker"} <= modules
    assert not any(".testing." in name for name in modules if name.startswith(("state", "oper")))
    assert int(str(found["frozen"])) > 10_000
    assert found["enabled"] is True


def test_preload_starts_no_python_thread_that_a_fork_would_lose() -> None:
    assert _preloaded()["threads"] == 1


_FAULTS = """
import os, resource, sys
import numpy as np, pyarrow as pa
from service.runtime import daemon
if sys.argv[1] == "keeps":
    daemon.keep_memory()
if os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
def epoch():
    columns = [np.ones(100_000) for _ in range(20)]
    return pa.concat_arrays([pa.array(each) for each in columns])
for _ in range(30):  # by then free memory lies so that what comes fits, wherever it began
    epoch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    epoch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _pages_given(how: str) -> int:
    """How many pages a fork gets from the system in ten epochs that free all that they use."""
    done = subprocess.run(
        [sys.executable, "-c", _FAULTS, how], check=True, capture_output=True, text=True
    )
    return int(done.stdout)


def test_workers_keep_the_memory_of_the_epoch_before() -> None:
    assert _pages_given("keeps") < 500
    assert _pages_given("gives back") > 5_000
