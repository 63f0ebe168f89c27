r"""Flink's `csv.*` options: how fields of a line are told apart, for sources and sinks alike.

    csv.field-delimiter    one ASCII character, default a comma; `\t` is a tab
    csv.quote-character    one ASCII character, default "
    csv.escape-character   one ASCII character, default none; sources only
    csv.null-literal       what an unquoted field is null by, default nothing at all; sources only

Flink has no default null literal, so that an empty field of its strings is ''. Here it is null
unless it is quoted: otherwise no text could say null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from state.types import MAP_ROOTS, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.types import LogicalType

_NESTED = MAP_ROOTS | {TypeRoot.ARRAY, TypeRoot.ROW}


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The characters with a meaning; no two are the same."""

    delimiter: str
    quote: str
    escape: str | None
    null: str
    """An unquoted field with exactly this text is null."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> CsvDialect:
        """The dialect of a source.

        Raises:
            InvalidTableOption: an option is not one ASCII character, or two are the same one.
        """
        delimiter = _character(options, "csv.field-delimiter", ",")
        quote = _character(options, "csv.quote-character", '"')
        has_escape = "csv.escape-character" in options
        escape = _character(options, "csv.escape-character", "") if has_escape else None
        if len({delimiter, quote, escape}) < 3:
            raise InvalidTableOption("delimiter, quote and escape of csv must differ")
        return cls(delimiter, quote, escape, options.get("csv.null-literal", ""))

    @classmethod
    def of_sink(cls, options: Mapping[str, str]) -> CsvDialect:
        """The dialect of a sink, of which only the delimiter is free.

        Raises:
            InvalidTableOption: as `of`, or an option that a sink does not honour.
        """
        dialect = cls.of(options)
        if dialect.quote != '"' or dialect.escape is not None or dialect.null:
            raise InvalidTableOption(
                "a csv sink quotes by doubling, and writes null as an empty field",
                hint="leave out csv.quote-character, csv.escape-character and csv.null-literal",
            )
        return dialect


def check_csv_type(name: str, logical: LogicalType, path: str) -> None:
    """Refuse a column that one field of a line cannot hold; `path` is its place in the document.

    Raises:
        UnsupportedConnector: its type has types inside.
    """
    if logical.root in _NESTED:
        raise UnsupportedConnector(
            f'format "csv" cannot hold column {name} of type {format_type(logical)}',
            hint="use format json, changelog-json or parquet",
            path=path,
        )


def _character(options: Mapping[str, str], name: str, default: str) -> str:
    text = options.get(name, default).replace("\\t", "\t")
    if len(text) != 1 or not (text.isascii() and (text.isprintable() or text == "\t")):
        raise InvalidTableOption(f'option "{name}" must be one visible ASCII character, or \\t')
    return text
