"""Savepoints of histories in segments: their blocks are put together, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import NODE, MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.multiset.strategy import Strategy
from state.reader import CommittedReader
from state.savepoint import SaveOptions, StateSaver, read_manifest, restore_state
from state.ttl import TtlClock

if TYPE_CHECKING:
    from pathlib import Path

    import redis

pytestmark = pytest.mark.usefixtures("small_segments")

GROUPS = 4


def rows(kind: RowKind, numbers: range) -> list[Change]:
    return [Change(kind, (number, 1, "a")) for number in numbers]


def structures(client: redis.Redis, pipeline: str, wanted: str) -> dict[bytes, Any]:
    found: dict[bytes, Any] = {}
    for key in client.scan_iter(f"tailrace:{{{pipeline}:*:history*{wanted}*"):
        found.update(client.hgetall(key))
    return found


@pytest.mark.parametrize("ttl_ms", [0, 20])
def test_a_restored_history_has_all_blocks_in_one_hash_and_goes_on(
    redis_client: redis.Redis, tmp_path: Path, ttl_ms: int
) -> None:
    spec = MaterializerSpec(
        INTEGERS.types, INTEGERS.names, (1,), None, strategy=Strategy.MAP, ttl_ms=ttl_ms
    )
    saved = MaterializerHarness.on_redis(spec, redis_client, pipeline="saved")
    for number in range(3):
        saved.now_ms = 10 * number
        saved.run(rows(RowKind.INSERT, range(100 * number, 100 * number + 100)))
    history = saved.history((1,))
    assert len(list(redis_client.scan_iter("*:blocks:*"))) == 2
    before = structures(redis_client, "saved", ":blocks")
    # What is past its life is left out; of the first hundred rows that is true with a TTL.
    options = SaveOptions(clock=TtlClock(saved.now_ms) if ttl_ms else None)

    with RedisBackendOf(redis_client, "copy") as (transport, backend, ledger, reader):
        descriptors = {NODE: [spec.descriptor]}
        StateSaver(transport, "saved", descriptors, GROUPS).save("s", tmp_path, options)
        assert b'"state_format": 2' in (tmp_path / "manifest.json").read_bytes()
        manifest = read_manifest(tmp_path)
        restore_state(
            transport, "copy", tmp_path, manifest, wanted=descriptors, max_parallelism=GROUPS
        )

        assert not list(redis_client.scan_iter("tailrace:{copy*:blocks:*"))
        after = structures(redis_client, "copy", ":blocks")
        assert after if ttl_ms else after == before
        copy = MaterializerHarness(spec, backend, ledger, reader.view)
        copy._epoch, copy.now_ms = 3, saved.now_ms
        assert copy.history((1,)) == history
        assert len(history) == (200 if ttl_ms else 300)
        saved.restart(spec)
        changes = [*rows(RowKind.DELETE, range(150, 250)), *rows(RowKind.INSERT, range(400, 500))]
        assert copy.run(changes) == saved.run(changes)
        assert copy.history((1,)) == saved.history((1,))
    saved.close()


class RedisBackendOf:
    """What a pipeline is run with."""

    def __init__(self, client: redis.Redis, pipeline: str) -> None:
        self._transport = RedisTransport(client)
        self._reader = CommittedReader(client, pipeline)
        self._pipeline = pipeline

    def __enter__(self) -> tuple[RedisTransport, RedisBackend, EpochLedger, CommittedReader]:
        transport = self._transport
        backend = RedisBackend(transport, self._pipeline)
        return transport, backend, EpochLedger(transport, self._pipeline), self._reader

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._transport.close()
