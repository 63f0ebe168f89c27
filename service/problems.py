"""From an error to `application/problem+json`: one table, walked by class ancestry.

No route catches anything or raises an HTTP status. An error class says what went wrong; this table
says what that is over HTTP. A class without a row is answered as `internal`, and a test that walks
the error trees of all packages keeps that from happening by oversight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import orjson
import redis.exceptions
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from operators.errors import InvalidSpec, OperatorError
from operators.expressions import errors as expressions
from operators.wire import WorkerError
from service import problem_types as kinds
from service.api import errors as api
from service.api.validation_words import in_words
from service.plan import errors as plan
from service.runtime import dataflow_errors as dataflow
from service.runtime import errors as lifecycle
from service.runtime import inspection_errors as inspection
from service.sql import errors as sql
from state import errors as state
from state.types import LogicalTypeError, UnsupportedType
from state.values import CodecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.problem_types import ProblemType

MEDIA_TYPE = "application/problem+json"

PROBLEMS: Mapping[type[BaseException], ProblemType] = {
    # the request
    api.ApiError: kinds.INTERNAL,
    api.MalformedBody: kinds.MALFORMED_BODY,
    api.BodyTooDeep: kinds.BODY_TOO_DEEP,
    api.BodyTooLarge: kinds.BODY_TOO_LARGE,
    api.UnsupportedMediaType: kinds.UNSUPPORTED_MEDIA_TYPE,
    api.NotAcceptable: kinds.NOT_ACCEPTABLE,
    api.InvalidParameter: kinds.INVALID_REQUEST,
    api.InvalidCursor: kinds.CURSOR_INVALID,
    api.Unauthenticated: kinds.UNAUTHENTICATED,
    api.Forbidden: kinds.FORBIDDEN,
    api.PreconditionFailed: kinds.PRECONDITION_FAILED,
    api.IdempotencyInProgress: kinds.IDEMPOTENCY_IN_PROGRESS,
    api.IdempotencyMismatch: kinds.IDEMPOTENCY_MISMATCH,
    api.PlannerBusy: kinds.PLANNER_BUSY,
    api.PlanUriRefused: kinds.PLAN_URI_REFUSED,
    api.PlanExists: kinds.PLAN_EXISTS,
    api.TokenNotFound: kinds.TOKEN_NOT_FOUND,
    api.TokenGone: kinds.TOKEN_GONE,
    api.NotIngress: kinds.NOT_INGRESS,
    api.MalformedChanges: kinds.MALFORMED_CHANGES,
    api.BacklogFull: kinds.BACKLOG_FULL,
    RequestValidationError: kinds.INVALID_REQUEST,
    # plans
    plan.PlanError: kinds.PLAN_INVALID,
    plan.DurationError: kinds.PLAN_INVALID,
    plan.PlanTimeout: kinds.PLAN_TIMEOUT,
    expressions.ExpressionError: kinds.PLAN_INVALID,
    expressions.UnsupportedExpression: kinds.PLAN_UNSUPPORTED,
    LogicalTypeError: kinds.PLAN_INVALID,
    UnsupportedType: kinds.PLAN_UNSUPPORTED,
    dataflow.DataflowError: kinds.PLAN_INVALID,
    dataflow.InvalidNodeOption: kinds.PLAN_INVALID,
    dataflow.InvalidPipelineOption: kinds.INVALID_REQUEST,
    dataflow.UnsupportedNode: kinds.PLAN_UNSUPPORTED,
    dataflow.UnsupportedConnector: kinds.PLAN_UNSUPPORTED,
    dataflow.UnsupportedChangelog: kinds.PLAN_UNSUPPORTED,
    dataflow.InvalidTableOption: kinds.TABLE_OPTION_INVALID,
    dataflow.PathOutsideRoot: kinds.PATH_OUTSIDE_ROOT,
    # pipelines and what they hold
    dataflow.TaskFailure: kinds.PIPELINE_FAILED,
    WorkerError: kinds.PIPELINE_FAILED,
    lifecycle.LifecycleError: kinds.INTERNAL,
    lifecycle.LaunchError: kinds.INTERNAL,
    lifecycle.RegistryError: kinds.PIPELINE_CONFLICT,
    lifecycle.InvalidPipelineName: kinds.INVALID_REQUEST,
    lifecycle.PipelineExists: kinds.PIPELINE_EXISTS,
    lifecycle.PipelineNotFound: kinds.PIPELINE_NOT_FOUND,
    lifecycle.PipelineDeleting: kinds.PIPELINE_DELETING,
    lifecycle.TooManyPipelines: kinds.PIPELINE_LIMIT,
    lifecycle.VersionConflict: kinds.PRECONDITION_FAILED,
    lifecycle.RegistryUnavailable: kinds.STATE_UNAVAILABLE,
    lifecycle.RegistryCorrupt: kinds.STATE_CORRUPT,
    lifecycle.SparkUnavailable: kinds.SPARK_UNAVAILABLE,
    lifecycle.WorkersDiffer: kinds.PIPELINE_FAILED,
    lifecycle.QueryFailed: kinds.PIPELINE_FAILED,
    lifecycle.StartFailed: kinds.PIPELINE_FAILED,
    lifecycle.QueryStillRunning: kinds.PIPELINE_CONFLICT,
    lifecycle.SqlSessionError: kinds.SESSION_LIMIT,
    lifecycle.SqlSessionNotFound: kinds.SESSION_NOT_FOUND,
    lifecycle.TooManySavepoints: kinds.SAVEPOINT_LIMIT,
    lifecycle.SavepointNotFound: kinds.SAVEPOINT_NOT_FOUND,
    lifecycle.SavepointFailed: kinds.PIPELINE_FAILED,
    inspection.InspectionError: kinds.INTERNAL,
    inspection.OperatorNotFound: kinds.OPERATOR_NOT_FOUND,
    inspection.TableNotFound: kinds.TABLE_NOT_FOUND,
    inspection.KeyMalformed: kinds.KEY_MALFORMED,
    inspection.StateNotFound: kinds.STATE_NOT_FOUND,
    inspection.KeyNotFound: kinds.KEY_NOT_FOUND,
    inspection.KeyExpired: kinds.KEY_EXPIRED,
    sql.SqlError: kinds.SQL_INVALID,
    sql.SqlTimeout: kinds.SQL_TIMEOUT,
    # state
    state.StateError: kinds.INTERNAL,
    state.StateUnavailable: kinds.STATE_UNAVAILABLE,
    state.StateAccessDenied: kinds.STATE_UNAVAILABLE,
    state.Fenced: kinds.STATE_CONFLICT,
    state.IncarnationChanged: kinds.STATE_CONFLICT,
    state.StateLost: kinds.STATE_LOST,
    state.StateCorrupt: kinds.STATE_CORRUPT,
    state.SavepointError: kinds.SAVEPOINT_UNUSABLE,
    state.InvariantViolation: kinds.INTERNAL,
    CodecError: kinds.STATE_CORRUPT,
    OperatorError: kinds.INTERNAL,
    InvalidSpec: kinds.PLAN_INVALID,
    redis.exceptions.RedisError: kinds.STATE_UNAVAILABLE,
}

_OF_STATUS = {
    400: kinds.MALFORMED_BODY,
    404: kinds.NOT_FOUND,
    405: kinds.METHOD_NOT_ALLOWED,
}
"""What the framework itself raises."""
_ADDRESSES = (
    "/docs lists the addresses, /v1/openapi.json for programs; none ends with a slash, and a key "
    "that contains one is written as -?key=[...]"
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One occurrence of a problem, ready to be answered."""

    kind: ProblemType
    detail: str
    code: str
    members: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.kind.status

    @property
    def slug(self) -> str:
        """The kind's name."""
        return self.kind.slug

    def response(self, request_id: str, retry_after_ms: int) -> Response:
        """The answer; `retry_after_ms` is told where trying again may help."""
        body = {
            "type": self.kind.uri,
            "title": self.kind.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "request_id": request_id,
            **self.members,
        }
        headers = dict(self.headers)
        if self.kind.is_retriable:
            headers["Retry-After"] = str(math.ceil(retry_after_ms / 1_000))
        # Names out of a plan may hold half a surrogate pair, which JSON in UTF-8 cannot.
        content = orjson.dumps(_unicode(body))
        return Response(content, self.status, headers, MEDIA_TYPE)


