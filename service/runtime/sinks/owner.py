"""Who writes folders, and tables and topics that lie elsewhere, and who takes them over.

Kept apart from both: neither the client of databases nor that of Kafka need be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from service.plan import CompiledPlan

TAKE_BACK: Final = (
    "restore the savepoint that it was made of once more, which works as long as it has written "
    "nothing, or delete this pipeline"
)
"""What to do where another pipeline has taken over what one writes."""
FOLDER_OWNER: Final = "_owner"
"""The file in a folder that names the pipeline which writes there."""


def owner_of_folder(folder: Path) -> tuple[str, str] | None:
    """Name and id of the pipeline that has a folder; None if none is known to have it."""
    try:
        held = orjson.loads((folder / FOLDER_OWNER).read_bytes())
        return str(held["pipeline"]), str(held["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


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
    new_tables: frozenset[str]
    """Names of sinks whose tables begin with this pipeline."""

    @property
    def owner(self) -> Owner:
        """The pipeline before its first run."""
        return Owner(self.pipeline_id, self.pipeline, run=0)
