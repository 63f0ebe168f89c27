"""`/v1/pipelines`: create, list, read, change, delete, start, stop, restart.

Creating stores a plan and what was asked for; the supervisor brings the query to the desired state
in the background. So the verbs answer 202 with the pipeline as it is now, and `status` is polled.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from service import problem_types as problem
from service.api.deps import (
    IdempotencyDep,
    JsonBody,
    NamePath,
    NoBody,
    PageDep,
    RecordDep,
    ServicesDep,
    describe,
    in_thread,
)
from service.api.errors import InvalidParameter
from service.api.etags import expected_edition, reply
from service.api.models import PipelineState
from service.api.paging import cursor_text, page_body, text
from service.api.pipeline_models import (
    CreatedPipeline,
    Pipeline,
    PipelineBody,
    PipelineList,
    PipelinePatch,
    ReplaceBody,
)
from service.api.plan_documents import compiled_whole, document_of
from service.api.planning import Planning
from service.api.plans import options_of
from service.api.representations import pipeline_reply, represent, suits
from service.api.savepoint_models import Savepoint
from service.api.savepoints import new_order, ordered, restore_order, savepoint_reply
from service.api.session_options import with_session
from service.plan import load_plan
from service.runtime.admission import admit, admit_options, dangers
from service.runtime.looked_up import check_looked_up
from service.runtime.records import PipelineOptions, Replacement
from service.sql.errors import placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.api.deps import Services
    from service.runtime.admission import PlanDocument
    from service.runtime.records import PipelineRecord

router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"])

StateQuery = Annotated[PipelineState | None, Query(description="Only pipelines in this state.")]

_PLAN_PROBLEMS = (
    problem.PLAN_INVALID,
    problem.PLAN_UNSUPPORTED,
    problem.PLAN_URI_REFUSED,
    problem.SQL_INVALID,
    problem.SQL_TIMEOUT,
    problem.PLAN_TIMEOUT,
    problem.TABLE_OPTION_INVALID,
    problem.PATH_OUTSIDE_ROOT,
)
_VERB_PROBLEMS = describe(
    problem.PIPELINE_NOT_FOUND,
    problem.PRECONDITION_FAILED,
    problem.INVALID_REQUEST,
    problem.IDEMPOTENCY_IN_PROGRESS,
    problem.IDEMPOTENCY_MISMATCH,
)


@router.post(
    "",
    status_code=201,
    response_model=CreatedPipeline,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_EXISTS,
        problem.PIPELINE_CONFLICT,
        problem.IDEMPOTENCY_IN_PROGRESS,
        *_PLAN_PROBLEMS,
        problem.IDEMPOTENCY_MISMATCH,
        problem.PIPELINE_LIMIT,
        problem.SAVEPOINT_NOT_FOUND,
        problem.SAVEPOINT_UNUSABLE,
        problem.PLANNER_BUSY,
    ),
)
async def create(
    request: Request, body: PipelineBody, services: ServicesDep, idempotency: IdempotencyDep
) -> Response:
    """Create a pipeline from a compiled plan, or from the SQL of one.

    The plan is checked as `POST /v1/plans/validate` does; what would not run is refused. With
    `restore` it continues from a savepoint, once `restore.done` says that all of it is loaded.
    """
    _check_labels(body.labels, services)

    async def act() -> Response:
        planning = Planning(services.settings.limits)
        document, options = await _asked(body, options_of(body.options), planning, services)
        restore = None
        if body.restore is not None:
            restore, options = await in_thread(
                restore_order, services, body.name, body.restore, options
            )
        options = options.settled(services.settings.execution)
        plan = await planning.run(admit, document, options, services.settings)
        await in_thread(check_looked_up, plan, body.name, services.registry.plan_of)
        if restore is not None:
            resolved = options.resolved(services.settings.execution)
            told = await in_thread(services.savepoints.check, restore, plan, resolved)
            restore = replace(restore, notes=tuple(each.message for each in told))
        found = await planning.run(dangers, plan)
        record = await in_thread(
            services.registry.create,
            body.name,
            dict(plan.document),
            options=options,
            labels=dict(body.labels),
            desired="RUNNING" if body.start else "STOPPED",
            restore=restore,
        )
        services.supervisor.wake(record.name)
        location = {"Location": f"/v1/pipelines/{record.name}"}
        shown = {**represent(record, services), "warnings": [each.shown for each in found]}
        return reply(request, shown, status=201, edition=record.edition, headers=location)

    return await idempotency.run(act)


@router.get("", response_model=PipelineList, responses=describe(problem.CURSOR_INVALID))
async def list_all(
    request: Request,
    services: ServicesDep,
    page: PageDep,
    label: Annotated[
        list[str] | None, Query(description="`name=value`; several must all hold.", max_length=32)
    ] = None,
    state: StateQuery = None,
) -> Response:
    """List pipelines by name."""
    after = page.position(text)
    wanted = [_label(each) for each in label or ()]
    found: list[dict[str, Any]] = []
    cursor: str | None = after[0] if after else None
    more = True
    while more and len(found) < page.limit:
        records = await in_thread(services.registry.list, cursor, page.limit - len(found))
        shown = [represent(each, services) for each in records.items]
        found += [each for each in shown if suits(each, wanted, state)]
        cursor = records.next_cursor
        more = cursor is not None
    following = None if cursor is None else cursor_text(cursor)
    return reply(request, page_body(request, found, following))


@router.get("/{pipeline}", response_model=Pipeline, responses=describe(problem.PIPELINE_NOT_FOUND))
async def get(request: Request, record: RecordDep, services: ServicesDep) -> Response:
    """A pipeline's definition and its status."""
    return pipeline_reply(request, services, record)


