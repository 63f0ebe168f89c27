"""Log lines: one JSON object each, tracebacks without the values of variables."""

from __future__ import annotations

import json
import logging
import warnings
from typing import TYPE_CHECKING

import pytest
import structlog

from service.settings import LoggingSettings
from service.telemetry import Telemetry, configure_logging

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def _restored() -> Iterator[None]:
    """Gives back the logging that the other tests have."""
    configuration = structlog.get_config()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)
    structlog.configure(**configuration)


def fail_with(secret: str) -> None:
    raise ValueError(f"{len(secret)} characters")


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_places_and_no_variables(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_logging(LoggingSettings(format=form))
    secret = "N" + str(14_228)

    try:
        fail_with(secret)
    except ValueError:
        structlog.get_logger("x").exception("request failed", pipeline="p")

    said = capsys.readouterr().err
    assert "fail_with" in said
    assert "6 characters" in said
    assert secret not in said


@pytest.mark.usefixtures("_restored")
def test_libraries_log_in_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(LoggingSettings(level="INFO"))

    structlog.get_logger("x").info("pipeline started", epoch=7)
    logging.getLogger("somebody").warning("odd %s", "thing")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("tried for long", UserWarning, stacklevel=1)
    logging.getLogger("uvicorn.access").info("GET /keys/N14228")
    structlog.get_logger("x").debug("nothing to see")

    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    started, odd, tried = lines
    assert (started["event"], started["level"]) == ("pipeline started", "info")
    assert (odd["event"], odd["level"]) == ("odd thing", "warning")
    assert "UserWarning: tried for long" in tried["event"]
    assert tried["level"] == "warning"
    assert started["epoch"] == 7
    assert all("timestamp" in each for each in lines)


def test_two_applications_count_apart() -> None:
    one, other = Telemetry(), Telemetry()

    one.request("GET", "/healthz", 200, 0.1)

    assert b'route="/healthz"' in one.exposition()
    assert b'route="/healthz"' not in other.exposition()


def test_closes_are_observed_where_they_were_noted() -> None:
    telemetry = Telemetry()

    telemetry.progress("p", [{"epoch": 1, "close_ms": 3.0}, {"epoch": 2, "close_ms": None}])

    text = telemetry.exposition()
    assert b'tailrace_pipeline_close_seconds_sum{pipeline="p"} 0.003' in text
    assert b'tailrace_pipeline_close_seconds_count{pipeline="p"} 1.0' in text


def test_a_pipeline_that_is_gone_leaves_the_gauges() -> None:
    telemetry = Telemetry()
    telemetry.pipelines({"a": "RUNNING", "b": "FAILED"}, {"a": 1, "b": 2})
    telemetry.pipelines({"a": "RUNNING"}, {"a": 1})

    text = telemetry.exposition()

    assert b'tailrace_pipelines{state="RUNNING"} 1.0' in text
    assert b"FAILED" not in text
    assert b'pipeline="b"' not in text


def test_late_rows_and_orphans_are_counted_by_operator() -> None:
    telemetry = Telemetry()
    nodes = {"6_window": {"late": 2, "orphans": 1}, "3_join": {"orphans": 4}}

    telemetry.progress("p", [{"epoch": 1, "nodes": nodes}, {"epoch": 2, "nodes": nodes}])

    text = telemetry.exposition().decode()
    of_operator = 'operator="6_window",pipeline="p"'
    assert f"tailrace_operator_late_rows_total{{{of_operator}}} 4.0" in text
    assert f"tailrace_operator_orphans_total{{{of_operator}}} 2.0" in text
    assert 'tailrace_operator_late_rows_total{operator="3_join",pipeline="p"} 0.0' in text


def test_metrics_of_a_pipeline_go_with_it() -> None:
    telemetry = Telemetry()
    epoch = {"epoch": 3, "rows_in": 5, "close_ms": 1, "nodes": {"3_join": {"in_flight_peak": 2}}}
    telemetry.pipelines({"p": "RUNNING", "q": "RUNNING"}, {"p": 0, "q": 0})
    for name in ("p", "q"):
        telemetry.progress(name, [epoch])
        telemetry.ingress(name, "flights", 2, 1)
        telemetry.dead_letters(name, 3)

    telemetry.pipelines({"q": "RUNNING"}, {"q": 0})

    shown = telemetry.exposition().decode()
    assert 'pipeline="p"' not in shown
    assert 'tailrace_pipeline_epoch{pipeline="q"} 3.0' in shown
    telemetry.progress("p", [epoch])
    telemetry.dead_letters("p", 1)
    assert 'tailrace_pipeline_dead_letters_total{pipeline="p"} 1.0' in (
        telemetry.exposition().decode()
    )
    assert 'tailrace_pipeline_epochs_total{pipeline="p"} 1.0' in telemetry.exposition().decode()
