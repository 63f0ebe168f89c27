"""How long planning may take: loops that a short request can make long ask whether time is up.

Both readers of what a user sends ask: the planner of SQL (`service.sql.deadline`) and the reader of
compiled plans (`service.plan.deadline`). Each raises an error of its own.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_ENDS_AT: ContextVar[float] = ContextVar("planning ends at", default=math.inf)
"""On the monotonic clock, in seconds; of this thread or task only."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Let `is_over` be true once this time has passed; an earlier limit around it stays."""
    ends_at = min(time.monotonic() + seconds, _ENDS_AT.get())
    token = _ENDS_AT.set(ends_at)
    try:
        yield
    finally:
        _ENDS_AT.reset(token)


def is_over() -> bool:
    """Whether the time of planning has passed; never without a limit, as in tests and tools."""
    return time.monotonic() > _ENDS_AT.get()
