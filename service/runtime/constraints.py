"""What a sink's table declares of its columns, held against each row before it goes on.

    table.exec.sink.not-null-enforcer     ERROR (default): the query fails; DROP: the row is
    table.exec.sink.type-length-enforcer  IGNORE (default), TRIM_PAD or ERROR, for CHAR, VARCHAR,
                                          BINARY and VARBINARY

As in Flink this comes before the rows are brought together by key and materialized.

Source: Flink `ConstraintEnforcer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as F

from operators.wire import field_name
from service.runtime.node_options import LENGTH_OPTION, NOT_NULL_OPTION, enumerated
from service.runtime.wire_columns import all_of, is_control, keep_changes_where, only_in_changes
from state.types import LENGTH_MAX, TypeRoot

if TYPE_CHECKING:
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame

    from service.plan.nodes import ExecNode, Sink
    from service.plan.tables import Column as TableColumn

_LENGTHS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY})
_FIXED = frozenset({TypeRoot.CHAR, TypeRoot.BINARY})


def constrained(frame: DataFrame, node: ExecNode, sink: Sink) -> DataFrame:
    """The sink's rows, each of which keeps what the table declares."""
    frame = _not_null(frame, node, sink)
    mode = enumerated(node, LENGTH_OPTION)
    if mode == "IGNORE":
        return frame
    for at, column in enumerate(sink.columns):
        kind = column.type
        if kind is not None and kind.root in _LENGTHS and kind.length not in (None, LENGTH_MAX):
            fitted = _fitted(F.col(field_name(at)), column, sink, mode)
            frame = frame.withColumn(field_name(at), only_in_changes(fitted))
    return frame


def _not_null(frame: DataFrame, node: ExecNode, sink: Sink) -> DataFrame:
    columns = [
        (F.col(field_name(at)), column.name)
        for at, column in enumerate(sink.columns)
        if column.type is not None and not column.type.nullable
    ]
    if not columns:
        return frame
    if enumerated(node, NOT_NULL_OPTION) == "DROP":
        return keep_changes_where(frame, all_of([each.isNotNull() for each, _ in columns]))
    checked = F.lit(True)
    for column, name in columns:
        problem = f"[tailrace:sink-refused] column {name} of sink {sink.table.name} is null"
        checked = F.when(column.isNull(), _fail(problem)).otherwise(checked)
    return frame.filter(is_control() | checked)


def _fitted(value: Column, column: TableColumn, sink: Sink, mode: str) -> Column:
    """A text or binary value of the declared length, or an error."""
    assert column.type is not None
    length, is_fixed = column.type.length or 1, column.type.root in _FIXED
    is_text = column.type.root in (TypeRoot.CHAR, TypeRoot.VARCHAR)
    size = F.length(value)
    if mode == "ERROR":
        wrong = size != length if is_fixed else size > length
        problem = f"[tailrace:sink-refused] column {column.name} of sink {sink.table.name}"
        return F.when(wrong, _fail(f"{problem} has another length")).otherwise(value)
    pad = F.lit(" ") if is_text else F.lit(b"\x00")
    cut = F.substring(value, 1, length)
    return F.rpad(cut, F.lit(length), pad) if is_fixed else cut


def _fail(message: str) -> Column:
    """An expression that ends the query when a row gets here."""
    return F.raise_error(F.lit(message))
