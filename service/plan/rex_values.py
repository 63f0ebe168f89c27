"""Whether the value of a literal is one of its type, as Flink's reader demands of it.

Source: Flink `RexNodeJsonDeserializer.deserializeLiteralValue` (2.3), Calcite `DateString`,
`TimeString` and `TimestampString`.
"""

from __future__ import annotations

import binascii
import datetime
import re
from base64 import b64decode
from typing import TYPE_CHECKING

from service.plan.errors import InvalidExpression
from state.types import (
    BINARY_ROOTS,
    INTERVAL_ROOTS,
    NUMBER_ROOTS,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from service.plan.rex import PlanValue
    from state.types import LogicalType

_DATE = r"(\d{4}-\d{2}-\d{2})"
_TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d*[1-9])?"
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,10})?", re.ASCII)
"""As Java's BigDecimal reads it; its value is not asked for here."""
_PATTERNS = {
    TypeRoot.DATE: re.compile(_DATE, re.ASCII),
    TypeRoot.TIME: re.compile(_TIME, re.ASCII),
    TypeRoot.TIMESTAMP: re.compile(f"{_DATE} {_TIME}", re.ASCII),
    TypeRoot.TIMESTAMP_LTZ: re.compile(f"{_DATE} {_TIME}", re.ASCII),
}


def check_value(value: PlanValue, logical: LogicalType, path: str) -> None:
    """Refuse a value that is none of the type; NULL is one of every type.

    Raises:
        InvalidExpression: It is none.
    """
    if value is not None and not _is_value(value, logical.root):
        raise InvalidExpression(
            f"the value does not fit type {format_type(logical)}", hint=_HINTS, path=path
        )


_HINTS = (
    "decimals and floats are texts of digits, dates '2020-02-29', timestamps '2020-02-29 12:30:00'"
    " without zeros at the end of a fraction, binary is base64"
)


def _is_value(value: bool | float | str, root: TypeRoot) -> bool:
    if root in NUMBER_ROOTS or root in INTERVAL_ROOTS:
        return _is_number(value)
    if root in _PATTERNS:
        found = _PATTERNS[root].fullmatch(value) if isinstance(value, str) else None
        return found is not None and (root is TypeRoot.TIME or _is_date(found[1]))
    if root in BINARY_ROOTS:
        return isinstance(value, str) and _is_base64(value)
    return True


def _is_number(value: bool | float | str) -> bool:
    return not isinstance(value, bool) and _NUMBER.fullmatch(str(value)) is not None


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
