"""`filesystem` sinks: one set of files an epoch, in place all at once or not at all.

    <path>/part-<epoch>-<partition>.<ext>   rows of an epoch, once it is committed
    <path>/_committed-<epoch>               its manifest: JSON with the files and their row counts
    <path>/.staging/                        files being written, and the intent of a commit

A worker writes a hidden file of its own attempt. The commit writes down what it is about to put
in place (the intent), renames, and turns the intent into the manifest. A commit that died on the
way is made again by the next run with its own files: the intent tells which of the dead one's to
remove, so no folder with the files of thousands of epochs is scanned. Epochs without rows leave no
file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from service.runtime.files import path_below
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from service.runtime.sinks.spec import SinkSpec

_EXTENSIONS = {"changelog-json": "jsonl", "json": "jsonl", "csv": "csv", "parquet": "parquet"}
_STAGED = re.compile(r"(\d{10})-\d{5}-[0-9a-f]+\.\w+")


class FileSink:
    """Writes and commits the files of one sink."""

    def __init__(self, spec: SinkSpec, files_root: str) -> None:
        self._spec = spec
        self._folder = path_below(files_root, spec.options["path"])
        self._staging = self._folder / ".staging"

    def stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        """Write rows to a hidden file and see them on disk.

        Returns:
            What `commit` must know of it, as plain values.
        """
        self._staging.mkdir(parents=True, exist_ok=True)
        extension = _EXTENSIONS[self._spec.options["format"]]
        staged = self._staging / f"{epoch:010}-{partition:05}-{attempt}.{extension}"
        with open(staged, "wb") as file:
            self._write(file, columns, kinds)
            file.flush()
            os.fsync(file.fileno())
        final = f"part-{epoch:010}-{partition:05}.{extension}"
        return {"staged": staged.name, "final": final, "rows": len(kinds)}

    def commit(self, epoch: int, parts: Sequence[dict[str, Any]]) -> None:
        """Put an epoch's files in place; does the same again when called again."""
        intent = self._staging / f"commit-{epoch:010}"
        manifest = self._folder / f"_committed-{epoch:010}"
        stale = self._named_by(intent) | self._named_by(manifest)
        if parts or stale:
            self._staging.mkdir(parents=True, exist_ok=True)
            self._record(intent, epoch, parts)
            for part in parts:
                os.replace(self._staging / part["staged"], self._folder / part["final"])
            for name in stale - {part["final"] for part in parts}:
                (self._folder / name).unlink(missing_ok=True)
            os.replace(intent, manifest)
            _sync_folder(self._folder)

    def discard(self, epoch: int) -> None:
        """Remove what attempts left behind up to this epoch, once it is closed."""
        if not self._staging.is_dir():
            return
        for path in self._staging.iterdir():
            found = _STAGED.fullmatch(path.name)
            if found and int(found[1]) <= epoch:
                path.unlink(missing_ok=True)

    def _write(self, file: Any, columns: Sequence[pa.Array], kinds: np.ndarray) -> None:
        names, form = list(self._spec.names), self._spec.options["format"]
        if form == "parquet":
            pq.write_table(pa.table(list(columns), names=names), file)
        elif form == "csv":
            delimiter = self._spec.options.get("csv.field-delimiter", ",")
            options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
            arrow_csv.write_csv(pa.table(list(columns), names=names), file, options)
        else:
            codec = RowCodec([parse_type(each) for each in self._spec.types], names)
            shown = kinds if form == "changelog-json" else None
            file.write(codec.encode_json_block(shown, columns))

    def _record(self, path: Path, epoch: int, parts: Sequence[dict[str, Any]]) -> None:
        files = [{"name": part["final"], "rows": part["rows"]} for part in parts]
        with open(path, "wb") as file:
            file.write(orjson.dumps({"epoch": epoch, "files": files}))
            file.flush()
            os.fsync(file.fileno())

    @staticmethod
    def _named_by(path: Path) -> set[str]:
        try:
            return {each["name"] for each in orjson.loads(path.read_bytes())["files"]}
        except FileNotFoundError:
            return set()
        except orjson.JSONDecodeError:
            # A crash while the intent was being written: nothing had been renamed yet.
            return set()


def _sync_folder(folder: Path) -> None:
    """Make renames durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
