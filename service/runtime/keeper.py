"""One pipeline's state machine: brings its query to what the registry says is wanted.

A `PipelineKeeper` is one asyncio task. Each step reads what is wanted, compares it with what is and
does one thing; then it waits for an order, or for the time of the next step. It never trusts an
order's content, only the registry: orders may come twice, late, or be lost with the process.
Changed options do not end a query; they count from its next start on.

| wanted           | is                       | step                     | then                |
|------------------|--------------------------|--------------------------|---------------------|
| RUNNING          | a noted query is alive   | adopt it                 | RUNNING             |
| RUNNING          | no query                 | open a run, start it     | STARTING, RUNNING   |
| RUNNING          | no query, back-off       | wait                     | RESTARTING          |
| RUNNING          | query active             | look at it and its epoch | RUNNING             |
| RUNNING, restart | query active             | stop it                  | STOPPING, STARTING  |
| RUNNING          | query failed or gone     | count it, back off       | RESTARTING          |
| RUNNING          | the same, at the limit   | note the failure         | FAILED              |
| RUNNING          | failed beyond repair     | note the failure         | FAILED              |
| RUNNING          | given up                 | wait for an order, try   | FAILED              |
| STOPPED          | query                    | stop it, see its end     | STOPPING, STOPPED   |
| STOPPED          | no query                 | wait for an order        | STOPPED             |
| deleted          | anything                 | stop; drop all it has    | STOPPING, task ends |
| any              | Spark or Redis is away   | back off, uncounted      | RESTARTING          |

Never two queries of one pipeline at once: a start comes only after the end of the query before was
seen. Where it cannot be seen (its session or server is gone), the new query takes over: Spark ends
a query whose checkpoint another one starts on, and the raised run counter fences what is left.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import anyio.to_thread
import structlog

from service.runtime.errors import (
    LifecycleError,
    PipelineNotFound,
    QueryFailed,
    RegistryUnavailable,
    SparkUnavailable,
    StartFailed,
)
from service.runtime.gateway import QueryState
from service.runtime.launcher import package_version
from service.runtime.records import Desired, Failure, PipelineRecord, QueryHandle, RunOptions
from service.runtime.status import (
    PERMANENT_CODES,
    PipelineState,
    PipelineStatus,
    RestartLimits,
    StatusError,
)
from state.errors import StateError, StateUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.runtime.gateway import QueryLook, StartedQuery
    from service.runtime.registry import Registry
    from state.descriptors import StateDescriptor

log = structlog.get_logger(__name__)

_AWAY = (SparkUnavailable, RegistryUnavailable, StateUnavailable)
"""A neighbour does not answer: nothing is known to be wrong with the pipeline."""


class Queries(Protocol):
    """What a keeper needs of Spark; `SparkGateway`."""

    async def start(self, starter: Callable[[Any], Any]) -> StartedQuery:
        """Start a query."""

    async def look(self, handle: QueryHandle) -> QueryLook:
        """What became of a query."""

    async def stop(self, handle: QueryHandle, timeout_ms: int) -> None:
        """End a query and wait until it is over."""

    async def stop_named(self, name: str) -> None:
        """End the queries of this name that nobody noted."""


States: TypeAlias = "Mapping[str, Sequence[StateDescriptor]]"
"""The states of each stateful operator, by its id."""


class QueryStarter(Protocol):
    """What turns a record into a query; `dataflow` behind it. Its calls block."""

    def options(self, record: PipelineRecord, run: Run) -> RunOptions:
        """The options that `start` starts the record's query with."""

    def states(self, record: PipelineRecord) -> States:
        """What the stateful operators keep; raises StartFailed where there can be no query."""

    def start(self, spark: Any, record: PipelineRecord, run: Run) -> Any:
        """Start the query, named as the pipeline, on the checkpoint of the record's id.

        Raises StartFailed where no other attempt would succeed.
        """

    def discard(self, record: PipelineRecord) -> None:
        """Remove the checkpoint of a pipeline that is deleted."""


