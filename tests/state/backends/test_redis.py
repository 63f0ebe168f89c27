"""The Redis backend keeps the contract, on a real server."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

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
