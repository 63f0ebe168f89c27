"""`/v1/pipelines/{p}/progress`, `/dead-letters`, `/plan`: what a pipeline did and what it runs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from service import problem_types as problem
from service.api.data_models import DeadLetters, Epochs
from service.api.deps import PageDep, RecordDep, ServicesDep, describe, in_thread
from service.api.etags import reply
from service.api.paging import cursor_text, index, page_body, stream_id
from service.api.times import with_time
from service.plan.secrets import without_secrets
from service.runtime.table_reader import SlotReader

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["pipelines"])


@router.get(
    "/progress",
    response_model=Epochs,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.CURSOR_INVALID),
)
async def progress(
    request: Request, record: RecordDep, services: ServicesDep, page: PageDep
) -> Response:
    """Closed epochs, newest first: rows in and out, state reads and writes, times.

    `close_ms` is the time of the clock from the begin of the sinks' commit until the epoch was
    closed, null where it was not noted. Times in `nodes` are sums over the operator's tasks.
    """
    before = page.position(index)
    slot = SlotReader(services.redis, record.name)
    epoch, found = await in_thread(slot.progress, before[0] if before else None, page.limit + 1)
    items = [with_time(each) for each in found[: page.limit]]
    following = cursor_text(items[-1]["epoch"]) if len(found) > page.limit else None
    totals = await in_thread(slot.totals)
    return reply(request, page_body(request, items, following, epoch=epoch, totals=totals))


@router.get(
    "/dead-letters",
    response_model=DeadLetters,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.CURSOR_INVALID),
)
async def dead_letters(
    request: Request, record: RecordDep, services: ServicesDep, page: PageDep
) -> Response:
    """Lines that were not valid changes: table, position and reason, never the content."""
    slot = SlotReader(services.redis, record.name)
    count, found, position = await in_thread(
        slot.dead_letters, page.position(index, stream_id), page.limit
    )
    items = [with_time(each) for each in found]
    following = None if position is None else cursor_text(*position)
    return reply(request, page_body(request, items, following, count=count))


@router.get("/plan", responses=describe(problem.PIPELINE_NOT_FOUND))
async def plan(request: Request, record: RecordDep) -> Response:
    """The compiled plan as it was posted, with the TTLs that were changed since.

    Values of options that look like secrets are masked.
    """
    document: dict[str, Any] = without_secrets(record.plan)
    return reply(request, document, edition=record.edition)
