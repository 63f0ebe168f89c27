"""The README's first command, as a process of its own: it proves its table, serves, and resumes.

The requests that the README and the demo print are sent to it as they are printed; only the port
is another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PLAN = ROOT / "service/demo/latest_flight.plan.json"


@dataclass(frozen=True)
class Ports:
    """Where the processes of one demo listen."""

    service: int
    redis: int
    spark: int

    def flags(self) -> list[str]:
        """As the command line has them."""
        pairs = {"--port": self.service, "--redis-port": self.redis, "--spark-port": self.spark}
        return [str(word) for pair in pairs.items() for word in pair]


@pytest.mark.timeout(900)
def test_the_demo_serves_what_the_readme_asks_and_a_second_run_goes_on(tmp_path: Path) -> None:
    ports = Ports(free_port(), free_port(), free_port())
    with _started(tmp_path, ports) as process, _interrupted_at_the_end(process):
        first = _until_serving(process)

        assert re.search(r"27,004 flights as 133,287 changes in \d+ files", first)
        assert "133,287 changes in" in first
        assert "equal to the batch recomputation" in first
        assert _words(_readme_reply()["text"]) in _words(first)
        assert "pipeline latest-flight exists already" not in first
        _requests_of_the_readme_are_answered(tmp_path, ports)
        _requests_that_the_demo_prints_are_answered(first)

        # The terminal is closed.
        process.send_signal(signal.SIGHUP)
        assert process.wait(timeout=60) == 0
    assert not _processes_below(tmp_path)

    ports = Ports(free_port(), free_port(), free_port())
    with _started(tmp_path, ports) as process, _interrupted_at_the_end(process):
        second = _until_serving(process)

        assert "pipeline latest-flight exists already, and continues" in second
        assert "equal to the batch recomputation" in second

        os.kill(int((tmp_path / "service.pid").read_text()), signal.SIGKILL)
        assert process.wait(timeout=60) == 1
        assert process.stdout is not None
        assert "tailrace: The service has ended" in process.stdout.read()
    assert not _processes_below(tmp_path)


def test_a_busy_port_is_one_clear_line(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = _ended(tmp_path, Ports(port, free_port(), free_port()))

    assert run.returncode == 1
    assert run.stdout.split("\n", 1)[0].startswith(f"tailrace: port {port} is busy")


def _requests_of_the_readme_are_answered(folder: Path, ports: Ports) -> None:
    """Each `curl` of the README, with the bodies that its text describes."""
    plan = json.loads(PLAN.read_text())
    bodies = {
        "@plan-request.json": {"plan": plan},
        # Created, not started: two pipelines of one plan would fight for the cores.
        "@pipeline-request.json": {"name": "orders", "plan": plan, "start": False},
    }
    lines = re.findall(r"^curl .*$", README, re.MULTILINE)
    assert len(lines) >= 3
    for line in lines:
        reply = _curl(line.replace(":8080/", f":{ports.service}/"), bodies)
        assert reply.is_success, (line, reply.text)
        if line.endswith("/explain"):
            assert reply.json()["text"] == _readme_reply()["text"]


def _requests_that_the_demo_prints_are_answered(printed: str) -> None:
    lines = re.findall(r"^ *(curl .*)$", printed, re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        assert _curl(line, {}).is_success, line


def _curl(line: str, bodies: dict[str, object]) -> httpx.Response:
    """What curl would get: `curl -s URL [-H HEADER]... [-d @FILE or text]`."""
    words = shlex.split(line)
    assert words[:2] == ["curl", "-s"]
    url, options = words[2], words[3:]
    headers: dict[str, str] = {}
    body = None
    for flag, value in zip(options[0::2], options[1::2], strict=True):
        if flag == "-H":
            name, _, text = value.partition(": ")
            headers[name] = text
        else:
            assert flag == "-d", line
            body = json.dumps(bodies[value]) if value.startswith("@") else value
    method = "GET" if body is None else "POST"
    return httpx.request(method, url, headers=headers, content=body, timeout=30)


def _started(folder: Path, ports: Ports, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "service", "demo", "--folder", str(folder), *ports.flags()]
    return subprocess.Popen(
        [*command, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # As a terminal leaves it: it is ignored where the tests run under nohup.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )


@contextlib.contextmanager
def _interrupted_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Leave nothing running, whatever ends the test: the demo ends what it started."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)


def _until_serving(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Serving until Ctrl-C"):
            return "".join(lines)
    raise AssertionError("the demo ended: " + "".join(lines))


def _ended(folder: Path, ports: Ports) -> subprocess.CompletedProcess[str]:
    with _started(folder, ports, "--no-stay") as process, _interrupted_at_the_end(process):
        output, _ = process.communicate(timeout=280)
    return subprocess.CompletedProcess(process.args, process.returncode, output)


def _processes_below(folder: Path) -> list[str]:
    """Command lines of live processes that name the folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in text:
            found.append(text)
    return found


def _readme_reply() -> dict[str, str]:
    block = re.search(r"```json\n(.*?)```", README, re.DOTALL)
    assert block is not None
    reply: dict[str, str] = json.loads(block[1])
    return reply


def _words(text: str) -> str:
    return " ".join(text.split())
