"""The files of a savepoint, format version 1.

    <folder>/manifest.json           what is where, and a checksum of each file
    <folder>/part-00000.jsonl.zst    lines of JSON, zstd: `zstdcat part-* | jq` reads them
    <folder>/<attachment>            files of whoever takes the savepoint, kept as they are

A line is a record: one key of a state, or a piece of a structure.

    {"node": .., "group": 17, "state": "calls", "key": "[1]", "value": "<as stored>", "oldest": 16}
    {"node": .., "group": 17, "state": "calls", "key": "[1]", "piece": "rows", "hash": [f, v, ..]}
    {"node": .., "group": 17, "state": "due", "sorted": [member, score, ..]}
    {"node": .., "group": 17, "piece": "orphans", "stream": [[id, [f, v, ..]], ..], "last": id}
    {"slot": "table:totals", "hash": [..]}       "list" and "string" are the other kinds

`state:key:piece`, as far as they are there, is the name of the structure in its key group, and
`slot` the one in the pipeline's slot. `value` is the field `key` of the state's hash and `oldest`
its score in the expiry index. A large structure has several records, whose order counts for lists
and streams only. Stored bytes are text; what is not UTF-8 is `{"base64": ..}`.
"""

from __future__ import annotations

import base64
import contextlib
import os
from dataclasses import asdict, dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa
import xxhash

from state.backends.names import SAVED_FORMAT
from state.errors import FormatVersionMismatch, SavepointCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

