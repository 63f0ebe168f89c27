"""Tables that a look-up join asks: for many keys in one call.

    class MyTable:                                        # a LookupTable
        def begin(self, now_ms): ...
        def fetch(self, keys): return [rows_of(key) for key in keys]

`TableRows` stands in a spec and is asked in memory; `TableFiles` names files that the worker reads
whole, and again when they have changed; `TableHash` is a table that a sink keeps in Redis, asked by
its primary key. `CachedTable` stands before a table and remembers answers; `RetryingTable` asks
again for keys without rows.

What a table holds is not part of a pipeline's state. An epoch that runs again may be answered
differently, as in Flink; only a look-up join that materializes takes back what it has emitted.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict, defaultdict, deque
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

import orjson
import redis
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from operators.changelog import RowKind
from operators.errors import LookupFailed
from state.backends.byte_client import byte_client
from state.codec import CodecError
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from operators.changelog import Row
    from operators.spec import RowSpec


class LookupTable(Protocol):
    """What is asked for rows."""

    def begin(self, now_ms: int) -> None:
        """An epoch begins, at this time; what is fetched until the next call belongs together."""

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The rows of each key, in the table's order.

        Args:
            keys: Canonical rows of the columns that the table was opened with.

        Raises:
            LookupFailed: It does not answer.
        """


class TableRows(BaseModel):
    """A table whose rows stand here, for tests and small constant tables."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["rows"] = "rows"
    rows: tuple[str, ...]
    """Canonical."""


class TableFiles(BaseModel):
    """A table in files of JSON lines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["files"] = "files"
    root: str = ""
    """The folder that files must lie in; whoever runs the operator sets it."""
    path: str
    """A file, or a folder with all its files, below the root; names with . or _ in front hide."""
    with_op: bool = True
    """Lines are `{"op": ..., "data": {...}}`, and retractions take rows back; else rows."""


class TableHash(BaseModel):
    """A table that a sink keeps in Redis: a hash from canonical primary key to a JSON object."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["redis"] = "redis"
    url: str = Field(default="", repr=False)
    """Of the Redis, maybe with a password; whoever runs the operator sets it."""
    name: str
    """Of the hash."""
    owner: str = ""
    """A key that is there for as long as somebody keeps the hash, which has none without rows."""
    timeout_ms: PositiveInt = 5_000
    """For a connection, and for an answer."""


Source = TableRows | TableFiles | TableHash
TableSource = Annotated[Source, Field(discriminator="kind")]


class LookupCache(BaseModel):
    """What is remembered of a table's answers, by each worker for itself.

    Source: Flink's options `lookup.cache` = PARTIAL and `lookup.partial-cache.*`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys_max: PositiveInt = 10_000
    expire_after_write_ms: NonNegativeInt = 0
    """After so long a key is asked again; by the time of epochs; 0: never."""
    expire_after_access_ms: NonNegativeInt = 0
    """The same after the last time it was asked for; 0: never."""
    caches_missing: bool = True
    """Whether it is remembered that a key has no rows."""


class LookupRetry(BaseModel):
    """Keys without rows are asked for again, since what they are to meet may be late.

    Source: Flink's LOOKUP hint with `retry-predicate` = lookup_miss and `retry-strategy` =
    fixed_delay; FixedDelayRetryStrategy counts attempts after the first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    retries_max: int = Field(ge=1, le=1_000)
    """How often after the first time: `max-attempts`."""
    delay_ms: NonNegativeInt
    """How long is waited before each."""


def open_table(
    source: Source,
    row: RowSpec,
    key: tuple[int, ...],
    cache: LookupCache | None,
    retry: LookupRetry | None = None,
) -> LookupTable:
    """The table of a source.

    Args:
        source: Where it is.
        row: Its columns.
        key: Columns that it is asked by; of a hash its primary key.
        cache: What is remembered; None: nothing beyond an epoch.
        retry: What is done about keys without rows; None: nothing.
    """
    table: LookupTable
    if isinstance(source, TableRows):
        codec = row.codec()
        table = MemoryTable((codec.decode(each.encode()) for each in source.rows), row, key)
    elif isinstance(source, TableFiles):
        table = FileTable(source, row, key)
    else:
        table = HashTable(source, row)
    if cache is not None:
        table = CachedTable(table, cache)
    return table if retry is None else RetryingTable(table, retry)


class MemoryTable:
    """Rows in memory, by the columns that they are asked by."""

    def __init__(self, rows: Iterable[Row], row: RowSpec, key: tuple[int, ...]) -> None:
        encode = row.part(key).codec().encode
        self._by_key: defaultdict[bytes, list[Row]] = defaultdict(list)
        for each in rows:
            self._by_key[encode([each[at] for at in key])].append(each)

    def begin(self, now_ms: int) -> None:
        """Nothing changes."""

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The rows of each key."""
        return [self._by_key.get(key, ()) for key in keys]


