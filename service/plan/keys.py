"""The columns that tell the rows of a stream apart: the upsert key of what each node emits.

Two changes with the same upsert key are about the same row. The key decides where a sink needs a
materializer, and how an operator above finds the row that a change takes back. `upsert_keys` is for
people: one key of a node, where the plan names it. `key_sets` follows them through all nodes.

Source: Flink `FlinkRelMdUpsertKeys` (2.3), for the nodes that a plan says enough about.
"""

from __future__ import annotations

from itertools import islice, product
from typing import TYPE_CHECKING

from service.plan.nodes import Calc, DropUpdateBefore, Exchange, Sink, TableScan, WatermarkAssigner
from service.plan.rex import InputRef

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.plan.rex import Rex

Key = tuple[int, ...]
KeySet = frozenset[frozenset[int]]
NO_KEYS: KeySet = frozenset()
CHOICES_MAX = 64
"""Keys that are followed of one whose columns a projection repeats."""
_PASSING = frozenset(
    {
        "drop-update-before", "mini-batch-assigner", "over-aggregate", "temporal-sort",
        "watermark-assigner",
    }
)  # fmt: skip  # a list of names, several a line
_GROUPINGS = {
    "changelog-normalize": "uniqueKeys",
    "deduplicate": "uniqueKeys",
}


def upsert_keys(plan: CompiledPlan) -> dict[int, Key | None]:
    """The upsert key of each node's output, by node id; None where there is none, or unknown.

    An empty key means that there is at most one row. For a sink: that of its input.
    """
    keys: dict[int, Key | None] = {}
    for node in plan.nodes:
        inputs = [keys[source.id] for source in plan.inputs(node.id)]
        keys[node.id] = _key(node, inputs[0] if len(inputs) == 1 else None)
    return keys


def key_sets(plan: CompiledPlan) -> dict[int, KeySet]:
    """All upsert keys of each node's output that are known of, by node id."""
    found: dict[int, KeySet] = {}
    before_exchange: dict[int, KeySet] = {}
    for node in plan.nodes:
        inputs = plan.inputs(node.id)
        given = [found[each.id] for each in inputs]
        # What enters an operator is told apart by what told it apart in front of its exchange.
        entering = [before_exchange.get(each.id, found[each.id]) for each in inputs]
        widths = [len(each.output_type.children) for each in inputs]
        found[node.id] = _keys_of(node, given, entering, widths)
        if isinstance(node.view, Exchange):
            before_exchange[node.id] = given[0]
    return found


def _keys_of(
    node: ExecNode, given: Sequence[KeySet], entering: Sequence[KeySet], widths: Sequence[int]
) -> KeySet:
    short = node.node_type.short
    match node.view:
        case Calc(projection, _):
            return _projected(given[0], projection)
        case Exchange(keys=keys):
            return _containing(given[0], keys)
        case TableScan():
            own = _key(node, None)
            return NO_KEYS if own is None else frozenset({frozenset(own)})
        case _ if short in _PASSING or short == "correlate":
            # A row that a function made several of is told apart by its other columns as well.
            return given[0] if short in _PASSING else NO_KEYS
        case _ if short in ("rank", "sort-limit", "limit"):
            return _ranked(node, given[0])
        case _ if short in ("join", "temporal-join", "interval-join"):
            return _joined(node, entering, widths[0])
        case None if short == "lookup-join":
            return given[0] if node.raw.get("lookupKeyContainsPrimaryKey") is True else NO_KEYS
        case _:
            own = _other_key(node)
            return NO_KEYS if own is None else frozenset({frozenset(own)})


def _containing(keys: KeySet, columns: Iterable[int]) -> KeySet:
    wanted = frozenset(columns)
    return frozenset(key for key in keys if wanted <= key)


def _projected(keys: KeySet, projection: Sequence[Rex]) -> KeySet:
    places: dict[int, list[int]] = {}
    for at, rex in enumerate(projection):
        if isinstance(rex, InputRef):
            places.setdefault(rex.index, []).append(at)
    return frozenset(
        frozenset(chosen)
        for key in keys
        if all(column in places for column in key)
        for chosen in islice(product(*(places[column] for column in sorted(key))), CHOICES_MAX)
    )


def _ranked(node: ExecNode, given: KeySet) -> KeySet:
    fields, number = node.raw.get("partition"), node.raw.get("rankRange")
    partition = _numbers(fields.get("fields") if isinstance(fields, dict) else None)
    if node.node_type.short != "rank":
        return given
    keys = set(given)
    if isinstance(number, dict) and number.get("start") == number.get("end") == 1:
        keys.add(frozenset(partition))
    if node.raw.get("outputRowNumber") is True:
        keys.add(frozenset((*partition, len(node.output_type.children) - 1)))
    return frozenset(keys)


def _joined(node: ExecNode, entering: Sequence[KeySet], width: int) -> KeySet:
    outer = node.raw.get("intervalJoinSpec", node.raw)
    spec = outer.get("joinSpec") if isinstance(outer, dict) else None
    spec = spec if isinstance(spec, dict) else {}
    kind = spec.get("joinType")
    on = [frozenset(_numbers(spec.get(name))) for name in ("leftKeys", "rightKeys")]
    own = _containing(entering[0], on[0])
    if kind in ("SEMI", "ANTI"):
        return own
    other = frozenset(
        frozenset(column + width for column in key) for key in _containing(entering[1], on[1])
    )
    made = {first | second for first in own for second in other}
    if kind in ("INNER", "LEFT") and any(key <= on[1] for key in entering[1]):
        made |= own
    if kind in ("INNER", "RIGHT") and any(key <= on[0] for key in entering[0]):
        made |= other
    return frozenset(made)


def _numbers(value: object) -> tuple[int, ...]:
    return tuple(each for each in value if isinstance(each, int)) if isinstance(value, list) else ()


def _key(node: ExecNode, inherited: Key | None) -> Key | None:
    match node.view:
        case TableScan() as scan:
            return _scan_key(scan)
        case Calc(projection, _):
            positions = {
                rex.index: position
                for position, rex in reversed(list(enumerate(projection)))
                if isinstance(rex, InputRef)
            }
            return _mapped(inherited, positions)
        case Exchange() | WatermarkAssigner() | DropUpdateBefore():
            return inherited
        case Sink() as sink:
            return inherited if sink.input_upsert_key is None else sink.input_upsert_key
        case _:
            return _other_key(node)


def _scan_key(scan: TableScan) -> Key | None:
    """The primary key, if the scan gives all of it."""
    names = [column.name for column in scan.table.schema.physical]
    if scan.projected_fields is not None:
        names = [names[fields[0]] if len(fields) == 1 else "" for fields in scan.projected_fields]
    key = scan.table.schema.primary_key
    if not key or not set(key) <= set(names):
        return None
    return tuple(names.index(name) for name in key)


def _mapped(key: Key | None, positions: dict[int, int]) -> Key | None:
    if key is None or not all(index in positions for index in key):
        return None
    return tuple(positions[index] for index in key)


def _other_key(node: ExecNode) -> Key | None:
    """Nodes that are keyed by what the plan names."""
    kind = node.node_type.short
    if kind in ("group-aggregate", "global-group-aggregate"):
        # The grouping columns come first in the output, in this order.
        grouping = node.raw.get("grouping")
        return tuple(range(len(grouping))) if isinstance(grouping, list) else None
    keys = node.raw.get(_GROUPINGS.get(kind, ""))
    if isinstance(keys, list) and all(isinstance(key, int) and key >= 0 for key in keys):
        return tuple(keys)
    return None
