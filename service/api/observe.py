"""The outermost layer of a request: its id, its log line, its metrics, and its last way out.

This is the loop that owns a request: whatever is raised below it becomes a problem document here,
expected or not. The access log has the route's template instead of the path, since paths hold keys.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import TYPE_CHECKING

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request

from service.api.addresses import addresses_of
from service.problems import problem_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from service.settings import LimitSettings
    from service.telemetry import Telemetry

REQUEST_ID = "tailrace.request_id"
"""Where the ASGI scope holds the request's id."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_GONE = 499
_HEADERS = {
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

log = structlog.get_logger(__name__)


class Observe:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry, limits: LimitSettings) -> None:
        self._app = app
        self._telemetry = telemetry
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request to its end."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope[REQUEST_ID] = request_id
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        started = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, send_with_headers)
            except ClientDisconnect:
                status = status or _CLIENT_GONE
            except Exception as error:  # one of the two loops that own what they run: a request
                if status:
                    log.exception("request failed after its answer had begun")
                    raise
                problem = problem_of(error)
                if problem.status >= 500:
                    log.exception("request failed", problem=problem.slug)
                response = problem.response(request_id, self._limits.retry_after_ms)
                await response(scope, receive, send_with_headers)
            finally:
                self._note(scope, status or _CLIENT_GONE, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path_format", None)
        if route is None:
            # Refused before it came to a route: without a key, or for its body.
            route = addresses_of(scope["app"]).template(scope["path"], scope["method"])
        self._telemetry.request(scope["method"], route, status, seconds)
        log.info(
            "request",
            method=scope["method"],
            route=route,
            status=status,
            duration_ms=round(seconds * 1_000, 2),
        )


def _request_id(scope: Scope) -> str:
    """The client's id where it is harmless in a log, else a new one."""
    given = Request(scope).headers.get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
