"""Our Spark Connect session: made, kept, replaced, and called from an event loop.

Calls of the Connect client block, so they run in threads, a limited number at a time. One session
serves all pipelines. Its id is kept in Redis: a restarted service that connects with the same id
and user finds the queries that the one before it started; under any other id they are invisible.

What goes wrong comes out as one of three errors, since the caller acts differently:
- `SparkUnavailable`: no answer. The session and its queries may be well; the channel connects again
  by itself, because each session has a channel of its own with a short back-off (gRPC otherwise
  shares the memory of a refused connection between channels, and the client tries for minutes).
- `SessionLost`: the server answered that it does not know the session: it was restarted, or ended
  the session. All queries of the session are over. The next call makes a new session.
- `StartFailed`, `QueryFailed`: Spark refused this query.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
import warnings
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio.to_thread
import structlog

from service.runtime.errors import (
    QueryFailed,
    QueryStillRunning,
    SessionLost,
    SparkUnavailable,
    WorkersDiffer,
)
from service.runtime.launcher import package_version
from service.runtime.spark_configuration import SESSION_CONFIGURATION
from service.runtime.spark_errors import QueryError, query_error, translated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.connect.streaming.query import StreamingQuery

    from service.runtime.records import QueryHandle
    from service.settings import SparkSettings

T = TypeVar("T")

THREADS_MAX = 16
"""Calls of the client that may be under way; each holds a thread."""
_RETRIES_MAX = 3
_RETRY_BACKOFF_MS = (100, 1_000)
_KEEPALIVE = "grpc_keepalive_time_ms=10000;grpc_keepalive_timeout_ms=10000"
"""A server that hangs without closing its connection is noticed within 20 s."""
_CHANNEL_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
log = structlog.get_logger(__name__)


class SessionStore(Protocol):
    """Where the id of the session outlives us: the registry."""

    def session_id(self) -> str | None:
        """The id that was used last."""

    def note_session_id(self, session_id: str, *, instead_of: str | None) -> str:
        """Keep the id that is used from now on, unless another service was faster; which it is."""


class QueryState(Enum):
    """What Spark says of a query."""

    ACTIVE = "active"
    ENDED = "ended"
    """It is over, by an error or because someone stopped it."""
    GONE = "gone"
    """Nobody knows it: its session or server is over, or another run took its place."""


@dataclass(frozen=True, slots=True)
class QueryLook:
    """A query's state and, if it ended by one, its error."""

    state: QueryState
    error: QueryError | None = None


@dataclass(frozen=True, slots=True)
class StartedQuery:
    """How to find a query again."""

    session_id: str
    query_id: str
    run_id: str


@dataclass(slots=True)
class _Session:
    spark: SparkSession
    id: str
    workers_checked: bool = False


