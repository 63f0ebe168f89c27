"""`scripts/setup` takes the Java that the launcher takes, and says in one line what it lacks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from service.runtime.errors import MissingDependency
from service.runtime.launcher import find_java

ROOT = Path(__file__).parents[2]


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fake_java(path: Path, version: str) -> None:
    """Answers as both ask: the script by `-version`, the launcher by its properties."""
    lines = f'openjdk version "{version}" 2024\n    java.home = /opt/java\n'
    lines += f"    java.version = {version}"
    executable(path, f"cat >&2 <<END\n{lines}\nEND")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository whose packages are installed, on a machine that may install nothing."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    text = b""
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
        text += (ROOT / name).read_bytes()
    (tmp_path / ".venv").mkdir()
    stamp = hashlib.sha256(text).hexdigest()[:16]
    (tmp_path / ".venv" / f".installed-demo-{stamp}").touch()
    executable(tmp_path / "bin" / "id", "echo 1000")
    executable(tmp_path / "bin" / "redis-server", "exit 0")
    executable(tmp_path / "bin" / "python3.11", "exit 0")
    return tmp_path


@pytest.mark.parametrize(
    ("of_home", "of_path", "is_fine"),
    [
        ("1.8.0_392", "21.0.2", True),
        ("17.0.1", "1.8.0_392", True),
        ("", "17.0.1", True),
        (None, "17.0.1", True),
        ("broken", "17.0.1", True),
        ("1.8.0_392", "11.0.2", False),
        (None, "11.0.2", False),
    ],
)
def test_setup_and_launcher_agree_about_java(
    tree: Path, of_home: str | None, of_path: str, is_fine: bool
) -> None:
    """`of_home` empty: JAVA_HOME leads nowhere; None: it is not set; broken: it does not run."""
    environment = {"PATH": f"{tree}/bin:{os.defpath}"}
    fake_java(tree / "bin" / "java", of_path)
    if of_home is not None:
        environment["JAVA_HOME"] = str(tree / "home")
    if of_home == "broken":
        executable(tree / "home" / "bin" / "java", "exit 1")
    elif of_home:
        fake_java(tree / "home" / "bin" / "java", of_home)

    ended = subprocess.run(
        [tree / "scripts" / "setup", "run"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode == 0) is is_fine, ended.stderr
    if is_fine:
        assert find_java(environment).major >= 17
    else:
        assert "Java 11 is too old" in ended.stderr
        with pytest.raises(MissingDependency):
            find_java(environment)
