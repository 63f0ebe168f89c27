"""The command line: what is wrong with the settings is told in one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from service.__main__ import app

if TYPE_CHECKING:
    import pytest


def test_serve_refuses_wrong_settings_in_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_LIMITS__PIPELINES_MAX", "0")
    monkeypatch.setenv("TAILRACE_REDIS__URL", "hunter2")

    result = CliRunner().invoke(app, ["serve"])

    assert result.exit_code == 2
    assert "setting LIMITS__PIPELINES_MAX: " in result.output
    assert "setting REDIS__URL: " in result.output
    assert "hunter2" not in result.output
    assert "Traceback" not in result.output
