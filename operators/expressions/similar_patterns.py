"""Patterns of SIMILAR TO as regular expressions of Java and of Python.

`%` is any text, `_` any character but a line's end; `| * + ? { } ( ) [ ] ^ .` mean what they mean
to Java, since Flink passes them on, and a class of characters may name others (`[[:DIGIT:]]`).

Source: Flink `SqlLikeUtils.sqlToRegexSimilar` (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.expressions.java_patterns import PatternDiffers, translated

if TYPE_CHECKING:
    import re

    from operators.expressions.call_site import CallSite, Operand

_SPECIALS = frozenset("[]()|^-+*_%?{}")
"""What may be escaped, beside the escape character itself."""
_REPEATS = "*+?{"
_JAVA_SPECIALS = frozenset("[]()|^-+*?{}$\\.")
_NAMED = {
    "ALPHA": "a-zA-Z",
    "UPPER": "A-Z",
    "LOWER": "a-z",
    "DIGIT": "0-9",
    "SPACE": " ",
    "WHITESPACE": "\\s",
    "ALNUM": "a-zA-Z0-9",
}


@dataclass(frozen=True, slots=True)
class SimilarPattern:
    """What a whole text must match."""

    java: str
    python: re.Pattern[str]


def similar_pattern(site: CallSite[Operand]) -> SimilarPattern:
    """The pattern of a SIMILAR TO, with its escape character if it has one.

    Raises:
        UnsupportedExpression: It is no literal, is none in Flink, or may differ between engines.
        MalformedExpression: The escape is not one character.
    """
    escape = site.text(2, "the escape character") if len(site) > 2 else ""
    pattern = site.text(1, "the pattern")
    if len(site) > 2 and len(escape) != 1:
        site.malformed("the escape must be one character")
    if escape == ":":
        site.refuse("the escape character ':' is not supported")
    try:
        java = _Reader(pattern, escape).text()
        return SimilarPattern(java, translated(java).python)
    except PatternDiffers as error:
        site.refuse(f"the pattern differs between engines or is none: {error}")


class _Reader:
    """One walk over a pattern."""

    def __init__(self, pattern: str, escape: str) -> None:
        self._pattern = pattern
        self._escape = escape
        self._at = 0

    def text(self) -> str:
        """The pattern of Java."""
        pieces: list[str] = []
        while self._at < len(self._pattern):
            pieces.append(self._next())
        return "".join(pieces)

    def _next(self) -> str:
        letter = self._pattern[self._at]
        self._at += 1
        if letter == self._escape:
            return self._escaped()
        match letter:
            case "_":
                return "."
            case "%":
                if self._ahead() and self._ahead() in _REPEATS:
                    raise PatternDiffers("% is repeated")
                return r"[\s\S]*"
            case "[":
                return self._class()
            case "]":
                raise PatternDiffers("] without [")
            case "(" if self._ahead() == "?":
                raise PatternDiffers("(? is no group of SQL")
            case "\\" | "$":
                return "\\" + letter
            case _:
                return letter

    def _ahead(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _escaped(self) -> str:
        letter = self._ahead()
        if not letter or (letter not in _SPECIALS and letter != self._escape):
            raise PatternDiffers("an escape character must stand before a special one or itself")
        self._at += 1
        # Flink quotes the escape character itself only where it is special in SQL.
        if letter in _JAVA_SPECIALS and letter not in _SPECIALS:
            raise PatternDiffers(f"the escape character {letter} stands for itself")
        return "\\" + letter if letter in _JAVA_SPECIALS else letter

    def _class(self) -> str:
        """A class of characters, up to its end."""
        pieces = ["["]
        while True:
            letter = self._ahead()
            if not letter:
                raise PatternDiffers("a class of characters has no end")
            if self._pattern.startswith("[:", self._at):
                pieces.append(self._named())
                continue
            self._at += 1
            if letter == "]":
                return "".join([*pieces, "]"])
            if letter == self._escape:
                pieces.append(self._escaped())
            elif letter in "-^":
                pieces.append(letter)
            elif letter in _SPECIALS or letter in "\\&":
                raise PatternDiffers(f"{letter} inside of a class of characters")
            else:
                pieces.append(letter)

    def _named(self) -> str:
        end = self._pattern.find(":]", self._at)
        name = self._pattern[self._at + 2 : end] if end > 0 else ""
        found = _NAMED.get(name.upper()) if name in (name.upper(), name.lower()) else None
        if found is None:
            raise PatternDiffers("a class of characters without a known name")
        self._at = end + 2
        return found
