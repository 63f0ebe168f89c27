"""Servers of databases for one run of tests, on free loopback ports, with users and passwords.

Neither may run as root, so where tests do, `nobody` runs them. What they keep ends with them,
so nothing is written for good, either; and they end with the process of the tests.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql

from tests.conftest import free_port
from tests.tied import tied

if TYPE_CHECKING:
    from collections.abc import Iterator

USER, PASSWORD = "tester", "secret-of-the-tests"
START_S = 120
"""For machines that are busy with other things; an idle one needs 2 s."""
ASK_AGAIN_S = 0.1


class Server(ABC):
    """One server; `address` is as `stand.Database` takes it."""

    scheme: str
    parameters = ""
    ends_by = signal.SIGKILL

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.log = folder / "log"

    @property
    def address(self) -> str:
        return (
            f"jdbc:{self.scheme}://{USER}:{PASSWORD}@127.0.0.1:{self.port}/tests{self.parameters}"
        )

    @abstractmethod
    def start(self) -> None:
        """Return once it answers."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether it lets our user in."""

    def serve(self, *command: str) -> None:
        """Start the server, as its user; returns once it answers."""
        user = as_user()
        ids = (user["user"], user["group"]) if user else None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                tied(command, by=self.ends_by, user=ids),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )
        deadline = time.monotonic() + START_S
        while not self.answers():
            try:
                self.process.wait(ASK_AGAIN_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
                self.stop()
            raise RuntimeError(f"{command[0]} does not answer: {self.log.read_text()[-2_000:]}")

    def stop(self) -> None:
        """End it at once: what it keeps goes with it."""
        self.process.send_signal(self.ends_by)
        self.process.wait(timeout=10)

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
    ends_by = signal.SIGQUIT
    """An immediate shutdown, which gives its shared memory back."""

    def start(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self.run(
            *(_binary("initdb"), "-D", str(self.folder / "data"), "-U", USER, "--no-sync"),
            *("--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8"),
        )
        self.serve(
            *(_binary("postgres"), "-D", str(self.folder / "data"), "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            *("-c", "fsync=off"),
        )
        with self._connected(autocommit=True) as connection:
            connection.execute("CREATE DATABASE tests")

    def answers(self) -> bool:
        try:
            self._connected().close()
        except psycopg.OperationalError:
            return False
        return True

    def _connected(self, **options: Any) -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user=USER,
            password=PASSWORD,
            dbname="postgres",
            **options,
        )


class MariaDb(Server):
    """MariaDB, the server without its client."""

    scheme = "mariadb"
    # It has no certificate; and a driver that may use one reads all that the machine trusts before
    # each connection.
    parameters = "?sslMode=DISABLED"

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
        self.serve(
            *(_binary("mariadbd"), "--no-defaults", f"--datadir={data}"),
            *("--bind-address=127.0.0.1", f"--port={self.port}", "--skip-name-resolve"),
            *(f"--socket={data}/socket", f"--init-file={first}"),
            *("--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"),
        )

    def answers(self) -> bool:
        try:
            pymysql.connect(
                host="127.0.0.1",
                port=self.port,
                user=USER,
                password=PASSWORD,
                database="tests",
                ssl_disabled=True,
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
    """Where a program is; Debian, Fedora and Homebrew keep some beside the path."""
    versions = [
        *Path("/usr/lib/postgresql").glob("*/bin"),
        *Path("/opt/homebrew/opt").glob("postgresql@*/bin"),
    ]
    places = ["/usr/sbin", "/usr/libexec", *map(str, sorted(versions, reverse=True))]
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *places]))
    if found is None:
        raise RuntimeError(f"{name} is not installed: run make setup")
    return found
