"""Which of the services on one Redis supervises, and what the others know of it.

Every service answers every request: what is asked of a pipeline goes into the registry, and the
one that has the lease carries it out (`lease`). Each asks for the lease at every beat. Who gets it
takes all pipelines up, as a restarted service does; who loses it, or cannot say for sure that it
still lasts, ends its supervisor at once. The others show what the holder tells them, a beat old.

What an ended supervisor had under way in threads may take minutes, as a savepoint does. It is not
waited for: it goes on as that of another service would, and notes nothing (`lease`: tenures).

The end of a lease is Redis's expiry. Here only spans are measured, from before each beat was sent,
so that we give up before another service can begin.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
import orjson
import structlog

from service.runtime.errors import RegistryCorrupt, RegistryUnavailable
from service.runtime.lease import service_of
from service.runtime.status import PipelineStatus, status_of
from service.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.runtime.keeper_ports import KeeperPorts
    from service.runtime.lease import Beat, Lease

_BEATS_PER_LIFE = 4

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The lease as one service sees it."""

    service: str
    """Names this service, for as long as its process lives."""
    holder: str | None
    """Names the service that supervises; None: nobody, or Redis does not say."""
    is_held: bool
    """Whether it is this service that supervises."""


class Supervision:
    """A supervisor while this service has the lease; for one event loop."""

    def __init__(self, ports_of: Callable[[str], KeeperPorts], lease: Lease) -> None:
        """Nothing is asked of anyone yet.

        Args:
            ports_of: What keepers work with under a token of the lease.
            lease: Ours alone.
        """
        self._ports_of = ports_of
        self._ports = ports_of(lease.token)
        self._lease = lease
        self._beat_ms = min(self._ports.look_interval_ms, lease.life_ms // _BEATS_PER_LIFE)
        # A call that nobody waits for any more must not keep the next one from its thread.
        self._limiter = anyio.CapacityLimiter(_BEATS_PER_LIFE)
        self._supervisor: Supervisor | None = None
        self._holder: str | None = None
        self._ends_ms = 0
        """When our lease may end, by the clock that never jumps."""
        self._telling = 0
        """The number of our telling; 0 while we do not supervise."""
        self._is_answered = True
        """Whether the reply of the beat before was heard."""
        self._told: dict[str, bytes] = {}
        """What others know of our pipelines by this telling."""
        self._followed: Mapping[str, PipelineStatus] = {}
        """What the holder says of its pipelines."""
        self._closing = asyncio.Event()
        self._beats: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask for the lease; returns before pipelines run, whether or not we have it."""
        await self._beat_safely()
        # A context of its own: it outlives the request whose log fields it would inherit.
        context = contextvars.Context()
        self._beats = asyncio.create_task(
            self._beat_for_ever(), name="tailrace lease", context=context
        )

    async def close(self) -> None:
        """Let the next service supervise; queries go on at the Spark Connect server."""
        self._closing.set()
        if self._beats is not None:
            await self._beats
        with contextlib.suppress(RegistryUnavailable):  # without Redis it ends by itself
            await anyio.to_thread.run_sync(self._lease.release, limiter=self._limiter)

    @property
    def lease(self) -> LeaseView:
        """Who supervises."""
        holder = None if self._holder is None else service_of(self._holder)
        return LeaseView(self._lease.service, holder, self._supervisor is not None)

    def wake(self, name: str) -> None:
        """Have a pipeline looked at now; where another service supervises, it does so by itself."""
        if self._supervisor is not None:
            self._supervisor.wake(name)

    def status(self, name: str) -> PipelineStatus:
        """What a pipeline does now; CREATED for one that nobody has looked at yet."""
        if self._supervisor is not None:
            return self._supervisor.status(name)
        return self._followed.get(name, PipelineStatus())

    async def _beat_for_ever(self) -> None:
        try:
            while not self._closing.is_set():
                await self._ports.clock.wait(self._closing, self._beat_ms)
                if not self._closing.is_set():
                    await self._beat_safely()
        finally:
            await self._step_down("the service stops")

    async def _beat_safely(self) -> None:
        try:
            await self._beat()
        except Exception:  # what it does not know of its lease, a supervisor must not go on with
            log.exception("beat failed")
            await self._step_down("a beat failed")

    async def _beat(self) -> None:
        sent_ms = self._ports.clock.elapsed_ms()
        news = self._news()
        beat = await self._asked(news)
        if beat is None:
            self._tell_anew()
            self._is_answered = False
            if self._ports.clock.elapsed_ms() >= self._ends_ms:
                await self._step_down("redis does not answer")
                self._holder, self._followed = None, {}
            return
        if beat.holder != self._lease.token:
            is_over = not beat.holder
            await self._step_down("it had ended" if is_over else "another service has it")
            self._holder = beat.holder or None
            self._followed = {name: status_of(told) for name, told in beat.statuses.items()}
            if is_over:
                await self._beat()
            return
        self._ends_ms = sent_ms + beat.remaining_ms
        if self._supervisor is None:
            # Not if asking took so long that it may be another's by now.
            if self._ports.clock.elapsed_ms() < self._ends_ms:
                await self._take_up()
            return
        self._told = {name: told for name, told in (self._told | news).items() if told}
        if not beat.are_kept:
            self._tell_anew()
        for name in beat.orders:
            self._supervisor.wake(name)
        if not self._is_answered:
            self._is_answered = True
            self._supervisor.wake_all()

    def _tell_anew(self) -> None:
        """What others have been told is not known."""
        if self._supervisor is not None:
            self._telling += 1
            self._told = {}

    async def _asked(self, news: Mapping[str, bytes]) -> Beat | None:
        """What Redis says of the lease; None if nothing, in the time that ours may last."""
        left_ms = self._lease.life_ms
        if self._supervisor is not None:
            left_ms = max(0, self._ends_ms - self._ports.clock.elapsed_ms())
        call = partial(self._lease.beat, news, self._telling)
        try:
            with anyio.fail_after(left_ms / 1_000):
                return await anyio.to_thread.run_sync(
                    call, limiter=self._limiter, abandon_on_cancel=True
                )
        except (RegistryUnavailable, RegistryCorrupt, TimeoutError):
            return None

    async def _take_up(self) -> None:
        """Supervise from now on."""
        log.info("lease taken")
        self._holder, self._followed, self._told = self._lease.token, {}, {}
        self._telling, self._is_answered = 1, True
        self._supervisor = Supervisor(self._ports)
        await self._supervisor.start()

    async def _step_down(self, reason: str) -> None:
        """Supervise no more; what is under way in threads goes on by itself, and notes nothing."""
        if self._supervisor is None:
            return
        tell = log.info if self._closing.is_set() else log.warning
        tell("lease given up", reason=reason)
        supervisor, self._supervisor = self._supervisor, None
        self._holder, self._telling = None, 0
        if not self._closing.is_set():
            self._lease.begin_tenure()
            self._ports = self._ports_of(self._lease.token)
        await supervisor.close()

    def _news(self) -> dict[str, bytes]:
        """What changed of our pipelines since others were told; b"" of one that is gone."""
        if self._supervisor is None:
            return {}
        now = {name: orjson.dumps(each) for name, each in self._supervisor.statuses().items()}
        news = {name: told for name, told in now.items() if self._told.get(name) != told}
        return news | dict.fromkeys(self._told.keys() - now.keys(), b"")
