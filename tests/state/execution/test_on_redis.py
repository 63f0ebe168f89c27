"""The controller over a session of state on a real Redis, near and far, and a wire that fails."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import ClientSettings, RedisTransport
from state.descriptors import JSON, ValueDescriptor
from state.epochs import EpochLedger
from state.errors import StateUnavailable
from state.execution.controller import Controller
from state.execution.limits import ControllerLimits
from state.primitives.session import StateSession
from state.testing.proxy import Proxy
from state.ttl import TtlClock
from tests.state.execution.rigs import SITE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

    from state.backends.interface import Ledger, StateBackend
    from tests.conftest import RedisServer

NODE = "3_count"
GROUPS = 4
COUNTS = ValueDescriptor(name="counts", codec=JSON)


class Epochs:
    """Epochs of a counting operator on some backend."""

    def __init__(self, backend: StateBackend, ledger: Ledger) -> None:
        self.backend = backend
        self.ledger = ledger
        self.run = ledger.open_run([NODE], GROUPS)

    def attempt(self, epoch: int, keys: Sequence[int]) -> tuple[list[tuple[int, int]], Controller]:
        """One attempt, up to its commit: what it gave for each key, in order."""
        stamp = EpochStamp(epoch, self.run, epoch)
        transaction = self.backend.begin(NODE, stamp, range(GROUPS))
        session = StateSession(transaction, clock=TtlClock(epoch))
        counts = session.value(COUNTS)
        output: list[tuple[int, int]] = []

        async def count(key: int) -> None:
            value = (await counts.value() or 0) + 1
            await counts.update(value)
            output.append((key, value))

        controller = Controller(
            count, session, session, SITE, limits=ControllerLimits(batch_max=50)
        )
        for key in keys:
            controller.submit(key, b"%d" % key, key % GROUPS)
        controller.drain()
        transaction.commit(session.writes())
        return output, controller

    def close(self, epoch: int) -> None:
        self.ledger.close_epoch(EpochStamp(epoch, self.run, epoch), {}, [])


@pytest.fixture
def proxy(redis_server: RedisServer, redis_client: redis.Redis) -> Iterator[Proxy]:
    """A proxy before an empty Redis."""
    with Proxy(redis_server.port) as made:
        yield made


@pytest.fixture
def transport(proxy: Proxy) -> Iterator[RedisTransport]:
    """Through the proxy; one attempt, so that what fails is seen to fail."""
    made = RedisTransport(ClientSettings(proxy.url, socket_timeout_ms=500, attempts_max=1))
    yield made
    made.close()


def epochs_over(transport: RedisTransport) -> Epochs:
    return Epochs(RedisBackend(transport, "orders"), EpochLedger(transport, "orders"))


@pytest.fixture
def epochs(transport: RedisTransport) -> Epochs:
    return epochs_over(transport)


def numbered(keys: Sequence[int], before: Sequence[int] = ()) -> dict[int, list[int]]:
    """What counting gives: for each key the numbers after those of earlier epochs."""
    seen = Counter(before)
    return {
        key: list(range(seen[key] + 1, seen[key] + count + 1))
        for key, count in Counter(keys).items()
    }


def by_key(output: Sequence[tuple[int, int]]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for key, value in output:
        found.setdefault(key, []).append(value)
    return found


FIRST = [number % 120 for number in range(300)]
SECOND = [number % 150 for number in range(400)]


@pytest.mark.parametrize("round_trip_ms", [0.0, 0.2, 1.0, 5.0])
def test_counts_go_on_over_epochs_at_any_distance(
    epochs: Epochs, proxy: Proxy, round_trip_ms: float
) -> None:
    proxy.set_round_trip_ms(round_trip_ms)

    first, _ = epochs.attempt(1, FIRST)
    epochs.close(1)
    second, controller = epochs.attempt(2, SECOND)

    assert by_key(first) == numbered(FIRST)
    assert by_key(second) == numbered(SECOND, FIRST)
    now = controller.statistics()
    assert (now.requests, now.batches) == (150, 3)  # a request a key; three full batches


def test_heap_and_redis_give_the_same(epochs: Epochs) -> None:
    heap = HeapBackend()
    other = Epochs(heap, heap.ledger())

    for epoch, keys in ((1, FIRST), (2, SECOND)):
        here, _ = epochs.attempt(epoch, keys)
        there, _ = other.attempt(epoch, keys)
        assert here == there
        for each in (epochs, other):
            each.close(epoch)


def test_one_key_costs_one_round_trip_an_epoch(epochs: Epochs) -> None:
    output, controller = epochs.attempt(1, [7] * 500)

    assert output == [(7, number) for number in range(1, 501)]
    assert (controller.statistics().requests, controller.statistics().batches) == (1, 1)


def test_the_distance_is_there(epochs: Epochs, proxy: Proxy, transport: RedisTransport) -> None:
    proxy.set_round_trip_ms(20)
    started = time.perf_counter()

    for _ in range(5):
        transport.exchange([("PING",)])

    assert time.perf_counter() - started >= 0.1


@pytest.mark.parametrize("lost", ["request", "reply", "silence"])
def test_a_wire_that_fails_fails_the_attempt_and_the_next_one_gives_the_same(
    epochs: Epochs, proxy: Proxy, lost: str
) -> None:
    epochs.attempt(1, FIRST)
    epochs.close(1)
    match lost:
        case "request":
            proxy.cut_after_requests(1)
        case "reply":
            proxy.cut_after_replies(1)
        case _:
            proxy.hold()

    with pytest.raises(StateUnavailable):
        epochs.attempt(2, SECOND)
    proxy.release()
    again, _ = epochs.attempt(2, SECOND)
    epochs.close(2)
    third, _ = epochs.attempt(3, [0])

    assert by_key(again) == numbered(SECOND, FIRST)
    assert by_key(third) == numbered([0], [*FIRST, *SECOND])


def test_a_reply_that_is_lost_after_the_commit_does_not_count_twice(
    epochs: Epochs, proxy: Proxy
) -> None:
    proxy.cut_after_replies(1)  # the only read comes back, the answer to the commit does not

    with pytest.raises(StateUnavailable):
        epochs.attempt(1, [1, 2, 3])
    again, _ = epochs.attempt(1, [1, 2, 3])
    epochs.close(1)
    second, _ = epochs.attempt(2, [1])

    assert again == [(1, 1), (2, 1), (3, 1)]
    assert second == [(1, 2)]


def test_a_link_that_broke_between_epochs_is_opened_anew(epochs: Epochs, proxy: Proxy) -> None:
    epochs.attempt(1, FIRST)
    epochs.close(1)
    before = proxy.connections
    proxy.cut()

    second, _ = epochs.attempt(2, SECOND)

    assert by_key(second) == numbered(SECOND, FIRST)
    assert proxy.connections == before + 1


@pytest.mark.parametrize("lost", ["request", "reply"])
def test_a_read_that_was_lost_is_tried_again_within_the_attempt(proxy: Proxy, lost: str) -> None:
    patient = RedisTransport(ClientSettings(proxy.url, attempts_max=2, backoff_ms=1))
    epochs = epochs_over(patient)
    epochs.attempt(1, FIRST)
    epochs.close(1)
    (proxy.cut_after_requests if lost == "request" else proxy.cut_after_replies)(1)

    second, controller = epochs.attempt(2, SECOND)
    epochs.close(2)
    third, _ = epochs.attempt(3, [0])
    patient.close()

    assert by_key(second) == numbered(SECOND, FIRST)
    assert by_key(third) == numbered([0], [*FIRST, *SECOND])
    assert controller.statistics().batches == 3


def test_attempts_have_a_limit(proxy: Proxy) -> None:
    patient = RedisTransport(
        ClientSettings(proxy.url, socket_timeout_ms=50, attempts_max=3, backoff_ms=1)
    )
    epochs = epochs_over(patient)
    epochs.attempt(1, [1])
    epochs.close(1)
    proxy.hold()
    before = proxy.requests

    with pytest.raises(StateUnavailable) as failed:
        epochs.attempt(2, [1])
    patient.close()

    assert proxy.requests - before == 3
    assert failed.value.__notes__ == ["in counter, node 3_count, epoch 7"]
