"""What has been read of a table's declaration so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.sql.catalogue import Column
    from service.sql.source_text import Fragment


@dataclass(slots=True)
class TableDraft:
    """A table whose expressions are texts still."""

    columns: list[Column] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    computed: dict[str, Fragment] = field(default_factory=dict)
    """The expression of each computed column."""
    key: tuple[str, ...] = ()
    key_name: str = ""
    watermark: tuple[str, Fragment] | None = None
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
