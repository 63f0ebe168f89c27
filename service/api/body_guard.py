"""Limits on bodies, before any route sees them: size as it arrives, nesting, and well-formed JSON.

The body is read here, at most `body_size_max_bytes` of it whether or not `Content-Length` says the
truth, and handed on as one message. Routes may therefore read it as often as they like, and the
standard JSON parser after us never meets nesting that would exhaust its stack, NaN or a lone
surrogate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import orjson

from service.api.errors import BodyTooDeep, BodyTooLarge, MalformedBody, UnsupportedMediaType

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from service.settings import LimitSettings

# The closing quote is optional so that an open string is one match to the end: without that, each
# quote in it would start another scan, and hostile text would cost the square of its length.
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1


def json_depth(data: bytes) -> int:
    """The deepest nesting of arrays and objects in a JSON text; 0 for a scalar.

    >>> json_depth(b'{"a": [1, [2]], "b": "[[[["}')
    3
    """
    bare = _STRING.sub(b"", data)
    steps = _STEP[np.frombuffer(bare, np.uint8)]
    return int(np.cumsum(steps[steps != 0], dtype=np.int64).max(initial=0))


def check_json(data: bytes, depth_max: int) -> None:
    """Refuse what is not JSON or too deep.

    Raises:
        BodyTooDeep: nested deeper than allowed.
        MalformedBody: not JSON; says where.
    """
    depth = json_depth(data)
    if depth > depth_max:
        raise BodyTooDeep(f"the body is nested {depth} deep, {depth_max} are allowed")
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise MalformedBody(_where(data) or f"the body is not JSON: {_at(error)}") from error


def _at(error: orjson.JSONDecodeError) -> str:
    return f"line {error.lineno} column {error.colno}"


def _where(data: bytes) -> str:
    """Where a body is not UTF-8, which orjson does not tell; empty if it is."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        *lines, last = data[: error.start].decode().split("\n")
        return f"the body is not UTF-8: line {len(lines) + 1} column {len(last) + 1}"
    return ""


def is_json(content_type: str) -> bool:
    """Whether a Content-Type says that the body is JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind == "application/json" or (
        kind.startswith("application/") and kind.endswith("+json")
    )


class GuardBody:
    """Reads the body of a request within the limits, and hands it on whole."""

    def __init__(self, app: ASGIApp, limits: LimitSettings) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request whose body is within the limits; raise otherwise."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        body = await self._read(headers, receive)
        if body is None:
            return
        if body and is_json(headers.get(b"content-type", b"").decode("latin-1")):
            check_json(body, self._limits.json_depth_max)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, replay, send)

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> bytes | None:
        """The whole body, or None if the client went away."""
        limit = self._limits.body_size_max_bytes
        if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
            raise UnsupportedMediaType("bodies with a Content-Encoding are not taken")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limit:
            raise BodyTooLarge(f"the body is larger than {limit} bytes")
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"the body is larger than {limit} bytes")
            parts.append(part)
            more = message.get("more_body", False)
        return b"".join(parts)
