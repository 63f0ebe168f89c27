"""String functions.

Flink counts characters, but for OVERLAY, LPAD and RPAD, which count UTF-16 units (`units`).

Source: Flink `BinaryStringDataUtil`, `SqlFunctionUtils` (2.3), checked by running it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any

from operators.expressions import operand_rules
from operators.expressions.casts import convert
from operators.expressions.errors import EvaluationFailed
from operators.expressions.families import STRING
from operators.expressions.integers import INTEGER
from operators.expressions.site import Site, Value, lifted
from operators.expressions.units import from_units, to_units
from state.types import BINARY_ROOTS, INTEGER_BITS, LENGTH_MAX, STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run

_WORDS = re.compile("[0-9A-Za-z]+")
_TO_UPPER = str.maketrans(ascii_lowercase, ascii_uppercase)
_TO_LOWER = str.maketrans(ascii_uppercase, ascii_lowercase)
INT_LEAST = -(1 << 31)
_BLANK = re.compile(r"[\t-\r\x1c-\x20\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")
"""White space in the eyes of Java."""
_LOW_64 = 0xFFFFFFFFFFFFFFFF


def _text(site: Site, index: int) -> Value:
    """An operand that must be a string."""
    return site.of_type(index, STRING_ROOTS)


def _int(site: Site, index: int) -> Value:
    return convert(site, site[index], INTEGER)


def of_text(function: Callable[[str], Any]) -> Callable[[Site], Run]:
    """The builder of a function of one string."""
    return lambda site: lifted(function, _text(site, 0))


def of_texts(function: Callable[..., Any]) -> Callable[[Site], Run]:
    """The builder of a function of strings."""
    return lambda site: lifted(function, *(_text(site, at) for at in range(len(site))))


def of_texts_or_bytes(
    of_texts: Callable[[str, str], bool], of_bytes: Callable[[bytes, bytes], bool]
) -> Callable[[Site], Run]:
    """The builder of a function of two strings, or of two sequences of bytes."""

    def build(site: Site) -> Run:
        is_text = site[0].type.root in STRING_ROOTS
        roots = STRING_ROOTS if is_text else BINARY_ROOTS
        operands = [site.of_type(at, roots) for at in range(2)]
        return lifted(of_texts if is_text else of_bytes, *operands)

    return build


def concat(site: Site) -> Run:
    """|| and CONCAT: NULL if any operand is."""
    operands = [convert(site, value, STRING) for value in site.operands]
    return lifted(lambda *texts: "".join(texts), *operands)


def concat_ws(site: Site) -> Run:
    """CONCAT_WS: leaves out NULLs, but is NULL if the separator is."""
    separator, *parts = (_text(site, index).run for index in range(len(site)))

    def run(row: Row) -> str | None:
        between: str | None = separator(row)
        texts = [part(row) for part in parts]
        if between is None:
            return None
        return between.join([text for text in texts if text is not None])

    return run


_STRIPS: dict[str, Callable[[str, str], str]] = {
    "BOTH": lambda text, characters: text.strip(characters),
    "LEADING": lambda text, characters: text.lstrip(characters),
    "TRAILING": lambda text, characters: text.rstrip(characters),
}


def trim(site: Site) -> Run:
    """TRIM(BOTH | LEADING | TRAILING characters FROM x): removes any of the characters."""
    return lifted(_STRIPS[operand_rules.trim_side(site)], _text(site, 2), _text(site, 1))


def trimmed(where: str) -> Callable[[Site], Run]:
    """The builder of LTRIM, RTRIM and BTRIM: blanks, or any of the characters given."""
    strip = _STRIPS[where]

    def build(site: Site) -> Run:
        if len(site) == 1:
            return lifted(lambda text: strip(text, " "), _text(site, 0))
        return lifted(strip, _text(site, 0), _text(site, 1))

    return build


def substring(site: Site) -> Run:
    """SUBSTRING(x, start[, length]): from the end if start is negative, 0 counts as 1."""
    numbers = [_int(site, index) for index in range(1, len(site))]
    return lifted(_substring, _text(site, 0), *numbers)


def _substring(text: str, start: int, length: int = LENGTH_MAX) -> str | None:
    if length < 0:
        return None
    first = start - 1 if start > 0 else len(text) + start if start else 0
    # Further back than the first character there is nothing.
    return text[first : first + length] if first >= 0 else ""


def left(site: Site) -> Run:
    """LEFT(x, n): "" for n below 1."""
    return lifted(lambda text, n: text[:n] if n > 0 else "", _text(site, 0), _int(site, 1))


def right(site: Site) -> Run:
    """RIGHT(x, n): "" for n below 1."""
    return lifted(lambda text, n: text[-n:] if n > 0 else "", _text(site, 0), _int(site, 1))


def position(site: Site) -> Run:
    """POSITION(part IN x) and LOCATE(part, x[, from]): from 1, or 0; "" is found at 1."""
    part, text = _text(site, 0), _text(site, 1)
    if len(site) > 2:
        return lifted(_locate, part, text, _int(site, 2))
    return lifted(lambda part, text: text.find(part) + 1, part, text)


def _locate(part: str, text: str, start: int) -> int:
    if not part or start == INT_LEAST:
        # One before the least INT is the greatest, behind all text.
        return 0 if part else 1
    return text.find(part, max(start, 1) - 1) + 1


def instr(site: Site) -> Run:
    """INSTR(x, part[, from[, which]]): from 1, or 0; from the end if `from` is negative."""
    numbers = [_int(site, at) for at in range(2, len(site))]
    return lifted(_instr, _text(site, 0), _text(site, 1), *numbers)


def _instr(text: str, part: str, start: int = 1, which: int = 1) -> int:
    if which <= 0 or start == INT_LEAST:
        raise EvaluationFailed("INSTR of no occurrence, or from before all numbers")
    if start < 0:
        found = _instr(text[::-1], part[::-1], -start, which)
        return len(text) + 2 - found - len(part) if found else 0
    if not part or not start:
        return 1 if start else 0
    for _ in range(which):
        found = text.find(part, start - 1) + 1
        if not found:
            return 0
        start = found + 1
    return found


def overlay(site: Site) -> Run:
    """OVERLAY(x PLACING by FROM start [FOR length])."""
    numbers = [_int(site, index) for index in range(2, len(site))]
    return lifted(_overlay_units, _text(site, 0), _text(site, 1), *numbers)


def _overlay_units(text: str, by: str, *numbers: int) -> str:
    return from_units(_overlay(to_units(text), to_units(by), *numbers))


def _overlay(text: str, by: str, start: int, length: int | None = None) -> str:
    count = len(by) if length is None else length
    if start <= 0 or start > len(text):
        return text
    rest = text[start - 1 + count :] if count > 0 else ""
    return text[: start - 1] + by + rest


def padded(*, is_left: bool) -> Callable[[Site], Run]:
    """The builder of LPAD and RPAD: NULL for a negative length or nothing to pad with."""

    def pad(text: str, length: int, by: str) -> str | None:
        if length < 0 or not by:
            return None
        text, by = to_units(text), to_units(by)
        missing = length - len(text)
        if missing <= 0:
            return from_units(text[:length])
        padding = (by * (missing // len(by) + 1))[:missing]
        return from_units(padding + text if is_left else text + padding)

    return lambda site: lifted(pad, _text(site, 0), _int(site, 1), _text(site, 2))


def repeat(site: Site) -> Run:
    """REPEAT(x, n): "" for n below 1."""
    return lifted(lambda text, n: text * n, _text(site, 0), _int(site, 1))


def initcap(text: str) -> str:
    """INITCAP: words are runs of ASCII letters and digits; other characters stay as they are."""
    return _WORDS.sub(lambda found: _capitalised(found[0]), text)


def _capitalised(word: str) -> str:
    return word[0].translate(_TO_UPPER) + word[1:].translate(_TO_LOWER)


def ascii_code(text: str) -> int:
    """ASCII: the first byte of the text in UTF-8, signed; 0 for ""."""
    if not text:
        return 0
    first = text[0].encode()[0]
    return first if first < 0x80 else first - 0x100


def character(site: Site) -> Run:
    """CHR: the character of the low 8 bits; "" for a negative number."""
    number = site.of_type(0, INTEGER_BITS)
    return lifted(lambda n: chr(n & 0xFF) if n >= 0 else "", number)


def digest(algorithm: str) -> Callable[[Site], Run]:
    """The builder of a digest of bytes, or of a text's UTF-8, in hexadecimal."""

    def digested(data: bytes | str) -> str:
        data = data.encode() if isinstance(data, str) else data
        return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()

    return lambda site: lifted(digested, site.of_type(0, STRING_ROOTS | BINARY_ROOTS))