BYTES_MAX: Final = 64 << 20
"""Files of a look-up table are read whole by every worker process."""


class FileTable:
    """Files, read whole when an epoch first asks, and again once their names or stamps differ."""

    def __init__(self, source: TableFiles, row: RowSpec, key: tuple[int, ...]) -> None:
        if not source.root:
            raise LookupFailed("a table of files was opened without the folder it lies in")
        self._root = Path(os.path.realpath(source.root))
        self._source = source
        self._row, self._key = row, key
        self._codec = row.codec()
        self._signature: tuple[Any, ...] | None = None
        self._table = MemoryTable((), row, key)
        self._is_fresh = False

    def begin(self, now_ms: int) -> None:
        """Look at the files again when they are asked for."""
        self._is_fresh = False

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The rows of each key.

        Raises:
            LookupFailed: There is no such file, one lies elsewhere, or a line is none of the table.
        """
        if not self._is_fresh:
            self._refresh()
            self._is_fresh = True
        return self._table.fetch(keys)

    def _refresh(self) -> None:
        try:
            files = [*self._files()]
            stamps = [(str(each), each.stat()) for each in files]
            signature = tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in stamps)
            if signature == self._signature:
                return
            if sum(stat.st_size for _, stat in stamps) > BYTES_MAX:
                raise LookupFailed(f"a look-up table's files have more than {BYTES_MAX} bytes")
            lines = [each.read_bytes() for each in files]
        except OSError as error:
            raise LookupFailed(f"a look-up table's file cannot be read: {error.strerror}") from None
        self._table = MemoryTable(self._rows(lines), self._row, self._key)
        self._signature = signature

    def _files(self) -> Iterator[Path]:
        """The files in name order.

        Raises:
            LookupFailed: There is none, or a link leads out of the root.
        """
        start = self._root / self._source.path
        if start.is_file():
            found = [start]
        else:
            inside = start.rglob("*")
            found = sorted(each for each in inside if each.is_file() and _is_visible(each, start))
        if not found and not start.is_dir():
            raise LookupFailed("a look-up table's path names no file and no folder")
        for each in found:
            if self._root not in Path(os.path.realpath(each)).parents:
                raise LookupFailed("a look-up table's path leads out of the files root")
        return iter(found)

    def _rows(self, blocks: Iterable[bytes]) -> Iterator[Row]:
        """The rows that are left of all lines, in the order in which they came.

        Of equal rows the oldest is taken back first; what takes back nothing is passed over.
        """
        order: list[bytes | None] = []
        places: defaultdict[bytes, deque[int]] = defaultdict(deque)
        for block in blocks:
            decoded = self._codec.decode_json_lines(block, with_op=self._source.with_op)
            if decoded.rejected:
                raise LookupFailed(f"{len(decoded.rejected)} lines are not valid rows of the table")
            texts = self._codec.encode_columns(decoded.columns, length=len(decoded.kinds))
            for kind, row in zip(decoded.kinds.tolist(), bytes_of(texts), strict=True):
                if not RowKind(kind).is_retraction:
                    places[row].append(len(order))
                    order.append(row)
                elif places[row]:
                    order[places[row].popleft()] = None
        for live in order:
            if live is not None:
                yield self._codec.decode(live)


def _is_visible(path: Path, start: Path) -> bool:
    return all(part[0] not in "._" for part in path.relative_to(start).parts)


class HashTable:
    """Rows of a hash in Redis, by its primary key: one command for all keys, as of that moment."""

    def __init__(self, source: TableHash, row: RowSpec) -> None:
        timeout_s = source.timeout_ms / 1_000
        self._name, self._owner = source.name, source.owner
        self._codec = row.codec()
        client = redis.Redis.from_url(
            source.url, socket_connect_timeout=timeout_s, socket_timeout=timeout_s
        )
        self._client = byte_client(client)

    def begin(self, now_ms: int) -> None:
        """Nothing is remembered."""

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The row of each key, if there is one.

        Raises:
            LookupFailed: Redis does not answer, nobody keeps the table any more, or what it holds
                is none of the table's rows.
        """
        try:
            found = self._client.hmget(self._name, keys)
            if self._owner and not any(found) and not self._client.exists(self._owner):
                raise LookupFailed("the pipeline whose table is looked up is not there any more")
            return [() if each is None else (self._row(each),) for each in found]
        except redis.RedisError as error:
            raise LookupFailed(f"Redis does not answer: {type(error).__name__}") from None
        except (orjson.JSONDecodeError, CodecError):
            raise LookupFailed(
                "a look-up table in Redis contains something that is not a row of it"
            ) from None

    def _row(self, text: bytes) -> Row:
        return self._codec.decode_json(orjson.loads(text))


