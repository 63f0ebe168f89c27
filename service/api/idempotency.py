"""`Idempotency-Key`: the same request sent twice acts once and is answered the same.

The record of a key lives in Redis, so it holds across restarts and instances of the service. It is
locked while the first request runs, then holds that request's answer until its time is over.
Answers of success are kept, and of scripts that failed after a statement had taken effect: it must
not be run again. Whatever else was refused changed nothing, so the client may correct and repeat it
under the same key. A request that is cancelled is carried out all the same while the service lasts,
and its answer kept. The lock has a time limit of its own, which a service that ended or died leaves
behind; after it the key is free again.

Keys of a pipeline's requests are of its name, and outlive it: a start that is sent again starts no
other pipeline. Changes alone are for the one pipeline that they were sent to (`of_pipeline`).

A route whose effect is itself a Redis write can store the answer in the same script (see
`Idempotency.record`), so that no crash can come between the two.

Source: draft-ietf-httpapi-idempotency-key-header: 409 while in progress, 422 for another request.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from copy import copy
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, Final

import anyio
import anyio.to_thread
import orjson
import structlog
from fastapi import Header, Request
from starlette.responses import Response

from service.api.errors import (
    IdempotencyInProgress,
    IdempotencyMismatch,
    InvalidParameter,
    StatementFailed,
)
from service.api.observe import REQUEST_ID
from service.auth import PRINCIPAL
from service.problems import problem_of
from state.backends.names import ANSWERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

    from service.settings import LimitSettings

log = structlog.get_logger(__name__)

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_UNDER_WAY: Final = set["asyncio.Future[Response]"]()
"""Requests with a key that are being carried out: of tasks the event loop keeps weak references."""
_KEPT_HEADERS = ("content-type", "etag", "location", "retry-after")

# The lock may have timed out and be somebody else's by now: only its owner writes or frees it.
_FINISH = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""


async def end_under_way() -> None:
    """End what cancelled requests left under way, while the services that it needs are there.

    Its keys stay locked until their time limit: nobody knows what took effect.
    """
    loop = asyncio.get_running_loop()
    left = [each for each in _UNDER_WAY if each.get_loop() is loop]
    for each in left:
        each.cancel()
    if left:
        await asyncio.wait(left)


def _tell_failure(carried_out: asyncio.Future[Response]) -> None:
    """Log the failure of a request that nobody answers any more; a refusal is none."""
    if carried_out.cancelled() or (failure := carried_out.exception()) is None:
        return
    problem = problem_of(failure)
    if problem.status >= 500:
        told = "request failed after it was cancelled"
        log.error(told, problem=problem.slug, exc_info=failure)


class Idempotency:
    """The key of one request, if it has one."""

    def __init__(
        self,
        client: redis.Redis,
        limits: LimitSettings,
        key: str | None,
        record_key: str,
        *,
        fingerprint: str,
        request_id: str,
    ) -> None:
        self._client = client
        self._limits = limits
        self._fingerprint = fingerprint
        self._request_id = request_id
        self.record_key = record_key if key is not None else None
        """The Redis key of the record; None without an Idempotency-Key."""
        self._is_former: Callable[[str], bool] | None = None
        """Whether an answer under the key that earlier versions had is this pipeline's."""
        self._former_key = self.record_key
        self.lock = orjson.dumps({"fingerprint": fingerprint, "owner": uuid.uuid4().hex})
        """What lies there from the begin of this request until its answer, or its end."""

    def of_pipeline(self, identity: str, is_its: Callable[[str], bool]) -> Idempotency:
        """The key within this pipeline alone: not within one that is made anew under its name.

        Args:
            identity: The pipeline's id.
            is_its: Whether it gave an answer of this body. Earlier versions kept answers by the
                name alone, and a request may be sent again behind an upgrade.
        """
        found = copy(self)
        if self.record_key is not None:
            found.record_key = f"{self.record_key}:{identity}"
            found._is_former = is_its
        return found

    async def run(self, action: Callable[[], Awaitable[Response]]) -> Response:
        """Answer as the first request with this key was, or be the first.

        Raises:
            IdempotencyInProgress: the first one still runs.
            IdempotencyMismatch: the key was used for another request.
        """
        if self.record_key is None:
            return await action()
        # Apart from the request, which may be cancelled: what has begun may have its effect all the
        # same, and the key tells of it only if somebody waits for the outcome.
        carried_out = asyncio.ensure_future(self._carry_out(action))
        _UNDER_WAY.add(carried_out)
        carried_out.add_done_callback(_UNDER_WAY.discard)
        try:
            return await asyncio.shield(carried_out)
        except asyncio.CancelledError:
            carried_out.add_done_callback(_tell_failure)
            raise

    async def _carry_out(self, action: Callable[[], Awaitable[Response]]) -> Response:
        earlier = await anyio.to_thread.run_sync(self._begin)
        if earlier is not None:
            return self._repeat(earlier)
        kept: bytes | None = b""
        try:
            response = await action()
        except StatementFailed as failure:
            if failure.took_effect:
                kept = self.record(self._answer(failure))
            raise
        except asyncio.CancelledError:
            kept = None  # the service ends, and nobody knows whether it was done: the lock stays
            raise
        else:
            if 200 <= response.status_code < 300:
                kept = self.record(response)
            return response
        finally:
            if kept is not None:
                await anyio.to_thread.run_sync(self._end, kept)

    def record(self, response: Response) -> bytes:
        """What is stored of an answer."""
        headers = {
            name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers
        }
        return orjson.dumps(
            {
                "fingerprint": self._fingerprint,
                "status": response.status_code,
                "headers": headers,
                "body": bytes(response.body).decode(),
            }
        )

    def _answer(self, failure: StatementFailed) -> Response:
        """What `service.api.observe` answers, too."""
        return problem_of(failure).response(self._request_id, self._limits.retry_after_ms)

    def _begin(self) -> dict[str, Any] | None:
        assert self.record_key is not None
        lock_ms = self._limits.idempotency_lock_ms
        if self._client.set(self.record_key, self.lock, nx=True, px=lock_ms):
            former = self._former()
            if former is not None:
                self._end(b"")
            return former
        found = self._client.get(self.record_key)
        # Gone between the two commands: as good as still running, and the client will ask again.
        return {} if found is None else dict(orjson.loads(found))

    def _former(self) -> dict[str, Any] | None:
        """The answer that an earlier version kept of this request."""
        if self._is_former is None or self._former_key is None:
            return None
        found = orjson.loads(self._client.get(self._former_key) or b"{}")
        is_answer = "status" in found and found["fingerprint"] == self._fingerprint
        return dict(found) if is_answer and self._is_former(found["body"]) else None

    def _repeat(self, earlier: dict[str, Any]) -> Response:
        if earlier and earlier["fingerprint"] != self._fingerprint:
            raise IdempotencyMismatch(
                "the Idempotency-Key was used for another request", hint="use a new key"
            )
        if "status" not in earlier:
            raise IdempotencyInProgress("the first request with this Idempotency-Key still runs")
        headers = {**earlier["headers"], "Idempotency-Replayed": "true"}
        return Response(earlier["body"], earlier["status"], headers)

    def _end(self, kept: bytes) -> None:
        assert self.record_key is not None
        self._client.eval(
            _FINISH, 1, self.record_key, self.lock, kept, self._limits.idempotency_ttl_ms
        )

    @property
    def ttl_ms(self) -> int:
        """How long an answer is kept."""
        return self._limits.idempotency_ttl_ms


