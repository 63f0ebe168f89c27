"""What a pipeline does now, and the limits and delays of its restarts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from service.settings import ExecutionSettings

PERMANENT_CODES = frozenset(
    {
        "expression",
        "expression.malformed",
        "expression.unsupported",
        "malformed-change",
        "operator-aggregate-failed",
        "operator-conflict",
        "operator-expression",
        "operator-function-unavailable",
        "operator-invalid-spec",
        "operator-missing-row-time",
        "operator-no-room",
        "operator-no-watermark",
        "operator-unavailable-value",
        "query.start-failed",
        "savepoint-corrupt",
        "savepoint-mismatch",
        "savepoint-target-in-use",
        "savepoint.not-found",
        "sink-refused",
        "sink-taken-over",
        "source-changed",
        "source-split",
        "state-access-denied",
        "state-codec-mismatch",
        "state-corrupt",
        "state-format-version-mismatch",
        "state-invalid-name",
        "state-invalid-thresholds",
        "state-invalid-ttl",
        "state-invariant",
        "state-lost",
        "version-mismatch",
    }
)
"""Failures that another attempt would meet again, or make worse: never restarted by ourselves."""


class PipelineState(StrEnum):
    """Where a pipeline is on its way to what is wanted of it."""

    CREATED = "CREATED"
    """Known; what it has, or what is wanted of it, could not be found out yet."""
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    """Spark says that its query is active."""
    STOPPING = "STOPPING"
    """Told to end; a neighbour that is away makes this last."""
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"
    """Waits for its next attempt, or for a neighbour that is away; `error` says why."""
    FAILED = "FAILED"
    """Given up; an order of the user tries again."""


class Neighbour(StrEnum):
    """What pipelines cannot go on without."""

    SPARK = "spark"
    REDIS = "redis"
    SINK = "sink"
    """A database, broker or disk that a pipeline writes to."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a pipeline has asked a neighbour, and has no answer to."""

    neighbour: Neighbour
    since_ms: int
    """When it was first asked, ms since 1970."""


@dataclass(slots=True)
class Absence:
    """A sink's server that does not answer, or disk that is full, since an epoch was closed."""

    count: int = 0
    """Attempts that ended so."""
    since_ms: int | None = None
    """When the first one did, ms since 1970."""

    def again(self, now_ms: int) -> int:
        """Count an attempt; since when it has been so."""
        self.count += 1
        self.since_ms = now_ms if self.since_ms is None else self.since_ms
        return self.since_ms


@dataclass(frozen=True, slots=True)
class StatusError:
    """Why a pipeline has failed, restarts or waits; may be shown to users."""

    code: str
    message: str
    """What happened, then what to do about it where that is known."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """What a pipeline does now."""

    state: PipelineState = PipelineState.CREATED
    run: int | None = None
    """The run counter that the tasks of its query carry."""
    query_id: str | None = None
    epoch: int = 0
    """The last closed epoch that was seen; 0 before the first."""
    since_ms: int | None = None
    """When it came into this state, ms since 1970."""
    restarts: int = 0
    """Restarts in a row; 0 again after `restart_reset_ms` without a failure."""
    failures: int = 0
    """Attempts that ended with an error, counted or not, since the pipeline was last well."""
    error: StatusError | None = None
    waiting: Waiting | None = None
    """The neighbour that it cannot go on without, and whose answer has not come."""


def status_of(told: bytes) -> PipelineStatus:
    """A status that a service told others, as JSON of its fields.

    What a service of another version tells otherwise is not known: CREATED.

    >>> status_of(b'{"state": "RUNNING", "run": 2}').run
    2
    >>> status_of(b'{"state": "SLEEPING"}').state
    <PipelineState.CREATED: 'CREATED'>
    """
    try:
        values = orjson.loads(told)
        error, waiting = values.pop("error", None), values.pop("waiting", None)
        if waiting is not None:
            waiting = Waiting(Neighbour(waiting["neighbour"]), waiting["since_ms"])
        return PipelineStatus(
            **{**values, "state": PipelineState(values["state"])},
            error=None if error is None else StatusError(**error),
            waiting=waiting,
        )
    except (TypeError, ValueError, KeyError):
        return PipelineStatus()


@dataclass(frozen=True, slots=True)
class RestartLimits:
    """When to try again and when to give up."""

    restarts_max: int
    backoff_min_ms: int
    backoff_max_ms: int
    reset_ms: int

    @classmethod
    def of(cls, execution: ExecutionSettings) -> RestartLimits:
        """The limits that the settings give."""
        return cls(
            restarts_max=execution.restarts_max,
            backoff_min_ms=execution.restart_backoff_min_ms,
            backoff_max_ms=execution.restart_backoff_max_ms,
            reset_ms=execution.restart_reset_ms,
        )

    def delay_ms(self, attempt: int, chance: float) -> int:
        """The wait before an attempt: doubled each time, and spread so that not all come at once.

        Args:
            attempt: 1 for the first restart.
            chance: From 0 to 1; the delay lies between one and a half of the full one.

        >>> limits = RestartLimits(10, 500, 30_000, 0)
        >>> [limits.delay_ms(attempt, 0.0) for attempt in (1, 2, 3, 7, 1_000)]
        [500, 1000, 2000, 30000, 30000]
        >>> limits.delay_ms(1, 1.0)
        250
        """
        full = min(self.backoff_min_ms << min(attempt - 1, 30), self.backoff_max_ms)
        return max(1, round(full * (1 - chance / 2)))
