"""The one way from a table's `path` option to a file: below the files root, or refused.

Checked when a plan comes in and again in the worker that opens the file, since a symbolic link may
have been set in between.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from service.runtime.dataflow_errors import PathOutsideRoot, UnsupportedConnector
from service.runtime.part_files import run_of, without_run

if TYPE_CHECKING:
    from collections.abc import Iterator

_WILD = frozenset("*?[")


def path_below(root: str, text: str) -> Path:
    """The real path that a `path` option names; relative ones start at the root.

    Raises:
        PathOutsideRoot: it leads out of the root, by `..`, as an absolute path or through a link.
        UnsupportedConnector: its scheme is not `file`.
    """
    base = Path(os.path.realpath(root))
    real = Path(os.path.realpath(base / _local(text)))
    if real != base and base not in real.parents:
        raise PathOutsideRoot(
            f'path "{text}" is outside of the files root',
            hint="give a path relative to the files root",
        )
    return real


def matching_files(root: str, text: str) -> list[tuple[str, int]]:
    """The regular files that a file, folder (with its subfolders) or glob names, in name order.

    Returns:
        Path relative to the root and size in bytes. Names that start with `.` or `_` are left out,
        as Flink and Spark do, so that files still being written can hide. Where two runs of a
        pipeline wrote one part of an epoch, it is that of the later one.

    Raises:
        OSError: A folder or file cannot be looked at.
    """
    base = Path(os.path.realpath(root))
    local = _local(text)
    if _WILD.isdisjoint(local):
        starts = [path_below(root, local)]
    else:
        fixed = next(at for at, each in enumerate(local) if each in _WILD)
        path_below(root, os.path.dirname(local[:fixed]) or ".")
        starts = [Path(each) for each in glob.glob(str(base / local), recursive=True)]
    found: dict[str, tuple[int, str, int]] = {}
    for start in starts:
        for path in _visible_files(start):
            name, real = str(path.relative_to(base)), path_below(root, str(path))
            try:
                size = real.stat().st_size
            except FileNotFoundError:
                # A sink took it away meanwhile.
                continue
            part = without_run(name)
            found[part] = max(found.get(part, (-1, "", 0)), (run_of(name), name, size))
    return sorted((name, size) for _, name, size in found.values())


def standing_in(root: str, text: str) -> str:
    """The real path of a file, or of that of another run where one wrote the same part again.

    Raises:
        PathOutsideRoot: As `path_below`.
    """
    path = path_below(root, text)
    if path.exists():
        return str(path)
    part = without_run(path.name)
    named = (each.name for each in path.parent.glob(f"part-*{path.suffix}"))
    name = max((each for each in named if without_run(each) == part), key=run_of, default=path.name)
    return str(path_below(root, str(path.parent / name)))


def _visible_files(start: Path) -> Iterator[Path]:
    """The regular files at or below a path; folders that are links are not entered: no loops.

    Raises:
        OSError: A folder cannot be listed, which is not the same as an empty one.
    """
    if start.is_file():
        yield start
        return
    for folder, folders, files in os.walk(start, onerror=_raise_unless_gone):
        folders[:] = [each for each in folders if each[0] not in "._"]
        yield from (Path(folder, each) for each in files if each[0] not in "._")


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _local(text: str) -> str:
    """The path of a `file:` address or of plain text."""
    parts = urlsplit(text)
    if not parts.scheme:
        return text
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise UnsupportedConnector(
            f'file scheme "{parts.scheme}" is not supported', hint="use a local path"
        )
    return unquote(parts.path)
