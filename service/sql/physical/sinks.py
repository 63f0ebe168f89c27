"""The sink: columns as its table has them, and what becomes of conflicting keys.

Where the query's rows are told apart by other columns than the table's, rows of several keys meet
in one row of the table, and a materializer must keep them all; the statement has to ask for it.

Source: Flink `DynamicSinkUtils`, `StreamPhysicalSink` and `FlinkChangelogModeInferenceProgram`
(2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.support import LOGS
from service.sql import types
from service.sql.algebra import Project, Relation, Sink
from service.sql.errors import ValidationError, nearest
from service.sql.metadata import check_written
from service.sql.physical.changelog import key_of
from service.sql.physical.connectors import sink_mode
from service.sql.physical.keys import Keys, are_known, smallest, source_of, upsert_keys
from service.sql.physical.nodes import (
    CalcSpec,
    ExchangeSpec,
    Node,
    ScanSpec,
    SinkSpec,
    UnionSpec,
    WatermarkSpec,
)
from service.sql.rex import call, cast, literal, ref
from service.sql.terms import unique_names
from service.sql.type_names import summary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.sql.catalogue import CatalogTable, Column
    from service.sql.errors import Position
    from service.sql.options import Options
    from state.types import LogicalType


NOBODY = ("", "", "*query*")
"""The name of what stands for a sink where a query alone is explained: it may have any rows."""


def bind_sink(
    query: Relation,
    table: CatalogTable,
    columns: Sequence[str],
    conflict: str | None,
    position: Position,
) -> Sink:
    """A query that writes a table: its columns in the table's order, cast where they must be.

    Raises:
        ValidationError: The query's columns are not the table's, or it writes no such columns.
    """
    check_written(table, position)
    targets = table.persisted
    chosen: tuple[int, ...] | None = None
    if columns:
        query, chosen = _placed(query, table, columns, position)
    if len(query.row) != len(targets):
        raise _mismatch(query, table, "Different number of columns.", position)
    for index, (given, target) in enumerate(zip(query.row.types, targets, strict=True)):
        if not types.can_cast_implicitly(given, target.type):
            reason = f"Incompatible types for sink column '{target.name}' at position {index + 1}."
            raise _mismatch(query, table, reason, position)
    return Sink(_with_metadata(_cast(query, targets), table), table, conflict, chosen)


def _placed(
    query: Relation, table: CatalogTable, columns: Sequence[str], position: Position
) -> tuple[Relation, tuple[int, ...]]:
    """The query's columns where the statement says that they go, NULL elsewhere."""
    names = [column.name for column in table.persisted]
    unknown = [name for name in columns if name not in names]
    if unknown:
        raise ValidationError(
            f"table {table.summary} has no column {unknown[0]!r}",
            position,
            hint=nearest(unknown[0], names),
        )
    if len(columns) != len(query.row):
        raise _mismatch(query, table, "Different number of columns.", position)
    outputs: list[Rex] = []
    made: list[str] = []
    for index, column in enumerate(table.persisted):
        if column.name in columns:
            at = list(columns).index(column.name)
            outputs.append(ref(at, query.row.types[at]))
            name = query.row.names[at]
            made.append(f"EXPR${index}" if name == f"EXPR${at}" else name)
        elif not column.type.nullable:
            raise ValidationError(
                f"Column '{column.name}' has no default value and does not allow NULLs", position
            )
        else:
            outputs.append(literal(None, column.type))
            made.append(f"EXPR${index}")
    return Project(query, tuple(outputs), tuple(made)), tuple(map(names.index, columns))


def _cast(query: Relation, targets: Sequence[Column]) -> Relation:
    """The query with the types of the sink's columns, if any of them must be cast."""
    row = query.row
    if all(
        types.can_store(*pair) for pair in zip(row.types, (t.type for t in targets), strict=True)
    ):
        return _timed(query)
    outputs = []
    for index, (given, target) in enumerate(zip(row.types, targets, strict=True)):
        column = ref(index, given)
        wanted = target.type.with_nullable(True)
        is_stored = given.time_attribute != "ROWTIME" and types.regular(given) == wanted
        outputs.append(column if is_stored else cast(column, wanted))
    return _timed(Project(query, tuple(outputs), tuple(target.name for target in targets)))


def _with_metadata(query: Relation, table: CatalogTable) -> Relation:
    """The query with the columns that the sink takes: metadata last, in the types of its keys."""
    written = table.written
    if all(column.kind == "PHYSICAL" for column in written):
        return query
    names = [column.name for column in table.persisted]
    outputs = []
    for target in written:
        at = names.index(target.name)
        column = ref(at, query.row.types[at])
        is_same = target.kind == "PHYSICAL" or column.type == target.type
        outputs.append(column if is_same else cast(column, target.type))
    given = [each.metadata_key or each.name for each in written]
    # A physical column may have the name of a key.
    return Project(query, tuple(outputs), unique_names((), given))


