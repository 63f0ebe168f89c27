"""Committed state for readers, while epochs close and Redis restarts under them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import EpochStamp, HashGet, HashPut
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import StateCorrupt, ViewMoved
from state.reader import ATTEMPTS_MAX, CommittedReader
from tests.conftest import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis

    from state.reader import CommittedView

NODE = "1_count"
READS = [HashGet(each, b"counts", [b"n"]) for each in (0, 1)]


class Pipeline:
    """A pipeline that closes an epoch whenever it is told."""

    def __init__(self, client: redis.Redis) -> None:
        self.transport = RedisTransport(client)
        self.ledger = EpochLedger(self.transport, "orders")
        self.backend = RedisBackend(self.transport, "orders")
        self.run = self.ledger.open_run([NODE], 2)
        self.epoch = 0

    def step(self) -> None:
        self.epoch += 1
        stamp = EpochStamp(self.epoch, self.run, 0)
        write = HashPut(b"counts", [b"n", b"%d" % self.epoch])
        self.backend.begin(NODE, stamp, [0, 1]).commit({0: [write], 1: [write]})
        self.ledger.close_epoch(stamp, {}, [])


@pytest.fixture
def pipeline(redis_client: redis.Redis) -> Iterator[Pipeline]:
    pipeline = Pipeline(redis_client)
    yield pipeline
    pipeline.transport.close()


@pytest.fixture
def reader(redis_client: redis.Redis) -> Iterator[CommittedReader]:
    reader = CommittedReader(redis_client, "orders")
    yield reader
    reader.close()


def _before_each_exchange(reader: CommittedReader, act: Callable[[], None], times: int) -> None:
    """Something happens before each of the reader's next round trips."""
    send, left = reader.exchange, [times]

    def exchange(commands: Any) -> Any:
        if left[0]:
            left[0] -= 1
            act()
        return send(commands)

    reader.exchange = exchange


def test_a_pipeline_without_epochs_is_at_zero(reader: CommittedReader) -> None:
    view = reader.view(NODE)

    assert (reader.epoch, view.fetch(READS), view.epoch) == (0, [[None], [None]], 0)


def test_a_view_asks_for_its_epoch_once(pipeline: Pipeline, reader: CommittedReader) -> None:
    pipeline.step()
    view = reader.view(NODE)

    assert (view.epoch, view.fetch(READS), reader.epoch) == (1, [[b"1"], [b"1"]], 1)


@pytest.mark.parametrize("times", range(1, ATTEMPTS_MAX + 1))
def test_a_read_while_epochs_close_is_of_one_epoch(
    pipeline: Pipeline, reader: CommittedReader, times: int
) -> None:
    pipeline.step()
    _before_each_exchange(reader, pipeline.step, times)
    view = reader.view(NODE)

    one, other = view.fetch(READS)

    assert one == other == [b"%d" % view.epoch]
    assert view.epoch == pipeline.epoch


def test_epochs_that_close_faster_than_anybody_reads_are_reported(
    pipeline: Pipeline, reader: CommittedReader
) -> None:
    _before_each_exchange(reader, pipeline.step, 1_000)

    with pytest.raises(ViewMoved):
        reader.view(NODE).fetch(READS)


def test_several_reads_belong_together(pipeline: Pipeline, reader: CommittedReader) -> None:
    pipeline.step()
    looks = 0

    def look(view: CommittedView) -> list[Any]:
        nonlocal looks
        looks += 1
        first = view.fetch(READS)
        if looks == 1:
            pipeline.step()
        return [*first, *view.fetch(READS), view.epoch]

    assert reader.consistently(NODE, look) == [[b"2"]] * 4 + [2]
    assert looks == 2


def test_looking_again_has_a_limit(pipeline: Pipeline, reader: CommittedReader) -> None:
    looks = 0

    def look(view: CommittedView) -> None:
        nonlocal looks
        looks += 1
        view.fetch(READS)
        pipeline.step()
        view.fetch(READS)

    with pytest.raises(ViewMoved):
        reader.consistently(NODE, look)
    assert looks == ATTEMPTS_MAX


def test_damaged_state_is_reported(
    pipeline: Pipeline, reader: CommittedReader, redis_client: redis.Redis
) -> None:
    pipeline.step()
    redis_client.set(f"tailrace:{{orders:{NODE}:0}}:counts", "x")

    with pytest.raises(StateCorrupt):
        reader.view(NODE).fetch(READS)


def test_a_restart_of_redis_is_survived(tmp_path: Path) -> None:
    import redis

    server = RedisServer(tmp_path / "redis")
    server.start()
    with redis.Redis(port=server.port) as client:
        pipeline = Pipeline(client)
        pipeline.step()
        reader = CommittedReader(client, "orders")
        view = reader.view(NODE)
        view.fetch(READS)

        server.kill()
        server.start()

        with pytest.raises(ViewMoved):
            view.fetch(READS)
        assert reader.view(NODE).fetch(READS) == [[b"1"], [b"1"]]
        reader.close()
        pipeline.transport.close()
    server.stop()
