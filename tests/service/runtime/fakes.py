"""What keepers work with, made by hand: time that stands still and a Spark that does as told."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from service.runtime.errors import SavepointFailed, SparkUnavailable, StartFailed
from service.runtime.gateway import QueryLook, QueryState, StartedQuery
from service.runtime.keeper_ports import PlannedStates, Run
from service.settings import ExecutionSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.runtime.records import (
        PipelineRecord,
        QueryHandle,
        Replacement,
        RunOptions,
        SavepointOrder,
    )

HANG_LIMIT_S = 20
ACTIVE = QueryLook(QueryState.ACTIVE)
GONE = QueryLook(QueryState.GONE)


class ManualClock:
    """Time moves by `advance` only; knows when everyone waits for it or for an order."""

    def __init__(self) -> None:
        self.ms = 1_000_000
        self._waiting: dict[asyncio.Event, tuple[int | None, asyncio.Event]] = {}
        self._changed = asyncio.Event()

    def now_ms(self) -> int:
        return self.ms

    def elapsed_ms(self) -> int:
        return self.ms

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> None:
        if timeout_ms == 0:
            await asyncio.sleep(0)
            return
        due = asyncio.Event()
        self._waiting[event] = (None if timeout_ms is None else self.ms + timeout_ms, due)
        self._changed.set()
        waits = [asyncio.ensure_future(each.wait()) for each in (event, due)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            del self._waiting[event]

    async def advance(self, ms: int) -> None:
        """Let time pass, and what it wakes run until it waits again."""
        self.ms += ms
        for until, due in self._waiting.values():
            if until is not None and until <= self.ms:
                due.set()
        await self.parked()

    async def parked(self, count: int = 1) -> None:
        """Return once this many waiters have nothing to do but wait."""
        async with asyncio.timeout(HANG_LIMIT_S):
            while True:
                await asyncio.sleep(0)
                idle = [
                    event
                    for event, (_, due) in self._waiting.items()
                    if not event.is_set() and not due.is_set()
                ]
                if len(idle) == len(self._waiting) >= count:
                    return
                self._changed.clear()
                await self._changed.wait() if len(self._waiting) < count else None

    def remaining_ms(self) -> int | None:
        """How long the only waiter would wait; None for ever."""
        ((until, _),) = self._waiting.values()
        return None if until is None else until - self.ms


class FakeQueries:
    """A Spark whose queries do as told; refuses to run two of one pipeline."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.looks: dict[str, QueryLook] = {}
        self.away = False
        self.start_error: Exception | None = None
        self.stop_error: Exception | None = None
        self.session_error: Exception | None = None
        """Once, of who asks for the session."""
        self.loses_reply = False
        """The next start reaches Spark, but its reply does not come back."""
        self.holds: asyncio.Event | None = None
        """Until it is set, no one gets an answer."""
        self.asked = asyncio.Event()
        self._names: dict[str, str] = {}
        self.started_count = 0

    async def start(self, starter: Callable[[Any], Any]) -> StartedQuery:
        await self._answer()
        if self.start_error is not None:
            raise self.start_error
        name = starter(None)
        assert not self.alive, "two queries at once"
        self.started_count += 1
        query_id = f"query-{self.started_count}"
        self.looks[query_id] = ACTIVE
        self.log.append(f"start {name}")
        self._names[query_id] = name.partition(" ")[0]
        if self.loses_reply:
            self.loses_reply = False
            raise SparkUnavailable("Spark Connect does not answer")
        return StartedQuery("session", query_id, f"run-{self.started_count}")

    async def look(self, handle: QueryHandle) -> QueryLook:
        await self._answer()
        return self.looks.get(handle.query_id, GONE)

    async def stop(self, handle: QueryHandle, timeout_ms: int) -> None:
        await self._answer()
        if self.stop_error is not None:
            raise self.stop_error
        self.log.append(f"stop {handle.query_id}")
        self.looks.pop(handle.query_id, None)

    async def stop_named(self, name: str) -> None:
        await self._answer()
        self.log.append(f"stop named {name}")
        for query_id in [each for each in self.looks if self._names.get(each) == name]:
            del self.looks[query_id]

    async def reconnect(self) -> None:
        error, self.session_error = self.session_error, None
        if error is not None:
            raise error
        self.log.append("reconnect")

    @property
    def alive(self) -> list[str]:
        return [each for each, look in self.looks.items() if look == ACTIVE]

    async def _answer(self) -> None:
        self.asked.set()
        if self.holds is not None:
            await self.holds.wait()
        if self.away:
            raise SparkUnavailable("Spark Connect does not answer")


class FakeStarter:
    """Stands in for the dataflow; a query is its pipeline's name and run."""

    def __init__(self) -> None:
        self.refused = False
        self.discarded: list[str] = []
        self.discard_error: Exception | None = None

    def options(self, record: PipelineRecord, run: Run) -> RunOptions:
        return record.options.resolved(ExecutionSettings())

    def states(self, record: PipelineRecord) -> PlannedStates:
        if self.refused:
            raise StartFailed("node 3 is not supported", code="plan.unsupported")
        return PlannedStates({"3_sink-materializer": []})

    def start(self, spark: Any, record: PipelineRecord, run: Run) -> Any:
        return f"{record.name} run {run.number}"

    def discard(self, record: PipelineRecord) -> None:
        if self.discard_error is not None:
            raise self.discard_error
        self.discarded.append(record.id)


class FakeLedgers:
    """Run counters and epochs in a dictionary."""

    def __init__(self) -> None:
        self.runs: dict[str, int] = {}
        self.epochs: dict[str, int] = {}
        self.dropped: list[str] = []
        self.error: Exception | None = None
        self.clear_error: Exception | None = None

    def open_run(self, name: str, states: PlannedStates, max_parallelism: int) -> Run:
        if self.error is not None:
            raise self.error
        self.runs[name] = self.runs.get(name, 0) + 1
        return Run(self.runs[name], "incarnation")

    def require_run(self, name: str, run: int) -> None:
        assert self.runs[name] == run

    def epoch(self, name: str) -> int:
        return self.epochs.get(name, 0)

    def drop(self, name: str) -> None:
        self.dropped.append(name)

    def clear(self, name: str) -> None:
        if self.clear_error is not None:
            raise self.clear_error
        self.dropped.append(name)


class FakeSavepoints:
    """Notes what was taken and restored, and whether a query ran meanwhile."""

    def __init__(self, queries: FakeQueries) -> None:
        self.log: list[str] = []
        self.save_error: Exception | None = None
        self.restore_error: Exception | None = None
        self.check_error: Exception | None = None
        self.last: str | None = None
        self._queries = queries

    def save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        assert not self._queries.alive, "a savepoint beside a query"
        self.log.append(f"save {order.id}")
        if self.save_error is not None:
            raise self.save_error

    def restore(self, record: PipelineRecord) -> None:
        assert record.restore is not None
        assert not self._queries.alive
        self.log.append(f"restore {record.restore.savepoint}")
        if self.restore_error is not None:
            raise self.restore_error

    def check_replacement(self, name: str, replacement: Replacement) -> list[str]:
        assert self.log[-1] == f"save {replacement.savepoint.id}", "checked before it was taken"
        if self.check_error is not None:
            raise self.check_error
        return ["table t is new"]

    def latest(self, name: str) -> str | None:
        return self.last


def savepoint_failed() -> SavepointFailed:
    return SavepointFailed("no room", code="savepoint.files")
