"""From a plan's nodes to one streaming DataFrame: what the writer gets.

Each node becomes a DataFrame of wire columns, in the plan's order:

    table-source-scan    the source's rows; scans of one table share its source; Kafka has no ticks,
                         so a source of ours that gives them alone stands beside it
    values               numbered blanks of a source, filled with the node's literals
    calc                 filter, then projection, both on the JVM and for changes only
    expand               a row for every projection
    correlate            a row for every element of a collection
    exchange             nothing: operators and sinks bring together what they need
    watermark-assigner   where an operator asks for event time: each task notes how far it came
    drop-update-before   a filter
    union                the inputs, those of unions among them; of equal order numbers the earlier
                         input comes first
    sink                 constraints, exchange by primary key, unless its rows are together already;
                         its materializer runs in the writer
    what keeps state     exchange of each input by the operator's key, then the operator in Python

Where the rows of a source, or of another part that runs in Python, go several ways, they are made
once and shared (`shared_rows`). Dead letters go the first way only, so that none is listed twice.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, assert_never

from pyspark.sql.connect import functions as F

from operators.changelog import RowKind
from operators.join.lookup import LookupJoinSpec
from operators.upsert_materializer import MaterializerSpec
from operators.watermarks import REACHED
from operators.wire import DEAD_LETTER, KIND, NOTE, ORDER, TIME, field_name
from operators.worker import OperatorTask, TaskSettings
from service.plan import RUN_WITHOUT_VIEW
from service.plan.nodes import (
    Calc,
    Correlate,
    DropUpdateBefore,
    Exchange,
    Expand,
    Sink,
    TableScan,
    Union,
    Values,
    WatermarkAssigner,
)
from service.plan.pushed import applied_filters, is_normalized
from service.runtime.connectors import scan_columns, sink_spec, source_spec, table_names
from service.runtime.constraints import constrained
from service.runtime.correlate import correlated
from service.runtime.event_time import assigner_name, event_times
from service.runtime.expressions import to_column
from service.runtime.frames import (
    calc,
    expanded,
    for_writer,
    literal_of_row,
    named,
    side_by_side,
    union,
)
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.kafka_stream import kafka_stream
from service.runtime.map_tasks import OperatorStage, WatermarkStage
from service.runtime.place_bits import place_bits
from service.runtime.quiet_epochs import QuietSource
from service.runtime.shared_rows import shared_rows
from service.runtime.sources.data_source import TailraceSource
from service.runtime.sources.spec import EPOCHS, SourceSpec
from service.runtime.spark_configuration import SPEC_OPTION
from service.runtime.specs import identity_nodes
from service.runtime.specs.lookup_join import with_places
from service.runtime.ticks_apart import Ticks, chosen_ticks
from service.runtime.togetherness import is_together
from service.runtime.unions import is_merged, united
from service.runtime.wire_columns import (
    brought_together,
    control_columns,
    data_columns,
    keep_changes_where,
    kind_literal,
    only_in_changes,
    spark_type,
    wire_struct,
    with_key_group,
    with_place,
)
from state.types import format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession
    from pyspark.sql.types import StructType

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.plan.rex import Rex
    from service.runtime.dataflow import PipelineJob
    from service.runtime.event_time import Assigners
    from service.runtime.operators import OperatorInfo
    from service.runtime.sinks.spec import SinkSpec


@dataclass(frozen=True, slots=True)
class LoweredPlan:
    """A plan as Spark will run it."""

    frame: DataFrame
    """What the writer gets: `_sink`, control columns, and a struct for each sink."""
    sinks: tuple[SinkSpec, ...]
    operators: tuple[str, ...]
    assigners: dict[str, tuple[str, ...]]
    """The watermark assigners that operators ask for, each with the sources behind it."""
    idle_timeouts_ms: dict[str, int]
    """By assigner, how long it may have no rows before it holds no other one back."""
    together: tuple[tuple[tuple[str, int], ...], ...]
    """The assigners that each operator waits for."""
    quiet: QuietSource | None
    """The only source, if it is not read in epochs without changes."""
    streams: tuple[str, ...]
    """By line of Spark's record of an epoch: the source that it tells the end of."""
    counted_by_spark: tuple[str, ...]
    """Those among them that are sources of Spark's own."""


