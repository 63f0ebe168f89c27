"""What keepers are given to work with in the service: the dataflow, the ledgers, the execution.

keeper_ports      binds them from the settings
DataflowStarter   a record becomes a query
RedisLedgers      runs, markers and state of pipelines in Redis
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import redis

from operators.errors import OperatorError
from operators.expressions.errors import ExpressionError
from operators.wire import time_behind
from service.plan import load_plan
from service.plan.errors import PlanError
from service.runtime.databases import claim_databases
from service.runtime.dataflow import PipelineJob, start_query, stateful_nodes
from service.runtime.dataflow_errors import DataflowError
from service.runtime.errors import StartFailed
from service.runtime.event_time import event_times, watermark
from service.runtime.folders import claim_folders
from service.runtime.keeper_ports import KeeperPorts, PlannedStates, Run
from service.runtime.launcher import package_version
from service.runtime.looked_up import check_looked_up
from service.runtime.pipeline_names import RECORD_NAME, pipeline_key
from service.runtime.planned_offsets import unusable_checkpoint
from service.runtime.registry import Registry
from service.runtime.savepoints import Savepoints
from service.runtime.slot_keys import KAFKA_NAME, slot_key
from service.runtime.status import RestartLimits
from service.runtime.supervisor import SystemClock
from service.runtime.terms import keep_terms
from service.runtime.topics import claim_of_topics
from service.runtime.worker_view import workers_see
from state.backends.names import slot_prefix
from state.backends.transport import ClientSettings, RedisTransport, checked
from state.epochs import EpochLedger
from state.errors import Fenced, StateUnavailable
from state.registry import extension_ms, register_states
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql.connect.session import SparkSession

    from service.plan import CompiledPlan
    from service.runtime.keeper_ports import Queries
    from service.runtime.records import PipelineRecord, RunOptions
    from service.settings import RedisSettings, Settings

T = TypeVar("T")

_REFUSALS = (PlanError, DataflowError, ExpressionError, OperatorError)


def keeper_ports(
    settings: Settings, client: redis.Redis, queries: Queries, *, token: str
) -> KeeperPorts:
    """What the supervisor's keepers work with in the service, under a token of the lease."""
    execution = settings.execution
    registry = Registry(client, settings.limits.pipelines_max, token=token)
    starter = DataflowStarter(settings)
    return KeeperPorts(
        registry=registry,
        queries=queries,
        starter=starter,
        ledgers=RedisLedgers(client, settings.redis, registry.check_lease),
        savepoints=Savepoints(settings, client, starter),
        clock=SystemClock(),
        limits=RestartLimits.of(execution),
        look_interval_ms=execution.supervise_interval_ms,
        stop_timeout_ms=execution.stop_timeout_ms,
        max_parallelism=execution.max_parallelism,
    )


