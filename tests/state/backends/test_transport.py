"""Round trips: limits, repeats, and errors in our words."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import redis

from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import (
    ClientSettings,
    RedisTransport,
    Transport,
    as_one,
    checked,
    function,
    library,
    shared_transport,
    translate,
    transport_of,
)
from state.epochs import EpochLedger
from state.errors import StateAccessDenied, StateCorrupt, StateError, StateUnavailable
from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import RedisServer


def await_true(condition: Callable[[], bool]) -> None:
    """Ask again and again, for ten seconds at most."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline


class Listener:
    """A server that lets a given number of connections live, and answers none of them."""

    def __init__(self, *, answers: bytes | None = None) -> None:
        self.connections = 0
        self._answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._held: list[socket.socket] = []
        self.settings = ClientSettings(
            f"redis://127.0.0.1:{self._socket.getsockname()[1]}",
            connect_timeout_ms=200,
            socket_timeout_ms=200,
            backoff_ms=1,
        )
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._held.append(connection)
            if self._answers is not None:
                connection.sendall(self._answers)

    def close(self) -> None:
        # A socket that is only closed would leave the other thread waiting in accept.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(timeout=10)
        for connection in self._held:
            connection.close()


def test_replies_are_bytes_whatever_the_client_decodes(redis_server: RedisServer) -> None:
    with redis.Redis(port=redis_server.port, decode_responses=True, protocol=3) as client:
        transport = RedisTransport(client)
        transport.exchange([("HSET", "h", b"\xff", b"\x00")])

        assert transport.exchange([("HGETALL", "h")]) == [[b"\xff", b"\x00"]]
        transport.close()


def test_commands_as_one_have_the_reply_of_the_last(transport: RedisTransport) -> None:
    replies = transport.exchange(
        [("SET", "a", "1"), as_one(("DEL", "a"), ("RPUSH", "a", "x", 2)), ("TYPE", "a")]
    )

    assert replies == [b"OK", 2, b"list"]


def test_commands_as_one_are_not_carried_out_if_one_is_refused(transport: RedisTransport) -> None:
    refused, after = transport.exchange([as_one(("SET", "a", "1"), ("GET",)), ("EXISTS", "a")])

    assert isinstance(refused, redis.ResponseError)
    assert "wrong number of arguments" in str(refused)
    assert after == 0


def test_an_error_among_commands_as_one_is_their_reply(transport: RedisTransport) -> None:
    first, refused = transport.exchange(
        [("SET", "a", "1"), as_one(("RPUSH", "a", "x"), ("GET", "a"))]
    )

    assert first == b"OK"
    assert isinstance(refused, redis.ResponseError)
    assert "WRONGTYPE" in str(refused)


def _transactions(client: redis.Redis) -> int:
    statistics: Any = client.info("commandstats")
    return int(statistics.get("cmdstat_exec", {"calls": 0})["calls"])


