"""README's two commands, and the wheel, on bare machines: Debian folders that debootstrap fills.

Each folder is a Debian with Python, git and make, and nothing else. The checkout's last commit is
cloned into it; `make run` is run until its table is proven, and asked as README asks it; then the
tests in a short form; then a wheel is built, installed into an empty environment, and its
`tailrace demo` run. Wheels are tried with the Pythons of this machine, too.

Mounts live in a namespace of their own, processes in another: both end with this program, however
it ends. Its folder ends with it, too, or after a SIGKILL with the next run. The machine's resolver,
certificates and settings of pip go along. Ports 8080, 16379 and 15002 must be free.

usage: python3 scripts/bare.py [--keep] [--mirror ADDRESS] [SUITE ...]       (make test-bare)
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parents[1]
SUITES = ("bookworm", "trixie", "testing")
"""Debian 12 and 13, and what comes next."""
MIRROR = "http://deb.debian.org/debian"
WITHIN_S = 5_400
"""For one command; on two cores the tests take a quarter of it."""
HISTORY = r"first history ([\d.]+) s after the start"
PASSED = re.compile(r"\b(\d+) passed")
PORTS = (8080, 16379, 15002)
"""Of the demo; machines share this one's network."""
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
FOLDERS = Path("/var/tmp")
"""Not /tmp, which is memory on many machines."""
PREFIX = "tailrace-bare-"
INSIDE = "BARE_INSIDE"
PR_SET_PDEATHSIG = 1
"""Of Linux's prctl(2)."""


class BareError(Exception):
    """A command on a bare machine did not do what README says it does."""