VERSION: Final = 1
MANIFEST: Final = "manifest.json"
PART_BYTES: Final = 64 * 1024 * 1024
"""A part is closed once it holds so much, before compression."""
SWEPT: Final = "swept"
"""The piece of a state that remembers a walk of `state.primitives.expiry`, of no key."""
_READ_BYTES: Final = 1024 * 1024

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a savepoint: its path in the folder, and what its bytes must be."""

    path: str
    size_bytes: int
    xxh3: str
    """XXH3 of 64 bits, as 16 hexadecimal digits."""
    records: int = 0
    """Lines; 0 of a file that is not a part."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A state that is in a savepoint."""

    node: str
    name: str
    kind: str
    registered: str
    """Its entry in the pipeline's registry, as it is stored."""
    keys: int
    """Timers, where it is one of timers."""
    expired: int = 0
    """Elements that were left out."""

    @property
    def field(self) -> str:
        """Its field in the registry."""
        return f"{self.node}/{self.name}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a savepoint holds."""

    id: str
    pipeline: str
    epoch: int
    """All that is in it is as of the end of this epoch."""
    run: int
    """The run that closed it."""
    closed_ms: int
    offsets: str
    """What the sources had consumed by its end, as the marker has it."""
    max_parallelism: int
    extension_ms: int
    """By how much all lives were extended."""
    is_filtered: bool
    """Whether what was past its life was left out."""
    states: tuple[SavedState, ...]
    slot: tuple[str, ...]
    """Names of structures in the pipeline's slot."""
    parts: tuple[SavedFile, ...]
    attachments: tuple[SavedFile, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    """Of whoever took it; JSON."""

    @property
    def nodes(self) -> list[str]:
        """The nodes that have states here."""
        return sorted({each.node for each in self.states})

    @property
    def size_bytes(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(each.size_bytes for each in (*self.parts, *self.attachments))

    def to_json(self) -> bytes:
        """The text that `from_json` takes."""
        body = {"format_version": VERSION, "state_format": SAVED_FORMAT, **asdict(self)}
        checksum = xxhash.xxh3_64_hexdigest(orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
        return orjson.dumps({**body, "xxh3": checksum}, option=orjson.OPT_INDENT_2) + b"\n"

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Read what `to_json` wrote.

        Raises:
            FormatVersionMismatch: It is of another format version.
            SavepointCorrupt: It is no manifest, or not as it was written.
        """
        try:
            body = orjson.loads(text)
            _check_formats(body)
            checksum = body.pop("xxh3")
            whole = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
            if checksum != xxhash.xxh3_64_hexdigest(whole):
                raise SavepointCorrupt("the manifest of the savepoint was changed")
            del body["format_version"], body["state_format"]
            for name, kind in (("states", SavedState), ("parts", SavedFile)):
                body[name] = tuple(kind(**each) for each in body[name])
            body["attachments"] = tuple(SavedFile(**each) for each in body["attachments"])
            return cls(**{**body, "slot": tuple(body["slot"])})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise SavepointCorrupt("the manifest of the savepoint cannot be read") from error


def _check_formats(body: Mapping[str, Any]) -> None:
    """See that the files, and the state in them, are of the formats that are read here."""
    for what, name, wanted in (
        ("the savepoint has format version", "format_version", VERSION),
        ("the state in the savepoint has format", "state_format", SAVED_FORMAT),
    ):
        if body[name] != wanted:
            raise FormatVersionMismatch(
                f"{what} {body[name]}, this version reads {wanted}",
                hint="restore it with the version of the software that wrote it",
            )


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a savepoint's folder.

    Raises:
        FormatVersionMismatch, SavepointCorrupt: It cannot be used.
    """
    try:
        return Manifest.from_json((folder / MANIFEST).read_bytes())
    except OSError as error:
        raise SavepointCorrupt("the savepoint has no manifest") from error


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, durably; the last file of a savepoint."""
    with open(folder / MANIFEST, "wb") as file:
        file.write(manifest.to_json())
        file.flush()
        os.fsync(file.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def saved_file(folder: Path, path: str) -> SavedFile:
    """What a file in the folder is now: to be attached.

    Raises:
        OSError: It cannot be read.
    """
    digest, size = xxhash.xxh3_64(), 0
    with open(folder / path, "rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            size += len(block)
    return SavedFile(path, size, digest.hexdigest())


def check_files(folder: Path, manifest: Manifest) -> None:
    """See that every file is as it was written; reads all of them.

    Raises:
        SavepointCorrupt: One is missing, cut off or changed.
    """
    root = folder.resolve()
    for each in (*manifest.parts, *manifest.attachments):
        if root not in (folder / each.path).resolve().parents:
            raise SavepointCorrupt("the manifest names a file outside of the savepoint")
        try:
            found = saved_file(folder, each.path)
        except OSError as error:
            raise SavepointCorrupt(f"{each.path} of the savepoint cannot be read") from error
        if found.size_bytes != each.size_bytes:
            raise SavepointCorrupt(
                f"{each.path} of the savepoint has {found.size_bytes} bytes, "
                f"{each.size_bytes} were written"
            )
        if found.xxh3 != each.xxh3:
            raise SavepointCorrupt(f"{each.path} of the savepoint is not what was written")


class PartWriter:
    """Writes records into parts, one after the other; memory is that of a record.

    Raises (any call):
        OSError: The disk does not take them.
    """

    def __init__(self, folder: Path, part_bytes: int = PART_BYTES) -> None:
        self._folder = folder
        self._part_bytes = part_bytes
        self._parts: list[SavedFile] = []
        self._file: IO[bytes] | None = None
        self._stream: Any = None  # pyarrow's, without types; there while the file is
        self._raw_bytes = 0
        self._records = 0

    def write(self, record: Record) -> None:
        """Add a record."""
        if self._stream is None:
            self._open()
        line = orjson.dumps(record) + b"\n"
        self._stream.write(line)
        self._raw_bytes += len(line)
        self._records += 1
        if self._raw_bytes >= self._part_bytes:
            self._end()

    def finish(self) -> tuple[SavedFile, ...]:
        """Make all parts durable; what they are."""
        if self._stream is not None:
            self._end()
        return tuple(self._parts)

    def close(self) -> None:
        """Let go of the file that is being written, after an error; it is of no use any more."""
        if self._file is None:
            return
        with contextlib.suppress(OSError):  # the disk may be full; the error before counts
            self._stream.close()
        self._file.close()
        self._file = self._stream = None

    def _open(self) -> None:
        self._file = open(self._path, "xb")  # noqa: SIM115 - closed by `_end` or `close`
        self._stream = pa.CompressedOutputStream(pa.PythonFile(self._file, mode="w"), "zstd")
        self._raw_bytes = self._records = 0

    def _end(self) -> None:
        # Closes the file beneath it, too; what is written is on disk after the second opening.
        self._stream.close()
        path, self._file, self._stream = self._path, None, None
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        found = saved_file(self._folder, path.name)
        self._parts.append(SavedFile(found.path, found.size_bytes, found.xxh3, self._records))

    @property
    def _path(self) -> Path:
        return self._folder / f"part-{len(self._parts):05}.jsonl.zst"


def read_records(folder: Path, parts: Sequence[SavedFile]) -> Iterator[Record]:
    """All records, in the order of their writing; some are in memory at a time.

    Raises:
        SavepointCorrupt: A part does not hold the records that it should.
    """
    for part in parts:
        count = 0
        try:
            with pa.CompressedInputStream(pa.OSFile(str(folder / part.path)), "zstd") as stream:
                for line in _lines(stream):
                    count += 1
                    yield orjson.loads(line)
        except (OSError, orjson.JSONDecodeError) as error:
            raise SavepointCorrupt(f"{part.path} of the savepoint cannot be read") from error
        if count != part.records:
            raise SavepointCorrupt(
                f"{part.path} of the savepoint has {count} records, {part.records} were written"
            )


def _lines(stream: pa.CompressedInputStream) -> Iterator[bytes]:
    rest = b""
    while block := stream.read(_READ_BYTES):
        *whole, rest = (rest + block).split(b"\n")
        yield from whole
    if rest:
        yield rest


def text_of(stored: bytes) -> str | dict[str, str]:
    """Stored bytes as they stand in a record.

    >>> text_of(b"[1]"), text_of(bytes([255]))
    ('[1]', {'base64': '/w=='})
    """
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(stored).decode()}


def bytes_of(text: object) -> bytes:
    """The counterpart of `text_of`.

    Raises:
        SavepointCorrupt: It is none of the two forms.
    """
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, dict) and isinstance(text.get("base64"), str):
        return base64.b64decode(text["base64"])
    raise SavepointCorrupt("a record of the savepoint is not as we write it")
