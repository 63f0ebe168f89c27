"""Databases that a plan's sinks write to, as the service meets them: at a start, at a restore.

SQLAlchemy is imported where a database is written only.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from service.runtime.dataflow import plan_sinks
from service.runtime.dataflow_errors import DataflowError, SinkRefused, SinkUnavailable
from service.runtime.errors import QueryFailed, StartFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.plan import CompiledPlan
    from service.runtime.dataflow import PipelineJob


def claim_databases(job: PipelineJob, *, marker: int) -> None:
    """Let a run write the tables that its plan names, if any; no earlier run does from then on.

    Args:
        job: The run.
        marker: The pipeline's last closed epoch.

    Raises:
        StartFailed: A table is not there, or does not take what will be written.
        QueryFailed: A database does not answer.
        Fenced, StateLost: A table is another run's, or of another epoch.
    """
    with told():
        sinks = plan_sinks(job.plan, job.files_root, job.database_hosts)
        if any(each.connector == "jdbc" for each in sinks):
            from service.runtime.sinks.database.commit import claim_tables
            from service.runtime.sinks.database.fence import Owner

            owner = Owner(job.pipeline_id, job.pipeline, job.run)
            claim_tables(owner, sinks, job.files_root, marker=marker)


def adopt_databases(
    plan: CompiledPlan,
    *,
    pipeline: str,
    pipeline_id: str,
    files_root: str,
    hosts: Sequence[str],
    epoch: int,
    origin: str,
) -> None:
    """Let a restored pipeline go on with the tables that its plan names, if any.

    Args:
        plan: The restored pipeline's.
        pipeline: Its name.
        pipeline_id: Its id.
        files_root: Folder that files must lie in.
        hosts: Servers that may be written to.
        epoch: The savepoint's.
        origin: The id of the pipeline whose savepoint it is.

    Raises:
        SavepointMismatch: A table is not what the savepoint's epoch left.
        StartFailed: A table cannot be written at all.
        QueryFailed: A database does not answer.
    """
    with told():
        sinks = plan_sinks(plan, files_root, hosts)
        if any(each.connector == "jdbc" for each in sinks):
            from service.runtime.sinks.database.commit import adopt_tables
            from service.runtime.sinks.database.fence import Owner

            owner = Owner(pipeline_id, pipeline, run=0)
            adopt_tables(owner, sinks, files_root, epoch=epoch, origin=origin)


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
