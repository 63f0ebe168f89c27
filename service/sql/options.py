"""The options of a session that decide what a plan looks like.

Source: Flink `ExecutionConfigOptions` and `OptimizerConfigOptions` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.plan.durations import format_duration_ms, parse_duration_ms
from service.plan.errors import DurationError
from service.sql.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MINI_BATCH_OPTIONS = {"table.exec.mini-batch.enabled": "false", "table.exec.mini-batch.size": "-1"}
DEDUPLICATE_OPTIONS = {
    "table.exec.deduplicate.insert-update-after-sensitive-enabled": "true",
    "table.exec.deduplicate.mini-batch.compact-changes-enabled": "false",
    **MINI_BATCH_OPTIONS,
}
RANK_OPTIONS = {"table.exec.rank.topn-cache-size": "10000"}
SINK_OPTIONS = {
    "table.exec.sink.keyed-shuffle": "AUTO",
    "table.exec.sink.not-null-enforcer": "ERROR",
    "table.exec.sink.rowtime-inserter": "ENABLED",
    "table.exec.sink.type-length-enforcer": "IGNORE",
    "table.exec.sink.upsert-materialize": "AUTO",
}
WINDOW_OPTIONS = {"table.local-time-zone": "UTC"}
_CHOICES = {
    "table.optimizer.agg-phase-strategy": ("AUTO", "ONE_PHASE", "TWO_PHASE"),
    "table.exec.sink.upsert-materialize": ("AUTO", "NONE", "FORCE"),
    "table.exec.sink.upsert-materialize-strategy.type": ("LEGACY", "MAP", "VALUE", "ADAPTIVE"),
    "table.optimizer.non-deterministic-update.strategy": ("IGNORE", "TRY_RESOLVE"),
    "table.plan.compile.catalog-objects": ("ALL", "SCHEMA", "IDENTIFIER"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What SET says, and defaults for the rest."""

    values: Mapping[str, str]

    def text(self, key: str, default: str) -> str:
        """An option, or its default; of a closed set, in upper case.

        Raises:
            ValidationError: It is none of those that it may be.
        """
        value = self.values.get(key, default)
        allowed = _CHOICES.get(key)
        if allowed is None:
            return value
        if value.upper() not in allowed:
            raise ValidationError(
                f"option {key} cannot be {value!r}", hint=f"one of {', '.join(allowed)}"
            )
        return value.upper()

    def flag(self, key: str, *, default: bool) -> bool:
        """A boolean option.

        Raises:
            ValidationError: It is neither true nor false.
        """
        value = self.values.get(key, str(default)).strip().lower()
        if value not in ("true", "false"):
            raise ValidationError(f"option {key} must be true or false, not {value!r}")
        return value == "true"

    def duration_ms(self, key: str) -> int:
        """A duration; 0 where it is not set.

        Raises:
            ValidationError: It is none.
        """
        try:
            return parse_duration_ms(self.values.get(key, "0 ms"))
        except DurationError as problem:
            raise ValidationError(f"option {key}: {problem}") from problem

    def integer(self, key: str, default: int) -> int:
        """A whole number.

        Raises:
            ValidationError: It is none.
        """
        try:
            return int(self.values.get(key, str(default)))
        except ValueError:
            raise ValidationError(f"option {key} must be a whole number") from None

    def configuration(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """What a node captures of the options when it is compiled."""
        return {key: self.values.get(key, default) for key, default in sorted(defaults.items())}

    def states(
        self, names: Sequence[str], ttls: Iterable[str | None]
    ) -> list[dict[str, int | str]]:
        """A node's entries of state, each with its hint's time to live or the session's."""
        made: list[dict[str, int | str]] = []
        for index, (name, ttl) in enumerate(zip(names, ttls, strict=True)):
            shown = self.state_ttl if ttl is None else format_duration_ms(parse_duration_ms(ttl))
            made.append({"index": index, "ttl": shown, "name": name})
        return made

    @property
    def catalog_objects(self) -> str:
        """How much of a table a plan holds: ALL, SCHEMA or IDENTIFIER."""
        return self.text("table.plan.compile.catalog-objects", "ALL")

    @property
    def state_ttl(self) -> str:
        """The time to live of state, as a plan writes it."""
        return format_duration_ms(self.duration_ms("table.exec.state.ttl"))

    @property
    def mini_batch(self) -> bool:
        """Whether changes are gathered before they are processed."""
        return self.flag("table.exec.mini-batch.enabled", default=False)

    @property
    def mini_batch_ms(self) -> int:
        """How long changes are gathered.

        Raises:
            ValidationError: Mini-batch is on, and this or the size is not above 0.
        """
        interval = self.duration_ms("table.exec.mini-batch.allow-latency")
        if self.mini_batch and interval <= 0:
            raise ValidationError(
                "When table.exec.mini-batch.enabled is true, table.exec.mini-batch.allow-latency "
                "must be positive."
            )
        return interval

    @property
    def two_phase(self) -> bool:
        """Whether aggregates may be computed in two phases."""
        strategy = self.text("table.optimizer.agg-phase-strategy", "AUTO")
        return self.mini_batch and strategy != "ONE_PHASE"

    @property
    def splits_distinct(self) -> bool:
        """Whether DISTINCT aggregates are spread over buckets."""
        return self.flag("table.optimizer.distinct-agg.split.enabled", default=False)

    @property
    def distinct_buckets(self) -> int:
        """How many buckets."""
        return self.integer("table.optimizer.distinct-agg.split.bucket-num", 1024)

    @property
    def incremental(self) -> bool:
        """Whether the middle two of four aggregation steps become one."""
        return self.flag("table.optimizer.incremental-agg-enabled", default=True)

    @property
    def has_duplicate_changes(self) -> bool:
        """Whether sources of changes may send one more than once."""
        return self.flag("table.exec.source.cdc-events-duplicate", default=False)

    @property
    def multi_join(self) -> bool:
        """Whether chains of joins on one key become one node."""
        return self.flag("table.optimizer.multi-join.enabled", default=False)

    @property
    def resolves_updates(self) -> bool:
        """Whether what is taken back must be what it was: lookups are kept, the rest refused."""
        key = "table.optimizer.non-deterministic-update.strategy"
        return self.text(key, "IGNORE") == "TRY_RESOLVE"

    @property
    def requires_conflict(self) -> bool:
        """Whether a query must say what becomes of conflicting keys."""
        return self.flag("table.exec.sink.require-on-conflict", default=True)

    @property
    def reuses_plans(self) -> bool:
        """Whether equal parts of a plan are computed once."""
        return self.flag("table.optimizer.reuse-sub-plan-enabled", default=True)

    @property
    def reuses_sinks(self) -> bool:
        """Whether statements that write one table in the same way have one sink."""
        asked = self.flag("table.optimizer.reuse-sink-enabled", default=True)
        return asked and self.reuses_plans
