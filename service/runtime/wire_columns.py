"""Wire columns as Spark columns: rows kept apart from control rows, keys, exchange."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType, StructField, StructType

from operators.wire import (
    CONTROL_FIELDS,
    CONTROL_MINIMUM,
    CONTROL_NAMES,
    KEY_GROUP,
    KIND,
    ORDER,
    TIME,
    field_name,
)
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.dataframe import DataFrame

    from state.types import LogicalType


def spark_type(logical: LogicalType) -> DataType:
    """Spark's type of a column: that which Arrow's converts to, so both sides agree."""
    return from_arrow_type(arrow_type(logical), prefer_timestamp_ntz=True)


def wire_struct(types: Sequence[LogicalType], control: Sequence[str] = CONTROL_NAMES) -> StructType:
    """Spark's schema of rows with these columns. All nullable: control rows have no values."""
    data = [StructField(field_name(at), spark_type(each)) for at, each in enumerate(types)]
    kinds = dict(CONTROL_FIELDS)
    return StructType([*data, *(StructField(n, from_arrow_type(kinds[n])) for n in control)])


def is_control() -> Column:
    """Whether a row is a tick or a dead letter."""
    return F.col(KIND) >= F.lit(CONTROL_MINIMUM)


def data_columns(count: int) -> list[Column]:
    """The columns f0 up to this many."""
    return [F.col(field_name(at)) for at in range(count)]


def control_columns() -> list[Column]:
    """The columns beside the row."""
    return [F.col(name) for name in CONTROL_NAMES]


def only_in_changes(value: Column) -> Column:
    """The value, not computed for control rows: an error in an expression must need a row."""
    return F.when(~is_control(), value)


def keep_changes_where(frame: DataFrame, condition: Column) -> DataFrame:
    """The changes that fulfil a condition, and all control rows."""
    return frame.filter(is_control() | condition)


def all_of(conditions: Sequence[Column]) -> Column:
    """The conjunction."""
    return reduce(lambda left, right: left & right, conditions, F.lit(True))


def exchange(
    frame: DataFrame, key: Sequence[int], *, partitions: int, max_parallelism: int
) -> DataFrame:
    """Bring all changes of a key group into one partition, each tick into the one it is for.

    Adds the column `_kg`. The hash is computed by the JVM; `state.key_groups` computes the same.
    """
    hashed = F.xxhash64(*(F.col(field_name(each)) for each in key))
    group = F.pmod(hashed, F.lit(max_parallelism)).cast("int")
    target = F.when(is_control(), F.pmod(F.col(ORDER), F.lit(partitions)).cast("int"))
    return frame.withColumn(KEY_GROUP, group).repartitionById(
        partitions, target.otherwise(F.col(KEY_GROUP) % F.lit(partitions))
    )


def with_time(frame: DataFrame) -> DataFrame:
    """Add the epoch's time: Spark's batch timestamp, which is the same when it runs again."""
    if TIME in frame.columns:
        return frame
    return frame.withColumn(TIME, F.unix_millis(F.current_timestamp()))
