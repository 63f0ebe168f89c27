"""Connections break at each piece that they send and each reply that they read.

Here epochs send ahead over real connections, which are pooled, kept and taken again: begins, reads
and long commits are on their way when a connection breaks, and the attempt goes on over another
one. Nothing is lost or done twice, and no reply that was left unread is taken for another one's.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import redis

from state.backends.interface import EpochStamp, HashGet, HashReplace
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.errors import StateUnavailable
from state.testing.faults import ProcessDied
from tests.conftest import RedisServer
from tests.faults.spark_rules import AHEAD, EPOCHS, NODE, PARALLELISM, Run, Spark, expected
from tests.faults.wires import Break, WirePlan, wired_client
from tests.faults.worlds import PIPELINE, RedisWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSIENT = (StateUnavailable, ProcessDied)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("wires"))
    server.start()
    with redis.Redis(port=server.port) as client:
        client.config_set("appendonly", "no")
    yield server
    server.stop()


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
        yield client


def _transport(server: RedisServer, plan: WirePlan) -> RedisTransport:
    transport = RedisTransport(wired_client(server.port, plan))
    # Nothing here gets better by waiting.
    transport._backoff_ms = 0
    return transport


def _assert_own_replies(transport: RedisTransport) -> None:
    """Over every connection that is kept, and one more: each command has its own reply."""
    aheads = []
    while (ahead := transport.ahead()) is not None:
        ahead.send([("ECHO", f"first {len(aheads)}")])
        aheads.append(ahead)
    assert transport.exchange([("ECHO", "exchanged")]) == [b"exchanged"]
    for at, ahead in enumerate(aheads):
        ahead.send([("ECHO", f"second {at}")])
        assert ahead.replies() == [b"first %d" % at, b"second %d" % at]


def _play(server: RedisServer, client: redis.Redis, plan: WirePlan) -> Spark:
    """Three epochs, each of which sends ahead, over connections that pass a plan."""
    client.flushall()
    transport = _transport(server, plan)

    def open_run() -> Run:
        ledger = EpochLedger(transport, PIPELINE)
        number = ledger.open_run([NODE], PARALLELISM)
        return Run(number, ledger, ledger, RedisBackend(transport, PIPELINE), work=AHEAD)

    with closing(transport):
        spark = Spark(open_run)
        spark.run_until(EPOCHS)
        _assert_own_replies(transport)
    return spark


@pytest.mark.parametrize("broken", list(Break))
def test_a_connection_that_breaks_anywhere_changes_nothing(
    server: RedisServer, client: redis.Redis, broken: Break
) -> None:
    whole = WirePlan()
    assert not _play(server, client, whole).failures
    world = RedisWorld(client, AHEAD)

    # The first two epochs; the third one shows what they have left.
    for moment in range(1, whole.passed * 2 // EPOCHS, 2 if broken is Break.INSIDE else 1):
        plan = WirePlan({moment: broken})
        spark = _play(server, client, plan)
        words = f"{broken} at {moment}: {spark.failures}"
        assert world.contents() == expected(work=AHEAD), words
        assert not plan.unspent, words
    world.close()


def _work_ahead(transport: RedisTransport) -> None:
    """Begin, read and commit ahead, in a run of its own."""
    run = EpochLedger(transport, PIPELINE).open_run([NODE], 1)
    transaction = RedisBackend(transport, PIPELINE).begin(NODE, EpochStamp(1, run, 0), [0])
    transaction.expect([])
    first = transaction.expect([HashGet(0, b"h", [b"a"])])
    second = transaction.expect([HashGet(0, b"h", [b"b", b"a"])])
    assert (second(), first()) == ([[None, None]], [[None]])
    transaction.committing({0: [HashReplace(b"h", [b"a", b"x" * 10_000])]})()


@pytest.mark.parametrize("broken", list(Break))
def test_replies_that_were_left_unread_are_nobodys(
    server: RedisServer, client: redis.Redis, broken: Break
) -> None:
    """What a transaction that broke off has asked for is on the wire; the next one asks as well."""
    count = WirePlan()
    with closing(_transport(server, count)) as transport:
        _work_ahead(transport)

    for moment in range(1, count.passed + 1):
        client.flushall()
        plan = WirePlan({moment: broken})
        with closing(_transport(server, plan)) as transport:
            for _ in range(2):
                try:
                    _work_ahead(transport)
                except TRANSIENT:
                    continue
            _assert_own_replies(transport)
            assert not plan.unspent, f"{broken} at {moment}"


@pytest.mark.parametrize("broken", list(Break))
def test_an_ahead_that_broke_says_so_and_its_connection_is_not_kept(
    server: RedisServer, broken: Break
) -> None:
    """Two sends and three replies: at each of these moments."""
    for moment in range(1, 6):
        plan = WirePlan()
        with closing(_transport(server, plan)) as transport:
            transport.exchange([("PING",)])
            plan.strike({moment: broken})
            ahead = transport.ahead()
            assert ahead is not None
            try:
                ahead.send([("ECHO", "a"), ("ECHO", "b")])
                ahead.send([("ECHO", "c")])
                replies = ahead.replies()
            except ProcessDied:
                assert broken is Break.DEATH
                replies = None
            # A piece that goes whole, whose reply is in time, is not broken by silence.
            is_whole = broken is Break.SILENCE and moment < 3
            assert replies == ([b"a", b"b", b"c"] if is_whole else None), f"at {moment}"
            # Asked again, by whoever holds on to it, it reads nothing.
            assert ahead.replies() is None
            assert (transport.ahead() is not None) == is_whole
            _assert_own_replies(transport)
