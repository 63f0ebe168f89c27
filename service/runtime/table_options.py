"""Which options a table may have, by connector and format; any other is refused by name.

An option that nobody reads is a wish that is not granted, and a misspelt one is the default without
a word. So each connector and format lists what it honours, and what Flink knows of it that changes
nothing here, with the reason beside it. Where only some values change nothing, those are listed.

One list serves sources and sinks, as in Flink: a table may be written by one plan and read by
another, and an option of the other role is no mistake.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from service.plan.properties import pointer_token
from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sources.formats import CAPTURE_FORMATS, CAPTURE_OPTIONS
from service.runtime.sources.spec import EPOCHS, TIME_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TESTING = frozenset({TIME_FIELD, EPOCHS})
TESTING_SETTING = "TAILRACE_EXECUTION__TESTING_OPTIONS_ENABLED"

Values = frozenset[str] | None
"""The values, in lower case, that are what is done here anyway; None: any, or checked elsewhere."""

_FALSE = frozenset({"false"})
_ANY_TABLE: Mapping[str, Values] = {
    "connector": None,
    # The only version that Flink's tables ever had.
    "property-version": frozenset({"1"}),
}
_PARALLELISM: Mapping[str, Values] = {
    # How many tasks share the work; `execution.parallelism` says it, and no row depends on it.
    "scan.parallelism": None,
    "sink.parallelism": None,
}
_CONNECTORS: Mapping[str, Mapping[str, Values]] = {
    "filesystem": {
        "path": None,
        "format": None,
        "changelog-mode": None,
        # A delete may lack all columns but the key's, whatever this says.
        "key-only-deletes": frozenset({"true", "false"}),
        "source.monitor-interval": None,
        TIME_FIELD: None,
        EPOCHS: None,
        **_PARALLELISM,
        # How large a file may grow; ours end with each epoch, and are small already.
        "sink.rolling-policy.file-size": None,
        "sink.rolling-policy.rollover-interval": None,
        "sink.rolling-policy.check-interval": None,
        "auto-compaction": _FALSE,
        # Told to Flink's planner, which has made its plan.
        "source.report-statistics": None,
    },
    "ingress": {"format": None, "changelog-mode": None},
    "datagen": {"rows-per-second": None, "number-of-rows": None, **_PARALLELISM},
    "jdbc": {
        "url": None,
        "table-name": None,
        "username": None,
        "password": None,
        "connection.max-retry-timeout": None,
        "changelog-mode": frozenset({"append", "upsert"}),
        # Those that Flink would load for an address here; ours are packages of Python.
        "driver": frozenset(
            {
                "com.mysql.cj.jdbc.driver",
                "com.mysql.jdbc.driver",
                "org.mariadb.jdbc.driver",
                "org.postgresql.driver",
                "org.sqlite.jdbc",
            }
        ),
        **_PARALLELISM,
        # When Flink sends what it has gathered; here an epoch is sent, with its end.
        "sink.buffer-flush.max-rows": None,
        "sink.buffer-flush.interval": None,
    },
    "redis": {"changelog-mode": frozenset({"upsert"}), **_PARALLELISM},
    "print": {
        "changelog-mode": None,
        **_PARALLELISM,
        # Marks of lines on a console; ours are read by the table's name, over HTTP.
        "print-identifier": None,
        "standard-error": None,
    },
    "blackhole": {"changelog-mode": None, **_PARALLELISM},
}
_FORMATS: Mapping[str, Mapping[str, Values]] = {
    "changelog-json": {},
    **{
        form: {
            # As those of json.
            f"{form}.ignore-parse-errors": _FALSE,
            f"{form}.timestamp-format.standard": frozenset({"sql"}),
            # Checked where they are read.
            **dict.fromkeys(CAPTURE_OPTIONS.get(form, ())),
        }
        for form in CAPTURE_FORMATS
    },
    "json": {
        # A missing field is null, and a line that is no row is a dead letter: `on_malformed`.
        "json.fail-on-missing-field": _FALSE,
        "json.ignore-parse-errors": _FALSE,
        "json.timestamp-format.standard": frozenset({"sql"}),
        # There are no null keys: `state.json_values` refuses them.
        "json.map-null-key.mode": None,
        "json.map-null-key.literal": None,
        "json.encode.ignore-null-fields": _FALSE,
        # Which of Flink's parsers reads; both read the same.
        "json.decode.json-parser.enabled": None,
    },
    "csv": {
        "csv.field-delimiter": None,
        "csv.quote-character": None,
        "csv.escape-character": None,
        "csv.null-literal": None,
        "csv.disable-quote-character": _FALSE,
        "csv.allow-comments": _FALSE,
        "csv.ignore-parse-errors": _FALSE,
        "csv.write-bigdecimal-in-scientific-notation": _FALSE,
        # Columns of arrays are refused.
        "csv.array-element-delimiter": None,
    },
    "parquet": {},
}
_WITH_FORMATS = ("filesystem", "ingress")
_DATAGEN_RULES = ("kind", "start", "end", "min", "max", "length", "null-rate", "max-past")


def check_options(
    options: Mapping[str, str], columns: Iterable[str], path: str, *, allow_testing: bool
) -> None:
    """Refuse what the table's connector and format do not honour.

    Args:
        options: The table's, whose connector and format are known to be ours.
        columns: Names of the physical columns, which options of datagen hold.
        path: Of the options in the document.
        allow_testing: Whether options of tests may be there.

    Raises:
        InvalidTableOption: an option is unknown, or has a value that is not honoured.
    """
    connector = options["connector"]
    known = {**_ANY_TABLE, **_CONNECTORS[connector]}
    if connector in _WITH_FORMATS:
        known |= _FORMATS[options.get("format", "changelog-json")]
    if connector == "datagen":
        known |= {f"fields.{name}.{rule}": None for name in columns for rule in _DATAGEN_RULES}
    for name, value in options.items():
        place = f"{path}/{pointer_token(name)}"
        if name not in known:
            raise InvalidTableOption(
                f'option "{name}" is not honoured by {_words(options)}',
                hint=_nearest(name, known),
                path=place,
            )
        values = known[name]
        if values is not None and value.strip().lower() not in values:
            raise InvalidTableOption(
                f'option "{name}" is not honoured by {_words(options)}',
                hint=f"leave it out, or set it to {' or '.join(sorted(values))}",
                path=place,
            )
        if name in TESTING and not allow_testing:
            raise InvalidTableOption(
                f'option "{name}" is for tests only', hint=f"see {TESTING_SETTING}", path=place
            )


def _words(options: Mapping[str, str]) -> str:
    connector, form = options["connector"], options.get("format")
    with_format = f' with format "{form}"' if form and connector in _WITH_FORMATS else ""
    return f'connector "{connector}"{with_format}'


def _nearest(name: str, known: Iterable[str]) -> str:
    shown = sorted(set(known) - TESTING)
    near = difflib.get_close_matches(name, shown, 1, cutoff=0.75)
    return f'did you mean "{near[0]}"?' if near else f"options are {', '.join(shown)}"
