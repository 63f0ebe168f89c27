"""Walking over the tokens of a statement, for the grammar that is Flink's own: DDL, SET, INSERT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot.tokens import TokenType

from service.sql.errors import Position, SqlSyntaxError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot.tokens import Token

    from service.sql.source_text import Fragment

_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.LT}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.GT}


@dataclass(slots=True)
class Cursor:
    """A place in the tokens of one statement."""

    fragment: Fragment
    """What the tokens' offsets count from."""
    tokens: Sequence[Token]
    at: int = 0
    is_secret: bool = False
    """Whether errors are not to repeat words and texts."""

    @property
    def is_done(self) -> bool:
        """Whether every token was taken."""
        return self.at >= len(self.tokens)

    @property
    def word(self) -> str:
        """The next token in upper case; empty at the end, and for a text or a quoted name."""
        if self.is_done or self.tokens[self.at].token_type in (
            TokenType.STRING,
            TokenType.IDENTIFIER,
        ):
            return ""
        return str(self.tokens[self.at].text).upper()

    def position(self) -> Position:
        """The place of the next token, or of the end."""
        if not self.is_done:
            return self.fragment.position(self.tokens[self.at].start)
        return self.fragment.position(self.tokens[-1].end if self.tokens else 0)

    def fail(self, expected: str) -> SqlSyntaxError:
        """The error about the next token, to be raised."""
        if self.is_done:
            found = "the end"
        elif self.tokens[self.at].token_type is TokenType.HINT:
            found = "a hint"  # what it says may be secret
        else:
            text = str(self.tokens[self.at].text)
            is_told = not self.is_secret or (len(text) == 1 and not text.isalnum())
            found = repr(text) if is_told else "what stands there"
        return SqlSyntaxError(f"{expected} was expected, not {found}", self.position())

    def looking_at(self, *words: str) -> bool:
        """Whether the next tokens are these words; a token may hold two of them."""
        return self._length_of(words) > 0

    def take(self, *words: str) -> bool:
        """Go past these words, if they are next."""
        length = self._length_of(words)
        self.at += length
        return length > 0

    def expect(self, *words: str) -> None:
        """Go past these words.

        Raises:
            SqlSyntaxError: They are not next.
        """
        if not self.take(*words):
            raise self.fail(" ".join(words))

    def text(self) -> str:
        """Take a text in quotes."""
        if self.is_done or self.tokens[self.at].token_type is not TokenType.STRING:
            raise self.fail("a string in single quotes")
        self.at += 1
        return str(self.tokens[self.at - 1].text)

    def text_or_name(self) -> str:
        """Take a text in quotes, or a name."""
        is_text = not self.is_done and self.tokens[self.at].token_type is TokenType.STRING
        return self.text() if is_text else self.name()

    def name(self) -> str:
        """Take one name, quoted or not."""
        if self.is_done:
            raise self.fail("a name")
        token = self.tokens[self.at]
        is_name = token.token_type is TokenType.IDENTIFIER or (
            str(token.text).replace("_", "a").replace("$", "a").isalnum()
            and not str(token.text)[0].isdigit()
            and token.token_type is not TokenType.STRING
        )
        if not is_name:
            raise self.fail("a name")
        self.at += 1
        return str(token.text)

    def names(self) -> tuple[str, ...]:
        """Take a name of up to three parts."""
        found = [self.name()]
        while self.take("."):
            found.append(self.name())
        if len(found) > 3:
            raise self.fail("a name of at most three parts")
        return tuple(found)

    def name_list(self) -> tuple[str, ...]:
        """Take names in brackets."""
        self.expect("(")
        found = [self.name()]
        while self.take(","):
            found.append(self.name())
        self.expect(")")
        return tuple(found)

    def hint(self) -> Fragment | None:
        """Take a hint, if there is one: with the signs around it."""
        if self.is_done or self.tokens[self.at].token_type is not TokenType.HINT:
            return None
        self.at += 1
        return self.slice(self.at - 1, self.at)

    def until(self, *stops: tuple[str, ...], is_type: bool = False) -> Fragment:
        """Take everything up to one of these runs of words, or a bracket that closes more.

        Angle brackets count as brackets in types only.
        """
        begin, depth = self.at, 0
        while not self.is_done:
            if depth == 0 and any(self.looking_at(*stop) for stop in stops):
                break
            kind = self.tokens[self.at].token_type
            if kind is TokenType.R_PAREN and depth == 0:
                break
            counts = is_type or kind not in (TokenType.LT, TokenType.GT)
            depth += counts * ((kind in _OPENING) - (kind in _CLOSING))
            self.at += 1
        if self.at == begin:
            raise self.fail("more")
        return self.slice(begin, self.at)

    def rest(self) -> Fragment:
        """Take everything that is left."""
        begin, self.at = self.at, len(self.tokens)
        if begin == self.at:
            raise self.fail("more")
        return self.slice(begin, self.at)

    def slice(self, begin: int, end: int) -> Fragment:
        """The text of a run of tokens."""
        return self.fragment.part(self.tokens[begin].start, self.tokens[end - 1].end + 1)

    def _length_of(self, words: tuple[str, ...]) -> int:
        """How many tokens these words are, 0 if they are not next."""
        wanted, at = " ".join(words), self.at
        while wanted and at < len(self.tokens):
            token = self.tokens[at]
            if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
                return 0
            text = " ".join(str(token.text).upper().split())
            if wanted != text and not wanted.startswith(text + " "):
                return 0
            wanted, at = wanted[len(text) :].lstrip(), at + 1
        return 0 if wanted else at - self.at