@dataclass
class Machine:
    """A folder to which processes are confined; without one, this machine itself."""

    name: str
    root: Path | None
    logs: Path
    environment: dict[str, str]
    results: dict[str, str] = field(default_factory=dict)

    def start(self, command: str, folder: str, log: Path) -> subprocess.Popen[bytes]:
        """Run `command` by a shell in `folder`, in a group of its own, as a terminal does."""
        enter = ["chroot", str(self.root)] if self.root else []
        with log.open("wb") as output:
            return subprocess.Popen(
                [*enter, "/bin/bash", "-c", f"cd {folder} && {command}"],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def run(self, command: str, folder: str = "/") -> str:
        """Run `command` to its end and give what it printed; fails with its last lines."""
        log = self.logs / f"{self.name}-{len(list(self.logs.iterdir())):02}.log"
        process = self.start(command, folder, log)
        try:
            status = process.wait(WITHIN_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        printed = log.read_text(errors="replace")
        if status != 0:
            raise BareError(f"{self.name}: `{command}` ended with {status}:\n{_last_lines(log)}")
        return printed

    def processes(self) -> list[str]:
        """What still runs beside this program: its namespace has nothing else between commands."""
        left = []
        for each in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if each.name.isdigit() and int(each.name) != os.getpid():
                    left.append((each / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return [each for each in left if each]


def main() -> int:
    """Parse the command line, and go inside."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suites", nargs="*", default=SUITES, metavar="SUITE", help=str(SUITES))
    parser.add_argument("--mirror", default=MIRROR, help="of Debian's packages")
    parser.add_argument("--keep", action="store_true", help="leave the folders and logs")
    options = parser.parse_args()
    if os.environ.get(INSIDE):
        return _inside(Path(os.environ[INSIDE]), options.suites, options.mirror)
    if sys.platform != "linux" or os.geteuid() != 0:
        print("bare: needs root on Linux, for chroot and mounts: sudo make test-bare")
        return 2
    for program, package in (("debootstrap", "debootstrap"), ("unshare", "util-linux")):
        if not shutil.which(program):
            print(f"bare: {program} is missing: apt-get install {package}")
            return 2
    for port in PORTS:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                print(f"bare: port {port} is busy: stop what listens there")
                return 2
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, _interrupt)
    _remove_left_behind()
    scratch = Path(tempfile.mkdtemp(prefix=PREFIX, dir=FOLDERS.resolve()))
    apart = ["unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    with (scratch / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [*apart, sys.executable, *sys.argv],
            env={**os.environ, INSIDE: str(scratch)},
            # Ctrl-C is for this program, which ends the other one.
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        try:
            return process.wait()
        except KeyboardInterrupt:
            return 130
        finally:
            for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(each, signal.SIG_IGN)
            process.kill()
            process.wait()
            if options.keep:
                print(f"bare: kept in {scratch}")
            else:
                _remove(scratch)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove_left_behind() -> None:
    """The folders of earlier runs that were killed."""
    for left in FOLDERS.glob(f"{PREFIX}*/lock"):
        with left.open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(left.parent)


def _remove(scratch: Path) -> None:
    """Processes that were killed may hold files for a moment."""
    until = time.monotonic() + 30
    while scratch.exists():
        shutil.rmtree(scratch, ignore_errors=time.monotonic() < until)
        time.sleep(0.1)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _inside(scratch: Path, suites: Sequence[str], mirror: str) -> int:
    """All machines one after the other, then the table."""
    logs = scratch / "logs"
    logs.mkdir()
    # One commit for all, whatever is committed meanwhile.
    checkout = scratch / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", ROOT, checkout], check=True)
    machines, failures = [], []
    for suite in suites:
        machine = Machine(suite, scratch / suite, logs, _environment())
        machines.append(machine)
        failures += _attempt(machine, lambda each: _try_suite(each, checkout, mirror))
        shutil.rmtree(scratch / suite / "tailrace", ignore_errors=True)
    for python in _pythons(checkout):
        version = subprocess.check_output([python, "-V"], text=True).split()[1]
        home = scratch / f"python-{version}"
        home.mkdir()
        machine = Machine(f"python-{version}", None, logs, {**_environment(), "HOME": str(home)})
        machine.environment["PATH"] = os.environ["PATH"]
        machine.results = {"Python": version}
        machines.append(machine)
        shutil.copytree(checkout, home / "tailrace")
        failures += _attempt(machine, lambda each, at=home, by=python: _try_here(each, at, by))
    print(_table(machines))
    for failure in failures:
        print(f"\n{failure}")
    return 1 if failures else 0


def _attempt(machine: Machine, what: Callable[[Machine], None]) -> list[BareError]:
    began = time.monotonic()
    try:
        what(machine)
    except (BareError, OSError, subprocess.SubprocessError) as error:
        return [error if isinstance(error, BareError) else BareError(f"{machine.name}: {error}")]
    finally:
        took = time.monotonic() - began
        print(f"bare: {machine.name} took {took:.0f} s: {machine.results}", flush=True)
    return []


def _try_suite(machine: Machine, checkout: Path, mirror: str) -> None:
    root = machine.root
    assert root is not None
    _make_debian(machine.name, root, mirror)
    shutil.copytree(checkout, root / "tailrace")
    machine.results["Python"] = machine.run("python3 -V").split()[1]
    began = time.monotonic()
    with _demo(machine, "make run", "/tailrace") as first_history:
        machine.results["until it serves"] = f"{time.monotonic() - began:.0f} s"
        machine.results["first history"] = f"{first_history} s"
        _ask(machine, checkout)
    java = machine.run("java -version 2>&1")
    machine.results["Java"] = _found(r'version "([^"]+)"', java)
    machine.results["Redis"] = _found(r" v=(\S+)", machine.run("redis-server --version"))
    began = time.monotonic()
    with _demo(machine, "make run", "/tailrace"):
        machine.results["again"] = f"{time.monotonic() - began:.0f} s"
    passed = PASSED.findall(machine.run("make test-short", "/tailrace"))
    machine.results["tests"] = " + ".join(passed) + " passed"
    machine.run(".venv/bin/python -m pip wheel -q --no-deps -w dist .", "/tailrace")
    _try_wheel(machine, "python3", "/tailrace", "/root")


def _try_here(machine: Machine, home: Path, python: str) -> None:
    """A wheel of the last commit, with a Python of this machine."""
    machine.run(f"{python} -m pip wheel -q --no-deps -w dist .", str(home / "tailrace"))
    _try_wheel(machine, python, str(home / "tailrace"), str(home))


def _try_wheel(machine: Machine, python: str, checkout: str, home: str) -> None:
    """The wheel in an empty environment, in a folder from which no source can be imported."""
    install = f"empty/bin/python -m pip install -q -c {checkout}/constraints.txt"
    machine.run(f"{python} -m venv empty && {install} {checkout}/dist/tailrace-*.whl", home)
    with _demo(machine, "empty/bin/tailrace demo", home):
        machine.results["wheel"] = "runs"


def _make_debian(suite: str, root: Path, mirror: str) -> None:
    include = "--include=ca-certificates,git,make,python3"
    log = root.parent / "logs" / f"{suite}-debootstrap.log"
    with log.open("wb") as output:
        command = ["debootstrap", "--variant=minbase", include, suite, str(root), mirror]
        ended = subprocess.run(command, stdout=output, stderr=output, check=False)
    if ended.returncode:
        raise BareError(f"{suite}: debootstrap failed:\n{_last_lines(log)}")
    subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
    subprocess.run(["mount", "--rbind", "/dev", root / "dev"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", root / "dev/shm"], check=True)
    # A folder has no init: packages must not start services in it.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    if suite == "testing":
        # A mirror's copy of it may be older than it says it stays valid.
        (root / "etc/apt/apt.conf.d/00-valid").write_text('Acquire::Check-Valid-Until "false";\n')
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    if CERTIFICATES.exists():
        shutil.copy(CERTIFICATES, root / str(CERTIFICATES)[1:])


def _environment() -> dict[str, str]:
    """A fresh login's, with what leads to the network on this machine."""
    kept = re.compile(r"(?i)(http|https|no|all)_proxy|PIP_(EXTRA_)?INDEX_URL|PIP_DEFAULT_TIMEOUT")
    passed = {name: value for name, value in os.environ.items() if kept.fullmatch(name)}
    for setting in ("index-url", "extra-index-url"):
        asked = subprocess.run(
            [sys.executable, "-m", "pip", "config", "get", f"global.{setting}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            passed.setdefault(f"PIP_{setting.replace('-', '_').upper()}", asked.stdout.strip())
    if CERTIFICATES.exists():
        passed.update({"PIP_CERT": str(CERTIFICATES), "SSL_CERT_FILE": str(CERTIFICATES)})
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb", **passed}


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise BareError(f"{pattern} is not in:\n{text}")
    return found[1]


def _last_lines(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-40:])


@contextlib.contextmanager
def _demo(machine: Machine, command: str, folder: str) -> Iterator[str]:
    """The demo until its table is proven; behind it, ended by Ctrl-C and nothing left."""
    log = machine.logs / f"{machine.name}-{len(list(machine.logs.iterdir())):02}-demo.log"
    process = machine.start(command, folder, log)
    until = time.monotonic() + WITHIN_S
    try:
        while "Serving until Ctrl-C" not in (printed := log.read_text(errors="replace")):
            if process.poll() is not None or time.monotonic() > until:
                raise BareError(f"{machine.name}: `{command}` does not serve:\n{_last_lines(log)}")
            time.sleep(0.2)
        if "equal to the batch recomputation" not in printed:
            raise BareError(f"{machine.name}: `{command}` has not proven its table:\n{printed}")
        yield _found(HISTORY, printed)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(60)
            is_ended = True
        except subprocess.TimeoutExpired:
            is_ended = False
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not is_ended:
        raise BareError(f"{machine.name}: `{command}` does not end by Ctrl-C")
    if left := machine.processes():
        raise BareError(f"{machine.name}: `{command}` left {left}")


def _ask(machine: Machine, checkout: Path) -> None:
    """README's first request, as it stands there."""
    readme = (checkout / "README.md").read_text()
    request = _found(r"(?m)^(curl -s http\S+/explain)$", readme)
    answer = machine.run(request)
    if not json.loads(answer).get("text", "").startswith("Entry 7 is current"):
        raise BareError(f"{machine.name}: {request} answered {answer}")


def _pythons(checkout: Path) -> list[str]:
    """The supported Pythons of this machine that have venv and pip: of the PATH, and of pyenv."""
    bounds = re.search(
        r'requires-python = ">=3\.(\d+),<3\.(\d+)"', (checkout / "pyproject.toml").read_text()
    )
    assert bounds is not None
    found = {}
    for minor in range(int(bounds[1]), int(bounds[2])):
        folders = Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")
        for candidate in (shutil.which(f"python3.{minor}"), *map(str, folders)):
            asked = [candidate or "false", "-c", "import ensurepip, pip, venv"]
            if subprocess.run(asked, capture_output=True, check=False).returncode == 0:
                found.setdefault(minor, asked[0])
    return list(found.values())


def _table(machines: Sequence[Machine]) -> str:
    columns = (
        "Python",
        "Java",
        "Redis",
        "until it serves",
        "first history",
        "again",
        "tests",
        "wheel",
    )
    lines = [f"| machine | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for machine in machines:
        cells = [machine.results.get(each, "-") for each in columns]
        lines.append(f"| {machine.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