class DataflowStarter:
    """Turns records into queries, as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._seen_by_workers: tuple[str, bool] | None = None
        """The session that was asked last, and whether its workers see the checkpoints."""

    def options(self, record: PipelineRecord, run: Run) -> RunOptions:
        """The record's options, complete by the settings, and what the run found."""
        options = record.options.resolved(self._settings.execution)
        return replace(
            options, ttl_extension_ms=run.ttl_extension_ms, plan_version=record.plan_version
        )

    def states(self, record: PipelineRecord) -> PlannedStates:
        """What the record's stateful operators keep.

        Raises:
            StartFailed: the plan, or the options on it, cannot run.
        """
        return self.states_of(self._plan(record), record.options.resolved(self._settings.execution))

    def states_of(self, plan: CompiledPlan, options: RunOptions) -> PlannedStates:
        """What the stateful operators of a plan keep.

        Raises:
            StartFailed: the options on it cannot run.
        """
        found = _refused(lambda: stateful_nodes(plan, options))
        return PlannedStates(
            {each.id: each.states for each in found}, event_times(plan, found).by_operator(found)
        )

    def start(self, spark: SparkSession, record: PipelineRecord, run: Run) -> Any:
        """Start the record's query in a run; Spark's `StreamingQuery`.

        Raises:
            StartFailed: the plan cannot run, or a table or topic elsewhere does not take its rows,
                or has an epoch that was written by other terms.
            QueryFailed: a database or broker does not answer, or a folder is another pipeline's.
            Fenced, StateLost: such a table or topic is another run's, or of another epoch.
        """
        job = replace(self.job(record, run), workers_see_checkpoint=self._workers_see(spark))
        _refused(partial(check_looked_up, job.plan, record.name, self._plan_of))
        begun = partial(self._begun, record.name)
        ahead = claim_databases(job, marker=run.epoch)
        ahead += claim_of_topics(job, marker=run.epoch, begun=begun)
        keep_terms(job, ahead, marker=run.epoch)
        claim_folders(job, self._is_there)
        return _refused(partial(start_query, spark, job))

    def _workers_see(self, spark: SparkSession) -> bool:
        session = str(spark.session_id)
        if self._seen_by_workers is None or self._seen_by_workers[0] != session:
            folder = self._settings.spark.checkpoint_folder.absolute()
            sees = workers_see(spark, folder, tasks=self._parallelism())
            self._seen_by_workers = (session, sees)
        return self._seen_by_workers[1]

    def _parallelism(self) -> int:
        return self._settings.execution.parallelism or os.cpu_count() or 1

    def job(self, record: PipelineRecord, run: Run) -> PipelineJob:
        """Everything that a run of the record's query needs."""
        execution = self._settings.execution
        options = self.options(record, run)
        return PipelineJob(
            pipeline=record.name,
            pipeline_id=record.id,
            plan=self._plan(record),
            run=run.number,
            incarnation=run.incarnation,
            redis_url=self._settings.redis.url,
            checkpoint=str(self.checkpoint(record)),
            closed_epoch=run.epoch,
            closed_offsets=run.offsets,
            options=options,
            parallelism=self._parallelism(),
            max_parallelism=options.max_parallelism,
            files_root=str(self._settings.files.root.absolute()),
            database_hosts=self._settings.databases.hosts,
            version=package_version(),
            dead_letters_max=execution.dead_letters_max,
            print_rows_max=execution.print_rows_max,
            progress_epochs_max=execution.progress_epochs_max,
            orphans_max=execution.orphans_max,
            due_keys_max=execution.expired_keys_per_epoch_max,
            states=run.states,
            allow_testing=execution.testing_options_enabled,
            connect_timeout_ms=self._settings.redis.connect_timeout_ms,
            socket_timeout_ms=self._settings.redis.socket_timeout_ms,
        )

    def checkpoint(self, record: PipelineRecord) -> Path:
        """The folder of the record's checkpoint: by id, so that no pipeline meets another's."""
        # Absolute: the Connect server has a working directory of its own.
        return self._settings.spark.checkpoint_folder.absolute() / record.id

    def discard(self, record: PipelineRecord) -> None:
        """Remove the record's checkpoint.

        Raises:
            QueryFailed: it cannot be removed.
        """
        try:
            shutil.rmtree(self.checkpoint(record))
        except FileNotFoundError:
            return  # one that never ran has none
        except OSError as error:
            raise unusable_checkpoint("removed", error) from error

    def _begun(self, name: str) -> dict[str, int]:
        """By group: the last epoch for which a pipeline may have begun a Kafka transaction."""
        found = self._asked("HGETALL", slot_key(name, KAFKA_NAME))
        pairs = zip(found[::2], found[1::2], strict=True)
        return {group.decode(): int(epoch) for group, epoch in pairs}

    def _plan_of(self, name: str) -> dict[str, Any] | None:
        """The document of another pipeline's plan; None: there is no such pipeline."""
        found = self._asked("HGET", pipeline_key(name), "plan")
        return None if found is None else orjson.loads(found)

    def _is_there(self, name: str, pipeline_id: str) -> bool:
        """Whether the pipeline of this name is the one with this id, and not deleted."""
        found = self._asked("HGET", pipeline_key(name), "id")
        return found is not None and orjson.loads(found) == pipeline_id

    def _asked(self, *command: str) -> Any:
        """Redis's reply to a command that changes nothing."""
        settings = self._settings.redis
        client = ClientSettings(
            settings.url,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
        )
        with contextlib.closing(RedisTransport(client)) as transport:
            return checked(transport.exchange([command], is_repeatable=True))[0]

    @staticmethod
    def _plan(record: PipelineRecord) -> CompiledPlan:
        return _refused(partial(load_plan, record.plan))


