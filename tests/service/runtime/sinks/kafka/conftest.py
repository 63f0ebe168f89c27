"""A broker for a test, a pipeline without sinks, and one with a table of the last rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.service.runtime.sinks.kafka.broker import Broker
from tests.service.runtime.sinks.kafka.stand import (
    COLUMNS,
    UPSERT,
    KafkaPipeline,
    Place,
    forget_sessions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker with topic `out` of three partitions and `one` of one."""
    made = Broker({"out": 3, "one": 1})
    yield made
    forget_sessions()
    made.close()


@pytest.fixture
def pipeline(tmp_path: Path, redis_client: redis.Redis) -> KafkaPipeline:
    """A pipeline without sinks yet."""
    return KafkaPipeline(Place(str(tmp_path)), redis_client)


@pytest.fixture
def upsert(broker: Broker, pipeline: KafkaPipeline) -> KafkaPipeline:
    """With an upsert-kafka sink on topic `out`, started."""
    pipeline.topic(broker, "out", COLUMNS, UPSERT, key=["k"])
    pipeline.start()
    return pipeline
