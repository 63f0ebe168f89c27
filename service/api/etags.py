"""Answers as JSON with an entity tag, and the two conditions on it.

The tag of a reply is a digest of its bytes, so `If-None-Match` gives 304 exactly when nothing that
the client could see has changed. What is shown as of an epoch, as keys, states and tables are, has
a weak tag, of all but the number of that epoch: it changes when what is shown does, and not while
epochs close in which nothing happens.

A pipeline's tag starts with the version of its definition and the beginning of its id,
`"7.1f3a2b4c.9f0c…"`. `If-Match` compares these only: status and epoch move all the time and must
not make every update fail, while two updates of the definition must not overwrite each other, nor
one be of a pipeline that was made anew under the name.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import orjson
from starlette.responses import Response

from service.api.errors import InvalidParameter, PreconditionFailed
from service.runtime.records import NEVER, Edition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

JSON = "application/json"
_OF_PIPELINE = re.compile(r'"([0-9]{1,18})\.([0-9a-f]{8})\.[0-9a-f]+"')


def reply(
    request: Request,
    body: object,
    *,
    status: int = 200,
    edition: Edition | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A JSON answer with its tag; 304 without a body where the client has it already."""
    return tagged(
        request,
        _json(body),
        media_type=JSON,
        status=status,
        edition=edition,
        headers=headers,
    )


def epoch_reply(request: Request, body: Mapping[str, Any]) -> Response:
    """As `reply`, of what was read as of the epoch that the body names."""
    shown = {name: value for name, value in body.items() if name != "epoch"}
    return tagged(request, _json(body), media_type=JSON, shown=_json(shown))


def tagged(
    request: Request,
    content: bytes,
    *,
    media_type: str,
    shown: bytes | None = None,
    status: int = 200,
    edition: Edition | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """As `reply`, for bytes of any media type; a weak tag is of what is `shown` by them."""
    tag = _tag_of(content) if shown is None else f"W/{_tag_of(shown)}"
    if edition is not None:
        tag = f'"{edition.version}.{edition.pipeline}.{tag[1:]}'
    known = request.headers.get("if-none-match")
    if request.method == "GET" and status == 200 and known is not None and _lists(known, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return Response(content, status, {"ETag": tag, **(headers or {})}, media_type)


def _json(body: object) -> bytes:
    return orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS)


def _tag_of(content: bytes) -> str:
    return f'"{blake2b(content, digest_size=12).hexdigest()}"'


def _lists(header: str, tag: str) -> bool:
    """Weak comparison against a list of tags (RFC 9110, 13.1.2); proxies may weaken ours."""
    listed = [each.strip().removeprefix("W/") for each in header.split(",")]
    return "*" in listed or tag.removeprefix("W/") in listed


def expected_edition(request: Request) -> Edition | None:
    """What `If-Match` says that a pipeline is; None without the header or for `*`.

    A tag that is weak, or not one of a pipeline, is `NEVER`: whether there is such a pipeline comes
    before whether it is as it was.

    Raises:
        InvalidParameter: the header is not one tag as we give them.
    """
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return None
    tag = header.strip()
    if "," in tag:
        raise InvalidParameter("If-Match takes one entity tag", hint="send the ETag as it was")
    found = _OF_PIPELINE.fullmatch(tag)
    return NEVER if found is None else Edition(int(found[1]), found[2])


def check_unchanged(request: Request, body: object) -> None:
    """See that what is to be changed is still what `If-Match` says, where it has no versions.

    Raises:
        PreconditionFailed: None of the tags is that of what it is now.
    """
    header = request.headers.get("if-match")
    if header is None or header.strip() == "*":
        return
    tag = _tag_of(_json(body))
    if tag not in [each.strip() for each in header.split(",")]:
        raise PreconditionFailed(
            "it is not what If-Match says any more", hint="read it again and repeat the change"
        )
