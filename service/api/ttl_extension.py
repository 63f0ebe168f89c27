"""`/v1/pipelines/{p}/ttl-extension`: let everything live longer, say by a downtime.

While a pipeline stood still, nothing that it keeps was refreshed; without more, much of it would
expire when it goes on. An extension is one number: nothing is rewritten, and it holds for all that
is stored from the next run on. Source: FLIP-25, future work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from service import problem_types as problem
from service.api.deps import IdempotencyDep, JsonBody, RecordDep, ServicesDep, describe, in_thread
from service.api.etags import check_unchanged, reply
from service.api.pipeline_models import TtlExtension, TtlExtensionBody
from service.runtime.table_reader import SlotReader
from state.registry import extend_ttl, extension_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.runtime.records import PipelineRecord

router = APIRouter(prefix="/v1/pipelines/{pipeline}/ttl-extension", tags=["pipelines"])


@dataclass(frozen=True, slots=True)
class _Checked:
    """What is registered in a slot, added to where it is as the client has read it."""

    slot: SlotReader
    check: Callable[[int], None]

    def add_registered(self, field: bytes, by: int) -> int:
        """Add to an entry; its new value."""
        return self.slot.add_registered(field, by, self.check)


@router.get("", response_model=TtlExtension, responses=describe(problem.PIPELINE_NOT_FOUND))
async def get(request: Request, record: RecordDep, services: ServicesDep) -> Response:
    """By how much the life of everything that the pipeline keeps was extended."""
    total_ms = await in_thread(extension_ms, SlotReader(services.redis, record.name))
    return reply(request, _shown(record, total_ms))


@router.post(
    "",
    response_model=TtlExtension,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.PRECONDITION_FAILED,
        problem.UNSUPPORTED_MEDIA_TYPE,
        problem.IDEMPOTENCY_IN_PROGRESS,
        problem.IDEMPOTENCY_MISMATCH,
    ),
)
async def extend(
    request: Request,
    body: TtlExtensionBody,
    record: RecordDep,
    services: ServicesDep,
    idempotency: IdempotencyDep,
) -> Response:
    """Extend the life of everything that the pipeline keeps, from its next start on."""

    async def act() -> Response:
        slot = SlotReader(services.redis, record.name)
        ledger = _Checked(slot, lambda held: check_unchanged(request, _shown(record, held)))
        return reply(request, _shown(record, await in_thread(extend_ttl, ledger, body.by_ms)))

    return await idempotency.run(act)


def _shown(record: PipelineRecord, total_ms: int) -> dict[str, int]:
    in_force = record.run_options.ttl_extension_ms if record.run_options else 0
    return {"extension_ms": total_ms, "in_force_ms": in_force}
