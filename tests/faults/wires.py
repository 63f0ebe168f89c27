"""Connections that break between, before and inside what they send and read.

What `state.testing.faults` tells of commands is a model; here the client's own connections to a
real server break. A `WirePlan` counts their **moments**: each piece that is sent, each reply that
is read, the greeting of a new connection included. Where a connection breaks it stays open for
writing until the server has taken what was sent and closed its side, so that what is carried out
does not depend on who is faster.
"""

from __future__ import annotations

import socket
from enum import Enum
from typing import Any, ClassVar

import redis

from state.testing.faults import ProcessDied


class Break(Enum):
    """What happens at a moment."""

    BEFORE = "before"
    """The connection is closed before the piece is sent, or the reply read."""
    INSIDE = "inside"
    """Half of the piece goes; of a reply that is read, as `BEFORE`."""
    SILENCE = "silence"
    """The piece goes; the reply, or its place in a later one, does not come in time."""
    DEATH = "death"
    """Whoever sends or reads is stopped, by an error that is none of the connection's."""


class WirePlan:
    """Counts moments, and knows what happens at which."""

    def __init__(self, breaks: dict[int, Break] | None = None) -> None:
        self._breaks = dict(breaks or {})
        self.passed = 0

    def strike(self, breaks: dict[int, Break]) -> None:
        """Count anew, from the next moment on."""
        self._breaks, self.passed = dict(breaks), 0

    def next(self) -> Break | None:
        """What happens at the next moment."""
        self.passed += 1
        return self._breaks.pop(self.passed, None)

    @property
    def unspent(self) -> bool:
        """Whether something that was to happen has not happened."""
        return bool(self._breaks)


class Wire(redis.Connection):
    """A connection of the client's that passes a plan."""

    plan: ClassVar[WirePlan] = WirePlan()

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        """Send, as far as the plan lets it."""
        data = command.encode() if isinstance(command, str) else b"".join(command)
        match self.plan.next():
            case Break.BEFORE:
                self._break_off(b"")
            case Break.INSIDE:
                self._break_off(data[: len(data) // 2])
            case Break.DEATH:
                super().send_packed_command([data[: len(data) // 2]], check_health)
                raise ProcessDied
            case _:
                super().send_packed_command([data], check_health)

    def read_response(self, *given: Any, **named: Any) -> Any:
        """Read, as far as the plan lets it."""
        broken = self.plan.next()
        if broken is Break.DEATH:
            # The reply stays where it is, in an open connection.
            raise ProcessDied
        if broken is Break.SILENCE:
            self._end(b"")
            raise redis.TimeoutError("timed out, as planned")
        if broken is not None:
            self._break_off(b"")
        return super().read_response(*given, **named)

    def _break_off(self, last: bytes) -> None:
        self._end(last)
        raise redis.ConnectionError("reset by peer, as planned")

    def _end(self, last: bytes) -> None:
        """Send a last piece and wait until the server has closed its side."""
        sock = self._sock
        assert isinstance(sock, socket.socket)
        sock.sendall(last)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(1 << 16):
            pass
        self.disconnect()


def wired_client(port: int, plan: WirePlan) -> redis.Redis:
    """A client whose connections pass a plan, and that tries nothing again by itself."""
    kind = type("PlannedWire", (Wire,), {"plan": plan})
    pool = redis.ConnectionPool(connection_class=kind, host="127.0.0.1", port=port)
    return redis.Redis(connection_pool=pool)
