"""What a writer task tells the commit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.datasource import WriterCommitMessage


@dataclass
class PartMessage(WriterCommitMessage):  # type: ignore[misc]  # pyspark's types are not followed
    """What one writer task did: plain values, since Spark pickles it."""

    staged: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By sink: what its `stage` returned."""
    rows: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    dead: list[tuple[int, str]] = field(default_factory=list)
    """The newest dead letters: order and note."""
    dead_count: int = 0
    time_ms: int = 0
