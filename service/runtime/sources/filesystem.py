"""`filesystem`: files below the files root, in the order of their discovery, new ones picked up.

An offset is the number of files that are wholly read, and a position in the next one: a byte in
files of lines, a row in Parquet. `_order` counts bytes (or rows) from the start of the epoch over
all its files, so it is unique and does not depend on how an epoch is cut into tasks.

A file ends where it ended when it was discovered, so that an epoch that runs again reads the same.
One that grows after that fails the query: its tail is never left out without a word. A file of a
sink that another run of its pipeline wrote again, under its own name, is the same file.

Metadata (`file.path`, `file.name`, `file.size`, `file.modification-time`) is that of the discovery,
too; `file.path` is the whole path, by which the file was found.

Testing aid: with options `testing.time-field` = "t" and `testing.epochs` = "[[0, 1700000000000],
[null, 1700000000000], [5, 1700000000005]]" the n-th epoch has the next lines whose field `t` is the
n-th mark, or none where that is null, and its processing time is the one beside it. Sources with
the same epochs go in step, and have ended after the last mark. Only in formats of JSON, and only
where the settings allow it.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import orjson
import pyarrow as pa

from service.runtime.connections import redis_of
from service.runtime.dataflow_errors import SourceChanged, SourceUnavailable
from service.runtime.files import matching_files, path_below, standing_in
from service.runtime.slot_keys import files_key
from service.runtime.sources.base import ChangeReader, Chunk, Offset, closed_end
from service.runtime.sources.file_formats import FileCut, open_format
from service.runtime.sources.file_log import FileLog, LoggedFile
from service.runtime.sources.spec import EPOCHS, TIME_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MONITOR_MS = 1_000
_EPOCH_BYTES_MAX = 256 << 20
"""An epoch is gathered in workers' memory; long rows must not make it larger than this."""


