"""The columns that tell a node's rows apart, by which a change finds the row that it is about.

A set of columns is an upsert key if changes with equal values in it are about one row *and* arrive
in order. An exchange breaks that order for keys that do not contain what it distributes by.

Source: Flink `FlinkRelMdUpsertKeys` and `FlinkRelMdUniqueKeys` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef
from service.sql.deadline import check_time
from service.sql.java_maps import place_of
from service.sql.physical.nodes import (
    AggregateSpec,
    CalcSpec,
    DropUpdateBeforeSpec,
    ExchangeSpec,
    GlobalAggregateSpec,
    IntervalJoinSpec,
    JoinKeys,
    JoinSpec,
    LookupJoinSpec,
    MiniBatchSpec,
    MultiJoinSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    TemporalJoinSpec,
    TemporalSortSpec,
    ValuesSpec,
    WatermarkSpec,
)
from service.sql.physical.window_specs import GroupWindowsSpec, WindowRankSpec
from state.types import INTEGER_BITS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.plan.rex import Rex

Key = frozenset[int]
Keys = frozenset[Key]
NONE: Keys = frozenset()
_PASSING = (WatermarkSpec, MiniBatchSpec, DropUpdateBeforeSpec, OverSpec, TemporalSortSpec)


def upsert_keys(node: Node) -> Keys:
    """The upsert keys of what a node sends."""
    check_time()
    spec = node.spec
    if isinstance(spec, _PASSING):
        return upsert_keys(node.input)
    match spec:
        case ScanSpec():
            names = node.row.names
            key = spec.table.primary_key
            return frozenset({frozenset(names.index(each) for each in key)}) if key else NONE
        case CalcSpec():
            return _projected(upsert_keys(node.input), spec)
        case ExchangeSpec():
            return _containing(upsert_keys(node.input), spec.keys)
        case NormalizeSpec():
            return frozenset({frozenset(spec.keys)})
        case AggregateSpec() | GlobalAggregateSpec():
            return frozenset({frozenset(range(len(spec.grouping)))})
        case GroupWindowsSpec():
            return _windowed(node, spec)
        case RankSpec() | WindowRankSpec():
            return _ranked(node, spec)
        case JoinSpec() | IntervalJoinSpec() | TemporalJoinSpec():
            return _joined(node, spec.keys)
        case LookupJoinSpec():
            return upsert_keys(node.input) if spec.contains_primary_key else NONE
        case MultiJoinSpec():
            return _multi_joined(node, spec)
        case _:
            return NONE


def are_known(node: Node) -> bool:
    """Whether anything is known of a node's upsert keys, be it that there are none.

    Nothing is known of a table without a primary key, nor of what only passes its rows on.
    """
    spec = node.spec
    if isinstance(spec, ScanSpec):
        return bool(spec.table.primary_key)
    if isinstance(spec, ValuesSpec):
        return False
    passes = isinstance(spec, (*_PASSING, ExchangeSpec, RankSpec))
    return are_known(node.input) if passes else True


def unfiltered_keys(node: Node) -> Keys:
    """The keys of what enters an operator: of its exchange's input, if it has one."""
    source = node.input if isinstance(node.spec, ExchangeSpec) else node
    return upsert_keys(source)


def smallest(keys: Keys) -> tuple[int, ...] | None:
    """The key with the fewest and then first columns; None if there is none."""
    ordered = sorted((len(key), sorted(key)) for key in keys)
    return tuple(ordered[0][1]) if ordered else None


def listed(keys: Keys) -> list[list[int]]:
    """The keys as a plan lists them: in the order in which a Java hash set gives bit sets."""
    return sorted(map(sorted, keys), key=lambda columns: (_bucket(columns), columns))


