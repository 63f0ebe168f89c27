"""Errors of starting, keeping and supervising what pipelines run on.

    LifecycleError
    ├── LaunchError               an embedded Redis or Spark Connect server cannot be started
    │   ├── MissingDependency     Java or redis-server is absent or too old: says what to install
    │   ├── PortBusy              something else listens on the port
    │   └── LaunchFailed          the process ended, or did not answer in time
    ├── RegistryError             asked wrongly of the registry of pipelines
    │   ├── InvalidPipelineName
    │   ├── PipelineExists
    │   ├── PipelineNotFound
    │   │   └── PipelineDeleting  its name is not free yet
    │   ├── TooManyPipelines
    │   ├── SavepointPending      a savepoint or restore of the pipeline is not through yet
    │   ├── TooManySavepoints
    │   └── VersionConflict       the record was changed since it was read
    ├── SqlSessionError           asked wrongly of the named SQL sessions
    │   ├── SqlSessionNotFound
    │   ├── SqlSessionFull        it would hold more than it may
    │   └── TooManySqlSessions
    ├── RegistryUnavailable       Redis does not answer: ask again later
    │   └── LeaseLost             another service supervises the pipelines
    ├── RegistryCorrupt           a record that we did not write: keep the evidence
    ├── SparkUnavailable          the Connect server does not answer: ask again later
    │   └── SessionLost           it answers, but has forgotten our session
    ├── WorkersDiffer             Spark's Python workers have another version of this package
    ├── QueryFailed               Spark ended a query with an error
    ├── QueryStillRunning         a query did not end in time after it was told to
    ├── SavepointNotFound         no savepoint has this id
    ├── SavepointFailed           a savepoint could not be taken; the pipeline goes on
    └── StartFailed               the pipeline could not be turned into a query
Each has a stable `code`; `message` and `hint` may be shown to users: they name no row values.
"""

from __future__ import annotations


class LifecycleError(Exception):
    """What this tree has in common; never raised itself."""

    code = "lifecycle"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def with_hint(message: str, hint: str) -> str:
    """What happened and what to do, where there is one place for both.

    >>> with_hint("the plan cannot run", "")
    'the plan cannot run'
    """
    return f"{message}; {hint}" if hint else message


class LaunchError(LifecycleError):
    """An embedded server cannot be started."""

    code = "launch"


class MissingDependency(LaunchError):
    """Java or redis-server is absent or too old; the message is one line that says what to do."""

    code = "launch.missing-dependency"


class PortBusy(LaunchError):
    """Something listens on the port already; nothing was started."""

    code = "launch.port-busy"


class LaunchFailed(LaunchError):
    """The process ended while it started, or did not answer within the time given."""

    code = "launch.failed"


class RegistryError(LifecycleError):
    """Asked wrongly of the registry."""

    code = "pipeline"


class InvalidPipelineName(RegistryError):
    """A name that is not `[a-z0-9][a-z0-9_-]{0,62}`."""

    code = "pipeline.invalid-name"


class PipelineExists(RegistryError):
    """The name is taken."""

    code = "pipeline.exists"


class PipelineNotFound(RegistryError):
    """No pipeline has this name."""

    code = "pipeline.not-found"


class PipelineDeleting(PipelineNotFound):
    """The pipeline of this name was deleted, and its query or state is not gone yet."""

    code = "pipeline.deleting"

    def __init__(self, name: str) -> None:
        super().__init__(
            f'pipeline "{name}" is being deleted, and its name is not free before its query and '
            "state are gone",
            hint="try again after Retry-After",
        )


class TooManyPipelines(RegistryError):
    """The registry is full."""

    code = "pipeline.too-many"


class VersionConflict(RegistryError):
    """The record was changed since the version that the caller names."""

    code = "pipeline.version-conflict"

    def __init__(self, message: str, *, expected: int, found: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.expected = expected
        self.found = found


class SqlSessionError(LifecycleError):
    """Asked wrongly of the named SQL sessions."""

    code = "sql-session"


class SqlSessionNotFound(SqlSessionError):
    """No session has this name, or it was not used for too long."""

    code = "sql-session.not-found"


class SqlSessionFull(SqlSessionError):
    """The session would hold more than it may."""

    code = "sql-session.full"


class TooManySqlSessions(SqlSessionError):
    """There are as many sessions as there may be."""

    code = "sql-session.too-many"


class SavepointPending(RegistryError):
    """A savepoint or a restore of the pipeline is still under way."""

    code = "pipeline.savepoint-pending"


class TooManySavepoints(RegistryError):
    """A pipeline has as many savepoints as it may have."""

    code = "savepoint.too-many"


class SavepointNotFound(LifecycleError):
    """No savepoint has this id, or it was not taken to its end."""

    code = "savepoint.not-found"


class SavepointFailed(LifecycleError):
    """A savepoint could not be taken; `code` is of the instance: that of the cause."""

    code = "savepoint.failed"

    def __init__(self, message: str, *, code: str = "savepoint.failed", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class RegistryUnavailable(LifecycleError):
    """Redis does not answer, or refuses to write."""

    code = "registry.unavailable"


class LeaseLost(RegistryUnavailable):
    """The registry takes no notes of ours: another service has the lease, or nobody."""

    code = "lease.lost"


class RegistryCorrupt(LifecycleError):
    """A stored record cannot be read as one."""

    code = "registry.corrupt"


class SparkUnavailable(LifecycleError):
    """The Spark Connect server does not answer."""

    code = "spark.unavailable"


class SessionLost(SparkUnavailable):
    """The Spark Connect server closed or forgot our session; a new one is needed."""

    code = "spark.session-lost"


class WorkersDiffer(LifecycleError):
    """Spark's Python workers lack this package or have another version of it."""

    code = "spark.workers-differ"


class QueryFailed(LifecycleError):
    """Spark ended a query; `code` is of the instance: what the worker named, else this one."""

    code = "query.failed"

    def __init__(
        self,
        message: str,
        *,
        code: str = "query.failed",
        hint: str = "",
        cause: str | None = None,
    ) -> None:
        """`cause` is that of `records.Failure`."""
        super().__init__(message, hint=hint)
        self.code = code
        self.cause = cause


class QueryStillRunning(LifecycleError):
    """A query was told to stop and had not within the limit; a second one must not start."""

    code = "query.still-running"


class StartFailed(LifecycleError):
    """The pipeline could not be turned into a query, for a reason that trying again keeps."""

    code = "query.start-failed"

    def __init__(self, message: str, *, code: str = "query.start-failed", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code
