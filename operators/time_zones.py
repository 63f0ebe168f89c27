"""Time zones by the names that Java gives them.

Source: `java.time.ZoneId`, and Flink's `TableConfigUtils.validateTimeZone` (2.3) for those that
`table.local-time-zone` may have.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from operators.errors import InvalidSpec

_OFFSET: Final = re.compile(r"(?:GMT|UTC|UT)?([+-])(\d{1,2})(?::?(\d{2}))?")
_OPTION_OFFSET: Final = re.compile(r"GMT[+-](\d|0\d|1[0-8])(:[0-5]\d)?")
_OFFSET_MAX: Final = dt.timedelta(hours=18)
_NAMES_OF_UTC: Final = frozenset({"UTC", "Z", "GMT", "UT", "Etc/UTC", "Etc/GMT", "GMT0", "default"})
_NOT_IN_JAVA: Final = frozenset({"EST", "Factory", "HST", "MST", "UT", "localtime"})


class UnknownZone(InvalidSpec):
    """A zone has no such name."""


def time_zone(name: str) -> dt.tzinfo | None:
    """The zone of a name: `Europe/Berlin`, `GMT+08:00`, `+08:00`; None for UTC and `default`.

    Raises:
        UnknownZone: There is none of this name.
    """
    if name in _NAMES_OF_UTC:
        return None
    found = _OFFSET.fullmatch(name)
    if found is not None:
        shift = dt.timedelta(hours=int(found[2]), minutes=int(found[3] or 0))
        if shift > _OFFSET_MAX:
            raise UnknownZone("an offset is at most 18 hours")
        return dt.timezone(-shift if found[1] == "-" else shift) if shift else None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UnknownZone("there is no zone of this name") from error


def is_option(name: str) -> bool:
    """Whether `table.local-time-zone` may have this value.

    A region, UTC, or an offset such as `GMT+08:00`. `default` is not one: it is the zone of the
    machine, which here says nothing.

    >>> [is_option(each) for each in ("Europe/Berlin", "GMT+8", "+08:00", "UTC+8", "GMT+19:00")]
    [True, True, False, False, False]
    """
    offset = _OPTION_OFFSET.fullmatch(name)
    if offset is not None:
        return offset[1] != "18" or offset[2] in (None, ":00")
    return name in _regions() and name not in _NOT_IN_JAVA


@functools.cache
def _regions() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
