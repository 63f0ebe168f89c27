"""What a source task must know, as JSON, since it travels as an option of a Spark data source."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import orjson

TIME_FIELD = "testing.time-field"
EPOCHS = "testing.epochs"
"""Testing aids of files (`filesystem`); only where the settings allow them."""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One table as one stream of changes."""

    connector: str
    table: str
    """Name in notes, offsets and Redis keys."""
    pipeline: str
    redis_url: str = field(repr=False)
    names: tuple[str, ...]
    """Columns to give, in the order of the wire's f0..fn."""
    types: tuple[str, ...]
    """Their types, as a plan writes them."""
    physical: tuple[tuple[str, str], ...]
    """All columns of the table with their types: formats without names need their order."""
    options: dict[str, str] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    """What a record tells of itself, given behind the columns: keys with their types."""
    files_root: str = ""
    partitions: int = 1
    """Shuffle partitions, each of which gets a tick; also the most tasks that read at once."""
    tick_interval_ms: int = 0
    """0: no ticks, so an epoch runs only when there are changes."""
    is_quiet: bool = False
    """Whether an epoch without changes gets no task, as stages make its ticks (`quiet_epochs`)."""
    rows_per_epoch_max: int = 1_000_000
    fail_on_malformed: bool = False
    is_normalized: bool = False
    """Whether nothing but ChangelogNormalize reads it, which keeps the last row of each key."""
    connect_timeout_ms: int = 2_000
    """Of Redis, as is the next."""
    socket_timeout_ms: int = 30_000

    def to_json(self) -> str:
        """The text that `from_json` takes."""
        return orjson.dumps(asdict(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> SourceSpec:
        """Read what `to_json` wrote."""
        values = orjson.loads(text)
        for name in ("names", "types", "primary_key"):
            values[name] = tuple(values[name])
        for name in ("physical", "metadata"):
            values[name] = tuple((each, kind) for each, kind in values[name])
        return cls(**values)

    @property
    def given(self) -> tuple[str, ...]:
        """The types of all that a source gives: of columns, then of metadata."""
        return (*self.types, *(kind for _, kind in self.metadata))
