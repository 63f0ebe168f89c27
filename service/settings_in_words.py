"""What is wrong with the settings, a line for each; never with its value, which may be a secret."""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from pydantic import ValidationError

from service.settings import DELIMITER, PREFIX, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic_settings import SettingsError

_GROUP = re.compile(r'value for field "(\w+)"')


def faults(error: ValidationError | SettingsError) -> Iterator[str]:
    """The name of each setting that is refused, and why.

    Args:
        error: Of the settings as a whole: of their values, or of text that should be JSON.
    """
    if not isinstance(error, ValidationError):
        yield from _no_json(str(error))
        return
    for each in error.errors():
        place = [str(part) for part in each["loc"]]
        reason = each["msg"].removeprefix("Value error, ")
        if each["type"] == "extra_forbidden":
            reason = f"there is none of this name{_nearest(place)}"
        yield f"{_variable(place) if place else '(all)'}: {reason}"


def _no_json(text: str) -> Iterator[str]:
    """The settings of a group that are arrays: of these one is no JSON, and none says which."""
    found = _GROUP.search(text)
    group = Settings.model_fields.get(found[1]) if found else None
    values = group.default if group is not None else None
    arrays = [name for name, value in values or () if isinstance(value, tuple)]
    for name in arrays:
        variable = _variable([found[1] if found else "", name])
        yield f'{variable}: must be a JSON array of texts, such as ["a", "b"]'
    if not arrays:
        yield "(all): one is no JSON"


def _nearest(place: list[str]) -> str:
    known = Settings.model_fields
    for part in place[:-1]:
        known = type(known[part].default).model_fields
    found = difflib.get_close_matches(place[-1], known, n=1)
    return f"; did you mean {_variable([*place[:-1], *found])}?" if found else ""


def _variable(place: list[str]) -> str:
    return f"{PREFIX}{DELIMITER.join(place)}".upper()
