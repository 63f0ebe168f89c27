"""Event time: the instants that rows carry, as milliseconds since 1970, and back.

A TIMESTAMP is local: it counts as if its zone were UTC. A TIMESTAMP_LTZ is a point of time.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

from operators.errors import MissingRowTime
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.spec import RowSpec

_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOCAL: Final = _UTC.replace(tzinfo=None)
_MS: Final = dt.timedelta(milliseconds=1)
TIME_ROOTS: Final = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})


def to_ms(value: object) -> int:
    """A TIMESTAMP or TIMESTAMP_LTZ as ms since 1970; digits beyond ms are cut, towards the past.

    >>> to_ms(dt.datetime(1970, 1, 1, 0, 0, 1, 500_999)), to_ms(_UTC)
    (1500, 0)

    Raises:
        MissingRowTime: It is null: Flink does not go on with such a row either.
    """
    if not isinstance(value, dt.datetime):
        raise MissingRowTime("the event time of a row is null: it cannot be put in order")
    since: dt.timedelta = value - (_LOCAL if value.tzinfo is None else _UTC)
    return since // _MS


def from_ms(ms: int, logical: LogicalType) -> dt.datetime:
    """The value of a TIMESTAMP or TIMESTAMP_LTZ.

    Raises:
        OverflowError: Python knows no such year.
    """
    start = _UTC if logical.root is TypeRoot.TIMESTAMP_LTZ else _LOCAL
    return start + ms * _MS


def event_ms(row: Row, column: int) -> int:
    """The event time of a row, ms since 1970.

    Raises:
        MissingRowTime: It is null.
    """
    return to_ms(row[column])


def is_time(row: RowSpec, column: int) -> bool:
    """Whether a column can be an event time."""
    return column < len(row.types) and row.types[column].root in TIME_ROOTS
