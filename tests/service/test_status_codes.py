"""Every code that a pipeline's status can tell has a page, and every page is of a code."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from operators.errors import OperatorError
from operators.expressions.errors import ExpressionError
from service import problem_types, status_codes
from service.plan.errors import PlanError
from service.runtime import errors as lifecycle
from service.runtime.dataflow_errors import DataflowError, TaskFailure
from service.runtime.records import Failure
from service.runtime.spark_errors import WORKER_LOST, WORKER_NOT_STARTED
from service.runtime.status import PERMANENT_CODES
from state.errors import StateError
from state.types import LogicalTypeError, UnsupportedType
from state.values import CodecError
from tests.service.api.test_pipelines import body
from tests.service.test_problems import error_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.service.app_client import AppClient

ROOT = Path(__file__).parents[2]
CAN_END_A_QUERY = (
    *(lifecycle.LifecycleError, PlanError, DataflowError, TaskFailure),
    *(OperatorError, ExpressionError, StateError),
    *(LogicalTypeError, UnsupportedType, CodecError),
)
ASKED_WRONGLY = (
    # Answers to requests; no keeper asks so.
    *(lifecycle.LaunchError, lifecycle.RegistryError, lifecycle.SqlSessionError),
)
_MARK = re.compile(r"\[tailrace:([a-z][a-z0-9.-]*)\]")


def of_classes() -> Iterator[str]:
    for each in error_classes():
        if issubclass(each, CAN_END_A_QUERY) and not issubclass(each, ASKED_WRONGLY):
            code = getattr(each, "code", None)
            assert isinstance(code, str), each
            yield code


def in_calls() -> Iterator[str]:
    """Codes of instances: `code="..."`, the first argument of WorkerError, marks in texts."""
    for package in ("service/runtime", "operators", "state"):
        for path in (ROOT / package).rglob("*.py"):
            if "testing" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call):
                    given = [each.value for each in node.keywords if each.arg == "code"]
                    if isinstance(node.func, ast.Name) and node.func.id == "WorkerError":
                        given += node.args[:1]
                    for each in given:
                        if isinstance(each, ast.Constant) and isinstance(each.value, str):
                            yield each.value
                elif (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and ">>>" not in node.value
                ):
                    yield from _MARK.findall(node.value)


@cache
def codes() -> frozenset[str]:
    return frozenset([*of_classes(), *in_calls(), WORKER_NOT_STARTED, WORKER_LOST, "internal"])


# Of pandas, which we hand no rows.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_every_code_has_a_page() -> None:
    assert {"sink-unavailable", "query.gone", "sink-folder-taken", "version-mismatch"} <= codes()

    without = [
        code
        for code in sorted(codes() | PERMANENT_CODES)
        if code not in problem_types.BY_SLUG and status_codes.page_of(code) is None
    ]

    assert without == []


# As above.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_every_page_is_of_a_code() -> None:
    heads = {each.partition(".")[0] for each in codes()}

    assert [each for each in status_codes.BY_CODE if each not in codes() | heads] == []
    assert len(status_codes.BY_CODE) == len(status_codes.CODES)
    assert not status_codes.BY_CODE.keys() & problem_types.BY_SLUG.keys()


def test_pages_are_facts_and_say_what_to_do() -> None:
    for each in status_codes.CODES:
        assert each.meaning.endswith("."), each.code
        assert each.action.endswith("."), each.code


def test_a_page_is_shown_at_its_address(app: AppClient) -> None:
    for code, address in (
        ("query.gone", "query.gone"),
        ("plan.invalid-graph", "plan"),
        ("state-lost", "state-lost"),
    ):
        assert status_codes.address_of(code) == f"/docs/problems/{address}"
        answer = app.get(f"/docs/problems/{code}")
        assert answer.status_code == 200
        assert answer.text.startswith(f"## {address}\n")
    told = app.json("/docs/problems/sink-refused", headers={"Accept": "application/json"})
    assert told["final"] is True
    assert app.get("/docs/problems/nothing.of-it").status_code == 404


def test_the_last_error_is_shown_by_any_service(make_app: Any) -> None:
    app = make_app()
    app.post("/v1/pipelines", body())
    registry = app.app.state.services.registry
    assert app.json("/v1/pipelines/p")["status"]["last_error"] is None

    registry.note_failure("p", Failure("sink-unavailable", "no room", 5, False, "ENOSPC", 7, 3))

    for each in (app, make_app()):
        status = each.json("/v1/pipelines/p")["status"]
        assert status["error"] is None
        assert status["last_error"] == {
            "type": "/docs/problems/sink-unavailable",
            "code": "sink-unavailable",
            "message": "no room",
            "cause": "ENOSPC",
            "at": "1970-01-01T00:00:00.005Z",
            "epoch": 3,
            "restarts": 7,
        }
