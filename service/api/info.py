"""`/v1/info` and `/v1/openapi.json`: what this service is and what it offers."""

from __future__ import annotations

import platform
from typing import Any

import anyio
from fastapi import APIRouter, Request, Response

from service.api.deps import ServicesDep, in_thread
from service.api.etags import reply
from service.api.health import lease_of
from service.runtime.connectors import SOURCES
from service.runtime.errors import LifecycleError
from service.runtime.launcher import package_version
from service.runtime.redis_health import version_of
from service.runtime.sinks.tables import CONNECTORS as SINKS
from service.runtime.sources.formats import CHANGE_FORMATS

router = APIRouter(prefix="/v1", tags=["service"])

FLINK_VERSIONS = ("1.18", "1.19", "1.20", "2.0", "2.1", "2.2", "2.3")
"""Versions whose compiled plans are taken as they are."""


@router.get("/info")
async def info(request: Request, services: ServicesDep) -> Response:
    """Versions of the service and its neighbours, null where none answers; who supervises."""
    spark: str | None = None
    with anyio.move_on_after(services.settings.spark.call_timeout_ms / 1_000):
        try:
            spark = await services.spark.version()
        except LifecycleError:
            spark = None
    body: dict[str, Any] = {
        "name": "tailrace",
        "version": package_version(),
        "python": platform.python_version(),
        "spark": spark,
        "redis": await in_thread(version_of, services.redis),
        "lease": lease_of(services),
        "flink_plans": FLINK_VERSIONS,
        "strategies": ("LEGACY", "VALUE", "MAP", "ADAPTIVE"),
        "sources": sorted(SOURCES),
        "sinks": sorted(SINKS),
        "formats": (*CHANGE_FORMATS, "json", "csv", "parquet"),
        "documents": {"api": "/docs", "openapi": "/v1/openapi.json"},
    }
    return reply(request, body)


@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """This API as OpenAPI 3.1."""
    return reply(request, request.app.openapi())
