"""Times as the API shows them: ISO 8601 in UTC with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, beyond which the calendar has no text; a TTL may lead there."""
_EARLIEST_MS = -62_135_596_800_000
"""The begin of the year 1; a watermark is before it where rows have that as their time."""


def iso(time_ms: int | None) -> str | None:
    """A time in ms since 1970 as text; None stays None.

    >>> iso(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    if time_ms is None:
        return None
    seconds, milliseconds = divmod(max(_EARLIEST_MS, min(time_ms, LATEST_MS)), 1_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return f"{moment.isoformat()}.{milliseconds:03d}Z"


def with_time(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose `time_ms` became a `time` that people can read."""
    shown = {name: value for name, value in record.items() if name != "time_ms"}
    return {**shown, "time": iso(record.get("time_ms"))}
