"""Folders that `filesystem` sinks write: of one pipeline each, which `_owner` in the folder names.

Files there are named by epoch, part and run. Those of two pipelines have the same names, so each
would put its own in the place of the other's, and take away what it does not know. What a pipeline
that is gone has left is taken over, and so is a folder by a pipeline that is restored from the
savepoint of the one that wrote it; that one is fenced off, should it run (`FileSink.prepare`).
"""

from __future__ import annotations

import os
import threading
import uuid
from typing import TYPE_CHECKING, Final

import orjson
import structlog

from service.runtime.databases import told
from service.runtime.dataflow import plan_sinks
from service.runtime.errors import QueryFailed
from service.runtime.files import path_below
from service.runtime.sinks.owner import FOLDER_OWNER, owner_of_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from service.plan import CompiledPlan
    from service.runtime.dataflow import PipelineJob
    from service.runtime.sinks.owner import Restored

_CLAIMING: Final = threading.Lock()
"""Pipelines of a service are started at once, each in a thread: one looks and takes at a time."""

log = structlog.get_logger(__name__)


def claim_folders(job: PipelineJob, is_there: Callable[[str, str], bool]) -> None:
    """Let a pipeline write the folders that its plan names, if no other one does.

    Args:
        job: Its run.
        is_there: Tells whether there is a pipeline of this name and id.

    Raises:
        QueryFailed: Another pipeline has a folder.
    """
    for folder in _folders(job.plan, job.files_root, job.database_hosts):
        with _CLAIMING:
            held = owner_of_folder(folder)
            if held is not None and held[1] == job.pipeline_id:
                continue
            if held is not None and is_there(*held):
                raise QueryFailed(
                    f"pipeline {held[0]} writes to the folder of a sink, and a folder belongs to "
                    "one pipeline",
                    code="sink-folder-taken",
                    hint=f"give the sink another path, or delete {held[0]}",
                )
            _take(folder, job.pipeline, job.pipeline_id)


def adopt_folders(restored: Restored) -> None:
    """Let a restored pipeline go on with the folders of the one whose savepoint it has."""
    for folder in _folders(restored.plan, restored.files_root, restored.hosts):
        with _CLAIMING:
            held = owner_of_folder(folder)
            if held is None or held[1] == restored.origin:
                _take(folder, restored.pipeline, restored.pipeline_id)


def _folders(plan: CompiledPlan, files_root: str, hosts: Sequence[str]) -> Iterator[Path]:
    with told():
        for sink in plan_sinks(plan, files_root, hosts):
            if sink.connector == "filesystem":
                yield path_below(files_root, sink.options["path"])


def _take(folder: Path, pipeline: str, pipeline_id: str) -> None:
    """Name the owner of a folder, as a whole; where only Spark may write files, nobody does."""
    fresh = folder / f".owner-{uuid.uuid4().hex}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fresh.write_bytes(orjson.dumps({"pipeline": pipeline, "id": pipeline_id}))
        os.replace(fresh, folder / FOLDER_OWNER)
    except OSError as error:
        log.warning("folder of a sink not claimed", pipeline=pipeline, reason=error.strerror)
