"""Taking in changes over HTTP: a typed check of each line, then one write to the table's stream.

What is wrong with a line is told at once, by line number and column, and never by content; it is
counted and listed with the request's id, also where the request is refused for it. Accepted
lines are stored as they came, so the query reads exactly what the client sent; it decodes them with
the same codec, which therefore accepts them. How many rows wait is kept with the entries, which
makes the limit on it cost nothing.

    tailrace:{p}:ingress:<table>    stream   accepted lines, one entry a request
    tailrace:{p}:dead:ingress       stream   lines rejected at the door (`dead` holds what sources
                                             rejected, under ids that are epochs)
    tailrace:{p}:dead:count                  dead letters of every way in, these among them
"""

from __future__ import annotations

import base64
import binascii
import time
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from operators.wire import dead_letter_note
from service.runtime.errors import SavepointPending
from service.runtime.pipeline_names import not_found, pipeline_key
from service.runtime.slot_keys import DEAD_COUNT_NAME, INGRESS_DEAD_NAME, ingress_key, slot_key
from service.runtime.sources.decoding import LineDecoder
from service.runtime.sources.formats import ingress_format
from service.runtime.sources.spec import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from service.runtime.contents import SourceTable
    from service.runtime.records import PipelineRecord

_IS_REPLACED = -2
NOTHING = "0-0"
"""The stream id of a request without an accepted line: it is complete from the start."""


@dataclass(frozen=True, slots=True)
class Line:
    """A rejected line: its number, from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckedLines:
    """What a body holds."""

    data: bytes
    """The accepted lines as they came, with a newline between."""
    rows: int
    """How many they are."""
    rejected: tuple[Line, ...]


def count_lines(body: bytes) -> int:
    """Lines of a body; a last one without a newline counts."""
    return body.count(b"\n") + (not body.endswith(b"\n") and bool(body))


def check_lines(table: SourceTable, body: bytes, line_size_max_bytes: int) -> CheckedLines:
    """Decode every line of a body with the table's codec. Blank lines are nothing."""
    spec = SourceSpec(
        connector="ingress",
        table=table.name,
        pipeline="",
        redis_url="",
        names=table.names,
        types=table.types,
        physical=tuple(zip(table.names, table.types, strict=True)),
        options=dict(table.options),
        primary_key=table.primary_key,
        is_normalized=table.is_normalized,
    )
    lines = body.split(b"\n")
    too_long = {n for n, each in enumerate(lines) if len(each) > line_size_max_bytes}
    # A line left out here keeps its number: an empty one stands in its place.
    shown = [b"" if n in too_long else each for n, each in enumerate(lines)] if too_long else lines
    block = b"\n".join(shown)
    if not block.strip():
        rejected = dict.fromkeys(sorted(too_long), "")
        return _checked([], lines, rejected, line_size_max_bytes)
    decoded = LineDecoder(spec, ingress_format(spec.options)).decode(block)
    rejected = dict(decoded.rejected)
    rejected.update(dict.fromkeys(too_long, ""))
    return _checked(
        list(dict.fromkeys(decoded.lines.tolist())), lines, rejected, line_size_max_bytes
    )


def _checked(
    good: Sequence[int], lines: Sequence[bytes], rejected: dict[int, str], limit: int
) -> CheckedLines:
    reasons = tuple(
        Line(number + 1, reason or f"the line is longer than {limit} bytes")
        for number, reason in sorted(rejected.items())
    )
    return CheckedLines(b"\n".join(lines[n].rstrip(b"\r") for n in good), len(good), reasons)


