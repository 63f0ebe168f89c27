"""Formats of files and of ingress, by name; what decodes their lines is `decoding`.

changelog-json   {"op": "+I", "data": {column: value, ...}} a line; option `changelog-mode`
debezium-json    an event of Debezium's a line (`state.line_shapes`); option `changelog-mode`
maxwell-json     a change as Maxwell writes it a line; likewise
canal-json       changes as Canal writes them, all rows of a statement in a line; likewise
ogg-json         a change as Oracle GoldenGate writes it a line; likewise
json             {column: value, ...} a line, inserts only
csv              one line a row, inserts only (`csv_lines`)
parquet          columns by name, inserts only
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from operators.changelog import RowKind
from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

DEBEZIUM = "debezium-json"
SCHEMA_INCLUDE = "debezium-json.schema-include"
"""Whether an event is the `payload` of its line, beside its schema."""
UNAVAILABLE = "debezium-json.unavailable.value.placeholder"
"""What stands for values that an event does not carry, as Debezium's option of that name."""
TYPES_OPTION = "debezium-json.types"
"""What columns are where no schema says it: `at MicroTimestamp, day Date`."""
MAXWELL = "maxwell-json"
OGG = "ogg-json"
CANAL = "canal-json"
CANAL_INCLUDES: Mapping[str, str] = {
    f"{CANAL}.database.include": "database",
    f"{CANAL}.table.include": "table",
}
"""Options that name what is read, as a regular expression, and what it is compared with."""
CAPTURE_FORMATS = (CANAL, DEBEZIUM, MAXWELL, OGG)
"""What tools of change data capture write: an update is one line; only sources have them."""
CAPTURE_OPTIONS: Mapping[str, Sequence[str]] = {
    DEBEZIUM: (SCHEMA_INCLUDE, TYPES_OPTION, UNAVAILABLE),
    CANAL: tuple(CANAL_INCLUDES),
}
"""By format: the options that say how its lines are read."""
CHANGE_FORMATS = ("changelog-json", *CAPTURE_FORMATS)
"""Those whose lines say what kind of change they are."""
SINK_FORMATS = frozenset({"changelog-json", "csv", "json", "parquet"})
FORMATS = SINK_FORMATS | {*CAPTURE_FORMATS}

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


def format_of(options: Mapping[str, str], known: frozenset[str] = FORMATS) -> str:
    """The table's format, one of those that are known.

    Raises:
        InvalidTableOption: there is none.
        UnsupportedConnector: it is not one of ours.
    """
    name = options.get("format")
    if name is None:
        near = difflib.get_close_matches("format", options, 1, cutoff=0.75)
        meant = f'did you mean "format" by "{near[0]}"? ' if near else ""
        raise InvalidTableOption("the table has no format", hint=f"{meant}one of {_listed(known)}")
    if name not in known:
        raise UnsupportedConnector(
            f'format "{name}" is not supported', hint=f"one of {_listed(known)}"
        )
    return name


def ingress_format(options: Mapping[str, str]) -> str:
    """The format of an ingress table's lines.

    Raises:
        UnsupportedConnector: it is not one of ours.
    """
    name = options.get("format", CHANGE_FORMATS[0])
    if name not in CHANGE_FORMATS:
        raise UnsupportedConnector(
            f'format "{name}" is not supported at ingress',
            hint=f"one of {_listed(CHANGE_FORMATS)}",
        )
    return name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
