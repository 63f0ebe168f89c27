"""One pipeline's state machine: brings its query to what the registry says is wanted.

A `PipelineKeeper` is one asyncio task. Each step reads what is wanted, compares it with what is and
does one thing; then it waits for an order, or for the time of the next step. It never trusts an
order's content, only the registry: orders may come twice, or late.
Changed options do not end a query; they count from its next start on. A savepoint is taken between
two runs, and one that a deleted pipeline is to leave behind before anything of it goes.

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
| either, restore  | nothing yet              | restore its savepoint    | as wanted           |
| either, savepoint| anything                 | stop; take the savepoint | as wanted           |
| replaced         | anything                 | stop, save, check; drop  | restored, as wanted |
| replaced, failed | no epoch closed since    | stop; drop               | restored as before  |
| deleted          | anything                 | stop; drop all it has    | STOPPING, task ends |
| any              | Spark or Redis is away   | back off, uncounted      | RESTARTING, waiting |
| RUNNING          | a sink's server is away  | back off, uncounted      | RESTARTING, waiting |

Whatever ended a query, or kept it from starting, is noted in the record with its time, and shown
beside the state until epochs have closed for a while: a query that starts and fails again and again
is RUNNING in between.

One that is CREATED, STOPPING, STOPPED or FAILED stays so while a neighbour is away, and waits.
Never two queries of one pipeline at once: a start comes only after the end of the query before was
seen. Where it cannot be seen (its session or server is gone), the new query takes over: Spark ends
a query whose checkpoint another one starts on, and the raised run counter fences what is left.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.to_thread
import structlog

from service.runtime.dataflow_errors import SinkUnavailable
from service.runtime.errors import (
    LifecycleError,
    PipelineNotFound,
    QueryFailed,
    RegistryUnavailable,
    SavepointFailed,
    SparkUnavailable,
    StartFailed,
    with_hint,
)
from service.runtime.gateway import QueryState
from service.runtime.launcher import package_version
from service.runtime.records import (
    Desired,
    Failure,
    PipelineRecord,
    QueryHandle,
    Replaced,
    RunOptions,
)
from service.runtime.status import (
    PERMANENT_CODES,
    Absence,
    Neighbour,
    PipelineState,
    PipelineStatus,
    StatusError,
    Waiting,
)
from state.errors import StateError, StateLost, StateUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyspark.sql.connect.session import SparkSession

    from service.runtime.keeper_ports import KeeperPorts
    from service.runtime.records import Replacement, SavepointOrder

T = TypeVar("T")

log = structlog.get_logger(__name__)

_AWAY = (SparkUnavailable, RegistryUnavailable, StateUnavailable)
"""A neighbour does not answer: nothing is known to be wrong with the pipeline."""


class PipelineKeeper:
    """The task of one pipeline; see the table of the module."""

    def __init__(self, name: str, ports: KeeperPorts) -> None:
        self.name = name
        self.status = PipelineStatus(since_ms=ports.clock.now_ms())
        self._ports = ports
        self._orders = asyncio.Event()
        self._query: QueryHandle | None = None
        self._unnoted: RunOptions | None = None  # of a run that was started
        self._settled_past = False
        """Whether what may run unnoted was looked for, of an earlier service or a lost reply."""
        self._not_before_ms = 0
        self._healthy_since_ms = 0
        self._away_count = 0
        self._sink_absence = Absence()
        self._log = log.bind(pipeline=name)

    def wake(self) -> None:
        """Look at the registry now."""
        self._orders.set()

    async def run(self) -> None:
        """Keep the pipeline until it is deleted or the task cancelled."""
        while True:
            self._orders.clear()
            try:
                pause_ms = await self._step()
                self._neighbours_answer()
            except _AWAY as error:
                pause_ms = self._neighbour_away(error)
            except (LifecycleError, StateError) as error:
                permanent = isinstance(error, StartFailed) or error.code in PERMANENT_CODES
                told = with_hint(error.message, error.hint)
                cause = getattr(error, "cause", None)
                pause_ms = await self._failed(error.code, told, cause, permanent=permanent)
            except Exception as error:  # one of the two loops that own what they run
                self._log.exception("keeper failed")
                cause = type(error).__name__
                pause_ms = await self._failed("internal", "an unexpected error; see the log", cause)
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
        if record.replacement is not None and record.replacement.phase != "tried":
            return await self._replace(record, record.replacement)
        if record.restore is not None and not record.restore.done:
            return await self._restore(record)
        if record.savepoint is not None:
            return await self._take_savepoint(record, record.savepoint)
        if record.desired is Desired.STOPPED:
            return await self._rest(record)
        if record.start_ms is not None or record.restart_ms is not None:
            await self._forgive(record)
        if self.status.state is PipelineState.FAILED:
            return _UNTIL_ORDER
        if self._query is None:
            return await self._start(record)
        if record.restart_ms is not None:
            await self._stop()
            return _AT_ONCE
        if self._unnoted is not None:
            await self._note_query()
        pause_ms = await self._watch(self._query, record.failure)
        replacement = record.replacement
        if replacement is not None and self.status.epoch > replacement.epoch:
            await self._note_replaced(Replaced(replacement.savepoint.id, "REPLACED"))
        return pause_ms

    async def _settle_past(self, record: PipelineRecord) -> None:
        """Find out what was left: a query, or a failure for good."""
        if record.failure is not None:
            self.status = replace(self.status, failures=record.failure.restarts)
        if record.failure is not None and record.failure.permanent:
            error = StatusError(record.failure.code, record.failure.message)
            self._become(PipelineState.FAILED, error=error)
        elif record.desired is Desired.RUNNING and self.status.state is PipelineState.CREATED:
            self._become(PipelineState.STARTING)
        epoch = await self._blocking(self._ports.ledgers.epoch, self.name)
        self.status = replace(self.status, epoch=epoch)
        noted = record.query
        if noted is None:
            await self._of_spark(self._ports.queries.stop_named(self.name))
        elif noted.version == package_version():
            # From here on like a query that we started: watched, stopped or replaced.
            self._query = noted
            self._become(PipelineState.STARTING, run=noted.run, query_id=noted.query_id)
        else:
            # Its workers may have imported the old code.
            await self._of_spark(self._ports.queries.stop(noted, self._ports.stop_timeout_ms))
            await self._note_query()
        self._settled_past = True

    async def _start(self, record: PipelineRecord) -> int:
        remaining = self._not_before_ms - self._ports.clock.elapsed_ms()
        if remaining > 0:
            return remaining
        self._become(PipelineState.STARTING, error=self.status.error)
        states = await self._blocking(self._ports.starter.states, record)
        key_groups = record.options.max_parallelism or self._ports.max_parallelism
        run = await self._blocking(self._ports.ledgers.open_run, self.name, states, key_groups)
        # A start may reach Spark and its reply not us: then a query runs that nobody noted, and
        # Spark takes no second one of its name.
        self._settled_past = False

        def begin(spark: SparkSession) -> Any:
            # Spark would end another service's query for one whose tasks can do nothing.
            self._ports.ledgers.require_run(self.name, run.number)
            return self._ports.starter.start(spark, record, run)

        started = await self._of_spark(self._ports.queries.start(begin))
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
        self._unnoted = self._ports.starter.options(record, run)
        await self._note_query()
        self._become(PipelineState.RUNNING, run=run.number, query_id=started.query_id)
        return self._ports.look_interval_ms

    async def _watch(self, query: QueryHandle, last: Failure | None) -> int:
        look = await self._of_spark(self._ports.queries.look(query))
        if look.state is QueryState.ACTIVE:
            epoch = await self._blocking(self._ports.ledgers.epoch, self.name)
            self._alive(query, epoch)
            if last is not None and self._is_well_since(last):
                await self._forget_failure()
            return self._ports.look_interval_ms
        self._query = None
        await self._note_query()
        if self.status.state is PipelineState.STARTING and look.state is QueryState.GONE:
            # Noted by a service before us, and over with its server: no failure of the pipeline.
            return _AT_ONCE
        if look.error is not None:
            self._log.warning("query failed", code=look.error.code, places=look.error.places)
            told = look.error
            raise QueryFailed(told.message, code=told.code, cause=told.cause)
        if look.state is QueryState.GONE:
            raise QueryFailed("the query ended with its Spark session or server", code="query.gone")
        raise QueryFailed("the query was stopped from outside of Tailrace", code="query.ended")

    def _alive(self, query: QueryHandle, epoch: int) -> None:
        now = self._ports.clock.elapsed_ms()
        if self.status.state is not PipelineState.RUNNING:
            self._healthy_since_ms = now
            self._become(PipelineState.RUNNING, run=query.run, query_id=query.query_id)
        if self.status.restarts and now - self._healthy_since_ms >= self._ports.limits.reset_ms:
            self.status = replace(self.status, restarts=0)
        if epoch > self.status.epoch:
            self._sink_absence = Absence()
        self.status = replace(self.status, epoch=epoch, error=None)

    def _is_well_since(self, last: Failure) -> bool:
        """Whether the query has run for long, and got further, since it failed last."""
        ran_ms = self._ports.clock.elapsed_ms() - self._healthy_since_ms
        return self.status.epoch > last.epoch and ran_ms >= self._ports.limits.reset_ms

    async def _forget_failure(self) -> None:
        await self._blocking(self._ports.registry.note_failure, self.name, None)
        self.status = replace(self.status, failures=0)

    async def _rest(self, record: PipelineRecord) -> int:
        if self._query is not None:
            await self._stop()
        if record.failure is not None and record.failure.permanent:
            # It is told until the next start, which nothing is in the way of any more.
            told = replace(record.failure, permanent=False)
            await self._blocking(self._ports.registry.note_failure, self.name, told)
        if record.replacement is not None:
            # Restored, and not to be tried.
            await self._note_replaced(Replaced(record.replacement.savepoint.id, "REPLACED"))
        # Given before the stop; an earlier version could not read the record.
        if record.start_ms is not None:
            await self._blocking(self._ports.registry.note_started, self.name, record.start_ms)
        self._not_before_ms = 0
        self._sink_absence = Absence()
        if self.status.state is not PipelineState.STOPPED:
            self.status = replace(self.status, restarts=0)
            self._become(PipelineState.STOPPED)
        return _UNTIL_ORDER

    async def _stop(self) -> None:
        if self._query is None:
            return
        if self.status.state is not PipelineState.STOPPING:
            self._become(PipelineState.STOPPING)
        await self._of_spark(self._ports.queries.stop(self._query, self._ports.stop_timeout_ms))
        self._log.info("query stopped", run=self._query.run)
        self._query = None
        await self._note_query()

    async def _restore(self, record: PipelineRecord) -> int:
        """Give the pipeline what its savepoint has; until then it is not started."""
        if record.start_ms is not None or record.restart_ms is not None:
            await self._forgive(record)
        if self.status.state is PipelineState.FAILED:
            return _UNTIL_ORDER
        await self._blocking(self._ports.savepoints.restore, record)
        await self._blocking(self._ports.registry.note_restored, self.name)
        self._log.info("pipeline restored")
        self._settled_past = False
        return _AT_ONCE

    async def _take_savepoint(self, record: PipelineRecord, order: SavepointOrder) -> int:
        """Between two runs; a savepoint that cannot be taken is no failure of the pipeline."""
        await self._stop()
        try:
            await self._blocking(self._ports.savepoints.save, record, order)
            self._log.info("savepoint taken", savepoint=order.id)
        except SavepointFailed as error:
            self._log.warning("savepoint failed", savepoint=order.id, code=error.code)
        await self._blocking(self._ports.registry.note_savepoint, self.name, order)
        return _AT_ONCE

    async def _replace(self, record: PipelineRecord, replacement: Replacement) -> int:
        """Take another statement's savepoint, or make room for what is restored from it."""
        await self._stop()
        ports = self._ports
        if replacement.phase == "ordered":
            try:
                await self._blocking(ports.savepoints.save, record, replacement.savepoint)
                check = ports.savepoints.check_replacement
                notes = await self._blocking(check, self.name, replacement)
            except _AWAY:
                raise
            except (LifecycleError, StateError) as error:
                told = (error.code, with_hint(error.message, error.hint))
                self._log.warning("statement not replaced", code=error.code)
                await self._note_replaced(Replaced(replacement.savepoint.id, "REFUSED", told))
                return _AT_ONCE
            epoch = await self._blocking(ports.ledgers.epoch, self.name)
            await self._blocking(ports.registry.note_switching, self.name, epoch, notes)
            return _AT_ONCE
        if replacement.phase == "returning":
            epoch = await self._blocking(ports.ledgers.epoch, self.name)
            if epoch > replacement.epoch:
                # Its last epoch was closed while it was being given up.
                await self._note_replaced(Replaced(replacement.savepoint.id, "REPLACED"))
                return _AT_ONCE
        await self._blocking(ports.ledgers.clear, self.name)
        await self._blocking(ports.starter.discard, record)
        await self._blocking(ports.registry.note_switched, self.name)
        self._log.info("statement replaced", phase=replacement.phase)
        self._not_before_ms = 0
        self._settled_past = False
        is_wanted = record.desired is Desired.RUNNING
        self.status = PipelineStatus(since_ms=ports.clock.now_ms(), run=self.status.run)
        self._become(PipelineState.STARTING if is_wanted else PipelineState.CREATED)
        return _AT_ONCE

    async def _takes_back(self, error: StatusError) -> bool:
        """Whether what has failed is another statement that has closed no epoch: it goes again."""
        try:
            record = await self._blocking(self._ports.registry.get, self.name)
        except PipelineNotFound:
            return False
        replacement = record.replacement
        if replacement is None or replacement.phase != "tried":
            return False
        told = (error.code, error.message)
        self._log.warning("statement taken back", code=error.code)
        await self._blocking(self._ports.registry.note_returning, self.name, told)
        return True

    async def _note_replaced(self, replaced: Replaced) -> None:
        await self._blocking(self._ports.registry.note_replaced, self.name, replaced)

    async def _delete(self) -> int:
        """End and remove what a deleted pipeline has; a crash in between begins again."""
        record = await self._blocking(self._ports.registry.deleted, self.name)
        if record is not None:
            self._become(PipelineState.STOPPING)
            self._query = self._query or record.query
            await self._stop()
            await self._of_spark(self._ports.queries.stop_named(self.name))
            if record.savepoint is not None:
                await self._blocking(self._ports.savepoints.save, record, record.savepoint)
                await self._blocking(self._ports.registry.note_kept, self.name)
            await self._blocking(self._ports.starter.discard, record)
        # State last: were it dropped while a query still wrote, something would be left of it.
        if await self._blocking(self._ports.registry.is_deleting, self.name):
            await self._blocking(self._ports.ledgers.drop, self.name)
            await self._blocking(self._ports.registry.bury, self.name)
            self._log.info("pipeline deleted")
        return _FINISHED

    async def _forgive(self, record: PipelineRecord) -> None:
        """An order of the user: what failed is tried again at once, with a full count."""
        self._not_before_ms = 0
        self._sink_absence.count = 0
        if record.failure is not None:
            await self._forget_failure()
        if self.status.state is PipelineState.FAILED:
            self.status = replace(self.status, restarts=0)
            self._become(PipelineState.STARTING)
        # Last, so that a service that dies before leaves the order to its successor.
        if record.start_ms is not None:
            await self._blocking(self._ports.registry.note_started, self.name, record.start_ms)
        if record.restart_ms is not None and self._query is None:
            await self._blocking(self._ports.registry.note_restarted, self.name, record.restart_ms)

    async def _failed(
        self, code: str, message: str, cause: str | None = None, *, permanent: bool = False
    ) -> int:
        """Count a failure and note it; decide between another attempt and giving up."""
        self.status = replace(self.status, waiting=None)
        if code == StateLost.code:
            message = await self._with_savepoint(message)
        error = StatusError(code, message)
        if self.status.state is PipelineState.STOPPING:
            # A query that does not end: the stop is tried again, nothing is started beside it.
            self.status = replace(self.status, error=error)
            self._log.warning("pipeline not stopped", code=code, reason=message)
            return self._ports.limits.backoff_max_ms
        self.status = replace(self.status, failures=self.status.failures + 1)
        failure = Failure(
            code,
            message,
            self._ports.clock.now_ms(),
            permanent=permanent,
            cause=cause,
            restarts=self.status.failures,
            epoch=self.status.epoch,
        )
        if code == SinkUnavailable.code:
            delay = self._sink_away(error)
            await self._note_failure(failure)
            return delay
        try:
            if await self._takes_back(error):
                # It runs as it did before; what came of the other statement is told.
                await self._note_failure(replace(failure, permanent=False))
                return _AT_ONCE
        except RegistryUnavailable:
            self._log.warning("registry not read", code=code)
        limits = self._ports.limits
        if permanent or self.status.restarts >= limits.restarts_max:
            self._become(PipelineState.FAILED, error=error)
            self._log.error("pipeline failed", code=code, cause=cause, reason=message)
            await self._note_failure(failure)
            return _UNTIL_ORDER
        attempt = self.status.restarts + 1
        delay = limits.delay_ms(attempt, self._ports.chance())
        self._not_before_ms = self._ports.clock.elapsed_ms() + delay
        self.status = replace(self.status, restarts=attempt)
        self._become(PipelineState.RESTARTING, error=error)
        self._log.warning(
            "pipeline restarts", code=code, cause=cause, attempt=attempt, delay_ms=delay
        )
        await self._note_failure(failure)
        return delay

    def _sink_away(self, error: StatusError) -> int:
        """A database or broker does not answer, or a disk is full: tried again until it does.

        The waits grow until an epoch is closed, since one that answers a start may still refuse
        what is written.
        """
        since_ms = self._sink_absence.again(self._ports.clock.now_ms())
        delay = self._ports.limits.delay_ms(self._sink_absence.count, self._ports.chance())
        self._not_before_ms = self._ports.clock.elapsed_ms() + delay
        self._become(PipelineState.RESTARTING, error=error)
        self.status = replace(self.status, waiting=Waiting(Neighbour.SINK, since_ms))
        self._log.warning("sink away", attempt=self._sink_absence.count, delay_ms=delay)
        return delay

    async def _with_savepoint(self, message: str) -> str:
        """A message with the savepoint to go back to."""
        latest = await self._blocking(self._ports.savepoints.latest, self.name)
        return f"{message}; {latest or 'there is no savepoint'}"

    async def _note_failure(self, failure: Failure) -> None:
        """Keep a failure where a restarted service finds it; without Redis it only stays here."""
        try:
            await self._blocking(self._ports.registry.note_failure, self.name, failure)
        except RegistryUnavailable:
            self._log.warning("failure not noted", code=failure.code)

    async def _of_spark(self, answer: Awaitable[T]) -> T:
        """What Spark answers; until it does, a pipeline that does not run says what it waits for.

        Of one that runs nothing is said before there is a failure: it is asked all the time.
        """
        if self.status.state is not PipelineState.RUNNING:
            self._wait_for(Neighbour.SPARK)
        found = await answer
        self.status = replace(self.status, waiting=None)
        return found

    def _wait_for(self, neighbour: Neighbour) -> None:
        if self.status.waiting is None or self.status.waiting.neighbour is not neighbour:
            waiting = Waiting(neighbour, self._ports.clock.now_ms())
            self.status = replace(self.status, waiting=waiting)

    def _neighbours_answer(self) -> None:
        self._away_count = 0
        was_waiting, is_stopped = self.status.waiting, self.status.state is PipelineState.STOPPED
        if (
            self.status.state is PipelineState.RESTARTING
            and was_waiting is not None
            and was_waiting.neighbour is Neighbour.SINK
        ):
            # Spark and Redis have answered; the sink is asked at the next start.
            return
        error = None if was_waiting and is_stopped else self.status.error
        self.status = replace(self.status, waiting=None, error=error)

    def _neighbour_away(self, error: LifecycleError | StateError) -> int:
        self._away_count += 1
        shown = StatusError(error.code, with_hint(error.message, error.hint))
        if self.status.state in (PipelineState.STARTING, PipelineState.RUNNING):
            self._become(PipelineState.RESTARTING)
            self._log.warning("neighbour away", code=error.code)
        if self.status.state is not PipelineState.FAILED:
            # Of one that was given up the reason stays.
            self.status = replace(self.status, error=shown)
        self._wait_for(Neighbour.SPARK if isinstance(error, SparkUnavailable) else Neighbour.REDIS)
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
            failures=kept.failures,
            error=error,
            waiting=kept.waiting,
        )

    async def _note_query(self) -> None:
        """Keep which query serves the pipeline, and the options of a run that began since."""
        await self._blocking(self._ports.registry.note_query, self.name, self._query, self._unnoted)
        self._unnoted = None

    @staticmethod
    async def _blocking(call: Callable[..., Any], *arguments: object) -> Any:
        return await anyio.to_thread.run_sync(call, *arguments)


_AT_ONCE = 0
_UNTIL_ORDER = -1
_FINISHED = -2
