"""The parent of Spark's Python workers: imports everything once, then forks.

Spark starts it as `python -m service.runtime.daemon pyspark.worker` (setting
`spark.python.daemon.module`) and it becomes pyspark's own daemon. Two costs of every task go away:
imports, since workers are forks of a process that has them; and most of the full garbage
collection that pyspark runs after each task, since `gc.freeze` takes what was imported out of it
(measured with 16 tasks an epoch: 361 to 68 ms). And workers keep some of the memory that an epoch
has freed: else its columns, of a megabyte each, go back to the system one by one, and a seventh of
a worker's time goes into pages that are given anew. Nothing is opened or started here: connections
and threads do not survive a fork.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES = ("numpy", "pandas", "pyarrow.compute", "redis", "hiredis", "msgpack", "orjson")
WORKER_PACKAGES = ("state", "operators", "service.runtime.sources", "service.runtime.sinks")
"""Packages whose modules run in workers; those for tests only are left out."""
_LEFT_OUT = (".testing", ".kafka.session")
"""The second imports Kafka's client, which few queries need and not every server has."""
_KEPT_BYTES = 128 * 1024 * 1024
"""So much freed memory stays with a worker for its next epoch, at most."""
_MAPPED_BYTES = 32 * 1024 * 1024
"""What is larger is given back when it is freed; glibc takes no higher bound."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What `mallopt` calls these two, in glibc's malloc.h."""
_NOT_IMPORTABLE = (ImportError, SyntaxError, NameError, AttributeError, TypeError, ValueError)


def preload() -> list[str]:
    """Import what workers need and freeze it.

    Returns:
        The modules that could not be imported, with the reason. A task that needs one fails by
        itself and says so; a daemon that did would only show as "worker exited unexpectedly".
    """
    gc.disable()
    first = (*LIBRARIES, "pyspark.worker", "service.runtime.map_tasks")
    failed = [each for name in first if (each := _import(name))]
    for package in WORKER_PACKAGES:
        failed += [each for name in _modules(package) if (each := _import(name))]
    gc.collect()
    gc.freeze()
    gc.enable()
    return failed


def keep_memory() -> None:
    """Let this process, and those that it forks, keep what they free, up to a bound.

    Arrow's columns then come from where numpy's do, the C library, so that one bound counts for
    both. A C library without these settings is left as it is.
    """
    import pyarrow as pa

    # Of the interpreter's own C library.
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _MAPPED_BYTES)
        pa.set_memory_pool(pa.system_memory_pool())


def _modules(package: str) -> Iterator[str]:
    """The names of a package and of all below it; import each before asking for the next."""
    yield package
    if package in sys.modules:
        for module in pkgutil.walk_packages(sys.modules[package].__path__, f"{package}."):
            if not any(each in module.name for each in _LEFT_OUT):
                yield module.name


def _import(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except _NOT_IMPORTABLE as error:
        return f"{name}: {type(error).__name__}: {error}"
    return None


def main() -> None:
    """Preload, then be pyspark's daemon until Spark closes our input."""
    from pyspark.daemon import manager

    problems = preload()
    keep_memory()
    for problem in problems:
        sys.stderr.write(f"tailrace daemon cannot preload {problem}\n")
    manager()


if __name__ == "__main__":
    main()
