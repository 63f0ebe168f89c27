"""How long planning may take: loops that a short script can make long ask whether time is up.

A script of a few hundred characters can stand for a plan of any size: a view that reads another one
twice, twenty times over, is a million joins. No count of words or brackets foresees that, so what
parses, binds, rewrites and writes nodes calls `check_time`, each at the place that all of its work
goes through. Without a deadline, as in tests and tools, the call does nothing.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from service.sql.errors import SqlTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDS_AT: ContextVar[float] = ContextVar("planning ends at", default=math.inf)
"""On the monotonic clock, in seconds; of this thread or task only."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let `check_time` raise once this time has passed; an earlier limit around it stays."""
    ends_at = min(time.monotonic() + seconds, _ENDS_AT.get())
    token = _ENDS_AT.set(ends_at)
    try:
        yield
    finally:
        _ENDS_AT.reset(token)


def check_time() -> None:
    """End planning whose time is over.

    Raises:
        SqlTimeout: It is.
    """
    if time.monotonic() > _ENDS_AT.get():
        raise SqlTimeout(
            "planning takes longer than it may", hint="split the script, or name views less often"
        )
