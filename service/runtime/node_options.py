"""Options in a node's `configuration`: those in force when the plan was compiled.

Flink's plans carry them so that a later default does not alter a running query. A sink's are
honoured, or say what the planner has already put into the plan; any other of a node that runs here
is refused by name.

    table.exec.sink.not-null-enforcer      ERROR (default) or DROP
    table.exec.sink.type-length-enforcer   IGNORE (default), TRIM_PAD or ERROR
    table.exec.sink.upsert-materialize-strategy.adaptive.threshold.high, .low
                                           rows of a history; the pipeline's own options win
    table.exec.mini-batch.enabled          whether operators emit once a key and bundle: an epoch
                                           is a bundle, so sizes and latencies say nothing here
    table.exec.rank.topn-cache-size        an epoch's state is in memory; nothing depends on it
    table.exec.deduplicate.*               see `service.runtime.specs.deduplicate`
    table.local-time-zone                  of windows, and of expressions of any node

Source: Flink `ExecutionConfigOptions` (2.3), whose enumerations are read without regard to case.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from operators.time_zones import UnknownZone, time_zone
from service.plan.local_zone import ZONE_OPTION
from service.plan.nodes import Sink
from service.plan.properties import pointer_token
from service.runtime.dataflow_errors import InvalidNodeOption, UnsupportedNode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.plan.nodes import ExecNode

NOT_NULL_OPTION = "table.exec.sink.not-null-enforcer"
LENGTH_OPTION = "table.exec.sink.type-length-enforcer"
_STRATEGY = "table.exec.sink.upsert-materialize-strategy"
STRATEGY_OPTION = f"{_STRATEGY}.type"
HIGH_OPTION = f"{_STRATEGY}.adaptive.threshold.high"
LOW_OPTION = f"{_STRATEGY}.adaptive.threshold.low"

_ENUMERATIONS: Mapping[str, tuple[str, ...]] = {
    NOT_NULL_OPTION: ("ERROR", "DROP"),
    LENGTH_OPTION: ("IGNORE", "TRIM_PAD", "ERROR"),
    # Rows of one key meet in one task here, whatever the sink's parallelism.
    "table.exec.sink.keyed-shuffle": ("AUTO", "NONE", "FORCE"),
    # Rows carry no timestamp beside their columns.
    "table.exec.sink.rowtime-inserter": ("ENABLED", "DISABLED"),
    # What came of it is the plan's requireUpsertMaterialize.
    "table.exec.sink.upsert-materialize": ("AUTO", "NONE", "FORCE"),
    # What came of it is the plan's upsertMaterializeStrategy, see `check_configuration`.
    STRATEGY_OPTION: ("LEGACY", "VALUE", "MAP", "ADAPTIVE"),
}
_NUMBERS = (HIGH_OPTION, LOW_OPTION)
_BOOLEAN = ("TRUE", "FALSE")
_BUNDLES: Mapping[str, tuple[str, ...] | None] = {
    "table.exec.mini-batch.enabled": _BOOLEAN,
    "table.exec.mini-batch.size": None,
    "table.exec.mini-batch.allow-latency": None,
}
_DEDUPLICATION: Mapping[str, tuple[str, ...] | None] = {
    "table.exec.deduplicate.insert-update-after-sensitive-enabled": _BOOLEAN,
    "table.exec.deduplicate.mini-batch.compact-changes-enabled": _BOOLEAN,
    "table.exec.deduplicate.mini-batch.compact-changes": _BOOLEAN,
}
_RANKING: Mapping[str, tuple[str, ...] | None] = {"table.exec.rank.topn-cache-size": None}
_ZONE: Mapping[str, tuple[str, ...] | None] = {ZONE_OPTION: None}
_CLEANUP: Mapping[str, tuple[str, ...] | None] = {
    "table.exec.interval-join.min-cleanup-interval": None
}
_OF_OPERATORS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "changelog-normalize": _BUNDLES,
    "deduplicate": {**_BUNDLES, **_DEDUPLICATION},
    "global-group-aggregate": _BUNDLES,
    "global-window-aggregate": _ZONE,
    "group-aggregate": _BUNDLES,
    "group-window-aggregate": {**_BUNDLES, **_ZONE},
    "incremental-group-aggregate": _BUNDLES,
    "interval-join": _CLEANUP,
    "join": _BUNDLES,
    "limit": _RANKING,
    "local-group-aggregate": _BUNDLES,
    "local-window-aggregate": _ZONE,
    "mini-batch-assigner": _BUNDLES,
    "multi-join": _BUNDLES,
    "rank": {**_BUNDLES, **_RANKING},
    "sort-limit": _RANKING,
    "window-aggregate": _ZONE,
    "window-deduplicate": _ZONE,
    "window-join": _ZONE,
    "window-rank": _ZONE,
    "window-table-function": _ZONE,
}
"""Options of nodes that operators run, with the values they may have; None: any, or the builder of
the operator looks at it."""


def enumerated(node: ExecNode, name: str) -> str:
    """The value of an option of a sink in upper case, its default where the node has none.

    Raises:
        InvalidNodeOption: it is none of Flink's.
    """
    allowed = _ENUMERATIONS[name]
    value = node.configuration.get(name, allowed[0]).upper()
    if value not in allowed:
        raise _refused(node, name, f'option "{name}" does not have this value', ", ".join(allowed))
    return value


def threshold(node: ExecNode, name: str) -> int | None:
    """A threshold of the adaptive strategy, None where the node has none.

    Raises:
        InvalidNodeOption: it is no number.
    """
    text = node.configuration.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise _refused(node, name, f'option "{name}" is not a number of rows', "for example 1000")
    return int(text)


def check_configuration(node: ExecNode) -> None:
    """Refuse what is not honoured of a node that runs here.

    Raises:
        UnsupportedNode: an option is none that is honoured.
        InvalidNodeOption: it has a value that Flink does not know.
    """
    if isinstance(node.view, Sink):
        _check_sink(node, node.view)
        return
    known = _OF_OPERATORS.get(node.node_type.short, {})
    for name, value in node.configuration.items():
        if name == ZONE_OPTION:
            _check_zone(node, value)
            continue
        if name not in known:
            raise _not_honoured(node, name, known)
        values = known[name]
        if values is not None and value.upper() not in values:
            message = f'option "{name}" does not have this value'
            raise _refused(node, name, message, ", ".join(values).lower())


def _check_zone(node: ExecNode, zone: str) -> None:
    try:
        time_zone(zone)
    except UnknownZone as error:
        message = f'option "{ZONE_OPTION}" names no zone that there is'
        raise _refused(node, ZONE_OPTION, message, "for example Europe/Berlin") from error


def _check_sink(node: ExecNode, sink: Sink) -> None:
    keeper = sink if sink.require_upsert_materialize else None
    known = [*_ENUMERATIONS, *_NUMBERS]
    for name in node.configuration:
        if name not in known:
            raise _not_honoured(node, name, known)
        if name in _NUMBERS:
            threshold(node, name)
            continue
        value = enumerated(node, name)
        if name == STRATEGY_OPTION and keeper is not None and value != keeper.strategy:
            message = f'option "{name}" and the plan\'s upsertMaterializeStrategy differ'
            raise _refused(node, name, message, f"the plan says {keeper.strategy}")


def _not_honoured(node: ExecNode, name: str, known: Iterable[str]) -> UnsupportedNode:
    near = difflib.get_close_matches(name, list(known), 1, cutoff=0.75)
    return UnsupportedNode(
        f'option "{name}" of {node.type} is not honoured',
        hint=f'did you mean "{near[0]}"?' if near else "compile the plan without it",
        node_id=node.id,
        path=_place(node, name),
    )


def _refused(node: ExecNode, name: str, message: str, hint: str) -> InvalidNodeOption:
    return InvalidNodeOption(message, hint=hint, node_id=node.id, path=_place(node, name))


def _place(node: ExecNode, name: str) -> str:
    return f"{node.path}/configuration/{pointer_token(name)}"
