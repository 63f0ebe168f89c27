"""`.../operators/{op}/keys/{key}/what-if`: what another time to live would make of a key.

The plan in force is edited as `PATCH .../ttl` would, and thrown away: nothing is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from operators.upsert_materializer import MaterializerSpec
from service import problem_types as problem
from service.api.deps import (
    InspectorDep,
    LimitDep,
    OperatorPath,
    RecordDep,
    ServicesDep,
    StatesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.etags import reply
from service.api.keys import KeyDep, NamespaceDep
from service.api.keys import router as keys
from service.api.operator_ttl import check_state
from service.api.plan_models import Duration, StateName
from service.api.planning import Planning
from service.api.state_models import KeyTtlWhatIf
from service.api.times import iso
from service.plan import edited_plan, load_plan
from service.plan.state_ttl import state_ttls
from service.runtime.inspection_errors import StateNotFound
from service.runtime.operators import stateful_nodes
from service.runtime.what_if import in_words

if TYPE_CHECKING:
    from service.api.deps import Services
    from service.runtime.inspection import ShownEntry
    from service.runtime.operators import OperatorInfo
    from service.runtime.records import PipelineRecord
    from service.runtime.what_if import ElementWhatIf, StateWhatIf

router = APIRouter(prefix=f"{keys.prefix}/{{key}}/what-if", tags=["state"])

TtlQuery = Annotated[
    Duration,
    Query(
        description="The other TTL, as plans write it; `0 ms` is for ever.",
        examples=["36 h"],
    ),
]
StateQuery = Annotated[
    StateName | None,
    Query(description="The state it is for, as `.../ttl` names them; by default all."),
]


@router.get(
    "",
    response_model=KeyTtlWhatIf,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.OPERATOR_NOT_FOUND,
        problem.STATE_NOT_FOUND,
        problem.KEY_NOT_FOUND,
        problem.KEY_EXPIRED,
        problem.KEY_MALFORMED,
        problem.PLAN_INVALID,
        problem.PLAN_TIMEOUT,
        problem.PLANNER_BUSY,
    ),
)
async def get(
    request: Request,
    record: RecordDep,
    operator: OperatorPath,
    services: ServicesDep,
    inspector: InspectorDep,
    states: StatesDep,
    key: KeyDep,
    limit: LimitDep,
    ttl: TtlQuery,
    namespace: NamespaceDep,
    state: StateQuery = None,
) -> Response:
    """Which elements of the key another TTL would remove now, or bring back.

    For an upsert materializer also which row would be current. Nothing is changed; to change it,
    use `PATCH .../ttl` and a restart.
    """
    node_id = (await contents_of(services, record)).operator(operator).node_id
    other = await Planning(services.settings.limits).run(
        _operator_with, services, record, operator, node_id, ttl, state
    )
    if isinstance(other.spec, MaterializerSpec):
        found = await in_thread(inspector.compare, key, other.spec, limit=limit)
    else:
        found = await in_thread(states.compare, key, other.states, namespace=namespace, limit=limit)
    body: dict[str, Any] = {
        "key": found.key,
        "epoch": found.epoch,
        "text": in_words(found),
        "states": [_state(each) for each in found.states],
    }
    if found.current is not None:
        body["current_sequence_number"] = _number(found.current.now)
        body["current_sequence_number_then"] = _number(found.current.then)
    return reply(request, body)


def _operator_with(
    services: Services,
    record: PipelineRecord,
    operator: str,
    node_id: int,
    ttl: str,
    state: str | None,
) -> OperatorInfo:
    """The operator as a run of the edited plan would have it."""
    options = record.in_force(services.settings.execution)
    plan = load_plan(record.plan_in_force)
    node = plan.node(node_id)
    kept = state_ttls(node, len(plan.input_edges(node_id)), default_ttl_ms=options.default_ttl_ms)
    if not kept:
        raise StateNotFound("this operator keeps no state that has a time to live")
    if state is not None:
        check_state(state, kept, place="query", path="/state")
    names = [each.name for each in kept] if state is None else [state]
    ttls = dict.fromkeys(names, ttl)
    edited = edited_plan(plan, node_id, ttls, default_ttl_ms=options.default_ttl_ms)
    return next(each for each in stateful_nodes(edited, options) if each.id == operator)


def _state(state: StateWhatIf) -> dict[str, Any]:
    ttl_ms, then_ms = state.ttl_ms
    now, then = state.counts
    return {
        "state": state.name,
        "kind": state.kind,
        "ttl_ms": ttl_ms or None,
        "ttl_ms_then": then_ms or None,
        "live": now,
        "live_then": then,
        "is_whole": state.is_whole,
        "items": [_element(each) for each in state.elements],
    }


def _element(both: ElementWhatIf) -> dict[str, Any]:
    known = both.element
    return {
        "key": known.key,
        "value": known.value,
        "touched_at": iso(known.touched_ms),
        "live": both.now is not None,
        "expires_at": iso(both.now.expires_ms) if both.now else None,
        "live_then": both.then is not None,
        "expires_at_then": iso(both.then.expires_ms) if both.then else None,
    }


def _number(entry: ShownEntry | None) -> int | None:
    return None if entry is None else entry.sequence_number
