"""`POST .../ingress/{table}`: changes over HTTP. `GET .../completion/{token}`: have they arrived?

One request is one entry of the table's stream: all of its accepted lines are read by one epoch.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import APIRouter, Path, Request, Response

from service import problem_types as problem
from service.api.data_models import Accepted, Completion
from service.api.deps import (
    IdempotencyDep,
    RecordDep,
    ServicesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.errors import (
    BacklogFull,
    BodyTooLarge,
    IdempotencyInProgress,
    MalformedChanges,
    NotIngress,
    TokenGone,
    TokenNotFound,
    UnsupportedMediaType,
)
from service.api.etags import reply
from service.api.observe import REQUEST_ID
from service.runtime import intake
from service.runtime.table_reader import SlotReader

if TYPE_CHECKING:
    from service.api.deps import Services
    from service.runtime.contents import SourceTable
    from service.runtime.intake import CheckedLines
    from service.runtime.records import PipelineRecord

router = APIRouter(prefix="/v1/pipelines/{pipeline}", tags=["ingress"])

MEDIA_TYPES = ("application/x-ndjson", "application/jsonl", "application/x-jsonlines")
_EXAMPLE = '{"op": "+I", "data": {"id": 1, "name": "a"}}\\n'


@router.post(
    "/ingress/{table:path}",
    status_code=202,
    response_model=Accepted,
    responses=describe(
        problem.PIPELINE_NOT_FOUND,
        problem.TABLE_NOT_FOUND,
        problem.NOT_INGRESS,
        problem.IDEMPOTENCY_IN_PROGRESS,
        problem.BODY_TOO_LARGE,
        problem.UNSUPPORTED_MEDIA_TYPE,
        problem.MALFORMED_CHANGES,
        problem.IDEMPOTENCY_MISMATCH,
        problem.BACKLOG_FULL,
    ),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                MEDIA_TYPES[0]: {"schema": {"type": "string"}, "example": _EXAMPLE},
            },
        }
    },
)
async def take_in(
    request: Request,
    record: RecordDep,
    table: Annotated[str, Path(description="The source table's name.")],
    services: ServicesDep,
    idempotency: IdempotencyDep,
) -> Response:
    """Take in changes, one JSON object per line: `{"op": "+I|-U|+U|-D", "data": {column: value}}`.

    Each line is checked against the table's types. Malformed ones are counted, answered and kept
    as dead letters, whose position names `request_id` and the line; where the pipeline's
    `on_malformed` is `fail`, the body is refused as well, and nothing of it is taken. A request
    that is refused counts each time it is sent, with an Idempotency-Key or without.
    """
    _check_media_type(request)
    idempotency = idempotency.of_pipeline(record.id, partial(_is_answer_of, record.id))
    body = await request.body()
    limits = services.settings.limits
    if intake.count_lines(body) > limits.ingress_changes_max:
        raise BodyTooLarge(f"the body has more than {limits.ingress_changes_max} lines")
    contents = await contents_of(services, record)
    source = contents.source(table)
    if source.connector != "ingress":
        raise NotIngress(f'connector of table "{table}" is "{source.connector}", not "ingress"')

    async def act() -> Response:
        lines = await in_thread(intake.check_lines, source, body, limits.line_size_max_bytes)
        kept = intake.Limits(
            backlog_max=limits.ingress_backlog_max,
            dead_letters_max=services.settings.execution.dead_letters_max,
            retention_ms=limits.idempotency_ttl_ms,
        )
        told = (services.redis, record, source.name, request.scope[REQUEST_ID], lines, kept)
        options = record.in_force(services.settings.execution)
        if options.on_malformed == "fail" and lines.rejected:
            await in_thread(intake.refuse, *told)
            services.telemetry.ingress(record.name, source.name, 0, len(lines.rejected))
            raise _malformed(lines, limits.dead_letters_per_request_max)
        answer = partial(_answer, request, services, record, source, lines)
        taken = await in_thread(
            intake.take,
            *told,
            idempotency.record_key,
            lambda entry: idempotency.record(answer(entry)),
            idempotency.lock,
        )
        if not taken.has_key:
            raise IdempotencyInProgress("the request was sent again, and that one was taken")
        if taken.entry is None:
            raise BacklogFull(
                f"{taken.backlog} changes of the table wait and {lines.rows} came, "
                f"{limits.ingress_backlog_max} may wait",
                hint="send the same request again after Retry-After",
            )
        services.telemetry.ingress(record.name, source.name, lines.rows, len(lines.rejected))
        return answer(taken.entry)

    return await idempotency.run(act)


@router.get(
    "/completion/{token}",
    response_model=Completion,
    responses={
        202: {"model": Completion, "description": "Not yet: ask again after Retry-After."},
        **describe(problem.PIPELINE_NOT_FOUND, problem.TOKEN_NOT_FOUND, problem.TOKEN_GONE),
    },
)
async def completion(
    request: Request,
    record: RecordDep,
    token: Annotated[str, Path(description="As the ingress reply has it.", max_length=1_024)],
    services: ServicesDep,
) -> Response:
    """Whether the epoch that read these changes is closed: then they are in the sinks.

    While `pipeline_state` is not RUNNING, no epoch closes, and what is pending stays so.
    """
    found = intake.read_token(token)
    if found is None:
        raise TokenNotFound("the token is not one that ingress gave")
    pipeline_id, table, entry = found
    if pipeline_id != record.id:
        raise TokenGone(
            "the token belongs to another pipeline: an earlier one of this name, or one of another"
        )
    epoch, offsets = await in_thread(SlotReader(services.redis, record.name).marker)
    consumed = offsets.get(table, {}).get("id", intake.NOTHING)
    state = str(services.supervisor.status(record.name).state)
    if intake.is_behind(entry, consumed):
        return reply(request, {"status": "done", "epoch": epoch, "pipeline_state": state})
    return reply(
        request,
        {"status": "pending", "epoch": epoch, "pipeline_state": state},
        status=202,
        headers={"Retry-After": "1"},
    )


def _check_media_type(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in MEDIA_TYPES:
        raise UnsupportedMediaType(f"the body must be {MEDIA_TYPES[0]}")


def _is_answer_of(pipeline_id: str, body: str) -> bool:
    told = intake.read_token(orjson.loads(body)["token"])
    return told is not None and told[0] == pipeline_id


def _malformed(lines: CheckedLines, listed_max: int) -> MalformedChanges:
    return MalformedChanges(
        f"{len(lines.rejected)} lines are not valid changes of the table; nothing was taken",
        rejected_count=len(lines.rejected),
        rejected=_rejected(lines, listed_max),
    )


def _rejected(lines: CheckedLines, most: int) -> list[dict[str, Any]]:
    return [{"line": each.line, "reason": each.reason} for each in lines.rejected[:most]]


def _answer(
    request: Request,
    services: Services,
    record: PipelineRecord,
    source: SourceTable,
    lines: CheckedLines,
    entry: str,
) -> Response:
    token = intake.token_of(record.id, source.name, entry)
    body = {
        "request_id": request.scope[REQUEST_ID],
        "token": token,
        "completion": f"/v1/pipelines/{record.name}/completion/{token}",
        "accepted": lines.rows,
        "rejected_count": len(lines.rejected),
        "rejected": _rejected(lines, services.settings.limits.dead_letters_per_request_max),
    }
    # Without a tag: the record of the answer is made before the entry's id is known.
    return Response(orjson.dumps(body), 202, media_type="application/json")
