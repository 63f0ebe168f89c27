"""librdkafka's own mock brokers take what a session sends.

They were not made by us, so they hold our stand-in's view of the protocol against another one. What
they lack: offsets in a transaction are taken and forgotten, an older producer of a transactional id
is not fenced, and records of an aborted transaction are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from service.runtime.dataflow_errors import SinkRefused
from service.runtime.sinks.kafka.fence import Held
from service.runtime.sinks.kafka.options import place_of
from service.runtime.sinks.kafka.session import TopicSession
from tests.service.runtime.sinks.kafka.stand import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT_S = 30.0
GROUP = "tailrace:p:out"


@pytest.fixture
def servers() -> Iterator[str]:
    """Addresses of two brokers with topic `out` of four partitions; they end with the test."""
    owner = Producer({"test.mock.num.brokers": 2, "log_level": 0})
    owner.list_topics("out", timeout=WAIT_S)
    brokers = owner.list_topics(timeout=WAIT_S).brokers.values()
    yield ",".join(f"{each.host}:{each.port}" for each in brokers)
    del owner


def session(servers: str, topic: str = "out") -> TopicSession:
    return TopicSession(place_of(options_of(servers, topic)), GROUP)


def read(servers: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition("out", at, 0) for at in range(4)])
    found = [(each.key(), each.value()) for each in consumer.consume(count, timeout=WAIT_S)]
    consumer.close()
    return found


def test_records_of_a_transaction_arrive(servers: str) -> None:
    writer = session(servers)
    assert writer.partitions() == 4
    assert writer.is_unwritten()
    writer.take()
    assert writer.held() is None
    for epoch in (1, 2):
        with writer.transaction({GROUP: Held("id", 1, epoch)}):
            writer.send(b"a", b"%d" % epoch, None)
            writer.send(b"a", None, None)
            writer.send(None, b"x", 3)
    assert not writer.is_unwritten()
    writer.close()

    found = read(servers, 6)
    assert [value for key, value in found if key == b"a"] == [b"1", None, b"2", None]
    assert found.count((None, b"x")) == 2


def test_a_topic_that_is_not_there_is_not_made(servers: str) -> None:
    writer = session(servers, "nowhere")
    for _ in range(2):
        with pytest.raises(SinkRefused, match="no topic nowhere"):
            writer.partitions()
    writer.close()
