"""Types as text: as messages show them, and as a query has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from state.types import LENGTH_MAX, TypeRoot, format_type

if TYPE_CHECKING:
    from state.types import LogicalType

_NAMES = {"TEXT": "STRING", "TIMESTAMPLTZ": "TIMESTAMP_LTZ"}
"""Flink's names of types that sqlglot renames."""


def summary(logical: LogicalType) -> str:
    """A type in few words: Flink's summary string.

    >>> from state.types import parse_type
    >>> summary(parse_type("VARCHAR(2147483647) NOT NULL"))
    'STRING NOT NULL'
    """
    if logical.root is TypeRoot.VARCHAR and logical.length == LENGTH_MAX:
        return "STRING" if logical.nullable else "STRING NOT NULL"
    shown = format_type(logical)
    if logical.root is TypeRoot.TIMESTAMP_LTZ:
        shown = shown.replace("TIMESTAMP", "TIMESTAMP_LTZ").replace(" WITH LOCAL TIME ZONE", "")
    return f"{shown} *{logical.time_attribute}*" if logical.time_attribute else shown


def written_type(node: exp.DataType) -> str:
    """The type of a cast as Flink writes it."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    arguments = ", ".join(
        written_type(each) if isinstance(each, exp.DataType) else each.sql()
        for each in node.expressions
    )
    if name == "USERDEFINED":
        return str(node.args.get("kind") or name)
    renamed = _NAMES.get(name, name)
    if node.args.get("nested"):
        return f"{renamed}<{arguments}>"
    return f"{renamed}({arguments})" if arguments else renamed
