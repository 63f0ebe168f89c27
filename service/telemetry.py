"""What the service tells about itself: metrics and logs.

Metrics have one registry per application, so that two in one process (tests) do not mix. Labels are
route templates, pipeline names, operator ids and states; never keys, rows or raw paths. What an
epoch did is read from the pipelines' progress streams when `/metrics` is asked, each entry once;
counters start at 0 with the process, as Prometheus expects of them. Dead letters are the exception:
what is told is all that the pipeline ever had, so that what came while nobody looked raises alerts.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import structlog
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.settings import LoggingSettings

Metric = TypeVar("Metric", Counter, Gauge, Histogram)

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_UNMATCHED = "unmatched"
_NAMESPACE = "tailrace"
_PEAKS = {
    "in_flight_peak": "Most changes in flight in the last epoch, added up over its tasks.",
    "active_peak": "Most state requests that gathered for a batch in the last epoch.",
    "blocking_peak": "Most changes that waited for their key in the last epoch.",
    "blocking_keys_peak": "Most keys that changes waited for in the last epoch.",
}
"""What operators tell of their controller, by name in progress records."""
_COUNTS = {
    "batches": ("state_batches", "Batches of state requests."),
    "requests": ("state_requests", "State requests that were sent."),
    "cache_hits": ("cache_hits", "Changes that never waited for state."),
    "round_trips": ("state_round_trips", "Round trips to the state backend."),
}
"""What is counted: the metric's name and text, by name in progress records."""


