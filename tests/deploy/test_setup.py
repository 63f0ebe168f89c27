"""`scripts/setup` takes the Java that the launcher takes; what it lacks it installs, or names.

It runs on machines that are folders: their PATH has a few real tools, and scripts in place of the
programs that a machine of that kind has.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import MissingDependency
from service.runtime.launcher import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
TOOLS = ["awk", "bash", "cat", "chmod", "cp", "cut", "dirname", "env", "grep", "mkdir", "mktemp"]
TOOLS += ["rm", "sed", "sh", "sha256sum", "tail", "touch"]
WANTED = "default-jre-headless curl redis-server"


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Replaced, not written over: it may be a link to a real one.
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def fake_java(path: Path, version: str) -> None:
    """Answers as both ask: the script by `-version`, the launcher by its properties."""
    lines = f'openjdk version "{version}" 2024\n    java.home = /opt/java\n'
    lines += f"    java.version = {version}"
    # As with JAVA_TOOL_OPTIONS, which comes first.
    executable(path, f"cat >&2 <<END\nPicked up JAVA_TOOL_OPTIONS: -Dx=1\n{lines}\nEND")


def fake_python(path: Path, version: str, *, pip: str = "true", has_venv: bool = True) -> None:
    """A Python of `version`, whose environments have one that runs `pip` for `pip install`."""
    inner = path.parent.parent / "python-of-venv"
    executable(
        inner,
        f"""case "$*" in
        *version_info*) echo {version} ;;
        *"pip install"*) {pip} ;;
        esac""",
    )
    site = f'"$4/lib/python{version}/site-packages/pip"'
    making = f'[ "$3" = --clear ] && rm -rf "$4"; mkdir -p "$4/bin" {site}; '
    making += f'cp {inner} "$4/bin/python"'
    executable(
        path,
        f"""case "$*" in
        *version_info*) echo {version} ;;
        *ensurepip*) exit {0 if has_venv else 1} ;;
        "-m venv"*) {making} ;;
        esac""",
    )


def bring(machine: Path, *, java: str = "17.0.1", redis: str = "7.0.15") -> str:
    """A shell command that puts into the PATH what apt-get would."""
    packages = machine / "packages"
    fake_java(packages / "java", java)
    executable(packages / "curl", "exit 0")
    executable(packages / "redis-server", f"echo Redis server v={redis} sha=0")
    return f"cp {packages}/* {machine}/bin"


def stamp() -> str:
    text = b"".join((ROOT / name).read_bytes() for name in ("constraints.txt", "pyproject.toml"))
    return f".installed-run-{hashlib.sha256(text).hexdigest()[:16]}"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout on a machine with Python 3.11 and what every Linux has; its user is not root."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup", tmp_path / "scripts" / "setup")
    for name in ("constraints.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (programs / name).symlink_to(found)
    executable(programs / "id", "echo 1000")
    executable(programs / "uname", "echo Linux")
    executable(programs / "df", "echo; echo disk 9000 0 8000 0% /")
    fake_python(programs / "python3", "3.11", pip=f"echo pip >> {tmp_path}/pip")
    return tmp_path


@pytest.fixture
def complete(bare: Path) -> Path:
    """The same with all that is needed, but Python's packages."""
    fake_java(bare / "bin" / "java", "17.0.1")
    executable(bare / "bin" / "curl", "exit 0")
    executable(bare / "bin" / "redis-server", "echo Redis server v=7.0.15 sha=0")
    return bare


