"""Where plans lie: files below the files root, and remote folders that the settings list.

    plans/a.json, file:plans/a.json    below `files.root`; links are followed, and may not lead out
    https://, http://                  read only; redirects are not followed
    s3://, gs://, hdfs://              by pyarrow's file systems, which take keys from the service's
                                       environment, never from an address

Nothing remote is asked unless `files.plan_locations` lists a folder that the address is in, so that
clients cannot make the service call others. Sizes and waits are bounded. A failure says nothing
about what is there, so that nobody can look around through it.
"""

from __future__ import annotations

import contextlib
import os
import stat
import uuid
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

import anyio
import anyio.to_thread
import httpx
from anyio.lowlevel import RunVar

from service.api.errors import PlanExists, PlanUriRefused
from service.runtime.dataflow_errors import UnsupportedConnector
from service.runtime.files import path_below
from service.settings import REMOTE_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from service.settings import Settings

T = TypeVar("T")

_REMOTE_CALLS: RunVar[anyio.CapacityLimiter] = RunVar("remote calls of plans")
REMOTE_CALLS_MAX = 8
"""A remote call that hangs keeps its thread: it must not be one of those that Redis is asked in."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Location:
    """An address, taken apart."""

    scheme: str
    """`file`, or one of `REMOTE_SCHEMES`."""
    authority: str
    """Host and port, or bucket."""
    path: str
    text: str
    """The whole address."""

    @property
    def is_http(self) -> bool:
        """Whether it can only be read."""
        return self.scheme in _PORTS


async def read_plan(uri: str, settings: Settings) -> bytes:
    """The bytes at an address; they may be no plan.

    Raises:
        PlanUriRefused: They cannot be had, or are too many.
        PathOutsideRoot: It is a file outside of the files root.
    """
    place = _located(uri, settings)
    limit = settings.limits.body_size_max_bytes
    if place.scheme == "file":
        data = await _in_thread(_read_file, place, settings)
    elif place.is_http:
        data = await _fetch(place, settings)
    else:
        data = await _remote(partial(_read_remote, place, settings), settings)
    if len(data) > limit:
        raise PlanUriRefused(f"the plan is larger than {limit} bytes")
    return data


async def plan_exists(uri: str, settings: Settings) -> bool:
    """Whether there is something at an address.

    Raises:
        PlanUriRefused: It cannot be asked, or is an http address.
        PathOutsideRoot: It is a file outside of the files root.
    """
    place = _located(uri, settings)
    if place.scheme == "file":
        return await _in_thread(_file_exists, place, settings)
    _check_writable(place)
    return await _remote(partial(_remote_exists, place, settings), settings)


async def write_plan(uri: str, data: bytes, settings: Settings, *, replaces: bool) -> None:
    """Write a plan; whoever reads at the same time sees the old one or the new one, whole.

    Args:
        uri: The address.
        data: The plan.
        settings: All settings.
        replaces: Whether a plan that is there may be replaced (`table.plan.force-recompile`).

    Raises:
        PlanExists: There is something, and it may not be replaced or is no plan.
        PlanUriRefused: It cannot be written, or is an http address.
        PathOutsideRoot: It is a file outside of the files root.
    """
    place = _located(uri, settings)
    _check_writable(place)
    if await plan_exists(uri, settings):
        if not replaces:
            raise PlanExists(
                "there is a plan at this address",
                hint="remove it, say IF NOT EXISTS, or SET 'table.plan.force-recompile' = 'true'",
            )
        if b'"flinkVersion"' not in await read_plan(uri, settings):
            # Sources and sinks lie below the same root: a wrong name must not destroy data.
            raise PlanExists("the file at this address is not a plan", hint="remove it by hand")
    if place.scheme == "file":
        await _in_thread(_write_file, place, data, settings, replaces)
    else:
        await _remote(partial(_write_remote, place, data, settings, replaces), settings)


def _located(uri: str, settings: Settings) -> Location:
    """An address taken apart, if it may be used."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise PlanUriRefused("the address of the plan is none") from error
    if parts.scheme in ("", "file"):
        return Location("file", "", uri, uri)
    if parts.scheme not in REMOTE_SCHEMES:
        raise PlanUriRefused(f'scheme "{parts.scheme}" is not one that plans are read from')
    authority = _authority(parts.scheme, parts.hostname or "", port)
    # Made anew of its parts: whoever reads it next must not read another host out of it.
    whole = urlunsplit((parts.scheme, authority, parts.path, parts.query, ""))
    place = Location(parts.scheme, authority, parts.path, whole)
    is_odd = parts.fragment or "@" in parts.netloc or (parts.query and not place.is_http)
    if (
        is_odd
        or not _is_plain(parts.path)
        or not any(_holds(each, place) for each in settings.files.plan_locations)
    ):
        raise PlanUriRefused(
            "plans are not read from or written to this address here",
            hint="post the plan inline, or list the folder in files.plan_locations",
        )
    return place


def _authority(scheme: str, host: str, port: int | None) -> str:
    host = f"[{host}]" if ":" in host else host
    return host if port is None or port == _PORTS.get(scheme) else f"{host}:{port}"


def _is_plain(path: str) -> bool:
    """Whether a path means what it says: no way up, no separator in disguise."""
    decoded = [unquote(part) for part in path.split("/")]
    return not any(
        part in (".", "..") or "/" in part or "\\" in part or not part.isprintable()
        for part in decoded
    )


def _holds(folder: str, place: Location) -> bool:
    """Whether a place is in a folder of the settings."""
    parts = urlsplit(folder)
    authority = _authority(parts.scheme, parts.hostname or "", parts.port)
    return (parts.scheme, authority) == (place.scheme, place.authority) and place.path.startswith(
        parts.path.rstrip("/") + "/"
    )


