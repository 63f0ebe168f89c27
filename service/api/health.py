"""`/healthz`, `/readyz`, `/metrics`: whether the service lives, whether it can work, what it did.

Liveness asks nobody: a service whose Redis is away must not be killed for it. Readiness asks Redis
and Spark, each with a limit, and says for each condition why it does not hold. Both are open to
all; reasons name settings and versions, never addresses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from service.api.deps import ServicesDep, in_thread
from service.api.etags import reply
from service.api.models import Readiness
from service.runtime.errors import LifecycleError
from service.runtime.redis_health import Condition, conditions_of

if TYPE_CHECKING:
    from service.api.deps import Services

router = APIRouter(tags=["service"])


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """Whether the process answers."""
    return reply(request, {"status": "ok"})


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not ready; `checks` says why."}},
)
async def readyz(request: Request, services: ServicesDep) -> Response:
    """Whether pipelines can run, why not, and the limits in force.

    A service need not supervise to be ready; `lease` says which one does.
    """
    found: dict[str, list[Condition]] = {}

    async def ask_redis() -> None:
        found["redis"] = await in_thread(conditions_of, services.redis)

    async def ask_spark() -> None:
        found["spark"] = [await _spark(services)]

    async with anyio.create_task_group() as group:
        group.start_soon(ask_redis)
        group.start_soon(ask_spark)
    checks = [*found["redis"], *found["spark"]]
    ready = all(each.reason is None for each in checks)
    body = {
        "ready": ready,
        "checks": [
            {"name": each.name, "ok": each.reason is None, "reason": each.reason} for each in checks
        ],
        "lease": lease_of(services),
        "limits": limits_of(services),
        "authentication": bool(services.settings.auth.keys),
    }
    return reply(request, body, status=200 if ready else 503)


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(services: ServicesDep) -> Response:
    """Counters and gauges in the text format of Prometheus."""
    await services.collector.collect()
    services.telemetry.lease(held=services.supervisor.lease.is_held)
    return Response(services.telemetry.exposition(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def limits_of(services: Services) -> dict[str, Any]:
    """The limits in force."""
    return services.settings.limits.model_dump()


def lease_of(services: Services) -> dict[str, Any]:
    """Which service supervises the pipelines; the others answer requests all the same."""
    view = services.supervisor.lease
    return {"service": view.service, "holder": view.holder, "held": view.is_held}


async def _spark(services: Services) -> Condition:
    name, limit_s = "spark", services.settings.spark.call_timeout_ms / 1_000
    reason: str | None = f"did not answer within {limit_s:.0f} s"
    with anyio.move_on_after(limit_s):
        try:
            await services.spark.version()
            reason = None
        except LifecycleError as error:
            reason = error.message
    return Condition(name, reason)