def test_neighbours_that_are_as_one_each_are_one_transaction(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """An append-only file that is synced always is so once a transaction."""
    before = _transactions(redis_client)

    replies = transport.exchange(
        [
            as_one(("RPUSH", "a", b"x"), ("RPUSH", "a", b"y", b"z")),
            as_one(("GET", "a"), ("SET", "b", "1")),
            as_one(("DEL", "a"), ("RPUSH", "a", b"x")),
            ("LLEN", "a"),
            as_one(("SET", "b", "2"), ("GET", "b")),
        ]
    )

    assert _transactions(redis_client) - before == 2
    assert (replies[0], *replies[2:]) == (3, 1, 1, b"2")
    assert "WRONGTYPE" in str(replies[1])


@pytest.mark.parametrize(("count", "transactions"), [(1, 1), (2, 1), (5, 3)])
def test_a_transaction_of_neighbours_is_bounded(
    redis_client: redis.Redis, transport: RedisTransport, count: int, transactions: int
) -> None:
    """While it is carried out, nobody else is served."""
    text = b"x" * 200_000
    before = _transactions(redis_client)

    replies = transport.exchange(
        [as_one(("SET", b"%d" % at, text), ("STRLEN", b"%d" % at)) for at in range(count)]
    )

    assert replies == [len(text)] * count
    assert _transactions(redis_client) - before == transactions


def test_a_refusal_is_the_reply_to_all_neighbours(transport: RedisTransport) -> None:
    """The first would say nothing but that there was one."""
    first, refused, after = transport.exchange(
        [as_one(("SET", "a", "1"), ("GET", "a")), as_one(("GET",)), ("EXISTS", "a")]
    )

    assert "wrong number of arguments" in str(first)
    assert first is refused
    assert after == 0


def test_each_sending_ahead_has_transactions_of_its_own(transport: RedisTransport) -> None:
    transport.exchange([("PING",)])
    ahead = transport.ahead()
    assert ahead is not None

    ahead.send([as_one(("SET", "a", "1"), ("GET", "a")), as_one(("SET", "b", "2"), ("GET", "b"))])
    ahead.send([as_one(("SET", "a", "3"), ("GET", "a")), ("GET", "b")])

    assert ahead.replies() == [b"1", b"2", b"3", b"2"]


def test_arguments_arrive_as_they_are(transport: RedisTransport) -> None:
    given = [b"", b"\r\n$1\r\n", b"x" * 100_000, "\N{SNOWMAN}", 2**53, -1.5, float("-inf")]

    transport.exchange([("RPUSH", "a", *given)])

    assert transport.exchange([("LRANGE", "a", 0, -1)]) == [
        [*given[:3], "\N{SNOWMAN}".encode(), b"9007199254740992", b"-1.5", b"-inf"]
    ]


def test_what_is_sent_ahead_is_answered_in_order_and_once(transport: RedisTransport) -> None:
    transport.exchange([("SET", "a", "1")])
    ahead = transport.ahead()
    assert ahead is not None

    ahead.send([("GET", "a"), ("LPUSH", "a", "1")])
    assert transport.exchange([("SET", "b", "2")]) == [b"OK"]
    ahead.send([("GET", "b")])

    replies = ahead.replies()
    assert replies is not None
    assert (replies[0], replies[2]) == (b"1", b"2")
    assert isinstance(replies[1], redis.ResponseError)
    assert ahead.replies() is None


def test_no_connection_is_opened_to_send_ahead(transport: RedisTransport) -> None:
    assert transport.ahead() is None


def test_what_nobody_asks_for_is_never_taken_for_another_reply(transport: RedisTransport) -> None:
    transport.exchange([("SET", "a", "1")])
    ahead = transport.ahead()
    assert ahead is not None
    ahead.send([("GET", "a")])

    del ahead

    assert transport.exchange([("GET", "b")]) == [None]


def test_a_connection_that_breaks_ahead_is_told_and_replaced(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    transport.exchange([("SET", "a", "1")])
    ahead = transport.ahead()
    assert ahead is not None
    ahead.send([("GET", "a")])
    redis_client.client_kill_filter(_type="normal", skipme=True)

    ahead.send([("GET", "a")])

    assert ahead.replies() is None
    assert transport.exchange([("GET", "a")], is_repeatable=True) == [b"1"]


def test_functions_that_are_missing_ahead_are_loaded_by_the_exchange(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    transport.exchange([("SET", "a", "1")])
    redis_client.function_flush()
    backend = RedisBackend(transport, "orders")
    run = EpochLedger(transport, "orders").open_run(["1_count"], 1)
    redis_client.function_flush()

    waiting = backend.begin("1_count", EpochStamp(1, run, 0), [0]).expect([])

    assert waiting() == []


def test_functions_that_a_transaction_misses_are_loaded(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    """A reader of a pipeline that never ran may be the first to call one."""
    redis_client.function_flush("SYNC")
    call = ("FCALL", function("promote"), 2, b"{t}meta", b"{t}pending", 0)

    *_, replies = transport.exchange([("MULTI",), call, ("PING",), ("EXEC",)])

    assert not isinstance(replies[0], redis.ResponseError)
    assert replies[1] == b"PONG"


def test_an_error_does_not_hide_the_other_replies(transport: RedisTransport) -> None:
    first, refused, last = transport.exchange(
        [("SET", "a", "1"), ("LPUSH", "a", "1"), ("GET", "a")]
    )

    assert (first, last) == (b"OK", b"1")
    assert isinstance(refused, redis.ResponseError)
    with pytest.raises(StateCorrupt):
        checked([first, refused, last])


def test_nobody_listening_is_unavailable() -> None:
    port = free_port()
    settings = ClientSettings(f"redis://127.0.0.1:{port}", backoff_ms=1)

    with pytest.raises(StateUnavailable, match="ConnectionError") as caught:
        RedisTransport(settings).exchange([("PING",)])

    assert str(port) not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (
            redis.ConnectionError(
                "Error 111 connecting to redis.internal:6379. Connection refused."
            ),
            StateUnavailable,
            "redis does not answer (ConnectionError)",
        ),
        (
            redis.exceptions.NoPermissionError("User alice has no permissions to access key 'k'"),
            StateAccessDenied,
            "redis denies access (NoPermissionError)",
        ),
        (
            redis.ResponseError("MISCONF Redis is configured to save in /var/redis"),
            StateUnavailable,
            "redis does not answer (MISCONF)",
        ),
        (
            redis.ResponseError("WRONGTYPE Operation against a key"),
            StateCorrupt,
            "redis refuses a command (WRONGTYPE)",
        ),
        (
            redis.ResponseError("unknown command 'XYZ', with args beginning with: 'secret'"),
            StateCorrupt,
            "redis refuses a command (ResponseError)",
        ),
    ],
)
def test_of_an_error_of_redis_only_its_kind_is_told(
    error: redis.RedisError, kind: type[StateError], told: str
) -> None:
    found = translate(error)

    assert type(found) is kind
    assert found.message == told


def test_opening_a_connection_is_tried_again_up_to_a_limit() -> None:
    listener = Listener()

    with pytest.raises(StateUnavailable):
        RedisTransport(listener.settings).exchange([("SET", "a", "1")])

    listener.close()
    assert listener.connections == listener.settings.attempts_max


class BrokenConnection:
    """Takes what is sent, gives one reply, and breaks."""

    def __init__(self) -> None:
        self.replies = 1

    def pack_commands(self, commands: Any) -> Any:
        return commands

    def send_packed_command(self, command: Any) -> None:
        pass

    def read_response(self) -> bytes:
        if not self.replies:
            raise redis.ConnectionError("reset by peer")
        self.replies -= 1
        return b"OK"

    def disconnect(self) -> None:
        pass


class BrokenPool:
    """Hands out connections that break."""

    def __init__(self) -> None:
        self.opened = 0
        self.released = 0

    def get_connection(self) -> BrokenConnection:
        self.opened += 1
        return BrokenConnection()

    def release(self, connection: BrokenConnection) -> None:
        self.released += 1


@pytest.mark.parametrize(("is_repeatable", "sent"), [(False, 1), (True, 3)])
def test_only_what_may_be_repeated_is_sent_again(
    monkeypatch: pytest.MonkeyPatch, is_repeatable: bool, sent: int
) -> None:
    transport = RedisTransport(ClientSettings("redis://127.0.0.1", backoff_ms=1))
    pool = BrokenPool()
    monkeypatch.setattr(transport, "_pool", pool)

    with pytest.raises(StateUnavailable, match="ConnectionError"):
        transport.exchange([("INCR", "a"), ("INCR", "b")], is_repeatable=is_repeatable)

    assert (pool.opened, pool.released) == (sent, sent)


def test_a_wrong_password_is_no_reason_to_try_again(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    redis_client.config_set("requirepass", "right")
    try:
        for url in ("redis://127.0.0.1", "redis://:wrong@127.0.0.1"):
            transport = RedisTransport(ClientSettings(f"{url}:{redis_server.port}"))
            with pytest.raises(StateAccessDenied):
                checked(transport.exchange([("PING",)]))
        transport = RedisTransport(ClientSettings(f"redis://:right@127.0.0.1:{redis_server.port}"))
        assert transport.exchange([("PING",)]) == [b"PONG"]
        transport.close()
    finally:
        redis_client.config_set("requirepass", "")


def test_a_connection_is_kept_for_the_next_round_trip(transport: RedisTransport) -> None:
    ids = {transport.exchange([("CLIENT", "ID")])[0] for _ in range(5)}
    assert len(ids) == 1

    # One that answers with errors is as good as before.
    transport.exchange([("GET",)])
    assert {transport.exchange([("CLIENT", "ID")])[0]} == ids


def test_a_connection_that_was_closed_meanwhile_is_not_used_again(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    (kept,) = transport.exchange([("CLIENT", "ID")])
    assert redis_client.client_kill_filter(_id=str(kept)) == 1

    # Sent once only, so it would fail if it went to the closed one.
    assert transport.exchange([("INCR", "a")]) == [1]
    assert transport.exchange([("CLIENT", "ID")]) != [kept]


def test_round_trips_at_the_same_time_have_connections_of_their_own(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    waits = threading.Thread(target=transport.exchange, args=([("BLPOP", "a", 10)],))
    transport.exchange([("PING",)])
    waits.start()
    await_true(lambda: redis_client.info("clients")["blocked_clients"] == 1)

    assert transport.exchange([("RPUSH", "a", "x")]) == [1]
    waits.join(timeout=10)
    assert not waits.is_alive()


def test_a_child_process_opens_connections_of_its_own(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    (own,) = transport.exchange([("CLIENT", "ID")])
    child = os.fork()
    if not child:
        try:
            (its_own,) = transport.exchange([("CLIENT", "ID")])
            transport.exchange([("SET", "child", its_own)])
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert int(redis_client.get("child") or own) != own
    assert transport.exchange([("CLIENT", "ID")]) == [own]


def test_nothing_is_open_after_close(redis_client: redis.Redis, transport: RedisTransport) -> None:
    before = redis_client.info("clients")["connected_clients"]
    transport.exchange([("PING",)])
    assert redis_client.info("clients")["connected_clients"] == before + 1

    transport.close()

    await_true(lambda: redis_client.info("clients")["connected_clients"] == before)
    assert transport.exchange([("PING",)]) == [b"PONG"]


def test_a_full_redis_is_unavailable(redis_client: redis.Redis, transport: RedisTransport) -> None:
    ledger = EpochLedger(transport, "orders")
    run = ledger.open_run(["1_count"], 1)
    redis_client.config_set("maxmemory", "1")
    try:
        with pytest.raises(StateUnavailable):
            ledger.open_run(["1_count"], 1)
    finally:
        redis_client.config_set("maxmemory", "0")
    assert ledger.open_run(["1_count"], 1) == run + 1


def test_a_read_only_redis_is_unavailable(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    redis_client.replicaof("127.0.0.1", free_port())
    try:
        with pytest.raises(StateUnavailable):
            EpochLedger(transport, "orders").open_run(["1_count"], 1)
    finally:
        redis_client.replicaof("NO", "ONE")


def test_functions_carry_the_digest_of_their_source() -> None:
    source, version = library()

    assert source.startswith(f"#!lua name=tailrace_{version}\n")
    assert function("begin") == f"begin_{version}"
    assert "VERSION" not in source


def test_versions_live_beside_each_other(
    redis_client: redis.Redis, transport: RedisTransport
) -> None:
    source, version = library()
    redis_client.function_load(source.replace(version, "0" * 12), replace=True)

    assert EpochLedger(transport, "orders").open_run(["1_count"], 1) == 1


def test_settings_hide_the_password() -> None:
    assert "secret" not in repr(ClientSettings("redis://:secret@localhost"))


@pytest.mark.parametrize("name", ["connect_timeout_ms", "socket_timeout_ms", "attempts_max"])
def test_limits_begin_at_one(name: str) -> None:
    with pytest.raises(ValueError, match="begin at 1"):
        ClientSettings("redis://localhost", **{name: 0})


def test_a_process_shares_a_transport_for_each_incarnation(redis_server: RedisServer) -> None:
    settings = ClientSettings(redis_server.url)

    assert shared_transport(settings, "a") is shared_transport(
        ClientSettings(redis_server.url), "a"
    )
    assert shared_transport(settings, "a") is not shared_transport(settings, "b")
    shared = shared_transport(settings, "a")
    assert transport_of(shared) is shared
    assert isinstance(shared, Transport)
