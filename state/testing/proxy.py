"""A loopback proxy before Redis: a round-trip time that is set, a wire that fails as it is told.

Tests put it between a client and a real server and decide what gets lost: a request before the
server has it, or a reply after the server has acted. Benchmarks use it for a distance (half of the
round trip each way). Bytes under way keep their order and do not delay each other, as on a wire.

It runs an event loop of its own, in a thread for tests, or in a process of its own for benchmarks,
so that it does not compete with what is measured:

    python -m state.testing.proxy --port 6379 --round-trip-ms 0.2      (prints its own port)

The loop waits with `select`, which keeps fractions of a millisecond; epoll rounds up to whole ones.
It listens on 127.0.0.1 only and connects nowhere else.
"""

from __future__ import annotations

import argparse
import asyncio
import selectors
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

LOOPBACK = "127.0.0.1"
_WAIT_S = 10.0


class Proxy:
    """A proxy in a thread; a context manager that ends it.

    Attributes:
        port: Where it listens.
        connections: How many were opened through it.
        requests, replies: How many pieces came from clients and from the server.
        request_bytes, reply_bytes: How long they were together.
    """

    def __init__(self, port: int, *, round_trip_ms: float = 0.0) -> None:
        """Make one; it starts with `start`, or as a context manager.

        Args:
            port: Of the server, on the loopback interface.
            round_trip_ms: What it adds to a round trip.
        """
        self._target = port
        self._one_way_s = round_trip_ms / 2_000
        self._loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
        self._links: set[_Link] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="proxy")
        self._server: asyncio.Server | None = None
        self.port = 0
        self.connections = self.requests = self.replies = 0
        self.request_bytes = self.reply_bytes = 0
        self.is_holding = False
        self.requests_left: int | None = None
        self.replies_left: int | None = None

    @property
    def url(self) -> str:
        """Its address as Redis clients take it."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def start(self) -> None:
        """Listen."""
        self._thread.start()
        self._on_loop(self._listen())

    def stop(self) -> None:
        """Close everything; nothing of it is left."""
        self._on_loop(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # What goes wrong

    def set_round_trip_ms(self, round_trip_ms: float) -> None:
        """Another distance, for what comes from now on."""
        self._now(lambda: setattr(self, "_one_way_s", round_trip_ms / 2_000))

    def cut(self) -> None:
        """Break every connection."""
        self._now(self._cut_all)

    def cut_after_requests(self, count: int) -> None:
        """Let so many more pieces through to the server; the next one is lost, with its link."""
        self._now(lambda: setattr(self, "requests_left", count))

    def cut_after_replies(self, count: int) -> None:
        """Let so many more replies through; the next one is lost, although the server has acted."""
        self._now(lambda: setattr(self, "replies_left", count))

    def hold(self) -> None:
        """Swallow everything, without breaking a connection: the peer that just falls silent."""
        self._now(lambda: setattr(self, "is_holding", True))

    def release(self) -> None:
        """Let through again what comes from now on; what was swallowed is lost."""
        self._now(lambda: setattr(self, "is_holding", False))

    # The loop's side

    @property
    def one_way_s(self) -> float:
        """Delay of a piece, in seconds."""
        return self._one_way_s

    def joined(self, link: _Link) -> None:
        """A client has connected."""
        self._links.add(link)
        self.connections += 1

    def left(self, link: _Link) -> None:
        """A connection has ended."""
        self._links.discard(link)

    def lets_through(self, size: int, *, is_request: bool) -> bool:
        """Count a piece of so many bytes; False if its link is to be cut in its place."""
        if is_request:
            self.requests += 1
            self.request_bytes += size
            self.requests_left, is_let = _one_less(self.requests_left)
        else:
            self.replies += 1
            self.reply_bytes += size
            self.replies_left, is_let = _one_less(self.replies_left)
        return is_let

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self, self._target), LOOPBACK, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        self._cut_all()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await asyncio.sleep(0)

    def _cut_all(self) -> None:
        for link in list(self._links):
            link.cut()

    def _now(self, action: Callable[[], Any]) -> None:
        """Run something in the loop and return once it has run."""

        async def run() -> None:
            action()

        self._on_loop(run())

    def _on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_WAIT_S)


def _one_less(left: int | None) -> tuple[int | None, bool]:
    """What is left after one more piece, and whether it is let through; the limit then falls."""
    if left is None:
        return None, True
    return (left - 1, True) if left else (None, False)


class _Link(asyncio.Protocol):
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, proxy: Proxy, target: int) -> None:
        self._proxy = proxy
        self._target = target
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._early: list[bytes] = []
        """What the client has sent before the server was connected."""
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._client = transport
        self._proxy.joined(self)
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            server, _ = await self._loop.create_connection(
                lambda: _ServerSide(self), LOOPBACK, self._target
            )
        except OSError:
            self.cut()
            return
        self._server = server
        early, self._early = self._early, []
        for data in early:
            self._forward(self._server, data)

    def data_received(self, data: bytes) -> None:
        if not self._proxy.lets_through(len(data), is_request=True):
            self.cut()
        elif self._server is None:
            self._early.append(data)
        else:
            self._forward(self._server, data)

    def reply_received(self, data: bytes) -> None:
        """The server has sent something."""
        if not self._proxy.lets_through(len(data), is_request=False):
            self.cut()
        elif self._client is not None:
            self._forward(self._client, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.cut()

    def cut(self) -> None:
        """Break both connections, at once and without saying goodbye."""
        for side in (self._client, self._server):
            if side is not None:
                side.abort()
        self._proxy.left(self)

    def _forward(self, to: asyncio.Transport, data: bytes) -> None:
        if self._proxy.is_holding:
            return
        if self._proxy.one_way_s > 0:
            self._loop.call_later(self._proxy.one_way_s, _write, to, data)
        else:
            _write(to, data)


class _ServerSide(asyncio.Protocol):
    """Hands what the server sends to the link."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.reply_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.cut()


def _write(to: asyncio.Transport, data: bytes) -> None:
    if not to.is_closing():
        to.write(data)


def main() -> None:
    """Run a proxy in this process until its standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the server, on 127.0.0.1")
    parser.add_argument("--round-trip-ms", type=float, default=0.0)
    options = parser.parse_args()
    with Proxy(options.port, round_trip_ms=options.round_trip_ms) as proxy:
        sys.stdout.write(f"{proxy.port}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
