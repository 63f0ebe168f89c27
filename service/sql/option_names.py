"""The options that SET may name.

Those of Flink's that say how a query is planned or run are honoured, or refused by name: one that
was set and does nothing would be found out by its results. Names outside of Flink's three groups
are a user's own, which nothing reads.
"""

from __future__ import annotations

from typing import Final

from service.sql.errors import UnsupportedSql, nearest

_GROUPS: Final = ("table.", "execution.", "pipeline.")
_ADAPTIVE: Final = "table.exec.sink.upsert-materialize-strategy.adaptive.threshold"
THRESHOLD_HIGH: Final = f"{_ADAPTIVE}.high"
THRESHOLD_LOW: Final = f"{_ADAPTIVE}.low"
HONOURED: Final = frozenset(
    {
        "execution.async-state.active-buffer-size",
        "execution.async-state.active-buffer-timeout",
        "execution.async-state.total-buffer-size",
        "pipeline.name",
        "table.dynamic-table-options.enabled",
        "table.exec.async-state.enabled",
        "table.exec.deduplicate.insert-update-after-sensitive-enabled",
        "table.exec.deduplicate.mini-batch.compact-changes-enabled",
        "table.exec.mini-batch.allow-latency",
        "table.exec.mini-batch.enabled",
        "table.exec.mini-batch.size",
        "table.exec.rank.topn-cache-size",
        "table.exec.sink.keyed-shuffle",
        "table.exec.sink.not-null-enforcer",
        "table.exec.sink.require-on-conflict",
        "table.exec.sink.rowtime-inserter",
        "table.exec.sink.type-length-enforcer",
        "table.exec.sink.upsert-materialize",
        "table.exec.sink.upsert-materialize-strategy.type",
        THRESHOLD_HIGH,
        THRESHOLD_LOW,
        "table.exec.source.cdc-events-duplicate",
        "table.exec.source.idle-timeout",
        "table.exec.state.ttl",
        "table.local-time-zone",
        "table.optimizer.agg-phase-strategy",
        "table.optimizer.distinct-agg.split.bucket-num",
        "table.optimizer.distinct-agg.split.enabled",
        "table.optimizer.incremental-agg-enabled",
        "table.optimizer.multi-join.enabled",
        "table.optimizer.non-deterministic-update.strategy",
        "table.optimizer.reuse-sink-enabled",
        "table.optimizer.reuse-sub-plan-enabled",
        "table.plan.compile.catalog-objects",
        "table.plan.force-recompile",
        "table.plan.restore.catalog-objects",
    }
)
_AS_IT_IS: Final = {
    "execution.runtime-mode": "streaming",
    "table.dml-sync": "false",
    "table.exec.emit.early-fire.enabled": "false",
    "table.exec.emit.late-fire.enabled": "false",
    "table.exec.legacy-cast-behaviour": "disabled",
    "table.optimizer.join-reorder-enabled": "false",
    "table.sql-dialect": "default",
}
"""What is so here anyway: the name, and the only value that it may have."""
_EMITS: Final = "table.exec.emit."
_NO_MATTER: Final = (
    "execution.attached",
    "execution.buffer-timeout",
    "execution.checkpointing.",
    "execution.target",
    "pipeline.object-reuse",
    "pipeline.operator-chaining",
    "table.display.",
    "table.exec.async-lookup.",
    "table.exec.resource.default-parallelism",
)
"""Where, how fast and with how many tasks Flink runs a job, which changes no row: a setting says
the parallelism, and an epoch closes by itself."""


def check_option(name: str, value: str) -> None:
    """Refuse an option of Flink's that would do nothing.

    Raises:
        UnsupportedSql: It is one.
    """
    if not name.startswith(_GROUPS) or name in HONOURED or name.startswith(_NO_MATTER):
        return
    only = _AS_IT_IS.get(name)
    if only is None and name.startswith(_EMITS):
        raise UnsupportedSql(
            f"option {name} is not honoured: a window of GROUP BY comes out once, when it is over",
            hint="GROUP BY FLOOR(time TO HOUR), or CUMULATE, gives results before the end",
        )
    if only is None:
        raise UnsupportedSql(f"option {name} is not honoured", hint=nearest(name, HONOURED))
    if value.strip().lower() != only:
        raise UnsupportedSql(f"option {name} can only be {only!r}")
