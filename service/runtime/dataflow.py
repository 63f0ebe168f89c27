"""A plan as a streaming query: checked without Spark, then built and started.

One pipeline is one Structured Streaming query, and one micro-batch of it is one epoch (epoch =
Spark's batch id + 1). Sources are Python data sources whose rows say their kind and their place in
the epoch; relational work without state is Spark SQL; a keyed operator is a `mapInArrow` behind an
exchange by key group; all sinks are one writer, whose commit closes the epoch.

    check_plan       what `start_query` would refuse, found without Spark
    stateful_nodes   the operators whose state a run must own before its query starts
    start_query      the query itself
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from operators.compacting_materializer import CompactingSpec
from operators.join.lookup import LookupJoinSpec
from operators.spec import OperatorSpec
from service.plan import unsupported
from service.plan.deadline import check_time
from service.plan.local_zone import ZONE_OPTION, common_zone, said_zone, zone_readers
from service.plan.nodes import (
    Calc,
    Correlate,
    Exchange,
    ExecNode,
    Expand,
    Sink,
    TableScan,
    Values,
    WatermarkAssigner,
)
from service.runtime.connectors import scan_columns, sink_spec, source_spec, table_names
from service.runtime.correlate import check_correlate
from service.runtime.dataflow_errors import SourceSplit, UnsupportedNode
from service.runtime.errors import StartFailed
from service.runtime.event_time import EventTimes, assigner_name, event_times
from service.runtime.expressions import check as check_expression
from service.runtime.node_errors import at_node, in_plan
from service.runtime.node_options import check_configuration
from service.runtime.operators import OperatorInfo, stateful_nodes
from service.runtime.place_bits import place_bits
from service.runtime.planned_offsets import check_checkpoint
from service.runtime.spark_configuration import SPEC_OPTION
from service.runtime.specs import identity_nodes, is_run
from state.key_groups import key_group
from state.types import LogicalTypeError, UnsupportedType, arrow_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from service.plan import CompiledPlan
    from service.plan.tables import Table
    from service.runtime.records import RunOptions
    from service.runtime.sinks.spec import SinkSpec
    from service.settings import Settings
    from state.descriptors import StateDescriptor

__all__ = [
    "OperatorInfo",
    "PipelineJob",
    "check_plan",
    "plan_sinks",
    "start_query",
    "stateful_nodes",
]

_REGISTERING = threading.Lock()


@dataclass(frozen=True, slots=True)
class PipelineJob:
    """Everything that a run of a pipeline's query needs."""

    pipeline: str
    plan: CompiledPlan
    run: int
    """From the ledger's `open_run`."""
    incarnation: str | None
    """Redis's run id when the run was opened; tasks refuse another one."""
    redis_url: str = field(repr=False)
    """As the workers reach it."""
    checkpoint: str
    """Folder of the query's checkpoint, as the Connect server sees it."""
    options: RunOptions
    parallelism: int
    """Shuffle partitions of keyed operators, and the most tasks that read a source."""
    max_parallelism: int
    """Key groups; the same for the life of the pipeline's state."""
    files_root: str
    version: str
    """The version of this package that the workers must have."""
    dead_letters_max: int = 10_000
    print_rows_max: int = 1_000
    progress_epochs_max: int = 1_000
    orphans_max: int = 1_000
    due_keys_max: int = 1_000
    states: Mapping[str, Sequence[StateDescriptor]] = field(default_factory=dict)
    """By operator: what it keeps, with what is known of its past."""
    allow_testing: bool = False
    """Whether tables may have the options that only tests need."""
    pipeline_id: str = ""
    """Unlike the name never used again: by it databases know who writes."""
    database_hosts: tuple[str, ...] = ()
    """Servers of databases, and of Kafka, that may be written to."""
    connect_timeout_ms: int = 2_000
    """Longest wait of workers for a connection to Redis."""
    socket_timeout_ms: int = 30_000
    """Longest wait of workers for a reply of Redis."""
    closed_epoch: int = 0
    """The last closed one before the run; 0 before the first."""
    closed_offsets: str = "{}"
    """What the marker has beside it, as JSON."""
    workers_see_checkpoint: bool = True
    """Whether the folder of the checkpoint is one that Spark's workers can read, too."""

    def operators(self) -> list[OperatorInfo]:
        """The plan's stateful operators under the options of this run."""
        found = stateful_nodes(
            self.plan,
            self.options,
            orphans_max=self.orphans_max,
            due_keys_max=self.due_keys_max,
        )
        return [each.with_past(self.states.get(each.id, ())) for each in found]


