"""`filesystem` sinks: one set of files an epoch, in place all at once or not at all.

    <path>/part-<epoch>-<part>-<run>.<ext>   rows of an epoch, once it is committed
    <path>/_committed-<epoch>                its manifest: JSON with the files, their row counts,
                                             and the names of those that are gone
    <path>/.staging/                         files being written, and intents of commits

Several sinks of a pipeline may write one folder: parts are numbered over all of them, and they
are committed together, by one.

A worker writes a hidden file of its own attempt. The commit writes down what it is about to put
in place and to take away (the intent), renames, removes, and turns the intent into the manifest. A
commit that died on the way is made again by the next run with its own files: the intents of runs
before it tell which of the dead ones' to remove, so no folder with the files of thousands of epochs
is scanned. Epochs without rows leave no file.

What is hard is a driver of an earlier run that is not dead: a file system has no transaction that
could ask who it is. So `prepare` removes what earlier runs have staged, and takes their intents
over; then it is asked whether this run still owns the pipeline, and only then `commit` changes what
is shown. Whoever owns the pipeline later than that has yet to prepare, and takes from this one the
staged files and the intent that it cannot go on without; and what it puts in place bears its run,
so that none of the names which this one removes is one of its.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from service.runtime.csv_dialect import CsvDialect
from service.runtime.files import path_below
from service.runtime.part_files import part_name
from service.runtime.sinks import disk
from service.runtime.sinks.owner import TAKE_BACK, owner_of_folder
from state.arrow_values import python_values
from state.codec import RowCodec
from state.errors import Fenced, SinkTakenOver
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
# Versions before this one wrote no run.
_STAGED = re.compile(r"(?P<epoch>\d{10})-\d{5,}(?:-(?P<run>\d{10}))?-[0-9a-f]+\.\w+")
_INTENT = re.compile(r"commit-(?P<epoch>\d{10})(?:-(?P<run>\d{10})-(?P<owner>[\w-]*))?")
_FRESH = ".new"
"""Behind the name of an intent that is being written."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which of the sinks of a folder one is."""

    position: int = 0
    """From 0, in the plan's order."""
    count: int = 1


