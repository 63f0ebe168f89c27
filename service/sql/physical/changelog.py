"""What each node sends, and who must send what a row was before an update.

Three passes, each from the sink down. First which kinds of change there are. Then whether updates
carry the old row (-U): a node asks its inputs for what it needs, and a pass that cannot be met is
tried again with more. Last whether deletes may carry the key alone; there a ChangelogNormalize that
nobody needs is left out.

Source: Flink `FlinkChangelogModeInferenceProgram` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import InputRef
from service.sql.errors import PlanningError
from service.sql.physical.change_kinds import require_inserts, with_kinds
from service.sql.physical.connectors import deletes_by_key, sink_mode
from service.sql.physical.deletes import with_deletes
from service.sql.physical.keys import upsert_keys
from service.sql.physical.nodes import (
    CalcSpec,
    Deletes,
    ExchangeSpec,
    Node,
    RankSpec,
    SinkSpec,
    Updates,
)
from service.sql.physical.updates import after_only, before_and_after, with_updates

if TYPE_CHECKING:
    from service.sql.options import Options


_TAKES_UPDATES = {
    "filesystem": "a sink with 'format' = 'changelog-json' takes updates and deletes",
    "jdbc": "a sink with a primary key takes updates and deletes",
    "kafka": "a sink with 'format' = 'changelog-json', or 'connector' = 'upsert-kafka', takes "
    "updates and deletes",
}
"""What sinks would have to be where they take inserts only, by connector."""


def infer_changes(sink: Node, options: Options) -> Node:
    """The sink and all below it, with what each node sends.

    Raises:
        PlanningError: A node or the sink cannot take what its input sends.
    """
    known = with_kinds(sink, options, may_overwrite=_keeps_one_of_a_partition(sink))
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "every plan ends in a sink"
    mode = sink_mode(spec.table)
    if mode == "append":
        otherwise = _TAKES_UPDATES.get(spec.table.options.get("connector", ""), "")
        require_inserts(known.input, f"Table sink '{spec.table.summary}'", otherwise)
    for updates in _sink_updates(known, spec):
        made = with_updates(known.input, updates)
        if made is not None:
            break
    else:
        raise PlanningError("Can't generate a valid execution plan for the given query")
    accepts_keys = mode == "upsert" and deletes_by_key(spec.table)
    keys_fit = not spec.table.primary_key or _has_key(known)
    wanted: list[Deletes] = ["KEY", "FULL"] if accepts_keys and keys_fit else ["FULL"]
    for deletes in wanted:
        final = with_deletes(made, deletes if made.changes.has_deletes else "NONE")
        if final is not None:
            return known.over(final)
    raise PlanningError("Can't generate a valid execution plan for the given query")


def _keeps_one_of_a_partition(sink: Node) -> bool:
    """Whether the sink has one row, or none, of each partition of the rank that it is given."""
    spec, node = sink.spec, sink.input
    assert isinstance(spec, SinkSpec), "only sinks are asked"
    columns = [*key_of(spec)]
    while isinstance(node.spec, CalcSpec | ExchangeSpec):
        if isinstance(node.spec, CalcSpec):
            if node.spec.condition is not None:
                # It may drop the row that replaces another one.
                return False
            kept = [node.spec.projection[at] for at in columns]
            columns = [each.index for each in kept if isinstance(each, InputRef)]
            if len(columns) < len(kept):
                return False
        node = node.input
    if not isinstance(node.spec, RankSpec):
        return False
    is_by_key = sink_mode(spec.table) == "upsert" and {*columns} == {*node.spec.partition}
    return is_by_key or spec.table.options.get("connector") == "blackhole"


def key_of(spec: SinkSpec) -> frozenset[int]:
    """The columns of a sink's input that are its primary key."""
    names = [column.name for column in spec.table.written]
    return frozenset(names.index(name) for name in spec.table.primary_key)


def _sink_updates(sink: Node, spec: SinkSpec) -> list[Updates]:
    """What a sink may be sent, the best first."""
    changes = sink.input.changes
    match sink_mode(spec.table):
        case "append":
            return ["NONE"]
        case "retract":
            return [before_and_after(changes)]
        case "upsert":
            if spec.table.primary_key and not _has_key(sink):
                return [before_and_after(changes)]
            return [after_only(changes), before_and_after(changes)]


def _has_key(sink: Node) -> bool:
    """Whether the sink's primary key is an upsert key of what enters it."""
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "only sinks are asked"
    return key_of(spec) in upsert_keys(sink.input)