async def idempotency_of(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            description="Up to 255 printable characters, new for each new request. If a request is "
            "sent again with its key, it has no second effect and gets the first answer."
        ),
    ] = None,
) -> Idempotency:
    """The key of a request, within its caller and its pipeline.

    Raises:
        InvalidParameter: the header is not such a text.
    """
    if idempotency_key is not None and _KEY.fullmatch(idempotency_key) is None:
        raise InvalidParameter(
            "Idempotency-Key is not 1 to 255 printable ASCII characters without blanks"
        )
    services = request.app.state.services
    principal = request.scope.get(PRINCIPAL, "")
    digest = _digest(principal, idempotency_key or "")
    pipeline = request.path_params.get("pipeline")
    # Of a pipeline's requests the record lies in the pipeline's slot, where scripts can reach both.
    tag = "tailrace" if pipeline is None else f"tailrace:{{{pipeline}}}"
    own = _digest(request.method, request.url.path, request.url.query, await request.body())
    return Idempotency(
        services.redis,
        services.settings.limits,
        idempotency_key,
        f"{tag}:{ANSWERS.decode()}{digest}",
        fingerprint=own,
        request_id=request.scope[REQUEST_ID],
    )


def _digest(*parts: str | bytes) -> str:
    """A digest in which no two lists of parts run together."""
    hasher = blake2b(digest_size=20)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        hasher.update(len(data).to_bytes(8, "big"))
        hasher.update(data)
    return hasher.hexdigest()