def set_up(
    machine: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine / "scripts" / "setup", "run"],
        env={"PATH": f"{machine}/bin", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


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
    complete: Path, of_home: str | None, of_path: str, is_fine: bool
) -> None:
    """`of_home` empty: JAVA_HOME leads nowhere; None: it is not set; broken: it does not run."""
    environment = {"PATH": f"{complete}/bin:{os.defpath}"}
    fake_java(complete / "bin" / "java", of_path)
    if of_home is not None:
        environment["JAVA_HOME"] = str(complete / "home")
    if of_home == "broken":
        executable(complete / "home" / "bin" / "java", "exit 1")
    elif of_home:
        fake_java(complete / "home" / "bin" / "java", of_home)

    ended = set_up(complete, environment)

    assert (ended.returncode == 0) is is_fine, ended.stderr
    if is_fine:
        assert find_java(environment).major >= 17
    else:
        assert "Java 17 or newer (found: 11)" in ended.stderr
        with pytest.raises(MissingDependency):
            find_java(environment)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            ["apt-get", "sudo"],
            """\
setup: missing on this machine:
  Java 17 or newer                     sudo apt-get install default-jre-headless
  curl                                 sudo apt-get install curl
  redis-server 7 or newer              sudo apt-get install redis-server
all at once: sudo apt-get update, then sudo apt-get install default-jre-headless curl redis-server
""",
        ),
        (
            ["apt-get"],
            """\
setup: missing on this machine:
  Java 17 or newer                     as root: apt-get install default-jre-headless
  curl                                 as root: apt-get install curl
  redis-server 7 or newer              as root: apt-get install redis-server
all at once: as root: apt-get update, then as root: apt-get install \
default-jre-headless curl redis-server
""",
        ),
        (
            ["dnf", "sudo"],
            """\
setup: missing on this machine:
  Java 17 or newer                     sudo dnf install java-headless
  curl                                 sudo dnf install curl
  redis-server 7 or newer              sudo dnf install redis
all at once: sudo dnf install java-headless curl redis
""",
        ),
        (
            ["brew", "sudo"],
            """\
setup: missing on this machine:
  Java 17 or newer                     brew install openjdk@21
  curl                                 brew install curl
  redis-server 7 or newer              brew install redis
all at once (brew is at https://brew.sh): brew install openjdk@21 curl redis
then: export JAVA_HOME="$(brew --prefix openjdk@21)/libexec/openjdk.jdk/Contents/Home"
""",
        ),
        (
            ["sudo"],
            """\
setup: missing on this machine:
  Java 17 or newer
  curl
  redis-server 7 or newer
install them with the packages of this system, then run this again
""",
        ),
    ],
    ids=["sudo", "no-sudo", "fedora", "macos", "other"],
)
def test_whoever_is_not_root_is_told_all_that_is_missing_and_how_to_get_it(
    bare: Path, kind: list[str], expected: str
) -> None:
    for program in kind:
        executable(bare / "bin" / program, f"touch {bare}/was-called")
    if "brew" in kind:
        executable(bare / "bin" / "uname", "echo Darwin")

    ended = set_up(bare)

    assert ended.returncode == 1
    assert [line.rstrip() for line in ended.stderr.splitlines()] == expected.splitlines()
    assert not (bare / ".venv").exists()
    assert not (bare / "was-called").exists()


def test_a_redis_that_is_too_old_is_named(complete: Path) -> None:
    executable(complete / "bin" / "redis-server", "echo Redis server v=6.0.16 sha=0")
    executable(complete / "bin" / "apt-get", "exit 1")

    ended = set_up(complete)

    assert ended.returncode == 1
    assert "redis-server 7 or newer (found: 6)" in ended.stderr
    assert "Java" not in ended.stderr


