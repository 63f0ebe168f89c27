"""Lookup joins: which columns are looked up by, what is left to check.

Equality with a column of the input, or with a constant, is a lookup key. Other conditions on the
table alone are its filter, the rest is the join's condition. With a filter or a selection the table
gives only the columns that are needed.

Source: Flink `CommonPhysicalLookupJoin` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, Rex
from service.sql.algebra import Filter, Project, Relation, Scan
from service.sql.constant_folding import folded
from service.sql.errors import PlanningError
from service.sql.physical.calc import calc
from service.sql.physical.connectors import is_lookup
from service.sql.physical.nodes import LookupJoinSpec, Node
from service.sql.rex import call, cast, conjunction, conjuncts, inputs_of, ref, remap, shift
from service.sql.terms import join_row
from service.sql.types import BOOLEAN, regular
from state.types import BINARY_ROOTS, STRING_ROOTS

if TYPE_CHECKING:
    from service.sql.algebra import VersionJoin
    from service.sql.options import Options
    from state.types import LogicalType


def lookup_join(left: Node, join: VersionJoin, options: Options) -> Node:
    """The node of a join in processing time.

    Raises:
        PlanningError: The table is not one that can be looked up, or by nothing.
    """
    del options  # whether it must be materialized is settled with the changes of its input
    scan, own_filter = _table(join.right)
    width = len(join.left.row)
    parts = conjuncts(join.condition)
    keys = _lookup_keys(parts, width)
    if not keys:
        raise PlanningError(
            "Temporal table join requires an equality condition on fields of table "
            f"[{scan.table.summary}]."
        )
    used_as_key = [part for part in parts if _field_pair(part, width) is not None]
    rest = [part for part in parts if part not in used_as_key]
    on_table = [part for part in rest if inputs_of(part) and min(inputs_of(part)) >= width]
    joined = [part for part in rest if part not in on_table]
    filters = own_filter + [shift(part, -width) for part in on_table]
    return _narrowed(left, join, scan, keys, joined, filters)


def _table(relation: Relation) -> tuple[Scan, list[Rex]]:
    """The table that is looked up, and what filters it."""
    filters: list[Rex] = []
    while isinstance(relation, (Filter, Project)):
        if isinstance(relation, Project):
            raise PlanningError("a lookup join needs a table, not a query")
        filters += conjuncts(relation.condition)
        relation = relation.input
    if not isinstance(relation, Scan) or not is_lookup(relation.table):
        raise PlanningError(
            "Processing-time temporal join is not supported yet.",
            hint="the table cannot be looked up",
        )
    return relation, filters


def _lookup_keys(parts: list[Rex], width: int) -> dict[int, int | Literal]:
    """Column of the table, and the input's column or the constant that it must equal."""
    keys: dict[int, int | Literal] = {}
    for part in parts:
        pair = _field_pair(part, width)
        if pair is not None:
            keys.setdefault(pair[1], pair[0])
    for part in parts:
        constant = _constant(part, width)
        if constant is not None:
            keys.setdefault(*constant)
    return keys if any(isinstance(each, int) for each in keys.values()) or keys else {}


def _field_pair(part: Rex, width: int) -> tuple[int, int] | None:
    if not isinstance(part, Call) or part.name != "=":
        return None
    first, second = part.operands
    if not isinstance(first, InputRef) or not isinstance(second, InputRef):
        return None
    if not _is_compared(first.type, second.type):
        return None
    low, high = sorted((first.index, second.index))
    return (low, high - width) if low < width <= high else None


def _is_compared(left: LogicalType, right: LogicalType) -> bool:
    """Whether equal values of both types are the same to a table that is asked for one."""
    if left.root is right.root and left.root in STRING_ROOTS | BINARY_ROOTS:
        return True
    return regular(left).with_nullable(True) == regular(right).with_nullable(True)


def _constant(part: Rex, width: int) -> tuple[int, Literal] | None:
    if not isinstance(part, Call) or part.name != "=":
        return None
    first, second = part.operands
    if isinstance(second, InputRef):
        first, second = second, first
    if not isinstance(first, InputRef) or first.index < width:
        return None
    if not isinstance(second, Literal) or second.value is None:
        return None
    if _is_compared(first.type, second.type):
        return first.index - width, second
    # The column is asked for by a value of its own type, if that is the same value.
    found = folded(cast(second, first.type.with_nullable(False)))
    is_same = isinstance(found, Literal) and folded(call("=", [found, second], BOOLEAN))
    if isinstance(is_same, Literal) and is_same.value is True:
        assert isinstance(found, Literal), "it was compared"
        return first.index - width, found
    return None


def _narrowed(
    left: Node,
    join: VersionJoin,
    scan: Scan,
    keys: dict[int, int | Literal],
    joined: list[Rex],
    filters: list[Rex],
) -> Node:
    """The join with the table's columns that are read above, then the columns as they were."""
    width = len(join.left.row)
    row = scan.row
    needed = sorted(
        join.used_right
        | {index - width for part in joined for index in inputs_of(part) if index >= width}
        | {column for column, by in keys.items() if isinstance(by, int)}
    )
    projection = None
    if needed != list(range(len(row))) or filters:
        projection = tuple(ref(index, row.types[index]) for index in needed)
    else:
        needed = list(range(len(row)))
    places = {index: index for index in range(width)}
    places |= {width + index: width + place for place, index in enumerate(needed)}
    on_left = [part for part in joined if max(inputs_of(part), default=width) < width]
    condition = conjunction([part for part in joined if part not in on_left])
    spec = LookupJoinSpec(
        join.kind,
        scan.table,
        row,
        tuple(sorted(keys.items())),
        None if condition is None else remap(condition, places),
        conjunction(on_left),
        projection,
        conjunction(filters),
        bool(scan.table.primary_key)
        and {row.names.index(name) for name in scan.table.primary_key} <= set(keys),
        retries=join.retries,
    )
    kept = replace(
        row,
        names=tuple(row.names[index] for index in needed),
        types=tuple(row.types[index] for index in needed),
    )
    made = Node(spec, (left,), join_row(join.left.row, kept, join.kind))
    if len(needed) == len(row):
        return made
    return _padded(made, join, needed)


def _padded(made: Node, join: VersionJoin, needed: list[int]) -> Node:
    """The columns of the relation; those that nobody reads are taken from any other."""
    width = len(join.left.row)
    wide = join.row
    outputs: list[Rex] = []
    for index, kind in enumerate(wide.types):
        place = index if index < width else None
        if index >= width and index - width in needed:
            place = width + needed.index(index - width)
        outputs.append(
            Literal(None, kind.with_nullable(True), "")
            if place is None
            else ref(place, made.row.types[place])
        )
    return calc(made, outputs, wide.names)