@router.put(
    "/{pipeline}",
    status_code=202,
    response_model=CreatedPipeline,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.PIPELINE_CONFLICT,
        problem.PRECONDITION_FAILED,
        problem.IDEMPOTENCY_IN_PROGRESS,
        *_PLAN_PROBLEMS,
        problem.IDEMPOTENCY_MISMATCH,
        problem.SAVEPOINT_LIMIT,
        problem.PLANNER_BUSY,
    ),
)
async def put(
    request: Request,
    pipeline: NamePath,
    body: ReplaceBody,
    services: ServicesDep,
    idempotency: IdempotencyDep,
) -> Response:
    """Put another statement in the place of a pipeline's, on the same state and under its name.

    A savepoint is taken, and what the statement would go on with is checked as `restore` does; then
    the pipeline is restored from it. If that fails, or the statement does before it has closed an
    epoch, the one before goes on from the savepoint. `replacement` tells what came of it. Options
    and labels stay. Until it is through, ingress answers 409.
    """

    async def act() -> Response:
        record = await in_thread(services.registry.get, pipeline)
        planning = Planning(services.settings.limits)
        document, options = await _asked(body, record.options, planning, services)
        plan = await planning.run(admit, document, options, services.settings)
        await in_thread(check_looked_up, plan, pipeline, services.registry.plan_of)
        found = await planning.run(dangers, plan)
        await in_thread(services.savepoints.store.check_room, pipeline)
        changed = await in_thread(
            services.registry.order_replacement,
            pipeline,
            Replacement(
                dict(plan.document),
                options,
                new_order(filter_expired=False),
                body.allow_non_restored_state,
                body.allow_outdated_rows,
            ),
            # The options are those that were read, so nobody may have written in between.
            expected=expected_edition(request) or record.edition,
        )
        services.supervisor.wake(changed.name)
        shown = {**represent(changed, services), "warnings": [each.shown for each in found]}
        return reply(request, shown, status=202, edition=changed.edition)

    return await idempotency.run(act)


@router.patch(
    "/{pipeline}",
    response_model=Pipeline,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.PRECONDITION_FAILED,
        problem.INVALID_REQUEST,
        problem.PLAN_INVALID,
        problem.PLAN_TIMEOUT,
        problem.PLANNER_BUSY,
    ),
)
async def patch(
    request: Request, record: RecordDep, body: PipelinePatch, services: ServicesDep
) -> Response:
    """Change options and labels; options take effect at the next start."""
    changes = _changes(record, body, services)
    if "options" in changes:
        planning = Planning(services.settings.limits)
        await planning.run(_check_options, record, changes["options"], services)
    # Labels and options were merged with what was read, so nobody may have written in between.
    expected = expected_edition(request)
    changed = await in_thread(
        services.registry.update,
        record.name,
        expected=expected or record.edition,
        **changes,
    )
    return pipeline_reply(request, services, changed)


@router.delete(
    "/{pipeline}",
    status_code=204,
    response_class=Response,
    responses={
        202: {"model": Savepoint, "description": "The savepoint that it leaves behind."},
        **describe(
            problem.PIPELINE_NOT_FOUND,
            problem.PIPELINE_CONFLICT,
            problem.PRECONDITION_FAILED,
            problem.SAVEPOINT_LIMIT,
        ),
    },
)
async def delete(
    request: Request,
    pipeline: NamePath,
    services: ServicesDep,
    state: Annotated[
        Literal["drop", "keep"] | None,
        Query(
            description="`keep`: a savepoint is taken first, unfiltered, from which a pipeline can "
            "be created again. `drop`: a savepoint that is being taken is given up; without it, "
            "the answer is 409 until that one is COMPLETED or FAILED."
        ),
    ] = None,
) -> Response:
    """Stop a pipeline and delete it, with its state in Redis and its checkpoint.

    The name is free once its query and state are gone: until then requests for the pipeline, and
    for a new one of the name, are answered 409 `pipeline-deleting`, then 404. `drop` also ends
    the wait for a savepoint that a deleted pipeline cannot leave behind.
    """
    order = None
    if state == "keep":
        await in_thread(services.savepoints.store.check_room, pipeline)
        order = new_order(filter_expired=False)
    record = await in_thread(
        services.registry.delete,
        pipeline,
        expected=expected_edition(request),
        keep=order,
        drop_savepoint=state == "drop",
    )
    services.supervisor.wake(record.name)
    services.contents.forget(record)
    if order is None:
        return Response(status_code=204)
    return savepoint_reply(request, ordered(record.name, order), status=202)


