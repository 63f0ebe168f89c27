"""Pages of lists: `?limit=&cursor=`, and `next` as a link to follow.

A cursor is opaque to clients: base64url of a JSON array that tells the list where to go on. It is
not signed, since it gives nothing that the list itself does not; what is not of the expected shape
is refused, and what points nowhere gives an empty page. The shape is one check for each value:

    index       a count, an epoch, a sequence number or a key group
    scan        a cursor of Redis's HSCAN
    stream_id   the id of a stream's entry; "" at the beginning
    text        a name or a key
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import orjson
from fastapi import Query, Request
from pydantic import BeforeValidator

from service.api.errors import InvalidCursor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CURSOR_LENGTH_MAX = 8_192
_STREAM_ID = re.compile(r"([0-9]{1,19})-([0-9]{1,19})")


def index(value: object) -> bool:
    """Whether it is a whole number from 0 that fits 64 bits with its sign."""
    return type(value) is int and 0 <= value < 1 << 63


def scan(value: object) -> bool:
    """Whether it may be a cursor of HSCAN, which has 64 bits and no sign."""
    return type(value) is int and 0 <= value < 1 << 64


def stream_id(value: object) -> bool:
    """Whether it is empty, or two numbers, each an `index`: Redis finds ids behind any such one."""
    found = _STREAM_ID.fullmatch(value) if isinstance(value, str) else None
    return value == "" or (found is not None and all(index(int(each)) for each in found.groups()))


def text(value: object) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is asked for."""

    limit: int
    cursor: str | None

    def position(self, *shape: Callable[[object], bool]) -> tuple[Any, ...] | None:
        """What the cursor says, or None at the start of the list.

        Raises:
            InvalidCursor: it does not hold values of this shape.
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
            or len(found) != len(shape)
            or not all(fits(value) for value, fits in zip(found, shape, strict=True))
        ):
            raise InvalidCursor("the cursor is not one that this list gave")
        return tuple(found)


def _digits(value: object) -> object:
    """Refuse what Python reads as a number and nobody else does, such as `1_0`.

    Raises:
        ValueError: It is not made of digits.
    """
    if isinstance(value, str) and re.fullmatch("-?[0-9]+", value) is None:
        raise ValueError("must be a whole number in digits")
    return value


_LimitQuery = Annotated[
    int | None,
    BeforeValidator(_digits),
    Query(ge=1, le=10_000, description="Most items to return; capped by limits.page_size_max."),
]


async def limit_of(request: Request, limit: _LimitQuery = None) -> int:
    """How many items a request asks for, of what has no pages of its own."""
    limits = request.app.state.services.settings.limits
    return int(min(limit or limits.page_size_default, limits.page_size_max))


async def page_of(
    request: Request,
    limit: _LimitQuery = None,
    cursor: Annotated[
        str | None,
        Query(max_length=_CURSOR_LENGTH_MAX, description="`next_cursor` of the page before."),
    ] = None,
) -> Page:
    """The page that a request asks for."""
    return Page(await limit_of(request, limit), cursor)


def cursor_text(*position: object) -> str:
    """The cursor that leads to a position of JSON values."""
    return base64.urlsafe_b64encode(orjson.dumps(position)).rstrip(b"=").decode()


def page_body(
    request: Request, items: Sequence[Any], next_cursor: str | None, **members: object
) -> dict[str, Any]:
    """The body of a page: its items and how to get the next one, null at the end."""
    link = None
    if next_cursor is not None:
        kept = [(name, value) for name, value in request.query_params.multi_items()]
        query = [pair for pair in kept if pair[0] != "cursor"] + [("cursor", next_cursor)]
        link = f"{request.scope['raw_path'].decode('ascii')}?{urlencode(query)}"
    return {**members, "items": items, "next": link, "next_cursor": next_cursor}
