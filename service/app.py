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
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
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
from service.api.body_guard import GuardBody
from service.api.head import AnswerHead
from service.api.models import Problem
from service.api.observe import Observe
from service.auth import Authenticate, KeyRing
from service.runtime.launcher import package_version
from service.telemetry import Telemetry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from fastapi import Request, Response

    from service.api.deps import Services
    from service.settings import Settings

DESCRIPTION = (
    "Retraction-aware streaming on Spark Connect: a state you can see, bound and explain. "
    "Errors are application/problem+json; lists are paged with cursor and limit; every JSON answer "
    "has an ETag; HEAD is answered wherever GET is. Readers see closed epochs only, and answers "
    "about state name theirs."
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
    )
    for router in ROUTERS:
        app.include_router(router)
    app.add_exception_handler(HTTPException, _raise_on)
    app.add_exception_handler(RequestValidationError, _raise_on)
    # The last one added is the outermost.
    app.add_middleware(GuardBody, limits=settings.limits)
    app.add_middleware(Authenticate, keys=KeyRing(settings.auth))
    app.add_middleware(Observe, telemetry=telemetry, limits=settings.limits)
    app.add_middleware(AnswerHead)
    app.openapi = lambda: _schema(app)  # type: ignore[method-assign]  # FastAPI's own way
    return app


async def _raise_on(request: Request, error: Exception) -> Response:
    """Leave it to `Observe`, where all errors become answers."""
    raise error


def _schema(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        components = schema.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        # Without keys in the settings none is asked for.
        schema["security"] = [{}, {"bearer": []}, {"apiKey": []}]
        for methods in schema["paths"].values():
            for operation in methods.values():
                _common_answers(operation)
        app.openapi_schema = schema
    return app.openapi_schema


def _common_answers(operation: dict[str, Any]) -> None:
    """What any route may answer, besides its own."""
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    answers.setdefault("4XX", {"description": "The request is refused.", "content": problem})
    answers.setdefault("503", {"description": "A neighbour is away.", "content": problem})
    if "get" in operation["operationId"].rsplit("_", 1)[-1]:
        answers.setdefault("304", {"description": "The client has it already (If-None-Match)."})
