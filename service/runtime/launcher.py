"""Redis and a Spark Connect server of our own, for `make run`, tests and benchmarks.

Each is started under `guard.py`, so that nothing is left running however this process ends. Both
are used the same way: `start()` returns at once, so that two can start side by side, `wait()`
returns when it answers, `stop()` ends it and what it started; as a context manager it does all
three. Everything that one writes lies below its folder: data, logs, pid file.

How Spark is set up is told in `spark_configuration`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from service.runtime.errors import LaunchFailed, MissingDependency, PortBusy
from service.runtime.spark_configuration import (
    CONNECT_SERVER,
    LOOPBACK,
    SparkOptions,
    spark_configuration,
    spark_environment,
    write_configuration,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

JAVA_MINIMUM = 17
REDIS_MINIMUM = 7
_PROBE_TIMEOUT_S = 20
_POLL_S = 0.05
_GUARD = Path(__file__).with_name("guard.py")


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    home: Path
    major: int


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java of 17 or newer: that of JAVA_HOME, else `java` on the PATH.

    Raises:
        MissingDependency: there is none, or only older ones.
    """
    environment = os.environ if environment is None else environment
    candidates = []
    if home := environment.get("JAVA_HOME"):
        candidates.append(str(Path(home, "bin", "java")))
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        candidates.append(on_path)
    older = []
    for candidate in candidates:
        java = _probe_java(candidate)
        if java is not None and java.major >= JAVA_MINIMUM:
            return java
        if java is not None:
            older.append(f"{candidate} is Java {java.major}")
    advice = f"install Java {JAVA_MINIMUM} or newer (Debian: apt-get install default-jre-headless)"
    if older:
        raise MissingDependency(f"{', '.join(older)}, which is too old: {advice} or set JAVA_HOME")
    raise MissingDependency(f"Java is missing: {advice}")


def java_major(version: str) -> int:
    """The feature release of a `java.version`.

    >>> java_major("17.0.15"), java_major("1.8.0_392"), java_major("21-ea")
    (17, 8, 21)
    """
    found = re.match(r"(?:1\.)?(\d+)", version)
    return int(found[1]) if found else 0


def find_redis_server(environment: Mapping[str, str] | None = None) -> Path:
    """The `redis-server` on the PATH, of version 7 or newer (functions, ACLs as we use them).

    Raises:
        MissingDependency: there is none, or an older one.
    """
    environment = os.environ if environment is None else environment
    binary = shutil.which("redis-server", path=environment.get("PATH", os.defpath))
    advice = f"install redis-server {REDIS_MINIMUM} or newer (Debian: apt-get install redis-server)"
    if binary is None:
        raise MissingDependency(f"redis-server is missing: {advice}")
    found = re.search(r"\bv=(\d+)\.", _output_of(binary, "--version"))
    if found is None or int(found[1]) < REDIS_MINIMUM:
        version = found[1] if found else "of an unknown version"
        raise MissingDependency(f"redis-server at {binary} is {version}, too old: {advice}")
    return Path(binary)


def check_port_free(address: str, port: int, what: str) -> None:
    """Check that nothing listens on a port.

    Raises:
        PortBusy: something does; one line that names the port and who wanted it.
    """
    with socket.socket() as probe:
        # As servers do: connections of a predecessor that linger in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise PortBusy(
                f"port {port} on {address} is busy: {what} cannot listen on it ({error.strerror})",
                hint="stop what listens there, or choose another port",
            ) from error