class SparkGateway:
    """The service's way to Spark; for one event loop.

    Args:
        settings: The server, the user and the limits of time.
        store: Keeps the session's id.
        parallelism: Shuffle partitions of the session; 0 leaves the server's own.
    """

    def __init__(
        self, settings: SparkSettings, store: SessionStore, *, parallelism: int = 0
    ) -> None:
        self._settings = settings
        self._store = store
        self._configuration = dict(SESSION_CONFIGURATION)
        if parallelism:
            self._configuration["spark.sql.shuffle.partitions"] = str(parallelism)
        self._session: _Session | None = None
        self._connecting = asyncio.Lock()
        self._failed_count = 0
        self._failure = ""
        """What came of the last attempt to connect that failed."""
        self._limiter = anyio.CapacityLimiter(THREADS_MAX)
        self._closing: set[asyncio.Future[None]] = set()

    async def version(self) -> str:
        """The server's Spark version, asked now.

        Raises:
            SparkUnavailable: the server does not answer within `call_timeout_ms`.
        """
        return await self.call(_version, timeout_ms=self._settings.call_timeout_ms)

    async def call(self, function: Callable[[Any], T], *, timeout_ms: int | None = None) -> T:
        """Run a function of the session in a thread.

        Args:
            function: Gets the `SparkSession`; its Spark errors are translated.
            timeout_ms: After this the caller goes on without the answer; the thread ends when the
                client gives up. None for calls with effects, which must not be left half known.

        Raises:
            SparkUnavailable: no answer, or not in time.
            SessionLost: the session is over; the next call has a new one.
            StartFailed, QueryFailed: Spark refused.
        """
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                session = await self._current()
                return await self._on(session, function, abandon=timeout_ms is not None)
        except TimeoutError as error:
            raise SparkUnavailable(
                f"Spark Connect did not answer within {timeout_ms} ms"
            ) from error

    async def start(self, starter: Callable[[Any], Any]) -> StartedQuery:
        """Start a query, once the workers are known to have our version.

        Args:
            starter: Gets the `SparkSession`, returns the streaming query.

        Raises:
            WorkersDiffer: the workers have another version of this package, or none.
            SparkUnavailable, SessionLost, StartFailed, QueryFailed: as `call`.
        """
        session = await self._current()
        if not session.workers_checked:
            await self._on(session, _check_workers)
            session.workers_checked = True
        query = await self._on(session, starter)
        return StartedQuery(session.id, str(query.id), str(query.runId))

    async def look(self, handle: QueryHandle) -> QueryLook:
        """What became of a query.

        Raises:
            SparkUnavailable: the server does not answer; the query may be well.
        """
        try:
            return await self._for_query(handle, _look, self._settings.call_timeout_ms)
        except SessionLost:
            return QueryLook(QueryState.GONE)

    async def stop(self, handle: QueryHandle, timeout_ms: int) -> None:
        """Stop a query; returns once it is over. One that is over or gone is fine.

        Raises:
            SparkUnavailable: the server does not answer; the query may go on.
            QueryStillRunning: it had not ended after `timeout_ms`.
        """
        with contextlib.suppress(SessionLost):  # the queries of a session end with it
            look = await self._for_query(handle, partial(_stop, timeout_ms=timeout_ms), None)
            if look.state is QueryState.ACTIVE:
                raise QueryStillRunning(f"the query has not ended {timeout_ms} ms after its stop")

    async def stop_named(self, name: str) -> None:
        """Stop the queries of this name that our session has, whoever knows of them.

        For a query that was started just before the service died, and so was never noted.

        Raises:
            SparkUnavailable: the server does not answer.
        """
        with contextlib.suppress(SessionLost):  # the queries of a session end with it
            await self.call(partial(_stop_named, name=name))

    async def reconnect(self) -> None:
        """Use the session that is kept, where another service has begun one meanwhile.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        kept = await self._thread(self._store.session_id)
        if self._session is not None and self._session.id != kept:
            self._give_back(self._session)

    async def close(self) -> None:
        """Close our side. The session and its queries go on at the server, to be adopted."""
        async with self._connecting:
            if self._session is not None:
                self._give_back(self._session)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _for_query(
        self, handle: QueryHandle, act: Callable[[Any, str, str], QueryLook], timeout_ms: int | None
    ) -> QueryLook:
        def run(spark: SparkSession) -> QueryLook:
            if spark.session_id != handle.session_id:
                return QueryLook(QueryState.GONE)
            return act(spark, handle.query_id, handle.run_id)

        return await self.call(run, timeout_ms=timeout_ms)

    async def _on(
        self, session: _Session, function: Callable[[Any], T], *, abandon: bool = False
    ) -> T:
        try:
            return await self._thread(partial(_guarded, function, session.spark), abandon=abandon)
        except SessionLost as error:
            if self._session is not session:
                # Another call found out first and closed the client: that closing is what we saw.
                raise SparkUnavailable("the session was replaced during the call") from error
            log.warning("spark session lost", session_id=session.id)
            self._give_back(session)
            raise

    async def _current(self) -> _Session:
        failed_count = self._failed_count
        async with self._connecting:
            if self._session is None:
                if self._failed_count != failed_count:
                    # An attempt that failed while this call stood in line was for this one, too:
                    # of a server that is silent each would else wait out the time of its own.
                    raise SparkUnavailable(self._failure)
                try:
                    self._session = await self._connect()
                except SparkUnavailable as error:
                    self._failed_count += 1
                    self._failure = error.message
                    raise
            return self._session

    async def _connect(self) -> _Session:
        stored = await self._thread(self._store.session_id)
        if stored is not None:
            with contextlib.suppress(SessionLost):  # a new server does not know it: ours begins
                return await self._connect_as(stored)
        fresh = str(uuid.uuid4())
        # Kept before it is used: a query must never run in a session that nobody can find again.
        kept = await self._thread(partial(self._store.note_session_id, fresh, instead_of=stored))
        return await self._connect_as(kept)

    async def _connect_as(self, session_id: str) -> _Session:
        open_session = partial(
            _open, self._settings.remote, self._settings.user, session_id, self._configuration
        )
        try:
            async with asyncio.timeout(self._settings.connect_timeout_ms / 1_000):
                spark = await self._thread(open_session, abandon=True)
        except TimeoutError as error:
            raise SparkUnavailable(
                f"Spark Connect opened no session within {self._settings.connect_timeout_ms} ms"
            ) from error
        log.info("spark session opened", session_id=session_id)
        return _Session(spark, session_id)

    def _give_back(self, session: _Session) -> None:
        """Forget a session and close its channel, beside whatever else goes on."""
        self._session = None
        closing = asyncio.ensure_future(self._thread(partial(_close, session.spark)))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def _thread(self, function: Callable[..., T], *args: object, abandon: bool = False) -> T:
        return await anyio.to_thread.run_sync(
            function, *args, limiter=self._limiter, abandon_on_cancel=abandon
        )


def _guarded(function: Callable[[SparkSession], T], spark: SparkSession) -> T:
    with translated():
        return function(spark)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep what pyspark has to say about pandas, which we hand no rows, out of the log."""
    with warnings.catch_warnings():
        warnings.filterwarnings(  # it is of pandas and of no other thing
            "ignore", "PySpark does not yet fully support", FutureWarning
        )
        yield


