"""`filesystem` sinks: one set of files an epoch, in place all at once or not at all.

    <path>/part-<epoch>-<partition>.<ext>   rows of an epoch, once it is committed
    <path>/_committed-<epoch>               its manifest: JSON with the files, their row counts, and
                                            the names of those of dead attempts that are gone
    <path>/.staging/                        files being written, and the intent of a commit

A worker writes a hidden file of its own attempt. The commit writes down what it is about to put
in place and to take away (the intent), renames, removes, and turns the intent into the manifest. A
commit that died on the way is made again by the next run with its own files: the intent tells which
of the dead ones' to remove, so no folder with the files of thousands of epochs is scanned. An
intent takes over what the one before it names, and replaces it by a rename, so that any number of
attempts may die at any place. Epochs without rows leave no file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from service.runtime.csv_dialect import CsvDialect
from service.runtime.files import path_below
from state.arrow_values import python_values
from state.codec import RowCodec
from state.types import BINARY_ROOTS, FLOAT_ROOTS, TypeRoot, parse_type
from state.values import shown_encoder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np

    from service.runtime.sinks.spec import SinkSpec
    from state.types import LogicalType

_EXTENSIONS = {"changelog-json": "jsonl", "json": "jsonl", "csv": "csv", "parquet": "parquet"}
_TEXT_ROOTS = BINARY_ROOTS | FLOAT_ROOTS | {TypeRoot.TIME}
"""Types whose texts Arrow does not write, or not as a csv source reads them (NaN)."""
_STAGED = re.compile(r"(?:commit-)?(\d{10})(?:-\d{5}-[0-9a-f]+)?\.\w+")


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
        """Put an epoch's files in place, and take away those of attempts that died.

        Called again with the same parts, whole or not, it goes on from where it was.

        Raises:
            FileNotFoundError: a part is neither staged nor in place.
        """
        intent = self._staging / f"commit-{epoch:010}"
        manifest = self._folder / f"_committed-{epoch:010}"
        names = {part["final"] for part in parts}
        stale = sorted((_named_by(intent) | _named_by(manifest)) - names)
        if not parts and not stale:
            return
        self._staging.mkdir(parents=True, exist_ok=True)
        self._record(intent, epoch, parts, stale)
        for part in parts:
            _put(self._staging / part["staged"], self._folder / part["final"])
        for name in stale:
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
            types = [parse_type(each) for each in self._spec.types]
            texts = [_csv_column(t, c) for t, c in zip(types, columns, strict=True)]
            delimiter = CsvDialect.of_sink(self._spec.options).delimiter
            options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
            arrow_csv.write_csv(pa.table(texts, names=names), file, options)
        else:
            codec = RowCodec([parse_type(each) for each in self._spec.types], names)
            shown = kinds if form == "changelog-json" else None
            file.write(codec.encode_json_block(shown, columns))

    def _record(
        self, intent: Path, epoch: int, parts: Sequence[dict[str, Any]], stale: Sequence[str]
    ) -> None:
        """Replace the intent as a whole: what a dead attempt wrote into it is not lost half-way."""
        found: dict[str, Any] = {"epoch": epoch}
        found["files"] = [{"name": part["final"], "rows": part["rows"]} for part in parts]
        if stale:
            found["removed"] = stale
        fresh = intent.with_suffix(".new")
        with open(fresh, "wb") as file:
            file.write(orjson.dumps(found))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, intent)
        _sync_folder(self._staging)


def _named_by(path: Path) -> set[str]:
    """The files that an intent or a manifest says are in the folder, or may be."""
    try:
        found = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return set()
    return {each["name"] for each in found["files"]} | set(found.get("removed", ()))


def _put(staged: Path, final: Path) -> None:
    """Rename into place, unless an earlier call did."""
    try:
        os.replace(staged, final)
    except FileNotFoundError:
        if not final.exists():
            raise


def _csv_column(logical: LogicalType, column: pa.Array) -> pa.Array:
    """The column as Arrow is to write it: bytes as base64 and times as in JSON."""
    if logical.root in FLOAT_ROOTS and pc.all(pc.is_finite(column), min_count=0).as_py():
        return column
    if logical.root not in _TEXT_ROOTS:
        return column
    encode = shown_encoder(logical)
    values = python_values(logical, column)
    return pa.array([v if v is None else str(encode(v)) for v in values], pa.string())


def _sync_folder(folder: Path) -> None:
    """Make renames durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
