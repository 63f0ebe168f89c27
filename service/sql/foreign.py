"""What sqlglot reads of other dialects and Flink does not, found in the tokens.

Most of it is a node of its own in the tree and refused there (`grammar`); what is not, because
sqlglot turns it into a node that Flink's SQL has too, is refused here.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot.tokens import TokenType

from service.sql.errors import SqlSyntaxError

if TYPE_CHECKING:
    from sqlglot.tokens import Token

    from service.sql.source_text import Fragment

_COMMENT = re.compile(r"--[^\n]*|/\*\+|/\*.*?\*/", re.DOTALL)
_FOREIGN = {
    TokenType.DCOLON,
    TokenType.COLON,
    TokenType.NULLSAFE_EQ,
    TokenType.ISNULL,
    TokenType.NOTNULL,
}
_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET}
_AFTER_NO_COMMA = {
    TokenType.COMMA,
    TokenType.R_PAREN,
    TokenType.FROM,
    TokenType.WHERE,
    TokenType.GROUP_BY,
    TokenType.HAVING,
    TokenType.ORDER_BY,
    TokenType.LIMIT,
    TokenType.UNION,
    TokenType.EXCEPT,
    TokenType.INTERSECT,
    TokenType.SEMICOLON,
}


def check_tokens(tokens: list[Token], fragment: Fragment) -> None:
    """Refuse signs that Flink's SQL does not have.

    Raises:
        SqlSyntaxError: There is such a sign.
    """
    named = _colons_of_names(tokens)
    for token in tokens:
        if (token.token_type in _FOREIGN and token.start not in named) or token.text == "==":
            raise SqlSyntaxError(f"Flink's SQL has no {token.text}", fragment.position(token.start))
    for token, following in pairwise(tokens):
        if is_foreign_pair(token, following):
            raise SqlSyntaxError(
                f"{following.text} is not expected here", fragment.position(following.start)
            )
    if tokens and tokens[-1].token_type is TokenType.COMMA:
        raise SqlSyntaxError("more is expected after a comma", fragment.position(tokens[-1].start))
    for token, comma, _ in zip(tokens, tokens[2:], tokens[3:], strict=False):
        if token.token_type is TokenType.LIMIT and comma.token_type is TokenType.COMMA:
            raise SqlSyntaxError("LIMIT takes one number", fragment.position(comma.start))


def _colons_of_names(tokens: list[Token]) -> set[int]:
    """Where a colon stands directly in the brackets of JSON_OBJECT."""
    found: set[int] = set()
    inside: list[bool] = []
    before = ""
    for token in tokens:
        if token.token_type in _OPENING:
            inside.append(before == "JSON_OBJECT")
        elif token.token_type in _CLOSING and inside:
            inside.pop()
        elif token.token_type is TokenType.COLON and inside and inside[-1]:
            found.add(token.start)
        before = token.text.upper()
    return found


def is_foreign_pair(token: Token, following: Token) -> bool:
    """Whether no query of Flink's has these two after each other."""
    match token.token_type, following.token_type:
        case TokenType.COMMA, kind:
            return kind in _AFTER_NO_COMMA
        case TokenType.NUMBER, TokenType.VAR:
            return bool(token.end + 1 == following.start)
        case TokenType.ALIAS, TokenType.STRING:
            return True
        case _:
            return False


def check_first(tokens: list[Token], fragment: Fragment) -> None:
    """Refuse a hint before the first word: the tokenizer takes it for a comment.

    Raises:
        SqlSyntaxError: There is one.
    """
    first = tokens[0].start if tokens else len(fragment.text)
    for comment in _COMMENT.finditer(fragment.text, 0, first):
        if comment[0] == "/*+":
            raise SqlSyntaxError("a hint is not expected here", fragment.position(comment.start()))
