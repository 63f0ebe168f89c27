"""HEAD wherever GET is: the same answer without its body (RFC 9110, 9.3.2).

The outermost layer: everything inside sees a GET, so that a key that may read may ask with
HEAD too, and routes, logs and metrics know one method less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class AnswerHead:
    """Turns HEAD into GET, and takes the body off the answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        # A copy: the server's own scope must go on saying HEAD.
        await self._app({**scope, "method": "GET"}, receive, send_without_body)
