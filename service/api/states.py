"""`.../operators/{op}/states`: what an operator has registered, and what a key has in each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from service import problem_types as problem
from service.api.deps import (
    InspectorDep,
    PageDep,
    StatesDep,
    describe,
    in_thread,
)
from service.api.etags import epoch_reply, reply
from service.api.keys import (
    KeyDep,
    NamespaceDep,
    PrefixQuery,
    elements,
    key_page,
    next_cursor,
)
from service.api.paging import index, page_body, scan, text
from service.api.state_models import KeyList, StateKey, StateList
from service.api.times import iso

if TYPE_CHECKING:
    from state.registry import RegisteredState

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators/{operator}/states", tags=["state"])

StatePath = Annotated[str, Path(description="The state's name.", max_length=256)]


@router.get(
    "",
    response_model=StateList,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND),
)
async def list_all(request: Request, inspector: StatesDep) -> Response:
    """The states that the operator has ever registered, by name."""
    items = [{**_shown(each), "keys": count} for each, count in await in_thread(inspector.counted)]
    return reply(request, page_body(request, items, None))


@router.get(
    "/{state}/keys",
    response_model=KeyList,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.OPERATOR_NOT_FOUND,
        problem.STATE_NOT_FOUND,
        problem.CURSOR_INVALID,
    ),
)
async def list_keys(
    request: Request,
    operator: InspectorDep,
    inspector: StatesDep,
    page: PageDep,
    state: StatePath,
    prefix: PrefixQuery = "",
) -> Response:
    """Keys with live entries in a state, by key group; one item for each namespace of a key.

    A page may be short, or even empty, without being the last.
    """
    position = page.position(index, scan, text)
    is_history = await in_thread(inspector.is_history, state)
    list_keys = operator.list_keys if is_history else partial(inspector.list_keys, state)
    part = await in_thread(list_keys, prefix, position, page.limit)
    return key_page(request, operator.keys, part, of_histories=is_history)


@router.get(
    "/{state}/keys/{key}",
    response_model=StateKey,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.OPERATOR_NOT_FOUND,
        problem.STATE_NOT_FOUND,
        problem.KEY_NOT_FOUND,
        problem.KEY_EXPIRED,
        problem.KEY_MALFORMED,
        problem.CURSOR_INVALID,
    ),
)
async def get(
    request: Request,
    inspector: StatesDep,
    key: KeyDep,
    page: PageDep,
    state: StatePath,
    namespace: NamespaceDep,
) -> Response:
    """What a key has in a state: live elements in order, with their remaining life."""
    before, after = page.position(index, text) or (0, "")
    found = await in_thread(
        inspector.read, state, key, namespace=namespace, after=after, limit=page.limit
    )
    content = found.content
    items = elements(content, before)
    following = next_cursor(content, before)
    members = {
        "key": found.key,
        "epoch": found.epoch,
        "state": found.state.name,
        "kind": content.kind,
        "layout": content.layout,
    }
    return epoch_reply(request, page_body(request, items, following, **members))


def _shown(state: RegisteredState) -> dict[str, Any]:
    ttl = state.ttl
    return {
        "name": state.name,
        "kind": state.kind,
        "codecs": list(state.codecs),
        "ttl_ms": ttl.ttl_ms if ttl.is_enabled else None,
        "ttl_update": ttl.update.value,
        "ttl_visibility": ttl.visibility.value,
        "ttl_time": ttl.time.value,
        "ttl_enabled_at": iso(state.enabled_ms),
    }
