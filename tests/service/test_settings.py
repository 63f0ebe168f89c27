"""Settings: bounds, frozen values, and `.env.example` against the class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel, ValidationError

from service.settings import (
    DELIMITER,
    PREFIX,
    AuthSettings,
    ExecutionSettings,
    LimitSettings,
    Settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[2] / ".env.example"
ENTIRELY = "a" * 64


def fields_of_all() -> Iterator[tuple[str, Any, Any]]:
    """Environment name, field and default of every setting."""
    for group_name, group in Settings.model_fields.items():
        assert isinstance(group.default, BaseModel)
        for name, field in type(group.default).model_fields.items():
            variable = f"{PREFIX}{group_name}{DELIMITER}{name}".upper()
            yield variable, field, getattr(group.default, name)


def as_text(value: Any) -> str:
    """A default as the environment writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(list(value)) if isinstance(value, tuple) else str(value)


def test_env_example_names_every_setting_with_its_default() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    shown = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    assert shown == {variable: as_text(default) for variable, _, default in fields_of_all()}


def test_env_example_says_what_each_setting_is() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()

    for variable, field, _ in fields_of_all():
        place = next(n for n, line in enumerate(lines) if line.startswith(f"{variable}="))
        assert lines[place - 1] == f"# {field.description}", variable


def test_every_setting_has_one_sentence_and_numbers_name_their_unit() -> None:
    units = ("_ms", "_bytes", "_max", "port", "parallelism", "_default")
    for variable, field, default in fields_of_all():
        assert field.description, variable
        assert field.description.endswith("."), variable
        if type(default) is int:
            assert variable.lower().endswith(units), variable
            assert any(hasattr(each, "ge") for each in field.metadata), f"{variable} has no bound"


def test_the_environment_sets_nested_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_REDIS__URL", "redis://elsewhere:1/2")
    monkeypatch.setenv("TAILRACE_LIMITS__PIPELINES_MAX", "7")
    monkeypatch.setenv("TAILRACE_AUTH__KEYS", f'["ops:operate:{ENTIRELY}"]')

    settings = Settings(_env_file=None)

    assert settings.redis.url == "redis://elsewhere:1/2"
    assert settings.limits.pipelines_max == 7
    assert settings.auth.keys[0].get_secret_value() == f"ops:operate:{ENTIRELY}"


@pytest.mark.parametrize("name", ["TAILRACE_REDIS__URI", "TAILRACE_REDSI__URL", "TAILRACE_URL"])
def test_a_misspelt_setting_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "redis://elsewhere:1/2")

    with pytest.raises(ValidationError):
        Settings(_env_file=None)


@pytest.mark.parametrize("name", ["SPARK__CHECKPOINT_FOLDER", "FILES__ROOT", "SAVEPOINTS__FOLDER"])
@pytest.mark.parametrize("address", ["s3a://bucket/a", "hdfs://name:9000/a", "file:///var/a"])
def test_an_address_is_no_folder(monkeypatch: pytest.MonkeyPatch, name: str, address: str) -> None:
    monkeypatch.setenv(f"TAILRACE_{name}", "/var/s3:/a")
    Settings(_env_file=None)

    monkeypatch.setenv(f"TAILRACE_{name}", address)
    with pytest.raises(ValidationError, match="not an address"):
        Settings(_env_file=None)


def test_settings_are_frozen() -> None:
    settings = Settings(_env_file=None)

    with pytest.raises(ValidationError):
        settings.redis = settings.redis
    with pytest.raises(ValidationError):
        settings.limits.pipelines_max = 1


def test_secrets_show_neither_in_text_nor_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_REDIS__URL", "redis://:hunter2@elsewhere:1/2")
    monkeypatch.setenv("TAILRACE_AUTH__KEYS", f'["ops:operate:{ENTIRELY}"]')
    shown = repr(Settings(_env_file=None))
    assert "hunter2" not in shown
    assert ENTIRELY not in shown

    monkeypatch.setenv("TAILRACE_REDIS__URL", "hunter2")
    with pytest.raises(ValidationError) as refused:
        Settings(_env_file=None)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "key",
    ["ops:operate", "ops:admin:" + ENTIRELY, "ops:read:" + "A" * 64, "o ps:read:" + ENTIRELY, ""],
)
def test_an_api_key_of_another_form_is_refused(key: str) -> None:
    with pytest.raises(ValidationError):
        AuthSettings(keys=(key,))


def test_two_api_keys_of_one_name_are_refused() -> None:
    with pytest.raises(ValidationError):
        AuthSettings(keys=(f"a:read:{ENTIRELY}", f"a:operate:{'b' * 64}"))


def test_pairs_of_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError):
        LimitSettings(page_size_default=10, page_size_max=5)
    with pytest.raises(ValidationError):
        LimitSettings(body_size_max_bytes=1_024, line_size_max_bytes=2_048)
    with pytest.raises(ValidationError):
        ExecutionSettings(restart_backoff_min_ms=10, restart_backoff_max_ms=5)
