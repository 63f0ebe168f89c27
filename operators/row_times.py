"""Row times as milliseconds, which is what watermarks are compared with.

A row time is a TIMESTAMP(3) or TIMESTAMP_LTZ(3) column. The former has no zone; Flink takes its
digits as those of UTC, so a watermark and a row time are compared as they are written.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from operators.errors import MissingRowTime

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds_of(value: Any) -> int:
    """A row time in ms since 1970; digits beyond the millisecond are cut off downwards.

    >>> milliseconds_of(datetime(1970, 1, 1, 0, 0, 1, 500_999)), milliseconds_of(_EPOCH_UTC)
    (1500, 0)

    Raises:
        MissingRowTime: It is null.
    """
    if not isinstance(value, datetime):
        raise MissingRowTime("a row time is null: rows without one cannot be put in order")
    return (value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)) // _MILLISECOND