def check_plan(plan: CompiledPlan, settings: Settings) -> None:
    """Find what keeps a plan from running here.

    Raises:
        PlanError: A node's properties are none of such a node.
        UnsupportedNode: A node, or something in it, is not executed yet.
        DataflowError: A connector, option, path or sink mode cannot be.
        ExpressionError: An expression has no exact counterpart.
        InvalidSpec: An operator cannot be as asked.
    """
    with in_plan(plan):
        _check_nodes(
            plan,
            str(settings.files.root),
            allow_testing=settings.execution.testing_options_enabled,
            database_hosts=settings.databases.hosts,
        )
        _check_zone(plan)
        operators = stateful_nodes(plan)
        _check_operators(plan, operators)
        place_bits(plan, {each.node_id for each in operators})
        times = event_times(plan, operators)
        _check_watermarks(plan, operators, times)
        _check_event_time(plan, times)


def _check_zone(plan: CompiledPlan) -> None:
    """See that each expression that reads the time zone has one.

    A node that names none takes the one of the others, of which there may be no two then.
    """
    nodes = plan.document["nodes"]
    if common_zone(nodes) is not None or not any(map(said_zone, nodes)):
        return
    for index, node in enumerate(nodes):
        if said_zone(node) is None:
            for name, path in zone_readers(node, f"/nodes/{index}"):
                raise UnsupportedNode(
                    f"{name} depends on the time zone, and the plan's nodes name several",
                    hint=f"name one in this node's configuration: {ZONE_OPTION}",
                    node_id=node.get("id"),
                    path=path,
                )


def _check_operators(plan: CompiledPlan, operators: Sequence[OperatorInfo]) -> None:
    """See that operators have keys, and what they emit crosses to where it goes."""
    ways = Counter(edge.source for edge in plan.edges)
    for each in operators:
        if isinstance(each.spec, LookupJoinSpec):
            _check_one_way(plan, plan.node(each.node_id), ways)
        if isinstance(each.spec, OperatorSpec):
            _check_keys(plan.node(each.node_id), each.spec)
            for kind in each.spec.output.types:
                try:
                    arrow_type(kind)
                except LogicalTypeError as error:
                    place = plan.node(each.node_id)
                    path = f"{place.path}/outputType"
                    raise UnsupportedNode(str(error), node_id=place.id, path=path) from error


def _check_keys(node: ExecNode, spec: OperatorSpec) -> None:
    """See that Spark and we can tell where a key belongs, which none can of a map."""
    for given in spec.inputs:
        types = given.key_row.types
        try:
            key_group(types, [None] * len(types), 1)
        except UnsupportedType as error:
            raise UnsupportedNode(str(error), node_id=node.id, path=node.path) from error


def _check_one_way(plan: CompiledPlan, node: ExecNode, ways: Mapping[int, int]) -> None:
    """See that what a look-up join emits goes one way only.

    What goes several ways is computed once a way, and a table may change in between.
    """
    following = {node.id}
    check_time()
    for later in plan.nodes:
        if following.intersection(each.id for each in plan.inputs(later.id)):
            following.add(later.id)
    for each in sorted(following):
        if ways[each] > 1:
            raise UnsupportedNode(
                f"{node.type_text} is not supported if several nodes read it",
                hint="make a pipeline for each sink",
                node_id=node.id,
                path=node.path,
            )


