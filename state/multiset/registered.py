"""What a pipeline remembers of its histories: see `state.registry`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from state.descriptors import StateDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryDescriptor(StateDescriptor):
    """The histories of an operator: the rows of each key, oldest first.

    Strategy and thresholds are no part of what is remembered: they may change from run to run.
    """

    kind: ClassVar[str] = "history"
    row: str
    """Type of the rows, as text."""
    key: Sequence[int]
    """Columns of the key."""
    match: Sequence[int]
    """Columns that say which entry a change is about; none: the whole row."""
    emits_expired: bool = False
    """Expiry emits what it means for the sink."""
    is_whole: bool = False
    """The rows of a key expire together: LEGACY."""

    @property
    def codecs(self) -> tuple[str, ...]:
        """Names of the codecs that stored bytes depend on."""
        columns = (",".join(map(str, each)) for each in (self.key, self.match))
        return (self.row, *columns)

    @property
    def expires_silently(self) -> bool:
        """Whether elements expire and nobody is told."""
        return self.ttl.is_enabled and not self.emits_expired

    @property
    def expires_whole(self) -> bool:
        """Whether the elements of a key expire together, by the last write of one."""
        return self.ttl.is_enabled and self.is_whole