def _timed(query: Relation) -> Relation:
    """Processing time leaves a query as a value."""
    row = query.row
    if all(kind.time_attribute != "PROCTIME" for kind in row.types):
        return query
    outputs = tuple(
        call("PROCTIME_MATERIALIZE", [ref(index, kind)], types.regular(kind))
        if kind.time_attribute == "PROCTIME"
        else ref(index, kind)
        for index, kind in enumerate(row.types)
    )
    return Project(query, outputs, row.names)


def _mismatch(
    query: Relation, table: CatalogTable, reason: str, position: Position
) -> ValidationError:
    def schema(names: Sequence[str], kinds: Sequence[LogicalType]) -> str:
        shown = (f"{name}: {summary(kind)}" for name, kind in zip(names, kinds, strict=True))
        return f"[{', '.join(shown)}]"

    columns = table.persisted
    sink = schema([each.name for each in columns], [each.type for each in columns])
    return ValidationError(
        f"Column types of query result and sink for '{table.summary}' do not match.\n"
        f"Cause: {reason}\n\n"
        f"Query schema: {schema(query.row.names, query.row.types)}\n"
        f"Sink schema:  {sink}",
        position,
    )


def check_times(sink: Node) -> None:
    """Refuse two event times in one row: a sink takes one.

    Raises:
        ValidationError: There are two.
    """
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "every plan ends in a sink"
    if spec.table.names == NOBODY:
        return
    row = sink.input.row
    columns = zip(row.names, row.types, strict=True)
    times = [name for name, kind in columns if kind.time_attribute == "ROWTIME"]
    if len(times) > 1:
        raise ValidationError(
            f"The query contains more than one rowtime attribute column [{', '.join(times)}] for "
            f"writing into table '{spec.table.summary}'.\nPlease select the column that should be "
            "used as the event-time timestamp for the table sink by casting all other columns to "
            "regular TIMESTAMP or TIMESTAMP_LTZ."
        )


def settle_conflicts(sink: Node, options: Options, position: Position) -> Node:
    """The sink with its materializer, if it needs one.

    Raises:
        ValidationError: Keys may conflict and the statement does not say what then, or what it says
            cannot be done.
    """
    spec = sink.spec
    assert isinstance(spec, SinkSpec), "every plan ends in a sink"
    name = spec.table.summary
    mode = sink_mode(spec.table, is_insert_only=sink.input.changes.is_insert_only)
    if spec.conflict is not None and mode != "upsert":
        why = (
            "it only accepts INSERT (append-only) changes"
            if mode == "append"
            else "it requires UPDATE_BEFORE (retract mode)"
        )
        raise ValidationError(
            f"ON CONFLICT clause is only allowed for upsert sinks. The sink '{name}' is not an "
            f"upsert sink because {why}.",
            position,
        )
    if mode != "upsert" or not spec.table.primary_key:
        return sink
    if spec.conflict in ("ERROR", "NOTHING"):
        _require_watermarks(sink, spec.conflict, position)
    keys = upsert_keys(sink.input)
    differs = not any(key <= key_of(spec) for key in keys)
    setting = options.text("table.exec.sink.upsert-materialize", "AUTO")
    if setting == "NONE" or (setting == "AUTO" and not differs):
        return sink
    if setting == "AUTO" and spec.conflict is None and options.requires_conflict:
        raise _undecided(sink, spec, keys, position)
    is_harmless = spec.conflict == "DEDUPLICATE" and sink.input.changes.is_insert_only
    if is_harmless and setting == "AUTO":
        return sink
    return replace(sink, spec=replace(spec, materializes=True))


def united(sinks: Sequence[Node], options: Options) -> list[Node]:
    """The sinks, where statements that write the same columns of one table in the same way are one.

    What they ask for on conflict is part of the way, and so is the key by which a sink that
    materializes finds a row again: Flink takes both of the first statement, for all.

    Source: Flink `SinkReuser`.
    """
    if not options.reuses_sinks:
        return list(sinks)
    groups: dict[tuple[object, ...], list[Node]] = {}
    for sink in sinks:
        spec, below = sink.spec, sink.input
        assert isinstance(spec, SinkSpec), "every plan ends in a sink"
        kinds = tuple(kind.with_nullable(True) for kind in below.row.types)
        changes = tuple(below.changes.names)
        found_by = smallest(upsert_keys(below)) if spec.materializes else None
        way = (spec.target_columns, spec.conflict, spec.materializes, found_by)
        key = (spec.table, way, kinds, changes)
        groups.setdefault(key, []).append(sink)
    return [_of_all(group) for group in groups.values()]


