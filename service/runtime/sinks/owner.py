"""Who writes tables and topics that lie elsewhere, and who takes them over.

Kept apart from both: neither the client of databases nor that of Kafka need be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan import CompiledPlan


@dataclass(frozen=True, slots=True)
class Owner:
    """Who writes: a run of a pipeline."""

    pipeline_id: str
    pipeline: str
    run: int


@dataclass(frozen=True, slots=True)
class Restored:
    """A pipeline that a savepoint is restored into, as sinks elsewhere are told of it."""

    plan: CompiledPlan
    """Of that pipeline."""
    pipeline: str
    pipeline_id: str
    files_root: str
    """Folder that files must lie in."""
    hosts: Sequence[str]
    """Servers that may be written to."""
    epoch: int
    """The savepoint's."""
    origin: str
    """The id of the pipeline whose savepoint it is."""
    origins_name: str
    """The name of that one."""

    @property
    def owner(self) -> Owner:
        """The pipeline before its first run."""
        return Owner(self.pipeline_id, self.pipeline, run=0)
