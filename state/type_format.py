"""Writes logical types as the one text that Flink's plans hold; `state.type_parse` reads it.

`parse_type(format_type(t)) == t` for every type that has a text.

Source: Flink `LogicalType.asSerializableString` (2.3).
"""

from __future__ import annotations

from state.logical_type import INTERVAL_ROOTS, LogicalType, TypeRoot


def format_type(logical: LogicalType) -> str:
    """The type as Flink writes it in a plan.

    >>> from state.type_parse import parse_type
    >>> format_type(parse_type("row(a string, b timestamp_ltz(3) not null)"))
    'ROW<`a` VARCHAR(2147483647), `b` TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL>'
    """
    text = _format(logical)
    return text if logical.nullable else f"{text} NOT NULL"


_FORMATS = {
    TypeRoot.CHAR: "CHAR({0.length})",
    TypeRoot.VARCHAR: "VARCHAR({0.length})",
    TypeRoot.BINARY: "BINARY({0.length})",
    TypeRoot.VARBINARY: "VARBINARY({0.length})",
    TypeRoot.DECIMAL: "DECIMAL({0.precision}, {0.scale})",
    TypeRoot.INTEGER: "INT",
    TypeRoot.TIME: "TIME({0.precision})",
    TypeRoot.TIMESTAMP: "TIMESTAMP({0.precision})",
    TypeRoot.TIMESTAMP_TZ: "TIMESTAMP({0.precision}) WITH TIME ZONE",
    TypeRoot.TIMESTAMP_LTZ: "TIMESTAMP({0.precision}) WITH LOCAL TIME ZONE",
}
_CONTAINERS = frozenset({TypeRoot.ARRAY, TypeRoot.MULTISET, TypeRoot.MAP})


def _format(logical: LogicalType) -> str:
    root = logical.root
    if root in _FORMATS:
        return _FORMATS[root].format(logical)
    if root in INTERVAL_ROOTS:
        return _format_interval(logical)
    if root in _CONTAINERS:
        return f"{root.name}<{', '.join(map(format_type, logical.children))}>"
    if root is TypeRoot.ROW:
        return f"ROW<{_format_fields(logical)}>"
    if root is TypeRoot.STRUCTURED:
        parts = (_quote(logical.arguments[0]), _format_fields(logical))
        return f"STRUCTURED<{', '.join(filter(None, parts))}>"
    if root in (TypeRoot.RAW, TypeRoot.LEGACY):
        return f"{root.name}({', '.join(map(_quote, logical.arguments))})"
    if root is TypeRoot.UNRESOLVED:
        return ".".join(map(_name, logical.arguments))
    return root.name


def _format_fields(logical: LogicalType) -> str:
    comments = logical.field_comments or (None,) * len(logical.field_names)
    fields = zip(logical.field_names, logical.children, comments, strict=True)
    return ", ".join(
        f"{_name(name)} {format_type(child)}" + ("" if comment is None else f" {_quote(comment)}")
        for name, child, comment in fields
    )


def _format_interval(logical: LogicalType) -> str:
    resolution = logical.resolution or ""
    first, _, last = resolution.partition(" TO ")
    if first in ("YEAR", "DAY"):
        resolution = resolution.replace(first, f"{first}({logical.precision})", 1)
    if (last or first) == "SECOND":
        resolution += f"({logical.scale})"
    return f"INTERVAL {resolution}"


def _name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
