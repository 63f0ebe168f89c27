"""What options say of the formats of change data capture; their names are in `formats`.

`check_capture` is for whoever takes a plan, the others are for whoever decodes lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.java_patterns import PatternDiffers, translated
from operators.unavailable import PLACEHOLDER, raw_placeholder
from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sources.formats import (
    CANAL,
    CANAL_INCLUDES,
    DEBEZIUM,
    SCHEMA_INCLUDE,
    TYPES_OPTION,
    UNAVAILABLE,
)
from state.debezium_types import BY_SHORT_NAME, TYPES
from state.types import format_type

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

    from state.debezium_types import DebeziumType
    from state.types import LogicalType


def check_capture(
    form: str, options: Mapping[str, str], columns: Mapping[str, LogicalType] | None = None
) -> None:
    """See that what options say of a format of change data capture can be.

    Args:
        form: The format.
        options: Of the table.
        columns: Of the table, where they are known.

    Raises:
        InvalidTableOption: it cannot.
    """
    if form == DEBEZIUM:
        is_in_payload(options.get(SCHEMA_INCLUDE))
        try:
            raw_placeholder(options.get(UNAVAILABLE, PLACEHOLDER))
        except ValueError as error:
            raise InvalidTableOption(
                f'option "{UNAVAILABLE}" is no text', hint="hex: stands before hexadecimal digits"
            ) from error
        debezium_types(options, columns)
    if form == CANAL:
        canal_includes(options)


def is_in_payload(included: str | None) -> bool:
    """What option `debezium-json.schema-include` says, if it is given.

    Raises:
        InvalidTableOption: it says neither true nor false.
    """
    text = (included or "false").strip().lower()
    if text not in ("true", "false"):
        raise InvalidTableOption(f'option "{SCHEMA_INCLUDE}" must be true or false')
    return text == "true"


def debezium_types(
    options: Mapping[str, str], columns: Mapping[str, LogicalType] | None = None
) -> dict[str, DebeziumType]:
    """What option `debezium-json.types` says that columns are.

    Raises:
        InvalidTableOption: it is no list of columns and types, or says what a column cannot be.
    """
    found: dict[str, DebeziumType] = {}
    for entry in options.get(TYPES_OPTION, "").split(","):
        column, _, name = entry.strip().rpartition(" ")
        if not entry.strip() and TYPES_OPTION not in options:
            continue
        column = column.strip()
        known = TYPES.get(name) or BY_SHORT_NAME.get(name)
        if not column or known is None:
            raise InvalidTableOption(
                f'option "{TYPES_OPTION}": {entry.strip()!r} is no column and type of Debezium\'s',
                hint=f"such as: at MicroTimestamp, day Date; types are {', '.join(BY_SHORT_NAME)}",
            )
        if column in found:
            raise InvalidTableOption(f'option "{TYPES_OPTION}" names column {column} twice')
        if columns is not None and column not in columns:
            raise InvalidTableOption(f'option "{TYPES_OPTION}": there is no column {column}')
        if columns is not None and not known.suits(columns[column]):
            raise InvalidTableOption(
                f'option "{TYPES_OPTION}": column {column} is {format_type(columns[column])}, '
                f"which takes no {name}"
            )
        found[column] = known
    return found


def canal_includes(options: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    """What the members `database` and `table` of Canal's lines must match, if that is said.

    Raises:
        InvalidTableOption: it is no regular expression of Java, or one that Python may read
            otherwise.
    """
    found = {}
    for name, member in CANAL_INCLUDES.items():
        if name in options:
            try:
                found[member] = translated(options[name]).python
            except PatternDiffers as error:
                raise InvalidTableOption(f'option "{name}": {error}') from None
    return found
