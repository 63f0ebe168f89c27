r"""Java's regular expressions as Python's, where both mean the same; the rest is refused.

Taken are characters, `.`, classes of characters and ranges, `\d \w \s` and their opposites,
`^ $ \A \z \Z`, groups (plain, named, `(?:`, looking ahead and behind, atomic), alternatives,
quantifiers (greedy, lazy, possessive), `\Q...\E`, and `(?i)` and `(?s)` in front of everything.
Rewritten are `.`, `$` and `\Z`, since Java knows more line ends. Refused are `\b`, properties
(`\p`), classes inside classes, references back to groups and whatever is not named here.

Source: java.util.regex.Pattern (Java 17), re (Python 3.11).
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

_LINE_END = "\\n\\r\\u0085\\u2028\\u2029"
_DOT = f"[^{_LINE_END}]"
_END = r"(?:(?=\r\n\Z)|(?=[\r\u0085\u2028\u2029]\Z)|(?<!\r)(?=\n\Z)|\Z)"
_SAME_CLASSES = "dDwWsS"
_CONTROLS = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f", "a": "\\x07", "e": "\\x1b"}
_FLAGS = re.compile(r"\(\?([is]{1,2})\)")
_GROUP = re.compile(r"\((?:\?(?::|=|!|>|<=|<!|<([A-Za-z][A-Za-z0-9]*)>))?")
_REPEAT = re.compile(r"(?:[*+?]|\{([0-9]{1,9})(?:,([0-9]{1,9})?)?\})[+?]?")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_REPEAT_MAX = 65_535


class PatternDiffers(ValueError):
    """The pattern is none in Java, or may mean something else in Python; the message says which."""


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A pattern of Java, as one of Python that finds the same."""

    python: re.Pattern[str]
    unsure: frozenset[int]
    """Groups of which the engines may keep different matches: repeated, or inside of `(?!`."""


def translated(pattern: str) -> JavaPattern:
    """The Python pattern that finds what the Java pattern finds.

    Raises:
        PatternDiffers: there is none that we are sure of.
    """
    flags = re.ASCII
    if found := _FLAGS.match(pattern):
        flags |= re.IGNORECASE if "i" in found[1] else 0
        flags |= re.DOTALL if "s" in found[1] else 0
        pattern = pattern[found.end() :]
    if flags & re.IGNORECASE and not pattern.isascii():
        raise PatternDiffers("letters outside of ASCII without regard to case")
    reader = _Reader(pattern, is_dot_all=bool(flags & re.DOTALL))
    text = reader.text()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return JavaPattern(re.compile(text, flags), frozenset(reader.unsure))
    except re.error as error:
        raise PatternDiffers(f"the pattern cannot be read: {error.msg}") from error
    except FutureWarning as error:
        raise PatternDiffers("a class of characters may mean a set") from error
    except OverflowError as error:
        raise PatternDiffers("a repetition number is too large") from error
    except RecursionError as error:
        raise PatternDiffers("it is nested too deeply") from error


