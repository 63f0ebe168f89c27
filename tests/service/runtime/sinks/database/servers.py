"""Servers of databases for one run of tests, on free loopback ports, with users and passwords.

Neither may run as root, so where tests do, `nobody` runs them. What they keep ends with them,
so nothing is written for good, either.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql

from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD = "tester", "secret-of-the-tests"
START_S = 120
"""For machines that are busy with other things; an idle one needs 2 s."""
ASK_AGAIN_S = 0.1


class Server(ABC):
    """One server; `address` is as `stand.Database` takes it."""

    scheme: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "log"

    @property
    def address(self) -> str:
        return f"jdbc:{self.scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/tests"

    @abstractmethod
    def start(self) -> None:
        """Return once it answers."""

    @abstractmethod
    def stop(self) -> None:
        """End it."""

    def run(self, *command: str) -> None:
        """Run a command to its end, as the user of the server."""
        with self.log.open("ab") as log:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, **as_user()
            )
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {self.log.read_text()[-2_000:]}")


class PostgreSql(Server):
    """PostgreSQL, by its own tools."""

    scheme = "postgresql"

    def start(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.run(
            *(_binary("initdb"), "-D", str(self.folder / "data"), "-U", USER, "--no-sync"),
            *("--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"),
        )
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' "
        self._control("start", "-o", f"{options} -c fsync=off", "-t", str(START_S))
        self.run(
            *(_binary("psql"), "-c", "CREATE DATABASE tests"),
            f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/postgres",
        )

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def _control(self, *what: str) -> None:
        data, log = str(self.folder / "data"), str(self.folder / "data" / "log")
        self.run(_binary("pg_ctl"), "-D", data, "-l", log, "-w", *what)


class MariaDb(Server):
    """MariaDB, the server without its client."""

    scheme = "mariadb"

    def start(self) -> None:
        data = str(self.folder / "data")
        self.run(
            *(_binary("mariadb-install-db"), "--no-defaults", f"--datadir={data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        )
        first = self.folder / "first.sql"
        first.write_text(
            "CREATE DATABASE tests CHARACTER SET utf8mb4;\n"
            f"CREATE USER {USER}@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON tests.* TO {USER}@'127.0.0.1';\n"
        )
        first.chmod(0o644)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(_binary("mariadbd"), "--no-defaults", f"--datadir={data}"),
                    *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"),
                    *(f"--socket={data}/socket", f"--init-file={first}"),
                    *("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **as_user(),
            )
        self._wait()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)

    def _wait(self) -> None:
        """Until it lets our user in, or ends."""
        deadline = time.monotonic() + START_S
        while not self._answers():
            try:
                self._process.wait(ASK_AGAIN_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                self.stop()
            raise RuntimeError(f"mariadbd does not answer: {self.log.read_text()[-2_000:]}")

    def _answers(self) -> bool:
        try:
            pymysql.connect(
                host="127.0.0.1", port=self.port, user=USER, password=PASSWORD, database="tests"
            ).close()
        except pymysql.MySQLError:
            return False
        return True


SERVERS: dict[str, type[Server]] = {"postgresql": PostgreSql, "mysql": MariaDb}
"""By dialect."""


@contextmanager
def running(dialect: str) -> Iterator[Server]:
    """A server with a folder that its user may enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="tailrace-tests-"))
    try:
        if user := as_user():
            os.chown(folder, user["user"], user["group"])
        server = SERVERS[dialect](folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def as_user() -> dict[str, Any]:
    """Whom `subprocess` is to run a server as."""
    if os.geteuid():
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": "/"}


def _binary(name: str) -> str:
    """Where a program is; Debian keeps PostgreSQL's beside the path."""
    places = [str(each) for each in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *places]))
    if found is None:
        raise RuntimeError(f"{name} is not installed: run make setup")
    return found
