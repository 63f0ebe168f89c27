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
    UNAVAILABLE,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping


def check_capture(form: str, options: Mapping[str, str]) -> None:
    """See that what options say of a format of change data capture can be.

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