@contextmanager
def lowered(spark: SparkSession, job: PipelineJob) -> Iterator[LoweredPlan]:
    """Turn a pipeline's plan into a streaming DataFrame, whose query must be started inside.

    Raises:
        DataflowError: A table cannot be read or written as asked.
        ExpressionError: An expression has no exact counterpart.
    """
    with ExitStack() as views:
        yield _Lowering(spark, job, views).run()


@dataclass(slots=True)
class _Part:
    """A part of the query: the first taker gets its dead letters, the others do not."""

    frame: DataFrame
    streams: tuple[str, ...]
    """The sources behind it, from left to right in Spark's plan, once for each way."""
    is_python: bool
    """Whether Python runs for it and is not shared behind it: each taker would run it again."""
    is_taken: bool = False

    def take(self) -> DataFrame:
        if self.is_taken:
            return self.frame.filter(F.col(KIND) != kind_literal(DEAD_LETTER))
        self.is_taken = True
        return self.frame


class _Lowering:
    """The state of one translation."""

    def __init__(self, spark: SparkSession, job: PipelineJob, views: ExitStack) -> None:
        self._spark = spark
        self._views = views
        self._job = job
        self._plan: CompiledPlan = job.plan
        self._names = table_names(job.plan)
        self._ways = Counter(edge.source for edge in job.plan.edges)
        self._done: dict[int, _Part] = {}
        self._tables: dict[str, tuple[_Part, list[str]]] = {}
        self._operators = {each.node_id: each for each in job.operators()}
        self._identities = identity_nodes(job.plan)
        self._event_time = event_times(job.plan, self._operators.values())
        self._bits = place_bits(job.plan, self._operators)
        self._quiet = self._quiet_source()
        self._ticks = chosen_ticks(
            job, self._operators, self._event_time, may_be_unread=self._quiet is not None
        )
        if self._quiet is not None and self._ticks is not Ticks.WITH_CHANGES:
            is_unread = self._ticks is Ticks.UNREAD
            self._quiet = replace(self._quiet, has_ticks_apart=True) if is_unread else None
        self._kafka_tables = {
            self._names[node.view.table.identifier]
            for node in job.plan.nodes
            if isinstance(node.view, TableScan)
            and node.view.table.options.get("connector") in KAFKA
        }

    def run(self) -> LoweredPlan:
        outputs: list[DataFrame] = []
        sinks: list[SinkSpec] = []
        streams: list[str] = []
        for node in self._plan.nodes:
            if isinstance(node.view, Sink):
                spec = sink_spec(
                    node,
                    node.view,
                    name=self._names[node.view.table.identifier],
                    files_root=self._job.files_root,
                    database_hosts=self._job.database_hosts,
                )
                outputs.append(self._sink(node, node.view))
                sinks.append(replace(spec, operator=self._task(node)))
                streams += self._streams_of(node)
            elif not is_merged(self._plan, node):
                frame = self._node(node)
                part = _Part(frame, self._streams_of(node), self._is_python(node))
                self._done[node.id] = self._shared(part, self._ways[node.id])
        frames = [for_writer(frame, at, sinks) for at, frame in enumerate(outputs)]
        ids = tuple(each.id for each in self._operators.values())
        written = reduce(lambda left, right: left.unionAll(right), frames)
        if self._ticks is Ticks.UNREAD:
            assert self._quiet is not None
            written = self._with_unread_ticks(written, self._quiet.table)
            streams.append(ticks_name(self._quiet.table))
        return LoweredPlan(
            written,
            tuple(sinks),
            ids,
            {name: self._sources_of(name) for name in self._event_time.assigners},
            self._idle_timeouts_ms(),
            self._event_time.together,
            self._quiet,
            tuple(streams),
            tuple(sorted(self._kafka_tables)),
        )

    def _shared(self, part: _Part, ways: int) -> _Part:
        """The part as so many ways take it, each of which would run its Python otherwise."""
        if ways <= 1 or not part.is_python:
            return part
        frame = shared_rows(self._spark, part.frame, self._job.parallelism, self._views)
        return _Part(frame, part.streams, is_python=False)

    def _behind(self, node: ExecNode) -> list[_Part]:
        """What a node takes."""
        if isinstance(node.view, TableScan):
            return [self._tables[node.view.table.identifier][0]]
        if isinstance(node.view, Union):
            return [self._done[each] for each in united(self._plan, node)]
        return [self._done[each.id] for each in self._plan.inputs(node.id)]

    def _streams_of(self, node: ExecNode) -> tuple[str, ...]:
        if isinstance(node.view, Values):
            return self._streams_read(values_name(node))
        return tuple(each for part in self._behind(node) for each in part.streams)

    def _is_python(self, node: ExecNode) -> bool:
        return (
            node.id in self._operators
            or isinstance(node.view, Values)
            or assigner_name(node) in self._event_time.assigners
            or any(each.is_python for each in self._behind(node))
        )

    def _quiet_source(self) -> QuietSource | None:
        """The query's only source, if epochs in which it has nothing can do without a task."""
        if not self._job.workers_see_checkpoint:
            return None
        views = [node.view for node in self._plan.nodes]
        scans = [each for each in views if isinstance(each, TableScan)]
        if any(isinstance(each, Values) for each in views):
            return None
        if len({each.table.identifier for each in scans}) != 1:
            return None
        if sum(isinstance(each, Sink) for each in views) != 1:
            return None
        table = scans[0].table
        if table.options.get("connector") in KAFKA:
            return None
        return QuietSource(self._names[table.identifier], self._job.checkpoint)

    def _with_unread_ticks(self, written: DataFrame, table: str) -> DataFrame:
        """What is written, and a source for ticks, whose rows Spark knows that nobody wants.

        Behind all else, so that there is nothing left to plan where the other source has nothing.
        """
        spec = ticks_spec(SourceSpec("", table, self._job.pipeline, "", (), (), ()))
        return written.unionAll(self._loaded(spec, written.schema).filter(F.lit(False)))

    def _node(self, node: ExecNode) -> DataFrame:
        view = node.view
        if node.id in self._operators:
            return self._operated(node)
        if node.id in self._identities:
            return self._input(node)
        match view:
            case TableScan():
                return self._scan(node, view)
            case Values():
                return self._values(node, view)
            case Calc():
                return calc(self._input(node), view, len(node.output_type.children))
            case Expand(projections=projections):
                return expanded(self._input(node), projections, node.output_type.children)
            case Correlate():
                bits, followers = self._bits.correlates[node.id], self._bits.followers[node.id]
                types = node.output_type.children
                return correlated(self._input(node), view, types, bits, followers)
            case Union():
                return union(self._inputs(node))
            case DropUpdateBefore():
                kept = F.col(KIND) != kind_literal(RowKind.UPDATE_BEFORE)
                return keep_changes_where(self._input(node), kept)
            case WatermarkAssigner(expression=expression):
                return self._assigned(node, self._input(node), expression)
            case Exchange():
                return self._input(node)
            case None if node.node_type.short in RUN_WITHOUT_VIEW:
                return self._input(node)
            case Sink() | None:
                raise AssertionError(f"node {node.id} was checked to be none of these")
            case _:
                assert_never(view)

    def _inputs(self, node: ExecNode) -> list[DataFrame]:
        return [each.take() for each in self._behind(node)]

    def _input(self, node: ExecNode) -> DataFrame:
        (only,) = self._inputs(node)
        return only

    def _operated(self, node: ExecNode) -> DataFrame:
        """The output of an operator that is a stage of its own."""
        operator = self._operators[node.id]
        assert not isinstance(operator.spec, MaterializerSpec)
        inputs = operator.spec.inputs
        frames = self._inputs(node)
        if len(frames) == 1:
            keyed = self._keyed(frames[0], inputs[0].key)
        else:
            sides = [self._with_key_group(f, i.key) for f, i in zip(frames, inputs, strict=True)]
            together = side_by_side(sides, [each.types for each in inputs])
            keyed = brought_together(together, partitions=self._job.parallelism)
        task = self._task_of(operator, self._event_time.inputs[node.id])
        types = [[format_type(column) for column in each.types] for each in inputs]
        stage = OperatorStage(task, self._quiet, types)
        return keyed.mapInArrow(stage, wire_struct(operator.spec.output.types))

    def _assigned(self, node: ExecNode, frame: DataFrame, expression: Rex) -> DataFrame:
        """The rows as they are, with a note of how far event time came."""
        name = assigner_name(node)
        if name not in self._event_time.assigners:
            return frame
        count = len(node.output_type.children)
        value = to_column(expression, data_columns(count))
        reached = F.unix_millis(value.cast("timestamp"))
        schema = wire_struct(node.output_type.children)
        observed = frame.withColumn(REACHED, only_in_changes(reached))
        return observed.mapInArrow(WatermarkStage(name, self._job.parallelism), schema)

    def _idle_timeouts_ms(self) -> dict[str, int]:
        """By watermark assigner: what the plan says of its source, else the pipeline's option."""
        default_ms = self._job.options.source_idle_timeout_ms
        found = {}
        for node in self._plan.nodes:
            name = assigner_name(node)
            if name in self._event_time.assigners:
                scan = node.view if isinstance(node.view, TableScan) else None
                found[name] = (scan.idle_timeout_ms if scan else 0) or default_ms
        return found

    def _sources_of(self, assigner: str) -> tuple[str, ...]:
        """Names of the sources that a watermark assigner is behind of."""
        return tuple(
            self._names[node.view.table.identifier]
            if isinstance(node.view, TableScan)
            else values_name(node)
            for node in self._event_time.sources[assigner]
        )

    def _scan(self, node: ExecNode, scan: TableScan) -> DataFrame:
        """The columns of one scan, out of those that all scans of its table need."""
        identifier = scan.table.identifier
        if identifier not in self._tables:
            self._tables[identifier] = self._source(identifier)
        part, names = self._tables[identifier]
        places = [names.index(each.name) for each in scan_columns(scan)]
        frame = self._filtered(node, part.take(), names)
        if places != [*range(len(names))]:
            columns = named([F.col(field_name(place)) for place in places])
            frame = frame.select(*columns, *control_columns())
        return frame if scan.watermark is None else self._assigned(node, frame, scan.watermark)

    def _filtered(self, node: ExecNode, frame: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows that pass the filters which the source took over."""
        for each in applied_filters(self._plan, node):
            known = set(each.read)
            columns = [
                F.col(field_name(names.index(name))) if name in known else F.lit(None)
                for name in each.columns
            ]
            for predicate in each.predicates:
                frame = keep_changes_where(frame, to_column(predicate, columns))
        return frame

    def _source(self, identifier: str) -> tuple[_Part, list[str]]:
        """The source of a table with every column that a scan of it needs."""
        nodes = [
            (node, node.view)
            for node in self._plan.nodes
            if isinstance(node.view, TableScan) and node.view.table.identifier == identifier
        ]
        scans = [scan for _, scan in nodes]
        found = {c.name: c for scan in scans for c in scan_columns(scan)}
        filters = [each for node, _ in nodes for each in applied_filters(self._plan, node)]
        asked = {name for each in filters for name in each.read}
        physical = scans[0].table.schema.physical
        found |= {c.name: c for c in physical if c.name in asked - found.keys()}
        # Sources give metadata behind all columns.
        needed = sorted(found.values(), key=lambda column: column.kind == "METADATA")
        spec = source_spec(
            scans[0].table,
            needed,
            name=self._names[identifier],
            files_root=self._job.files_root,
            pipeline=self._job.pipeline,
            allow_testing=self._job.allow_testing,
        )
        read = self._read(replace(spec, is_normalized=is_normalized(self._plan, identifier)))
        source = _Part(read, self._streams_read(spec.table), is_python=True)
        return self._shared(source, len(scans)), [each.name for each in needed]

    def _streams_read(self, table: str) -> tuple[str, ...]:
        """The streams that `_read` makes of a source."""
        if table in self._kafka_tables or self._ticks is Ticks.READ:
            return (table, ticks_name(table))
        return (table,)

    def _values(self, node: ExecNode, values: Values) -> DataFrame:
        name = values_name(node)
        options = {"rows": str(len(values.rows))}
        blanks = self._read(
            SourceSpec("values", name, self._job.pipeline, "", (), (), (), options=options)
        )
        columns = [
            only_in_changes(literal_of_row([row[at] for row in values.rows]).cast(spark_type(kind)))
            for at, kind in enumerate(node.output_type.children)
        ]
        return blanks.select(*named(columns), *control_columns())

    def _read(self, spec: SourceSpec) -> DataFrame:
        """A source's stream, with the epoch's time."""
        if spec.connector in KAFKA:
            # Always both: a checkpoint knows its sources by their number.
            ticks = replace(spec, connector="ticks", options={})
            return self._open(spec).unionAll(self._open(ticks))
        if self._ticks is Ticks.READ:
            return self._open(spec).unionAll(self._open(ticks_spec(spec)))
        return self._open(spec)

    def _complete(self, spec: SourceSpec) -> SourceSpec:
        options = self._job.options
        has_ticks = self._ticks is Ticks.WITH_CHANGES or spec.connector == "ticks"
        return replace(
            spec,
            redis_url=self._job.redis_url,
            connect_timeout_ms=self._job.connect_timeout_ms,
            socket_timeout_ms=self._job.socket_timeout_ms,
            partitions=self._job.parallelism,
            # Where ticks are apart Spark leaves out a source without news by itself.
            is_quiet=self._quiet is not None and has_ticks,
            tick_interval_ms=options.tick_interval_ms if has_ticks else 0,
            rows_per_epoch_max=options.rows_per_epoch_max,
            fail_on_malformed=options.on_malformed == "fail",
        )

    def _open(self, spec: SourceSpec) -> DataFrame:
        # Records of Kafka know no epoch, and all sources of one must say the same time.
        tells_time = EPOCHS in spec.options or not self._kafka_tables
        control = [KIND, ORDER, NOTE, *([TIME] if tells_time else [])]
        schema = wire_struct([parse_type(each) for each in spec.given], control)
        if spec.connector in KAFKA:
            records = kafka_stream(self._spark, self._complete(spec), schema)
            return with_place(records, has_time=False)
        return with_place(self._loaded(spec, schema), has_time=tells_time)

    def _loaded(self, spec: SourceSpec, schema: StructType) -> DataFrame:
        reader = self._spark.readStream.format(TailraceSource.name()).schema(schema)
        return reader.option(SPEC_OPTION, self._complete(spec).to_json()).load()

    def _sink(self, node: ExecNode, sink: Sink) -> DataFrame:
        frame = constrained(self._input(node), node, sink)
        if node.id in self._operators:
            return self._keyed(frame, _key_of(self._operators[node.id]))
        if not sink.primary_key or sink.input_changelog_mode.is_insert_only:
            return frame
        if is_together(self._plan, self._operators, self._identities, node):
            return frame
        return self._keyed(frame, sink.primary_key)

    def _keyed(self, frame: DataFrame, key: Sequence[int]) -> DataFrame:
        keyed = self._with_key_group(frame, key)
        return brought_together(keyed, partitions=self._job.parallelism)

    def _with_key_group(self, frame: DataFrame, key: Sequence[int]) -> DataFrame:
        return with_key_group(frame, key, max_parallelism=self._job.max_parallelism)

    def _task(self, node: ExecNode) -> str:
        """The operator that the writer runs before a sink, if there is one."""
        operator = self._operators.get(node.id)
        if operator is None:
            return ""
        return self._task_of(operator, self._event_time.inputs[node.id]).to_json()

    def _task_of(self, operator: OperatorInfo, assigners: Assigners) -> OperatorTask:
        spec = operator.spec
        if isinstance(spec, LookupJoinSpec):
            spec = with_places(spec, files_root=self._job.files_root, redis_url=self._job.redis_url)
        settings = TaskSettings(
            pipeline=self._job.pipeline,
            operator=operator.id,
            run=self._job.run,
            redis_url=self._job.redis_url,
            incarnation=self._job.incarnation,
            partitions=self._job.parallelism,
            max_parallelism=self._job.max_parallelism,
            version=self._job.version,
            connect_timeout_ms=self._job.connect_timeout_ms,
            socket_timeout_ms=self._job.socket_timeout_ms,
        )
        bits = self._bits.stages[operator.node_id]
        return OperatorTask(settings, spec.to_json(), assigners, bits)


def _key_of(operator: OperatorInfo) -> tuple[int, ...]:
    """The columns that the only input of an operator is keyed by."""
    spec = operator.spec
    return spec.key if isinstance(spec, MaterializerSpec) else spec.inputs[0].key


def ticks_spec(spec: SourceSpec) -> SourceSpec:
    """The source of the ticks of a table's epochs, where those are apart from its changes."""
    return replace(spec, connector="ticks", table=ticks_name(spec.table), options={})


def ticks_name(table: str) -> str:
    """What the source of a table's ticks is called, where those are apart from its changes."""
    return f"{table}-ticks"


def values_name(node: ExecNode) -> str:
    """What the source of a values node is called."""
    return f"values-{node.id}"
