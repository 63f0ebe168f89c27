"""The folder of savepoints: by pipeline, then by id; they outlive the pipelines.

    <root>/<pipeline>/<id>/manifest.json ..   a savepoint
    <root>/<pipeline>/<id>/failed.json        why there is none
    <root>/<pipeline>/.<id>/                  one that is being written, or was when a process died

Ids sort by time. A savepoint appears as a whole, by the rename of its folder.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from service.runtime.errors import (
    SavepointFailed,
    SavepointNotFound,
    TooManySavepoints,
    with_hint,
)
from state.savepoint import MANIFEST, read_manifest, sync_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.settings import SavepointSettings
    from state.savepoint import Manifest

LATEST = "latest"
"""In the place of an id: the newest that can be restored."""
_FAILED = "failed.json"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_ID = re.compile(r"\d{8}t\d{9}-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class StoredSavepoint:
    """A savepoint that was taken, or failed."""

    pipeline: str
    id: str
    manifest: Manifest | None
    failure: dict[str, Any] | None
    """`code` and `message`, where there is no manifest."""


def new_id(now_ms: int) -> str:
    """An id for a savepoint that is ordered now; unlike any other.

    >>> new_id(0)[:19]
    '19700101t000000000-'
    """
    moment = dt.datetime.fromtimestamp(now_ms / 1_000, dt.UTC)
    return f"{moment:%Y%m%dt%H%M%S}{now_ms % 1_000:03}-{uuid.uuid4().hex[:8]}"


def ordered_ms(savepoint: str) -> int:
    """When a savepoint was ordered, by its id.

    >>> ordered_ms("19700101t000001002-0123abcd")
    1002
    """
    moment = dt.datetime.strptime(savepoint[:15] + "+0000", "%Y%m%dt%H%M%S%z")
    return int(moment.timestamp()) * 1_000 + int(savepoint[15:18])


class SavepointStore:
    """The savepoints of all pipelines. Its calls block for the disk."""

    def __init__(self, settings: SavepointSettings) -> None:
        self._root = settings.folder.absolute()
        self._most = settings.per_pipeline_max

    def ids(self, pipeline: str) -> Sequence[str]:
        """Ids of a pipeline's savepoints, failed ones among them, newest first."""
        if _NAME.fullmatch(pipeline) is None:
            return []
        try:
            names = [each.name for each in (self._root / pipeline).iterdir()]
        except FileNotFoundError:
            return []
        return sorted((each for each in names if _ID.fullmatch(each)), reverse=True)

    def get(self, pipeline: str, savepoint: str) -> StoredSavepoint:
        """A savepoint.

        Raises:
            SavepointNotFound: There is none.
            SavepointCorrupt, FormatVersionMismatch: Its manifest cannot be used.
        """
        folder = self.folder(pipeline, savepoint)
        with contextlib.suppress(  # not failed, or its note was cut off: then the manifest decides
            FileNotFoundError, orjson.JSONDecodeError
        ):
            told = orjson.loads((folder / _FAILED).read_bytes())
            return StoredSavepoint(pipeline, savepoint, None, told)
        return StoredSavepoint(pipeline, savepoint, read_manifest(folder), None)

    def resolve(self, pipeline: str, savepoint: str) -> str:
        """The id of a savepoint that can be restored, where `latest` may have been asked for.

        Raises:
            SavepointNotFound: There is none, or it failed.
        """
        if savepoint == LATEST:
            complete = (each for each in self.ids(pipeline) if self._is_complete(pipeline, each))
            savepoint = next(complete, savepoint)
        if not self._is_complete(pipeline, savepoint):
            raise _not_found(pipeline, savepoint)
        return savepoint

    def folder(self, pipeline: str, savepoint: str) -> Path:
        """The folder of a savepoint.

        Raises:
            SavepointNotFound: There is none.
        """
        found = self._place(pipeline, savepoint)
        if not found.is_dir():
            raise _not_found(pipeline, savepoint)
        return found

    def check_room(self, pipeline: str) -> None:
        """See that one more may be taken.

        Raises:
            TooManySavepoints: There are as many as there may be.
        """
        count = len(self.ids(pipeline))
        if count >= self._most:
            raise TooManySavepoints(
                f"the pipeline has {count} savepoints, and at most {self._most} are allowed",
                hint="delete one, or raise savepoints.per_pipeline_max",
            )

    def begin(self, pipeline: str, savepoint: str) -> Path:
        """An empty hidden folder to write a savepoint into; what dead processes left goes.

        What has a later id stays, since another service may be writing it. Ids are of the clocks of
        services, so that only spares it another try: who writes into a folder that goes all the
        same finds it gone as a whole, and never ends half of it.

        Raises:
            OSError: The disk does not take it.
        """
        parent = self._place(pipeline, savepoint).parent
        parent.mkdir(parents=True, exist_ok=True)
        for each in parent.iterdir():
            if each.name.startswith(".") and _hidden_id(each.name) <= savepoint:
                _remove(each)
        return self._hidden(pipeline, savepoint)

    def _hidden(self, pipeline: str, savepoint: str) -> Path:
        """Unlike that of another service, which may still write one of the same id."""
        place = self._place(pipeline, savepoint)
        hidden = place.with_name(f".{savepoint}-{uuid.uuid4().hex[:8]}")
        hidden.mkdir(parents=True)
        return hidden

    def is_there(self, pipeline: str, savepoint: str) -> bool:
        """Whether a savepoint was taken to its end."""
        return self._is_complete(pipeline, savepoint)

    def end(self, pipeline: str, savepoint: str, hidden: Path) -> None:
        """Let what was written into a hidden folder be the savepoint.

        Raises:
            OSError: The disk does not take it.
        """
        place = self._place(pipeline, savepoint)
        shutil.rmtree(place, ignore_errors=True)  # mostly none; renaming tells of one that stays
        hidden.rename(place)
        sync_folder(place.parent)

    def fail(self, pipeline: str, savepoint: str, failure: SavepointFailed) -> None:
        """Keep why a savepoint was not taken, unless another service took it, or is about to.

        Raises:
            OSError: The disk does not take it.
        """
        if self.is_there(pipeline, savepoint):
            return
        hidden = self._hidden(pipeline, savepoint)
        told = {"code": failure.code, "message": with_hint(failure.message, failure.hint)}
        try:
            (hidden / _FAILED).write_bytes(orjson.dumps(told))
            # Not over what has come there since.
            hidden.rename(self._place(pipeline, savepoint))
        finally:
            shutil.rmtree(hidden, ignore_errors=True)  # what stays, the next savepoint removes

    def delete(self, pipeline: str, savepoint: str) -> None:
        """Remove a savepoint.

        Raises:
            SavepointNotFound: There is none.
            OSError: It cannot be removed.
        """
        folder = self.folder(pipeline, savepoint)
        # Gone at once.
        hidden = folder.with_name(f".gone-{savepoint}")
        folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)  # what stays, the next savepoint removes

    def _is_complete(self, pipeline: str, savepoint: str) -> bool:
        try:
            return (self._place(pipeline, savepoint) / MANIFEST).is_file()
        except SavepointNotFound:
            return False

    def _place(self, pipeline: str, savepoint: str) -> Path:
        if _NAME.fullmatch(pipeline) is None or _ID.fullmatch(savepoint) is None:
            raise _not_found(pipeline, savepoint)
        return self._root / pipeline / savepoint


def _hidden_id(name: str) -> str:
    """The id of the savepoint that a hidden folder is of; empty for one that is of none."""
    found = _ID.match(name, 1)
    return found[0] if found else ""


def _remove(hidden: Path) -> None:
    """Remove a hidden folder, gone at once: whoever writes into it may be about to rename it."""
    gone = hidden.with_name(f".gone-{uuid.uuid4().hex[:8]}")
    with contextlib.suppress(OSError):  # somebody else has taken it away, or ended it
        hidden.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)  # what stays, the next savepoint removes


def _not_found(pipeline: str, savepoint: str) -> SavepointNotFound:
    """The error that there is none, which repeats a name and an id only if they may be ones."""
    if savepoint == LATEST and _NAME.fullmatch(pipeline):
        return SavepointNotFound(f'pipeline "{pipeline}" has left no savepoint')
    if _NAME.fullmatch(pipeline) is None or _ID.fullmatch(savepoint) is None:
        return SavepointNotFound("there is no such savepoint")
    return SavepointNotFound(f'pipeline "{pipeline}" has no savepoint "{savepoint}"')
