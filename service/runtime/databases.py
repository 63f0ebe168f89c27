"""Databases that a plan's sinks write to, as the service meets them: at a start, at a restore.

SQLAlchemy is imported where a database is written only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from service.runtime.dataflow import plan_sinks
from service.runtime.dataflow_errors import DataflowError, SinkRefused, SinkUnavailable
from service.runtime.errors import QueryFailed, StartFailed
from service.runtime.sinks.owner import Owner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.dataflow import PipelineJob
    from service.runtime.sinks.owner import Restored


def claim_databases(job: PipelineJob, *, marker: int) -> list[str]:
    """Let a run write the tables that its plan names, if any; no earlier run does from then on.

    Args:
        job: The run.
        marker: The pipeline's last closed epoch.

    Returns:
        The words for the tables that have the epoch behind the marker.

    Raises:
        StartFailed: A table is not there, or does not take what will be written.
        QueryFailed: A database does not answer.
        Fenced, StateLost: A table is another run's, or of another epoch.
    """
    with told():
        sinks = plan_sinks(job.plan, job.files_root, job.database_hosts)
        if any(each.connector == "jdbc" for each in sinks):
            from service.runtime.sinks.database.commit import claim_tables

            owner = Owner(job.pipeline_id, job.pipeline, job.run)
            ahead = claim_tables(owner, sinks, job.files_root, marker=marker)
            return [f"table {each}" for each in ahead]
    return []


def adopt_databases(restored: Restored) -> None:
    """Let a restored pipeline go on with the tables that its plan names, if any.

    Raises:
        SavepointMismatch: A table is not what the savepoint's epoch left.
        StartFailed: A table cannot be written at all.
        QueryFailed: A database does not answer.
    """
    with told():
        sinks = plan_sinks(restored.plan, restored.files_root, restored.hosts)
        if any(each.connector == "jdbc" for each in sinks):
            from service.runtime.sinks.database.commit import adopt_tables

            adopt_tables(
                restored.owner,
                sinks,
                restored.files_root,
                epoch=restored.epoch,
                origin=restored.origin,
                begun=restored.new_tables,
            )


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Errors of sinks that lie elsewhere as those of a start."""
    try:
        yield
    except DataflowError as error:
        raise StartFailed(error.message, code=error.code, hint=error.hint) from error
    except SinkRefused as error:
        raise StartFailed(error.message, code=error.code) from error
    except SinkUnavailable as error:
        raise QueryFailed(error.message, code=error.code) from error
