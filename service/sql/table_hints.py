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
    """A hint as it was written, but for secrets among its options."""
    inside = _inside(hint)
    found = tokenize(inside)
    text, at = "/*+", 0
    for key, sign, value in zip(found, found[1:], found[2:], strict=False):
        shown = masked(key.text, value.text)
        if sign.token_type is TokenType.EQ and shown != value.text:
            quoted = shown.replace("'", "''")
            text += f"{inside.text[at : value.start]}'{quoted}'"
            at = value.end + 1
    return f"{text}{inside.text[at:]}*/"


def _inside(hint: Fragment) -> Fragment:
    return hint.part(len("/*+"), len(hint.text) - len("*/"))


def _read(hint: Fragment) -> tuple[str, dict[str, str]]:
    """The word OPTIONS as it was written, and what stands in its brackets."""
    inside = _inside(hint)
    cursor = Cursor(inside, tokenize(inside))
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