def test_debians_packages_come_at_once_and_while_pip_works(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    # The packages are there when pip has begun: who did one after the other would wait for ever.
    os.mkfifo(bare / "pip-works")
    fake_python(bare / "bin" / "python3", "3.11", pip=f"echo > {bare}/pip-works")
    script = (
        f'echo "$*" >> {bare}/apt; [ "$1" = update ] || {{ cat {bare}/pip-works; {bring(bare)}; }}'
    )
    executable(bare / "bin" / "apt-get", script)

    ended = set_up(bare)

    assert ended.returncode == 0, ended.stderr
    update, install = (bare / "apt").read_text().splitlines()
    assert update.startswith("update")
    assert install.endswith(f" {WANTED}")
    assert (bare / ".venv" / stamp()).exists()


def test_an_installation_of_debians_that_was_interrupted_is_ended_first(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    executable(bare / "bin" / "dpkg", f'echo "dpkg $*" >> {bare}/apt')
    executable(bare / "bin" / "apt-get", f'echo "apt-get $1" >> {bare}/apt; {bring(bare)}')

    assert set_up(bare).returncode == 0
    assert (bare / "apt").read_text().splitlines() == [
        *("dpkg --configure -a", "apt-get update", "apt-get install"),
    ]


def test_packages_that_cannot_be_installed_are_named(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    executable(bare / "bin" / "apt-get", "echo no network; exit 100")

    ended = set_up(bare)

    assert ended.returncode != 0
    assert "no network" in ended.stderr
    assert f"apt-get could not install {WANTED}" in ended.stderr


@pytest.mark.parametrize("version", ["3.9", "3.15"])
def test_a_python_that_will_not_do_is_named_with_those_that_will(
    complete: Path, version: str
) -> None:
    fake_python(complete / "bin" / "python3", version)
    executable(complete / "bin" / "apt-get", "exit 1")
    executable(complete / "bin" / "sudo", "exit 1")

    ended = set_up(complete)

    assert ended.returncode == 1
    assert f"Python 3.11 to 3.14 (python3 is {version})" in ended.stderr
    assert "uv python install 3.14" in ended.stderr


@pytest.mark.parametrize("user", ["root", "with sudo"])
def test_a_newer_python_that_apt_has_beside_the_systems_own_is_taken(
    complete: Path, user: str
) -> None:
    programs = complete / "bin"
    fake_python(programs / "python3", "3.10")
    fake_python(complete / "apts" / "python3.12", "3.12")
    executable(programs / "sudo", "exit 1")
    executable(programs / "id", "echo 0" if user == "root" else "echo 1000")
    executable(programs / "apt-cache", '[ "$2" != python3.12 ] || echo Package: python3.12')
    installing = f'[ "$1" = update ] || cp {complete}/apts/python3.12 {programs}; echo'
    executable(programs / "apt-get", f'{installing} "$*" >> {complete}/apt')

    ended = set_up(complete)

    if user == "root":
        assert ended.returncode == 0, ended.stderr
        assert "making .venv of python3.12" in ended.stderr
        assert (complete / "apt").read_text().endswith(" python3.12 python3.12-venv\n")
    else:
        assert ended.returncode == 1
        assert "sudo apt-get install python3.12 python3.12-venv" in ended.stderr


def test_uv_brings_the_python_that_is_missing_and_it_is_used(complete: Path) -> None:
    programs = complete / "bin"
    fake_python(programs / "python3", "3.9")
    fake_python(complete / "uvs" / "python", "3.14")
    script = f"""case "$2" in
    find) [ -e {complete}/uv-has ] && echo {complete}/uvs/python ;;
    install) echo "$3" > {complete}/uv-has ;;
    esac"""
    executable(programs / "uv", script)

    ended = set_up(complete)

    assert ended.returncode == 0, ended.stderr
    assert (complete / "uv-has").read_text() == "3.14\n"
    assert f"making .venv of {complete}/uvs/python" in ended.stderr


def test_a_uv_without_network_is_said_with_all_that_is_missing(bare: Path) -> None:
    fake_python(bare / "bin" / "python3", "3.9")
    executable(bare / "bin" / "apt-get", "exit 1")
    executable(bare / "bin" / "uv", "exit 2")

    ended = set_up(bare)

    assert ended.returncode == 1
    assert "Python 3.11 to 3.14 (python3 is 3.9)" in ended.stderr
    assert "uv python install 3.14" in ended.stderr
    assert "apt-get install redis-server" in ended.stderr


def test_what_a_release_brings_may_be_too_old(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    brought = bring(bare, java="11.0.2", redis="6.0.16")
    executable(bare / "bin" / "apt-get", f'[ "$1" = update ] || {brought}')

    ended = set_up(bare)

    assert ended.returncode == 1
    assert "still missing: Java 17 or newer (found: 11)" in ended.stderr
    assert "still missing: redis-server 7 or newer (found: 6)" in ended.stderr
    assert "JAVA_HOME" in ended.stderr


def test_where_the_default_java_is_too_old_a_newer_one_is_installed(bare: Path) -> None:
    executable(bare / "bin" / "id", "echo 0")
    shown = 'echo "Depends: ca-certificates-java, openjdk-11-jre-headless"'
    executable(bare / "bin" / "apt-cache", f'[ "$2" != default-jre-headless ] || {shown}')
    executable(bare / "bin" / "apt-get", f'echo "$*" >> {bare}/apt; {bring(bare)}')

    assert set_up(bare).returncode == 0
    assert (bare / "apt").read_text().endswith(" openjdk-17-jre-headless curl redis-server\n")


def test_lists_that_another_one_reads_are_waited_for(bare: Path) -> None:
    programs = bare / "bin"
    executable(programs / "id", "echo 0")
    executable(programs / "sleep", f"touch {bare}/was-free")
    locked = f"[ -e {bare}/was-free ] || {{ echo E: Could not get lock; exit 100; }}"
    executable(programs / "apt-get", f'if [ "$1" = update ]; then {locked}; else {bring(bare)}; fi')

    ended = set_up(bare)

    assert ended.returncode == 0, ended.stderr
    assert (bare / "was-free").exists()


def test_a_named_python_that_will_not_do_is_refused(complete: Path) -> None:
    ended = set_up(complete, {"SETUP_PYTHON": "python3.13"})

    assert ended.returncode == 1
    assert "SETUP_PYTHON=python3.13 is no Python 3.11 to 3.14" in ended.stderr
    assert not (complete / ".venv").exists()


def test_a_named_python_is_taken_for_a_new_environment(complete: Path) -> None:
    fake_python(complete / "bin" / "mine", "3.13")

    ended = set_up(complete, {"SETUP_PYTHON": "mine"})

    assert ended.returncode == 0, ended.stderr
    assert "making .venv of mine" in ended.stderr


def test_a_second_run_does_nothing(complete: Path) -> None:
    assert set_up(complete).returncode == 0
    second = set_up(complete)

    assert second.returncode == 0
    assert second.stderr == ""
    assert (complete / "pip").read_text() == "pip\n"


@pytest.mark.parametrize("harm", ["no pip", "no python", "too old", "upgraded"])
def test_an_environment_that_does_not_work_is_made_anew(complete: Path, harm: str) -> None:
    assert set_up(complete).returncode == 0
    inner = complete / ".venv" / "bin" / "python"
    (complete / ".venv" / "old").touch()
    if harm == "no pip":
        # Interrupted while it was made.
        shutil.rmtree(complete / ".venv" / "lib")
    elif harm == "no python":
        inner.unlink()
        inner.symlink_to("/nowhere/python3.10")
    elif harm == "too old":
        executable(inner, "echo 3.10")
    else:
        # The system's Python was replaced by a newer one, which has no packages here.
        executable(inner, "echo 3.13")

    ended = set_up(complete)

    assert ended.returncode == 0, ended.stderr
    assert "making .venv of python3 in place of one that does not work" in ended.stderr
    assert not (complete / ".venv" / "old").exists()
    assert (complete / "pip").read_text() == "pip\npip\n"


def test_pins_that_come_back_are_installed_again(complete: Path) -> None:
    pins = (complete / "constraints.txt").read_text()
    for text in (pins, f"{pins}x==1\n", pins):
        (complete / "constraints.txt").write_text(text)
        assert set_up(complete).returncode == 0

    assert (complete / "pip").read_text() == "pip\n" * 3


def test_what_pip_could_not_end_goes_on_in_the_second_run(complete: Path) -> None:
    once = f"[ -e {complete}/was-here ] || {{ touch {complete}/was-here; exit 1; }}"
    fake_python(complete / "bin" / "python3", "3.11", pip=once)

    first = set_up(complete)
    second = set_up(complete)

    assert first.returncode == 1
    assert "run this again" in first.stderr
    assert second.returncode == 0, second.stderr
    assert "making .venv" not in second.stderr
    assert (complete / ".venv" / stamp()).exists()


def test_a_disk_that_is_too_small_is_said_before_anything_is_installed(complete: Path) -> None:
    executable(complete / "bin" / "df", "echo; echo disk 9000 0 120 98% /")

    ended = set_up(complete)

    assert ended.returncode == 1
    assert "120 MB are free" in ended.stderr
    assert not (complete / ".venv").exists()
