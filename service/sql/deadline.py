"""How long planning SQL may take.

A script of a few hundred characters can stand for a plan of any size: a view that reads another one
twice, twenty times over, is a million joins. No count of words or brackets foresees that, so what
parses, binds, rewrites and writes nodes calls `check_time`, each at the place that all of its work
goes through. Without a deadline, as in tests and tools, the call does nothing.
"""

from __future__ import annotations

from service.deadline import is_over
from service.sql.errors import SqlTimeout


def check_time() -> None:
    """End planning whose time is over.

    Raises:
        SqlTimeout: It is.
    """
    if is_over():
        raise SqlTimeout(
            "planning takes longer than limits.planning_timeout_ms",
            hint="split the script, or name views less often",
        )
