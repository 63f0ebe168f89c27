"""What a recorded case is, and where cases are found below a path."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Kind(Enum):
    """The kinds of cases, by the files that tell them."""

    MATERIALIZER = "materializer"
    COMPACTING = "compacting"
    PLAN = "plan"
    TTL = "ttl"
    VALIDATION = "validation"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a folder, a line of a trace file, or an entry of a validation file."""

    kind: Kind
    name: str
    """As printed: the path that was given, and what tells this case from others below it."""
    folder: Path
    content: Any = None
    """The spec of a materializer case, the meta of a plan case, or the entry itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case under one configuration."""

    name: str
    difference: str | None = None
    """The first difference; None where everything was as recorded."""
    unsupported: str | None = None
    """What of the case is not run: a node, a function, a kind; it neither passes nor fails."""


class NoCases(Exception):
    """A path was given below which there is no case: a typing error must not pass."""


def find_cases(path: Path) -> list[Case]:
    """Every case at or below `path`, by name.

    Raises:
        NoCases: there is none, or a file is not what its name says.
    """
    if not path.exists():
        raise NoCases(f"{path}: no such file or folder")
    try:
        cases = sorted(_walk(path), key=lambda case: case.name)
    except orjson.JSONDecodeError as problem:
        raise NoCases(f"{path}: a file below it is not JSON: {problem}") from problem
    if not cases:
        raise NoCases(f"{path}: no case below it")
    return cases


def read_lines(path: Path) -> list[Any]:
    """The JSON values of a file with one a line."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def _walk(path: Path) -> Iterator[Case]:
    if path.is_file():
        if path.name in ("spec.json", "meta.json", "plan.json"):
            yield from _walk(path.parent)
        else:
            yield from _cases_of_file(path)
        return
    if (path / "spec.json").exists():
        spec = orjson.loads((path / "spec.json").read_bytes())
        compacting = str(spec.get("strategy", "")).startswith("DO_")
        yield Case(Kind.COMPACTING if compacting else Kind.MATERIALIZER, str(path), path, spec)
        return
    if any((path / name).exists() for name in ("meta.json", "plan.json", "query.sql")):
        meta = path / "meta.json"
        content = orjson.loads(meta.read_bytes()) if meta.exists() else {}
        yield Case(Kind.PLAN, str(path), path, content)
        return
    for child in sorted(path.iterdir()):
        if child.is_dir() or child.suffix in (".json", ".jsonl"):
            yield from _walk(child)


def _cases_of_file(path: Path) -> Iterator[Case]:
    """The cases of a validation or trace file; other files have none."""
    if path.suffix == ".json":
        entries = orjson.loads(path.read_bytes())
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict) and {"case", "plan", "load"} <= entry.keys():
                    name = f"{path}: {entry['case']}"
                    yield Case(Kind.VALIDATION, name, path.parent, entry)
    elif path.suffix == ".jsonl":
        for number, entry in enumerate(read_lines(path)):
            if isinstance(entry, dict) and {"state", "updateType", "ops"} <= entry.keys():
                yield Case(Kind.TTL, f"{path}:{number + 1}", path.parent, entry)
