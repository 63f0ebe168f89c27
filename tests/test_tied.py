"""Servers of tests end with the process of the tests, also where it is killed."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

END_LIMIT_S = 30
REDIS = """
from pathlib import Path
from tests.conftest import RedisServer
server = RedisServer(Path(sys.argv[1]))
server.start()
print(server.process.pid, flush=True)
sys.stdin.read()
"""
DATABASE = """
from tests.service.runtime.sinks.database.servers import running
with running("postgresql") as server:
    print(server.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that the user of a database may enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    # What the killed process left; its server may still be removing files of its own.
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("script", [REDIS, DATABASE], ids=["redis", "postgresql"])
def test_a_killed_process_of_tests_leaves_no_server(open_folder: Path, script: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", f"import sys\n{script}", str(open_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(open_folder)},
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        server = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()

    ended, _, _ = select.select([server], [], [], END_LIMIT_S)

    os.close(server)
    assert ended
