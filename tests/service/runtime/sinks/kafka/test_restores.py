"""Savepoints of pipelines that write topics: one pipeline goes on from each, and no other."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from operators.wire import WorkerError
from service.runtime.sinks.kafka.commit import adopt_topics
from service.runtime.sinks.owner import Owner
from state.errors import Fenced, SavepointMismatch, SinkTakenOver
from tests.service.runtime.sinks.kafka.stand import COLUMNS, UPSERT, KafkaPipeline, table_of

if TYPE_CHECKING:
    from collections.abc import Set

    from tests.service.runtime.sinks.kafka.broker import Broker


class TestRestores:
    """A savepoint's pipeline and the one that goes on from it."""

    @pytest.mark.parametrize("name", ["p", "q"])
    def test_a_topic_of_the_savepoints_epoch_is_taken_over(
        self, broker: Broker, upsert: KafkaPipeline, name: str
    ) -> None:
        upsert.write(1, [("+I", "a", 1)])
        restored = self._restore(upsert, name, epoch=1)
        restored.ledger.drop()
        self._close(restored, 1)
        restored.start()
        restored.write(2, [("+I", "b", 2)])

        with pytest.raises((WorkerError, Fenced)):
            upsert.start() if name == "q" else upsert.write(2, [("+I", "c", 1)])
        assert sorted(table_of(broker.read("out"))) == [("a",), ("b",)]

    def test_a_topic_of_another_epoch_is_refused(
        self, broker: Broker, upsert: KafkaPipeline
    ) -> None:
        upsert.write(1, [("+I", "a", 1)])
        upsert.write(2, [("+I", "b", 1)])
        with pytest.raises(SavepointMismatch, match=r"of epoch 1, topic out is of epoch 2"):
            self._restore(upsert, "q", epoch=1)

    def test_a_savepoint_is_taken_up_once(self, broker: Broker, upsert: KafkaPipeline) -> None:
        upsert.write(1, [("+I", "a", 1)])
        first = self._restore(upsert, "q", epoch=1)
        # One that did not come to its end goes on.
        self._adopt(first, upsert, epoch=1)
        self._close(first, 1)
        first.start()
        first.write(2, [("+I", "b", 1)])
        with pytest.raises(SavepointMismatch, match="by another pipeline since"):
            self._restore(upsert, "r", epoch=1)

    @pytest.mark.parametrize(("first", "second"), [("q", "r"), ("p", "r"), ("p", "p"), ("q", "p")])
    def test_a_restored_pipeline_that_has_written_nothing_is_taken_back(
        self, broker: Broker, upsert: KafkaPipeline, first: str, second: str
    ) -> None:
        """Under any name, also that of the one whose savepoint it has."""
        upsert.write(1, [("+I", "a", 1)])
        wrong = self._restore(upsert, first, epoch=1)
        self._close(wrong, 1)
        wrong.start()

        right = self._restore(upsert, second, epoch=1)
        self._close(right, 1)

        with pytest.raises(SinkTakenOver):
            wrong.start()
        right.start()
        right.write(2, [("+I", "b", 2)])
        assert len(broker.read("out")) == 2
        with pytest.raises(SavepointMismatch):
            self._restore(upsert, "s", epoch=1)

    def test_a_topic_that_was_never_written_is_as_good(
        self, broker: Broker, upsert: KafkaPipeline
    ) -> None:
        upsert.write(1, [("+I", "a", 1)])
        elsewhere = KafkaPipeline(upsert.database, upsert.client, name="q")
        elsewhere.topic(broker, "one", COLUMNS, UPSERT, key=["k"])
        self._adopt(elsewhere, upsert, epoch=1)
        assert broker.group("tailrace:q:one", "one")[0] == 1

        used = KafkaPipeline(upsert.database, upsert.client, name="r")
        used.topic(broker, "out", COLUMNS, UPSERT, key=["k"])
        stranger = dataclasses.replace(upsert, id="other")
        with pytest.raises(SavepointMismatch, match="not known to be of any"):
            self._adopt(used, stranger, epoch=1)

        # That one had no sink for it: the topic begins with the restored pipeline.
        self._adopt(used, stranger, epoch=1, begun={each.table for each in used.sinks})
        assert broker.group("tailrace:r:out", "out")[0] == 1

    def _restore(self, origin: KafkaPipeline, name: str, *, epoch: int) -> KafkaPipeline:
        restored = dataclasses.replace(origin.anew(), name=name)
        self._adopt(restored, origin, epoch=epoch)
        return restored

    def _adopt(
        self,
        restored: KafkaPipeline,
        origin: KafkaPipeline,
        *,
        epoch: int,
        begun: Set[str] = frozenset(),
    ) -> None:
        adopt_topics(
            Owner(restored.id, restored.name, 0),
            restored.sinks,
            epoch=epoch,
            origin=origin.id,
            origins_name=origin.name,
            begun=begun,
        )

    def _close(self, pipeline: KafkaPipeline, epoch: int) -> None:
        """Let the state be of an epoch, as a restore leaves it."""
        marker = {"epoch": epoch, "run": 1, "closed_ms": 0, "offsets": "{}"}
        pipeline.client.hset(f"tailrace:{{{pipeline.name}}}:marker", mapping=marker)
