"""`/v1/pipelines/{p}/operators`: stateful operators, and the retractions that matched nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from operators.upsert_materializer import MaterializerSpec
from service import problem_types as problem
from service.api.deps import (
    InspectorDep,
    OperatorPath,
    PageDep,
    RecordDep,
    ServicesDep,
    contents_of,
    describe,
    in_thread,
)
from service.api.etags import epoch_reply, reply
from service.api.paging import cursor_text, index, page_body, stream_id
from service.api.state_models import Operator, OperatorList, Orphans
from service.api.times import iso, with_time
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import OperatorSpec
    from service.runtime.contents import OperatorContents
    from state.types import LogicalType

router = APIRouter(prefix="/v1/pipelines/{pipeline}/operators", tags=["state"])


@router.get("", response_model=OperatorList, responses=describe(problem.PIPELINE_NOT_FOUND))
async def list_all(
    request: Request, record: RecordDep, services: ServicesDep, page: PageDep
) -> Response:
    """The pipeline's stateful operators, in the order of the plan."""
    contents = await contents_of(services, record)
    start = (page.position(index) or (0,))[0]
    end = start + page.limit
    chosen = contents.operators[start:end]
    items = [await in_thread(_shown, each) for each in chosen]
    following = cursor_text(end) if end < len(contents.operators) else None
    return reply(request, page_body(request, items, following))


@router.get(
    "/{operator}",
    response_model=Operator,
    responses=describe(problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND),
)
async def get(
    request: Request, record: RecordDep, operator: OperatorPath, services: ServicesDep
) -> Response:
    """What an operator keeps, and how much."""
    contents = await contents_of(services, record)
    return reply(request, await in_thread(_shown, contents.operator(operator)))


@router.get(
    "/{operator}/orphans",
    response_model=Orphans,
    responses=describe(
        problem.PIPELINE_NOT_FOUND, problem.OPERATOR_NOT_FOUND, problem.CURSOR_INVALID
    ),
)
async def orphans(request: Request, inspector: InspectorDep, page: PageDep) -> Response:
    """Retractions that matched nothing: all are counted, the newest of each key group listed."""
    part, count = await in_thread(inspector.orphans, page.position(index, stream_id), page.limit)
    items = [with_time(each) for each in part.items]
    following = None if part.position is None else cursor_text(*part.position)
    return epoch_reply(request, page_body(request, items, following, epoch=part.epoch, count=count))


def _shown(operator: OperatorContents) -> dict[str, Any]:
    counts = operator.inspector.counts()
    spec = _spec(operator.spec)
    watermarks = operator.watermarks() or [None] * len(spec["inputs"])
    reached = [each for each in watermarks if each is not None]
    return {
        "id": operator.id,
        "node_id": operator.node_id,
        "kind": operator.kind,
        "epoch": counts.epoch,
        **spec,
        "inputs": [
            {**each, "watermark": iso(at)}
            for each, at in zip(spec["inputs"], watermarks, strict=True)
        ],
        "watermark": iso(min(reached)) if len(reached) == len(watermarks) else None,
        "keys": counts.keys,
        "orphans": counts.orphans,
        "late": counts.late,
        "last_epoch": operator.last_epoch(),
    }


def _spec(spec: MaterializerSpec | OperatorSpec) -> dict[str, Any]:
    """The columns and settings of an operator; those of its first input, and then of each."""
    if isinstance(spec, MaterializerSpec):
        columns = _columns(spec.types, spec.names)
        only = _input(columns, spec.key, spec.ttl_ms)
        return {
            **only,
            "upsert_key_columns": [columns[each] for each in spec.upsert_key or ()],
            "strategy": spec.strategy.value,
            "inputs": [only],
        }
    lives = (*spec.ttl_ms, *[0] * len(spec.inputs))
    inputs = [
        _input(_columns(each.types, each.names), each.key, ttl_ms)
        for each, ttl_ms in zip(spec.inputs, lives, strict=False)
    ]
    return {
        **inputs[0],
        "upsert_key_columns": [],
        "strategy": None,
        "ttl_ms": max(spec.ttl_ms, default=0) or None,
        "inputs": inputs,
    }


def _input(columns: list[dict[str, str]], key: Sequence[int], ttl_ms: int) -> dict[str, Any]:
    return {
        "columns": columns,
        "key_columns": [columns[each] for each in key],
        "ttl_ms": ttl_ms or None,
    }


def _columns(types: Sequence[LogicalType], names: Sequence[str]) -> list[dict[str, str]]:
    pairs = zip(names, types, strict=True)
    return [{"name": name, "type": format_type(kind)} for name, kind in pairs]