class CachedTable:
    """Answers that are remembered, for as long as they may be; the least used ones go first."""

    def __init__(self, table: LookupTable, cache: LookupCache) -> None:
        self._table = table
        self._cache = cache
        self._now_ms = 0
        self._known: OrderedDict[bytes, tuple[int, int, Sequence[Row]]] = OrderedDict()
        """By key, least recently asked first: when it was written, when asked for, and its rows."""

    def begin(self, now_ms: int) -> None:
        """An epoch begins."""
        self._now_ms = now_ms
        self._table.begin(now_ms)

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The rows of each key, of which the table is asked for those that are not known."""
        found = {key: self._remembered(key) for key in keys}
        missing = [key for key, rows in found.items() if rows is None]
        if missing:
            for key, rows in zip(missing, self._table.fetch(missing), strict=True):
                found[key] = rows
                if rows or self._cache.caches_missing:
                    self._known[key] = self._now_ms, self._now_ms, rows
        while len(self._known) > self._cache.keys_max:
            self._known.popitem(last=False)
        return [found[key] or () for key in keys]

    def _remembered(self, key: bytes) -> Sequence[Row] | None:
        known = self._known.pop(key, None)
        if known is None:
            return None
        written_ms, asked_ms, rows = known
        for limit_ms, since_ms in (
            (self._cache.expire_after_write_ms, written_ms),
            (self._cache.expire_after_access_ms, asked_ms),
        ):
            if limit_ms and self._now_ms >= since_ms + limit_ms:
                return None
        self._known[key] = written_ms, self._now_ms, rows
        return rows


RETRY_WAIT_MS_MAX: Final = 60_000
"""An epoch waits no longer than this before retries, all its batches together."""


class RetryingTable:
    """Asks again for keys without rows; all of a batch wait together.

    It stands before a cache, as in Flink: where a cache remembers that a key has no rows, asking
    again finds that. The epoch waits, since its rows may not be overtaken; so the waits of an epoch
    end after `RETRY_WAIT_MS_MAX`, and keys without rows have none from then on.

    Args:
        table: What is asked.
        retry: How often.
        wait: Waits for so many seconds.
    """

    def __init__(
        self, table: LookupTable, retry: LookupRetry, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._table = table
        self._retry = retry
        self._wait = wait
        self._now_ms = 0
        self._waited_ms = 0

    def begin(self, now_ms: int) -> None:
        """An epoch begins."""
        self._now_ms, self._waited_ms = now_ms, 0
        self._table.begin(now_ms)

    def fetch(self, keys: Sequence[bytes]) -> Sequence[Sequence[Row]]:
        """The rows of each key, once it has some or was asked for often enough."""
        found = dict(zip(keys, self._table.fetch(keys), strict=True))
        for _ in range(self._retry.retries_max):
            missed = [key for key, rows in found.items() if not rows]
            if not missed or self._waited_ms + self._retry.delay_ms > RETRY_WAIT_MS_MAX:
                break
            self._waited_ms += self._retry.delay_ms
            self._wait(self._retry.delay_ms / 1_000)
            # What the table knows of this epoch is from before the wait.
            self._table.begin(self._now_ms)
            found.update(zip(missed, self._table.fetch(missed), strict=True))
        return [found[key] for key in keys]
