"""`/v1/plans`: look at a compiled plan without storing anything."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from service import problem_types as problem
from service.api.deps import JsonBody, ServicesDep, describe, in_thread, preferred
from service.api.etags import reply, tagged
from service.api.plan_documents import compiled, compiled_whole, document_of
from service.api.plan_models import (
    PlanCheck,
    PlanCheckBody,
    PlanDiff,
    PlanDiffBody,
    PlanValidateBody,
    SqlBody,
)
from service.api.planning import Planning
from service.api.savepoints import restore_order
from service.api.session_options import with_session
from service.plan import diff, explain, load_plan
from service.runtime.admission import Finding, findings, storable
from service.runtime.records import PipelineOptions
from service.sql.errors import placed
from state.errors import StateError

if TYPE_CHECKING:
    from service.api.deps import Services
    from service.api.models import OptionsBody, RestoreBody
    from service.api.plan_models import PlanSource
    from service.plan import CompiledPlan, Explanation, PlanDifference
    from service.plan.nodes import ExecNode
    from service.runtime.admission import PlanDocument

router = APIRouter(prefix="/v1/plans", tags=["plans"])

_TEXT, _JSON = "text/plain", "application/json"


@router.post(
    "/validate",
    response_model=PlanCheck,
    dependencies=[JsonBody],
    responses=describe(
        problem.PLAN_URI_REFUSED,
        problem.PATH_OUTSIDE_ROOT,
        problem.PLAN_TIMEOUT,
        problem.PLANNER_BUSY,
        problem.SQL_INVALID,
        problem.SQL_TIMEOUT,
        problem.SAVEPOINT_NOT_FOUND,
        problem.PIPELINE_CONFLICT,
    ),
)
async def validate(request: Request, body: PlanValidateBody, services: ServicesDep) -> Response:
    """Whether a pipeline could be created from a plan, and all reasons why not.

    `valid` is true exactly where `POST /v1/pipelines` would take the plan; with `restore`, where it
    would take it with that. Findings also tell what would come of it: state that is dropped, tables
    that begin empty or have rows that the plan would write otherwise.
    """
    options = options_of(body.options)
    planning = Planning(services.settings.limits)
    document: PlanDocument
    if body.sql is not None:
        planned = await compiled_whole(body.sql, planning, options.local_time_zone)
        document = planned.document
        with placed(planned.position):
            options = with_session(options, planned.said)
    else:
        document = await document_of(body, services.settings)
    plan, found = await planning.run(findings, document, options, services.settings)
    if body.restore is not None and all(each.kind == "warning" for each in found):
        assert plan is not None, "a plan that cannot be read has findings"
        found += await in_thread(_of_restore, body.restore, plan, options, services)
    answer = {
        "valid": all(each.kind == "warning" for each in found),
        "flink_version": None if plan is None else plan.flink_version,
        "findings": [each.shown for each in found],
    }
    return reply(request, answer)


@router.post(
    "/compile",
    dependencies=[JsonBody],
    responses={
        200: {"content": {_JSON: {"schema": {"type": "object"}}}},
        **describe(problem.SQL_INVALID, problem.SQL_TIMEOUT, problem.PLANNER_BUSY),
    },
)
async def compile_plan(request: Request, body: SqlBody, services: ServicesDep) -> Response:
    """Compile a script of SQL to a plan in Flink's own format.

    Save it, change the TTL of an operator, and post it as a pipeline's plan.
    """
    return reply(request, await compiled(body.sql, Planning(services.settings.limits)))


@router.post(
    "/diff",
    response_model=PlanDiff,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.PLAN_INVALID,
        problem.PLAN_URI_REFUSED,
        problem.SQL_INVALID,
        problem.SQL_TIMEOUT,
        problem.PATH_OUTSIDE_ROOT,
        problem.PLAN_TIMEOUT,
        problem.PLANNER_BUSY,
    ),
)
async def diff_plans(request: Request, body: PlanDiffBody, services: ServicesDep) -> Response:
    """How one plan differs from another, and what happens to state and tables if it replaces it.

    State and tables are told by what they mean, as a restore does. Nodes are listed by id and type.
    """
    planning = Planning(services.settings.limits)
    before, before_ttl_ms = await _document_of(body.before, services, planning)
    after, after_ttl_ms = await _document_of(body.after, services, planning)
    found = await planning.run(_compared, before, after, before_ttl_ms, after_ttl_ms)
    return reply(request, found)


@router.post(
    "/explain",
    dependencies=[JsonBody],
    responses={
        200: {"content": {_JSON: {"schema": {"type": "object"}}, _TEXT: {}}},
        **describe(
            problem.NOT_ACCEPTABLE,
            problem.PLAN_INVALID,
            problem.PLAN_URI_REFUSED,
            problem.PATH_OUTSIDE_ROOT,
            problem.PLAN_TIMEOUT,
            problem.PLANNER_BUSY,
        ),
    },
)
async def explain_plan(request: Request, body: PlanCheckBody, services: ServicesDep) -> Response:
    """The plan as a tree: keys, the changelog mode of each edge, state with TTL, warnings.

    As JSON, or as text for `Accept: text/plain`.
    """
    kind = preferred(request, (_JSON, _TEXT))
    document = await document_of(body, services.settings)
    default_ttl_ms = body.options.default_ttl_ms
    if default_ttl_ms is None:
        default_ttl_ms = services.settings.execution.default_ttl_ms
    planning = Planning(services.settings.limits)
    found = await planning.run(_explained, document, default_ttl_ms)
    if kind == _TEXT:
        return tagged(request, found.text.encode(), media_type="text/plain; charset=utf-8")
    return reply(request, found.document)


def options_of(body: OptionsBody) -> PipelineOptions:
    """The options that a request names."""
    return PipelineOptions(**body.model_dump(exclude_none=True))


async def _document_of(
    source: PlanSource, services: Services, planning: Planning
) -> tuple[PlanDocument, int]:
    """The plan that a body brings or names, and the time to live where it says none."""
    options = options_of(source.options)
    document: PlanDocument
    if source.pipeline is not None:
        record = await in_thread(services.registry.get, source.pipeline)
        document = record.plan
        given = {name: value for name, value in asdict(options).items() if value is not None}
        options = replace(record.options, **given)
    elif source.sql is not None:
        document = await compiled(source.sql, planning, options.local_time_zone)
    else:
        document = await document_of(source, services.settings)
    return document, options.resolved(services.settings.execution).default_ttl_ms


def _of_restore(
    body: RestoreBody, plan: CompiledPlan, options: PipelineOptions, services: Services
) -> list[Finding]:
    """What would come of a restore into a plan that can run."""
    order, options = restore_order(services, "", body, options)
    resolved = options.settled(services.settings.execution).resolved(services.settings.execution)
    try:
        told = services.savepoints.consequences(order, plan, resolved)
    except StateError as error:
        return [Finding("invalid", error.code, error.message, error.hint)]
    return [
        Finding("invalid" if each.is_refused else "warning", each.code, each.message, each.hint)
        for each in told
    ]


def _compared(
    before: PlanDocument, after: PlanDocument, before_ttl_ms: int, after_ttl_ms: int
) -> dict[str, Any]:
    plans = [load_plan(storable(each)) for each in (before, after)]
    return _difference(diff(*plans, before_ttl_ms=before_ttl_ms, after_ttl_ms=after_ttl_ms))


def _difference(found: PlanDifference) -> dict[str, Any]:
    return {
        "equal": found.is_empty,
        "keeps_state": found.keeps_state,
        "added": [_node(each) for each in found.added],
        "removed": [_node(each) for each in found.removed],
        "changed": [asdict(each) for each in found.changed],
        "renumbered": [{"before": old_id, "after": new_id} for old_id, new_id in found.renumbered],
        "state": [asdict(each) for each in found.states],
        "keeps_tables": found.keeps_tables,
        "tables": [asdict(each) for each in found.tables],
        "sources": [asdict(each) for each in found.sources],
        "ttl": [
            {
                "node_id": each.node_id,
                "type": each.type,
                "name": each.name,
                "input": each.index,
                "before_ms": each.before_ms,
                "after_ms": each.after_ms,
            }
            for each in found.ttls
        ],
    }


def _node(node: ExecNode) -> dict[str, Any]:
    return {"node_id": node.id, "type": node.type_text, "description": node.description}


def _explained(document: PlanDocument, default_ttl_ms: int) -> Explanation:
    return explain(load_plan(storable(document)), default_ttl_ms=default_ttl_ms)
