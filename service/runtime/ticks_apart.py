"""Whether the ticks of a query come by a source of their own, beside its only source of changes.

Spark leaves a source without news out of an epoch's plan. Where changes and ticks have one offset
there is always news; where ticks have a source of their own, whose rows Spark knows that nobody
wants, an epoch that only a tick began has an empty plan: no exchange to prepare, no code to write,
and one task of the writer, which makes the tick (`quiet_epochs`, docs/adr/0017).

A checkpoint knows its sources by their number and order. So a query goes on as its checkpoint
began: with one source, or with two, of which the second may be read where the first would be.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from operators.upsert_materializer import MaterializerSpec
from service.plan.nodes import Sink, TableScan, Values
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.kafka_fields import CONNECTORS as KAFKA
from service.runtime.planned_offsets import are_ticks_apart, last_ends
from service.runtime.sources.spec import EPOCHS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan import CompiledPlan
    from service.runtime.dataflow import PipelineJob
    from service.runtime.event_time import EventTimes
    from service.runtime.operators import OperatorInfo


class Ticks(Enum):
    """How a query's ticks come about."""

    WITH_CHANGES = "with changes"
    """Each source has its own, in its offsets and rows."""
    UNREAD = "unread"
    """A second source begins epochs, and no task reads it: the writer makes the ticks."""
    READ = "read"
    """A second source begins epochs, and its rows are the ticks."""


def chosen_ticks(
    job: PipelineJob,
    operators: Mapping[int, OperatorInfo],
    event_time: EventTimes,
    *,
    may_be_unread: bool,
) -> Ticks:
    """How the ticks of a run come about: as its checkpoint has it, else as is the cheapest.

    Args:
        job: The run.
        operators: The plan's stateful ones, by node.
        event_time: Where their event time comes from.
        may_be_unread: Whether the plan has one source and one sink, and workers see the checkpoint.

    Raises:
        UnsupportedNode: The checkpoint has a source for ticks, and rows of the plan's only source
            go several ways, so that there are more sources than the checkpoint knows.
    """
    scans = [node.view for node in job.plan.nodes if isinstance(node.view, TableScan)]
    is_single = len(scans) == 1 and not any(isinstance(n.view, Values) for n in job.plan.nodes)
    if not is_single or scans[0].table.options.get("connector") in KAFKA:
        return Ticks.WITH_CHANGES
    known = last_ends(Path(job.checkpoint))
    is_begun_apart = known is not None and are_ticks_apart(known)
    if not _is_one_way(job.plan):
        if is_begun_apart:
            raise UnsupportedNode(
                "the checkpoint is of a plan whose rows go one way; here they go several ways",
                hint="begin without the savepoint, or restore it into such a plan",
            )
        return Ticks.WITH_CHANGES
    # The times of epochs that are given are those of the changes.
    has_clock = job.options.tick_interval_ms > 0 and EPOCHS not in scans[0].table.options
    if may_be_unread and has_clock and not _has_work_in_every_epoch(job, operators, event_time):
        return Ticks.UNREAD if known is None or is_begun_apart else Ticks.WITH_CHANGES
    return Ticks.READ if is_begun_apart else Ticks.WITH_CHANGES


def _is_one_way(plan: CompiledPlan) -> bool:
    """Whether the rows of each node go to one other node at most."""
    return max(Counter(edge.source for edge in plan.edges).values(), default=0) <= 1


def _has_work_in_every_epoch(
    job: PipelineJob, operators: Mapping[int, OperatorInfo], event_time: EventTimes
) -> bool:
    """Whether a task may have work in an epoch without changes, for itself or for others.

    Stages between source and writer pass ticks on; and what is due in all key groups is more than
    one task should do.
    """
    sinks = {node.id for node in job.plan.nodes if isinstance(node.view, Sink)}
    return bool(event_time.assigners) or any(
        number not in sinks or not isinstance(each.spec, MaterializerSpec) or each.spec.ttl_ms > 0
        for number, each in operators.items()
    )
