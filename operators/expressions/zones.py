"""Instants and the local times of a zone: what expressions in another zone than UTC are made of.

A TIMESTAMP_LTZ whose fields or text are asked for is first moved by the offset of the zone, and
then taken apart as if the zone were UTC: so does Flink. What is moved keeps its type here.
`service.plan.zoned` writes these calls; the zone is their last operand, a literal.

    LOCAL_OF_INSTANT(x, zone)        of casts and formats
    INSTANT_OF_LOCAL(x, zone)        back: of a local time that the clocks skip, the time as long
                                     after the skip; of one that is there twice, the first
    CLOCK_OF_INSTANT(x, zone)        of EXTRACT, FLOOR and CEIL
    CLOCK_OF_SECONDS(x, zone)        of FROM_UNIXTIME: seconds since 1970 as a BIGINT
    INSTANT_OF_CLOCK(x, y, zone)     back by the offset at the instant y

Casts and formats ask `java.time`, the others `java.util.TimeZone`, which knows nothing before 1900:
there it takes the offset that the zone has in winters now.

Source: Flink `DateTimeUtils` (2.3); `sun.util.calendar.ZoneInfo`, `java.time.LocalDateTime.atZone`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from operators.expressions.casts import convert
from operators.expressions.integers import BIGINT, WRAPPERS
from operators.expressions.site import Site, lifted
from operators.time_zones import UnknownZone, time_zone
from state.types import INTEGER_BITS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.call_site import CallSite, Operand
    from operators.expressions.representation import Run

_UTC: Final = dt.UTC
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=_UTC)
_SECOND: Final = dt.timedelta(seconds=1)
_FIRST_S: Final = -62_135_424_000
"""3 January of year 1: datetime ends two days before, and no zone is further from UTC."""
_LAST_S: Final = 253_402_128_000
"""30 December 9999. What is beyond has the offset of these days."""
LEGACY_FIRST_S: Final = -2_208_988_800
"""1900, where the tables of `java.util.TimeZone` begin."""
_RULES_YEAR: Final = 2037
_MONTHS: Final = range(1, 13)
_wrap_long = WRAPPERS[TypeRoot.BIGINT]


def zone_name(site: CallSite[Operand]) -> str:
    """The zone of a call, its last operand; one that there is."""
    name = site.text(len(site) - 1, "the time zone")
    try:
        time_zone(name)
    except UnknownZone:
        site.refuse("there is no time zone of this name")
    return name


def legacy_offset_s(name: str) -> int:
    """The offset before 1900 in the eyes of `java.util.TimeZone`: that of winters now."""
    zone = time_zone(name)
    if zone is None:
        return 0
    return min(
        _seconds(dt.datetime(_RULES_YEAR, month, 1, tzinfo=zone).utcoffset()) for month in _MONTHS
    )


def _seconds(offset: dt.timedelta | None) -> int:
    return 0 if offset is None else offset // _SECOND


def _offset_at(zone: dt.tzinfo, second: int) -> int:
    """The offset in seconds at a second since 1970."""
    point = _EPOCH + max(_FIRST_S, min(_LAST_S, second)) * _SECOND
    return _seconds(point.astimezone(zone).utcoffset())


def _offset_of_local(zone: dt.tzinfo, second: int) -> int:
    """The offset in seconds at a local time: the one before, where the clocks are changed."""
    point = _EPOCH + max(_FIRST_S, min(_LAST_S, second)) * _SECOND
    return _seconds(point.replace(tzinfo=zone, fold=0).utcoffset())


def legacy_offset_of_local(name: str) -> Callable[[int], int]:
    """The function to the offset at a local time, in the eyes of `java.util.TimeZone`.

    Of a local time that the clocks skip it is the offset before, of one that is there twice the
    one behind: both are the smaller.
    """
    zone, early = time_zone(name), legacy_offset_s(name)
    if zone is None:
        return lambda second: 0
    first = LEGACY_FIRST_S + _offset_at(zone, LEGACY_FIRST_S)

    def offset(second: int) -> int:
        if second < first:
            return early
        point = (_EPOCH + min(_LAST_S, second) * _SECOND).replace(tzinfo=zone)
        return min(_seconds(point.replace(fold=fold).utcoffset()) for fold in (0, 1))

    return offset


def legacy_offset(name: str) -> Callable[[int], int]:
    """The function to the offset at an instant, in the eyes of `java.util.TimeZone`."""
    zone, early = time_zone(name), legacy_offset_s(name)
    if zone is None:
        return lambda second: 0
    return lambda second: early if second < LEGACY_FIRST_S else _offset_at(zone, second)


def local_of_instant(site: Site) -> Run:
    """LOCAL_OF_INSTANT(instant, zone)."""
    zone = time_zone(zone_name(site))
    if zone is None:
        return site[0].run
    return lifted(lambda us: us + _offset_at(zone, us // 1_000_000) * 1_000_000, site[0])


def instant_of_local(site: Site) -> Run:
    """INSTANT_OF_LOCAL(local, zone)."""
    zone = time_zone(zone_name(site))
    if zone is None:
        return site[0].run
    return lifted(lambda us: us - _offset_of_local(zone, us // 1_000_000) * 1_000_000, site[0])


def clock_of_instant(site: Site) -> Run:
    """CLOCK_OF_INSTANT(instant, zone)."""
    offset = legacy_offset(zone_name(site))
    return lifted(lambda us: us + offset(us // 1_000_000) * 1_000_000, site[0])


def instant_of_clock(site: Site) -> Run:
    """INSTANT_OF_CLOCK(local, instant, zone)."""
    offset = legacy_offset(zone_name(site))
    return lifted(lambda local, us: local - offset(us // 1_000_000) * 1_000_000, site[0], site[1])


def clock_of_seconds(site: Site) -> Run:
    """CLOCK_OF_SECONDS(seconds, zone), as a BIGINT; Java's milliseconds wrap."""
    offset = legacy_offset(zone_name(site))
    number = convert(site, site.of_type(0, INTEGER_BITS), BIGINT)

    def clock(second: int) -> int:
        return second + offset(_wrap_long(second * 1000) // 1000)

    return lifted(clock, number)
