"""The command line: what is wrong with the settings is told in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from service.__main__ import app
from service.runtime.errors import LaunchError

if TYPE_CHECKING:
    from service.runtime.launcher import EmbeddedSpark


def test_serve_refuses_wrong_settings_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_LIMITS__PIPELINES_MAX", "0")
    monkeypatch.setenv("TAILRACE_REDIS__URL", "hunter2")

    result = CliRunner().invoke(app, ["serve"])

    assert result.exit_code == 2
    assert "setting TAILRACE_LIMITS__PIPELINES_MAX: " in result.output
    assert "setting TAILRACE_REDIS__URL: " in result.output
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        (
            "TAILRACE_HTTP__PROT",
            "1",
            "setting TAILRACE_HTTP__PROT: there is none of this name; did you mean "
            "TAILRACE_HTTP__PORT?",
        ),
        ("TAILRACE_HTPP__PORT", "1", "setting (all): no setting is called TAILRACE_HTPP__PORT"),
        (
            "TAILRACE_AUTH__KEYS",
            "hunter2",
            'setting TAILRACE_AUTH__KEYS: must be a JSON array of texts, such as ["a", "b"]',
        ),
    ],
)
def test_a_setting_that_cannot_be_read_is_told_with_what_it_should_be(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv(name, value)

    result = CliRunner().invoke(app, ["serve"])

    assert (result.exit_code, result.output.strip()) == (2, told)


def test_a_line_of_sparks_configuration_reaches_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[dict[str, str]] = []

    def no_start(server: EmbeddedSpark) -> None:
        found.append(dict(server.options.extra))
        raise LaunchError("not in this test")

    monkeypatch.setattr("service.runtime.launcher.EmbeddedSpark.start", no_start)
    lines = ["--conf", "spark.jars.packages=g:a:1", "--conf", "spark.x=a=b"]

    result = CliRunner().invoke(app, ["spark-connect", *lines])

    assert (result.exit_code, found) == (1, [{"spark.jars.packages": "g:a:1", "spark.x": "a=b"}])
    assert CliRunner().invoke(app, ["spark-connect", "--conf", "spark.x"]).exit_code == 2