def _of_all(group: list[Node]) -> Node:
    first = group[0]
    if len(group) == 1:
        return first
    inputs = tuple(each.input for each in group)
    both = Node(UnionSpec(), inputs, first.input.row, first.input.changes)
    assert isinstance(first.spec, SinkSpec), "every plan ends in a sink"
    spec = replace(first.spec, first_key=smallest(upsert_keys(first.input)))
    return replace(first, spec=spec, inputs=(both,))


def refuse_partial_writes(sinks: Sequence[Node], positions: Sequence[Position]) -> None:
    """Refuse statements that write different columns of one table by its key.

    Each would set the columns of the others to NULL. What only logs changes may have them.

    Raises:
        ValidationError: Two do.
    """
    seen: dict[tuple[str, ...], frozenset[str]] = {}
    for sink, position in zip(sinks, positions, strict=True):
        spec = sink.spec
        assert isinstance(spec, SinkSpec), "every plan ends in a sink"
        table = spec.table
        names = [column.name for column in table.persisted]
        chosen = range(len(names)) if spec.target_columns is None else spec.target_columns
        written = frozenset(names[each] for each in chosen)
        if not table.primary_key or table.options.get("connector") in LOGS:
            continue
        other = seen.setdefault(table.names, written)
        if other != written:
            lost = [name for name in names if name in other ^ written]
            keys = ", ".join(table.primary_key)
            raise ValidationError(
                f"Two INSERTs write different columns of '{table.summary}' by its key: where one "
                f"leaves {', '.join(lost)} out, it sets them to NULL.",
                position,
                hint="write it with one INSERT: FULL JOIN both queries "
                f"on {keys}, and take {keys} by COALESCE of the two",
            )


def _keyless_source(sink: Node, spec: SinkSpec) -> str:
    """What to do where the sink's key is a column of a table that has none."""
    node, columns = sink.input, sorted(key_of(spec))
    while not isinstance(node.spec, ScanSpec):
        if isinstance(node.spec, CalcSpec):
            given = [source_of(node.spec.projection[at]) for at in columns]
            columns = [each for each in given if each is not None]
            if len(columns) < len(given):
                return ""
        elif not isinstance(node.spec, ExchangeSpec | WatermarkSpec):
            return ""
        node = node.input
    if node.spec.table.primary_key:
        return ""
    names = ", ".join(node.row.names[at] for at in columns)
    return (
        f"if {names} tells the rows of {node.spec.table.names[-1]} apart, declare it there: "
        f"PRIMARY KEY ({names}) NOT ENFORCED"
    )


def _undecided(sink: Node, spec: SinkSpec, keys: Keys, position: Position) -> ValidationError:
    found = smallest(keys)
    names = [column.name for column in spec.table.written]
    unknown = "" if are_known(sink.input) else "none"
    shown = unknown if found is None else f"[{', '.join(names[index] for index in found)}]"
    return ValidationError(
        "The query has an upsert key that differs from the primary key of the sink table "
        f"'{spec.table.summary}'. Primary key: [{', '.join(spec.table.primary_key)}], upsert key: "
        f"{shown}. This can lead to non-deterministic results when multiple records with different "
        "upsert keys map to the same primary key. Please specify an ON CONFLICT clause to define "
        "how conflicts should be handled: ON CONFLICT DO DEDUPLICATE (update to the latest record, "
        "state intensive, since we need to keep the entire history), or ON CONFLICT DO ERROR (fail "
        "on conflict), or ON CONFLICT DO NOTHING (keep first record).",
        position,
        hint=_keyless_source(sink, spec),
    )


def _require_watermarks(sink: Node, conflict: str, position: Position) -> None:
    missing = sorted(_without_watermark(sink, has_watermark=False))
    if missing:
        raise ValidationError(
            f"ON CONFLICT DO {conflict} requires all source tables to define watermarks, but the "
            f"following source(s) do not: {', '.join(missing)}. Please add a WATERMARK declaration "
            "to these tables.",
            position,
        )


def _without_watermark(node: Node, *, has_watermark: bool) -> set[str]:
    if isinstance(node.spec, ScanSpec):
        return set() if has_watermark else {node.spec.table.summary}
    has_watermark = has_watermark or isinstance(node.spec, WatermarkSpec)
    found: set[str] = set()
    for each in node.inputs:
        found |= _without_watermark(each, has_watermark=has_watermark)
    return found
