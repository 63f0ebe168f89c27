"""Formats of files and of ingress, by name; what decodes their lines is `decoding`.

changelog-json   {"op": "+I", "data": {column: value, ...}} a line; option `changelog-mode`
json             {column: value, ...} a line, inserts only
csv              one line a row, inserts only (`csv_lines`)
parquet          columns by name, inserts only
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind
from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector

if TYPE_CHECKING:
    from collections.abc import Mapping

LINE_FORMATS = frozenset({"changelog-json", "json", "csv"})
FORMATS = LINE_FORMATS | {"parquet"}

_MODE_NAMES = {
    "I": RowKind.INSERT,
    "UB": RowKind.UPDATE_BEFORE,
    "UA": RowKind.UPDATE_AFTER,
    "D": RowKind.DELETE,
}


def allowed_kinds(options: Mapping[str, str]) -> frozenset[RowKind]:
    """The kinds that a source may carry: its option `changelog-mode`, all if it is not given.

    Raises:
        InvalidTableOption: the option names something else than I, UB, UA and D.
    """
    text = options.get("changelog-mode", "I,UB,UA,D")
    names = [each.strip().upper() for each in text.split(",")]
    if not names or any(each not in _MODE_NAMES for each in names):
        raise InvalidTableOption(
            f'changelog-mode "{text}" is not a list of kinds', hint="for example I,UB,UA,D"
        )
    return frozenset(_MODE_NAMES[each] for each in names)


def format_of(options: Mapping[str, str]) -> str:
    """The table's format.

    Raises:
        InvalidTableOption: there is none.
        UnsupportedConnector: it is not one of ours.
    """
    name = options.get("format")
    if name is None:
        raise InvalidTableOption("the table has no format", hint=f"one of {sorted(FORMATS)}")
    if name not in FORMATS:
        raise UnsupportedConnector(
            f'format "{name}" is not supported', hint=f"one of {sorted(FORMATS)}"
        )
    return name
