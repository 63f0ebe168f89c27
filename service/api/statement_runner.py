"""A script of statements, run one after the other: the counterpart of Flink's SQL gateway.

    declarations, SET     change the session
    SHOW, DESCRIBE        read it
    EXPLAIN               plans or reads a plan, and stores nothing
    CREATE TABLE .. AS    declares a table and starts a pipeline that fills it, or does neither
    COMPILE PLAN          writes a plan's file
    INSERT, EXECUTE ..    start a pipeline, as `POST /v1/pipelines` does

The whole script is parsed before its first statement runs. After that a statement that fails ends
the script; what those before it did stays, and the answer lists it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

import orjson

from service.api.deps import in_thread
from service.api.errors import StatementFailed
from service.api.plan_documents import plan_at, statements_of
from service.api.plan_locations import plan_exists, write_plan
from service.api.session_options import with_session
from service.plan import explain
from service.plan.restore import RestoreObjects, restored
from service.plan.tables import parse_identifier
from service.runtime.admission import admit, dangers, storable
from service.runtime.connectors import check_spelling
from service.runtime.dataflow_errors import UnsupportedConnector
from service.runtime.looked_up import check_looked_up
from service.sql.catalogue import CatalogTable
from service.sql.errors import ValidationError, placed
from service.sql.explain import explain_statement
from service.sql.options import Options
from service.sql.show import describe, options_listing, show, text_listing
from service.sql.statements import (
    CompilePlan,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    ExecuteInserts,
    ExecutePlan,
    Explain,
    ListOptions,
    ResetOption,
    SetOption,
    Show,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.api.deps import Services
    from service.api.planning import Planning
    from service.plan import CompiledPlan
    from service.runtime.admission import PlanDocument
    from service.runtime.records import PipelineOptions
    from service.runtime.sql_sessions import SqlSessions
    from service.sql.named_session import NamedSession
    from service.sql.session import PlannedStatement
    from service.sql.show import Listing
    from service.sql.source_text import Fragment
    from service.sql.statements import Statement

_OK = text_listing("result", ["OK"])
_FORCE = "table.plan.force-recompile"
_NAME = "pipeline.name"
_RESTORE = "table.plan.restore.catalog-objects"
_NOT_IN_NAMES = re.compile(r"[^a-z0-9_-]+")
_NAME_LENGTH_MAX = 63
_TITLES: dict[type[object], str] = {
    SetOption: "SET",
    ListOptions: "SET",
    ResetOption: "RESET",
    Describe: "DESCRIBE",
    ExecutePlan: "EXECUTE PLAN",
    Explain: "EXPLAIN",
}


class StatementRunner:
    """Runs the statements of one request in a session.

    Args:
        services: Of the application.
        session: What is declared and set so far; statements change it.
        options: Of the pipelines that are started.
        planning: The time that the request has for it.
        sessions: Where the session is kept; None: it ends with the request.
    """

    def __init__(
        self,
        services: Services,
        session: NamedSession,
        options: PipelineOptions,
        planning: Planning,
        sessions: SqlSessions | None = None,
    ) -> None:
        self._services = services
        self._settings = services.settings
        self._session = session
        self._pipeline_options = options
        self._planning = planning
        self._sessions = sessions
        self._took_effect = False

    async def run(self, sql: str) -> list[dict[str, Any]]:
        """What each statement of a script did.

        Raises:
            SqlError: The script cannot be parsed; nothing was run.
            StatementFailed: A statement failed; its cause says why, and `took_effect` whether
                anything was done that stays.
        """
        statements = await self._planning.run(self._parsed, sql)
        results: list[dict[str, Any]] = []
        for number, (statement, text) in enumerate(statements, start=1):
            try:
                with placed(statement.position):
                    results.append(await self._run(statement, text))
            except Exception as cause:  # whatever it was, the client learns what was done before it
                failure = StatementFailed("a statement failed", statement=number, results=results)
                failure.took_effect = self._took_effect
                raise failure from cause
        return results

    def _parsed(self, sql: str) -> list[tuple[Statement, Fragment]]:
        return list(statements_of(sql, self._settings.limits))

    async def _run(self, statement: Statement, text: Fragment) -> dict[str, Any]:
        catalogue = self._session.session.catalogue
        more: dict[str, Any] = {}
        listing: Listing = _OK
        match statement:
            case ListOptions():
                listing = options_listing(self._session.options)
            case Show():
                listing = await self._planning.run(show, statement, catalogue)
            case Describe():
                listing = await self._planning.run(describe, statement, catalogue)
            case Explain():
                listing = text_listing("result", [await self._explained(statement)])
            case CompilePlan():
                more = await self._compile(statement, text)
            case ExecutePlan(uri):
                plan = await self._plan_at(uri)
                more = {**await self._start(plan), "plan_uri": uri}
            case ExecuteInserts():
                more = await self._start(await self._planned(statement, text), is_new=True)
            case CreateTable():
                more = await self._create(statement, text)
            case _:
                await self._planning.run(self._declare, statement, text)
        return _result(statement, listing, **more)

    async def _create(self, statement: CreateTable, text: Fragment) -> dict[str, Any]:
        """CREATE TABLE; with AS, the table is there only if a pipeline fills it."""
        objects = self._session.session.catalogue.objects
        known = set(objects)
        planned = await self._planning.run(self._declare, statement, text)
        if planned is None:
            return {}
        try:
            return await self._start(planned.document, is_new=True)
        except BaseException:  # a request that is cancelled leaves no table either
            self._session.forget(objects.keys() - known)
            raise

    def _declare(self, statement: Statement, text: Fragment) -> PlannedStatement | None:
        if self._sessions is not None:
            self._sessions.check_size(self._session.saved(), text.text)
        objects = self._session.session.catalogue.objects
        known = set(objects)
        planned = self._session.run(statement, text)
        made = objects.keys() - known
        try:
            for each in made:
                if isinstance(table := objects[each], CatalogTable):
                    check_spelling(table.names[-1], table.options)
        except UnsupportedConnector:
            self._session.forget(made)
            raise
        # The table of CREATE TABLE .. AS stays once its pipeline is there.
        self._took_effect |= self._sessions is not None and planned is None
        return planned

    async def _compile(self, statement: CompilePlan, text: Fragment) -> dict[str, Any]:
        """COMPILE PLAN, and COMPILE AND EXECUTE PLAN, which runs a plan that is there already."""
        uri = statement.uri
        replaces = Options(self._session.options).flag(_FORCE, default=False)
        keeps = statement.executes or statement.if_absent
        if keeps and await plan_exists(uri, self._settings):
            found: dict[str, Any] = {"plan_uri": uri, "plan_written": False}
            if statement.executes:
                found |= await self._start(await self._plan_at(uri))
            return found
        document = await self._planned(statement, text)
        await write_plan(uri, plan_text(document), self._settings, replaces=replaces)
        self._took_effect = True
        found = {"plan_uri": uri, "plan_written": True}
        if statement.executes:
            found |= await self._start(document, is_new=True)
        return found

    async def _planned(
        self, statement: CompilePlan | ExecuteInserts, text: Fragment
    ) -> dict[str, Any]:
        planned = await self._planning.run(self._session.run, statement, text)
        assert planned is not None, "both ask for a plan"
        return planned.document

    async def _plan_at(self, uri: str) -> PlanDocument:
        return await plan_at(uri, self._settings)

    async def _explained(self, statement: Explain) -> str:
        if statement.uri is None:
            return await self._planning.run(
                explain_statement, self._session.session, statement.subjects, statement.details
            )
        document = await self._plan_at(statement.uri)
        return await self._planning.run(self._plan_explained, document, statement)

    def _plan_explained(self, document: PlanDocument, statement: Explain) -> str:
        plan = self._whole(document)
        ttl_ms = self._options().resolved(self._settings.execution).default_ttl_ms
        has_modes = "CHANGELOG_MODE" in statement.details
        return explain(plan, default_ttl_ms=ttl_ms).sections(has_modes=has_modes)

    async def _start(self, document: PlanDocument, *, is_new: bool = False) -> dict[str, Any]:
        """What a result says of a pipeline of a plan, which is started."""
        services = self._services
        plan = await self._planning.run(self._whole, document, is_new=is_new)
        options = self._options().settled(self._settings.execution)
        plan = await self._planning.run(admit, dict(plan.document), options, self._settings)
        found = await self._planning.run(dangers, plan)
        name = self._session.options.get(_NAME) or pipeline_name(plan)
        await in_thread(check_looked_up, plan, name, services.registry.plan_of)
        record = await in_thread(
            services.registry.create,
            name,
            dict(plan.document),
            options=options,
            desired="RUNNING",
        )
        self._took_effect = True
        services.supervisor.wake(record.name)
        return {
            "pipeline": {"name": record.name, "href": f"/v1/pipelines/{record.name}"},
            "warnings": [each.shown for each in found],
        }

    def _whole(self, document: PlanDocument, *, is_new: bool = False) -> CompiledPlan:
        """The plan with the tables of the session in it; a new one was made of them."""
        wanted = self._session.options.get(_RESTORE, "ALL").upper()
        choices: tuple[RestoreObjects, ...] = get_args(RestoreObjects)
        objects = next((each for each in choices if each == wanted), None)
        if objects is None:
            raise ValidationError(
                f"option {_RESTORE} cannot be {wanted!r}", hint=f"one of {', '.join(choices)}"
            )
        return restored(storable(document), self._session.tables(), objects, is_new=is_new)

    def _options(self) -> PipelineOptions:
        """Those of the request; the session's count where they say none."""
        return with_session(self._pipeline_options, self._session.options)


