"""Expressions written back as SQL: how a plan shows computed columns and watermarks.

Source: Flink `SqlNode.toSqlString` with the ANSI dialect: names in backticks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp, generator

from service.sql.dialect import JsonConstructor


class _Generator(generator.Generator):  # type: ignore[misc]  # sqlglot's types are not followed
    """Upper-case keywords, names always quoted, calls as they were written."""

    TRANSFORMS: ClassVar[dict[type, Any]] = {
        **generator.Generator.TRANSFORMS,
        exp.Interval: lambda self, node: (
            f"INTERVAL {self.sql(node, 'this')} {node.args['unit'].name.upper()}"
        ),
        JsonConstructor: lambda self, node: self.json_constructor(node),
    }

    def escape_str(self, text: str, *_: object, **__: object) -> str:
        """Of a text only quotes are escaped, by another one; the dialect's own way is Spark's."""
        return text.replace("'", "''")

    def json_constructor(self, node: exp.Expression) -> str:
        """JSON_OBJECT, and JSON_ARRAY of something, with what they do with NULL."""
        parts = [self.sql(each) for each in node.expressions]
        if node.name == "JSON_OBJECT":
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [f"KEY {name} VALUE {value}" for name, value in pairs]
        elif not parts:
            return "JSON_ARRAY()"
        inside = f"{', '.join(parts)} {node.args['nulls']} ON NULL".strip()
        return f"{node.name}({inside})"


_QUOTED_FUNCTIONS = frozenset(
    {"TO_TIMESTAMP_LTZ", "COALESCE", "IFNULL", "JSON_VALUE"}
    | {"JSON", "JSON_STRING", "JSON_QUOTE", "JSON_UNQUOTE"}
)
"""Functions that Flink defines itself, outside of Calcite's grammar: their names are quoted."""


def to_sql(tree: exp.Expression) -> str:
    """The text of an expression.

    >>> from service.sql.dialect import parse_expression
    >>> from service.sql.source_text import Fragment
    >>> text = "ts - interval '10' second"
    >>> to_sql(parse_expression(Fragment(text, 0, len(text))))
    "`ts` - INTERVAL '10' SECOND"
    """
    quoted = tree.copy()
    for name in quoted.find_all(exp.Identifier):
        name.set("quoted", True)
    for called in quoted.find_all(exp.Anonymous):
        if called.name.upper() in _QUOTED_FUNCTIONS:
            called.set("this", f"`{called.name.upper()}`")
    made = _Generator(dialect="spark", normalize_functions="upper").generate(quoted)
    return str(made)