class PipelineLedgers(Protocol):
    """What a keeper needs of keyed state, for pipelines by name. Its calls block."""

    def open_run(self, name: str, states: States, max_parallelism: int) -> Run:
        """Begin a run: fence the one before, settle its last epoch, register its states."""

    def epoch(self, name: str) -> int:
        """The last closed epoch; 0 before the first."""

    def drop(self, name: str) -> None:
        """Remove all state but the run counter."""


class Clock(Protocol):
    """Time as keepers see it, so that tests can move it."""

    def now_ms(self) -> int:
        """The time of day, ms since 1970."""

    def elapsed_ms(self) -> int:
        """A time that never jumps."""

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> None:
        """Return when the event is set, or after the time."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a pipeline's query."""

    number: int
    incarnation: str | None
    """Which process Redis is, read before the run was opened: tasks refuse another one."""
    states: States = field(default_factory=dict)
    """By operator: what it keeps, with what is known of its past."""
    ttl_extension_ms: int = 0
    """By how much all lives were extended, in processing time."""


@dataclass(frozen=True, slots=True)
class KeeperPorts:
    """What every keeper works with."""

    registry: Registry
    queries: Queries
    starter: QueryStarter
    ledgers: PipelineLedgers
    clock: Clock
    limits: RestartLimits
    look_interval_ms: int
    stop_timeout_ms: int
    max_parallelism: int
    """For records that were created without one."""
    chance: Callable[[], float] = random.random