def plan_text(document: Mapping[str, Any]) -> bytes:
    """A plan as its file holds it: for people, too."""
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def pipeline_name(plan: CompiledPlan) -> str:
    """The name of a pipeline that none was given to: after its sinks, as Flink names jobs.

    Flink has the catalogue and database in it, and any characters; ours is part of addresses.
    """
    tables = []
    for sink in plan.sinks:
        table = sink.raw.get("dynamicTableSink", {}).get("table", {})
        names = parse_identifier(str(table.get("identifier", "")))
        tables.append(names[-1] if names else "table")
    joined = _NOT_IN_NAMES.sub("-", "_".join(tables).lower())
    return f"insert-into_{joined}"[:_NAME_LENGTH_MAX]


def _result(
    statement: Statement,
    listing: Listing,
    *,
    plan_uri: str | None = None,
    plan_written: bool | None = None,
    pipeline: dict[str, str] | None = None,
    warnings: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    has_content = listing is not _OK or pipeline is not None
    return {
        "statement": _title(statement),
        "position": {"line": statement.position.line, "column": statement.position.column},
        "result_kind": "SUCCESS_WITH_CONTENT" if has_content else "SUCCESS",
        "columns": [{"name": name, "type": kind} for name, kind in listing.columns],
        "rows": [list(row) for row in listing.rows],
        "plan_uri": plan_uri,
        "plan_written": plan_written,
        "pipeline": pipeline,
        "warnings": list(warnings),
    }


def _title(statement: Statement) -> str:
    """A statement's first words."""
    match statement:
        case CreateTable():
            return "CREATE TABLE"
        case CreateView():
            return "CREATE VIEW"
        case Drop(kind):
            return f"DROP {kind}"
        case Show(what):
            return f"SHOW {what}"
        case CompilePlan():
            return "COMPILE AND EXECUTE PLAN" if statement.executes else "COMPILE PLAN"
        case ExecuteInserts(inserts):
            return "INSERT" if len(inserts) == 1 else "EXECUTE STATEMENT SET"
        case _:
            return _TITLES[type(statement)]
