"""What the launcher finds, refuses, starts and surely ends; with real processes, without Spark."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import redis

import service.runtime.spark_configuration as spark_configuration_module
from service.runtime.errors import LaunchFailed, MissingDependency, PortBusy
from service.runtime.launcher import (
    EmbeddedRedis,
    EmbeddedServer,
    EmbeddedSpark,
    find_java,
    find_redis_server,
    java_major,
    spark_home,
)
from service.runtime.spark_configuration import (
    SPEC_OPTION,
    SparkOptions,
    spark_configuration,
    spark_environment,
)
from state.primitives.session import PRIMITIVE_THRESHOLDS
from tests.conftest import free_port

END_LIMIT_S = 30


class Scripted(EmbeddedServer):
    """A shell script in place of a server; it answers as soon as it has made its file."""

    title = "Scripted"
    log_name = "scripted.log"
    stop_grace_s = 0.3

    def __init__(self, folder: Path, script: str) -> None:
        super().__init__(folder, free_port())
        self.script = script

    def _command(self) -> tuple[list[str], dict[str, str]]:
        return ["/bin/sh", "-c", self.script], dict(os.environ)

    def _answers(self) -> bool:
        return (self.folder / "ready").exists()


def executable(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def fake_java(path: Path, home: str, version: str) -> Path:
    return executable(path, f'echo "    java.home = {home}\n    java.version = {version}" >&2')


def end_of(pid: int) -> bool:
    """Wait until a process has ended; without polling, whoever its parent is."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], END_LIMIT_S)[0])
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("version", "major"),
    [("17.0.15", 17), ("1.8.0_392", 8), ("21-ea", 21), ("11.0.2", 11), ("9", 9), ("?", 0)],
)
def test_feature_release_is_read_from_old_and_new_version_texts(version: str, major: int) -> None:
    assert java_major(version) == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin" / "java", "/opt/of home", "21.0.1")
    fake_java(tmp_path / "path" / "java", "/opt/of-path", "17.0.1")

    java = find_java({"JAVA_HOME": f"{tmp_path}/home", "PATH": f"{tmp_path}/path"})

    assert (java.home, java.major) == (Path("/opt/of home"), 21)


def test_java_of_the_path_serves_when_that_of_java_home_is_too_old(tmp_path: Path) -> None:
    fake_java(tmp_path / "home" / "bin" / "java", "/opt/old", "11.0.2")
    fake_java(tmp_path / "path" / "java", "/opt/of-path", "17.0.1")

    java = find_java({"JAVA_HOME": f"{tmp_path}/home", "PATH": f"{tmp_path}/path"})

    assert java.home == Path("/opt/of-path")


def test_too_old_java_is_one_line_that_names_it(tmp_path: Path) -> None:
    fake_java(tmp_path / "java", "/opt/old", "1.8.0_392")

    with pytest.raises(MissingDependency) as refused:
        find_java({"PATH": str(tmp_path)})

    assert f"{tmp_path}/java is Java 8, which is too old" in refused.value.message
    assert "install Java 17 or newer" in refused.value.message
    assert "\n" not in refused.value.message


