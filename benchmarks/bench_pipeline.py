"""The whole pipeline through Spark, with the operator and its Redis state and without.

Ratios in one run on one Spark Connect server with two cores:

- changes per second for 1 and 10,000 keys: the upsert materializer against a pass-through, which is
  the same plan with a sink that has no materializer (same source, exchange by key, writer); and
  beside it against the bare plan, whose sink takes insertions only: it gets no exchange, so it has
  a stage less (up to 2026-11-22 this was what was called the pass-through);
- an epoch without data: the operator, the bare plan, and a bare Spark query (a `rate-micro-batch`
  source of one row, Spark's `noop` sink), in a session with our settings, which the ratios are of,
  and in one with Spark's own.

Input is Parquet (so that reading text does not hide the operator): insertions, each upsert key many
times, so histories stay at 10 entries a key (1,000 for the single key). Times are Spark's own
`triggerExecution`; the first epochs are left out, and so is a first round of all, in which the JVM
compiles what it runs often. Each figure is the best of four rounds that take turns, each ratio the
median of theirs: the machine is a guest, whose speed changes from minute to minute.
"""

from __future__ import annotations

import statistics
import tempfile
import warnings
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import redis

from service.runtime.launcher import EmbeddedRedis, EmbeddedSpark
from service.runtime.spark_configuration import SESSION_CONFIGURATION
from tests.conftest import free_port
from tests.integration.pipelines import Pipeline, PlanBuilder

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

ROWS_PER_EPOCH = 200_000
EPOCHS = 12
WARM_UP = 4
EMPTY_EPOCHS = 40
ROUNDS = 5
COLUMNS = {"id": "BIGINT NOT NULL", "k": "INT NOT NULL", "v": "VARCHAR(2147483647)"}

_EMPTY_ROWS = (
    "with operator and Redis state",
    "without operator and exchange",
    "bare Spark query",
    "bare Spark query, Spark's own settings",
)
_BARE_QUERY = 2


class Plan(Enum):
    """Which plan is measured."""

    OPERATOR = "operator"
    PASS_THROUGH = "pass"
    BARE = "bare"
    """Without operator and exchange."""


def main() -> None:
    """Print both tables."""
    with (
        tempfile.TemporaryDirectory() as name,
        EmbeddedRedis(Path(name) / "redis", free_port()) as server,
        EmbeddedSpark(Path(name) / "spark", free_port(), cores=2) as connect,
        redis.Redis.from_url(server.url) as client,
    ):
        spark = _session(connect.remote)
        folder = Path(name)
        print(
            "| keys | with operator, changes/s | pass-through, changes/s | ratio "
            "| without exchange, changes/s | ratio |"
        )
        print("|---:|---:|---:|---:|---:|---:|")
        for keys in (1, 10_000):
            input_folder = _write_input(folder, keys)
            rounds = [
                [_rate(spark, client, folder, input_folder, what, turn) for what in Plan]
                for turn in range(ROUNDS)
            ]
            rates = [max(each) for each in zip(*rounds[1:], strict=True)]
            others = [
                f"{each:,.0f} | {_ratio(rounds, 0, at):.2f}"
                for at, each in enumerate(rates[1:], start=1)
            ]
            print(f"| {keys:,} | {rates[0]:,.0f} | {' | '.join(others)} |")
        plain = _plain_session(connect.remote)
        rounds = [_empty_round(spark, plain, client, folder, turn) for turn in range(ROUNDS)]
        times = [min(each) for each in zip(*rounds[1:], strict=True)]
        print("\n| epoch without data | ms | against the bare query |")
        print("|---|---:|---:|")
        for at, (name_of_row, ms) in enumerate(zip(_EMPTY_ROWS, times, strict=True)):
            print(f"| {name_of_row} | {ms:.0f} | {_ratio(rounds, at, _BARE_QUERY):.2f} |")
        plain.stop()
        spark.stop()


def _ratio(rounds: list[list[float]], one: int, other: int) -> float:
    """The median over the rounds, but the first, of two figures that are of one time."""
    return statistics.median(each[one] / each[other] for each in rounds[1:])


def _plain_session(remote: str) -> SparkSession:
    """A session as Spark gives it."""
    with warnings.catch_warnings():
        # pyspark has an opinion about pandas, which we hand no rows.
        warnings.simplefilter("ignore", FutureWarning)
        from pyspark.sql.connect.session import SparkSession
    return SparkSession.builder.remote(remote).create()