def _open(remote: str, user: str, session_id: str, configuration: dict[str, str]) -> Any:
    with _quiet():
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

    own = f"user_id={user};session_id={session_id};{_KEEPALIVE}"
    base, slash, parameters = remote.partition("/;")
    address = f"{base.rstrip('/')}/;{parameters.rstrip(';')};{own}" if slash else f"{base}/;{own}"
    with translated():
        spark = SparkSession(DefaultChannelBuilder(address, list(_CHANNEL_OPTIONS)))
        low, high = _RETRY_BACKOFF_MS
        policy = DefaultPolicy(
            max_retries=_RETRIES_MAX, initial_backoff=low, max_backoff=high, jitter=low
        )
        spark.client.set_retry_policies([policy])
        try:
            for name, value in configuration.items():
                spark.conf.set(name, value)
        except BaseException:  # an interrupt, too, must not leave the channel open
            spark.client.close()
            raise
    return spark


def _close(spark: SparkSession) -> None:
    spark.client.close()


def _version(spark: SparkSession) -> str:
    # The client remembers the version; the setting makes it ask.
    spark.conf.get("spark.app.name")
    return str(spark.version)


def _check_workers(spark: SparkSession) -> None:
    """Run one tiny job that tells which version of this package the workers have."""
    expected = package_version()

    # Local, so that it goes to the workers by value: they may lack this module.
    def report(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from importlib.metadata import PackageNotFoundError, version

        import pyarrow as pa

        try:
            found = version("tailrace")
        except PackageNotFoundError:
            found = "none"
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"version": [found]})

    rows = spark.range(0, 1, 1, 1).mapInArrow(report, "version string").collect()
    found = {str(row.version) for row in rows}
    if found != {expected}:
        raise WorkersDiffer(
            f"Spark's Python workers have tailrace {', '.join(sorted(found))}, "
            f"the service has {expected}",
            hint="install the same version for both and restart the Spark Connect server",
        )


def _query(spark: SparkSession, query_id: str, run_id: str) -> StreamingQuery:
    from pyspark.sql.connect.streaming.query import StreamingQuery

    return StreamingQuery(spark, query_id, run_id)


def _look(spark: SparkSession, query_id: str, run_id: str) -> QueryLook:
    query = _query(spark, query_id, run_id)
    try:
        with translated():
            if query.isActive:
                return QueryLook(QueryState.ACTIVE)
            failure = query.exception()
    except QueryFailed as error:
        if error.code == "query.not-found":
            return QueryLook(QueryState.GONE)
        raise
    return QueryLook(QueryState.ENDED, None if failure is None else query_error(str(failure)))


def _stop(spark: SparkSession, query_id: str, run_id: str, *, timeout_ms: int) -> QueryLook:
    look = _look(spark, query_id, run_id)
    if look.state is not QueryState.ACTIVE:
        return look
    # The server answers once the query's thread has ended, within its own limit.
    spark.conf.set("spark.sql.streaming.stopTimeout", str(timeout_ms))
    with contextlib.suppress(QueryFailed), translated():  # over, too; the look below tells why
        _query(spark, query_id, run_id).stop()
    return _look(spark, query_id, run_id)


def _stop_named(spark: SparkSession, *, name: str) -> None:
    for query in spark.streams.active:
        if query.name == name:
            query.stop()
