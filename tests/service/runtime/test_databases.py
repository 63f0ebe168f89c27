"""Runs and restores of pipelines that write databases, as the service begins them."""

from __future__ import annotations

import dataclasses
import sqlite3
from typing import TYPE_CHECKING, Any

import pytest

from service.plan import load_plan
from service.runtime.databases import adopt_databases
from service.runtime.errors import QueryFailed, StartFailed
from service.runtime.keeper_ports import Run
from service.runtime.query_starter import DataflowStarter
from service.runtime.records import PipelineRecord
from service.runtime.sinks.owner import Restored
from service.runtime.sinks.spec import WriterSpec
from service.runtime.slot_keys import TERMS_NAME, slot_key
from service.runtime.spark_configuration import SPEC_OPTION
from service.settings import DatabaseSettings, FilesSettings, Settings, SparkSettings
from state.errors import Fenced, SavepointMismatch, StateLost
from tests.conftest import free_port
from tests.integration.pipelines import PlanBuilder
from tests.service.runtime.test_query_starter import RecordingSpark

if TYPE_CHECKING:
    from pathlib import Path

    import redis

COLUMNS = {"k": "INT NOT NULL", "v": "INT"}
FENCE = "SELECT pipeline_id, table_name, run, epoch FROM tailrace_epochs"


def plan_of(*, materialize: bool = False, **options: str) -> dict[str, Any]:
    plan = PlanBuilder()
    scan = plan.scan("s", COLUMNS, connector="ingress")
    given = {"url": "jdbc:sqlite:db.sqlite", "table_name": "t"} | options
    plan.sink("snk", COLUMNS, scan, key=["k"], materialize=materialize, connector="jdbc", **given)
    return plan.document()


def materialized(ttl: str) -> dict[str, Any]:
    document = plan_of(materialize=True)
    document["nodes"][-1]["state"][0]["ttl"] = ttl
    return document


@pytest.fixture(autouse=True)
def _redis(redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings' Redis is the tests'."""
    port = redis_client.connection_pool.connection_kwargs["port"]
    monkeypatch.setenv("TAILRACE_REDIS__URL", f"redis://127.0.0.1:{port}/0")


def settings(root: Path) -> Settings:
    return Settings(
        files=FilesSettings(root=root),
        databases=DatabaseSettings(hosts=("*",)),
        spark=SparkSettings(checkpoint_folder=root / "checkpoints"),
    )


def start(root: Path, run: Run, plan: dict[str, Any] | None = None) -> WriterSpec:
    """Start a run's query, as far as Spark; what its writer is told."""
    spark = RecordingSpark()
    record = PipelineRecord(name="p", id="1d", plan=plan or plan_of())
    DataflowStarter(settings(root)).start(spark, record, run)
    return WriterSpec.from_json(spark.options()[SPEC_OPTION][-1])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "db.sqlite"
    execute(path, "CREATE TABLE t (k INTEGER PRIMARY KEY, v INTEGER)")
    return path


def execute(path: Path, statement: str) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_a_run_owns_its_tables_before_its_query_starts(database: Path) -> None:
    writer = start(database.parent, Run(5, None))

    assert (writer.pipeline_id, writer.run) == ("1d", 5)
    assert execute(database, FENCE) == [("1d", "main.t", 5, 0)]
    assert writer.sinks[0].mode == "upsert"


def test_a_table_of_another_run_or_epoch_starts_no_query(database: Path) -> None:
    start(database.parent, Run(5, None))

    with pytest.raises(Fenced):
        start(database.parent, Run(4, None))
    with pytest.raises(StateLost):
        start(database.parent, Run(6, None, epoch=3))


def test_a_table_that_does_not_fit_is_a_failed_start(database: Path) -> None:
    execute(database, "DROP TABLE t")

    with pytest.raises(StartFailed, match=r"no table main.t") as refused:
        start(database.parent, Run(1, None))

    assert refused.value.code == "dataflow.invalid-table-option"


def test_a_database_that_is_away_is_a_failure_to_try_again(tmp_path: Path) -> None:
    plan = plan_of(url=f"jdbc:postgresql://127.0.0.1:{free_port()}/d", username="u", password="pw7")

    with pytest.raises(QueryFailed, match="cannot show its tables") as failed:
        start(tmp_path, Run(1, None), plan)

    assert failed.value.code == "sink-unavailable"
    assert "pw7" not in failed.value.message


def test_a_restore_takes_a_table_over_at_its_epoch_only(database: Path) -> None:
    root = database.parent
    start(root, Run(5, None))
    execute(database, "UPDATE tailrace_epochs SET epoch = 8")
    restored = Restored(
        load_plan(plan_of()),
        pipeline="q",
        pipeline_id="2d",
        files_root=str(root),
        hosts=(),
        epoch=8,
        origin="1d",
        origins_name="p",
        new_tables=frozenset(),
    )

    with pytest.raises(SavepointMismatch, match=r"savepoint is of epoch 7, table main.t is of"):
        adopt_databases(dataclasses.replace(restored, epoch=7))
    adopt_databases(restored)

    assert ("2d", "main.t", 0, 8) in execute(database, FENCE)
    with pytest.raises(Fenced, match="another pipeline"):
        start(root, Run(6, None, epoch=8))


def test_a_table_that_the_first_pipeline_did_not_write_begins_with_the_restored_one(
    database: Path,
) -> None:
    restored = Restored(
        load_plan(plan_of()),
        pipeline="q",
        pipeline_id="2d",
        files_root=str(database.parent),
        hosts=(),
        epoch=8,
        origin="1d",
        origins_name="p",
        new_tables=frozenset(),
    )

    with pytest.raises(SavepointMismatch, match="not known to be of any"):
        adopt_databases(restored)
    adopt_databases(dataclasses.replace(restored, new_tables=frozenset({"snk"})))

    assert execute(database, FENCE) == [("2d", "main.t", 0, 8)]


def test_an_epoch_that_a_table_has_already_is_gone_on_from_by_the_same_terms_only(
    database: Path, redis_client: redis.Redis
) -> None:
    """The service died behind the database's transaction, and a time to live was changed."""
    root, lasting, short = database.parent, materialized("0 ms"), materialized("1000 ms")
    start(root, Run(5, None), lasting)
    execute(database, "UPDATE tailrace_epochs SET epoch = 1")

    with pytest.raises(StartFailed, match=r"table main.t has epoch 1, which is not closed") as told:
        start(root, Run(6, None), short)
    assert told.value.code == "epoch-half-written"
    assert told.value.message.endswith('the ttl of sinkMaterializeState of node 2 = "0 ms"')

    # What was refused has written nothing: the terms are still those of run 5.
    with pytest.raises(StartFailed):
        start(root, Run(7, None), short)
    start(root, Run(8, None), lasting)
    # Once the epoch is closed, anything may change.
    start(root, Run(9, None, epoch=1), short)
    execute(database, "UPDATE tailrace_epochs SET epoch = 2")
    start(root, Run(10, None, epoch=1), short)
    assert list(redis_client.hgetall(slot_key("p", TERMS_NAME))) == [b"10"]


def test_terms_that_nobody_has_kept_are_taken_for_the_same(
    database: Path, redis_client: redis.Redis
) -> None:
    """The run before was of a version that kept none."""
    start(database.parent, Run(5, None))
    execute(database, "UPDATE tailrace_epochs SET epoch = 1")
    redis_client.delete(slot_key("p", TERMS_NAME))

    start(database.parent, Run(6, None), materialized("1000 ms"))
