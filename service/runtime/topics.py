"""Kafka's topics that a plan's sinks write, as the service meets them: at a start, at a restore.

Kafka's client is imported where a topic is written only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.databases import told
from service.runtime.dataflow import plan_sinks
from service.runtime.sinks.kafka.options import CONNECTORS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.plan import CompiledPlan
    from service.runtime.dataflow import PipelineJob


def claim_of_topics(
    job: PipelineJob, *, marker: int, begun: Callable[[], Mapping[str, int]]
) -> None:
    """Let a run write the topics that its plan names, if any; no earlier run does from then on.

    Args:
        job: The run.
        marker: The pipeline's last closed epoch.
        begun: Tells, by group, the last epoch for which a transaction may have been begun.

    Raises:
        StartFailed: A topic is not there, or may not be written.
        QueryFailed: No broker answers.
        Fenced, StateLost: A topic is another run's, or of another epoch.
    """
    with told():
        sinks = plan_sinks(job.plan, job.files_root, job.database_hosts)
        if any(each.connector in CONNECTORS for each in sinks):
            from service.runtime.sinks.kafka.commit import claim_topics
            from service.runtime.sinks.kafka.fence import Owner

            owner = Owner(job.pipeline_id, job.pipeline, job.run)
            claim_topics(owner, sinks, marker=marker, begun=begun())


def adopt_of_topics(
    plan: CompiledPlan,
    *,
    pipeline: str,
    pipeline_id: str,
    files_root: str,
    hosts: Sequence[str],
    epoch: int,
    origin: str,
    origins_name: str,
) -> None:
    """Let a restored pipeline go on with the topics that its plan names, if any.

    Args:
        plan: The restored pipeline's.
        pipeline: Its name.
        pipeline_id: Its id.
        files_root: Folder that files must lie in.
        hosts: Servers of databases that may be written to.
        epoch: The savepoint's.
        origin: The id of the pipeline whose savepoint it is.
        origins_name: The name of that one.

    Raises:
        SavepointMismatch: A topic is not what the savepoint's epoch left.
        StartFailed: A topic cannot be written at all.
        QueryFailed: No broker answers.
    """
    with told():
        sinks = plan_sinks(plan, files_root, hosts)
        if any(each.connector in CONNECTORS for each in sinks):
            from service.runtime.sinks.kafka.commit import adopt_topics
            from service.runtime.sinks.kafka.fence import Owner

            owner = Owner(pipeline_id, pipeline, run=0)
            adopt_topics(owner, sinks, epoch=epoch, origin=origin, origins_name=origins_name)