class FileReader(ChangeReader[FileCut]):
    """Changes from files; see the module for what offsets mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._format = open_format(self.spec)
        self._looked_at = 0.0
        self._log: FileLog | None = None

    def first_offset(self) -> Offset:
        """The first file that will be found."""
        first: Offset = {"file": 0, "at": 0}
        if EPOCHS in self.spec.options:
            first["epochs"] = 0
        return first

    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """On through known and new files until the limit of rows or bytes is reached."""
        self._discover()
        files = self._file_log().files(start["file"])
        if EPOCHS in self.spec.options:
            return self._advance_by_mark(start, files)
        number, at = start["file"], start["at"]
        rows, room = 0, _EPOCH_BYTES_MAX
        while number < len(files) and (rows_max is None or rows < rows_max) and room > 0:
            limit = None if rows_max is None else rows_max - rows
            path = self._path(files[number])
            end, seen = self._format.admit(path, files[number], at, limit, room)
            rows, room = rows + seen, room - (end - at)
            number, at = (number + 1, 0) if end >= files[number].length else (number, end)
        return {"file": number, "at": at}

    def cuts(self, start: Offset, end: Offset) -> list[list[FileCut]]:
        """What lies between two offsets, in as many tasks as are worth it."""
        files = self._file_log().files(end["file"] + (1 if end["at"] else 0))
        ranges = []
        for number in range(start["file"], end["file"] + (1 if end["at"] else 0)):
            low = start["at"] if number == start["file"] else 0
            high = end["at"] if number == end["file"] else files[number].length
            if high > low:
                ranges.append((files[number], low, high))
        total = sum(high - low for _, low, high in ranges)
        tasks = max(1, min(self.spec.partitions, total // self._format.task_units))
        return [work for work in self._deal(ranges, total, tasks) if work]

    def read_cut(self, cut: FileCut) -> Iterator[Chunk]:
        """The rows that start within the cut."""
        path = self._path(LoggedFile(cut.path, cut.size, 0))
        for chunk in self._format.read(path, cut):
            told = (pa.repeat(each, len(chunk.kinds)) for each in cut.told)
            yield replace(chunk, columns=[*chunk.columns, *told])

    def closed(self) -> Offset:
        """As the marker has it: files that were read may be gone."""
        return closed_end(self.spec)

    def time_of(self, end: Offset) -> int | None:
        """The time that the epoch was given, where the testing aid is on."""
        if "epochs" not in end:
            return super().time_of(end)
        return int(self._epochs[max(0, end["epochs"] - 1)][1])

    def is_last(self, end: Offset) -> bool:
        """Whether the testing aid has no more lines to come."""
        if "epochs" not in end:
            return False
        return all(mark is None for mark, _ in self._epochs[end["epochs"] :])

    def _time(self, start: Offset) -> Offset:
        # The epochs that are given say their time.
        return {} if EPOCHS in self.spec.options else super()._time(start)

    def _tick(self, start: Offset) -> int:
        # With epochs that are given the clock must not make any of its own.
        return 0 if EPOCHS in self.spec.options else super()._tick(start)

    @cached_property
    def _monitor_ms(self) -> int:
        """How long files that were found are all there are."""
        text = self.spec.options.get("source.monitor-interval")
        if text is None:
            return _MONITOR_MS
        # Brings all of `service.plan` along, which each start of a query would pay for.
        from service.plan.durations import parse_duration_ms

        return parse_duration_ms(text)

    @cached_property
    def _epochs(self) -> list[tuple[int | None, int]]:
        """Mark and time of each epoch, as the testing aid gives them."""
        return [(mark, time_ms) for mark, time_ms in orjson.loads(self.spec.options[EPOCHS])]

    def _file_log(self) -> FileLog:
        if self._log is None:
            key = files_key(self.spec.pipeline, self.spec.table)
            self._log = FileLog(redis_of(self.spec), key)
        return self._log

    def _discover(self) -> None:
        """Look for new files, at most once a monitor interval.

        Raises:
            SourceUnavailable: a folder cannot be listed.
            SourceChanged: a file that is known has more bytes than when it was discovered. They
                would never be read: the log says where a file ends.
        """
        if self._looked_at and time.monotonic() - self._looked_at < self._monitor_ms / 1000:
            return
        self._looked_at = time.monotonic()
        log = self._file_log()
        log.refresh()
        path = self.spec.options["path"]
        try:
            found = matching_files(self.spec.files_root, path)
        except OSError as error:
            told = f'{self.spec.table}: files in "{path}" cannot be listed: {error.strerror}'
            raise SourceUnavailable(told) from error
        new = []
        for path, size in found:
            known = log.size_of(path)
            if known is None and size:
                new.append(self._found(path, size))
            elif known is not None and size > known:
                raise SourceChanged(
                    f"{self.spec.table}: {path} grew from {known} to {size} bytes after it was "
                    "discovered; write files elsewhere, or under a name that starts with . or _, "
                    "and rename them into place when they are whole"
                )
        if new:
            log.append(new)

    def _found(self, path: str, size: int) -> LoggedFile:
        real = str(path_below(self.spec.files_root, path))
        length = self._format.length(real, size)
        if not self.spec.metadata:
            return LoggedFile(path, size, length)
        try:
            modified_ms = os.stat(real).st_mtime_ns // 1_000_000
        except OSError as error:
            raise self._unreadable(path, error) from error
        return LoggedFile(path, size, length, os.path.realpath(self.spec.files_root), modified_ms)

    def _unreadable(self, path: str, error: OSError) -> SourceChanged:
        return SourceChanged(f"{self.spec.table}: {path} cannot be read: {error.strerror}")

    def _metadata(self, file: LoggedFile) -> tuple[str | int, ...]:
        """The values of the metadata that the table reads.

        Raises:
            SourceChanged: the file was discovered by a plan that read none.
        """
        if not self.spec.metadata:
            return ()
        if file.modified_ms is None:
            raise SourceChanged(
                f"{self.spec.table}: {file.path} was discovered by a plan that read no metadata of "
                "files, and what it was then is not known"
            )
        values: dict[str, str | int] = {
            "file.path": os.path.join(file.root, file.path),
            "file.name": os.path.basename(file.path),
            "file.size": file.size,
            # Columns of times are in microseconds.
            "file.modification-time": file.modified_ms * 1_000,
        }
        return tuple(values[key] for key, _ in self.spec.metadata)

    def _path(self, file: LoggedFile) -> str:
        """The file's path, once it is certain that the file is long enough for a replay."""
        path = standing_in(self.spec.files_root, file.path)
        try:
            with open(path, "rb") as handle:
                size = handle.seek(0, 2)
        except OSError as error:
            raise self._unreadable(file.path, error) from error
        if size < file.size:
            raise SourceChanged(f"{self.spec.table}: {file.path} has {size} of {file.size} bytes")
        return path

    def _deal(
        self, ranges: list[tuple[LoggedFile, int, int]], total: int, tasks: int
    ) -> list[list[FileCut]]:
        """Cut the ranges at equal distances, so that each task has about the same to read."""
        bounds = [total * each // tasks for each in range(tasks + 1)]
        work: list[list[FileCut]] = []
        for left, right in pairwise(bounds):
            mine, before = [], 0
            for file, low, high in ranges:
                first, last = max(low, low + left - before), min(high, low + right - before)
                if first < last:
                    told = self._metadata(file)
                    mine.append(FileCut(file.path, file.size, first, last, low, before, told))
                before += high - low
            work.append(mine)
        return work

    def _advance_by_mark(self, start: Offset, files: Sequence[LoggedFile]) -> Offset:
        """Over the next lines that carry the mark of the next epoch, in one file."""
        number, at, done = start["file"], start["at"], start["epochs"]
        if done >= len(self._epochs):
            return {each: start[each] for each in ("file", "at", "epochs")}
        from service.runtime.sources.timed_lines import time_in

        mark, after = self._epochs[done][0], {"epochs": done + 1}
        if mark is None or number >= len(files):
            return {"file": number, "at": at, **after}
        with open(self._path(files[number]), "rb") as handle:
            handle.seek(at)
            for line in handle:
                if time_in(line, self.spec.options[TIME_FIELD]) not in (None, mark):
                    return {"file": number, "at": at, **after}
                at += len(line)
        return {"file": number + 1, "at": 0, **after}
