r"""Sets of characters as Java's patterns name them: ranges of code points.

Source: java.util.regex.Pattern, java.lang.Character (Java 17); categories are those of Python's
`unicodedata`, which knows one version of Unicode more.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache
from typing import Final, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Code points, both ends included, in order, with something between any two."""

LAST: Final = sys.maxunicode
_UPPER, _LOWER = (ord("A"), ord("Z")), (ord("a"), ord("z"))
_CASE: Final = ord("a") - ord("A")


def ranges(*pairs: tuple[int, int] | str) -> Ranges:
    """The set of these; of a text each character."""
    spans = [
        span
        for each in pairs
        for span in ([(ord(c), ord(c)) for c in each] if isinstance(each, str) else [each])
    ]
    found: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return tuple(found)


def union(*sets: Ranges) -> Ranges:
    """What is in any of them."""
    return ranges(*[pair for each in sets for pair in each])


def negated(given: Ranges) -> Ranges:
    """What is not in it."""
    found, start = [], 0
    for low, high in given:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    return (*found, (start, LAST)) if start <= LAST else tuple(found)


def intersection(left: Ranges, right: Ranges) -> Ranges:
    """What is in both."""
    return negated(union(negated(left), negated(right)))


def without_case(given: Ranges) -> Ranges:
    """With each letter of ASCII the other one of its pair."""
    others = [
        (max(low, first) + step, min(high, last) + step)
        for low, high in given
        for (first, last), step in ((_UPPER, _CASE), (_LOWER, -_CASE))
        if max(low, first) <= min(high, last)
    ]
    return ranges(*given, *others)


def text_of(given: Ranges) -> str:
    """The set as a part of a Python pattern."""
    if not given:
        return "(?!)"
    if given in _SHORT:
        return _SHORT[given]
    other = negated(given)
    sign, shown = ("^", other) if len(other) < len(given) or given[-1][1] == LAST else ("", given)
    if len(shown) == 1 and shown[0][0] == shown[0][1] and not sign:
        return re.escape(chr(shown[0][0]))
    return f"[{sign}{''.join(map(_span, shown))}]"


def _span(pair: tuple[int, int]) -> str:
    low, high = map(_shown, pair)
    return low if pair[0] == pair[1] else f"{low}-{high}"


def _shown(code: int) -> str:
    letter = chr(code)
    return letter if letter.isascii() and letter.isalnum() else f"\\U{code:08x}"


DIGITS: Final = ranges((ord("0"), ord("9")))
WORDS: Final = ranges(DIGITS[0], _UPPER, _LOWER, "_")
BLANKS: Final = ranges(" \t\n\x0b\f\r")
HORIZONTAL: Final = ranges("\x20\t\xa0\u1680\u180e\u202f\u205f\u3000", (0x2000, 0x200A))
VERTICAL: Final = ranges("\n\x0b\f\r\x85\u2028\u2029")
LINE_ENDS: Final = ranges("\n\r\u0085\u2028\u2029")
_SHORT: Final = {
    ((0, LAST),): r"[\s\S]",
    **{each: f"\\{name}" for name, each in (("d", DIGITS), ("w", WORDS), ("s", BLANKS))},
    **{negated(each): f"\\{name}" for name, each in (("D", DIGITS), ("W", WORDS), ("S", BLANKS))},
}
"""As Python calls them, with its flag for ASCII."""
_PUNCTUATION: Final = ranges((0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E))
_OF_ASCII: Final = {
    "Lower": ranges(_LOWER),
    "Upper": ranges(_UPPER),
    "ASCII": ranges((0, 0x7F)),
    "Alpha": ranges(_LOWER, _UPPER),
    "Digit": DIGITS,
    "Alnum": ranges(_LOWER, _UPPER, DIGITS[0]),
    "Punct": _PUNCTUATION,
    "Graph": ranges((0x21, 0x7E)),
    "Print": ranges((0x20, 0x7E)),
    "Blank": ranges(" \t"),
    "Cntrl": ranges((0, 0x1F), "\x7f"),
    "XDigit": ranges(DIGITS[0], "abcdefABCDEF"),
    "Space": BLANKS,
}
_CATEGORIES: Final = (
    *("Cc", "Cf", "Cn", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn"),
    *("Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So"),
    *("Zl", "Zp", "Zs", "C", "L", "M", "N", "P", "S", "Z", "LC", "LD"),
)
OF_CASE: Final = frozenset({"Lower", "Upper", "Lu", "Ll", "Lt"})
"""Properties that mean more where case does not count."""
SCRIPTS: Final = frozenset(
    {"Arabic", "Armenian", "Bengali", "Bopomofo", "Cherokee", "Common", "Cyrillic", "Devanagari"}
    | {"Ethiopic", "Georgian", "Greek", "Gujarati", "Gurmukhi", "Han", "Hangul", "Hebrew"}
    | {"Hiragana", "Inherited", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam"}
    | {"Mongolian", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu", "Thai", "Tibetan"}
)
"""Known to Java by `\\p{IsLatin}`; Python does not know which characters are theirs."""
BINARY: Final = frozenset(
    {"Alphabetic", "Ideographic", "Letter", "Lowercase", "Uppercase", "Titlecase", "Punctuation"}
    | {"Control", "White_Space", "Digit", "Hex_Digit", "Join_Control", "Assigned"}
)
"""The same of properties."""


def named(name: str) -> Ranges | None:
    r"""The set of `\p{name}`; None if Java has none, or Python does not know it."""
    found = _OF_ASCII.get(name)
    if found is not None:
        return found
    short = name.removeprefix("Is")
    return category(short) if short in _CATEGORIES else None


def category(name: str) -> Ranges:
    """The set of a category of Unicode, or of all that begin with a letter."""
    every = _by_category()
    if name == "LC":
        return union(every["Lu"], every["Ll"], every["Lt"])
    if name == "LD":
        return union(category("L"), every["Nd"])
    return union(*[found for each, found in every.items() if each.startswith(name)])


@cache
def _by_category() -> dict[str, Ranges]:
    """All of Unicode, once a process: a fifth of a second."""
    found: dict[str, list[tuple[int, int]]] = {each: [] for each in _CATEGORIES if len(each) == 2}
    start, current = 0, unicodedata.category("\0")
    for code in range(1, LAST + 2):
        name = unicodedata.category(chr(code)) if code <= LAST else ""
        if name != current:
            found[current].append((start, code - 1))
            start, current = code, name
    del found["LC"], found["LD"]
    return {each: tuple(spans) for each, spans in found.items()}


@cache
def word_boundary(*, is_one: bool) -> str:
    r"""`\b` or `\B`: beside a letter or digit of any script, a mark on one, or `_`."""
    word = text_of(union(category("LD"), category("Mn"), ranges("_")))
    inside, outside = f"(?<={word})(?={word})", f"(?<!{word})(?!{word})"
    if not is_one:
        return f"(?:{inside}|{outside})"
    return f"(?:(?<={word})(?!{word})|(?<!{word})(?={word}))"
