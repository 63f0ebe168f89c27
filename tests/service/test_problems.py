"""Problem documents: every error class has a row, every kind is documented, nothing leaks."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis.exceptions

import operators
import service
import state
from service import problem_types as kinds
from service import status_codes
from service.api import errors as api
from service.plan.errors import InvalidProperty
from service.problems import PROBLEMS, problem_of, problem_type_of
from service.runtime.errors import LaunchError
from state.errors import InvariantViolation, StateLost, StateUnavailable, ViewMoved

NEVER_IN_THE_SERVICE = (
    # Raised in another process.
    "service.demo",
    # For tests.
    "operators.testing",
    "state.testing",
    # Answered by the commit of a topic, which takes the transactional id again.
    "service.runtime.sinks.kafka.session",
    # Turned into a rejected line, with its reason, by the decoder.
    "state.line_shapes",
    # Turned into an ExpressionError, with its place in the plan, by whoever catches it.
    "operators.expressions.literals",
    "operators.expressions.java_patterns",
    # Answered by a JSON function's ON ERROR, or NULL.
    "operators.expressions.json_paths",
)


def error_classes() -> list[type[Exception]]:
    """Every error class that the three packages define for others."""
    found: dict[str, type[Exception]] = {}
    for package in (operators, service, state):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.endswith("__main__") or "guard" in module.name:
                continue
            for value in vars(importlib.import_module(module.name)).values():
                if (
                    isinstance(value, type)
                    and not value.__name__.startswith("_")
                    and issubclass(value, Exception)
                    and value.__module__.partition(".")[0] in ("operators", "service", "state")
                ):
                    found[f"{value.__module__}.{value.__qualname__}"] = value
    return [found[name] for name in sorted(found)]


# Of pandas, which we hand no rows.
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
def test_every_error_class_has_a_row() -> None:
    classes = error_classes()
    assert len(classes) > 60

    for each in classes:
        if each.__module__.startswith(NEVER_IN_THE_SERVICE):
            continue
        assert any(ancestor in PROBLEMS for ancestor in each.__mro__), each


def test_the_document_is_the_catalogue() -> None:
    document = Path(__file__).parents[2] / "docs" / "problems.md"

    catalogue = kinds.as_markdown() + status_codes.as_markdown()
    assert document.read_text(encoding="utf-8") == catalogue


def test_slugs_are_unique_and_titles_are_short_facts() -> None:
    assert len({each.slug for each in kinds.CATALOGUE}) == len(kinds.CATALOGUE)
    for each in kinds.CATALOGUE:
        assert each.title[0].islower() or each.title.startswith("Spark"), each.slug
        assert not each.title.endswith("."), each.slug
        assert each.meaning.endswith("."), each.slug
        assert each.action.endswith(("`.", ".")), each.slug
        assert 400 <= each.status < 600


def test_every_kind_is_used() -> None:
    used = {id(each) for each in PROBLEMS.values()}
    framework = {id(kinds.NOT_FOUND), id(kinds.METHOD_NOT_ALLOWED)}

    assert [each.slug for each in kinds.CATALOGUE if id(each) not in used | framework] == []


@pytest.mark.parametrize(
    ("error", "slug"),
    [
        (StateLost("marker 3, checkpoint 5"), "state-lost"),
        (ViewMoved("moved"), "state-unavailable"),
        (InvalidProperty("x is missing"), "plan-invalid"),
        (redis.exceptions.TimeoutError("Timeout reading from 10.0.0.1:6379"), "state-unavailable"),
        (ZeroDivisionError("secret"), "internal"),
        (LaunchError("x"), "internal"),
    ],
)
def test_an_error_is_what_its_nearest_ancestor_says(error: Exception, slug: str) -> None:
    assert problem_type_of(error).slug == slug


def body_of(error: Exception) -> tuple[dict[str, Any], Any]:
    answer = problem_of(error).response("r1", retry_after_ms=1_500)
    assert answer.media_type == "application/problem+json"
    return orjson.loads(answer.body), answer


def test_a_problem_has_the_members_of_rfc_9457_and_where_to_look() -> None:
    body, answer = body_of(
        InvalidProperty("x is missing", hint="add x", node_id=3, path="/nodes/1")
    )

    assert answer.status_code == body["status"] == 422
    assert body == {
        "type": "/docs/problems/plan-invalid",
        "title": "the plan is not valid",
        "status": 422,
        "detail": "x is missing",
        "code": "plan.invalid-property",
        "request_id": "r1",
        "hint": "add x",
        "node_id": 3,
        "path": "/nodes/1",
    }


def test_internal_errors_tell_nothing_of_themselves() -> None:
    for error in (ZeroDivisionError("N14228"), InvariantViolation("N14228")):
        body, answer = body_of(error)
        assert answer.status_code == 500
        assert "N14228" not in answer.body.decode()
        assert body["request_id"] == "r1"


def test_a_redis_error_does_not_tell_the_address() -> None:
    _, answer = body_of(redis.exceptions.ConnectionError("Error 111 connecting to 10.9.8.7:6379"))

    assert answer.status_code == 503
    assert "10.9.8.7" not in answer.body.decode()


def test_retry_after_is_whole_seconds_rounded_up() -> None:
    for error in (StateUnavailable("away"), api.BacklogFull("full")):
        _, answer = body_of(error)
        assert answer.headers["retry-after"] == "2"


def test_half_a_surrogate_pair_in_a_message_is_answered_all_the_same() -> None:
    body, _ = body_of(InvalidProperty("property \ud800 is unknown"))

    assert body["detail"] == "property ? is unknown"
