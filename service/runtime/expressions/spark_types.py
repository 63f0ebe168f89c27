"""The Spark type of a column for each of Flink's types, and what a cast to it may do.

Spark's types follow from the Arrow types in `state.types`: TIME is an integer (milliseconds of the
day), TIMESTAMP is Spark's TIMESTAMP_NTZ, TIMESTAMP_LTZ its TIMESTAMP. Intervals live only between
a function and the one around it, as Flink's own code has them: BIGINT milliseconds and INT months.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from state.types import LogicalType, TypeRoot, UnsupportedType, arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIMPLE: Mapping[TypeRoot, spark.DataType] = {
    TypeRoot.BOOLEAN: spark.BooleanType(),
    TypeRoot.TINYINT: spark.ByteType(),
    TypeRoot.SMALLINT: spark.ShortType(),
    TypeRoot.INTEGER: spark.IntegerType(),
    TypeRoot.BIGINT: spark.LongType(),
    TypeRoot.FLOAT: spark.FloatType(),
    TypeRoot.DOUBLE: spark.DoubleType(),
    TypeRoot.CHAR: spark.StringType(),
    TypeRoot.VARCHAR: spark.StringType(),
    TypeRoot.BINARY: spark.BinaryType(),
    TypeRoot.VARBINARY: spark.BinaryType(),
    TypeRoot.DATE: spark.DateType(),
    TypeRoot.TIME: spark.IntegerType(),
    TypeRoot.TIMESTAMP: spark.TimestampNTZType(),
    TypeRoot.TIMESTAMP_LTZ: spark.TimestampType(),
    TypeRoot.NULL: spark.NullType(),
}
_INTERVALS: Mapping[TypeRoot, spark.DataType] = {
    TypeRoot.INTERVAL_DAY_TIME: spark.LongType(),
    TypeRoot.INTERVAL_YEAR_MONTH: spark.IntegerType(),
}


def spark_type(logical: LogicalType) -> spark.DataType:
    """The Spark type of a column that holds values of this type; every field is nullable.

    Raises:
        UnsupportedType: no column of ours can hold its values exactly.
    """
    arrow_type(logical)  # refuses what Arrow microseconds or 38 digits cannot hold
    root = logical.root
    if root is TypeRoot.DECIMAL:
        return spark.DecimalType(logical.precision, logical.scale)
    if root is TypeRoot.ARRAY:
        return spark.ArrayType(spark_type(logical.children[0]))
    if root is TypeRoot.MAP:
        return spark.MapType(*(spark_type(child) for child in logical.children))
    if root is TypeRoot.MULTISET:
        return spark.MapType(spark_type(logical.children[0]), spark.IntegerType())
    if root is TypeRoot.ROW:
        pairs = zip(logical.field_names, logical.children, strict=True)
        return spark.StructType([spark.StructField(n, spark_type(t)) for n, t in pairs])
    found = _SIMPLE.get(root)
    if found is None:
        raise UnsupportedType(logical, "Spark has no type for it")
    return found


def inner_type(logical: LogicalType) -> spark.DataType:
    """As `spark_type`, for a value that another function takes: intervals are numbers."""
    return _INTERVALS.get(logical.root) or spark_type(logical)
