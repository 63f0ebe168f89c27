"""Instants and the local times of a zone, as columns; see `operators.expressions.zones`.

Spark computes with `java.time`, as Flink does; tables of zones are those of the server's Java.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.connect import functions as sf

from operators.expressions.integers import BIGINT
from operators.expressions.zones import LEGACY_FIRST_S, legacy_offset_s, zone_name
from service.runtime.expressions.casts import convert
from service.runtime.expressions.integers import LONG
from service.runtime.expressions.site import Column, Site, bind
from state.types import INTEGER_BITS


def local_of_instant(site: Site) -> Column:
    """LOCAL_OF_INSTANT(instant, zone)."""
    return sf.from_utc_timestamp(site[0].column, zone_name(site))


def instant_of_local(site: Site) -> Column:
    """INSTANT_OF_LOCAL(local, zone)."""
    return sf.to_utc_timestamp(site[0].column, zone_name(site))


def clock_of_instant(site: Site) -> Column:
    """CLOCK_OF_INSTANT(instant, zone)."""
    name = zone_name(site)
    return bind(site[0], lambda instant: _clock(instant, name))


def instant_of_clock(site: Site) -> Column:
    """INSTANT_OF_CLOCK(local, instant, zone)."""
    name = zone_name(site)
    offset = bind(site[1], lambda x: sf.unix_micros(_clock(x, name)) - sf.unix_micros(x))
    return sf.timestamp_micros(sf.unix_micros(site[0].column) - offset)


def clock_of_seconds(site: Site) -> Column:
    """CLOCK_OF_SECONDS(seconds, zone), as a BIGINT."""
    name, value = zone_name(site), site.of_type(0, INTEGER_BITS)
    number = replace(value, column=convert(site, value, BIGINT))
    return bind(number, lambda seconds: _clock_seconds(seconds, name))


def _clock(instant: Column, name: str) -> Column:
    """The local time in the eyes of `java.util.TimeZone`."""
    early = sf.timestamp_micros(sf.unix_micros(instant) + legacy_offset_s(name) * 1_000_000)
    later = sf.from_utc_timestamp(instant, name)
    first = sf.timestamp_seconds(sf.lit(LEGACY_FIRST_S).cast(LONG))
    return sf.when(instant < first, early).otherwise(later)


def _clock_seconds(seconds: Column, name: str) -> Column:
    return sf.unix_seconds(_clock(sf.timestamp_seconds(seconds), name))
