"""docker-compose.yml, the images and the settings say the same (no Docker engine is needed)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import TypeAdapter

from service.settings import DELIMITER, PREFIX, Settings
from state.primitives.session import PRIMITIVE_THRESHOLDS

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = ("service", "spark-connect")
DOCS = [str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").glob("*.md"))]


def _settings_of(service: str) -> dict[str, str]:
    return dict(SERVICES[service].get("environment", {}))


def _dockerfile_stages() -> dict[str, str]:
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    parts = re.split(r"^FROM (\S+) AS (\S+)$", text, flags=re.MULTILINE)[1:]
    return {parts[i + 1]: parts[i + 2] for i in range(0, len(parts), 3)}


def test_the_services_are_redis_spark_connect_and_service() -> None:
    assert set(SERVICES) == {"redis", "spark-connect", "service"}


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_a_setting_and_its_value_is_valid(service: str) -> None:
    values: dict[str, dict[str, str]] = {}
    for name, value in _settings_of(service).items():
        assert name.startswith(PREFIX)
        group, field = name.removeprefix(PREFIX).lower().split(DELIMITER)
        values.setdefault(group, {})[field] = value

    settings = Settings(_env_file=None, **values)

    for group, fields in values.items():
        for field in fields:
            assert field in type(getattr(settings, group)).model_fields


def test_addresses_name_services_of_the_file_and_their_ports() -> None:
    settings = _settings_of("service")
    redis_port = re.search(r"^port (\d+)$", (ROOT / "deploy/redis.conf").read_text(), re.MULTILINE)
    assert redis_port is not None
    assert settings["TAILRACE_REDIS__URL"] == f"redis://redis:{redis_port[1]}/0"

    spark_port = settings["TAILRACE_SPARK__REMOTE"].removeprefix("sc://spark-connect:")
    assert f"EXPOSE {spark_port}" in _dockerfile_stages()["spark-connect"]
    assert f"', {spark_port})" in SERVICES["spark-connect"]["healthcheck"]["test"][-1]

    http_port = settings["TAILRACE_HTTP__PORT"]
    assert SERVICES["service"]["ports"] == [f"127.0.0.1:{http_port}:{http_port}"]
    assert f":{http_port}/readyz" in SERVICES["service"]["healthcheck"]["test"][-1]
    assert f"EXPOSE {http_port}" in _dockerfile_stages()["service"]


def test_service_and_workers_share_folders_and_settings() -> None:
    mounted = {volume.split(":")[1] for volume in SERVICES["service"]["volumes"]}
    settings = _settings_of("service")
    # Savepoints are the service's alone.
    savepoints = settings["TAILRACE_SAVEPOINTS__FOLDER"]
    shared = [each for each in SERVICES["service"]["volumes"] if not each.endswith(savepoints)]
    assert shared == SERVICES["spark-connect"]["volumes"]
    assert savepoints in mounted
    assert settings["TAILRACE_SPARK__CHECKPOINT_FOLDER"] in mounted
    assert settings["TAILRACE_FILES__ROOT"] in mounted
    for name, value in _settings_of("spark-connect").items():
        assert settings[name] == value


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_is_pinned_unprivileged_checked_and_limited(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?(-\w+)?", service["image"])
    assert int(service["user"].split(":")[0]) != 0
    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service["healthcheck"]["test"][0] == "CMD"
    limits = service["deploy"]["resources"]["limits"]
    assert TypeAdapter(float).validate_python(limits["cpus"]) > 0
    assert limits["memory"].endswith("g")
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert source in COMPOSE["volumes"] or (ROOT / source).exists()


def test_built_targets_exist_and_carry_the_projects_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    stages = _dockerfile_stages()
    for name in OURS:
        assert SERVICES[name]["build"]["target"] in stages
        assert (ROOT / SERVICES[name]["build"]["dockerfile"]).exists()
        assert SERVICES[name]["image"].endswith(f":{version}")


def test_the_images_run_commands_that_the_package_has() -> None:
    from service.__main__ import app

    commands = {
        command.name or command.callback.__name__.replace("_", "-")
        for command in app.registered_commands
        if command.callback is not None
    }
    for name in OURS:
        command = re.search(r'^CMD \["([\w-]+)"', _dockerfile_stages()[name], re.MULTILINE)
        assert command is not None
        assert command[1] in commands


def test_images_have_one_python_which_is_supported() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bases = re.findall(
        r"^FROM (python:\S+)", (ROOT / "deploy/Dockerfile").read_text(), re.MULTILINE
    )
    assert len(set(bases)) == 1
    named = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-\w+", bases[0])
    assert named is not None
    versions = [each.rpartition(" ")[2] for each in project["classifiers"]]
    assert named[1] in versions
    first, last = versions[0], int(versions[-1].removeprefix("3."))
    assert project["requires-python"] == f">={first},<3.{last + 1}"


@pytest.mark.parametrize("path", ["deploy/Dockerfile", "README.md", *DOCS])
def test_whoever_installs_the_package_gets_the_versions_that_were_tested(path: str) -> None:
    text = (ROOT / path).read_text()
    installs = re.findall(r"pip install[^`\n]*[\"'\s]\.(?:\[[^`\n]*)?(?=[`\"'\n])", text)
    assert [each for each in installs if "--constraint constraints.txt" not in each] == []


def test_the_folders_of_named_volumes_belong_to_the_user_in_the_image() -> None:
    stage = _dockerfile_stages()["service"]
    user = SERVICES["service"]["user"].split(":")[0]
    owned = re.search(
        rf"install --directory --owner={user} --group={user} (.+)$", stage, re.MULTILINE
    )
    assert owned is not None
    assert owned.start() < stage.index("USER ")
    mounted = {volume.split(":")[1] for volume in SERVICES["service"]["volumes"]}
    assert set(owned[1].split()) == mounted


def test_images_are_built_from_the_package_alone() -> None:
    """Whatever lies beside it, such as keys in .env, cannot get into one."""
    patterns = (ROOT / ".dockerignore").read_text().splitlines()
    taken = {each.removeprefix("!") for each in patterns if each.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", _dockerfile_stages()["build"], re.MULTILINE)

    assert next(each for each in patterns if not each.startswith("#")) == "*"
    assert taken == {name for line in copied for name in line.split()}
    assert all((ROOT / name).exists() for name in taken)


def _redis_configuration() -> dict[str, str]:
    lines = (ROOT / "deploy" / "redis.conf").read_text().splitlines()
    return dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))


def test_redis_refuses_writes_before_its_container_is_killed_for_memory() -> None:
    units = {"mb": 2**20, "gb": 2**30, "g": 2**30}

    def bytes_of(text: str) -> int:
        number, unit = re.fullmatch(r"(\d+)([a-z]+)", text).groups()
        return int(number) * units[unit]

    limit = bytes_of(SERVICES["redis"]["deploy"]["resources"]["limits"]["memory"])
    assert 0.5 <= bytes_of(_redis_configuration()["maxmemory"]) / limit <= 0.65


def test_redis_is_a_state_backend_and_not_a_cache() -> None:
    configured = _redis_configuration()
    assert configured["appendonly"] == "yes"
    assert configured["appendfsync"] == "always"
    assert configured["maxmemory-policy"] == "noeviction"
    assert "/usr/local/etc/redis/redis.conf" in SERVICES["redis"]["command"]


@pytest.mark.parametrize("kind", ["hash", "zset"])
def test_redis_keeps_hashes_and_sorted_sets_of_spread_collections_as_tables(kind: str) -> None:
    entries = _redis_configuration()[f"{kind}-max-listpack-entries"]
    assert entries == str(PRIMITIVE_THRESHOLDS.high)
