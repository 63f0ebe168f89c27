"""What the HTTP layer itself refuses.

    ApiError
    ├── RequestRefused           the request as such
    │   ├── MalformedBody, BodyTooDeep, BodyTooLarge, UnsupportedMediaType, NotAcceptable
    │   ├── InvalidParameter, InvalidCursor
    │   ├── Unauthenticated, Forbidden
    │   ├── PreconditionFailed
    │   └── IdempotencyInProgress, IdempotencyMismatch
    ├── PlannerBusy              other scripts and plans are being worked on
    ├── PlanUriRefused           the plan cannot be had from its address, or not written there
    ├── PlanExists               the address of a plan to write is taken
    ├── StatementFailed          a statement of a script; those before it have taken effect
    ├── TokenRefused             TokenNotFound, TokenGone
    └── IngressRefused
        ├── NotIngress, MalformedChanges, BacklogFull
Messages never hold values of rows or keys.
"""

from __future__ import annotations


class ApiError(Exception):
    """Base of the tree; `code` is stable, `members` go into the reply beside the standard ones."""

    code = "api"

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        headers: dict[str, str] | None = None,
        **members: object,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.headers = headers or {}
        self.members = members


class RequestRefused(ApiError):
    """The request as such cannot be taken."""

    code = "api.request"


class MalformedBody(RequestRefused):
    """The body is not JSON."""

    code = "api.request.malformed-body"


class BodyTooDeep(RequestRefused):
    """The body is nested too deeply."""

    code = "api.request.body-too-deep"


class BodyTooLarge(RequestRefused):
    """The body has too many bytes or lines."""

    code = "api.request.body-too-large"


class UnsupportedMediaType(RequestRefused):
    """The body's type or encoding is not the one of the route."""

    code = "api.request.unsupported-media-type"


class NotAcceptable(RequestRefused):
    """No representation suits the Accept header."""

    code = "api.request.not-acceptable"


class InvalidParameter(RequestRefused):
    """A parameter or header is out of range; found by our own code."""

    code = "api.request.invalid-parameter"


class InvalidCursor(RequestRefused):
    """The cursor was not given out by this list."""

    code = "api.request.invalid-cursor"


class Unauthenticated(RequestRefused):
    """No API key, or one that is not known."""

    code = "api.request.unauthenticated"


class Forbidden(RequestRefused):
    """The key's scope does not reach."""

    code = "api.request.forbidden"


class PreconditionFailed(RequestRefused):
    """If-Match names another version."""

    code = "api.request.precondition-failed"


class IdempotencyInProgress(RequestRefused):
    """The first request with this key is not answered yet."""

    code = "api.request.idempotency-in-progress"


class IdempotencyMismatch(RequestRefused):
    """The key was used for another request."""

    code = "api.request.idempotency-mismatch"


class PlannerBusy(ApiError):
    """Other scripts and plans are being worked on, and none of them ended in time."""

    code = "api.planner-busy"


class PlanUriRefused(ApiError):
    """The plan cannot be had from its address."""

    code = "api.plan-uri-refused"


class PlanExists(ApiError):
    """There is something at the address where a plan is to be written."""

    code = "api.plan-exists"


class StatementFailed(ApiError):
    """A statement of a script failed, for the reason that is the cause; it is answered as that."""

    code = "api.statement-failed"
    took_effect = False
    """Whether the script, up to its failure, did something that stays when the request is over."""


class TokenRefused(ApiError):
    """The completion token is of no use."""

    code = "api.token"


class TokenNotFound(TokenRefused):
    """Not a completion token of this pipeline."""

    code = "api.token.not-found"


class TokenGone(TokenRefused):
    """A completion token of an earlier pipeline of this name."""

    code = "api.token.gone"


class IngressRefused(ApiError):
    """Ingress takes nothing of this request."""

    code = "api.ingress"


class NotIngress(IngressRefused):
    """The table's connector is another one."""

    code = "api.ingress.not-ingress"


class MalformedChanges(IngressRefused):
    """Lines are malformed and the pipeline's option says to fail."""

    code = "api.ingress.malformed-changes"


class BacklogFull(IngressRefused):
    """Too many accepted changes wait to be read."""

    code = "api.ingress.backlog-full"
