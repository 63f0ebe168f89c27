"""Pages of `docs` on real Spark and Redis: their commands run, their answers are what comes back.

sh      run by a shell, with the commands that the page's first block defines
json    what the answer to the command before holds, perhaps among more
text    lines of the text that the statement before gave
diff    an edit of a plan's file: the file, and what it is saved as
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.integration.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.runtime.launcher import EmbeddedSpark

pytestmark = pytest.mark.timeout(900)

DOCS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of the page."""

    kind: str
    words: list[str]
    """What stands behind the kind."""
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for found in _BLOCK.finditer(page):
        line = page.count("\n", 0, found.start()) + 1
        yield Block(found[1], found[2].split(), found[3], line)


@pytest.mark.parametrize("page", ["guide.md", "flip-292.md"])
def test_the_page_is_what_happens(page: str, tmp_path: Path, spark_server: EmbeddedSpark) -> None:
    commands, *rest = blocks((DOCS / page).read_text())
    with System(tmp_path / "system", spark_server) as system:
        command = commands
        for block in rest:
            match block.kind:
                case "sh":
                    command = block
                    if not _is_get(command):
                        answer = _answer(system, commands, command)
                case "json" if _is_get(command):
                    expected = orjson.loads(block.text)
                    _repeat(system, commands, command, expected)
                case "json":
                    assert _lacks(answer, orjson.loads(block.text)) == "", (block.line, answer)
                case "text":
                    shown = answer["results"][-1]["rows"][0][0]
                    for each in block.text.splitlines():
                        assert each in shown, (block.line, each, shown)
                case "diff":
                    _edit(system.files, block)
                case kind:
                    raise AssertionError(f"no rule for blocks of {kind}")


def _is_get(command: Block) -> bool:
    return command.text.startswith("call GET")


def _answer(system: System, commands: Block, command: Block) -> Any:
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands.text + command.text],
        env={**os.environ, "TAILRACE": str(system.http.base_url).rstrip("/")},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 0, (command.line, run.stderr)
    return orjson.loads(run.stdout) if run.stdout else None


def _repeat(system: System, commands: Block, command: Block, expected: Any) -> None:
    answer: Any = None

    def comes() -> bool:
        nonlocal answer
        answer = _answer(system, commands, command)
        return _lacks(answer, expected) == ""

    try:
        system.wait_for(f"the answer of line {command.line}", comes)
    except AssertionError as error:
        raise AssertionError(f"{_lacks(answer, expected)} in {answer}") from error


def _lacks(answer: Any, expected: Any, place: str = "") -> str:
    """Where the answer is not what is expected; empty where it is. Objects may hold more."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        missing = [f"{place}/{name}" for name in expected if name not in answer]
        pairs = [(f"{place}/{name}", answer.get(name), expected[name]) for name in expected]
    elif isinstance(expected, list) and isinstance(answer, list):
        missing = [place] if len(expected) != len(answer) else []
        pairs = [
            (f"{place}/{at}", *each) for at, each in enumerate(zip(answer, expected, strict=False))
        ]
    else:
        return "" if answer == expected else place or "/"
    return next((found for each in pairs if (found := _lacks(each[1], each[2], each[0]))), "") or (
        missing[0] if missing else ""
    )


def _edit(files: Path, block: Block) -> None:
    """Do what a difference says, once."""
    source, target = block.words
    lines = block.text.splitlines(keepends=True)
    before = "".join(each[1:] for each in lines if each[0] in " -")
    after = "".join(each[1:] for each in lines if each[0] in " +")
    plan = (files / source).read_text()
    assert plan.count(before) == 1, (block.line, plan)
    (files / target).write_text(plan.replace(before, after))