class FileSink:
    """Writes the files of one sink in one run of its pipeline, and commits those of its folder."""

    def __init__(
        self, spec: SinkSpec, files_root: str, run: int, owner: str = "", share: Share | None = None
    ) -> None:
        """Make one for a run of the pipeline that has the id `owner`."""
        self.spec = spec
        self._run = run
        self._owner = owner
        self._share = share or Share()
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

        Raises:
            SinkRefused, SinkUnavailable: The disk does not take them.
        """
        with disk.named(self.spec):
            return self._stage(epoch, partition, attempt, columns, kinds)

    def _stage(
        self,
        epoch: int,
        partition: int,
        attempt: str,
        columns: Sequence[pa.Array],
        kinds: np.ndarray,
    ) -> dict[str, Any]:
        self._staging.mkdir(parents=True, exist_ok=True)
        extension = _EXTENSIONS[self.spec.options["format"]]
        part = partition * self._share.count + self._share.position
        staged = self._staging / f"{epoch:010}-{part:05}-{self._run:010}-{attempt}.{extension}"
        with open(staged, "wb") as file:
            self._write(file, columns, kinds)
            file.flush()
            os.fsync(file.fileno())
        final = part_name(epoch, part, self._run, extension)
        return {"staged": staged.name, "final": final, "rows": len(kinds)}

    def prepare(self, epoch: int, parts: Sequence[dict[str, Any]]) -> None:
        """Note what `commit` is about to do, and take from earlier runs what they would need.

        Nothing that is shown changes. Behind it comes the question whether the run still owns the
        pipeline.

        Raises:
            SinkTakenOver: Another pipeline has the folder.
        """
        manifest = self._folder / f"_committed-{epoch:010}"
        if not parts and not self._staging.is_dir() and not manifest.exists():
            return
        held = owner_of_folder(self._folder)
        if held is not None and held[1] != self._owner:
            raise SinkTakenOver(
                f"pipeline {held[0]} has taken over the folder of sink {self.spec.table}",
                hint=TAKE_BACK,
            )
        self._staging.mkdir(parents=True, exist_ok=True)
        # First what they would put in place: what is there from here on, their intents name.
        for path in self._earlier_parts(epoch):
            path.unlink(missing_ok=True)
        intents = [*self._earlier_intents(epoch), self._intent(epoch)]
        # An intent that becomes the manifest meanwhile is read as that.
        named = set().union(*map(_named_by, [*intents, manifest]))
        stale = sorted(named - {part["final"] for part in parts})
        if parts or stale:
            self._record(epoch, parts, stale)
        for path in intents[:-1]:
            path.unlink(missing_ok=True)

    def commit(self, epoch: int, parts: Sequence[dict[str, Any]]) -> None:
        """Put an epoch's files in place, and take away those of attempts that died.

        Called again behind another `prepare` with the same parts, whole or not, it goes on from
        where it was.

        Raises:
            FileNotFoundError: A part is neither staged nor in place.
            Fenced: A later run has taken over.
        """
        intent = self._intent(epoch)
        try:
            stale = orjson.loads(intent.read_bytes()).get("removed", [])
        except FileNotFoundError:
            if parts:
                raise self._taken_over(epoch) from None
            return
        for part in parts:
            _put(self._staging / part["staged"], self._folder / part["final"])
        for name in stale:
            (self._folder / name).unlink(missing_ok=True)
        try:
            os.replace(intent, self._folder / f"_committed-{epoch:010}")
        except FileNotFoundError:
            raise self._taken_over(epoch) from None
        _sync_folder(self._folder)

    def discard(self, epoch: int) -> None:
        """Remove what attempts left behind up to this epoch, once it is closed."""
        if not self._staging.is_dir():
            return
        for path in self._staging.iterdir():
            intent = path.name.removesuffix(_FRESH)
            found = _STAGED.fullmatch(path.name) or _INTENT.fullmatch(intent)
            if found and int(found["epoch"]) <= epoch:
                path.unlink(missing_ok=True)

    def _intent(self, epoch: int) -> Path:
        return self._staging / f"commit-{epoch:010}-{self._run:010}-{self._owner}"

    def _earlier_parts(self, epoch: int) -> list[Path]:
        """What runs before this one have staged, up to an epoch."""
        named = ((path, _STAGED.fullmatch(path.name)) for path in self._staging.iterdir())
        return [
            path
            for path, name in named
            if name and int(name["run"] or 0) < self._run and int(name["epoch"]) <= epoch
        ]

    def _earlier_intents(self, epoch: int) -> list[Path]:
        """Intents for an epoch of runs before this one, or of a pipeline that it replaces."""
        named = ((path, _INTENT.fullmatch(path.name)) for path in self._staging.iterdir())
        return [
            path
            for path, name in named
            if name
            and int(name["epoch"]) == epoch
            and (int(name["run"] or 0) < self._run or name["owner"] != self._owner)
        ]

    def _taken_over(self, epoch: int) -> Fenced:
        return Fenced(
            f"a later run has taken over the files of epoch {epoch} of sink {self.spec.table}"
        )

    def _write(self, file: IO[bytes], columns: Sequence[pa.Array], kinds: np.ndarray) -> None:
        names, form = list(self.spec.names), self.spec.options["format"]
        if form == "parquet":
            pq.write_table(pa.table(list(columns), names=names), file)
        elif form == "csv":
            types = [parse_type(each) for each in self.spec.types]
            texts = [_csv_column(t, c) for t, c in zip(types, columns, strict=True)]
            delimiter = CsvDialect.of_sink(self.spec.options).delimiter
            options = arrow_csv.WriteOptions(include_header=False, delimiter=delimiter)
            arrow_csv.write_csv(pa.table(texts, names=names), file, options)
        else:
            codec = RowCodec([parse_type(each) for each in self.spec.types], names)
            shown = kinds if form == "changelog-json" else None
            file.write(codec.encode_json_block(shown, columns))

    def _record(self, epoch: int, parts: Sequence[dict[str, Any]], stale: Sequence[str]) -> None:
        """Replace the intent as a whole: what a dead attempt wrote into it is not lost half-way."""
        intent = self._intent(epoch)
        found: dict[str, Any] = {"epoch": epoch}
        found["files"] = [{"name": part["final"], "rows": part["rows"]} for part in parts]
        if stale:
            found["removed"] = stale
        fresh = intent.with_suffix(_FRESH)
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
