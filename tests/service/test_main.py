"""The command line: what is wrong with the settings is told in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from service.__main__ import app
from service.runtime.errors import LaunchError

if TYPE_CHECKING:
    import pytest

    from service.runtime.launcher import EmbeddedSpark


def test_serve_refuses_wrong_settings_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_LIMITS__PIPELINES_MAX", "0")
    monkeypatch.setenv("TAILRACE_REDIS__URL", "hunter2")

    result = CliRunner().invoke(app, ["serve"])

    assert result.exit_code == 2
    assert "setting LIMITS__PIPELINES_MAX: " in result.output
    assert "setting REDIS__URL: " in result.output
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output


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