def _bucket(columns: Sequence[int]) -> int:
    """Where a set of columns stands in a hash set of sixteen places.

    Source: Calcite `ImmutableBitSet.hashCode`.
    """
    number = 1234
    words: dict[int, int] = {}
    for column in columns:
        words[column // 64] = words.get(column // 64, 0) | 1 << column % 64
    for at, word in words.items():
        number ^= word * (at + 1)
    return place_of(number >> 32 ^ number)


def _containing(keys: Keys, columns: Iterable[int]) -> Keys:
    wanted = frozenset(columns)
    return frozenset(key for key in keys if wanted <= key)


def _projected(keys: Keys, spec: CalcSpec) -> Keys:
    if not any(isinstance(rex, InputRef) for rex in spec.projection):
        # That there is one row at most is not known of rows without a column of the input.
        keys -= {frozenset()}
    places: dict[int, list[int]] = {}
    for position, rex in enumerate(spec.projection):
        column = source_of(rex)
        if column is not None:
            places.setdefault(column, []).append(position)
    made: set[Key] = set()
    for key in keys:
        if all(column in places for column in key):
            made |= _choices(sorted(key), places)
    return frozenset(made)


def _choices(columns: list[int], places: dict[int, list[int]]) -> set[Key]:
    found: set[Key] = {frozenset()}
    for column in columns:
        found = {key | {place} for key in found for place in places[column]}
    return found


def source_of(rex: Rex) -> int | None:
    """The column whose value an expression gives, maybe in a wider type."""
    if isinstance(rex, InputRef):
        return rex.index
    if isinstance(rex, Call) and rex.name == "CAST" and isinstance(rex.operands[0], InputRef):
        operand, target = rex.operands[0], rex.type
        assert target is not None, "every call has a type"
        source = operand.type
        if source.root is target.root and source.length == target.length:
            return operand.index if source.precision == target.precision else None
        if source.root in INTEGER_BITS:
            is_wider = INTEGER_BITS.get(target.root, 0) > INTEGER_BITS[source.root]
            is_text = target.root is TypeRoot.VARCHAR and (target.length or 0) >= 20
            return operand.index if is_wider or is_text else None
    return None


def _windowed(node: Node, spec: GroupWindowsSpec) -> Keys:
    """A group, with anything that tells of its window."""
    groups = range(len(spec.grouping))
    begin = len(node.row) - len(spec.properties)
    return frozenset(frozenset((*groups, begin + at)) for at in range(len(spec.properties)))


def _ranked(node: Node, spec: RankSpec | WindowRankSpec) -> Keys:
    keys = upsert_keys(node.input)
    if isinstance(spec, RankSpec) and spec.kind != "rank":
        # A row that leaves the first ones is followed in the order that it was sorted by.
        return _containing(keys, (key.column for key in spec.order))
    if spec.range.start == spec.range.end == 1:
        keys |= {frozenset(spec.partition)}
    if spec.has_number:
        place = frozenset((*spec.partition, len(node.row) - 1))
        # Changes are about places: a row that moves comes at its new place before it goes from its
        # old one, and goes without a word where a -U is not asked for. Flink lists its key, too.
        return frozenset({place}) if isinstance(spec, RankSpec) else keys | {place}
    return keys


def _joined(node: Node, on: JoinKeys) -> Keys:
    left, right = (unfiltered_keys(each) for each in node.inputs)
    own = _containing(left, on.left)
    if on.kind in ("SEMI", "ANTI"):
        return own
    width = len(node.inputs[0].row)
    other = frozenset(
        frozenset(column + width for column in key) for key in _containing(right, on.right)
    )
    made = {first | second for first in own for second in other}
    if any(key <= frozenset(on.right) for key in right) and on.kind in ("INNER", "LEFT"):
        made |= own
    if any(key <= frozenset(on.left) for key in left) and on.kind in ("INNER", "RIGHT"):
        made |= other
    return frozenset(made)


def _multi_joined(node: Node, spec: MultiJoinSpec) -> Keys:
    """The keys of the same joins one after the other."""
    made: Keys = _containing(unfiltered_keys(node.inputs[0]), spec.common_keys[0])
    is_single = any(
        key <= frozenset(spec.common_keys[0]) for key in unfiltered_keys(node.inputs[0])
    )
    width = len(node.inputs[0].row)
    for index, given in enumerate(node.inputs[1:], start=1):
        keys, on = unfiltered_keys(given), spec.common_keys[index]
        shifted = frozenset(
            frozenset(column + width for column in key) for key in _containing(keys, on)
        )
        next_single = any(key <= frozenset(on) for key in keys)
        combined = {first | second for first in made for second in shifted}
        if next_single:
            combined |= made
        if is_single and spec.kinds[index] == "INNER":
            combined |= shifted
        made, is_single = frozenset(combined), is_single and next_single
        width += len(given.row)
    return made
