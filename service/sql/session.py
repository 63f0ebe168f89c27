"""A session: what statements have declared and set so far, and the plans that they ask for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from operators.time_zones import is_option
from service.plan.local_zone import (
    UNSAID,
    ZONE_OPTION,
    is_utc,
    refused_readers,
    with_node_zone,
)
from service.sql.algebra import Sink
from service.sql.binder.query import QueryBinder
from service.sql.catalogue import CatalogTable, Catalogue, Column, View
from service.sql.ddl import create_table
from service.sql.errors import UnsupportedSql, ValidationError, nearest, placed
from service.sql.option_names import check_option
from service.sql.options import Options
from service.sql.physical.changelog import infer_changes
from service.sql.physical.convert import convert
from service.sql.physical.determined import (
    is_determined,
    keep_values,
    refuse_undetermined,
    settle_lookups,
)
from service.sql.physical.nodes import Node, SinkSpec
from service.sql.physical.phases import is_batched, split_phases
from service.sql.physical.sinks import (
    NOBODY,
    bind_sink,
    check_times,
    refuse_partial_writes,
    settle_conflicts,
    united,
)
from service.sql.physical.windows import with_retractions
from service.sql.rules import rewrite
from service.sql.script import parse_script
from service.sql.statements import (
    CompilePlan,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    ExecuteInserts,
    ExecutePlan,
    Explain,
    Insert,
    ListOptions,
    Query,
    ResetOption,
    SetOption,
    Show,
    Statement,
)
from service.sql.table_hints import with_hint
from service.sql.to_plan import PlannedNodes, to_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.sql.errors import Position


@dataclass(frozen=True, slots=True)
class PlannedStatement:
    """A statement that asks for a plan, and the plan."""

    statement: CompilePlan | CreateTable | ExecuteInserts
    document: dict[str, Any]
    """Flink's compiled plan; `service.plan.load_plan` reads it."""
    modes: Mapping[int, tuple[str, ...]]
    """The kinds of change that each node sends, by its id; a plan says them at sinks only."""