class Telemetry:
    """The metrics of one application."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of_pipelines: list[Counter | Gauge | Histogram] = []
        self._known: set[str] = set()
        """Pipelines that a metric may have values of."""
        self._dead: dict[str, int] = {}
        """By pipeline: the dead letters that were taken in."""
        self._requests = self._counter(
            "http_requests", "Requests answered.", "method", "route", "status"
        )
        self._durations = self._histogram(
            "http_request_duration_seconds", "Time to the end of an answer.", "method", "route"
        )
        self._ingress = self._counter(
            "ingress_changes", "Lines at ingress.", "pipeline", "table", "outcome"
        )
        self._pipelines = self._gauge("pipelines", "Pipelines by state.", "state")
        self._restarts = self._gauge(
            "pipeline_restarts",
            "How often the query has ended with an error since the pipeline was last well.",
            "pipeline",
        )
        self._lease_held = self._gauge(
            "lease_held", "1 if it is this service that supervises the pipelines."
        )
        self._redis_up = self._gauge(
            "redis_up", "1 if Redis answered these metrics; at 0, what comes from it is as it was."
        )
        self._epoch = self._gauge("pipeline_epoch", "The last closed epoch.", "pipeline")
        self._epochs = self._counter("pipeline_epochs", "Epochs closed.", "pipeline")
        self._rows = self._counter(
            "pipeline_rows", "Changes read and changes emitted.", "pipeline", "direction"
        )
        self._dead_letters = self._counter(
            "pipeline_dead_letters",
            "Lines and records that were no changes, since the pipeline was created.",
            "pipeline",
        )
        self._orphans = self._counter(
            "operator_orphans", "Retractions that matched nothing.", "pipeline", "operator"
        )
        self._late = self._counter(
            "operator_late_rows",
            "Rows that the watermark had passed, and that were dropped.",
            "pipeline",
            "operator",
        )
        self._peaks = {
            name: self._gauge(f"operator_{name}", text, "pipeline", "operator")
            for name, text in _PEAKS.items()
        }
        self._counts = {
            name: self._counter(f"operator_{label}", text, "pipeline", "operator")
            for name, (label, text) in _COUNTS.items()
        }
        self._commits = self._histogram(
            "operator_commit_seconds",
            "Time that an epoch's commit took an operator, added up over its tasks.",
            "pipeline",
            "operator",
        )
        self._closes = self._histogram(
            "pipeline_close_seconds",
            "Time from the begin of an epoch's commit beside the driver until it was closed.",
            "pipeline",
        )

    def request(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request; `route` is its template, None where none matched."""
        name = route or _UNMATCHED
        # Clients can invent methods; a label must not grow with them.
        verb = method if method in _METHODS else "OTHER"
        self._requests.labels(verb, name, str(status)).inc()
        self._durations.labels(verb, name).observe(seconds)

    def ingress(self, pipeline: str, table: str, accepted: int, rejected: int) -> None:
        """Count the lines of an ingress request."""
        self._known.add(pipeline)
        self._ingress.labels(pipeline, table, "accepted").inc(accepted)
        self._ingress.labels(pipeline, table, "rejected").inc(rejected)

    def pipelines(self, states: Mapping[str, str], restarts: Mapping[str, int]) -> None:
        """Take in the present state and the restarts of every pipeline; forget all others."""
        for gone in self._known - states.keys():
            for metric in self._of_pipelines:
                metric.remove_by_labels({"pipeline": gone})
            self._dead.pop(gone, None)
        self._known = {*states}
        self._pipelines.clear()
        self._restarts.clear()
        for state in states.values():
            self._pipelines.labels(state).inc()
        for name, count in restarts.items():
            self._restarts.labels(name).set(count)

    def lease(self, *, held: bool) -> None:
        """Take in whether this service supervises."""
        self._lease_held.set(held)

    def redis(self, *, up: bool) -> None:
        """Take in whether Redis answers."""
        self._redis_up.set(up)

    def progress(self, pipeline: str, epochs: Iterable[Mapping[str, Any]]) -> None:
        """Take in epochs of a pipeline that were not taken in before."""
        for each in epochs:
            self._epoch.labels(pipeline).set(each["epoch"])
            self._epochs.labels(pipeline).inc()
            self._rows.labels(pipeline, "in").inc(each.get("rows_in", 0))
            self._rows.labels(pipeline, "out").inc(each.get("rows_out", 0))
            if (close_ms := each.get("close_ms")) is not None:
                self._closes.labels(pipeline).observe(close_ms / 1_000)
            for node, statistics in each.get("nodes", {}).items():
                self._orphans.labels(pipeline, node).inc(statistics.get("orphans", 0))
                self._late.labels(pipeline, node).inc(statistics.get("late", 0))
                for name, peak in self._peaks.items():
                    if name in statistics:
                        peak.labels(pipeline, node).set(statistics[name])
                for name, count in self._counts.items():
                    count.labels(pipeline, node).inc(statistics.get(name, 0))
                commit_s = statistics.get("commit_ms", 0) / 1_000
                self._commits.labels(pipeline, node).observe(commit_s)

    def dead_letters(self, pipeline: str, count: int) -> None:
        """Take in how many dead letters a pipeline has had; where it is another one, of that."""
        counted = self._dead_letters.labels(pipeline)
        before = self._dead.get(pipeline, 0)
        if count < before:
            counted.reset()
            before = 0
        counted.inc(count - before)
        self._dead[pipeline] = count

    def exposition(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        made = Counter(name, text, labels, namespace=_NAMESPACE, registry=self.registry)
        return self._added(made, labels)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        made = Gauge(name, text, labels, namespace=_NAMESPACE, registry=self.registry)
        return self._added(made, labels)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        made = Histogram(
            name, text, labels, namespace=_NAMESPACE, registry=self.registry, buckets=_SECONDS
        )
        return self._added(made, labels)

    def _added(self, metric: Metric, labels: Sequence[str]) -> Metric:
        if "pipeline" in labels:
            self._of_pipelines.append(metric)
        return metric


_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def configure_logging(settings: LoggingSettings) -> None:
    """Set up structlog and the standard library's loggers; called once, by the command line.

    Libraries log through the standard library, and warn through Python's `warnings`; their lines
    take the same form at the same level.
    """
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(serializer=_dumps)
        if settings.format == "json"
        # Plain tracebacks: the pretty ones show local variables, which hold rows.
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    level = logging.getLevelNamesMapping()[settings.level]
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                last,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.captureWarnings(True)
    # Our own access log has the route instead of the path, which may hold keys.
    for name in ("uvicorn.access", "httpx", "py4j"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _dumps(value: object, **_: object) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
