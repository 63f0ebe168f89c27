"""A pipeline that writes topics of a stand-in broker, with Spark's part left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from service.runtime.sinks.kafka import commit
from service.runtime.sinks.kafka.commit import claim_topics
from service.runtime.sinks.owner import Owner
from service.runtime.sinks.spec import SinkSpec
from service.runtime.slot_keys import KAFKA_NAME, slot_key
from tests.service.runtime.sinks.database.stand import Pipeline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sinks.spec import Mode
    from tests.service.runtime.sinks.kafka.broker import Broker

UPSERT = {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
APPEND = {"connector": "kafka", "format": "json"}
CHANGELOG = {"connector": "kafka", "format": "changelog-json"}
COLUMNS = {"k": "VARCHAR(9) NOT NULL", "v": "INT"}


def options_of(servers: str, topic: str, **more: str) -> dict[str, str]:
    """Options of a table, but for its connector and formats."""
    return {
        "topic": topic,
        "properties.bootstrap.servers": servers,
        # No test waits for its end: it only keeps a busy machine from being taken for a dead one.
        "properties.max.block.ms": "60000",
        "properties.reconnect.backoff.ms": "1",
        **more,
    }


@dataclass
class Place:
    """Where sinks of a pipeline lie, but for the broker."""

    files_root: str
    options: dict[str, str] = field(default_factory=dict)


class KafkaPipeline(Pipeline):
    """A pipeline on a real Redis whose sinks are topics of a broker."""

    def topic(
        self,
        broker: Broker,
        topic: str,
        columns: dict[str, str],
        given: dict[str, str],
        *,
        key: Sequence[str] = (),
        mode: Mode = "append",
        metadata: Sequence[str] = (),
        **more: str,
    ) -> None:
        """Add a sink with these columns."""
        names = tuple(columns)
        spec = SinkSpec(
            node=len(self.sinks) + 1,
            table=f"sink{len(self.sinks)}",
            connector=given["connector"],
            names=names,
            types=tuple(columns.values()),
            primary_key=tuple(names.index(each) for each in key),
            mode="upsert" if given["connector"] == "upsert-kafka" else mode,
            options={**options_of(broker.servers, topic), **given, **more},
            metadata=tuple(metadata),
        )
        self.sinks += (spec,)

    def start(self, *, drops: bool = False) -> int:
        if drops:
            self.ledger.drop()
        self.run = self.ledger.open_run([], 8)
        begun = self.client.hgetall(slot_key(self.name, KAFKA_NAME))
        claim_topics(
            Owner(self.id, self.name, self.run),
            self.sinks,
            marker=self.ledger.marker().epoch,
            begun={group.decode(): int(epoch) for group, epoch in begun.items()},
        )
        return self.run

    def die(self) -> None:
        """What the process that commits had kept is gone with it."""
        forget_sessions()


def forget_sessions() -> None:
    """Leave the clients that a process keeps, as it does when it dies: they say no good-bye."""
    for _, session in commit._kept.values():
        session.close()
    commit._kept.clear()


def table_of(records: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
    """What a compacted topic holds in the end: of each key the last value, unless that is null."""
    found: dict[Any, Any] = {}
    for key, value in records:
        found.pop(key, None)
        if value is not None:
            found[key] = orjson.loads(value)
    return {tuple(orjson.loads(key).values()): row for key, row in found.items()}
