"""Packages of users, installed as a user installs them: by pip, beside what is there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CUSTOM_WINDOW = Path(__file__).parents[1] / "examples" / "custom_window"


def install(package: Path, folder: Path) -> Path:
    """Build and install a package below a folder, without a network; returns what to import from.

    Args:
        package: Its sources; nothing is left beside them.
        folder: An empty one.
    """
    sources, target = folder / "sources", folder / "site"
    shutil.copytree(package, sources, ignore=shutil.ignore_patterns("__pycache__"))
    offline = ("--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check")
    run = subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(sources)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-2_000:]
    return target


def importing(target: Path) -> str:
    """PYTHONPATH for processes that find what was installed there before all that we find."""
    return os.pathsep.join([str(target), *filter(None, [os.environ.get("PYTHONPATH")])])