class PipelineKeeper:
    """The task of one pipeline; see the table of the module."""

    def __init__(self, name: str, ports: KeeperPorts) -> None:
        self.name = name
        self.status = PipelineStatus(since_ms=ports.clock.now_ms())
        self._ports = ports
        self._orders = asyncio.Event()
        self._restart_ordered = False
        self._retry_ordered = False
        self._query: QueryHandle | None = None
        self._settled_past = False
        """Whether what may run without being noted was looked for: left by an earlier service, or
        by a start that was not answered."""
        self._not_before_ms = 0
        self._healthy_since_ms = 0
        self._away_count = 0
        self._log = log.bind(pipeline=name)

    def order(self, *, restart: bool = False) -> None:
        """Look at the registry now; a failed pipeline is tried again."""
        self._restart_ordered |= restart
        self._retry_ordered = True
        self._orders.set()

    async def run(self) -> None:
        """Keep the pipeline until it is deleted or the task cancelled."""
        while True:
            self._orders.clear()
            try:
                pause_ms = await self._step()
                self._away_count = 0
            except _AWAY as error:
                pause_ms = self._neighbour_away(error)
            except (LifecycleError, StateError) as error:
                permanent = isinstance(error, StartFailed) or error.code in PERMANENT_CODES
                pause_ms = await self._failed(error.code, error.message, permanent=permanent)
            except Exception:  # one of the two loops that own what they run
                self._log.exception("keeper failed")
                pause_ms = await self._failed("internal", "an unexpected error; see the log")
            if pause_ms == _FINISHED and not self._orders.is_set():
                return
            await self._ports.clock.wait(self._orders, None if pause_ms < 0 else pause_ms)

    async def _step(self) -> int:
        """One row of the table; returns the ms until the next step, or one of the constants."""
        try:
            record = await self._blocking(self._ports.registry.get, self.name)
        except PipelineNotFound:
            return await self._delete()
        if not self._settled_past:
            await self._settle_past(record)
        if record.desired is Desired.STOPPED:
            return await self._rest(record)
        if self._retry_ordered:
            await self._forgive()
        if self.status.state is PipelineState.FAILED:
            return _UNTIL_ORDER
        if self._query is None:
            return await self._start(record)
        if self._restart_ordered:
            await self._stop()
            return _AT_ONCE
        return await self._watch(self._query)

    async def _settle_past(self, record: PipelineRecord) -> None:
        """Find out what was left: a query, or a failure for good."""
        epoch = await self._blocking(self._ports.ledgers.epoch, self.name)
        self.status = replace(self.status, epoch=epoch)
        if record.failure is not None and record.failure.permanent:
            error = StatusError(record.failure.code, record.failure.message)
            self._become(PipelineState.FAILED, error=error)
        noted = record.query
        if noted is None:
            await self._ports.queries.stop_named(self.name)
        elif noted.version == package_version():
            # From here on like a query that we started: watched, stopped or replaced.
            self._query = noted
            self._become(PipelineState.STARTING, run=noted.run, query_id=noted.query_id)
        else:
            # Its workers may have imported the old code.
            await self._ports.queries.stop(noted, self._ports.stop_timeout_ms)
            await self._note_query(None)
        self._settled_past = True

    async def _start(self, record: PipelineRecord) -> int:
        remaining = self._not_before_ms - self._ports.clock.elapsed_ms()
        if remaining > 0:
            return remaining
        self._restart_ordered = False
        self._become(PipelineState.STARTING, error=self.status.error)
        states = await self._blocking(self._ports.starter.states, record)
        key_groups = record.options.max_parallelism or self._ports.max_parallelism
        run = await self._blocking(self._ports.ledgers.open_run, self.name, states, key_groups)
        # A start may reach Spark and its reply not us: then a query runs that nobody noted, and
        # Spark takes no second one of its name.
        self._settled_past = False
        started = await self._ports.queries.start(
            lambda spark: self._ports.starter.start(spark, record, run)
        )
        self._query = QueryHandle(
            session_id=started.session_id,
            query_id=started.query_id,
            run_id=started.run_id,
            run=run.number,
            version=package_version(),
        )
        self._settled_past = True
        self._log.info("query started", run=run.number, query_id=started.query_id)
        self._healthy_since_ms = self._ports.clock.elapsed_ms()
        await self._note_query(self._query, self._ports.starter.options(record, run))
        self._become(PipelineState.RUNNING, run=run.number, query_id=started.query_id)
        return self._ports.look_interval_ms

    async def _watch(self, query: QueryHandle) -> int:
        look = await self._ports.queries.look(query)
        if look.state is QueryState.ACTIVE:
            epoch = await self._blocking(self._ports.ledgers.epoch, self.name)
            self._alive(query, epoch)
            return self._ports.look_interval_ms
        self._query = None
        await self._note_query(None)
        if self.status.state is PipelineState.STARTING and look.state is QueryState.GONE:
            # Noted by a service before us, and over with its server: no failure of the pipeline.
            return _AT_ONCE
        if look.error is not None:
            self._log.warning("query failed", code=look.error.code, places=look.error.places)
            raise QueryFailed(look.error.message, code=look.error.code)
        if look.state is QueryState.GONE:
            raise QueryFailed("the query ended with its Spark session or server", code="query.gone")
        raise QueryFailed("the query was stopped by someone else", code="query.ended")

    def _alive(self, query: QueryHandle, epoch: int) -> None:
        now = self._ports.clock.elapsed_ms()
        if self.status.state is not PipelineState.RUNNING:
            self._healthy_since_ms = now
            self._become(PipelineState.RUNNING, run=query.run, query_id=query.query_id)
        if self.status.restarts and now - self._healthy_since_ms >= self._ports.limits.reset_ms:
            self.status = replace(self.status, restarts=0)
        self.status = replace(self.status, epoch=epoch, error=None)

    async def _rest(self, record: PipelineRecord) -> int:
        if self._query is not None:
            await self._stop()
        if record.failure is not None:
            await self._blocking(self._ports.registry.note_failure, self.name, None)
        self._restart_ordered = self._retry_ordered = False
        self._not_before_ms = 0
        if self.status.state is not PipelineState.STOPPED:
            self.status = replace(self.status, restarts=0)
            self._become(PipelineState.STOPPED)
        return _UNTIL_ORDER

    async def _stop(self) -> None:
        if self._query is None:
            return
        if self.status.state is not PipelineState.STOPPING:
            self._become(PipelineState.STOPPING)
        await self._ports.queries.stop(self._query, self._ports.stop_timeout_ms)
        self._log.info("query stopped", run=self._query.run)
        self._query = None
        await self._note_query(None)

    async def _delete(self) -> int:
        """End and remove what a deleted pipeline has; a crash in between begins again."""
        record = await self._blocking(self._ports.registry.deleted, self.name)
        if record is not None:
            self._become(PipelineState.STOPPING)
            self._query = self._query or record.query
            await self._stop()
            await self._ports.queries.stop_named(self.name)
            await self._blocking(self._ports.starter.discard, record)
        # State last: were it dropped while a query still wrote, something would be left of it.
        if await self._blocking(self._ports.registry.is_deleting, self.name):
            await self._blocking(self._ports.ledgers.drop, self.name)
            await self._blocking(self._ports.registry.bury, self.name)
            self._log.info("pipeline deleted")
        return _FINISHED

    async def _forgive(self) -> None:
        """An order of the user: what failed is tried again at once, with a full count."""
        self._retry_ordered = False
        self._not_before_ms = 0
        if self.status.state is PipelineState.FAILED:
            await self._blocking(self._ports.registry.note_failure, self.name, None)
            self.status = replace(self.status, restarts=0)
            self._become(PipelineState.STARTING)

    async def _failed(self, code: str, message: str, *, permanent: bool = False) -> int:
        """Count a failure; decide between another attempt and giving up."""
        error = StatusError(code, message)
        if self.status.state is PipelineState.STOPPING:
            # A query that does not end: the stop is tried again, nothing is started beside it.
            self.status = replace(self.status, error=error)
            return self._ports.limits.backoff_max_ms
        limits = self._ports.limits
        if permanent or self.status.restarts >= limits.restarts_max:
            self._become(PipelineState.FAILED, error=error)
            self._log.error("pipeline failed", code=code, reason=message)
            now = self._ports.clock.now_ms()
            return await self._note_failure(Failure(code, message, now, permanent))
        attempt = self.status.restarts + 1
        delay = limits.delay_ms(attempt, self._ports.chance())
        self._not_before_ms = self._ports.clock.elapsed_ms() + delay
        self.status = replace(self.status, restarts=attempt)
        self._become(PipelineState.RESTARTING, error=error)
        self._log.warning("pipeline restarts", code=code, attempt=attempt, delay_ms=delay)
        return delay

    async def _note_failure(self, failure: Failure) -> int:
        """Keep a failure where a restarted service finds it; without Redis it only stays here."""
        try:
            await self._blocking(self._ports.registry.note_failure, self.name, failure)
        except RegistryUnavailable:
            self._log.warning("failure not noted", code=failure.code)
        return _UNTIL_ORDER

    def _neighbour_away(self, error: LifecycleError | StateError) -> int:
        self._away_count += 1
        shown = StatusError(error.code, error.message)
        waiting = (PipelineState.STOPPING, PipelineState.RESTARTING, PipelineState.FAILED)
        if self.status.state in (*waiting, PipelineState.STOPPED):
            self.status = replace(self.status, error=shown)
        else:
            self._become(PipelineState.RESTARTING, error=shown)
            self._log.warning("neighbour away", code=error.code)
        return self._ports.limits.delay_ms(self._away_count, self._ports.chance())

    def _become(
        self,
        state: PipelineState,
        *,
        run: int | None = None,
        query_id: str | None = None,
        error: StatusError | None = None,
    ) -> None:
        kept = self.status
        self.status = PipelineStatus(
            state=state,
            run=run if run is not None else kept.run,
            query_id=query_id or kept.query_id,
            epoch=kept.epoch,
            since_ms=self._ports.clock.now_ms(),
            restarts=kept.restarts,
            error=error,
        )

    async def _note_query(
        self, query: QueryHandle | None, options: RunOptions | None = None
    ) -> None:
        await self._blocking(self._ports.registry.note_query, self.name, query, options)

    @staticmethod
    async def _blocking(call: Callable[..., Any], *arguments: Any) -> Any:
        return await anyio.to_thread.run_sync(call, *arguments)


_AT_ONCE = 0
_UNTIL_ORDER = -1
_FINISHED = -2
