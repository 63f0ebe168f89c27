"""`/v1/pipelines/{p}/savepoints`: take one, list them, look at one, delete one.

Taking one is work of the supervisor, between two runs of the query: the answer is 202 with the
savepoint as it is now, and its `state` is polled. Savepoints outlive their pipeline, and belong to
its name: those of a deleted one are listed, restored and deleted here, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Body, Path, Request, Response

from service import problem_types as problem
from service.api.deps import (
    IdempotencyDep,
    JsonBodyIfAny,
    NamePath,
    PageDep,
    ServicesDep,
    describe,
    in_thread,
)
from service.api.etags import check_unchanged, expected_edition, reply
from service.api.paging import cursor_text, page_body, text
from service.api.savepoint_models import Savepoint, SavepointBody, SavepointList
from service.api.times import iso
from service.runtime.errors import PipelineNotFound, SavepointNotFound, SavepointPending
from service.runtime.records import RestoreOrder, SavepointOrder
from service.runtime.registry import now_ms
from service.runtime.savepoint_store import LATEST, StoredSavepoint, new_id, ordered_ms
from service.status_codes import address_of
from state.errors import StateError

if TYPE_CHECKING:
    from service.api.deps import Services
    from service.api.models import RestoreBody
    from service.runtime.records import PipelineOptions

router = APIRouter(prefix="/v1/pipelines/{pipeline}/savepoints", tags=["savepoints"])

_AS_USUAL = SavepointBody()

SavepointPath = Annotated[
    str, Path(description="The savepoint's id.", examples=["20260101t120000000-0123abcd"])
]


@router.post(
    "",
    status_code=202,
    response_model=Savepoint,
    dependencies=[JsonBodyIfAny],
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.PIPELINE_CONFLICT,
        problem.PRECONDITION_FAILED,
        problem.IDEMPOTENCY_IN_PROGRESS,
        problem.IDEMPOTENCY_MISMATCH,
        problem.SAVEPOINT_LIMIT,
    ),
)
async def take(
    request: Request,
    pipeline: NamePath,
    services: ServicesDep,
    idempotency: IdempotencyDep,
    body: Annotated[SavepointBody, Body()] = _AS_USUAL,
) -> Response:
    """Take a savepoint. A running pipeline is stopped for it and started again.

    It is as of the last closed epoch; changes that ingress has taken in and no epoch has read
    are part of it. With `stop` the pipeline stays stopped.
    """

    async def act() -> Response:
        await in_thread(services.savepoints.store.check_room, pipeline)
        order = new_order(filter_expired=body.filter_expired)
        record = await in_thread(
            services.registry.order_savepoint,
            pipeline,
            order,
            stop=body.stop,
            expected=expected_edition(request),
        )
        services.supervisor.wake(record.name)
        return savepoint_reply(request, ordered(record.name, order), status=202)

    return await idempotency.run(act)


@router.get("", response_model=SavepointList, responses=describe(problem.CURSOR_INVALID))
async def list_all(
    request: Request, pipeline: NamePath, services: ServicesDep, page: PageDep
) -> Response:
    """The savepoints of pipelines of this name, newest first."""
    position = page.position(text)
    after = position[0] if position else None
    found, last = await in_thread(_page, services, pipeline, after, page.limit)
    following = None if last is None else cursor_text(last)
    return reply(request, page_body(request, found, following))


@router.get(
    "/{savepoint}", response_model=Savepoint, responses=describe(problem.SAVEPOINT_NOT_FOUND)
)
async def get(
    request: Request, pipeline: NamePath, savepoint: SavepointPath, services: ServicesDep
) -> Response:
    """What a savepoint contains, or its progress.

    `latest` in place of an id is the one that is being taken, else the newest that can be restored.
    """
    return reply(request, await in_thread(_shown, services, pipeline, savepoint))


@router.delete(
    "/{savepoint}",
    status_code=204,
    response_class=Response,
    responses=describe(
        problem.SAVEPOINT_NOT_FOUND, problem.PIPELINE_CONFLICT, problem.PRECONDITION_FAILED
    ),
)
async def delete(
    request: Request, pipeline: NamePath, savepoint: SavepointPath, services: ServicesDep
) -> Response:
    """Delete a savepoint for good. A restore from it that is still running fails."""

    def remove() -> None:
        if savepoint == LATEST:
            raise SavepointNotFound("a savepoint is deleted by its id")
        order = _pending(services, pipeline)
        if order is not None and order.id == savepoint:
            raise SavepointPending(
                "the savepoint is being taken", hint="wait until it is COMPLETED or FAILED"
            )
        if savepoint == _kept_for_replacement(services, pipeline):
            raise SavepointPending(
                "the pipeline gets another statement, and may come back from the savepoint",
                hint="try again when that is done",
            )
        if "if-match" in request.headers:
            check_unchanged(request, _shown(services, pipeline, savepoint))
        services.savepoints.store.delete(pipeline, savepoint)

    await in_thread(remove)
    return Response(status_code=204)


def _told(failure: dict[str, str] | None) -> dict[str, str] | None:
    return None if failure is None else {"type": address_of(failure["code"]), **failure}


def new_order(*, filter_expired: bool) -> SavepointOrder:
    """An order of a savepoint, made now."""
    now = now_ms()
    return SavepointOrder(new_id(now), filter_expired, now)


def restore_order(
    services: Services, name: str, body: RestoreBody, options: PipelineOptions
) -> tuple[RestoreOrder, PipelineOptions]:
    """What a new pipeline is to be restored from, and its options.

    Where they do not name the number of key groups, it is that of the savepoint.

    Raises:
        SavepointNotFound: There is no such savepoint.
        SavepointPending: The latest is asked for, and is being taken.
        SavepointMismatch, SavepointCorrupt: It cannot be used.
    """
    origin, _, savepoint = body.savepoint.rpartition("/")
    origin = origin or name
    # First: one that is through by now is found.
    if savepoint == LATEST and (pending := _pending(services, origin)) is not None:
        raise SavepointPending(
            f'savepoint "{pending.id}" of pipeline "{origin}" is being taken',
            hint="wait until it is COMPLETED or FAILED, or name another one by its id",
        )
    found = services.savepoints.store.resolve(origin, savepoint)
    order = RestoreOrder(
        origin, found, body.allow_non_restored_state, allow_outdated_rows=body.allow_outdated_rows
    )
    groups = options.max_parallelism or services.savepoints.manifest(order).max_parallelism
    return order, replace(options, max_parallelism=groups)


def ordered(pipeline: str, order: SavepointOrder) -> dict[str, Any]:
    """A savepoint that is being taken."""
    return {**_empty(pipeline, order.id), "state": "IN_PROGRESS"}


def savepoint_reply(request: Request, shown: dict[str, Any], *, status: int) -> Response:
    """A savepoint as an answer that says where it is."""
    location = f"/v1/pipelines/{shown['pipeline']}/savepoints/{shown['id']}"
    return reply(request, shown, status=status, headers={"Location": location})


def _page(
    services: Services, pipeline: str, after: str | None, limit: int
) -> tuple[list[dict[str, Any]], str | None]:
    """Savepoints behind an id, and the id behind which there are more."""
    ids = set(services.savepoints.store.ids(pipeline))
    if order := _pending(services, pipeline):
        ids.add(order.id)
    rest = sorted((each for each in ids if after is None or each < after), reverse=True)
    found = []
    for each in rest[:limit]:
        try:
            found.append(_shown(services, pipeline, each))
        except SavepointNotFound:
            # It was deleted since it was listed.
            continue
    return found, rest[limit - 1] if len(rest) > limit else None


def _shown(services: Services, pipeline: str, savepoint: str) -> dict[str, Any]:
    """A savepoint as the API shows it.

    Raises:
        SavepointNotFound: there is none.
    """
    order = _pending(services, pipeline)
    if order is not None and savepoint in (order.id, LATEST):
        return ordered(pipeline, order)
    if savepoint == LATEST:
        savepoint = services.savepoints.store.resolve(pipeline, savepoint)
    try:
        return _stored(services.savepoints.store.get(pipeline, savepoint))
    except StateError as error:
        told = {"code": error.code, "message": error.message}
        return {**_empty(pipeline, savepoint), "state": "FAILED", "error": _told(told)}


def _stored(found: StoredSavepoint) -> dict[str, Any]:
    manifest = found.manifest
    if manifest is None:
        return {
            **_empty(found.pipeline, found.id),
            "state": "FAILED",
            "error": _told(found.failure),
        }
    return {
        **_empty(found.pipeline, found.id),
        "state": "COMPLETED",
        "epoch": manifest.epoch,
        "filtered": manifest.is_filtered,
        "max_parallelism": manifest.max_parallelism,
        "size_bytes": manifest.size_bytes,
        "states": [
            {
                "operator": each.node,
                "name": each.name,
                "kind": each.kind,
                "keys": each.keys,
                "expired": each.expired,
            }
            for each in manifest.states
        ],
    }


def _empty(pipeline: str, savepoint: str) -> dict[str, Any]:
    return {
        "id": savepoint,
        "pipeline": pipeline,
        "state": "",
        "ordered_at": iso(ordered_ms(savepoint)),
        "epoch": None,
        "filtered": None,
        "max_parallelism": None,
        "size_bytes": None,
        "states": [],
        "error": None,
    }


def _kept_for_replacement(services: Services, pipeline: str) -> str | None:
    """The savepoint that a pipeline whose statement is replaced has all of its state in."""
    try:
        replacement = services.registry.get(pipeline).replacement
    except PipelineNotFound:
        return None
    return None if replacement is None else replacement.savepoint.id


def _pending(services: Services, pipeline: str) -> SavepointOrder | None:
    """The savepoint of a pipeline, also of one that is being deleted, that is being taken."""
    try:
        record = services.registry.get(pipeline)
    except PipelineNotFound:
        gone = services.registry.deleted(pipeline)
        return gone.savepoint if gone is not None else None
    replacement = record.replacement
    if replacement is not None and replacement.phase == "ordered":
        return replacement.savepoint
    return record.savepoint