@dataclass(frozen=True, slots=True)
class Limits:
    """What intake keeps to."""

    backlog_max: int
    dead_letters_max: int
    retention_ms: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a request."""

    entry: str | None
    """None if nothing was taken: too many rows wait, or another request has the key."""
    backlog: int
    has_key: bool = True
    """Whether its Idempotency-Key was still its own."""


def take(
    client: redis.Redis,
    pipeline: PipelineRecord,
    table: str,
    request_id: str,
    lines: CheckedLines,
    limits: Limits,
    record_key: str | None = None,
    record: Callable[[str], bytes] | None = None,
    lock: bytes = b"",
) -> Taken:
    """Append accepted lines, list rejected ones, and record the answer, in one call.

    Args:
        client: The pipeline's Redis.
        pipeline: Its record, as the request found it.
        table: The ingress table's name.
        request_id: Tells the request's rejected lines from those of others.
        lines: What was checked.
        limits: What to keep to.
        record_key: Where the answer is recorded for the request's Idempotency-Key, if it has one.
        record: Makes the answer's record from the id of the new entry; given with a key.
        lock: What lies at the key as long as it is this request's.

    Raises:
        PipelineNotFound: it was deleted since; nothing was taken, whoever has the name now.
        SavepointPending: another statement is taking its place; nothing was taken.
    """
    hole = uuid.uuid4().hex
    answer = record(hole) if record_key and record else b""
    listed = [
        dead_letter_note(table, f"request {request_id} line {each.line}", each.reason)
        for each in lines.rejected[: limits.dead_letters_max]
    ]
    name = pipeline.name
    dead = [slot_key(name, each) for each in (INGRESS_DEAD_NAME, DEAD_COUNT_NAME)]
    keys = [ingress_key(name, table), *dead, pipeline_key(name)]
    values: list[Any] = [
        *(lines.rows, lines.data, limits.backlog_max, limits.dead_letters_max),
        *(time.time_ns() // 1_000_000, answer, hole, limits.retention_ms, len(lines.rejected)),
        *(orjson.dumps(pipeline.id), lock, *listed),
    ]
    # Cluster mode wants every key named; without a record the stream's own name fills the place.
    keys.append(record_key or keys[0])
    reply: list[Any] | None = client.eval(_script(), len(keys), *keys, *values)
    if reply is None:
        raise not_found(name)
    if int(reply[1]) == _IS_REPLACED:
        raise SavepointPending(
            f'pipeline "{name}" gets another statement', hint="try again when that is done"
        )
    return Taken(reply[0].decode() or None, int(reply[1]), has_key=int(reply[1]) >= 0)


def refuse(
    client: redis.Redis,
    pipeline: PipelineRecord,
    table: str,
    request_id: str,
    lines: CheckedLines,
    limits: Limits,
) -> None:
    """Count and list the rejected lines of a request of which nothing is taken."""
    nothing = CheckedLines(b"", 0, lines.rejected)
    take(client, pipeline, table, request_id, nothing, limits)


def is_behind(entry: str, consumed: str) -> bool:
    """Whether an entry lies at or before the one that was consumed last."""
    return _numbers(entry) <= _numbers(consumed)


def token_of(pipeline_id: str, table: str, entry: str) -> str:
    """The completion token of an accepted request; ends with the entry's id as it is."""
    head = base64.urlsafe_b64encode(orjson.dumps([pipeline_id, table])).rstrip(b"=").decode()
    return f"{head}.{entry}"


def read_token(token: str) -> tuple[str, str, str] | None:
    """Pipeline id, table and entry of a token; None if it is not one of ours."""
    head, _, entry = token.partition(".")
    try:
        padded = (head + "=" * (-len(head) % 4)).encode("ascii")
        pipeline_id, table = orjson.loads(base64.b64decode(padded, b"-_", validate=True))
        _numbers(entry)
    except (ValueError, TypeError, binascii.Error):
        return None
    if not isinstance(pipeline_id, str) or not isinstance(table, str):
        return None
    return pipeline_id, table, entry


def _numbers(entry: str) -> tuple[int, int]:
    """A stream id as two numbers.

    Raises:
        ValueError: it is none.
    """
    first, dash, second = entry.partition("-")
    if not (dash and first.isascii() and first.isdigit() and second.isascii() and second.isdigit()):
        raise ValueError("no stream id")
    return int(first[:20]), int(second[:20])


@cache
def _script() -> str:
    return Path(__file__).with_name("intake.lua").read_text(encoding="utf-8")
