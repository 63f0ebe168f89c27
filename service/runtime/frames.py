"""What nodes without state make of DataFrames of wire columns, on the JVM."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as F
from pyspark.sql.types import IntegerType

from operators.wire import INPUT, KEY_GROUP, KIND, ORDER, TICK, field_name, input_column
from service.runtime.expressions import to_column
from service.runtime.sinks.writer import SINK
from service.runtime.wire_columns import (
    control_columns,
    data_columns,
    is_control,
    keep_changes_where,
    kind_literal,
    long_literal,
    only_in_changes,
    spark_type,
    wire_struct,
)
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.types import StructType

    from service.plan.nodes import Calc
    from service.plan.rex import Rex
    from service.runtime.sinks.spec import SinkSpec
    from state.types import LogicalType


def calc(frame: DataFrame, node: Calc, width: int) -> DataFrame:
    """The rows that a condition keeps, with the columns that are computed."""
    inputs = data_columns(len(frame.columns) - len(control_columns()))
    if node.condition is not None:
        frame = keep_changes_where(frame, to_column(node.condition, inputs))
    columns = [only_in_changes(to_column(each, inputs)) for each in node.projection]
    assert len(columns) == width
    return frame.select(*named(columns), *control_columns())


def expanded(
    frame: DataFrame, projections: Sequence[Sequence[Rex]], types: Sequence[LogicalType]
) -> DataFrame:
    """A row for every projection; a control row stays one. Order numbers make room for all."""
    inputs = data_columns(len(frame.columns) - len(control_columns()))
    row = wire_struct(types, ())
    count = len(projections)
    rows = [
        F.struct(*named([to_column(each, inputs) for each in projection])).cast(row)
        for projection in projections
    ]
    empty = F.array(F.lit(None).cast(row))
    several = F.posexplode(F.when(is_control(), empty).otherwise(F.array(*rows)))
    spread = frame.select(several.alias("_place", "_row"), *control_columns())
    own = F.when(F.col(KIND) == kind_literal(TICK), F.col(ORDER))
    order = own.otherwise(F.col(ORDER) * long_literal(count) + F.col("_place"))
    columns = [F.col("_row").getField(field_name(at)) for at in range(len(types))]
    return spread.withColumn(ORDER, order).select(*named(columns), *control_columns())


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows; order numbers are spread so that those of the inputs never meet."""
    return reduce(lambda left, right: left.unionAll(right), _spread(frames))


def side_by_side(frames: Sequence[DataFrame], inputs: Sequence[Sequence[LogicalType]]) -> DataFrame:
    """All rows, each in the struct that is its input's; order numbers as in `union`."""
    tagged = [_tagged(each, at, inputs) for at, each in enumerate(_spread(frames))]
    return reduce(lambda left, right: left.unionAll(right), tagged)


def literal_of_row(literals: Sequence[Rex]) -> Column:
    """The literal of the row whose number is in `_order`."""
    if not literals:
        return F.lit(None)
    return F.element_at(
        F.array(*(to_column(each, []) for each in literals)), (F.col(ORDER) + F.lit(1)).cast("int")
    )


def for_writer(frame: DataFrame, number: int, sinks: Sequence[SinkSpec]) -> DataFrame:
    """A sink's rows as the writer takes them: in the struct that is this sink's.

    Where there is one sink its rows need neither struct nor number, and mostly are as they should
    be: each of these, and each projection, costs the JVM something for every row.
    """
    types = [[parse_type(each) for each in sink.types] for sink in sinks]
    beside = list(control_columns())
    if any(sink.operator for sink in sinks):
        has_groups = bool(sinks[number].operator)
        group = F.col(KEY_GROUP) if has_groups else F.lit(None)
        beside.append(group.cast("int").alias(KEY_GROUP))
    if len(sinks) == 1:
        if _is_plain(frame.schema, types[0], with_groups=bool(sinks[0].operator)):
            return frame
        kinds = [spark_type(each) for each in types[0]]
        data = zip(data_columns(len(kinds)), kinds, strict=True)
        return frame.select(*named([column.cast(kind) for column, kind in data]), *beside)
    columns = [F.lit(number).alias(SINK), *beside]
    for at, kinds_of_sink in enumerate(types):
        row = wire_struct(kinds_of_sink, ())
        value = F.struct(*data_columns(len(kinds_of_sink))) if at == number else F.lit(None)
        columns.append(value.cast(row).alias(input_column(at)))
    return frame.select(*columns)


def _is_plain(schema: StructType, types: Sequence[LogicalType], *, with_groups: bool) -> bool:
    """Whether these are the wire columns of rows of these types, and the key group if need be.

    Where it need not be it does no harm: the exchange had it anyway.
    """
    found = [(each.name, each.dataType) for each in schema.fields]
    wanted = [(each.name, each.dataType) for each in wire_struct(types).fields]
    return found == [*wanted, (KEY_GROUP, IntegerType())] or (not with_groups and found == wanted)


def named(columns: Sequence[Column]) -> list[Column]:
    """The columns under the names that they have on the wire."""
    return [each.alias(field_name(at)) for at, each in enumerate(columns)]


def _spread(frames: Sequence[DataFrame]) -> list[DataFrame]:
    """These frames with order numbers that never meet; of equal ones the earlier frame is first."""
    count = len(frames)
    if count == 1:
        return list(frames)
    spread = []
    for at, frame in enumerate(frames):
        # A tick's order is the partition that it is for.
        own = F.when(F.col(KIND) == kind_literal(TICK), F.col(ORDER))
        order = own.otherwise(F.col(ORDER) * long_literal(count) + long_literal(at))
        spread.append(frame.withColumn(ORDER, order))
    return spread


def _tagged(frame: DataFrame, number: int, inputs: Sequence[Sequence[LogicalType]]) -> DataFrame:
    """The rows of one input, beside empty structs for the others."""
    columns = [F.lit(number).cast("tinyint").alias(INPUT), *control_columns(), F.col(KEY_GROUP)]
    for at, types in enumerate(inputs):
        row = wire_struct(types, ())
        value = F.struct(*data_columns(len(types))) if at == number else F.lit(None)
        columns.append(value.cast(row).alias(input_column(at)))
    return frame.select(*columns)