def sha2(site: Site) -> Run:
    """SHA2(x, bits)."""
    return digest(f"sha{operand_rules.digest_bits(site)}")(site)


def to_base64(site: Site) -> Run:
    """TO_BASE64 of a string's UTF-8 or of bytes, on one line."""
    if site[0].type.root in BINARY_ROOTS:
        return lifted(lambda data: base64.b64encode(data).decode(), site[0])
    return lifted(lambda text: base64.b64encode(text.encode()).decode(), _text(site, 0))


def hexadecimal(site: Site) -> Run:
    """HEX of a whole number's 64 bits or of a string's UTF-8."""
    if site[0].type.root in INTEGER_BITS:
        return lifted(lambda x: f"{x & _LOW_64:X}", site[0])
    return lifted(lambda text: text.encode().hex().upper(), _text(site, 0))


def split_index(site: Site) -> Run:
    """SPLIT_INDEX(x, separator, n): part n from 0; NULL where there is none, and for ""."""
    between = site.of_type(1, STRING_ROOTS | INTEGER_BITS.keys())
    return lifted(_part, _text(site, 0), between, _int(site, 2))


def _part(text: str, between: str | int, index: int) -> str | None:
    if isinstance(between, int):
        if not 1 <= between <= operand_rules.CHARACTER_MAX:
            return None
        between = chr(between)
    if not text or index < 0:
        return None
    # Without a separator all white space is one, each character of it.
    parts = text.split(between) if between else _BLANK.split(text)
    return parts[index] if index < len(parts) else None


def translate(site: Site) -> Run:
    """TRANSLATE(x, from, to): character by character; those without a partner go."""
    matching, by = operand_rules.translation(site)
    table: dict[int, str | None] = {
        ord(letter): by[at] if at < len(by) else None for at, letter in enumerate(matching)
    }
    return lifted(lambda text: text.translate(table), _text(site, 0))
