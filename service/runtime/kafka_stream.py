"""A Kafka table as a stream: Spark's own source, its records decoded beside it.

Spark's Kafka source comes in a jar that the server must have been given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from service.runtime.dataflow_errors import UnsupportedConnector
from service.runtime.map_tasks import RecordStage
from service.runtime.sources.kafka import record_columns
from service.runtime.sources.kafka_options import reader_options, task_options

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import StructType

    from service.runtime.sources.spec import SourceSpec

FORMAT = "kafka"
"""Spark's name of the source. A test gives another: Spark keeps this one for the jar's."""
_NOT_ENABLED = "KAFKA_DATA_SOURCE_NOT_ENABLED"


def kafka_stream(spark: SparkSession, spec: SourceSpec, schema: StructType) -> DataFrame:
    """The changes of a Kafka table.

    Args:
        spark: The session.
        spec: The table, with its options and all that a task must know.
        schema: The wire columns to give.

    Raises:
        UnsupportedConnector: the server has no Kafka source.
        DataflowError: an option cannot be.
    """
    options = reader_options(spec.options, spec.rows_per_epoch_max)
    wanted = record_columns(spec)
    if "headers" in wanted:
        options["includeHeaders"] = "true"
    records = spark.readStream.format(FORMAT).options(**options).load()
    try:
        # Nothing has asked the server until now.
        records = records.select(*(each for each in records.columns if each in wanted))
    except AnalysisException as error:
        if error.getCondition() != _NOT_ENABLED:
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise UnsupportedConnector(
            f"table {spec.table} needs Spark's Kafka source, which the Spark Connect server lacks",
            hint=f"start the server with spark.jars.packages={package} (tailrace spark-connect "
            f"--conf spark.jars.packages={package}), or put that package's jars into its image",
        ) from error
    task = replace(spec, options=task_options(spec.options))
    return records.mapInArrow(RecordStage(task, schema), schema)
