"""Times of rows as milliseconds since 1970, and back.

A TIMESTAMP is local: it counts as if its zone were UTC. A TIMESTAMP_LTZ is a point of time.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from state.types import LogicalType, TypeRoot

_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOCAL: Final = _UTC.replace(tzinfo=None)
_MS: Final = dt.timedelta(milliseconds=1)


def to_ms(value: Any) -> int:
    """A TIMESTAMP or TIMESTAMP_LTZ as ms since 1970; digits beyond ms are cut, towards the past."""
    since: dt.timedelta = value - (_LOCAL if value.tzinfo is None else _UTC)
    return since // _MS


def from_ms(ms: int, logical: LogicalType) -> dt.datetime:
    """The value of a TIMESTAMP or TIMESTAMP_LTZ.

    Raises:
        OverflowError: Python knows no such year.
    """
    start = _UTC if logical.root is TypeRoot.TIMESTAMP_LTZ else _LOCAL
    return start + ms * _MS
