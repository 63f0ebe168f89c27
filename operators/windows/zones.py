"""Windows of local time.

A row time of type TIMESTAMP is local already. One of type TIMESTAMP_LTZ, and processing time, is a
point of time: its windows are those of the plan's zone, so that a day begins at midnight there.
Local times are written as ms since 1970 as if the zone were UTC.

What is hard are the hours that a zone skips or has twice. A window may fire only when no row of it
can come any more: at an hour that is there twice, at the second time; at one that is skipped, at
the moment of the skip. Flink sees to that only in zones that change their clocks to this day; where
one did so in the past, as in China in 1988, or does it by the moon, as in Morocco, the first time
counts, and rows of the second one are late.

Source: Flink TimeWindowUtil.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from operators.time_zones import time_zone

_UTC: Final = dt.UTC
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=_UTC)
_MS: Final = dt.timedelta(milliseconds=1)
_HOUR_MS: Final = 3_600_000
_YEAR_OF_RULES: Final = 2200
"""Behind all changes that are listed one by one: the rule that is for ever counts."""
_MONTHS: Final = range(1, 13)


class LocalTime:
    """Between points of time and the local times of a zone; all in ms.

    Args:
        zone: As Java names it: `UTC`, `Europe/Berlin`, `GMT+08:00`, `+08:00`. `default` is UTC.

    Raises:
        UnknownZone: There is none of this name.
    """

    def __init__(self, zone: str) -> None:
        self._zone = time_zone(zone)
        self._changes_clocks = self._zone is not None and _changes_clocks(self._zone)

    @property
    def is_utc(self) -> bool:
        """Whether local times are the points of time themselves."""
        return self._zone is None

    def of(self, point_ms: int) -> int:
        """The local time of a point of time."""
        if self._zone is None:
            return point_ms
        local = (_EPOCH + point_ms * _MS).astimezone(self._zone)
        return (local.replace(tzinfo=_UTC) - _EPOCH) // _MS

    def point(self, local_ms: int) -> int:
        """The point of time of a local time: the first, where there are two."""
        if self._zone is None:
            return local_ms
        local = (_EPOCH + local_ms * _MS).replace(tzinfo=self._zone, fold=0)
        return (local.astimezone(_UTC) - _EPOCH) // _MS

    def passed(self, local_ms: int) -> int:
        """The point of time at which a local time has passed for good."""
        if self._zone is None:
            return local_ms
        first = self.point(local_ms)
        if not self._changes_clocks:
            return first
        later = self.point(local_ms + _HOUR_MS)
        if first == later:
            return first - first % _HOUR_MS
        return first + _HOUR_MS if later - first > _HOUR_MS else first


def _changes_clocks(zone: dt.tzinfo) -> bool:
    """Whether a zone goes on changing its clocks each year: Java's `TimeZone.useDaylightTime`."""
    offsets = {dt.datetime(_YEAR_OF_RULES, month, 1, tzinfo=zone).utcoffset() for month in _MONTHS}
    return len(offsets) > 1