def problem_type_of(error: BaseException) -> ProblemType:
    """The row of the nearest ancestor that has one."""
    for ancestor in type(error).__mro__:
        if ancestor in PROBLEMS:
            return PROBLEMS[ancestor]
    return kinds.INTERNAL


def problem_of(error: BaseException) -> Problem:
    """What an error is over HTTP; of an internal one only the title gets out."""
    if isinstance(error, HTTPException):
        return _of_framework(error)
    if isinstance(error, api.StatementFailed) and error.__cause__ is not None:
        cause = problem_of(error.__cause__)
        return replace(cause, members={**cause.members, **error.members})
    kind = problem_type_of(error)
    code = str(getattr(error, "code", kind.slug))
    if kind.is_internal:
        return Problem(kind, kind.title, code)
    if isinstance(error, RequestValidationError):
        places = _places(error)
        return Problem(kind, _in_words(places), kind.slug, {"errors": places})
    if isinstance(error, redis.exceptions.RedisError):
        return Problem(kind, kind.title, kind.slug)
    members = {
        name: value
        for name in ("hint", "node_id", "node_type", "path", "function")
        if (value := getattr(error, name, None)) not in (None, "")
    }
    if isinstance(error, sql.SqlError) and error.position is not None:
        members.update(line=error.position.line, column=error.position.column)
    members.update(getattr(error, "members", {}))
    detail = str(getattr(error, "message", None) or error)
    return Problem(kind, detail, code, members, getattr(error, "headers", {}))


