"""From `plan`, `plan_uri` or `sql` of a request to the document of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from service.api.body_guard import json_depth
from service.api.errors import BodyTooDeep
from service.api.plan_locations import read_plan
from service.plan.restore import restored
from service.sql import Position, ValidationError
from service.sql.named_session import NamedSession
from service.sql.script import parse_with_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.api.models import PlanBody
    from service.api.planning import Planning
    from service.runtime.admission import PlanDocument
    from service.settings import LimitSettings, Settings
    from service.sql.source_text import Fragment
    from service.sql.statements import Statement


async def document_of(body: PlanBody, settings: Settings) -> PlanDocument:
    """The plan that a request brings or names, not yet looked at.

    Raises:
        PlanUriRefused: it cannot be had.
        PathOutsideRoot: it is a file outside of the files root.
        BodyTooDeep: nested deeper than a body may be.
    """
    if body.plan is not None:
        if isinstance(body.plan, str):
            check_depth(body.plan.encode("utf-8", "surrogatepass"), settings)
        return body.plan
    assert body.plan_uri is not None, "the model asks for one of the two"
    return await plan_at(body.plan_uri, settings)


async def plan_at(uri: str, settings: Settings) -> bytes:
    """The text of the plan at an address, not yet looked at but for its depth.

    Raises:
        PlanUriRefused: it cannot be had.
        PathOutsideRoot: it is a file outside of the files root.
        BodyTooDeep: nested deeper than a body may be.
    """
    data = await read_plan(uri, settings)
    check_depth(data, settings)
    return data


def check_depth(data: bytes, settings: Settings) -> None:
    """Refuse a document that is nested deeper than a body may be.

    Raises:
        BodyTooDeep: it is.
    """
    if json_depth(data) > settings.limits.json_depth_max:
        raise BodyTooDeep(f"the plan is nested deeper than {settings.limits.json_depth_max}")


def statements_of(script: str, limits: LimitSettings) -> Iterator[tuple[Statement, Fragment]]:
    """The statements of a request's script with their text.

    Raises:
        SqlError: One of them is none; or the script is longer than it may be.
    """
    return parse_with_text(
        script,
        characters_max=limits.script_characters_max,
        statements_max=limits.statements_max,
    )


class ScriptPlan(NamedTuple):
    """The plan that a script asks for."""

    document: dict[str, Any]
    position: Position
    """Of the statement that asks for it."""
    said: dict[str, str]
    """What the script has SET when it ends."""


async def compiled(script: str, planning: Planning, zone: str | None = None) -> dict[str, Any]:
    """The one plan that a script of SQL asks for, as Flink writes it.

    Args:
        script: The SQL.
        planning: The time that the request has for it.
        zone: The time zone where the script names none.

    Raises:
        SqlError: A statement is wrong, or not one of them asks for a plan, or several do.
        PlannerBusy: Other scripts are being planned.
    """
    session = NamedSession(zone=zone)
    return (await planning.run(_only_plan, session, script, planning.limits)).document


async def compiled_whole(script: str, planning: Planning, zone: str | None = None) -> ScriptPlan:
    """The same with all tables described, also temporary ones, of which a plan has the names only.

    Raises:
        SqlError, PlanError: As `compiled`; a table may be described twice, and differently.
        PlannerBusy: Other scripts are being planned.
    """

    def whole() -> ScriptPlan:
        session = NamedSession(zone=zone)
        planned = _only_plan(session, script, planning.limits)
        plan = restored(planned.document, session.tables(), is_new=True)
        return planned._replace(document=dict(plan.document))

    return await planning.run(whole)


def _only_plan(session: NamedSession, script: str, limits: LimitSettings) -> ScriptPlan:
    found = []
    place = Position(1, 1)
    for statement, text in statements_of(script, limits):
        planned = session.run(statement, text)
        if planned is not None:
            found.append(planned)
            place = statement.position
    if len(found) != 1:
        raise ValidationError(
            f"the script asks for {len(found)} plans, and a pipeline runs one",
            place,
            hint="put several INSERT statements into one statement set",
        )
    return ScriptPlan(found[0].document, place, dict(session.options))