class EmbeddedServer(ABC):
    """A server process under the guard; not to be used from two threads at a time."""

    title = ""
    log_name = ""
    stop_grace_s = 10.0

    def __init__(self, folder: Path | str, port: int, *, address: str = LOOPBACK) -> None:
        self.folder = Path(folder).absolute()
        self.port = port
        self.address = address
        self.pid: int | None = None
        """Process id of the server itself, from `start` on."""
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def log_file(self) -> Path:
        """What the server says; that of the start before is kept with the suffix `.1`."""
        return self.folder / self.log_name

    @property
    def pid_file(self) -> Path:
        """Holds the process id while the server runs."""
        return self.log_file.with_suffix(".pid")

    @property
    def running(self) -> bool:
        """Whether the process is there; it may not answer yet."""
        return self._guard is not None and self._guard.poll() is None

    def start(self) -> Self:
        """Start the process and return; `wait` tells when it answers.

        Raises:
            MissingDependency: what it runs on is absent.
            PortBusy: its port is taken; nothing was started.
            LaunchFailed: the process could not be made.
        """
        if self.running:
            return self
        command, environment = self._command()
        check_port_free(self.address, self.port, self.title)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.log_file.exists():
            self.log_file.replace(self.log_file.with_name(f"{self.log_name}.1"))
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(self.pid_file), str(self.log_file)]
        with self.log_file.open("ab") as log:
            self._guard = subprocess.Popen(
                [*guard, str(self.stop_grace_s), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env=environment,
                # A Ctrl-C at the terminal reaches us only, and we stop the servers in order.
                start_new_session=True,
            )
        self.pid = self._first_line_of_guard()
        return self

    def wait(self, timeout_s: float = 60.0) -> Self:
        """Return once the server answers.

        Raises:
            LaunchFailed: it ended, with the last line that it logged, or did not answer in time;
                nothing is left running.
        """
        deadline = time.monotonic() + timeout_s
        while not self._answers():
            if not self.running:
                self._release()
                raise LaunchFailed(f"{self.title} ended while it started: {self._last_words()}")
            if time.monotonic() > deadline:
                self.stop()
                raise LaunchFailed(
                    f"{self.title} did not answer within {timeout_s:.0f} s (log: {self.log_file})"
                )
            time.sleep(_POLL_S)
        return self

    def check(self) -> None:
        """Return if the process is there.

        Raises:
            LaunchFailed: it has ended, with the last line that it logged.
        """
        if not self.running:
            raise LaunchFailed(f"{self.title} has ended: {self._last_words()}")

    def stop(self) -> None:
        """End the server and everything that it started: SIGTERM, then SIGKILL. Idempotent."""
        if self._guard is None:
            return
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._release()

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL); its left-over children end with the guard."""
        if self.running and self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
        self._release()

    def join(self) -> int:
        """Wait until the server ends by itself; its exit status (128 + signal, as a shell has it).

        Raises:
            LaunchFailed: it was never started.
        """
        if self._guard is None:
            raise LaunchFailed(f"{self.title} was not started")
        return self._guard.wait()

    def __enter__(self) -> Self:
        self.start()
        try:
            return self.wait()
        except BaseException:  # an interrupt, too, must not leave the server behind
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @abstractmethod
    def _command(self) -> tuple[list[str], dict[str, str]]:
        """Command line and environment; everything that may be missing is looked for here."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether the server answers a request now."""

    def _first_line_of_guard(self) -> int:
        assert self._guard is not None
        assert self._guard.stdout is not None
        ready, _, _ = select.select([self._guard.stdout], [], [], _PROBE_TIMEOUT_S)
        line = self._guard.stdout.readline() if ready else b""
        if not line:
            self.stop()
            raise LaunchFailed(f"{self.title} could not be started: {self._last_words()}")
        return int(line)

    def _release(self) -> None:
        """Wait for the guard's end, which is after that of all below it, and close its pipes."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            guard.wait(self.stop_grace_s + 10)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
        for pipe in (guard.stdin, guard.stdout):
            if pipe is not None:
                pipe.close()
        self.pid_file.unlink(missing_ok=True)
        self.pid = None

    def _last_words(self) -> str:
        try:
            lines = self.log_file.read_text("utf-8", "replace").splitlines()
        except OSError:
            lines = []
        said = [line.strip() for line in lines if line.strip()]
        return f"{said[-1][:300] if said else 'it said nothing'} (log: {self.log_file})"


class EmbeddedRedis(EmbeddedServer):
    """A redis-server that keeps an append-only file in its folder and evicts nothing."""

    title = "Redis"
    log_name = "redis.log"

    def __init__(
        self,
        folder: Path | str,
        port: int,
        *,
        append_fsync: Literal["always", "everysec", "no"] = "always",
    ) -> None:
        super().__init__(folder, port)
        self.append_fsync = append_fsync

    @property
    def url(self) -> str:
        """The address as settings take it."""
        return f"redis://{self.address}:{self.port}/0"

    def _command(self) -> tuple[list[str], dict[str, str]]:
        command = [str(find_redis_server()), "--bind", self.address, "--port", str(self.port)]
        command += ["--dir", str(self.folder), "--daemonize", "no", "--protected-mode", "yes"]
        command += ["--appendonly", "yes", "--appendfsync", self.append_fsync, "--save", ""]
        command += ["--maxmemory-policy", "noeviction", "--loglevel", "notice"]
        # Of a longer listpack each access would look at every entry before its own.
        command += ["--hash-max-listpack-entries", "64", "--zset-max-listpack-entries", "64"]
        return command, dict(os.environ)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((self.address, self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                # While it reads its append-only file it says -LOADING.
                return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False


class EmbeddedSpark(EmbeddedServer):
    """A Spark Connect server out of the installed pyspark package, with our configuration."""

    title = "Spark Connect"
    log_name = "spark.log"

    def __init__(
        self,
        folder: Path | str,
        port: int,
        cores: int = 0,
        *,
        memory_mb: int = 0,
        address: str = LOOPBACK,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port, address=address)
        self.options = SparkOptions(cores, memory_mb, extra or {})

    @property
    def remote(self) -> str:
        """The address as settings and `SparkSession.builder.remote` take it."""
        return f"sc://{LOOPBACK}:{self.port}"

    def _command(self) -> tuple[list[str], dict[str, str]]:
        java = find_java()
        home = spark_home()
        configuration = self.folder / "conf"
        configuration.mkdir(parents=True, exist_ok=True)
        properties = spark_configuration(
            self.folder, port=self.port, address=self.address, options=self.options
        )
        write_configuration(configuration, properties)
        command = [str(home / "bin" / "spark-submit"), "--class", CONNECT_SERVER, "spark-internal"]
        return command, spark_environment(java.home, home, configuration, os.environ)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), 1) as connection:
                connection.settimeout(1)
                # An HTTP/2 preface with empty settings: a gRPC server answers with its own.
                connection.sendall(
                    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
                )
                return len(connection.recv(9)) > 0
        except OSError:
            return False


def spark_home() -> Path:
    """The folder of the installed pyspark package, which carries the server's jars.

    Raises:
        MissingDependency: pyspark is not installed, or without its jars (pyspark-client).
    """
    spec = importlib.util.find_spec("pyspark")
    origin = spec.origin if spec is not None else None
    home = Path(origin).parent if origin is not None else None
    if home is None or not (home / "jars").is_dir():
        raise MissingDependency("Spark is missing: install the Python package pyspark (with jars)")
    return home


def package_version() -> str:
    """The version of this package that is installed here; `unknown` when it runs uninstalled."""
    try:
        return importlib.metadata.version("tailrace")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _probe_java(binary: str) -> Java | None:
    # -XshowSettings tells the real home behind links and wrappers such as /usr/bin/java.
    said = _output_of(binary, "-XshowSettings:properties", "-version")
    home = re.search(r"^\s*java\.home = (.+?)\s*$", said, re.MULTILINE)
    version = re.search(r"^\s*java\.version = (\S+)", said, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(Path(home[1]), java_major(version[1]))


def _output_of(*command: str) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace")
