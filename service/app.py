"""The HTTP application: routes, the layers around them, and what they work with.

    AnswerHead       HEAD as GET without the body
    Observe          request id, log line, metrics, every error becomes a problem document
      Authenticate   API key and scope, before anything of the body is read
        GuardBody    size, nesting, well-formed JSON
          routes     service/api/*, one resource a file

`open_services` connects to the neighbours and takes up the pipelines; the application starts even
if a neighbour is away, and `/readyz` says so.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import structlog
from fastapi import FastAPI, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from service.api import (
    docs,
    health,
    info,
    ingress,
    keys,
    operator_ttl,
    operators,
    pipelines,
    plans,
    progress,
    savepoints,
    statements,
    states,
    tables,
    ttl_extension,
    what_if,
)
from service.api.addresses import KnownQuery, addresses_of
from service.api.body_guard import GuardBody
from service.api.head import AnswerHead
from service.api.idempotency import end_under_way
from service.api.observe import Observe
from service.api.openapi import document_of
from service.auth import Authenticate, KeyRing
from service.problem_types import METHOD_NOT_ALLOWED
from service.runtime.launcher import package_version
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from fastapi import Request

    from service.api.deps import Services
    from service.settings import Settings

DESCRIPTION = (
    "Flink SQL over changelogs on Spark Connect, with state that can be inspected per key. "
    "Errors are application/problem+json; lists are paged by cursor and limit; JSON resources have "
    "an ETag; every GET has a HEAD, and every address OPTIONS; unknown query parameters are "
    "refused. Readers see closed epochs only, and replies about state say which one."
)

ROUTERS = (
    plans.router,
    statements.router,
    pipelines.router,
    progress.router,
    states.router,
    ttl_extension.router,
    savepoints.router,
    operators.router,
    operator_ttl.router,
    keys.router,
    what_if.router,
    tables.router,
    ingress.router,
    health.router,
    info.router,
    docs.router,
)

HEAD_SIZE_MAX_BYTES = 256 * 1024
"""Of a request's first line and headers together: a key of 8,192 characters may take 98,304 bytes
in an address, where each is four times three. The server's own limit would end such a request."""

log = structlog.get_logger(__name__)


def create_app(
    settings: Settings,
    opener: Callable[[Settings, Telemetry], AbstractAsyncContextManager[Services]],
) -> FastAPI:
    """The application.

    Args:
        settings: All settings.
        opener: Opens what the routes work with, and closes it at the end.
    """
    telemetry = Telemetry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with opener(settings, telemetry) as services:
            app.state.services = services
            log.info("service started", version=package_version())
            yield
            await end_under_way()
        log.info("service stopped")

    app = FastAPI(
        title="Tailrace",
        version=package_version(),
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[KnownQuery],
    )
    for router in ROUTERS:
        app.include_router(router)
    app.state.routes = [each for router in ROUTERS for each in router.routes]
    app.add_exception_handler(HTTPException, _raise_on)
    app.add_exception_handler(RequestValidationError, _raise_on)
    # The last one added is the outermost.
    app.add_middleware(GuardBody, limits=settings.limits)
    app.add_middleware(Authenticate, keys=KeyRing(settings.auth))
    app.add_middleware(Observe, telemetry=telemetry, limits=settings.limits)
    app.add_middleware(AnswerHead)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # FastAPI's own way
    return app


async def _raise_on(request: Request, error: Exception) -> Response:
    """Leave it to `Observe`, where all errors become answers; OPTIONS is answered here."""
    if isinstance(error, HTTPException) and error.status_code == METHOD_NOT_ALLOWED.status:
        # The framework lists the methods of one route; an address may have several.
        methods = sorted(addresses_of(request.app).methods(request.url.path))
        allow = {"Allow": ", ".join(methods)}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=allow)
        raise HTTPException(error.status_code, headers=allow) from error
    raise error


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = document_of(app)
    return app.openapi_schema