def _session(remote: str) -> SparkSession:
    session = _plain_session(remote)
    for name, value in SESSION_CONFIGURATION.items():
        session.conf.set(name, value)
    session.conf.set("spark.sql.shuffle.partitions", "2")
    return session


def _write_input(folder: Path, keys: int) -> str:
    """Two files an epoch; returns the path as a plan names it."""
    target = folder / f"input-{keys}"
    target.mkdir()
    chance = np.random.default_rng(keys)
    ids_per_key = 1_000 if keys == 1 else 10
    for number in range(EPOCHS * 2):
        count = ROWS_PER_EPOCH // 2
        key = chance.integers(0, keys, count, dtype=np.int32)
        identity = key.astype(np.int64) * ids_per_key + chance.integers(0, ids_per_key, count)
        text = pa.array(np.char.add("value ", (identity % 1_000).astype(str)).tolist())
        table = pa.table({"id": identity, "k": key, "v": text})
        pq.write_table(table, target / f"{number:04}.parquet")
    return target.name


def _plan(path: str, what: Plan) -> dict[str, Any]:
    builder = PlanBuilder()
    options = {"connector": "filesystem", "format": "parquet", "path": path}
    source = builder.scan("s", COLUMNS, **options)
    materialize = what is Plan.OPERATOR
    builder.sink(
        "t",
        COLUMNS,
        source,
        key=["k"],
        materialize=materialize,
        upsert_key=[0] if materialize else (),
        # Updates, of which none come, make the rows of a key go to one task.
        mode=["INSERT", "UPDATE_AFTER"] if what is Plan.PASS_THROUGH else ["INSERT"],
        connector="blackhole",
        changelog_mode="upsert",
    )
    return builder.document()


def _rate(
    spark: SparkSession, client: redis.Redis, folder: Path, path: str, what: Plan, turn: int
) -> float:
    """Changes per second over the epochs after the first ones."""
    name = f"{path}-{what.value}-{turn}"
    pipeline = Pipeline(
        spark,
        client,
        folder,
        _plan(path, what),
        name=name,
        max_parallelism=128,
        rows_per_epoch_max=ROWS_PER_EPOCH,
        checkpoint=name,
    )
    with pipeline:
        pipeline.wait(lambda records: sum(each["rows_in"] for each in records) >= _total())
        batches = {each["batchId"]: each for each in pipeline.query.recentProgress}
    times = [each["durationMs"]["triggerExecution"] for each in batches.values()]
    measured = times[WARM_UP:EPOCHS]
    return ROWS_PER_EPOCH * len(measured) / (sum(measured) / 1_000)


def _total() -> int:
    return ROWS_PER_EPOCH * EPOCHS


def _empty_round(
    spark: SparkSession, plain: SparkSession, client: redis.Redis, folder: Path, turn: int
) -> list[float]:
    """A figure for each of `_EMPTY_ROWS`."""
    return [
        *(_empty(spark, client, folder, what, turn) for what in (Plan.OPERATOR, Plan.BARE)),
        _bare(spark, folder / f"bare-{turn}"),
        _bare(plain, folder / f"bare-plain-{turn}"),
    ]


def _empty(spark: SparkSession, client: redis.Redis, folder: Path, what: Plan, turn: int) -> float:
    """Milliseconds of an epoch that only a tick starts: the median."""
    path = f"empty-{what.value}-{turn}"
    (folder / path).mkdir()
    pipeline = Pipeline(
        spark,
        client,
        folder,
        _plan(path, what),
        name=path,
        max_parallelism=128,
        tick_interval_ms=10,
        checkpoint=f"{path}-checkpoint",
    )
    with pipeline:
        return _watched(pipeline.query)


def _bare(spark: SparkSession, checkpoint: Path) -> float:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = (
        source.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        return _watched(query)
    finally:
        query.stop()


def _watched(query: Any) -> float:
    """The median of a query's epochs; it is asked once a second, as asking takes its cores."""
    while len(query.recentProgress) < EMPTY_EPOCHS:
        query.awaitTermination(1)
    return _median(query.recentProgress)


def _median(progress: list[Any]) -> float:
    ran = [each["durationMs"] for each in progress if "addBatch" in each["durationMs"]]
    return float(statistics.median(each["triggerExecution"] for each in ran[5:]))


if __name__ == "__main__":
    main()
