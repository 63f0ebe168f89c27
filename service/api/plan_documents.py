"""From `plan` or `plan_uri` of a request to the document of a plan.

Files are read below the files root only. Addresses of other hosts are off unless the settings turn
them on; then redirects are not followed, and size and time are bounded. Either way a failure says
nothing about what is there, so that nobody can look around through it.
"""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import httpx

from service.api.body_guard import json_depth
from service.api.deps import in_thread
from service.api.errors import BodyTooDeep, PlanUriRefused
from service.runtime.dataflow_errors import UnsupportedConnector
from service.runtime.files import path_below
from service.sql import ValidationError, compile_script

if TYPE_CHECKING:
    from service.api.models import PlanBody
    from service.runtime.admission import PlanDocument
    from service.settings import Settings


async def document_of(body: PlanBody, settings: Settings) -> PlanDocument:
    """The plan that a request brings or names, not yet looked at.

    Raises:
        PlanUriRefused: it cannot be had.
        PathOutsideRoot: it is a file outside of the files root.
        BodyTooDeep: nested deeper than a body may be.
    """
    if body.plan is not None:
        found: PlanDocument = body.plan
    else:
        assert body.plan_uri is not None
        found = await _at(body.plan_uri, settings)
    if isinstance(found, dict):
        return found
    data = found if isinstance(found, bytes) else found.encode("utf-8", "surrogatepass")
    if json_depth(data) > settings.limits.json_depth_max:
        raise BodyTooDeep(f"the plan is nested deeper than {settings.limits.json_depth_max}")
    return found


async def compiled(script: str) -> dict[str, Any]:
    """The one plan that a script of SQL asks for.

    Raises:
        SqlError: A statement is wrong, or not one of them asks for a plan, or several do.
    """
    planned = await in_thread(compile_script, script)
    if len(planned) != 1:
        raise ValidationError(
            f"the script asks for {len(planned)} plans, and a pipeline runs one",
            hint="put several INSERT statements into one statement set",
        )
    return planned[0].document


async def _at(uri: str, settings: Settings) -> bytes:
    scheme = _scheme(uri)
    if scheme in ("", "file"):
        return await in_thread(_read_file, uri, settings)
    if scheme not in ("http", "https"):
        raise PlanUriRefused(f'scheme "{scheme}" is not one that plans are read from')
    if not settings.files.http_plan_uris_enabled:
        raise PlanUriRefused(
            "plans are not read from http addresses here",
            hint="post the plan inline, or set files.http_plan_uris_enabled",
        )
    return await _fetch(uri, settings)


def _scheme(uri: str) -> str:
    try:
        return urlsplit(uri).scheme
    except ValueError as error:
        raise PlanUriRefused("plan_uri is not an address") from error


def _read_file(uri: str, settings: Settings) -> bytes:
    limit = settings.limits.body_size_max_bytes
    try:
        path = path_below(str(settings.files.root), uri)
        # A pipe or device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise PlanUriRefused("plan_uri names no regular file")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError, UnsupportedConnector) as error:
        raise PlanUriRefused("plan_uri names no file that can be read") from error
    if len(data) > limit:
        raise PlanUriRefused(f"the plan is larger than {limit} bytes")
    return data


async def _fetch(uri: str, settings: Settings) -> bytes:
    limit = settings.limits.body_size_max_bytes
    timeout_s = settings.files.http_plan_timeout_ms / 1_000
    data = bytearray()
    try:
        # The client's own limit is for each read; a server that drips must not hold us either.
        with anyio.fail_after(timeout_s):
            async with (
                _client(timeout_s) as http,
                http.stream("GET", uri, headers={"Accept": "application/json"}) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise PlanUriRefused(f"the address answered with status {answer.status_code}")
                async for part in answer.aiter_bytes():
                    data += part
                    if len(data) > limit:
                        raise PlanUriRefused(f"the plan is larger than {limit} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise PlanUriRefused("the address did not answer with a plan in time") from error
    return bytes(data)


def _client(timeout_s: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False, trust_env=False)
