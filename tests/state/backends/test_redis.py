"""The Redis backend keeps the contract, on a real server."""

from __future__ import annotations

import math
import shutil
import subprocess
from typing import TYPE_CHECKING

import msgpack
import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from state.backends.chunks import encode_chunks
from state.backends.interface import SortedPut
from state.testing.conformance import StateBackendConformance
from state.testing.ledger_conformance import LedgerConformance
from state.testing.stand import Stand, redis_stand
from tests.conftest import free_port
from tests.tied import tied

if TYPE_CHECKING:
    from collections.abc import Iterator


class TestRedisBackend(StateBackendConformance, LedgerConformance):
    @pytest.fixture
    def stand(self, redis_client: redis.Redis) -> Iterator[Stand]:
        with redis_stand(redis_client) as stand:
            yield stand


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        ([1, -2, 2**53], [b"1", b"-2", b"9007199254740992"]),
        ([0.1, -0.0, 1e300], [b"0.1", b"-0.0", b"1e+300"]),
        ([math.inf, 7, -math.inf], [b"inf", b"7", b"-inf"]),
    ],
)
def test_scores_wait_as_digits_since_lua_would_write_each_number_anew(
    scores: list[float], texts: list[bytes]
) -> None:
    pairs = [each for number, score in enumerate(scores) for each in (score, b"m%d" % number)]
    (chunk,), _ = encode_chunks([SortedPut(b"z", pairs)])

    ((name, key, *arguments),) = msgpack.unpackb(chunk, raw=True)
    assert (name, key) == (b"ZADD", b"z")
    assert arguments[0::2] == texts
    assert arguments[1::2] == [b"m0", b"m1", b"m2"]


@pytest.fixture(scope="module")
def cluster_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A Redis that has all slots of a cluster, and refuses calls whose keys lie in several."""
    binary = shutil.which("redis-server")
    assert binary is not None
    port = free_port()
    folder = tmp_path_factory.mktemp("cluster")
    options = {"port": port, "bind": "127.0.0.1", "dir": folder, "cluster-enabled": "yes"}
    options |= {"cluster-port": free_port(), "save": "", "loglevel": "warning"}
    flat = [part for name, value in options.items() for part in (f"--{name}", str(value))]
    process = subprocess.Popen(tied([binary, *flat]), stdout=subprocess.DEVNULL)
    patient = Retry(ConstantBackoff(0.02), 500, supported_errors=(redis.ConnectionError,))
    with redis.Redis(port=port, retry=patient) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            client.ping()
        yield client
    process.terminate()
    process.wait(timeout=10)


class TestRedisClusterNode(StateBackendConformance, LedgerConformance):
    """Keys and calls are laid out for a cluster: each call stays in one slot."""

    @pytest.fixture
    def stand(self, cluster_node: redis.Redis) -> Iterator[Stand]:
        cluster_node.execute_command("FLUSHALL")
        with redis_stand(cluster_node) as stand:
            yield stand
