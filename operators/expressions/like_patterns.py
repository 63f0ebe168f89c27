"""Patterns of LIKE as runs of literal text and wildcards.

Source: Flink `SqlLikeUtils`, `LikeCallGen` (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from operators.expressions.call_site import CallSite, Operand


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`%` or `_`."""

    many: bool
    """Of any number of characters, not of one."""


ANY_TEXT = "(?s:.*)"
"""What `%` matches, as a regular expression of Java and of Python: line breaks too."""


def like_parts(site: CallSite[Operand]) -> list[str | Wildcard]:
    """The pattern of a LIKE, with its escape character if it has one; runs of `%` are one.

    Raises:
        UnsupportedExpression: It is no literal, or escapes what needs no escape.
        MalformedExpression: The escape is not one character.
    """
    escape = site.text(2, "the escape character") if len(site) > 2 else None
    pattern = site.text(1, "the pattern")
    if escape is not None and len(escape) != 1:
        site.malformed("the escape must be one character")
    parts: list[str | Wildcard] = []
    letters = iter(pattern)
    for letter in letters:
        literal = letter
        if letter == escape:
            literal = next(letters, "")
            if literal not in {"%", "_", escape}:
                site.refuse("an escape character must stand before %, _ or itself")
        elif letter in "%_":
            wildcard = Wildcard(many=letter == "%")
            if not (parts and parts[-1] == wildcard and wildcard.many):
                parts.append(wildcard)
            continue
        if parts and isinstance(parts[-1], str):
            parts[-1] += literal
        else:
            parts.append(literal)
    return parts
