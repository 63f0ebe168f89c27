"""Rules of the house that no linter knows (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SILENCERS = re.compile(
    r"#\s*(?:ruff:\s*)?(?:noqa|type:\s*ignore|fmt:\s*(?:off|skip)|pragma:)"
    r"|^\s*except(?: (?:Base)?Exception\b|:)|\bwith (?:.*, )?(?:contextlib\.)?suppress\("
    r"|^\s*except \(.*\b(?:(?:Base)?Exception|AttributeError)\b.*\):|return_exceptions=True"
    r"|ignore_errors=True|filterwarnings\(|simplefilter\(\"ignore|(?:\btyping\.|(?<![.\w]))cast\(\""
)
UNTYPED = re.compile(r":\s*Any\b")
"""What no checker looks at in the packages that are checked; an alias of it has its own reason."""
CONFIGURED = re.compile(
    r"^(?:ignore|follow_imports|allow_|skip|\[.*per-file-ignores)|^ *\"ignore:", re.MULTILINE
)
"""The same in the configuration of checkers, each in a paragraph."""
CHECKED = ("service", "operators", "state")
PACKAGES = ("service", "operators", "state", "benchmarks", "tests", "examples")
REASON = re.compile(r"\s(?:#|- |\()\s*\w")
"""What follows a silencer on its line: another comment, or words behind a dash or in brackets."""


@pytest.mark.parametrize("package", [*PACKAGES])
def test_what_silences_a_check_or_an_error_has_its_reason_beside_it(package: str) -> None:
    bare = []
    for path in sorted((ROOT / package).rglob("*.py")):
        if path == Path(__file__):
            # It names them.
            continue
        lines = path.read_text("utf-8").splitlines()
        for at, line in enumerate(lines):
            found = SILENCERS.search(line)
            if not found and package in CHECKED:
                found = UNTYPED.search(line)
            if found and not _has_reason(lines, at, found.end(), package):
                bare.append(f"{path.relative_to(ROOT)}:{at + 1}: {line.strip()}")
    assert bare == []


def _has_reason(lines: list[str], at: int, end: int, package: str) -> bool:
    """On the line; where no checker looks, a comment above or below counts, too."""
    if REASON.search(lines[at][end:]):
        return True
    around = lines[max(at - 1, 0) : at] + lines[at + 1 : at + 2]
    return package not in CHECKED and any(each.strip().startswith("#") for each in around)


def test_a_bare_silencer_would_be_found() -> None:
    lines = ["x = 1", "y = z()  # type: ignore[misc]", "w = 2"]
    found = SILENCERS.search(lines[1])
    assert found
    assert UNTYPED.search("def f(x: Any) -> None:")
    assert not UNTYPED.search("def f(x: Mapping[str, Any]) -> None:")
    assert not _has_reason(lines, 1, found.end(), "tests")
    assert _has_reason(["y = z()  # type: ignore[misc]  # no types"], 0, found.end(), "state")
    assert not _has_reason(["# No types.", lines[1]], 1, found.end(), "state")
    assert _has_reason(["# No types.", lines[1]], 1, found.end(), "tests")


def test_what_silences_a_check_for_whole_packages_has_its_reason_beside_it() -> None:
    paragraphs = (ROOT / "pyproject.toml").read_text("utf-8").split("\n\n")
    found = [each for each in paragraphs if CONFIGURED.search(each)]

    assert len(found) >= 6
    assert [each for each in found if "# " not in each] == []


@pytest.mark.parametrize("package", CHECKED)
def test_a_package_that_lists_its_modules_lists_all(package: str) -> None:
    """Those that say "one kind a module" list none; `batch_*` stands for several."""
    missing = []
    for init in sorted((ROOT / package).rglob("__init__.py")):
        listed = re.findall(r"[\w*]*\w[\w*]*", ast.get_docstring(ast.parse(init.read_text())) or "")
        modules = [each.stem for each in init.parent.glob("[!_]*.py")]
        modules += [each.parent.name for each in init.parent.glob("*/__init__.py")]
        absent = [each for each in modules if not any(fnmatchcase(each, one) for one in listed)]
        if len(absent) <= len(modules) // 2:
            missing += [f"{init.relative_to(ROOT)}: {each}" for each in absent]
    assert missing == []