def _check_writable(place: Location) -> None:
    if place.is_http:
        raise PlanUriRefused(
            "plans are only read from http addresses", hint="write to a file or a bucket"
        )


async def _in_thread(call: Callable[..., T], *args: object) -> T:
    return await anyio.to_thread.run_sync(call, *args)


async def _remote(call: Callable[[], T], settings: Settings) -> T:
    """A call of a remote file system, within its time."""
    try:
        with anyio.fail_after(settings.files.plan_timeout_ms / 1_000):
            return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=_limiter())
    except (OSError, ValueError, NotImplementedError) as error:
        # TimeoutError is an OSError; pyarrow's errors are one of these.
        raise PlanUriRefused(
            "the plan's file system refuses, has no such file or did not answer in time"
        ) from error


def _limiter() -> anyio.CapacityLimiter:
    """One for each event loop."""
    found = _REMOTE_CALLS.get(None)
    if found is None:
        found = anyio.CapacityLimiter(REMOTE_CALLS_MAX)
        _REMOTE_CALLS.set(found)
    return found


# Files below the root.


def _file(place: Location, settings: Settings) -> Path:
    try:
        return path_below(str(settings.files.root), place.path)
    except (OSError, ValueError, UnsupportedConnector) as error:
        raise PlanUriRefused("the address names no file") from error


def _file_exists(place: Location, settings: Settings) -> bool:
    try:
        return _file(place, settings).exists()
    except OSError as error:
        raise PlanUriRefused("the address names no file that can be looked at") from error


def _read_file(place: Location, settings: Settings) -> bytes:
    path = _file(place, settings)
    try:
        # A pipe or device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise PlanUriRefused("the address names no regular file")
        with path.open("rb") as file:
            return file.read(settings.limits.body_size_max_bytes + 1)
    except OSError as error:
        raise PlanUriRefused("the address names no file that can be read") from error


def _write_file(place: Location, data: bytes, settings: Settings, replaces: bool) -> None:
    path = _file(place, settings)
    # Sources pass over names that begin with a dot.
    draft = path.with_name(f".{uuid.uuid4().hex}.plan")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PlanUriRefused("the plan's folder cannot be made") from error
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if replaces:
            draft.replace(path)
        else:
            os.link(draft, path)
    except FileExistsError as error:
        raise PlanExists("there is a plan at this address", hint="somebody wrote it now") from error
    except OSError as error:
        raise PlanUriRefused("the plan cannot be written there") from error
    finally:
        with contextlib.suppress(OSError):  # in its place already, or never made: raised above
            draft.unlink()


# Addresses of http.


async def _fetch(place: Location, settings: Settings) -> bytes:
    limit = settings.limits.body_size_max_bytes
    timeout_s = settings.files.plan_timeout_ms / 1_000
    data = bytearray()
    try:
        # The client's own limit is for each read; a server that drips must not hold us either.
        with anyio.fail_after(timeout_s):
            async with (
                _client(timeout_s) as http,
                http.stream("GET", place.text, headers={"Accept": "application/json"}) as answer,
            ):
                if answer.status_code != httpx.codes.OK:
                    raise PlanUriRefused(f"the address answered with status {answer.status_code}")
                async for part in answer.aiter_bytes():
                    data += part
                    if len(data) > limit:
                        break
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        raise PlanUriRefused("the address did not answer with a plan in time") from error
    return bytes(data)


def _client(timeout_s: float) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=timeout_s, follow_redirects=False, trust_env=False)


# File systems of pyarrow.


def _opened(place: Location, settings: Settings) -> tuple[Any, str]:
    """The file system of a place, and the path there."""
    # Loaded here: no plan is remote in most services, and it brings three clients with it.
    from pyarrow import fs

    timeout_s = settings.files.plan_timeout_ms / 1_000
    path = unquote(place.path)
    if place.scheme == "s3":
        scheme, _, host = settings.files.plan_s3_endpoint.partition("://")
        where = {"scheme": scheme, "endpoint_override": host} if host else {}
        made = fs.S3FileSystem(connect_timeout=timeout_s, request_timeout=timeout_s, **where)
        return made, place.authority + path
    if place.scheme == "gs":
        made = fs.GcsFileSystem(retry_time_limit=timedelta(seconds=timeout_s))
        return made, place.authority + path
    host, _, port = place.authority.partition(":")
    return fs.HadoopFileSystem(host, int(port or 8020)), path


def _remote_exists(place: Location, settings: Settings) -> bool:
    from pyarrow import fs

    system, path = _opened(place, settings)
    return bool(system.get_file_info(path).type != fs.FileType.NotFound)


def _read_remote(place: Location, settings: Settings) -> bytes:
    system, path = _opened(place, settings)
    with system.open_input_stream(path) as stream:
        return bytes(stream.read(settings.limits.body_size_max_bytes + 1))


def _write_remote(place: Location, data: bytes, settings: Settings, replaces: bool) -> None:
    """An object appears whole when it is closed; a file of HDFS is moved into place."""
    system, path = _opened(place, settings)
    draft = path
    if place.scheme == "hdfs":
        folder, _, name = path.rpartition("/")
        system.create_dir(folder)
        draft = f"{folder}/.{name}.{uuid.uuid4().hex}"
    with system.open_output_stream(draft) as stream:
        stream.write(data)
    if draft != path:
        if replaces and _remote_exists(place, settings):
            system.delete_file(path)
        system.move(draft, path)
