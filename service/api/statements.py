"""`/v1/statements` and `/v1/sessions`: scripts of Flink SQL, statement by statement.

A request is a script with a catalogue and options of its own, which end with it. Whoever wants to
go on later names a session: what it declares and sets is kept in Redis until it is closed, or was
not used for `limits.session_ttl_ms`. Two requests of one session may run at a time; each sees what
was kept when it began, and where both set the same thing the later one wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import anyio
from fastapi import APIRouter, Path, Request, Response

from service import problem_types as problem
from service.api.deps import IdempotencyDep, JsonBody, ServicesDep, describe, in_thread
from service.api.etags import check_unchanged, reply
from service.api.planning import Planning
from service.api.plans import options_of
from service.api.statement_models import SqlSessionView, StatementResults, StatementsBody
from service.api.statement_runner import StatementRunner
from service.api.times import iso
from service.runtime.errors import SqlSessionNotFound
from service.runtime.sql_sessions import SqlSessions
from service.sql.catalogue import CatalogTable
from service.sql.named_session import NamedSession, SavedSession
from service.sql.show import options_listing

if TYPE_CHECKING:
    from service.api.deps import Services

router = APIRouter(prefix="/v1", tags=["statements"])

SessionPath = Annotated[
    str, Path(description="The session's name.", examples=["analytics"], max_length=255)
]


@router.post(
    "/statements",
    response_model=StatementResults,
    dependencies=[JsonBody],
    responses=describe(
        problem.PIPELINE_EXISTS,
        problem.PLAN_EXISTS,
        problem.IDEMPOTENCY_IN_PROGRESS,
        problem.SQL_INVALID,
        problem.SQL_TIMEOUT,
        problem.PLAN_TIMEOUT,
        problem.PLAN_INVALID,
        problem.PLAN_UNSUPPORTED,
        problem.PLAN_URI_REFUSED,
        problem.TABLE_OPTION_INVALID,
        problem.PATH_OUTSIDE_ROOT,
        problem.INVALID_REQUEST,
        problem.IDEMPOTENCY_MISMATCH,
        problem.PIPELINE_LIMIT,
        problem.SESSION_LIMIT,
        problem.PLANNER_BUSY,
    ),
)
async def run(
    request: Request, body: StatementsBody, services: ServicesDep, idempotency: IdempotencyDep
) -> Response:
    """Run a script; its INSERT and EXECUTE statements start pipelines.

    The script is parsed before anything runs. If a statement fails, the answer is its problem,
    with its number in `statement` and with `results` of those before it, which have taken effect.
    If one of them had lasting effects, an Idempotency-Key keeps that answer, too.
    """

    async def act() -> Response:
        sessions = _sessions(services)
        before = SavedSession()
        if body.session is not None:
            kept = await in_thread(sessions.load, body.session)
            if kept is None:
                await in_thread(sessions.check_room)
            else:
                before = kept
        planning = Planning(services.settings.limits)
        options = options_of(body.options)
        session = await planning.run(NamedSession, before, zone=options.local_time_zone)
        kept_in = None if body.session is None else sessions
        runner = StatementRunner(services, session, options, planning, kept_in)
        try:
            results = await runner.run(body.sql)
        finally:
            if body.session is not None:
                # What was declared before a failure stays, also if nobody waits for the answer.
                with anyio.CancelScope(shield=True):
                    await in_thread(sessions.save, body.session, before, session.saved())
        return reply(request, {"session": body.session, "results": results})

    return await idempotency.run(act)


@router.get(
    "/sessions/{session}",
    response_model=SqlSessionView,
    tags=["statements"],
    responses=describe(problem.SESSION_NOT_FOUND, problem.SQL_TIMEOUT, problem.PLANNER_BUSY),
)
async def get(request: Request, session: SessionPath, services: ServicesDep) -> Response:
    """What a session has declared and set."""
    return reply(request, await _view(session, services))


@router.delete(
    "/sessions/{session}",
    status_code=204,
    response_class=Response,
    responses=describe(
        problem.SESSION_NOT_FOUND,
        problem.PRECONDITION_FAILED,
        problem.SQL_TIMEOUT,
        problem.PLANNER_BUSY,
    ),
)
async def close(request: Request, session: SessionPath, services: ServicesDep) -> Response:
    """Forget a session; pipelines that it started go on."""
    if "if-match" in request.headers:
        check_unchanged(request, await _view(session, services))
    if not await in_thread(_sessions(services).close, session):
        raise SqlSessionNotFound("there is no session of this name")
    return Response(status_code=204)


def _sessions(services: Services) -> SqlSessions:
    return SqlSessions(services.redis, services.settings.limits)


async def _view(name: str, services: Services) -> dict[str, Any]:
    """A session as it is shown.

    Raises:
        SqlSessionNotFound: there is none.
    """
    sessions = _sessions(services)
    saved = await in_thread(sessions.load, name)
    if saved is None:
        raise SqlSessionNotFound("there is no session of this name")
    return await Planning(services.settings.limits).run(_shown, name, saved, sessions)


def _shown(name: str, saved: SavedSession, sessions: SqlSessions) -> dict[str, Any]:
    objects = NamedSession(saved).session.catalogue.objects
    tables = [each for each, entry in objects.items() if isinstance(entry, CatalogTable)]
    listing = options_listing(saved.options)
    return {
        "name": name,
        "tables": sorted(".".join(each) for each in tables),
        "views": sorted(".".join(each) for each in objects.keys() - set(tables)),
        "options": [{"key": key, "value": value} for key, value in listing.rows],
        "expires_at": iso(sessions.expires_ms(name)),
    }
