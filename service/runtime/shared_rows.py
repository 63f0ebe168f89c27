"""One part of a query for all who take its rows: read once, and one stream for each source in it.

A DataFrame of Spark Connect is a description. Where it is part of another one twice, the server
plans it twice, and what it reads becomes two streams, each with an end of its own in every epoch;
unless the server remembers the plan of such a part from an earlier question. It remembers 32 plans
a session, whoever asked. So the plan of a part is made once, as a temporary view, and taken by the
view's name.

One stream is still read once for each place where it stands in the plan. An exchange above it makes
that one: two exchanges over equal plans are carried out once. The plans stay equal only if nothing
that one taker does is pushed below the exchange. A condition stands in between that is true and
looks as if it told rows apart, by a number that each has in its task: no filter passes it. It names
all columns, so no projection is pushed either.
"""

from __future__ import annotations

import uuid
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as F

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession


def shared_rows(
    spark: SparkSession, frame: DataFrame, partitions: int, views: ExitStack
) -> DataFrame:
    """The same rows, in the same order and partitions, as a part that may be taken often.

    Args:
        spark: The session.
        frame: Wire columns, computed in as many partitions, or in any that may be laid together.
        partitions: Shuffle partitions.
        views: Drops what the server was told by name, once the query has begun.
    """
    stays = F.pmod(F.spark_partition_id(), F.lit(partitions))
    exchanged = frame.repartitionById(partitions, stays)
    is_row = F.spark_partition_id() >= F.lit(0)
    kept = exchanged.filter(reduce(or_, (F.isnull(F.col(n)) for n in frame.columns), is_row))
    name = f"tailrace_{uuid.uuid4().hex}"
    kept.createOrReplaceTempView(name)
    views.callback(spark.catalog.dropTempView, name)
    return spark.table(name)
