"""Wire columns as Spark columns: rows kept apart from control rows, keys, exchange."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
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
    SEQUENCE,
    TIME,
    field_name,
)
from state.key_groups import SEED
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


def kind_literal(kind: int) -> Column:
    """A kind in exactly the type that its column has.

    Any other number would be cast, and the cast be taken away again by the optimizer, to which
    Spark gives the whole plan anew in every epoch.
    """
    return F.lit(np.int8(kind))


def long_literal(value: int) -> Column:
    """A number in exactly the type that hashes and order numbers have; see `kind_literal`."""
    return F.lit(np.int64(value))


def is_control() -> Column:
    """Whether a row is a tick or a dead letter."""
    return F.col(KIND) >= kind_literal(CONTROL_MINIMUM)


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


def with_key_group(frame: DataFrame, key: Sequence[int], *, max_parallelism: int) -> DataFrame:
    """Add the column `_kg`: the key group of these columns.

    The hash is computed by the JVM; `state.key_groups` computes the same.
    """
    # Without key columns all rows are one key, whose hash is the seed.
    hashed = F.xxhash64(*(F.col(field_name(each)) for each in key)) if key else F.lit(SEED)
    return frame.withColumn(KEY_GROUP, F.pmod(hashed, long_literal(max_parallelism)).cast("int"))


def brought_together(frame: DataFrame, *, partitions: int) -> DataFrame:
    """Bring all changes of a key group into one partition, each tick into the one it is for."""
    target = F.when(is_control(), F.pmod(F.col(ORDER), long_literal(partitions)).cast("int"))
    return frame.repartitionById(partitions, target.otherwise(F.col(KEY_GROUP) % F.lit(partitions)))


def with_place(frame: DataFrame, *, has_time: bool) -> DataFrame:
    """Complete a source's control columns: the epoch's time, and no place beside the order.

    The time is that of the source's offset, or else Spark's batch timestamp. Both are the same when
    the epoch runs again; but Spark puts its own into the code that it generates, as a constant, so
    that this code is compiled anew in every epoch.
    """
    if not has_time:
        frame = frame.withColumn(TIME, F.unix_millis(F.current_timestamp()))
    return frame.withColumn(SEQUENCE, long_literal(0))
