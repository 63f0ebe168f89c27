"""`scripts/setup` takes the Java that the launcher takes; what it lacks it installs, or names."""

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


TOOLS = ["bash", "cat", "chmod", "cut", "dirname", "env", "mkdir", "mktemp", "rm", "sed", "sh"]
TOOLS += ["sha256sum", "tail", "touch"]


@pytest.fixture
def bare(tree: Path) -> Path:
    """A machine with nothing but Python and what every Debian has."""
    shutil.rmtree(tree / ".venv")
    (tree / "bin" / "redis-server").unlink()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (tree / "bin" / name).symlink_to(found)
    pip = f"echo pip >> {tree}/pip; echo > {tree}/pip-works"
    making = f'mkdir -p .venv/bin; printf "#!/bin/sh\\n{pip}\\n" > .venv/bin/python'
    script = f'[ "$1" = -c ] || {{ {making}; chmod +x .venv/bin/python; }}'
    executable(tree / "bin" / "python3.11", script)
    os.mkfifo(tree / "pip-works")
    return tree


def set_up(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [tree / "scripts" / "setup", "run"],
        env={"PATH": f"{tree}/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


PACKAGES = "default-jre-headless curl redis-server"


def test_whoever_is_not_root_is_told_all_that_is_missing_in_one_line(bare: Path) -> None:
    ended = set_up(bare)

    assert ended.returncode == 1
    assert ended.stderr == (
        "setup: missing: Java 17 or newer, curl, redis-server 7 or newer;"
        f" install it (Debian: sudo apt-get install {PACKAGES})\n"
    )
    assert not (bare / ".venv").exists()


def test_debians_packages_come_at_once_and_while_pip_works(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    # The packages are there when pip has begun: who did one after the other would wait for ever.
    script = f'echo "$*" >> {bare}/apt; [ "$1" = update ] || cat {bare}/pip-works'
    executable(bare / "bin" / "apt-get", script)

    ended = set_up(bare)

    assert ended.returncode == 0, ended.stderr
    update, install = (bare / "apt").read_text().splitlines()
    assert update.startswith("update")
    assert install.endswith(f" {PACKAGES}")
    assert (bare / "pip").read_text() == "pip\n"
    assert [*(bare / ".venv").glob(".installed-demo-*")]


def test_packages_that_cannot_be_installed_are_named(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    executable(bare / "bin" / "apt-get", f"cat {bare}/pip-works; echo no network; exit 100")

    ended = set_up(bare)

    assert ended.returncode == 1
    assert "no network" in ended.stderr
    assert f"redis-server 7 or newer ({PACKAGES})" in ended.stderr
