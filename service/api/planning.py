"""The planning that one request may do: off the event loop, within a share of threads and of time.

Planning SQL, and reading, checking, explaining or comparing compiled plans, is plain computing, in
a thread. So that what takes long does not take the threads in which Redis is asked, it has its own,
of which there are `limits.plannings_max`; a request that gets none in time is told to come again.
All planning of a request together may take `limits.planning_timeout_ms`, then it ends by itself
(`service.deadline`); all its waiting together may take as long.
"""

from __future__ import annotations

import math
import time
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from service.api.errors import PlannerBusy
from service.deadline import time_limit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from service.settings import LimitSettings

P = ParamSpec("P")
T = TypeVar("T")

_SLOTS: RunVar[anyio.CapacityLimiter] = RunVar("planning at a time")
_THREADS: RunVar[anyio.CapacityLimiter] = RunVar("threads of planning")
"""As many as have a slot."""


class Planning:
    """What is left of a request's time for planning.

    Args:
        limits: Those in force.
    """

    def __init__(self, limits: LimitSettings) -> None:
        self.limits = limits
        self._left_s = limits.planning_timeout_ms / 1_000
        self._patience_s = self._left_s

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something that plans; the time that it takes is gone for the next.

        Raises:
            PlannerBusy: Too much is planned already, for as long as the request may wait.
            SqlTimeout, PlanTimeout: The request's time is over.
        """
        async with self._slot():
            timed = partial(self._timed, partial(call, *args, **kwargs))
            threads = _of_loop(_THREADS, math.inf)
            return await anyio.to_thread.run_sync(timed, limiter=threads)

    def _timed(self, call: Callable[[], T]) -> T:
        begun = time.monotonic()
        try:
            with time_limit(self._left_s):
                return call()
        finally:
            self._left_s -= time.monotonic() - begun

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        slots = _of_loop(_SLOTS, self.limits.plannings_max)
        holder = object()
        try:
            slots.acquire_on_behalf_of_nowait(holder)
        except anyio.WouldBlock:
            await self._wait(slots, holder)
        try:
            yield
        finally:
            slots.release_on_behalf_of(holder)

    async def _wait(self, slots: anyio.CapacityLimiter, holder: object) -> None:
        """Wait for a slot; a script of many statements waits no longer than one of one."""
        begun = time.monotonic()
        with anyio.move_on_after(max(self._patience_s, 0)) as waiting:
            await slots.acquire_on_behalf_of(holder)
        self._patience_s -= time.monotonic() - begun
        if waiting.cancelled_caught:
            raise PlannerBusy("too many scripts and plans are being worked on")


def _of_loop(variable: RunVar[anyio.CapacityLimiter], tokens: float) -> anyio.CapacityLimiter:
    """The one limiter of this event loop."""
    found = variable.get(None)
    if found is None:
        found = anyio.CapacityLimiter(tokens)
        variable.set(found)
    return found