def _of_framework(error: HTTPException) -> Problem:
    kind = _OF_STATUS.get(error.status_code, kinds.INTERNAL)
    detail = "the body is not JSON" if error.status_code == 400 else kind.title
    members = {"hint": _ADDRESSES} if kind is kinds.NOT_FOUND else {}
    return Problem(kind, detail, kind.slug, members, headers=error.headers or {})


def _places(error: RequestValidationError) -> list[dict[str, Any]]:
    """Where and what, but never the value: pydantic's own form has it under `input`."""
    return [_place(each["loc"], in_words(each["type"], each["msg"])) for each in error.errors()]


def _place(place: tuple[str | int, ...], message: str) -> dict[str, Any]:
    # What pydantic puts before the text of a check of ours.
    message = message.removeprefix("Value error, ")
    if place[-1:] == ("[key]",):
        # Of a member of which the name is wrong, not the value.
        place, message = place[:-1], f"its name: {message}"
    return {
        "in": str(place[0]) if place else "body",
        "path": "".join(f"/{_escaped(part)}" for part in place[1:]),
        "message": message,
    }


def _in_words(places: list[dict[str, Any]]) -> str:
    """The first place and what is wrong there, and how many more there are."""
    first, *more = places
    others = f" (and {len(more)} more in `errors`)" if more else ""
    return f"{first['in']} {first['path']}".strip() + f": {first['message']}{others}"


def _escaped(part: str | int) -> str:
    """A part of a JSON pointer (RFC 6901)."""
    return str(part).replace("~", "~0").replace("/", "~1")


def _unicode(value: object) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_unicode(name): _unicode(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_unicode(each) for each in value]
    return value
