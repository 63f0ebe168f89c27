"""What routes are given: the services, the page, the record of the pipeline in the path.

Calls of Redis block; they run in worker threads over one connection pool (`in_thread`), so the
event loop only ever waits. Dependencies are coroutines, for the framework would give each plain
function a thread of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, Protocol, TypeVar

import anyio.to_thread
from fastapi import Depends, Path, Request

from service import problem_types as problem
from service.api.body_guard import is_json
from service.api.errors import InvalidParameter, NotAcceptable, UnsupportedMediaType
from service.api.idempotency import Idempotency, idempotency_of
from service.api.paging import Page, limit_of, page_of
from service.runtime.errors import SavepointPending
from service.runtime.inspection import OperatorInspector
from service.runtime.records import PipelineRecord
from service.runtime.registry import check_unreplaced
from service.runtime.state_inspection import StateInspector

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from service.problem_types import ProblemType
    from service.runtime.collector import Collector
    from service.runtime.contents import Contents, ContentsCache
    from service.runtime.registry import Registry
    from service.runtime.savepoints import Savepoints
    from service.runtime.supervision import LeaseView
    from service.runtime.supervisor import PipelineStatus
    from service.settings import Settings
    from service.telemetry import Telemetry

P = ParamSpec("P")
T = TypeVar("T")


class PipelineSupervisor(Protocol):
    """What the API asks of the supervisor; every call returns quickly."""

    @property
    def lease(self) -> LeaseView:
        """Who supervises."""

    def wake(self, name: str) -> None:
        """Have the pipeline looked at now, where it is this service that supervises."""

    def status(self, name: str) -> PipelineStatus:
        """What the pipeline does now."""


class SparkProbe(Protocol):
    """What readiness asks of the Spark gateway."""

    async def version(self) -> str:
        """The server's Spark version; raises SparkUnavailable."""


@dataclass(frozen=True, slots=True)
class Services:
    """What one application works with."""

    settings: Settings
    redis: redis.Redis
    registry: Registry
    supervisor: PipelineSupervisor
    spark: SparkProbe
    telemetry: Telemetry
    contents: ContentsCache
    collector: Collector
    savepoints: Savepoints


async def in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a call that waits for Redis or a disk in a worker thread."""
    return await anyio.to_thread.run_sync(partial(call, *args, **kwargs))


async def services_of(request: Request) -> Services:
    """The services of the application that the request came to."""
    found: Services = request.app.state.services
    return found


ServicesDep = Annotated[Services, Depends(services_of)]
IdempotencyDep = Annotated[Idempotency, Depends(idempotency_of)]
PageDep = Annotated[Page, Depends(page_of)]
LimitDep = Annotated[int, Depends(limit_of)]
NamePath = Annotated[str, Path(description="The pipeline's name.", examples=["latest-flight"])]


async def record_of(services: ServicesDep, pipeline: NamePath) -> PipelineRecord:
    """The record of the pipeline in the path.

    Raises:
        PipelineNotFound: there is none.
    """
    return await in_thread(services.registry.get, pipeline)


RecordDep = Annotated[PipelineRecord, Depends(record_of)]


async def contents_of(services: Services, record: PipelineRecord) -> Contents:
    """What a pipeline consists of; in a thread only where its plan has to be read.

    Raises:
        SavepointPending: it is being restored, and what is there is no state yet.
    """
    if record.replacement is not None and record.replacement.phase in ("switching", "returning"):
        check_unreplaced(record)
    if record.restore is not None and not record.restore.done:
        raise SavepointPending(
            f'pipeline "{record.name}" is being restored', hint="try again when that is done"
        )
    kept = services.contents.kept(record)
    return kept if kept is not None else await in_thread(services.contents.of, record)


OperatorPath = Annotated[
    str, Path(description="The operator's id.", examples=["3_sink-materializer"])
]


async def inspector_of(
    record: RecordDep, operator: OperatorPath, services: ServicesDep
) -> OperatorInspector:
    """The inspector of the operator in the path.

    Raises:
        OperatorNotFound: there is none.
    """
    return (await contents_of(services, record)).operator(operator).inspector


InspectorDep = Annotated[OperatorInspector, Depends(inspector_of)]


async def states_of(
    record: RecordDep, operator: OperatorPath, services: ServicesDep
) -> StateInspector:
    """The inspector of the states of the operator in the path.

    Raises:
        OperatorNotFound: there is none.
    """
    return (await contents_of(services, record)).operator(operator).states


StatesDep = Annotated[StateInspector, Depends(states_of)]


async def json_only(request: Request) -> None:
    """Refuse a body that does not say that it is JSON.

    Raises:
        UnsupportedMediaType: another Content-Type, or none.
    """
    if not is_json(request.headers.get("content-type", "")):
        raise UnsupportedMediaType("the body must be application/json")


JsonBody = Depends(json_only)


async def json_if_any(request: Request) -> None:
    """Refuse a body that does not say that it is JSON; none at all says nothing.

    Raises:
        UnsupportedMediaType: another Content-Type, or none, of a body.
    """
    if await request.body():
        await json_only(request)


JsonBodyIfAny = Depends(json_if_any)
"""Where all members of the body have defaults."""


async def no_body(request: Request) -> None:
    """Refuse a body where nothing is read of it; clients that always send JSON send `{}`.

    Raises:
        InvalidParameter: it says something.
    """
    if (await request.body()).strip() not in (b"", b"{}"):
        raise InvalidParameter("the body says something, and nothing is read of it here")


NoBody = Depends(no_body)


def preferred(request: Request, offered: Sequence[str]) -> str:
    """The offered media type that `Accept` likes best; the first one where it does not care.

    Raises:
        NotAcceptable: it takes none of them.
    """
    wanted = [_media_range(each) for each in request.headers.get("accept", "*/*").split(",")]
    scored = [
        (max((_fit(kind, each) for each in wanted), default=(0.0, 0)), kind) for kind in offered
    ]
    best = max(scored, key=lambda pair: pair[0][0])
    if best[0][0] <= 0:
        raise NotAcceptable(f"available as {', '.join(offered)}")
    return best[1]


def _media_range(text: str) -> tuple[str, float]:
    kind, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = 1.0
    for each in parameters:
        name, _, value = each.partition("=")
        if name == "q":
            try:
                quality = float(value)
            except ValueError:
                quality = 0.0
    return kind or "*/*", quality


def _fit(offered: str, wanted: tuple[str, float]) -> tuple[float, int]:
    kind, quality = wanted
    major = offered.partition("/")[0]
    return (quality, 0) if kind in (offered, f"{major}/*", "*/*") else (0.0, 0)


def describe(*problems: ProblemType) -> dict[int | str, dict[str, Any]]:
    """The `responses` of a route for its problem types, for OpenAPI."""
    found: dict[int | str, dict[str, Any]] = {}
    if {problem.PIPELINE_NOT_FOUND, problem.PIPELINE_EXISTS}.intersection(problems):
        # Neither holds while one is being deleted.
        problems = (*problems, problem.PIPELINE_DELETING)
    for each in problems:
        known = found.setdefault(
            each.status,
            {
                "description": "",
                "content": {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                },
            },
        )
        link = f"[{each.slug}]({each.uri}): {each.title}"
        known["description"] += f"; {link}" if known["description"] else link
    return found
