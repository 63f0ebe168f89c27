"""OPTIONS behind the name of a table: options that hold for this one reference to it.

before   FROM t /*+ OPTIONS('a' = '1') */       the table's own: 'a' = '0', 'b' = '0'
after    FROM t                                 a table with 'a' = '1', 'b' = '0'

Source: Flink `FlinkHints` and `CatalogSourceTable` (2.3), with three silences refused: a second
OPTIONS, other hints behind a table, and a plan that would not hold the options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot.tokens import TokenType

from service.plan.secrets import masked
from service.sql.catalogue import CatalogTable, View
from service.sql.cursor import Cursor
from service.sql.dialect import tokenize
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.java_maps import in_map_order

if TYPE_CHECKING:
    from service.sql.errors import Position
    from service.sql.options import Options
    from service.sql.source_text import Fragment

ENABLED = "table.dynamic-table-options.enabled"


def with_hint(entry: CatalogTable | View, hint: Fragment, options: Options) -> CatalogTable:
    """The table with the options of a hint, which win.

    Args:
        entry: What is named before the hint.
        hint: The hint, with the signs around it.
        options: Of the session.

    Raises:
        SqlError: The hint is malformed, or none that a table may have here.
    """
    position = hint.position()
    if isinstance(entry, View):
        name = ".".join(f"`{part}`" for part in entry.names)
        raise ValidationError(
            f"View '{name}' cannot be enriched with new options. Hints can only be applied to "
            "tables.",
            position,
        )
    word, given = _read(hint)
    if not options.flag(ENABLED, default=True):
        raise ValidationError(
            f"The 'OPTIONS' hint is allowed only when the config option '{ENABLED}' is set to "
            "true.",
            position,
        )
    if options.catalog_objects != "ALL":
        raise UnsupportedSql(
            "OPTIONS of a table are lost in a plan without options, "
            f"which table.plan.compile.catalog-objects = {options.catalog_objects} asks for",
            position,
        )
    shown = ", ".join(f"{key}={masked(key, given[key])}" for key in in_map_order(given))
    made = {**entry.options, **given}
    return replace(entry, options=made, hint=f"{word} options:{{{shown}}}")


def masked_hint(hint: Fragment) -> str:
    """A hint as it was written, but for comments, and secrets among its options."""
    inside = _inside(hint)
    found = tokenize(inside)
    text, at = "/*+", 0
    for number, token in enumerate(found):
        text += _blank(inside.text[at : token.start])
        at = token.end + 1
        shown = str(token.text)
        if number > 1 and found[number - 1].token_type is TokenType.EQ:
            shown = masked(found[number - 2].text, shown)
        quoted = shown.replace("'", "''")
        text += inside.text[token.start : at] if shown == token.text else f"'{quoted}'"
    return f"{text}{_blank(inside.text[at:])}*/"


def _blank(between: str) -> str:
    """What is between two tokens: blanks; or a comment, which may have anything in it."""
    return between if between.isspace() else " " * bool(between)


def _inside(hint: Fragment) -> Fragment:
    return hint.part(len("/*+"), len(hint.text) - len("*/"))


def _read(hint: Fragment) -> tuple[str, dict[str, str]]:
    """The word OPTIONS as it was written, and what stands in its brackets."""
    inside = _inside(hint)
    cursor = Cursor(inside, tokenize(inside), is_secret=True)
    position = cursor.position()
    word = cursor.name()
    if word.upper() != "OPTIONS":
        raise UnsupportedSql(
            f"hint {word.upper()} behind a table is not supported",
            position,
            hint=nearest(word.upper(), ("OPTIONS",)) or "other hints stand after SELECT",
        )
    given = _pairs(cursor, position)
    if cursor.looking_at(","):
        raise UnsupportedSql(
            "a second hint behind a table is not supported",
            cursor.position(),
            hint="one OPTIONS takes all options; Flink ignores what a second one says",
        )
    if not cursor.is_done:
        raise cursor.fail("the end of the hint")
    return word, given


def _pairs(cursor: Cursor, position: Position) -> dict[str, str]:
    found: dict[str, str] = {}
    if cursor.take("(") and not cursor.looking_at(")"):
        while True:
            key = cursor.text_or_name()
            if cursor.looking_at(",") or cursor.looking_at(")"):
                found.clear()
                break
            cursor.expect("=")
            found[key] = cursor.text()
            if not cursor.take(","):
                break
    if not found:
        raise ValidationError("Hint [OPTIONS] only support non empty key value options", position)
    cursor.expect(")")
    return found
