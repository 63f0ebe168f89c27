"""Which word of a query that cannot be read is a misspelt one of the grammar.

The parser takes a word that it does not know for a name, and stumbles a word or two later. So the
words about that place are tried as the word of the grammar that they are most like: the one with
which it comes to the end, or further than to the next word, is meant.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from sqlglot.tokens import TokenType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlglot.tokens import Token

_WORDS = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "GROUP BY", "HAVING", "ORDER", "ORDER BY"),
    *("LIMIT", "OFFSET", "FETCH", "WITH", "VALUES", "UNION", "INTERSECT", "EXCEPT", "WINDOW"),
    *("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "OUTER", "CROSS", "NATURAL", "USING", "LATERAL"),
    *("LIKE", "BETWEEN", "EXISTS", "CASE", "WHEN", "THEN", "ELSE", "OVER", "PARTITION BY"),
    *("INTERVAL", "TABLE", "DESCRIPTOR"),
)
_BEFORE, _BEHIND = 3, 1
"""So many words before and behind the place of the complaint are tried."""


def misspelt(
    text: str, tokens: Sequence[Token], at: int, fails_at: Callable[[str], int | None]
) -> tuple[Token, str] | None:
    """The misspelt word of a query and the one that is meant; None if there is no such.

    Args:
        text: The query, which cannot be read.
        tokens: Its words and signs.
        at: Which of them the parser complains of.
        fails_at: How many words and signs follow the place at which a query cannot be read; None
            if it can be.
    """
    first, last = max(at - _BEFORE, 0), min(at + _BEHIND + 1, len(tokens))
    found: list[tuple[float, Token, str]] = []
    for token in tokens[first:last]:
        if token.token_type is not TokenType.VAR:
            continue
        for meant in difflib.get_close_matches(str(token.text).upper(), _WORDS, n=1, cutoff=0.7):
            left = fails_at(f"{text[: token.start]}{meant}{text[token.end + 1 :]}")
            if left is None or left < len(tokens) - at - 1:
                likeness = difflib.SequenceMatcher(None, str(token.text).upper(), meant).ratio()
                found.append((likeness, token, meant))
    if not found:
        return None
    _, token, meant = max(found, key=lambda each: each[0])
    return token, meant
