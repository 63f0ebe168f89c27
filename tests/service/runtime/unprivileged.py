"""What the system refuses to users, for tests that root may run, too."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NOBODY = 65_534


@contextlib.contextmanager
def closed_folder(folder: Path) -> Iterator[None]:
    """Nobody may look into or write to a folder; root steps down for as long."""
    mode, user = folder.stat().st_mode, os.geteuid()
    folder.chmod(0)
    if user == 0:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(mode)