def test_missing_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="install Java 17 or newer"):
        find_java({"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path / "nowhere")})


def test_java_that_does_not_run_counts_as_missing(tmp_path: Path) -> None:
    executable(tmp_path / "java", "exit 1")

    with pytest.raises(MissingDependency, match="Java is missing"):
        find_java({"PATH": str(tmp_path)})


def test_missing_redis_server_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="redis-server is missing: install"):
        find_redis_server({"PATH": str(tmp_path)})


def test_too_old_redis_server_is_refused(tmp_path: Path) -> None:
    executable(tmp_path / "redis-server", 'echo "Redis server v=6.2.1 sha=0:0 bits=64"')

    with pytest.raises(MissingDependency, match="too old"):
        find_redis_server({"PATH": str(tmp_path)})


def test_redis_keeps_its_data_over_a_restart(tmp_path: Path) -> None:
    port = free_port()
    with EmbeddedRedis(tmp_path, port) as server, redis.Redis(port=port) as client:
        client.set("name", "value")
        assert server.pid_file.read_text().strip() == str(server.pid) == str(_pid_in(client))

    with EmbeddedRedis(tmp_path, port), redis.Redis(port=port) as client:
        assert client.get("name") == b"value"


def test_redis_appends_each_write_and_evicts_nothing(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path, free_port()) as server, redis.Redis.from_url(server.url) as client:
        names = ("appendonly", "appendfsync", "maxmemory-policy", "bind")
        listpacks = ("hash-max-listpack-entries", "zset-max-listpack-entries")
        settings = client.config_get(*names, *listpacks)

    assert settings == {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory-policy": "noeviction",
        "bind": "127.0.0.1",
        # As deploy/redis.conf has it: where collections are spread, listpacks end.
        "hash-max-listpack-entries": str(PRIMITIVE_THRESHOLDS.high),
        "zset-max-listpack-entries": str(PRIMITIVE_THRESHOLDS.high),
    }


def _pid_in(client: redis.Redis) -> int:
    return int(client.info("server")["process_id"])


def test_stop_is_idempotent_and_forgets_the_process(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, free_port()).start().wait()
    pid = server.pid
    assert pid is not None

    server.stop()
    server.stop()

    assert end_of(pid)
    assert not server.running
    assert not server.pid_file.exists()


def test_killed_server_can_be_started_again(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path, free_port()).start().wait()
    with redis.Redis.from_url(server.url) as client:
        client.set("name", "value")

        server.kill()
        assert not server.running
        server.start().wait()

        assert client.get("name") == b"value"
    server.stop()


def test_busy_port_is_one_line_and_starts_nothing(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        with pytest.raises(PortBusy, match=f"port {port} on 127.0.0.1 is busy: Redis cannot"):
            EmbeddedRedis(tmp_path / "folder", port).start()

    assert not (tmp_path / "folder").exists()


def test_server_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "echo first; echo the reason; exit 3").start()

    with pytest.raises(LaunchFailed, match="Scripted ended while it started: the reason"):
        server.wait(END_LIMIT_S)

    assert server.pid is None


def test_server_that_never_answers_is_ended_at_the_limit(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "sleep 600").start()
    pid = server.pid
    assert pid is not None

    with pytest.raises(LaunchFailed, match="did not answer within 0 s"):
        server.wait(0.1)

    assert end_of(pid)


def test_exit_status_of_a_server_that_ends_by_itself_is_given(tmp_path: Path) -> None:
    server = Scripted(tmp_path, "exit 7").start()

    assert server.join() == 7
    server.stop()


def test_command_that_does_not_exist_is_a_failed_launch(tmp_path: Path) -> None:
    class Absent(Scripted):
        def _command(self) -> tuple[list[str], dict[str, str]]:
            return [str(tmp_path / "absent")], dict(os.environ)

    with pytest.raises(LaunchFailed, match="could not be started: FileNotFoundError"):
        Absent(tmp_path, "").start()


# Ignores SIGTERM, and has a child in a process group of its own that does so too, as a Python
# daemon has that is stuck in native code.
STUBBORN = (
    "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM HUP; echo $$ > child; > ready; sleep 600'"
    " & sleep 600; sleep 600"
)


def test_stop_ends_a_server_that_ignores_sigterm_and_what_it_started(tmp_path: Path) -> None:
    server = Scripted(tmp_path, STUBBORN).start().wait(END_LIMIT_S)
    pid, child = server.pid, int((tmp_path / "child").read_text())
    assert pid is not None

    server.stop()

    assert end_of(pid)
    assert end_of(child)


def test_kill_ends_what_the_server_started_too(tmp_path: Path) -> None:
    server = Scripted(tmp_path, STUBBORN).start().wait(END_LIMIT_S)
    child = int((tmp_path / "child").read_text())

    server.kill()

    assert end_of(child)


PARENT = """
import os, sys
from service.runtime.launcher import EmbeddedRedis
server = EmbeddedRedis(sys.argv[1], int(sys.argv[2])).start().wait()
print(server.pid, server._guard.pid, flush=True)
try:
    sys.stdin.read()
finally:
    server.stop()
"""


def start_parent(folder: Path) -> tuple[subprocess.Popen[str], int, int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(folder), str(free_port())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    server, guard = map(int, parent.stdout.readline().split())
    return parent, server, guard


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_the_parent_ends(tmp_path: Path, how: signal.Signals) -> None:
    parent, server, guard = start_parent(tmp_path)

    with parent:
        parent.send_signal(how)

    assert end_of(server)
    assert end_of(guard)


def test_server_ends_with_its_guard(tmp_path: Path) -> None:
    parent, server, guard = start_parent(tmp_path)

    os.kill(guard, signal.SIGKILL)

    assert end_of(server)
    parent.communicate(timeout=END_LIMIT_S)


def test_spark_listens_on_loopback_only_and_tries_tasks_again(tmp_path: Path) -> None:
    found = spark_configuration(tmp_path, port=15002, options=SparkOptions(cores=3))

    assert found["spark.master"] == "local[3,4]"
    assert found["spark.sql.shuffle.partitions"] == "3"
    addresses = ("spark.driver.host", "spark.driver.bindAddress")
    assert {found[name] for name in addresses} == {"127.0.0.1"}
    assert found["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert found["spark.connect.session.manager.defaultSessionTimeout"] == "-1"


def test_spark_hides_the_option_that_holds_the_password_of_redis(tmp_path: Path) -> None:
    """Spark replaces the values of options whose names match, wherever it shows options."""
    found = spark_configuration(tmp_path, port=15002, options=SparkOptions())

    assert re.search(found["spark.redaction.regex"], SPEC_OPTION)


def test_java_takes_the_options_that_spark_gives_it(tmp_path: Path) -> None:
    """One that it does not know keeps a server from starting."""
    found = spark_configuration(tmp_path, port=15002, options=SparkOptions())
    java = find_java().home / "bin" / "java"

    subprocess.run([java, *found["spark.driver.extraJavaOptions"].split(), "-version"], check=True)


def test_extra_spark_settings_replace_ours(tmp_path: Path) -> None:
    options = SparkOptions(cores=1, memory_mb=1500, extra={"spark.ui.enabled": "true"})

    found = spark_configuration(tmp_path, port=1, options=options)

    assert found["spark.ui.enabled"] == "true"
    assert found["spark.driver.memory"] == "1500m"


def test_spark_gets_this_python_and_no_settings_or_spark_variables_of_the_caller(
    tmp_path: Path,
) -> None:
    java = find_java()
    caller = {"PATH": "/bin", "SPARK_REMOTE": "x", "PYSPARK_PYTHON": "y", "TAILRACE_AUTH__KEYS": ""}

    found = spark_environment(java.home, spark_home(), tmp_path, caller)

    assert found["TAILRACE_PYTHON"] == sys.executable
    assert found["JAVA_HOME"] == str(java.home)
    assert found["PATH"] == "/bin"
    assert not {"SPARK_REMOTE", "TAILRACE_AUTH__KEYS"} & found.keys()


@pytest.mark.parametrize("role", ["PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"])
def test_what_spark_starts_is_this_python_without_the_archives_that_spark_puts_first(
    role: str, tmp_path: Path
) -> None:
    caller = {"PATH": "/bin", "PYTHONPATH": str(tmp_path)}
    found = spark_environment(find_java().home, spark_home(), tmp_path, caller)
    # As Spark does to each process: its archives, then ours.
    archive = str(spark_home() / "python" / "lib" / "pyspark.zip")
    found |= {"PYTHONPATH": os.pathsep.join([archive, found["PYTHONPATH"]])}
    program = "import sys, pyspark; print(sys.executable, pyspark.__file__, *sys.path, sep='\\n')"

    done = subprocess.run(
        [found[role], "-c", program], env=found, capture_output=True, text=True, check=True
    )

    executable, imported, _, packages, callers, *rest = done.stdout.splitlines()
    assert executable == sys.executable
    assert imported == str(spark_home() / "__init__.py")
    assert packages == str(Path(spark_configuration_module.__file__).parents[2])
    assert callers == str(tmp_path)
    assert archive not in rest


def test_where_our_script_cannot_be_run_spark_starts_this_python_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "worker_python.sh"
    script.write_text("#!/bin/sh\n")
    monkeypatch.setattr(spark_configuration_module, "WORKER_PYTHON", script)

    found = spark_environment(find_java().home, spark_home(), tmp_path, {})

    assert found["PYSPARK_PYTHON"] == found["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_spark_writes_its_configuration_below_its_folder_before_it_starts(tmp_path: Path) -> None:
    server = EmbeddedSpark(tmp_path, free_port(), 1, extra={"spark.a": "b\\c"})

    command, environment = server._command()

    written = (tmp_path / "conf" / "spark-defaults.conf").read_text()
    assert re.search(rf"^spark.connect.grpc.binding.port {server.port}$", written, re.MULTILINE)
    assert "spark.a b\\\\c\n" in written
    assert environment["SPARK_CONF_DIR"] == str(tmp_path / "conf")
    assert command[-1] == "spark-internal"