def _check_watermarks(
    plan: CompiledPlan, operators: Sequence[OperatorInfo], times: EventTimes
) -> None:
    """See that operators which wait for watermarks get any.

    A sink's conflicts are settled at the end of its inputs, if not before.
    """
    for each in operators:
        of_inputs = times.inputs[each.node_id]
        if of_inputs and not all(of_inputs) and not isinstance(each.spec, CompactingSpec):
            node = plan.node(each.node_id)
            raise UnsupportedNode(
                f"{node.type_text} waits for watermarks, and one of its inputs has none",
                hint="declare WATERMARK FOR in the table that it comes from",
                node_id=node.id,
                path=node.path,
            )


def _check_event_time(plan: CompiledPlan, times: EventTimes) -> None:
    """The watermarks that operators wait for must be computed; others may be what they will."""
    for node in plan.nodes:
        if assigner_name(node) not in times.assigners:
            continue
        with at_node(node):
            match node.view:
                case WatermarkAssigner(expression=expression):
                    check_expression(expression)
                case TableScan(watermark=expression) if expression is not None:
                    check_expression(expression)
                case _:
                    pass


def start_query(spark: SparkSession, job: PipelineJob) -> Any:
    """Build and start the query of a run; it goes on from its checkpoint if there is one.

    Args:
        spark: A session with artifact isolation off and time zone UTC.
        job: The run.

    Returns:
        Spark's `StreamingQuery`, named as the pipeline.

    Raises:
        DataflowError, ExpressionError: As `check_plan`.
        StartFailed: The checkpoint is of other sources, or of two ends of one.
        StateLost: It is not of the place where the state stands.
        QueryFailed: It cannot be read.
    """
    # Spark is imported where a query is started only: checking plans needs none.
    from service.runtime.lowering import lowered
    from service.runtime.sinks.data_source import TailraceSink
    from service.runtime.sinks.spec import WriterSpec
    from service.runtime.sources.data_source import TailraceSource

    _check_nodes(
        job.plan,
        job.files_root,
        allow_testing=job.allow_testing,
        database_hosts=job.database_hosts,
    )
    with _REGISTERING:
        # Spark looks for the name and puts it in two steps: pipelines that start side by side in
        # one session would refuse each other.
        spark.dataSource.register(TailraceSource)
        spark.dataSource.register(TailraceSink)
    with lowered(spark, job) as plan:
        _check_checkpoint(job, plan.streams, plan.counted_by_spark)
        writer = WriterSpec(
            pipeline=job.pipeline,
            run=job.run,
            redis_url=job.redis_url,
            incarnation=job.incarnation,
            files_root=job.files_root,
            sinks=plan.sinks,
            pipeline_id=job.pipeline_id,
            operators=plan.operators,
            assigners=plan.assigners,
            idle_timeouts_ms=plan.idle_timeouts_ms,
            together=plan.together,
            quiet_source=plan.quiet.table if plan.quiet else "",
            has_ticks_apart=plan.quiet is not None and plan.quiet.has_ticks_apart,
            checkpoint=job.checkpoint,
            streams=plan.streams,
            counted_by_spark=plan.counted_by_spark,
            max_parallelism=job.max_parallelism,
            version=job.version,
            dead_letters_max=job.dead_letters_max,
            print_rows_max=job.print_rows_max,
            progress_max=job.progress_epochs_max,
            connect_timeout_ms=job.connect_timeout_ms,
            socket_timeout_ms=job.socket_timeout_ms,
        )
        return (
            plan.frame.writeStream.format(TailraceSink.name())
            .option(SPEC_OPTION, writer.to_json())
            .option("checkpointLocation", job.checkpoint)
            .queryName(job.pipeline)
            .outputMode("append")
            .trigger(processingTime=f"{job.options.trigger_interval_ms} milliseconds")
            .start()
        )


