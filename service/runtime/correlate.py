"""Correlate nodes as columns: each row with the rows that a table function makes of it.

A collection is spread by Spark's `posexplode`, which keeps the order of an array. Elements of maps
and multisets come in the order of their keys, so that what takes a row back makes the same rows
with the same numbers as the row itself did, in whatever order their entries were written.

A row that is made has the order number of the one that it is made of; its place among what was made
of that one goes behind the place that the row had already (`SEQUENCE`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as F

from operators.wire import PLACE_BITS, SEQUENCE
from service.plan.correlate import ORDINALITY, REPLICATE, element_types, type_of
from service.runtime.expressions import check, is_column, to_column
from service.runtime.expressions.in_python import each_in_python
from service.runtime.frames import named
from service.runtime.wire_columns import (
    control_columns,
    data_columns,
    is_control,
    keep_changes_where,
    long_literal,
    only_in_changes,
    spark_type,
)
from state.types import MAP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame

    from service.plan.nodes import Correlate

_UNPLACED = 1 << PLACE_BITS
_AT, _ELEMENT = "at", "element"
_PLACE, _MADE, _FOUND = "_place", "_made", "_found"


def check_correlate(node: Correlate) -> None:
    """Find out without Spark whether `correlated` will take the node.

    Raises:
        ExpressionError: An operand or the condition has no exact counterpart.
    """
    for operand in node.call.operands:
        check(operand)
    if node.condition is not None:
        check(node.condition)


def correlated(
    frame: DataFrame, node: Correlate, types: Sequence[LogicalType], bits: int, followers: int
) -> DataFrame:
    """Each row beside each row that is made of it; LEFT keeps one of which none is made.

    Args:
        frame: The input.
        node: Its function is one that `service.plan.correlate` knows.
        types: Of the columns of the output: those of the input, then those that are made.
        bits: Of the numbers of rows that are made of one row, which so limit how many may be.
        followers: How many correlates share the bits that there are, this one among them.
    """
    inputs = data_columns(len(frame.columns) - len(control_columns()))
    elements = _elements(node, inputs)
    is_chosen = node.condition is not None or _is_of_rows(node)
    if is_chosen:
        frame, elements = _chosen(frame, node, _numbered(elements), inputs)
    several = F.posexplode_outer(F.when(~is_control(), elements))
    spread = frame.select(*inputs, *control_columns(), several.alias(_PLACE, _MADE))
    if node.kind == "INNER":
        spread = keep_changes_where(spread, F.col(_PLACE).isNotNull())
    place, element = F.col(_PLACE), F.col(_MADE)
    if is_chosen:
        place, element = element.getField(_AT), element.getField(_ELEMENT)
    made = _columns(node, element, place, inputs)
    if node.kind == "LEFT":
        made = [F.when(F.col(_PLACE).isNotNull(), each) for each in made]
    kinds = [spark_type(each) for each in types[len(inputs) :]]
    columns = [each.cast(kind) for each, kind in zip(made, kinds, strict=True)]
    # A row of which none is made has its place among those of other rows, too.
    number = F.coalesce(F.col(_PLACE), F.lit(0))
    behind = _place_behind(F.col(SEQUENCE), number, bits, followers)
    spread = spread.withColumn(SEQUENCE, only_in_changes(behind))
    return spread.select(*named([*inputs, *columns]), *control_columns())


def _elements(node: Correlate, inputs: Sequence[Column]) -> Column:
    """An array with an element for each row that is made."""
    if node.call.name == REPLICATE:
        # All are the same, so only how many there are counts.
        return F.array_repeat(F.lit(True), to_column(node.call.operands[0], inputs).cast("int"))
    (operand,) = node.call.operands
    collection, logical = to_column(operand, inputs), type_of(operand)
    if logical.root not in MAP_ROOTS:
        return collection
    entries = _sorted(F.map_entries(collection), logical)
    if logical.root is TypeRoot.MAP:
        return entries
    repeated = F.transform(
        entries, lambda each: F.array_repeat(each.getField("key"), each.getField("value"))
    )
    return F.flatten(repeated)


def _sorted(entries: Column, logical: LogicalType) -> Column:
    """Entries of a map in the order of their keys, of which no two are equal."""
    if not _has_map(logical.children[-1]):
        return F.sort_array(entries)

    def compared(one: Column, other: Column) -> Column:
        first, second = one.getField("key"), other.getField("key")
        return F.when(first < second, F.lit(-1)).when(first > second, F.lit(1)).otherwise(F.lit(0))

    return F.array_sort(entries, compared)


def _has_map(logical: LogicalType) -> bool:
    return logical.root in MAP_ROOTS or any(map(_has_map, logical.children))


def _numbered(elements: Column) -> Column:
    """The elements, each with its place: what is left out of them changes no number."""
    return F.transform(elements, lambda each, at: F.struct(at.alias(_AT), each.alias(_ELEMENT)))


def _is_of_rows(node: Correlate) -> bool:
    """Whether elements are rows, of which those that are NULL make none."""
    if node.call.name == REPLICATE:
        return False
    logical = type_of(node.call.operands[0])
    return logical.root is not TypeRoot.MAP and logical.children[0].root is TypeRoot.ROW


def _chosen(
    frame: DataFrame, node: Correlate, numbered: Column, inputs: Sequence[Column]
) -> tuple[DataFrame, Column]:
    """The elements of which a row is made, and the frame that they are chosen in."""

    def is_there(each: Column) -> Column:
        return each.getField(_ELEMENT).isNotNull() if _is_of_rows(node) else F.lit(True)

    def columns(each: Column) -> list[Column]:
        return _columns(node, each.getField(_ELEMENT), each.getField(_AT), inputs)

    condition = node.condition
    if condition is None:
        return frame, F.filter(numbered, is_there)
    if is_column(condition):
        return frame, F.filter(
            numbered, lambda each: is_there(each) & to_column(condition, columns(each))
        )
    results, value_of = each_in_python(condition, numbered, lambda each, at: columns(each)[at])
    frame = frame.withColumn(_FOUND, F.when(~is_control(), results))
    return frame, F.filter(
        numbered,
        # As in SQL, what is no row has no condition that could fail.
        lambda each, at: F.when(is_there(each), value_of(F.get(F.col(_FOUND), at))),
    )


def _columns(
    node: Correlate, element: Column, place: Column, inputs: Sequence[Column]
) -> list[Column]:
    """The columns of the row that is made of an element."""
    call = node.call
    if call.name == REPLICATE:
        return [to_column(each, inputs) for each in call.operands[1:]]
    logical = type_of(call.operands[0])
    if logical.root is TypeRoot.MAP:
        made = [element.getField("key"), element.getField("value")]
    elif _is_of_rows(node):
        made = [element.getField(name) for name in logical.children[0].field_names]
    else:
        made = [element]
    assert len(made) == len(element_types(logical))
    return [*made, place + F.lit(1)] if call.name == ORDINALITY else made


def _place_behind(before: Column, number: Column, bits: int, followers: int) -> Column:
    """The place of a row that is made: that of its cause, then its own number.

    What gave the cause its place has left this room, see `service.runtime.place_bits`.
    """
    first = long_literal(_UNPLACED)
    is_unplaced = before >= first
    known = F.when(is_unplaced, before - first).otherwise(F.coalesce(before, long_literal(0)))
    made = F.shiftleft(known, bits) + number
    moved = F.when(is_unplaced, made + first).otherwise(made)
    why = f", all that is possible where {followers} such calls follow each other"
    problem = f"[tailrace:expression] more than {1 << bits} rows are made of one row"
    raised = F.raise_error(F.lit(problem + (why if followers > 1 else ""))).cast("long")
    return F.when(number < F.lit(1 << bits), moved).otherwise(raised)
