"""Texts as Java counts them: in UTF-16 units, of which a character outside the basic plane has two.

Most functions of Flink count characters, as Python does; some work on a Java string. Where such a
function cuts a character in two, each half becomes a question mark, as in Java's own encoder.
"""

from __future__ import annotations

_BASIC_MAX = "\uffff"
_UTF_16 = "utf-16-le"


def to_units(text: str) -> str:
    """The text with one Python character for each UTF-16 unit."""
    if text.isascii() or max(text) <= _BASIC_MAX:
        return text
    return "".join(letter if letter <= _BASIC_MAX else _halves(letter) for letter in text)


def _halves(letter: str) -> str:
    offset = ord(letter) - 0x10000
    return chr(0xD800 + (offset >> 10)) + chr(0xDC00 + (offset & 0x3FF))


def from_units(units: str) -> str:
    """The text of such units; a half without its other one is a question mark."""
    if units.isascii():
        return units
    joined = units.encode(_UTF_16, "surrogatepass").decode(_UTF_16, "surrogatepass")
    return joined.encode(errors="replace").decode()


def split_at(text: str, index: int) -> str:
    """The text with the character at the index, if there is one, as its units."""
    letter = text[index : index + 1]
    return text if letter <= _BASIC_MAX else text[:index] + _halves(letter) + text[index + 1 :]
