"""`.../operators/{op}/states`: what an operator has registered, and what a key has in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from service import problem_types as problem
from service.api.deps import (
    OperatorPath,
    PageDep,
    RecordDep,
    ServicesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.etags import reply
from service.api.keys import KeyDep  # noqa: TC001 - FastAPI evaluates annotations
from service.api.models import StateKey, StateList
from service.api.paging import cursor_text, page_body, text
from service.api.times import iso
from service.runtime.state_inspection import StateInspector

if TYPE_CHECKING:
    from state.registry import RegisteredState

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators/{operator}/states", tags=["state"])


async def inspector_of(
    record: RecordDep, operator: OperatorPath, services: ServicesDep
) -> StateInspector:
    """The inspector of the states of the operator in the path.

    Raises:
        OperatorNotFound: there is none.
    """
    return (await contents_of(services, record)).operator(operator).states


StatesDep = Annotated[StateInspector, Depends(inspector_of)]


@router.get(
    "",
    response_model=StateList,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND),
)
async def list_all(request: Request, inspector: StatesDep) -> Response:
    """The states that the operator has ever registered, by name."""
    items = [_shown(each) for each in await in_thread(inspector.states)]
    return reply(request, page_body(request, items, None))


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
    state: Annotated[str, Path(description="The state's name.", max_length=256)],
    namespace: Annotated[
        str, Query(max_length=1_024, description="Of the key, where the operator uses any.")
    ] = "",
) -> Response:
    """What a key has in a state: live elements in order, with what remains of their lives."""
    after = (page.position(text) or ("",))[0]
    found = await in_thread(
        inspector.read, state, key, namespace=namespace, after=after, limit=page.limit
    )
    content = found.content
    items = [
        {
            "key": each.key,
            "value": each.value,
            "touched_at": iso(each.stamp_ms),
            "expires_at": iso(each.expires_ms),
        }
        for each in content.elements
    ]
    following = None if content.next_after is None else cursor_text(content.next_after)
    members = {
        "key": found.key,
        "epoch": found.epoch,
        "state": found.state.name,
        "kind": content.kind,
        "layout": content.layout,
    }
    return reply(request, page_body(request, items, following, **members))


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
