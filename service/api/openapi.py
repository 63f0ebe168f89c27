"""The OpenAPI document: what the framework makes of the routes, and what all of them share.

The layers around the routes answer, too, and set headers; none of that is seen by the framework.
The fuzz test holds the document to the answers: status, media type, schema and headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from service.api.models import Problem

if TYPE_CHECKING:
    from fastapi import FastAPI

PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
_KEY = "idempotency-key"
_TEXT = {"type": "string"}
_HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "The request's id in the log: the one it came with, if that is 1 to 64 of "
        "`A-Za-z0-9._-`, else a new one.",
        "schema": _TEXT,
    },
    "ETag": {
        "description": "For If-None-Match, and If-Match where it is taken. Weak where what is "
        "shown is as of an epoch: of all but its number.",
        "schema": _TEXT,
    },
    "Location": {"description": "Where the thing is that was made, or ordered.", "schema": _TEXT},
    "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
    "Allow": {
        "description": "405, and 204 to OPTIONS: the methods of this address.",
        "schema": _TEXT,
    },
    "WWW-Authenticate": {"description": "401: how to say the key.", "schema": _TEXT},
    "Idempotency-Replayed": {
        "description": "`true`: this repeats the first answer to this Idempotency-Key.",
        "schema": _TEXT,
    },
}
_CONDITIONS = {
    "304": (
        "If-None-Match",
        "Entity tags that the client has; the reply is 304 if it would have one of them.",
    ),
    "412": (
        "If-Match",
        "The entity tag of the last read; the reply is 412 if it has changed. A pipeline's tag "
        "depends on its definition, not on its status.",
    ),
}


def document_of(app: FastAPI) -> dict[str, Any]:
    """The document of an application's routes."""
    document: dict[str, Any] = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["Problem"] = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["headers"] = _HEADERS
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    }
    # Without keys in the settings none is asked for.
    document["security"] = [{}, {"bearer": []}, {"apiKey": []}]
    for operations in document["paths"].values():
        for method, operation in operations.items():
            _common_answers(method, operation)
            _conditions(operation)
            for status, answer in operation["responses"].items():
                names = _headers(operation, status, answer)
                answer.setdefault("headers", {}).update(
                    {name: {"$ref": f"#/components/headers/{name}"} for name in names}
                )
    return document


def _common_answers(method: str, operation: dict[str, Any]) -> None:
    """What any route may answer, besides its own."""
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    answers.setdefault("4XX", {"description": "The request is refused.", "content": PROBLEM})
    answers.setdefault("500", {"description": "An error of the service.", "content": PROBLEM})
    answers.setdefault("503", {"description": "A neighbour is away.", "content": PROBLEM})
    if method == "get" and "application/json" in answers["200"].get("content", {}):
        answers.setdefault("304", {"description": "The client has it already (If-None-Match)."})


def _conditions(operation: dict[str, Any]) -> None:
    for status, (name, description) in _CONDITIONS.items():
        if status in operation["responses"]:
            operation.setdefault("parameters", []).append(
                {
                    "name": name,
                    "in": "header",
                    "required": False,
                    "description": description,
                    "schema": _TEXT,
                }
            )


def _headers(operation: dict[str, Any], status: str, answer: dict[str, Any]) -> list[str]:
    """The headers that an answer may have."""
    names = ["X-Request-Id"]
    if status == "304" or "application/json" in answer.get("content", {}):
        names.append("ETag")
    if status == "201" or (status == "202" and "schemas/Savepoint" in str(answer)):
        names.append("Location")
    if status in {"202", "409", "429", "4XX", "503"}:
        names.append("Retry-After")
    if status == "4XX":
        names += ["Allow", "WWW-Authenticate"]
    if any(each["name"].lower() == _KEY for each in operation.get("parameters", ())):
        names.append("Idempotency-Replayed")
    return names
