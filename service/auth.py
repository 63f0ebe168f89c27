"""API keys: who may read and who may operate.

The settings hold hashes only, so a leaked file gives no access; keys are random and long, which is
why one round of SHA-256 is enough. A presented key is compared with all of them in constant time.
Without keys in the settings everything is allowed, which is what a service on a loopback address
wants; `GET /readyz` says which it is.

Reading methods need scope `read`, all others `operate`, but for those in `READING_POSTS`. What is
open to all is listed here as well: an address that nobody thought of is closed.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from service.api.errors import Forbidden, Unauthenticated
from service.settings import Scope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as AsgiScope

    from service.settings import AuthSettings

OPEN_PATHS = frozenset({"/healthz", "/readyz", "/docs", "/v1/openapi.json"})
OPEN_PREFIX = "/docs/problems/"
READING_POSTS = frozenset({"/v1/plans/validate", "/v1/plans/explain"})
"""What costs little: compiling, and with it `/v1/plans/diff`, needs the other scope."""
PRINCIPAL = "tailrace.principal"
"""Where the ASGI scope holds the caller's name, empty when no keys are set."""

_READING_METHODS = frozenset({"GET", "OPTIONS"})
"""HEAD comes here as GET (`api.head`)."""
_KEY_LENGTH_MAX = 512
_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="tailrace"'}


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key that the settings know."""

    name: str
    scope: Scope
    digest: bytes


class KeyRing:
    """The keys of the settings."""

    def __init__(self, settings: AuthSettings) -> None:
        self._keys: list[ApiKey] = []
        for text in settings.keys:
            name, scope, digest = text.get_secret_value().split(":")
            self._keys.append(ApiKey(name, Scope(scope), bytes.fromhex(digest)))

    def __bool__(self) -> bool:
        return bool(self._keys)

    def find(self, presented: str) -> ApiKey | None:
        """The key with this text; looks at all of them, however early one fits."""
        digest = sha256(presented.encode("utf-8", "surrogatepass")).digest()
        found: ApiKey | None = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def admit(self, method: str, path: str, headers: Mapping[str, str]) -> str:
        """The caller's name.

        Raises:
            Unauthenticated: no key, or an unknown one.
            Forbidden: a key whose scope does not reach.
        """
        if not self._keys or path in OPEN_PATHS or path.startswith(OPEN_PREFIX):
            return ""
        key = self.find(_presented(headers))
        if key is None:
            raise Unauthenticated("no API key that is known here", headers=dict(_CHALLENGE))
        reads = method in _READING_METHODS or path in READING_POSTS
        if not reads and key.scope is not Scope.OPERATE:
            raise Forbidden(f'the scope of API key "{key.name}" is {key.scope}, not operate')
        return key.name


class Authenticate:
    """Asks the key ring before anything else of a request is read."""

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed; raise otherwise."""
        if scope["type"] == "http":
            headers = {
                name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
            }
            scope[PRINCIPAL] = self._keys.admit(scope["method"], scope["path"], headers)
        await self._app(scope, receive, send)


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    presented = token.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    if not presented or len(presented) > _KEY_LENGTH_MAX:
        raise Unauthenticated(
            "the request carries no API key",
            hint="send Authorization: Bearer KEY, or X-API-Key",
            headers=dict(_CHALLENGE),
        )
    return presented
