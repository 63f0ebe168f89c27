"""From a plan's tables to what sources and sinks are told, refusing what cannot run.

The same functions serve `check_plan`, which has no Spark, and the building of a query, so both
refuse alike. Connectors:

    source   filesystem, ingress, datagen, kafka, upsert-kafka
    sink     filesystem, jdbc, kafka, upsert-kafka, redis, print, blackhole
    neither  whatever else Flink has: refused, where it may be asked for with the reason

Whether the server has the jar of Kafka's source shows when a query starts, and so does what a
database or a Kafka cluster has for a table.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from operators.changelog import RowKind
from service.plan.changelog_mode import UPSERT
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.plan.metadata import metadata_columns
from service.plan.nodes import Sink, TableScan
from service.plan.properties import pointer_token
from service.plan.secrets import MASK, is_secret
from service.runtime.csv_dialect import CsvDialect, check_csv_type
from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidTableOption,
    UnsupportedChangelog,
    UnsupportedConnector,
)
from service.runtime.files import path_below
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.kafka_fields import UPSERT as UPSERT_KAFKA
from service.runtime.sinks.database.options import (
    address_of,
    check_driver,
    check_host,
    table_of,
)
from service.runtime.sinks.database.values import unsupported
from service.runtime.sinks.kafka import options as kafka_sink
from service.runtime.sinks.kafka.shape import RecordShape
from service.runtime.sinks.spec import Mode, SinkSpec
from service.runtime.sinks.tables import CONNECTORS as SINKS
from service.runtime.sources.capture import check_capture
from service.runtime.sources.datagen import field_rules, rows_total
from service.runtime.sources.formats import (
    SINK_FORMATS,
    allowed_kinds,
    format_of,
    ingress_format,
)
from service.runtime.sources.kafka_options import (
    reader_options,
    record_fields,
    task_options,
    value_format,
)
from service.runtime.sources.spec import SourceSpec
from service.runtime.table_options import TESTING, check_options
from state.types import format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan import CompiledPlan
    from service.plan.changelog_mode import ChangelogMode
    from service.plan.nodes import ExecNode
    from service.plan.tables import Column, Table
    from state.types import LogicalType

SOURCES = frozenset({"filesystem", "ingress", "datagen"}) | KAFKA
_POSITIVE = re.compile(r"[1-9][0-9]{0,17}")
_BY_KEY = ("redis", UPSERT_KAFKA)
"""Sinks that know nothing but the row of a key."""
_MODES: dict[str, Mode] = {"append": "append", "upsert": "upsert", "retract": "retract"}
_REASONS = {
    ("jdbc", "source"): (
        "a table that is read by JDBC is not a stream",
        "bring its changes by ingress, kafka or files; what is looked up lies in files, or in a "
        "table that a pipeline keeps with connector redis",
    ),
}
"""Why a connector that Spark has is not one of ours, and what to do instead."""
_CHANGE_DATA = "bring Debezium's events by kafka, ingress or files, with format debezium-json"
"""What to do in place of Flink's connectors that read a database's log themselves."""


def table_names(plan: CompiledPlan) -> dict[str, str]:
    """A short name for each table of a plan, by identifier: its own, unless two have the same."""
    tables = {
        node.view.table.identifier: node.view.table
        for node in plan.nodes
        if isinstance(node.view, TableScan | Sink)
    }
    count = Counter(table.name for table in tables.values())
    return {
        identifier: table.name if count[table.name] == 1 else ".".join(table.names)
        for identifier, table in tables.items()
    }


def scan_columns(scan: TableScan) -> list[Column]:
    """The columns that a scan gives, in order: physical ones, then metadata as it is read."""
    physical = scan.table.schema.physical
    chosen = scan.projected_fields
    given = physical if chosen is None else [physical[each[0]] for each in chosen]
    return [*given, *metadata_columns(scan)]


def source_spec(
    table: Table,
    columns: Sequence[Column],
    *,
    name: str,
    files_root: str,
    pipeline: str = "",
    allow_testing: bool = False,
) -> SourceSpec:
    """What a source is told of its table; where and how it runs is added by the dataflow.

    Args:
        table: The table as the plan has it.
        columns: The columns to give, in order, metadata last.
        name: The table's name in this pipeline.
        files_root: Folder that files must lie in.
        pipeline: Whose source it is; empty while a plan is only checked.
        allow_testing: Whether options of tests may be there.

    Raises:
        DataflowError: The connector, format, path or an option cannot be.
    """
    connector = _connector(table, SOURCES, "source")
    physical = [each for each in columns if each.kind == "PHYSICAL"]
    spec = SourceSpec(
        connector=connector,
        table=name,
        pipeline=pipeline,
        redis_url="",
        names=tuple(each.name for each in physical),
        types=tuple(_type_text(each) for each in physical),
        physical=tuple((each.name, _type_text(each)) for each in table.schema.physical),
        options=dict(table.options),
        metadata=tuple(
            (each.metadata_key or each.name, _type_text(each))
            for each in columns
            if each.kind == "METADATA"
        ),
        primary_key=table.schema.primary_key,
        files_root=files_root,
    )
    with _at(table):
        _check_source(spec)
        _check_csv_types(spec.options, physical)
    _check_table(table, allow_testing=allow_testing)
    return spec


def sink_spec(
    node: ExecNode, sink: Sink, *, name: str, files_root: str, database_hosts: Sequence[str] = ()
) -> SinkSpec:
    """What the writer is told of a sink.

    Args:
        node: The sink's node; its rows are those of its input.
        sink: The node's view.
        name: The table's name in this pipeline.
        files_root: Folder that files must lie in.
        database_hosts: Servers of databases, and of Kafka, that may be written to.

    Raises:
        DataflowError: The connector, format, path or an option cannot be, or the sink does not take
            changes of a kind that reaches it.
    """
    table = sink.table
    connector = _connector(table, SINKS, "sink")
    spec = SinkSpec(
        node=node.id,
        table=name,
        connector=connector,
        names=tuple(each.name for each in sink.columns),
        types=tuple(map(_text, _written_types(node, sink))),
        primary_key=sink.primary_key,
        mode="retract",
        options=dict(table.options),
        metadata=sink.metadata_keys,
    )
    changes = UPSERT if sink.require_upsert_materialize else sink.input_changelog_mode
    with _at(table):
        spec = replace(spec, mode=_sink_mode(spec))
        _check_sink(spec, files_root, changes)
        if connector == "jdbc":
            _check_database(spec, files_root, database_hosts)
        _check_csv_types(spec.options, sink.columns)
        if connector in KAFKA:
            _check_topic(spec, database_hosts)
    _check_table(table, allow_testing=False)
    return spec


def _written_types(node: ExecNode, sink: Sink) -> list[LogicalType]:
    """The types of a sink's rows: what may be NULL is said by the query and by the table alike.

    A NULL that the table forbids never comes to the sink (`service.runtime.constraints`).
    """
    return [
        given.with_nullable(given.nullable and (each.type is None or each.type.nullable))
        for given, each in zip(node.output_type.children, sink.columns, strict=True)
    ]


def check_spelling(table: str, options: Mapping[str, str]) -> None:
    """Refuse a connector that is none here, but has nearly the name of one, where it is declared.

    Any other may be meant for a plan that runs elsewhere, and is refused where a pipeline uses it.

    Raises:
        UnsupportedConnector: It is misspelt.
    """
    name = options.get("connector", "")
    if name and name not in SOURCES | SINKS and (near := _nearest(name, SOURCES | SINKS)):
        raise UnsupportedConnector(
            f'table {table} has connector "{name}", which is none', hint=f'did you mean "{near}"?'
        )


def _nearest(name: str, known: frozenset[str]) -> str:
    return next(iter(difflib.get_close_matches(name.lower(), sorted(known), 1, cutoff=0.7)), "")


def _connector(table: Table, known: frozenset[str], what: str) -> str:
    name = table.options.get("connector", "")
    if name in known:
        return name
    hint = f"{what}s are {', '.join(sorted(known))}"
    if not name:
        raise UnsupportedConnector(
            f"table {table.name} has no connector", hint=hint, path=f"{table.path}/resolvedTable"
        )
    refused = f'connector "{name}" of table {table.name} is not a {what} here'
    if near := _nearest(name, known):
        hint = f'did you mean "{near}"? {hint}'
    if name.endswith("-cdc"):
        hint = f"{_CHANGE_DATA}; {hint}"
    if (name, what) in _REASONS:
        reason, hint = _REASONS[name, what]
        refused = f"{refused}: {reason}"
    raise UnsupportedConnector(
        refused, hint=hint, path=f"{table.path}/resolvedTable/options/connector"
    )


def _check_table(table: Table, *, allow_testing: bool) -> None:
    """Refuse what is asked of a table beyond what its connector and format honour."""
    path = f"{table.path}/resolvedTable"
    if table.is_partitioned:
        raise UnsupportedConnector(
            f"table {table.name} is partitioned, which no connector here supports",
            hint="leave out PARTITIONED BY",
            path=f"{path}/partitionKeys",
        )
    for name, value in table.options.items():
        if value == MASK and is_secret(name):
            raise InvalidTableOption(
                f'option "{name}" is masked, as secrets are when a plan is shown',
                hint="give its real value",
                path=f"{path}/options/{pointer_token(name)}",
            )
    columns = [each.name for each in table.schema.physical]
    # Kafka's options are looked at one by one, by whoever reads or writes.
    if table.options.get("connector") not in KAFKA:
        check_options(table.options, columns, f"{path}/options", allow_testing=allow_testing)


def _check_csv_types(options: Mapping[str, str], columns: Sequence[Column]) -> None:
    if options.get("format") == "csv":
        for column in columns:
            if column.type is not None:
                check_csv_type(column.name, column.type, column.path)


def _check_source(spec: SourceSpec) -> None:
    match spec.connector:
        case "filesystem":
            form = format_of(spec.options)
            if form == "csv":
                CsvDialect.of(spec.options)
            given = TESTING & spec.options.keys()
            if given and form not in ("json", "changelog-json"):
                raise InvalidTableOption(f'option "{min(given)}" needs a format of JSON lines')
            if given and given != TESTING:
                raise InvalidTableOption(f'option "{min(TESTING - given)}" is missing')
            allowed_kinds(spec.options)
            check_capture(form, spec.options, _columns_of(spec))
            path_below(spec.files_root, _fixed_part(_required(spec.options, "path")))
            _duration(spec.options, "source.monitor-interval")
        case "ingress":
            check_capture(ingress_format(spec.options), spec.options, _columns_of(spec))
            allowed_kinds(spec.options)
        case "kafka" | "upsert-kafka":
            reader_options(spec.options, spec.rows_per_epoch_max)
            record_fields(spec)
            check_capture(value_format(spec.options), task_options(spec.options), _columns_of(spec))
        case _:
            field_rules(spec)
            _positive(spec.options, "rows-per-second")
            try:
                rows_total(spec.options)
            except ValueError as error:
                raise InvalidTableOption("an option of datagen is not a number") from error


def _columns_of(spec: SourceSpec) -> dict[str, LogicalType]:
    return {name: parse_type(kind) for name, kind in spec.physical}


def _check_sink(spec: SinkSpec, files_root: str, changes: ChangelogMode) -> None:
    if spec.connector == "filesystem":
        if format_of(spec.options, SINK_FORMATS) == "csv":
            CsvDialect.of_sink(spec.options)
        path_below(files_root, _required(spec.options, "path"))
    if spec.connector == "redis" and not spec.primary_key:
        raise InvalidTableOption(
            f"redis table {spec.table} has no primary key",
            hint="declare PRIMARY KEY .. NOT ENFORCED",
        )
    if spec.mode == "upsert" and not spec.primary_key:
        raise InvalidTableOption(f"upsert sink {spec.table} has no primary key")
    refused = [kind.short for kind in RowKind if kind in changes and kind is not RowKind.INSERT]
    if spec.mode == "append" and refused:
        raise UnsupportedChangelog(
            f"sink {spec.table} takes inserts only, and the plan sends {' '.join(refused)}",
            hint=_TAKES_UPDATES.get(
                spec.connector,
                "use format changelog-json, or a sink with changelog-mode upsert or retract",
            ),
        )


_TAKES_UPDATES = {
    "jdbc": "declare PRIMARY KEY .. NOT ENFORCED",
    "kafka": "use format changelog-json, or connector upsert-kafka",
}


def _check_topic(spec: SinkSpec, hosts: Sequence[str]) -> None:
    kafka_sink.check_options(spec.options)
    kafka_sink.check_hosts(kafka_sink.place_of(spec.options), hosts)
    RecordShape.of(spec)
    kafka_sink.check_client()


def _check_database(spec: SinkSpec, files_root: str, hosts: Sequence[str]) -> None:
    address = address_of(spec.options, files_root)
    table_of(spec.options)
    check_host(address, hosts)
    check_driver(address)
    if found := unsupported(spec.names, [parse_type(each) for each in spec.types]):
        raise UnsupportedConnector(
            f"{found} of sink {spec.table} cannot be written to a database column",
            hint="write its parts, or cast it to a string",
        )


def _sink_mode(spec: SinkSpec) -> Mode:
    """The sink's `changelog-mode`; rows without a kind are inserts, a table of keys takes upserts.

    Raises:
        InvalidTableOption: the option names no mode, or the format cannot show kinds.
    """
    form = spec.options.get("format", "")
    if spec.connector == "kafka":
        form = kafka_sink.value_format(spec.options)
    shows_kinds = spec.connector not in ("filesystem", "kafka") or form == "changelog-json"
    default = "retract" if shows_kinds else "append"
    if spec.connector == "jdbc":
        # As Flink's: without a key there is nothing to update or delete by.
        default = "upsert" if spec.primary_key else "append"
    always = spec.connector in _BY_KEY
    text = "upsert" if always else spec.options.get("changelog-mode", default)
    if text not in _MODES:
        raise InvalidTableOption(
            f'changelog-mode "{text}" of sink {spec.table} is not a mode', hint=", ".join(_MODES)
        )
    if text != "append" and not shows_kinds:
        raise InvalidTableOption(
            f'format "{form}" has no place for kinds of change',
            hint="use format changelog-json",
        )
    return _MODES[text]


class _at:
    """Gives errors of a table's options their place in the document."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DataflowError):
            error.path = error.path or f"{self._table.path}/resolvedTable/options"


def _type_text(column: Column) -> str:
    assert column.type is not None
    return _text(column.type)


def _text(logical: LogicalType) -> str:
    """The type without its time attribute, which says nothing of a column's values."""
    return format_type(replace(logical, time_attribute=None))


def _required(options: Mapping[str, str], name: str) -> str:
    value = options.get(name)
    if not value:
        raise InvalidTableOption(f'option "{name}" is missing')
    return value


def _fixed_part(path: str) -> str:
    """The folder of a glob, or the path itself; what a glob finds is checked when it is found."""
    wild = [path.find(each) for each in "*?[" if each in path]
    return path[: min(wild)].rpartition("/")[0] or "." if wild else path


def _duration(options: Mapping[str, str], name: str) -> None:
    if name in options:
        try:
            parse_duration_ms(options[name])
        except DurationError as error:
            raise InvalidTableOption(f'option "{name}" is not a duration: {error}') from error


def _positive(options: Mapping[str, str], name: str) -> None:
    text = options.get(name, "1")
    if _POSITIVE.fullmatch(text) is None:
        raise InvalidTableOption(f'option "{name}" must be a number above 0 of at most 18 digits')
