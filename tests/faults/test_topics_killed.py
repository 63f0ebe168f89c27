"""A process that writes a topic is killed while the broker has one of its requests.

`test_topics` enumerates every call; here it is SIGKILL: sockets and threads of the client end as
they do in life.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.service.runtime.sinks.kafka.broker import END, PRODUCE, Broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

EPOCHS = 3
LIMIT_S = 60
WRITER = f"""
import sys
from types import SimpleNamespace
import redis
from tests.service.runtime.sinks.kafka.stand import UPSERT, KafkaPipeline, Place
servers, port, root = sys.argv[1:]
pipeline = KafkaPipeline(Place(root), redis.Redis(port=int(port)), id="one")
columns = {{"k": "INT NOT NULL", "v": "INT"}}
pipeline.topic(SimpleNamespace(servers=servers), "out", columns, UPSERT, key=["k"])
pipeline.start()
for epoch in range(pipeline.ledger.marker().epoch + 1, {EPOCHS} + 1):
    pipeline.write(epoch, [("+I", epoch, epoch)])
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker({"out": 1})
    yield made
    made.close()


@contextlib.contextmanager
def writer(broker: Broker, client: redis.Redis, root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that writes all epochs that are not closed; it does not outlive the test."""
    port = client.connection_pool.connection_kwargs["port"]
    command = [sys.executable, "-c", WRITER, broker.servers, str(port), str(root)]
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("moment", "kind", "number"),
    [
        ("after", PRODUCE, 2),
        ("before", END, 3),
        ("after", END, 3),
    ],
    ids=["records sent", "commit not there", "reply lost"],
)
def test_every_epoch_is_there_once(
    broker: Broker, redis_client: redis.Redis, tmp_path: Path, moment: str, kind: int, number: int
) -> None:
    """The second epoch is struck: a run's claim has a transaction of its own, without records."""
    seen: list[int] = []
    with writer(broker, redis_client, tmp_path) as first:

        def strike(found: int) -> None:
            seen.extend([found] if found == kind else [])
            if len(seen) == number and found == kind:
                os.kill(first.pid, signal.SIGKILL)
                # What the broker has carried out stays so; what it has not, it never does.
                raise ConnectionAbortedError

        setattr(broker, moment, strike)
        assert first.wait(LIMIT_S) == -signal.SIGKILL
    with writer(broker, redis_client, tmp_path) as second:
        assert second.wait(LIMIT_S) == 0

    expected = [(b'{"k":%d}' % n, b'{"k":%d,"v":%d}' % (n, n)) for n in range(1, EPOCHS + 1)]
    assert broker.read("out") == expected
    found = broker.group("tailrace:p:out", "out")
    assert found is not None
    assert found[0] == EPOCHS
