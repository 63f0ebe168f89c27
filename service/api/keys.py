"""`.../operators/{op}/keys`: the keys of an operator, their histories, and why a row is current.

The address of a key is `/keys/N14228` for one column, `/keys/JFK,LAX` for several, and
`/keys/-?key=["a,b",1]` for any; lists give each key's own in `href`. See `runtime.key_text`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from service import problem_types as problem
from service.api.deps import InspectorDep, PageDep, describe, in_thread
from service.api.etags import reply
from service.api.models import History, KeyExplanation, KeyList, KeyRow
from service.api.paging import cursor_text, index, page_body, scan, text
from service.api.times import iso
from service.runtime.explanation import explain

if TYPE_CHECKING:
    from service.runtime.inspection import ShownEntry

KeyValues = tuple[Any, ...]

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators/{operator}/keys", tags=["state"])

KeyPath = Annotated[
    str,
    Path(
        description="The key's text; several columns with commas between; `-` for the long form.",
        examples=["N14228"],
    ),
]
KeyQuery = Annotated[
    str | None,
    Query(
        alias="key",
        description="With `-` as the path: a JSON array with a value for each key column.",
        max_length=8_192,
        examples=['["N14228"]'],
    ),
]

_OF_KEY = describe(
    problem.PIPELINE_NOT_FOUND,
    problem.OPERATOR_NOT_FOUND,
    problem.KEY_NOT_FOUND,
    problem.KEY_EXPIRED,
    problem.KEY_MALFORMED,
)


async def values_of(inspector: InspectorDep, key: KeyPath, key_query: KeyQuery = None) -> KeyValues:
    """The typed values of the key in the address.

    Raises:
        KeyMalformed: it is no key of the operator's columns.
    """
    return inspector.keys.parse(key, key_query)


KeyDep = Annotated[KeyValues, Depends(values_of)]


@router.get(
    "",
    response_model=KeyList,
    responses=describe(
        problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND, problem.CURSOR_INVALID
    ),
)
async def list_all(
    request: Request,
    inspector: InspectorDep,
    page: PageDep,
    prefix: Annotated[
        str, Query(max_length=1_024, description="Only keys whose first column begins so.")
    ] = "",
) -> Response:
    """Keys that have rows, by key group. A page may be short, or even empty, and not the last."""
    part = await in_thread(
        inspector.list_keys, prefix, page.position(index, scan, text), page.limit
    )
    base = request.scope["raw_path"].decode("ascii")
    items = [
        {
            "key": each.key,
            "href": f"{base}/{inspector.keys.href(each.key)}",
            "layout": each.layout,
            "entries": each.entries,
        }
        for each in part.items
    ]
    following = None if part.position is None else cursor_text(*part.position)
    return reply(request, page_body(request, items, following, epoch=part.epoch))


@router.get("/{key}", response_model=KeyRow, responses=_OF_KEY)
async def get(request: Request, inspector: InspectorDep, key: KeyDep) -> Response:
    """The key's current row: its newest live entry."""
    history = await in_thread(inspector.history, key)
    body = {"key": history.key, "epoch": history.epoch, **_entry(history.current)}
    return reply(request, {**body, "entries": history.size})


@router.get("/{key}/history", response_model=History, responses=_OF_KEY)
async def get_history(
    request: Request, inspector: InspectorDep, key: KeyDep, page: PageDep
) -> Response:
    """The key's live rows, oldest first, each with its sequence number."""
    after = (page.position(index) or (0,))[0]
    history = await in_thread(inspector.history, key, after=after, limit=page.limit)
    following = None if history.next_after is None else cursor_text(history.next_after)
    members = {
        "key": history.key,
        "epoch": history.epoch,
        "entries": history.size,
        "layout": history.layout,
    }
    items = [_entry(each) for each in history.entries]
    return reply(request, page_body(request, items, following, **members))


@router.get("/{key}/explain", response_model=KeyExplanation, responses=_OF_KEY)
async def get_explanation(request: Request, inspector: InspectorDep, key: KeyDep) -> Response:
    """Why this row is current, and what the sink falls back to if it is retracted."""
    history = await in_thread(inspector.history, key)
    why = explain(history)
    body: dict[str, Any] = {
        "key": history.key,
        "epoch": history.epoch,
        "text": why.text,
        "current": _entry(history.current),
        "fallback": None if history.fallback is None else _entry(history.fallback),
        "shown_sequence_number": history.shown,
        "entries": history.size,
        "entries_behind": history.size - 1,
        "on_retraction": why.on_retraction,
    }
    return reply(request, body)


def _entry(entry: ShownEntry) -> dict[str, Any]:
    return {
        "sequence_number": entry.sequence_number,
        "row": entry.row,
        "inserted_at": iso(entry.written_ms),
        "expires_at": iso(entry.expires_ms),
        "current": entry.current,
        "shown": entry.shown,
    }