@router.post(
    "/{pipeline}/start",
    status_code=202,
    response_model=Pipeline,
    dependencies=[NoBody],
    responses=_VERB_PROBLEMS,
)
async def start(
    request: Request, pipeline: NamePath, services: ServicesDep, idempotency: IdempotencyDep
) -> Response:
    """Run the pipeline; one that FAILED gets all its restarts again."""
    order = partial(services.registry.order_start, pipeline)
    return await _take_order(order, request, services, idempotency)


@router.post(
    "/{pipeline}/stop",
    status_code=202,
    response_model=Pipeline,
    dependencies=[NoBody],
    responses=_VERB_PROBLEMS,
)
async def stop(
    request: Request, pipeline: NamePath, services: ServicesDep, idempotency: IdempotencyDep
) -> Response:
    """Stop the pipeline after the current epoch; its state stays and can be read."""
    order = partial(services.registry.update, pipeline, desired="STOPPED")
    return await _take_order(order, request, services, idempotency)


@router.post(
    "/{pipeline}/restart",
    status_code=202,
    response_model=Pipeline,
    dependencies=[NoBody],
    responses=_VERB_PROBLEMS,
)
async def restart(
    request: Request, pipeline: NamePath, services: ServicesDep, idempotency: IdempotencyDep
) -> Response:
    """Stop the query and start it from its checkpoint, with the current options."""
    order = partial(services.registry.order_restart, pipeline)
    return await _take_order(order, request, services, idempotency)


async def _take_order(
    order: Callable[..., PipelineRecord],
    request: Request,
    services: Services,
    idempotency: IdempotencyDep,
) -> Response:
    """The reply to an order that the registry takes, where `If-Match` holds."""

    async def act() -> Response:
        changed = await in_thread(order, expected=expected_edition(request))
        services.supervisor.wake(changed.name)
        return pipeline_reply(request, services, changed, status=202)

    return await idempotency.run(act)


async def _asked(
    body: PipelineBody | ReplaceBody,
    options: PipelineOptions,
    planning: Planning,
    services: Services,
) -> tuple[PlanDocument, PipelineOptions]:
    """The plan that a body has or whose SQL it has, and the options as that SQL sets them."""
    if body.sql is None:
        return await document_of(body, services.settings), options
    planned = await compiled_whole(body.sql, planning, options.local_time_zone)
    with placed(planned.position):
        return planned.document, with_session(options, planned.said)


def _label(text: str) -> tuple[str, str]:
    """A label that is asked for.

    Raises:
        InvalidParameter: It says no value.
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidParameter("label in the query has no value", hint="write label=NAME=VALUE")
    return name, value


def _changes(record: PipelineRecord, body: PipelinePatch, services: Services) -> dict[str, Any]:
    """What a merge patch makes of options and labels.

    Raises:
        InvalidParameter: max_parallelism or the time zone would change, or there would be too
            many labels.
    """
    changes: dict[str, Any] = {}
    if "options" in body.model_fields_set and body.options is None:
        # All of them, but for those that are fixed.
        fixed = (record.options.max_parallelism, record.options.local_time_zone)
        changes["options"] = PipelineOptions(max_parallelism=fixed[0], local_time_zone=fixed[1])
    if "labels" in body.model_fields_set and body.labels is None:
        changes["labels"] = {}
    if body.options is not None:
        given = {name: getattr(body.options, name) for name in body.options.model_fields_set}
        options = replace(record.options, **given).settled(services.settings.execution)
        if options.max_parallelism != record.options.max_parallelism:
            raise InvalidParameter(
                "max_parallelism is fixed when a pipeline is created",
                hint="delete the pipeline and create it anew",
            )
        if options.local_time_zone != record.options.local_time_zone:
            raise InvalidParameter(
                "local_time_zone is fixed when a pipeline is created",
                hint="its plan names the zone; create a pipeline anew for another",
            )
        changes["options"] = options
    if body.labels is not None:
        merged = {**record.labels, **body.labels}
        labels = {name: value for name, value in merged.items() if value is not None}
        _check_labels(labels, services)
        changes["labels"] = labels
    return changes


def _check_options(record: PipelineRecord, options: PipelineOptions, services: Services) -> None:
    """Refuse options that the pipeline's next start could not take; as creation does."""
    admit_options(load_plan(record.plan), options, services.settings)


def _check_labels(labels: dict[str, str], services: Services) -> None:
    """Refuse more labels than a pipeline may have.

    Raises:
        InvalidParameter: there are more.
    """
    most = services.settings.limits.labels_max
    if len(labels) > most:
        raise InvalidParameter(f"{len(labels)} labels, {most} are allowed")
