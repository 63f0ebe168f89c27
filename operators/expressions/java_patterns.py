r"""Java's regular expressions as Python's, where both find the same.

A pattern is read by Java's grammar. What Java does not take is no pattern (`NotJava`); what it
takes and Python has not, or ends in its own way, is known by name (`PatternDiffers`): the JVM may
still run it. All classes of characters become sets of code points (`character_sets`), so that
unions, intersections, properties and letters without case mean what they mean in Java.

Without counterpart are comments (`(?x)`), `\R \X \G \N`, scripts, case by Unicode (`(?u)`), looking
behind at texts of several lengths, and repeating what may match nothing.

Source: java.util.regex.Pattern (Java 17), re (Python 3.11).
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, field, replace
from functools import lru_cache

from operators.expressions import character_sets as sets

_LINE_END = "\\n\\r\\u0085\\u2028\\u2029"
_END = r"(?:(?=\r\n\Z)|(?=[\r\u0085\u2028\u2029]\Z)|(?<!\r)(?=\n\Z)|\Z)"
_LINES_END = r"(?:(?<!\r)(?=\n)|(?=[\r\u0085\u2028\u2029])|\Z)"
_LINES_START = r"(?:(?<![\s\S])|(?<=[\n\u0085\u2028\u2029])|(?<=\r)(?!\n))(?!\Z)"
_ENDS = {"A": r"\A", "z": r"\Z", "Z": _END}
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_CLASSES = {
    "d": sets.DIGITS,
    "w": sets.WORDS,
    "s": sets.BLANKS,
    "h": sets.HORIZONTAL,
    "v": sets.VERTICAL,
}
_FLAGS = re.compile(r"\(\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_GROUP = re.compile(r"\((?:\?(?::|=|!|>|<=|<!|<([A-Za-z][A-Za-z0-9]*)>))?")
_REPEAT = re.compile(r"(?:[*+?]|\{([0-9]+)(,([0-9]*))?\})[+?]?")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})")
_SURROGATES = re.compile(r"u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_OCTAL = re.compile(r"0([0-3]?[0-7]{1,2})")
_PROPERTY = re.compile(r"[pP](?:\{([A-Za-z0-9_=\- ]+)\}|([A-Za-z]))")
_NAME = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>")
_REPEAT_MAX = 65_535
_DEPTH_MAX = 200
"""Groups inside each other: both engines call themselves for each."""
_COUNT_MAX = (1 << 31) - 1
_LOOKS = ("(?=", "(?!", "(?<=", "(?<!")
_KEPT_MAX = 512


class PatternDiffers(ValueError):
    """Java takes the pattern, and Python may find something else; the message says why."""


class NotJava(PatternDiffers):
    """The pattern is none in Java."""


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """A pattern of Java, as one of Python that finds the same."""

    python: re.Pattern[str]
    unsure: frozenset[int]
    """Groups of which the engines may keep different matches: they stand in what is tried once, a
    look around, `(?>` or a possessive repetition."""


@dataclass(frozen=True, slots=True)
class JavaGroups:
    """The groups of a pattern that capture."""

    count: int
    absent: frozenset[int]
    """Those that may take no part in a match."""


@lru_cache(maxsize=_KEPT_MAX)
def translated(pattern: str) -> JavaPattern:
    """The Python pattern that finds what the Java pattern finds.

    Raises:
        NotJava: It is no pattern.
        PatternDiffers: There is none that we are sure of.
    """
    reader = _read(pattern)
    if reader.difference:
        raise PatternDiffers(reader.difference)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return JavaPattern(re.compile(reader.python, re.ASCII), frozenset(reader.unsure))
    except (re.error, FutureWarning) as error:
        raise PatternDiffers(f"the pattern cannot be read: {error}") from error
    except OverflowError as error:
        raise PatternDiffers("a repetition number is too large") from error
    except RecursionError as error:
        raise PatternDiffers("it is nested too deeply") from error


def groups_of(pattern: str) -> JavaGroups:
    """The groups of a pattern, whether Python finds the same or not.

    Raises:
        NotJava: It is no pattern.
    """
    reader = _read(pattern)
    return JavaGroups(reader.captures, frozenset(reader.absent))


def _read(pattern: str) -> _Reader:
    reader = _Reader(pattern)
    reader.read()
    return reader


@dataclass(frozen=True, slots=True)
class _Modes:
    """What flags say where the reader stands."""

    without_case: bool = False
    dot_all: bool = False
    lines: bool = False


@dataclass(slots=True)
class _Opened:
    """A group that is not closed yet."""

    piece: int
    captures: int
    modes: _Modes
    opening: str
    number: int | None = None
    is_behind: bool = False
    has_branches: bool = False


@dataclass(slots=True)
class _Reader:
    """One walk over a pattern."""

    pattern: str
    captures: int = 0
    difference: str = ""
    """Why Python may find something else, if so."""
    unsure: set[int] = field(default_factory=set)
    absent: set[int] = field(default_factory=set)
    """Groups that may take no part in a match."""
    _at: int = 0
    _can_repeat: bool = False
    """Whether a quantifier may come next."""
    _is_place: bool = False
    """Whether what stands before is a place between characters, which Java lets one repeat."""
    _modes: _Modes = _Modes()
    _has_branches: bool = False
    """Whether there is a `|` outside of all groups."""
    _pieces: list[str] = field(default_factory=list)
    _opened: list[_Opened] = field(default_factory=list)
    _closed: _Opened | None = None
    """The group that ends with the last piece."""
    _names: dict[str, int] = field(default_factory=dict)

    def read(self) -> None:
        """Read all of it.

        Raises:
            NotJava: It is no pattern.
        """
        while self._at < len(self.pattern):
            self._next()
        if self._opened:
            raise NotJava("a group has no end")
        if self._has_branches:
            self.absent.update(range(1, self.captures + 1))

    @property
    def python(self) -> str:
        """The Python pattern."""
        return "".join(self._pieces)

    # What stands next

    def _ahead(self, count: int = 1) -> str:
        return self.pattern[self._at : self._at + count]

    def _differs(self, why: str) -> None:
        self.difference = self.difference or why

    def _add(self, piece: str, *, can_repeat: bool = True, is_place: bool = False) -> None:
        self._pieces.append(piece)
        self._can_repeat, self._is_place = can_repeat, is_place
        self._closed = None

    def _set(self, found: sets.Ranges) -> None:
        self._add(sets.text_of(found))

    def _literal(self, letter: str) -> None:
        found = sets.ranges(letter)
        self._set(sets.without_case(found) if self._modes.without_case else found)

    def _next(self) -> None:
        letter = self._ahead()
        match letter:
            case "*" | "+" | "?" | "{":
                self._repeat()
                return
            case "(":
                self._group()
                return
            case _:
                self._at += 1
        match letter:
            case "\\":
                self._escape()
            case "[":
                self._set(self._class())
            case ".":
                all_of_it: sets.Ranges = ((0, sets.LAST),)
                ends = () if self._modes.dot_all else sets.LINE_ENDS
                self._set(sets.intersection(all_of_it, sets.negated(ends)))
            case "$":
                self._add(_LINES_END if self._modes.lines else _END, is_place=True)
            case "^":
                self._add(_LINES_START if self._modes.lines else r"\A", is_place=True)
            case ")":
                self._close()
            case "|":
                self._add("|", can_repeat=False)
                if self._opened:
                    self._opened[-1].has_branches = True
                else:
                    self._has_branches = True
            case _:
                self._literal(letter)

    # Quantifiers

    def _repeat(self) -> None:
        found = _REPEAT.match(self.pattern, self._at)
        if found is None:
            raise NotJava("a repetition is not complete")
        if self._is_place:
            self._differs("a place is repeated")
        elif not self._can_repeat:
            raise NotJava("a quantifier has nothing to repeat")
        least, most = _counts(found)
        if least > _COUNT_MAX or most > _COUNT_MAX:
            raise NotJava("a repetition number is too large")
        if most < least:
            raise NotJava("a repetition whose end is before its start")
        if max(least, most if most != _COUNT_MAX else 0) > _REPEAT_MAX:
            self._differs("a repetition number is too large")
        if self._closed is not None:
            if least == 0:
                self.absent.update(range(self._closed.captures + 1, self.captures + 1))
            if found[0][-1] == "+" and len(found[0]) > 1:
                self._leave_open(self._closed)
            self._repeat_group(self._closed, most)
        self._at = found.end()
        self._add(found[0], can_repeat=False)

    def _repeat_group(self, group: _Opened, most: int) -> None:
        """Refuse to repeat what may be empty: the engines end such rounds in their own ways."""
        if group.opening in _LOOKS:
            self._differs("a look around is repeated")
        if most <= 1 or self.difference:
            return
        try:
            found = re.compile("".join(self._pieces[group.piece :]), re.ASCII).match("")
        except (re.error, RecursionError, OverflowError):
            self._differs("a group that cannot be read")
            return
        if found is not None:
            self._differs("a repeated group that may match nothing")

    # Groups

    def _group(self) -> None:
        if found := _FLAGS.match(self.pattern, self._at):
            self._at = found.end()
            before = self._modes
            self._switch(found[1], found[2] or "")
            if found[3] == ":":
                self._open("(?:", before)
            else:
                self._can_repeat = self._is_place = False
            return
        found = _GROUP.match(self.pattern, self._at)
        if found is None or (self.pattern.startswith("?", found.end()) and found[0] == "("):
            raise NotJava("a kind of group that there is not")
        self._at = found.end()
        opening, name = found[0], found[1]
        if opening == "(" or name:
            self.captures += 1
            if name:
                if name in self._names:
                    raise NotJava("two groups have one name")
                self._names[name] = self.captures
            self._open("(", self._modes, number=self.captures)
        else:
            self._open(opening, self._modes)

    def _switch(self, on: str, off: str) -> None:
        for letter in on + off:
            value = letter in on and letter not in off
            match letter:
                case "i":
                    self._modes = replace(self._modes, without_case=value)
                case "s":
                    self._modes = replace(self._modes, dot_all=value)
                case "m":
                    self._modes = replace(self._modes, lines=value)
                case _:
                    if value:
                        self._differs(f"the flag {letter}")

    def _open(self, opening: str, before: _Modes, number: int | None = None) -> None:
        if len(self._opened) >= _DEPTH_MAX:
            raise NotJava("it is nested too deeply")
        behind = opening in ("(?<=", "(?<!") or any(each.is_behind for each in self._opened)
        captures = self.captures - (number is not None)
        group = _Opened(len(self._pieces), captures, before, opening, number, behind)
        self._add(opening, can_repeat=False)
        self._opened.append(group)

    def _close(self) -> None:
        if not self._opened:
            raise NotJava("a group is closed that was not opened")
        group = self._opened.pop()
        self._modes = group.modes
        self._add(")")
        self._closed = group
        if group.opening in (*_LOOKS, "(?>"):
            self._leave_open(group)
        if group.has_branches or group.opening in ("(?!", "(?<!"):
            inner = group.captures + 1 + (group.number is not None)
            self.absent.update(range(inner, self.captures + 1))

    def _leave_open(self, group: _Opened) -> None:
        """Note that the engines may keep what the groups inside of one matched, or forget it."""
        self.unsure.update(range(group.captures + 1, self.captures + 1))

    # Escapes

    def _escape(self) -> None:
        letter = self._ahead()
        if letter == "Q":
            self._quotation()
        elif letter in _ENDS:
            self._at += 1
            self._add(_ENDS[letter], is_place=True)
        elif letter in ("b", "B"):
            self._at += 1
            if self._ahead(3) == "{g}":
                self._at += 3
                self._differs("boundaries of graphemes")
            # Its text is long, and there is no need of it if Python is not asked.
            boundary = "" if self.difference else sets.word_boundary(is_one=letter == "b")
            self._add(boundary, is_place=True)
        elif letter and letter in "123456789":
            self._reference()
        elif found := _NAME.match(self.pattern, self._at):
            if found[1] not in self._names:
                raise NotJava("a reference to a group that there is not")
            self._at = found.end()
            self._refer(self._names[found[1]])
        elif letter and letter in "RXGN":
            self._unknown(letter)
        else:
            found_set = self._class_of_escape()
            if found_set is not None:
                self._set(found_set)
            else:
                self._literal(self._character())

    def _unknown(self, letter: str) -> None:
        self._at += 1
        if letter == "N" and not self.pattern.startswith("{", self._at):
            raise NotJava("\\N without a name")
        if letter == "N":
            end = self.pattern.find("}", self._at)
            self._at = end + 1 if end > 0 else len(self.pattern)
        self._differs(f"the escape \\{letter}")
        self._add("(?:)", can_repeat=True)

    def _reference(self) -> None:
        number = int(self._ahead())
        self._at += 1
        while self._ahead().isdigit() and self._ahead().isascii():
            longer = number * 10 + int(self._ahead())
            if longer > self.captures:
                break
            number = longer
            self._at += 1
        self._refer(number)

    def _refer(self, number: int) -> None:
        if number > self.captures or any(each.number == number for each in self._opened):
            self._differs("a reference to a group that is not closed")
        if self._modes.without_case:
            self._differs("a reference without regard to case")
        if any(each.is_behind for each in self._opened):
            self._differs("a reference behind")
        self._add(f"(?:\\{number})")

    def _class_of_escape(self) -> sets.Ranges | None:
        """The set of an escape that stands for several characters; None of another one."""
        letter = self._ahead()
        lower = letter.lower()
        if letter and lower in _CLASSES:
            self._at += 1
            found = _CLASSES[lower]
            return found if letter == lower else sets.negated(found)
        if letter and letter in "pP":
            return self._property()
        return None

    def _property(self) -> sets.Ranges:
        found = _PROPERTY.match(self.pattern, self._at)
        if found is None:
            raise NotJava("a property without a name")
        self._at = found.end()
        name = found[1] or found[2]
        known = sets.named(name)
        if known is None:
            short = name.removeprefix("Is")
            if not (name.startswith(("In", "java")) or "=" in name) and (
                short == name or short not in sets.SCRIPTS | sets.BINARY
            ):
                raise NotJava(f"there is no property {name}")
            self._differs(f"the property {name}")
            return ()
        if self._modes.without_case and name.removeprefix("Is") in sets.OF_CASE:
            self._differs("a property of case without regard to case")
        return known if found[0][0] == "p" else sets.negated(known)

    def _character(self) -> str:
        """The character that an escape stands for; the backslash is behind."""
        letter = self._ahead()
        if pair := _SURROGATES.match(self.pattern, self._at):
            self._at = pair.end()
            high, low = (int(each, 16) for each in pair.groups())
            return chr(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00)
        if found := _HEX.match(self.pattern, self._at):
            self._at = found.end()
            return self._of_code(int(next(each for each in found.groups() if each), 16))
        if found := _OCTAL.match(self.pattern, self._at):
            self._at = found.end()
            return chr(int(found[1], 8))
        self._at += 1
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "c" and self._ahead():
            self._at += 1
            return chr(ord(self.pattern[self._at - 1]) ^ 64)
        if not letter or (letter.isascii() and letter.isalnum()):
            raise NotJava(f"there is no escape \\{letter}")
        return letter

    def _of_code(self, code: int) -> str:
        if code > sets.LAST:
            raise NotJava("a character beyond Unicode")
        if 0xD800 <= code <= 0xDFFF:
            self._differs("half of a surrogate pair")
            return " "
        return chr(code)

    def _quotation(self) -> None:
        start = self._at + 1
        end = self.pattern.find("\\E", start)
        text = self.pattern[start:] if end < 0 else self.pattern[start:end]
        self._at = len(self.pattern) if end < 0 else end + 2
        # A quantifier after it repeats the last character, or what stands before an empty one.
        for letter in text:
            self._literal(letter)

    # Classes of characters

    def _class(self) -> sets.Ranges:
        """The set of a class, whose bracket is behind; what closes it is read."""
        is_negated = self._ahead() == "^"
        self._at += is_negated
        found = self._members()
        self._at += 1
        return sets.negated(found) if is_negated else found

    def _members(self) -> sets.Ranges:
        """What stands in a class up to its closing bracket, which stays."""
        found: sets.Ranges | None = None
        while True:
            letter = self._ahead()
            if not letter:
                raise NotJava("a class of characters has no end")
            if letter == "]" and found is not None:
                return found
            if letter == "[":
                self._at += 1
                members = self._class()
            elif self._ahead(2) == "&&":
                self._at += 2
                found = self._intersected(found)
                continue
            else:
                members = self._member()
            found = members if found is None else sets.union(found, members)

    def _intersected(self, left: sets.Ranges | None) -> sets.Ranges:
        right: sets.Ranges | None = None
        while self._ahead() not in ("]", "&"):
            if not self._ahead():
                raise NotJava("a class of characters has no end")
            if self._ahead() == "[":
                self._at += 1
                nested = self._class()
                right = nested if right is None else sets.union(right, nested)
            else:
                if right is not None:
                    # Java forgets what stands before.
                    self._differs("a class beside characters behind &&")
                right = self._members()
        if right is None:
            if left is None:
                raise NotJava("&& without a class")
            self._differs("&& without a class behind it")
            return left
        return right if left is None else sets.intersection(left, right)

    def _member(self) -> sets.Ranges:
        """A character, a range of them, or an escape that stands for several."""
        if self._ahead() == "\\":
            self._at += 1
            several = self._class_of_escape()
            if several is not None:
                return several
            if self._ahead() in ("Q", "E"):
                self._differs("a quotation in a class of characters")
            if self._ahead() and self._ahead() in "bBAzZGRXkQE123456789":
                if not self.difference:
                    raise NotJava("an escape that is no character in a class")
                self._at += 1
                return ()
            first = self._character()
        else:
            first = self._ahead()
            self._at += 1
        last = first
        if self._ahead() == "-" and self._ahead(2)[1:] not in ("]", "[", ""):
            self._at += 1
            if self._ahead() == "\\":
                self._at += 1
                if self._ahead().lower() in _CLASSES or self._ahead() in ("p", "P"):
                    raise NotJava("a range up to a class")
                last = self._character()
            else:
                last = self._ahead()
                self._at += 1
            if last < first:
                raise NotJava("a range whose end is before its start")
        found = sets.ranges((ord(first), ord(last)))
        return sets.without_case(found) if self._modes.without_case else found


def _counts(found: re.Match[str]) -> tuple[int, int]:
    sign = found[0][0]
    if sign != "{":
        return {"*": (0, _COUNT_MAX), "+": (1, _COUNT_MAX), "?": (0, 1)}[sign]
    least = int(found[1])
    if found[2] is None:
        return least, least
    return least, int(found[3]) if found[3] else _COUNT_MAX
