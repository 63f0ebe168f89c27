"""`/v1/pipelines/{p}/operators/{op}/ttl`: one operator's times to live, by the state's name.

A change is one of the plan that the registry keeps, as if its file had been edited (FLIP-292). As
options, it counts from the next start of the query on; `POST .../restart` applies it. Nothing
stored is rewritten: elements keep their times of access, and live as long as the new time says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from service import problem_types as problem
from service.api.deps import (
    IdempotencyDep,
    JsonBody,
    OperatorPath,
    RecordDep,
    ServicesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.errors import InvalidParameter, PreconditionFailed
from service.api.etags import expected_edition, reply
from service.api.plan_models import OperatorTtl, OperatorTtlPatch
from service.api.planning import Planning
from service.plan import edited_plan, format_duration_ms, load_plan
from service.plan.properties import pointer_token
from service.plan.state_ttl import state_ttls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.api.deps import Services
    from service.plan import CompiledPlan
    from service.plan.state_ttl import StateTtl
    from service.runtime.records import PipelineRecord

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators/{operator}/ttl", tags=["state"])

_NOT_FOUND = (problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND)


@router.get("", response_model=OperatorTtl, responses=describe(*_NOT_FOUND))
async def get(
    request: Request, record: RecordDep, operator: OperatorPath, services: ServicesDep
) -> Response:
    """The TTL of an operator's states: in the plan, and in the last run."""
    node_id = (await contents_of(services, record)).operator(operator).node_id
    shown = await in_thread(_shown, services, record, operator, node_id)
    return reply(request, shown, edition=record.edition)


@router.patch(
    "",
    response_model=OperatorTtl,
    dependencies=[JsonBody],
    responses=describe(
        *_NOT_FOUND,
        problem.PRECONDITION_FAILED,
        problem.INVALID_REQUEST,
        problem.PLAN_INVALID,
        problem.PLAN_TIMEOUT,
        problem.PLANNER_BUSY,
    ),
)
async def patch(
    request: Request,
    record: RecordDep,
    operator: OperatorPath,
    body: OperatorTtlPatch,
    services: ServicesDep,
    idempotency: IdempotencyDep,
) -> Response:
    """Change the TTL of states from the next start on; states that are not named keep theirs."""

    async def act() -> Response:
        expected = expected_edition(request)
        if expected not in (None, record.edition):
            raise PreconditionFailed(
                f"the pipeline has version {record.version}, or is not the one that had its name",
                hint="read it again and repeat the change",
            )
        node_id = (await contents_of(services, record)).operator(operator).node_id
        planning = Planning(services.settings.limits)
        options = record.options.resolved(services.settings.execution)
        plan = await planning.run(
            _edited, record.plan, node_id, body.states, default_ttl_ms=options.default_ttl_ms
        )
        changed = await in_thread(
            services.registry.update,
            record.name,
            # The plan was made of the one that was read, so nobody may have written in between.
            expected=record.edition,
            plan=plan,
        )
        shown = await in_thread(_shown, services, changed, operator, node_id)
        return reply(request, shown, edition=changed.edition)

    return await idempotency.run(act)


def _edited(
    document: dict[str, Any], node_id: int, ttls: Mapping[str, str], *, default_ttl_ms: int
) -> dict[str, Any]:
    plan = load_plan(document)
    known = _states_of(plan, node_id, default_ttl_ms)
    for name in ttls:
        check_state(name, known, place="body", path=f"/states/{pointer_token(name)}")
    return dict(edited_plan(plan, node_id, ttls, default_ttl_ms=default_ttl_ms).document)


def check_state(name: str, known: Iterable[StateTtl], *, place: str, path: str) -> None:
    """Find out whether an operator has a state of the name that a request says.

    Args:
        name: The state's name.
        known: Those that it has.
        place: Where the request says it: `body` or `query`.
        path: The JSON pointer to it there.

    Raises:
        InvalidParameter: It has none; tells those that it has.
    """
    names = [each.name for each in known]
    if name not in names:
        message = f"the operator has no state of this name, but: {', '.join(names) or 'none'}"
        error = {"in": place, "path": path, "message": message}
        raise InvalidParameter(f"{place} {path}: {message}", errors=[error])


def _shown(
    services: Services, record: PipelineRecord, operator: str, node_id: int
) -> dict[str, Any]:
    execution = services.settings.execution
    waiting = record.options.resolved(execution)
    wanted = _states(record.plan, node_id, waiting.default_ttl_ms)
    running = record.in_force(execution)
    in_force = _states(record.plan_in_force, node_id, running.default_ttl_ms)
    return {
        "operator": operator,
        "node_id": node_id,
        "states": [
            {
                "name": state.name,
                "input": state.index,
                "ttl": format_duration_ms(state.ttl_ms),
                "ttl_ms": state.ttl_ms,
                "origin": state.origin,
                "in_force_ms": now.ttl_ms if record.run_options is not None else None,
            }
            for state, now in zip(wanted, in_force, strict=True)
        ],
    }


def _states(document: dict[str, Any], node_id: int, default_ttl_ms: int) -> tuple[StateTtl, ...]:
    return _states_of(load_plan(document), node_id, default_ttl_ms)


def _states_of(plan: CompiledPlan, node_id: int, default_ttl_ms: int) -> tuple[StateTtl, ...]:
    edges = plan.input_edges(node_id)
    return state_ttls(plan.node(node_id), len(edges), default_ttl_ms=default_ttl_ms)
