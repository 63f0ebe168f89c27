"""Types as messages show them: Flink's summary strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.types import LENGTH_MAX, TypeRoot, format_type

if TYPE_CHECKING:
    from state.types import LogicalType


def summary(logical: LogicalType) -> str:
    """A type in few words.

    >>> from state.types import parse_type
    >>> summary(parse_type("VARCHAR(2147483647) NOT NULL"))
    'STRING NOT NULL'
    """
    if logical.root is TypeRoot.VARCHAR and logical.length == LENGTH_MAX:
        return "STRING" if logical.nullable else "STRING NOT NULL"
    shown = format_type(logical)
    return f"{shown} *{logical.time_attribute}*" if logical.time_attribute else shown
