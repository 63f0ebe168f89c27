"""What keepers of pipelines work with: Spark, the dataflow, keyed state, savepoints, time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql.connect.session import SparkSession

    from service.runtime.event_time import Assigners
    from service.runtime.gateway import QueryLook, StartedQuery
    from service.runtime.records import (
        PipelineRecord,
        QueryHandle,
        Replacement,
        RunOptions,
        SavepointOrder,
    )
    from service.runtime.registry import Registry
    from service.runtime.status import RestartLimits
    from state.descriptors import StateDescriptor


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

    async def reconnect(self) -> None:
        """See the queries that another service has started, where it supervised before us."""


States: TypeAlias = "Mapping[str, Sequence[StateDescriptor]]"
"""The states of each stateful operator, by its id."""


@dataclass(frozen=True, slots=True)
class PlannedStates:
    """What the stateful operators of a plan keep."""

    descriptors: States
    assigners: Mapping[str, Assigners] = field(default_factory=dict)
    """By operator: where its event time comes from; nothing of one that asks for none."""


class QueryStarter(Protocol):
    """What turns a record into a query; `dataflow` behind it. Its calls block."""

    def options(self, record: PipelineRecord, run: Run) -> RunOptions:
        """The options that `start` starts the record's query with."""

    def states(self, record: PipelineRecord) -> PlannedStates:
        """What the stateful operators keep; raises StartFailed where there can be no query."""

    def start(self, spark: SparkSession, record: PipelineRecord, run: Run) -> Any:
        """Start the query, named as the pipeline, on the checkpoint of the record's id.

        Raises StartFailed where no other attempt would succeed.
        """

    def discard(self, record: PipelineRecord) -> None:
        """Remove the checkpoint of a pipeline that is deleted."""


class PipelineLedgers(Protocol):
    """What a keeper needs of keyed state, for pipelines by name. Its calls block."""

    def open_run(self, name: str, states: PlannedStates, max_parallelism: int) -> Run:
        """Begin a run: fence the one before, settle its last epoch, register its states."""

    def epoch(self, name: str) -> int:
        """The last closed epoch; 0 before the first."""

    def require_run(self, name: str, run: int) -> None:
        """See that this is the newest run; raises Fenced where another service opened one."""

    def drop(self, name: str) -> None:
        """Remove all state but the run counter."""

    def clear(self, name: str) -> None:
        """Remove all state but the run counter; the pipeline stays."""


class SavepointWork(Protocol):
    """What a keeper needs of savepoints. Its calls block, for as long as the work takes."""

    def save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        """Take a savepoint of a pipeline whose query is over; nothing to do if it is there.

        Raises SavepointFailed, which the savepoint tells, too; StateUnavailable: ask again.
        """

    def restore(self, record: PipelineRecord) -> None:
        """Give a pipeline that never ran what its record says; nothing to do if it has it."""

    def check_replacement(self, name: str, replacement: Replacement) -> Sequence[str]:
        """See that another plan can go on with the savepoint; what would come of it, in words.

        Raises SavepointMismatch, SavepointCorrupt, StartFailed.
        """

    def latest(self, name: str) -> str | None:
        """The words for the newest savepoint of a pipeline, if there is one."""


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
    epoch: int = 0
    """The last closed one when the run was opened; 0 before the first."""
    offsets: str = "{}"
    """What the marker has beside it: among other things where tables were read to, as JSON."""
    ttl_extension_ms: int = 0
    """By how much all lives were extended, in processing time."""


@dataclass(frozen=True, slots=True)
class KeeperPorts:
    """What every keeper works with."""

    registry: Registry
    queries: Queries
    starter: QueryStarter
    ledgers: PipelineLedgers
    savepoints: SavepointWork
    clock: Clock
    limits: RestartLimits
    look_interval_ms: int
    stop_timeout_ms: int
    max_parallelism: int
    """For records that were created without one."""
    chance: Callable[[], float] = random.random
