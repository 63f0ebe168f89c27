"""The few requests that the demo makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from collections.abc import Iterator


class DemoError(Exception):
    """The demo cannot go on; the message is one line for the person who started it."""


class Client:
    """Tailrace over HTTP, as any user would speak to it."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self._http = httpx.Client(base_url=base_url, timeout=30.0)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def get(self, path: str, **parameters: str | int) -> Any:
        """The JSON body of a GET.

        Raises:
            DemoError: the answer is no success; with the problem's own words.
        """
        return self._body(self._http.get(path, params=parameters))

    def find(self, path: str) -> Any | None:
        """As `get`, but None for 404."""
        reply = self._http.get(path)
        return None if reply.status_code == httpx.codes.NOT_FOUND else self._body(reply)

    def post(self, path: str, body: object = None, *, idempotency_key: str | None = None) -> Any:
        """The JSON body of the answer to a POST.

        Raises:
            DemoError: the answer is no success.
        """
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        return self._body(self._http.post(path, json=body, headers=headers))

    def pages(self, path: str, **parameters: str | int) -> Iterator[Any]:
        """Every item of a paged list, page after page."""
        cursor: str | None = None
        while True:
            page = self.get(path, **parameters, **({"cursor": cursor} if cursor else {}))
            yield from page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                return

    @staticmethod
    def _body(reply: httpx.Response) -> Any:
        if reply.is_success:
            return reply.json() if reply.content else None
        try:
            problem = reply.json()
            words = problem.get("detail") or problem.get("title") or reply.text
        except ValueError:
            words = reply.text
        raise DemoError(f"{reply.request.method} {reply.request.url.path}: {words}"[:500])
