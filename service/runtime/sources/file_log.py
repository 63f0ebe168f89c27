"""The log of discovered files of one table: which file is the n-th, and how much of it counts.

Offsets say "n files, and so many bytes of the next": the log in Redis gives that its meaning, so
that an epoch that runs again reads the same bytes, whatever has come into the folder since. What a
file tells of itself, where that is read, is in the log for the same reason: a file that is touched
or copied back after its discovery has the time that it had.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson
import redis

from service.runtime.dataflow_errors import SourceChanged
from service.runtime.part_files import without_run
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class LoggedFile:
    """A discovered file; it must not change from then on, nor grow."""

    path: str
    """Relative to the files root."""
    size: int
    """Bytes when discovered."""
    length: int
    """What positions in it count: bytes in files of lines, rows in Parquet."""
    root: str = ""
    """The files root when it was discovered; this and the next only where metadata is read."""
    modified_ms: int | None = None
    """When it was last modified, as it was then."""

    @classmethod
    def from_entry(cls, entry: bytes) -> LoggedFile:
        """A file as the log has it."""
        return cls(*orjson.loads(entry))

    def to_entry(self) -> bytes:
        """What the log has of the file."""
        told = () if self.modified_ms is None else (self.root, self.modified_ms)
        return orjson.dumps((self.path, self.size, self.length, *told))


class FileLog:
    """An append-only list in Redis, cached; entries never change, so the cache is always right."""

    def __init__(self, client: redis.Redis, key: str) -> None:
        self._client = byte_client(client)
        self._key = key
        self._files: list[LoggedFile] = []
        self._sizes: dict[str, int] = {}

    def files(self, count: int = 0) -> Sequence[LoggedFile]:
        """The files known here, at least this many.

        Raises:
            SourceChanged: the log in Redis is shorter than an offset says: Redis lost it.
        """
        if len(self._files) < count:
            self.refresh()
        if len(self._files) < count:
            raise SourceChanged(f"the log {self._key} has {len(self._files)} of {count} files")
        return self._files

    def size_of(self, path: str) -> int | None:
        """The bytes of a file when it was discovered, or None if it was not yet.

        A part that another run of a pipeline wrote again is no other file.
        """
        return self._sizes.get(without_run(path))

    def refresh(self) -> None:
        """Read what others have appended."""
        for entry in self._client.lrange(self._key, len(self._files), -1):
            found = LoggedFile.from_entry(entry)
            self._files.append(found)
            self._sizes[without_run(found.path)] = found.size

    def append(self, files: Sequence[LoggedFile]) -> None:
        """Add newly discovered files, unless another reader of the table just did.

        An earlier run may still be alive for a moment; whoever comes second drops its findings,
        reads those of the other, and finds what is still missing at its next look.
        """
        with self._client.pipeline() as pipe:
            pipe.watch(self._key)
            if pipe.llen(self._key) == len(self._files):
                pipe.multi()
                pipe.rpush(self._key, *(each.to_entry() for each in files))
                with contextlib.suppress(redis.WatchError):  # another was first: `refresh` reads it
                    pipe.execute()
        self.refresh()
