"""Units of time of EXTRACT, FLOOR and CEIL, as numbers of milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

MILLIS_PER_DAY = 86_400_000
UNIT_MILLIS: Mapping[str, int] = {
    "DAY": MILLIS_PER_DAY,
    "HOUR": 3_600_000,
    "MINUTE": 60_000,
    "SECOND": 1000,
    "MILLISECOND": 1,
}
WITHIN_MILLIS: Mapping[str, int] = {
    "HOUR": MILLIS_PER_DAY,
    "MINUTE": 3_600_000,
    "SECOND": 60_000,
    "MILLISECOND": 1000,
}
"""The milliseconds of which a unit is counted: the hour within the day, and so on."""