class _Reader:
    """One walk over a pattern."""

    def __init__(self, pattern: str, *, is_dot_all: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._dot = "." if is_dot_all else _DOT
        self._can_repeat = False
        """Whether a quantifier may come next."""
        self._pieces: list[str] = []
        self._captures = 0
        self._opened: list[tuple[int, int]] = []
        self._closed = (0, 0)
        """Of the group that was closed last: its first piece, and how many captured before it."""
        self.unsure: set[int] = set()

    def text(self) -> str:
        """The Python pattern."""
        while self._at < len(self._pattern):
            self._pieces.append(self._next())
        return "".join(self._pieces)

    def _next(self) -> str:
        letter = self._pattern[self._at]
        if letter in "*+?{":
            return self._repeat()
        if letter == "(":
            return self._group()
        self._at += 1
        self._can_repeat = letter not in "|^$"
        match letter:
            case "\\":
                return self._escape()
            case "[":
                return self._class()
            case ".":
                return self._dot
            case "$":
                return _END
            case ")":
                self._close_group()
                return letter
            case "|" | "^":
                return letter
            case _:
                return re.escape(letter)

    def _repeat(self) -> str:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None or not self._can_repeat:
            raise PatternDiffers("a quantifier has nothing to repeat")
        if any(int(count) > _REPEAT_MAX for count in found.groups() if count):
            raise PatternDiffers("a repetition number is too large")
        if self._pieces[-1] == ")":
            self._repeat_group()
        self._at = found.end()
        self._can_repeat = False
        return found[0]

    def _repeat_group(self) -> None:
        """Refuse to repeat what may be empty: the engines end such rounds in their own ways."""
        start, before = self._closed
        group = "".join(self._pieces[start:])
        self.unsure.update(range(before + 1, self._captures + 1))
        try:
            found = re.compile(group, re.ASCII).match("")
        except (re.error, RecursionError) as error:
            raise PatternDiffers("a group that cannot be read") from error
        if found is not None or group.startswith(("(?=", "(?!", "(?<=", "(?<!")):
            raise PatternDiffers("a repeated group that may match nothing")

    def _group(self) -> str:
        found = _GROUP.match(self._pattern, self._at)
        if found is None or self._pattern.startswith("?", found.end()):
            raise PatternDiffers("a kind of group that is not read")
        self._at = found.end()
        self._can_repeat = False
        self._opened.append((len(self._pieces), self._captures))
        self._captures += found[0] == "(" or found[1] is not None
        return f"(?P<{found[1]}>" if found[1] else found[0]

    def _close_group(self) -> None:
        self._closed = self._opened.pop() if self._opened else (0, 0)
        start, before = self._closed
        if self._pieces[start : start + 1] in (["(?!"], ["(?<!"]):
            self.unsure.update(range(before + 1, self._captures + 1))

    def _escape(self) -> str:
        letter = self._pattern[self._at : self._at + 1]
        if letter == "Q":
            return self._quotation()
        if letter in ("A", "z", "Z"):
            self._at += 1
            self._can_repeat = False
            return {"A": r"\A", "z": r"\Z", "Z": _END}[letter]
        return self._character_or_class()

    def _character_or_class(self) -> str:
        letter = self._pattern[self._at : self._at + 1]
        if found := _HEX.match(self._pattern, self._at):
            code = int(found[1] or found[2], 16)
            if 0xD800 <= code <= 0xDFFF:
                raise PatternDiffers("half of a surrogate pair")
            self._at = found.end()
            return re.escape(chr(code))
        self._at += 1
        if letter and letter in _SAME_CLASSES:
            return "\\" + letter
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if not letter or not letter.isascii() or letter.isalnum():
            raise PatternDiffers(f"the escape \\{letter} is not read")
        return re.escape(letter)

    def _quotation(self) -> str:
        start = self._at + 1
        end = self._pattern.find("\\E", start)
        text = self._pattern[start:] if end < 0 else self._pattern[start:end]
        self._at = len(self._pattern) if end < 0 else end + 2
        if not text:
            raise PatternDiffers("an empty quotation")
        # A quantifier after it repeats the last character, in Java and here.
        return re.escape(text)

    def _class(self) -> str:
        pieces = ["["]
        if self._pattern.startswith("^", self._at):
            pieces.append("^")
            self._at += 1
        first = self._at
        while True:
            letter = self._pattern[self._at : self._at + 1]
            if not letter or (letter == "]" and self._at == first):
                raise PatternDiffers("a class of characters has no end")
            self._at += 1
            if letter == "]":
                return "".join([*pieces, "]"])
            pieces.append(self._member(letter, is_first=self._at - 1 == first))

    def _member(self, letter: str, *, is_first: bool) -> str:
        if letter == "\\":
            return self._character_or_class()
        if letter in "[&~^" and not (letter == "^" and not is_first):
            raise PatternDiffers("a class inside a class of characters")
        if letter == "-":
            # Between two characters it is a range; elsewhere the engines may differ.
            beside = self._pattern[self._at : self._at + 1]
            if is_first or beside == "]":
                return "\\-"
            if beside in ("-", "[", "\\") and not self._is_range_end():
                raise PatternDiffers("a range of characters that is not read")
            return "-"
        return re.escape(letter)

    def _is_range_end(self) -> bool:
        """Whether an escape stands next that is one character."""
        following = self._pattern[self._at : self._at + 2]
        return following.startswith("\\") and following[1:] not in {*_SAME_CLASSES, "", "p", "P"}