@dataclass(slots=True)
class Session:
    """Tables, views and options; statements change them one after the other."""

    catalogue: Catalogue = field(default_factory=Catalogue)
    zone: str | None = None
    """The time zone of plans where SET names none."""

    def run_script(self, text: str) -> list[PlannedStatement]:
        """Run every statement of a script; what asks for a plan gives one.

        Raises:
            SqlError: A statement is wrong; those before it have taken effect.
        """
        planned = []
        for statement in parse_script(text):
            found = self.run(statement)
            if found is not None:
                planned.append(found)
        return planned

    def run(self, statement: Statement) -> PlannedStatement | None:
        """Run one statement.

        Raises:
            SqlError: It is wrong; the error always has a place.
        """
        with placed(statement.position):
            return self._run(statement)

    def _run(self, statement: Statement) -> PlannedStatement | None:
        match statement:
            case SetOption():
                check_option(statement.key, statement.value)
                self.catalogue.options[statement.key] = statement.value
            case ResetOption(key):
                if key is None:
                    self.catalogue.options.clear()
                else:
                    self.catalogue.options.pop(key, None)
            case CreateTable():
                made = create_table(statement, self.catalogue)
                planned = None
                if made.insert is not None:
                    # The table is there only if what fills it has a plan.
                    planned = self.with_table(made.table, statement).plan((made.insert,))
                self.catalogue.add(made.table, statement.position, if_absent=statement.if_absent)
                if planned is not None:
                    return PlannedStatement(statement, planned.document, planned.modes)
            case CreateView():
                self._create_view(statement)
            case Drop():
                self._drop(statement)
            case CompilePlan() | ExecuteInserts():
                planned = self.plan(statement.inserts)
                return PlannedStatement(statement, planned.document, planned.modes)
            case ListOptions() | Show() | Describe() | Explain() | ExecutePlan():
                raise UnsupportedSql(
                    "a script of a plan cannot show, explain or execute",
                    statement.position,
                    hint="post it to /v1/statements",
                )
        return None

    @property
    def options(self) -> Options:
        """What plans are made by: what SET says, and the session's time zone where it says none."""
        said = self.catalogue.options
        is_unsaid = said.get(ZONE_OPTION, UNSAID) == UNSAID
        zone = {ZONE_OPTION: self.zone} if self.zone is not None and is_unsaid else {}
        return Options({**said, **zone})

    def with_table(self, table: CatalogTable, statement: CreateTable) -> Session:
        """A session that has the table of a statement, too; this one stays as it is.

        Raises:
            SqlError: There is such a table, and the statement does not allow that.
        """
        objects, options = dict(self.catalogue.objects), self.catalogue.options
        session = Session(Catalogue(objects, options), self.zone)
        session.catalogue.add(table, statement.position, if_absent=statement.if_absent)
        return session

    def plan(
        self, inserts: Sequence[Insert | Query], *, keeps_values: bool = False
    ) -> PlannedNodes:
        """The plan of INSERT statements that run together; of a query: with a sink that is none.

        Args:
            inserts: The statements.
            keeps_values: Whether what changes cannot compute alike again is kept beside its row;
                found out by the plan without it.

        Raises:
            SqlError: There is none.
        """
        options = self.options
        bound = []
        for insert in inserts:
            with placed(insert.position):
                bound.append(self.bound(insert))
        batched = any(is_batched(sink.input) for sink in bound)
        sinks = []
        for insert, sink in zip(inserts, bound, strict=True):
            with placed(insert.position):
                node = _planned(sink, insert.position, options, keeps_values=keeps_values)
                sinks.append(split_phases(node, options, batched=batched))
        refuse_partial_writes(sinks, [insert.position for insert in inserts])
        with placed(inserts[0].position):
            planned = to_plan(united(sinks, options), options)
            if options.resolves_updates and not is_determined(planned):
                if not keeps_values:
                    return self.plan(inserts, keeps_values=True)
                refuse_undetermined(planned)
            return _zoned(planned, options)

    def bound(self, insert: Insert | Query) -> Sink:
        """What an INSERT means, before any rule.

        Raises:
            SqlError: It means nothing.
        """
        if isinstance(insert, Query):
            relation = QueryBinder(self.catalogue, insert.query).bind()
            columns = tuple(map(Column, relation.row.names, relation.row.types))
            # All kinds of change, as for a client that reads the rows.
            takes_all = {"changelog-mode": "retract"}
            nobody = CatalogTable(NOBODY, columns, (), "", None, takes_all)
            return Sink(relation, nobody, None, None)
        table = self.catalogue.find(insert.names, insert.position)
        if not isinstance(table, CatalogTable):
            raise ValidationError(f"{'.'.join(insert.names)} is a view", insert.position)
        if insert.hint is not None:
            table = with_hint(table, insert.hint, self.options)
        query = QueryBinder(self.catalogue, insert.query).bind()
        return bind_sink(query, table, insert.columns, insert.conflict, insert.position)

    def _create_view(self, statement: CreateView) -> None:
        names = self.catalogue.qualify(statement.names)
        view = View(names, statement.query, statement.columns, statement.is_temporary)
        # A view that means nothing is refused now, not where it is used.
        row = QueryBinder(self.catalogue, statement.query).bind().row
        if statement.columns and len(statement.columns) != len(row):
            raise ValidationError(
                f"{len(statement.columns)} names for {len(row)} columns", statement.position
            )
        self.catalogue.add(view, statement.position, if_absent=statement.if_absent)

    def _drop(self, statement: Drop) -> None:
        names = self.catalogue.qualify(statement.names)
        found = self.catalogue.objects.get(names)
        kind = CatalogTable if statement.kind == "TABLE" else View
        if isinstance(found, kind):
            del self.catalogue.objects[names]
        elif not statement.if_exists:
            known = self.catalogue.objects.items()
            raise ValidationError(
                f"no {statement.kind.lower()} {'.'.join(statement.names)!r}",
                statement.position,
                hint=nearest(names[-1], [key[-1] for key, each in known if isinstance(each, kind)]),
            )


def _planned(
    sink: Sink, position: Position, options: Options, *, keeps_values: bool = False
) -> Node:
    """The nodes of an INSERT, before mini-batches."""
    below = convert(rewrite(sink.input, options), options)
    if keeps_values:
        below = keep_values(below, options)
    spec = SinkSpec(sink.table, sink.conflict, sink.target_columns)
    node = Node(spec, (below,), below.row)
    check_times(node)
    node = infer_changes(node, options)
    node = with_retractions(settle_lookups(node, options))
    return settle_conflicts(node, options, position)


def _zoned(planned: PlannedNodes, options: Options) -> PlannedNodes:
    """The plan whose nodes name the session's time zone where they depend on it."""
    zone = options.text(ZONE_OPTION, UNSAID)
    if zone == UNSAID:
        return planned
    if not is_option(zone):
        raise ValidationError(
            f"option {ZONE_OPTION} cannot be {zone!r}",
            hint="a name such as Europe/Berlin, an offset such as GMT+03:00, or UTC",
        )
    if is_utc(zone):
        return planned
    nodes = planned.document["nodes"]
    for name, _ in refused_readers(nodes, "/nodes", literals=True):
        raise UnsupportedSql(
            f"{name} in the time zone {zone} is not supported",
            hint=f"leave {ZONE_OPTION} at UTC",
        )
    named = [with_node_zone(node, f"/nodes/{index}", zone) for index, node in enumerate(nodes)]
    return replace(planned, document={**planned.document, "nodes": named})


def compile_script(text: str) -> list[PlannedStatement]:
    """The plans that a script asks for, in a session of its own.

    Raises:
        SqlError: A statement is wrong.
    """
    return Session().run_script(text)
