"""`.../operators/{op}/keys`: the keys of an operator, and what it keeps of each.

An upsert materializer keeps histories, and can tell why a row is current; of any other operator a
key shows all its states side by side.

The address of a key is `/keys/N14228` for one column, `/keys/JFK,LAX` for several, and
`/keys/-?key=["a,b",1]` for any; lists give each key's own in `href`. See `runtime.key_text`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from service import problem_types as problem
from service.api.deps import InspectorDep, LimitDep, PageDep, StatesDep, describe, in_thread
from service.api.errors import InvalidParameter
from service.api.etags import epoch_reply
from service.api.paging import cursor_text, index, page_body, scan, text
from service.api.state_models import History, KeyExplanation, KeyList, KeyRow, KeyStates
from service.api.times import iso
from service.runtime.explanation import explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.inspection import ShownEntry
    from service.runtime.key_listing import Part, ShownKey
    from service.runtime.key_text import KeyText
    from service.runtime.state_inspection import ShownKeyStates
    from state.primitives.inspection import StateContent

KeyValues = tuple[Any, ...]

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators/{operator}/keys", tags=["state"])

KeyPath = Annotated[
    str,
    Path(
        description="The key as text, columns separated by commas; `-` for the long form, which a "
        "key with a slash needs.",
        examples=["N14228"],
    ),
]
KeyQuery = Annotated[
    str | None,
    Query(
        alias="key",
        description="If the path has `-`: a JSON array with a value for each key column.",
        max_length=8_192,
        examples=['["N14228"]'],
    ),
]

PrefixQuery = Annotated[
    str, Query(max_length=1_024, description="Only keys whose first column starts with this.")
]
NamespaceQuery = Annotated[
    str, Query(max_length=1_024, description="The key's namespace, if the operator uses them.")
]

_OF_KEY = describe(
    problem.PIPELINE_NOT_FOUND,
    problem.OPERATOR_NOT_FOUND,
    problem.KEY_NOT_FOUND,
    problem.KEY_EXPIRED,
    problem.KEY_MALFORMED,
)
_OF_HISTORY = describe(
    problem.PIPELINE_NOT_FOUND,
    problem.OPERATOR_NOT_FOUND,
    problem.STATE_NOT_FOUND,
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


async def namespace_of(inspector: InspectorDep, namespace: NamespaceQuery = "") -> str:
    """The namespace that is asked for; empty for none.

    Raises:
        InvalidParameter: the operator keeps histories, which have no namespaces.
    """
    if namespace and inspector.keeps_histories:
        message = "an upsert materializer uses no namespaces"
        error = {"in": "query", "path": "/namespace", "message": message}
        raise InvalidParameter(f"query /namespace: {message}", errors=[error])
    return namespace


NamespaceDep = Annotated[str, Depends(namespace_of)]


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
    states: StatesDep,
    page: PageDep,
    prefix: PrefixQuery = "",
) -> Response:
    """Keys with live entries in any state, by key group; one item for each namespace of a key.

    A page may be short, or even empty, without being the last. Keys that only have timers are
    listed at `.../states/{state}/keys`.
    """
    list_keys = (
        inspector.list_keys if inspector.keeps_histories else partial(states.list_keys, None)
    )
    part = await in_thread(list_keys, prefix, page.position(index, scan, text), page.limit)
    return key_page(request, inspector.keys, part)


@router.get("/{key}", response_model=KeyRow | KeyStates, responses=_OF_KEY)
async def get(
    request: Request,
    inspector: InspectorDep,
    states: StatesDep,
    key: KeyDep,
    limit: LimitDep,
    namespace: NamespaceDep,
) -> Response:
    """What the operator keeps for the key.

    An upsert materializer: the key's current row, its newest live entry. Any other operator: the
    key in each state that has anything of it, and its timers; `next` leads to what is beyond the
    limit.
    """
    if not inspector.keeps_histories:
        found = await in_thread(states.read_all, key, namespace=namespace, limit=limit)
        shown = [
            _state(request, inspector.keys, found, state.name, content, namespace)
            for state, content in found.states
        ]
        return epoch_reply(request, {"key": found.key, "epoch": found.epoch, "states": shown})
    history = await in_thread(inspector.history, key)
    body = {"key": history.key, "epoch": history.epoch, **_entry(history.current)}
    return epoch_reply(request, {**body, "entries": history.size})


@router.get("/{key}/history", response_model=History, responses=_OF_HISTORY)
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
    return epoch_reply(request, page_body(request, items, following, **members))


@router.get("/{key}/explain", response_model=KeyExplanation, responses=_OF_HISTORY)
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
    return epoch_reply(request, body)


def key_page(
    request: Request, keys: KeyText, part: Part[ShownKey], *, of_histories: bool = False
) -> Response:
    """The answer with a page of keys; of the keys of a state, each leads to what it has there."""
    base = request.scope["raw_path"].decode("ascii")
    if of_histories:
        base = f"{base.rpartition('/states/')[0]}/keys"
    suffix = "/history" if of_histories else ""
    items = [
        {
            "key": each.key,
            "namespace": each.namespace,
            "href": f"{base}/{_address(keys, each.key, each.namespace, suffix)}",
            "layout": each.layout,
            "entries": each.entries,
        }
        for each in part.items
    ]
    following = None if part.position is None else cursor_text(*part.position)
    return epoch_reply(request, page_body(request, items, following, epoch=part.epoch))


def elements(content: StateContent, before: int) -> list[dict[str, Any]]:
    """The elements of a page of a state, of which so many came on pages before."""
    has_order = content.kind == "sorted_map"
    return [
        {
            "rank": before + at if has_order else None,
            "key": each.key,
            "value": each.value,
            "touched_at": iso(each.stamp_ms),
            "expires_at": iso(each.expires_ms),
        }
        for at, each in enumerate(content.elements, 1)
    ]


def next_cursor(content: StateContent, before: int) -> str | None:
    """Where the page of a state behind this one begins."""
    if content.next_after is None:
        return None
    return cursor_text(before + len(content.elements), content.next_after)


def _state(
    request: Request,
    keys: KeyText,
    found: ShownKeyStates,
    name: str,
    content: StateContent,
    namespace: str,
) -> dict[str, Any]:
    """What a key has in one of its states, and where there is more."""
    operator = request.scope["raw_path"].decode("ascii").rpartition("/keys/")[0]
    href = f"{operator}/states/{name}/keys/{_address(keys, found.key, namespace)}"
    cursor = next_cursor(content, 0)
    return {
        "state": name,
        "kind": content.kind,
        "layout": content.layout,
        "href": href,
        "items": elements(content, 0),
        "next": None if cursor is None else _with_query(href, cursor=cursor),
    }


def _address(keys: KeyText, values: Sequence[Any], namespace: str, suffix: str = "") -> str:
    key, mark, query = keys.href(values).partition("?")
    address = f"{key}{suffix}{mark}{query}"
    return _with_query(address, namespace=namespace) if namespace else address


def _with_query(address: str, **query: str) -> str:
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"


def _entry(entry: ShownEntry) -> dict[str, Any]:
    return {
        "sequence_number": entry.sequence_number,
        "row": entry.row,
        "inserted_at": iso(entry.written_ms),
        "expires_at": iso(entry.expires_ms),
        "current": entry.current,
        "shown": entry.shown,
    }