def _check_checkpoint(
    job: PipelineJob, streams: Sequence[str], counted_by_spark: Sequence[str]
) -> None:
    """See that a query goes on where its state stands.

    Raises:
        StartFailed, StateLost, QueryFailed: As `start_query`.
    """
    try:
        check_checkpoint(
            Path(job.checkpoint),
            streams,
            counted_by_spark,
            closed_epoch=job.closed_epoch,
            closed_offsets=orjson.loads(job.closed_offsets),
        )
    except SourceSplit as error:
        raise StartFailed(
            error.message, code=error.code, hint="restore the last savepoint under another name"
        ) from error


def plan_sinks(
    plan: CompiledPlan, files_root: str, database_hosts: Sequence[str]
) -> list[SinkSpec]:
    """What the writer is told of each sink of a plan, but for its operator; in the plan's order.

    Raises:
        DataflowError: As `check_plan`.
    """
    names = table_names(plan)
    return [
        _plan_sink(node, node.view, names, files_root, database_hosts)
        for node in plan.nodes
        if isinstance(node.view, Sink)
    ]


def _plan_sink(
    node: ExecNode,
    sink: Sink,
    names: Mapping[str, str],
    files_root: str,
    database_hosts: Sequence[str],
) -> SinkSpec:
    return sink_spec(
        node,
        sink,
        name=names[sink.table.identifier],
        files_root=files_root,
        database_hosts=database_hosts,
    )


def _check_nodes(
    plan: CompiledPlan, files_root: str, *, allow_testing: bool, database_hosts: Sequence[str]
) -> None:
    for finding in unsupported(plan):
        raise UnsupportedNode(
            f"{finding.type} is not supported: {finding.reason}",
            node_id=finding.node_id,
            path=finding.path,
        )
    names = table_names(plan)
    _check_scans(plan)
    identities = identity_nodes(plan)
    for node in plan.nodes:
        check_time()
        with at_node(node):
            is_passing = node.id in identities or isinstance(node.view, Exchange)
            if not is_passing and not is_run(node):
                _check_columns(node)
            if isinstance(node.view, Sink):
                _plan_sink(node, node.view, names, files_root, database_hosts)
            _check_node(node, names, files_root, allow_testing=allow_testing)


def _check_scans(plan: CompiledPlan) -> None:
    """See that all scans of a table are of one source: notes and offsets know it by its name."""
    found: dict[str, Table] = {}
    for node in plan.nodes:
        if not isinstance(node.view, TableScan):
            continue
        table = node.view.table
        known = found.setdefault(table.identifier, table)
        differing = {
            name
            for name in known.options.keys() | table.options.keys()
            if known.options.get(name) != table.options.get(name)
        }
        if differing:
            raise UnsupportedNode(
                f'table {table.name} is read with several values of option "{min(differing)}"',
                hint="declare a table for each, by CREATE TABLE .. LIKE",
                node_id=node.id,
                path=f"{table.path}/resolvedTable/options",
            )


def _check_columns(node: ExecNode) -> None:
    """See that rows of the node can be; of operators their specs say what they emit."""
    for column in node.output_type.children:
        try:
            arrow_type(column)
        except LogicalTypeError as error:
            raise UnsupportedNode(str(error), path=f"{node.path}/outputType") from error


def _check_node(
    node: ExecNode, names: dict[str, str], files_root: str, *, allow_testing: bool
) -> None:
    check_configuration(node)
    match node.view:
        case TableScan(table=table) as scan:
            columns = scan_columns(scan)
            source_spec(
                table,
                columns,
                name=names[table.identifier],
                files_root=files_root,
                allow_testing=allow_testing,
            )
            for predicate in (rex for each in scan.filters for rex in each.predicates):
                check_expression(predicate)
        case Calc(projection=projection, condition=condition):
            for rex in (*projection, *(() if condition is None else (condition,))):
                check_expression(rex)
        case Expand(projections=projections):
            for projection in projections:
                for rex in projection:
                    check_expression(rex)
        case Correlate() as correlate:
            check_correlate(correlate)
        case Values(rows=rows):
            for row in rows:
                for literal in row:
                    check_expression(literal)
        case _:
            pass
