"""Runs and restores of pipelines that write Kafka's topics, as the service begins them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import load_plan
from service.runtime.errors import QueryFailed, StartFailed
from service.runtime.keeper_ports import Run
from service.runtime.query_starter import DataflowStarter
from service.runtime.records import PipelineRecord
from service.runtime.sinks.owner import Restored
from service.runtime.sinks.spec import WriterSpec
from service.runtime.slot_keys import KAFKA_NAME, TERMS_NAME, slot_key
from service.runtime.spark_configuration import SPEC_OPTION
from service.runtime.topics import adopt_of_topics
from service.settings import DatabaseSettings, FilesSettings, RedisSettings, Settings
from state.errors import Fenced, SavepointMismatch, StateLost
from tests.integration.pipelines import PlanBuilder
from tests.service.runtime.sinks.kafka.broker import Broker
from tests.service.runtime.sinks.kafka.stand import UPSERT, options_of
from tests.service.runtime.test_query_starter import RecordingSpark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

COLUMNS = {"k": "INT NOT NULL", "v": "INT"}
GROUP = "tailrace:p:out"


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker({"out": 1})
    yield made
    made.close()


@pytest.fixture
def settings(tmp_path: Path, redis_client: redis.Redis) -> Settings:
    port = redis_client.connection_pool.connection_kwargs["port"]
    return Settings(
        files=FilesSettings(root=tmp_path),
        databases=DatabaseSettings(hosts=("127.0.0.1",)),
        redis=RedisSettings(url=f"redis://127.0.0.1:{port}/0"),
    )


def plan_of(broker: Broker, topic: str = "out", **more: str) -> dict[str, Any]:
    plan = PlanBuilder()
    scan = plan.scan("s", COLUMNS, connector="ingress")
    plan.sink("snk", COLUMNS, scan, key=["k"], connector="print")
    document = plan.document()
    table = document["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]
    table["options"] = {**options_of(broker.servers, topic, **more), **UPSERT}
    return document


def start(settings: Settings, run: Run, plan: dict[str, Any]) -> WriterSpec:
    """Start a run's query, as far as Spark; what its writer is told."""
    spark = RecordingSpark()
    record = PipelineRecord(name="p", id="1d", plan=plan)
    DataflowStarter(settings).start(spark, record, run)
    return WriterSpec.from_json(spark.options()[SPEC_OPTION][-1])


def test_a_run_owns_its_topics_before_its_query_starts(broker: Broker, settings: Settings) -> None:
    writer = start(settings, Run(5, None), plan_of(broker))

    assert writer.sinks[0].mode == "upsert"
    assert broker.group(GROUP, "out") == (0, "tailrace/1 1d 5 0\0")


def test_a_topic_of_another_run_or_epoch_starts_no_query(
    broker: Broker, settings: Settings
) -> None:
    start(settings, Run(5, None), plan_of(broker))

    with pytest.raises(Fenced):
        start(settings, Run(4, None), plan_of(broker))
    with pytest.raises(StateLost):
        start(settings, Run(6, None, epoch=3), plan_of(broker))


def test_what_redis_has_of_a_transaction_decides_where_a_group_was_lost(
    broker: Broker, settings: Settings, redis_client: redis.Redis
) -> None:
    key = slot_key("p", KAFKA_NAME)
    redis_client.hset(key, mapping={GROUP: 4, "another": 9})
    with pytest.raises(StateLost, match="may have epoch 4"):
        start(settings, Run(5, None, epoch=3), plan_of(broker))

    start(settings, Run(6, None, epoch=4), plan_of(broker))
    assert broker.group(GROUP, "out") == (4, "tailrace/1 1d 6 4\0")


def test_an_epoch_that_a_topic_has_already_is_gone_on_from_by_the_same_terms_only(
    broker: Broker, settings: Settings, redis_client: redis.Redis
) -> None:
    start(settings, Run(5, None), plan_of(broker))
    broker.offsets[GROUP, "out", 0] = (1, "tailrace/1 1d 5 1\0")
    start(settings, Run(6, None), plan_of(broker))
    # As if the last run had kept the rows of an operator for another time.
    terms = {"the ttl of sinkMaterializeState of node 2": "7 ms"}
    redis_client.hset(slot_key("p", TERMS_NAME), "6", orjson.dumps(terms))
    plan = plan_of(broker)
    plan["nodes"][-1] |= {
        "requireUpsertMaterialize": True,
        "state": [{"index": 0, "ttl": "8 ms", "name": "sinkMaterializeState"}],
    }

    with pytest.raises(StartFailed, match=r'topic out has epoch 1, .* node 2 = "7 ms"') as told:
        start(settings, Run(7, None), plan)
    assert told.value.code == "epoch-half-written"
    start(settings, Run(8, None, epoch=1), plan)


def test_a_topic_that_is_not_there_is_a_failed_start(broker: Broker, settings: Settings) -> None:
    with pytest.raises(StartFailed, match="no topic nowhere") as refused:
        start(settings, Run(1, None), plan_of(broker, "nowhere"))

    assert refused.value.code == "sink-refused"


def test_a_broker_that_is_away_is_a_failure_to_try_again(
    broker: Broker, settings: Settings
) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
    more = {
        "properties.max.block.ms": "300",
        "properties.sasl.jaas.config": f"{login}password=pw7;",
    }
    broker.close()

    with pytest.raises(QueryFailed, match="cannot tell of topic out") as failed:
        start(settings, Run(1, None), plan_of(broker, **more))

    assert failed.value.code == "sink-unavailable"
    assert "pw7" not in failed.value.message


def test_a_restore_takes_a_topic_over_at_its_epoch_only(broker: Broker, settings: Settings) -> None:
    plan = plan_of(broker)
    start(settings, Run(5, None), plan)
    broker.offsets[GROUP, "out", 0] = (8, "tailrace/1 1d 5 8\0")
    restored = Restored(
        load_plan(plan),
        pipeline="q",
        pipeline_id="2d",
        files_root=str(settings.files.root),
        hosts=("127.0.0.1",),
        epoch=8,
        origin="1d",
        origins_name="p",
        new_tables=frozenset(),
    )

    with pytest.raises(SavepointMismatch, match="of epoch 8"):
        adopt_of_topics(dataclasses.replace(restored, epoch=7))
    adopt_of_topics(restored)

    assert broker.group("tailrace:q:out", "out") == (8, "tailrace/1 2d 0 8 1d\0")
    with pytest.raises(Fenced):
        start(settings, Run(6, None, epoch=8), plan)
