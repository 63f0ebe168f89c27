"""What the writer must know, as JSON, since it travels as an option of a Spark data source."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

import orjson

Mode = Literal["append", "upsert", "retract"]


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """One table that takes changes."""

    node: int
    """Id of the plan's sink node."""
    table: str
    """Name in Redis keys, progress records and paths of the API."""
    connector: str
    names: tuple[str, ...]
    types: tuple[str, ...]
    """Types of the columns, as a plan writes them."""
    primary_key: tuple[int, ...]
    mode: Mode
    """append: inserts only, an update is an error; upsert: by primary key, so a -U may be
    missing; retract: all kinds."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Those of the table; a database's password is among them."""
    metadata: tuple[str, ...] = ()
    """Keys of the last columns, which a record says beside its key and value."""
    operator: str = field(default="", repr=False)
    """The stateful operator that the rows go through first, an `OperatorTask` as JSON; if any."""


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """The one writer of a pipeline's query: all its sinks, and where their epochs are closed."""

    pipeline: str
    run: int
    redis_url: str = field(repr=False)
    incarnation: str | None
    files_root: str
    sinks: tuple[SinkSpec, ...]
    pipeline_id: str = ""
    """Unlike the name never used again: by it databases know who writes."""
    operators: tuple[str, ...] = ()
    """Ids of the stateful operators, whose pending writes an epoch's close promotes."""
    assigners: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The watermark assigners, each with the sources that it is behind of."""
    idle_timeouts_ms: dict[str, int] = field(default_factory=dict)
    """By assigner, how long it may have no rows before it holds no other one back; 0: for ever."""
    together: tuple[tuple[tuple[str, int], ...], ...] = ()
    """The assigners that each operator waits for, with how far each is held back, in ms."""
    quiet_source: str = ""
    """The query's only source, if it is not read in epochs without changes (`quiet_epochs`)."""
    has_ticks_apart: bool = False
    """Whether that one has a source for ticks behind it."""
    checkpoint: str = ""
    """Folder of the query's checkpoint."""
    streams: tuple[str, ...] = ()
    """The source of each line of Spark's record of an epoch; none: nothing is compared."""
    counted_by_spark: tuple[str, ...] = ()
    """Those that are sources of Spark's own: what was read may end before what was planned."""
    max_parallelism: int = 128
    version: str = ""
    """The service's version of this package; workers with another one refuse to run."""
    dead_letters_max: int = 10_000
    print_rows_max: int = 1_000
    progress_max: int = 1_000
    connect_timeout_ms: int = 2_000
    """Of Redis, as is the next."""
    socket_timeout_ms: int = 30_000

    def to_json(self) -> str:
        """The text that `from_json` takes."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> WriterSpec:
        """Read what `to_json` wrote."""
        values = orjson.loads(text)
        for sink in values["sinks"]:
            for name in ("names", "types", "primary_key", "metadata"):
                sink[name] = tuple(sink[name])
        values["sinks"] = tuple(SinkSpec(**each) for each in values["sinks"])
        for name in ("operators", "streams", "counted_by_spark"):
            values[name] = tuple(values[name])
        values["assigners"] = {name: tuple(each) for name, each in values["assigners"].items()}
        values["together"] = tuple(
            tuple((name, held_ms) for name, held_ms in each) for each in values["together"]
        )
        return cls(**values)