class RedisLedgers:
    """The ledgers of all pipelines in one Redis.

    A ledger holds on to the Redis process that it met first, so each run is opened by a new one.
    Who has lost the lease neither opens a run nor drops state: it would fence its successor's run.
    """

    def __init__(
        self,
        client: redis.Redis,
        settings: RedisSettings,
        check_lease: Callable[[], None] = lambda: None,
    ) -> None:
        self._redis = client
        self._check_lease = check_lease
        self._settings = ClientSettings(
            settings.url,
            connect_timeout_ms=settings.connect_timeout_ms,
            socket_timeout_ms=settings.socket_timeout_ms,
        )

    def open_run(self, name: str, states: PlannedStates, max_parallelism: int) -> Run:
        """Begin a run and register its states; see `EpochLedger.open_run`, `register_states`.

        Raises:
            CodecMismatch: State is stored in another form; earlier runs are fenced off by then.
        """
        now_ms = int(time.time() * 1000)

        def open_it(ledger: EpochLedger) -> Run:
            number = ledger.open_run(list(states.descriptors), max_parallelism)
            # Nothing that an earlier run still does can move the marker any more.
            marker = ledger.marker()
            begins_ms = time_behind(marker.offsets, now_ms)
            extended_ms = extension_ms(ledger)
            registered = {}
            for operator, descriptors in states.descriptors.items():
                reached_ms = watermark(marker.offsets, states.assigners.get(operator, ()))
                clock = TtlClock(begins_ms, reached_ms, extended_ms)
                registered[operator] = register_states(ledger, operator, descriptors, clock)
            return Run(
                number=number,
                incarnation=ledger.incarnation,
                states=registered,
                epoch=marker.epoch,
                offsets=marker.offsets,
                ttl_extension_ms=extended_ms,
            )

        return self._with_ledger(name, open_it)

    def epoch(self, name: str) -> int:
        """The last closed epoch; 0 before the first.

        Raises:
            StateUnavailable: Redis does not answer.
        """
        with _away_as_unavailable():
            return int(self._redis.hget(slot_prefix(name) + b"marker", "epoch") or 0)

    def require_run(self, name: str, run: int) -> None:
        """See that no newer run was opened, by another service.

        Raises:
            Fenced: One was.
            StateUnavailable: Redis does not answer.
        """
        newest = self._newest_run(name)
        if newest != run:
            raise Fenced(f"run {newest} owns the pipeline; this is run {run}")

    def drop(self, name: str) -> None:
        """Remove all of a pipeline's state but the run counter.

        Raises:
            Fenced: Another service does that, or opened a run since.
            StateUnavailable: Redis does not answer.
        """
        self._drop(name)

    def clear(self, name: str) -> None:
        """Remove all of a pipeline's state but the run counter; its record stays.

        Raises:
            Fenced, StateUnavailable: As `drop`.
        """
        self._drop(name, RECORD_NAME)

    def _drop(self, name: str, *keep: bytes) -> None:
        # Read before the lease is looked at: a successor's drop changes it.
        newest = self._newest_run(name)
        self._with_ledger(name, partial(EpochLedger.drop, run=newest, keep=keep))

    def _newest_run(self, name: str) -> int:
        with _away_as_unavailable():
            return int(self._redis.get(slot_prefix(name) + b"run") or 0)

    def _with_ledger(self, name: str, act: Callable[[EpochLedger], T]) -> T:
        self._check_lease()
        transport = RedisTransport(self._settings)
        try:
            return act(EpochLedger(transport, name))
        finally:
            transport.close()


@contextlib.contextmanager
def _away_as_unavailable() -> Iterator[None]:
    try:
        yield
    except redis.RedisError as error:
        raise StateUnavailable("Redis does not answer") from error


def _refused(call: Callable[[], T]) -> T:
    """Say that a start has failed for good where a plan cannot be run."""
    try:
        return call()
    except _REFUSALS as error:
        raise StartFailed(str(error), code=error.code, hint=getattr(error, "hint", "")) from error
