"""The README's first command, as a process of its own: it proves its table, and resumes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import free_port

ROOT = Path(__file__).parents[2]


def test_the_demo_proves_its_table_and_a_second_run_goes_on(tmp_path: Path) -> None:
    first = _demo(tmp_path)

    assert re.search(r"27,004 flights as 133,287 changes in \d+ files", first)
    assert "133,287 changes in" in first
    assert "equal to the batch recomputation" in first
    assert _words(_readme_reply()["text"]) in _words(first)
    assert "pipeline latest-flight was there" not in first

    second = _demo(tmp_path)

    assert "pipeline latest-flight was there: it goes on" in second
    assert "equal to the batch recomputation" in second


def test_a_busy_port_is_one_clear_line(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        run = _start(tmp_path, port)

    assert run.returncode == 1
    assert run.stdout.split("\n", 1)[0].startswith(f"tailrace: port {port} is busy")


def _demo(folder: Path) -> str:
    run = _start(folder, free_port())
    log = folder / "service.log"
    assert run.returncode == 0, run.stdout + log.read_text()[-2_000:]
    return run.stdout


def _start(folder: Path, port: int) -> subprocess.CompletedProcess[str]:
    ports = ["--port", port, "--redis-port", free_port(), "--spark-port", free_port()]
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "service",
            "demo",
            "--no-stay",
            "--folder",
            folder,
            *map(str, ports),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
        cwd=ROOT,
    )


def _readme_reply() -> dict[str, str]:
    block = re.search(r"```json\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block is not None
    reply: dict[str, str] = json.loads(block[1])
    return reply


def _words(text: str) -> str:
    return " ".join(text.split())
