"""Kafka's topics that a plan's sinks write, as the service meets them: at a start, at a restore.

Kafka's client is imported where a topic is written only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.databases import told
from service.runtime.dataflow import plan_sinks
from service.runtime.kafka_fields import CONNECTORS
from service.runtime.sinks.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.runtime.dataflow import PipelineJob
    from service.runtime.sinks.owner import Restored


def claim_of_topics(
    job: PipelineJob, *, marker: int, begun: Callable[[], Mapping[str, int]]
) -> list[str]:
    """Let a run write the topics that its plan names, if any; no earlier run does from then on.

    Args:
        job: The run.
        marker: The pipeline's last closed epoch.
        begun: Tells, by group, the last epoch for which a transaction may have been begun.

    Returns:
        The words for the topics that have the epoch behind the marker.

    Raises:
        StartFailed: A topic is not there, or may not be written.
        QueryFailed: No broker answers.
        Fenced, StateLost: A topic is another run's, or of another epoch.
    """
    with told():
        sinks = plan_sinks(job.plan, job.files_root, job.database_hosts)
        if any(each.connector in CONNECTORS for each in sinks):
            from service.runtime.sinks.kafka.commit import claim_topics

            owner = Owner(job.pipeline_id, job.pipeline, job.run)
            ahead = claim_topics(owner, sinks, marker=marker, begun=begun())
            return [f"topic {each}" for each in ahead]
    return []


def adopt_of_topics(restored: Restored) -> None:
    """Let a restored pipeline go on with the topics that its plan names, if any.

    Raises:
        SavepointMismatch: A topic is not what the savepoint's epoch left.
        StartFailed: A topic cannot be written at all.
        QueryFailed: No broker answers.
    """
    with told():
        sinks = plan_sinks(restored.plan, restored.files_root, restored.hosts)
        if any(each.connector in CONNECTORS for each in sinks):
            from service.runtime.sinks.kafka.commit import adopt_topics

            adopt_topics(
                restored.owner,
                sinks,
                epoch=restored.epoch,
                origin=restored.origin,
                origins_name=restored.origins_name,
                begun=restored.new_tables,
            )
