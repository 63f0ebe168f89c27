"""Pages of lists: `?limit=&cursor=`, and `next` as a link to follow.

A cursor is opaque to clients: base64url of a JSON array that tells the list where to go on. It is
not signed, since it gives nothing that the list itself does not; what is not of the expected shape
is refused, and what points nowhere gives an empty page.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import Query, Request

from service.api.errors import InvalidCursor

if TYPE_CHECKING:
    from collections.abc import Sequence

_CURSOR_LENGTH_MAX = 8_192


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None

    def position(self, *kinds: type) -> tuple[Any, ...] | None:
        """What the cursor says, or None at the start of the list.

        Raises:
            InvalidCursor: it does not hold values of these types.
        """
        if self.cursor is None:
            return None
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            found = orjson.loads(base64.b64decode(padded.encode("ascii"), b"-_", validate=True))
        except (binascii.Error, UnicodeEncodeError, orjson.JSONDecodeError) as error:
            raise InvalidCursor("the cursor is not one that this list gave") from error
        if (
            not isinstance(found, list)
            or len(found) != len(kinds)
            or any(type(value) is not kind for value, kind in zip(found, kinds, strict=True))
        ):
            raise InvalidCursor("the cursor is not one that this list gave")
        return tuple(found)


async def page_of(
    request: Request,
    limit: Annotated[
        int | None,
        Query(ge=1, le=10_000, description="Items at most; capped by limits.page_size_max."),
    ] = None,
    cursor: Annotated[
        str | None,
        Query(
            max_length=_CURSOR_LENGTH_MAX, description="Where to go on: `next_cursor` as it was."
        ),
    ] = None,
) -> Page:
    """The page that a request asks for."""
    limits = request.app.state.services.settings.limits
    return Page(min(limit or limits.page_size_default, limits.page_size_max), cursor)


def cursor_text(*position: Any) -> str:
    """The cursor that leads to a position of JSON values."""
    return base64.urlsafe_b64encode(orjson.dumps(position)).rstrip(b"=").decode()


def page_body(
    request: Request, items: Sequence[Any], next_cursor: str | None, **members: Any
) -> dict[str, Any]:
    """The body of a page: its items and how to get the next one, null at the end."""
    link = None
    if next_cursor is not None:
        kept = [(name, value) for name, value in request.query_params.multi_items()]
        query = [pair for pair in kept if pair[0] != "cursor"] + [("cursor", next_cursor)]
        link = f"{request.scope['raw_path'].decode('ascii')}?{urlencode(query)}"
    return {**members, "items": items, "next": link, "next_cursor": next_cursor}
