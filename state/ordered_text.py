r"""Single values as text whose unsigned byte order is their order, type by type.

    type                    ascending                               descending
    TINYINT .. BIGINT       0000000042, -9999999958 for -42         that of the negative
    DECIMAL(5, 2)           012.50, -987.50 for -12.50              that of the negative
    FLOAT, DOUBLE           e001:1.2500000000000000 for 12.5        that of the negative
                            -e-999:8.7500000000000000 for -12.5
                            -INF, -zero for -0.0, 0, inf, nan       (nan) is the first
    CHAR, VARCHAR           the text, \x01                          as the bytes of its UTF-8
    BINARY, VARBINARY       hexadecimal digits, a point             those of its complement, ~
    BOOLEAN                 false true                              TRUE false
    DATE, TIME(p)           2020-01-31   10:00:00.500               each digit taken from 9
    TIMESTAMP(p)            2020-01-31T10:00:00.250                 each digit taken from 9
    TIMESTAMP_LTZ(p)        2020-01-31T10:00:00.250Z                each digit taken from 9

Numbers have a fixed width. A negative one is a minus, which sorts before all digits, and what its
amount leaves of the power of ten above (ten's complement): the less the amount, the more is left. A
floating-point number is its decimal exponent, then the shortest digits that give it back, the first
one before the point; a negative one has the exponent negated and what the digits leave of ten.
-0.0 sorts before 0.0. NaN is one value and sorts above infinity, as in Flink and Java.

In text a control character is ESC and the character of the caret notation (ESC I is a tab), which
sorts where the character itself does: behind the end of a text, before a blank. UTF-8 sorts as its
code points do.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    UnsupportedType,
    arrow_type,
)
from state.values import (
    EXACT,
    CodecError,
    canonical_decoder,
    canonical_encoder,
    kind_of,
    to_float32,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class OrderedText:
    """How values of one type are written, found in a longer text, and read."""

    write: Callable[[Any], bytes]
    """Raises `CodecError` where a value is not of the type."""
    pattern: bytes
    """What is written, as a regular expression without capturing groups."""
    read: Callable[[bytes], Any]


def ordered_text(logical: LogicalType, *, descending: bool) -> OrderedText:
    """How values of this type, never null, are written in order.

    Args:
        logical: The type; its nullability is not looked at.
        descending: Whether the text of a greater value sorts before that of a smaller one.

    Raises:
        UnsupportedType: Values of the type have no order, or no exact form.
    """
    root = logical.root
    arrow_type(logical)
    if root in INTEGER_BITS:
        return _integer(logical, descending=descending)
    if root in STRING_ROOTS:
        return _text_descending() if descending else _text()
    if root in BINARY_ROOTS:
        return _binary(descending=descending)
    if root in TIMESTAMP_ROOTS:
        return _time(logical, len("2020-01-31T10:00:00"), descending=descending)
    match root:
        case TypeRoot.DATE:
            return _time(logical, len("2020-01-31"), descending=descending)
        case TypeRoot.TIME:
            return _time(logical, len("10:00:00"), descending=descending)
        case TypeRoot.DECIMAL:
            return _decimal(logical, descending=descending)
        case TypeRoot.FLOAT | TypeRoot.DOUBLE:
            return _floating(logical, descending=descending)
        case TypeRoot.BOOLEAN:
            return _boolean(descending=descending)
        case _:
            raise UnsupportedType(logical, "its values have no order")


def _signed(number: int, width: int) -> bytes:
    """Fixed-width digits, in ten's complement behind a minus if negative."""
    if number >= 0:
        return b"%0*d" % (width, number)
    return b"-%0*d" % (width, 10**width + number)


def _read_signed(text: bytes) -> int:
    if text.startswith(b"-"):
        above: int = 10 ** (len(text) - 1)
        return int(text[1:]) - above
    return int(text)


def _integer(logical: LogicalType, *, descending: bool) -> OrderedText:
    width = len(str(1 << (INTEGER_BITS[logical.root] - 1)))
    convert = canonical_encoder(logical)
    sign = -1 if descending else 1
    digits = b"%%0%dd" % width

    def write(value: object) -> bytes:
        number: int = sign * convert(value)
        return digits % number if number >= 0 else _signed(number, width)

    return OrderedText(
        write,
        b"-?[0-9]{%d}" % width,
        lambda text: sign * _read_signed(text),
    )


def _decimal(logical: LogicalType, *, descending: bool) -> OrderedText:
    digits, scale = logical.precision or 0, logical.scale or 0
    convert = canonical_encoder(logical)
    sign = -1 if descending else 1

    def write(value: object) -> bytes:
        text = _signed(sign * int(convert(value).replace(".", "")), digits)
        return text[:-scale] + b"." + text[-scale:] if scale else text

    def read(text: bytes) -> Decimal:
        number = sign * _read_signed(text.replace(b".", b""))
        return Decimal(number).scaleb(-scale, EXACT)

    fraction = rb"\.[0-9]{%d}" % scale if scale else b""
    return OrderedText(write, b"-?[0-9]{%d}%b" % (digits - scale, fraction), read)


_DIGITS = {TypeRoot.FLOAT: 9, TypeRoot.DOUBLE: 17}
"""So many significant digits tell any two values apart."""
_EXPONENT_WIDTH = 3
_ASCENDING_SPECIAL = {"-Infinity": b"-INF", "Infinity": b"inf", "NaN": b"nan"}
_DESCENDING_SPECIAL = {"-Infinity": b"inf", "Infinity": b"-INF", "NaN": b"(nan)"}


def _floating(logical: LogicalType, *, descending: bool) -> OrderedText:
    """The order of the texts: (nan) -INF -e… -zero 0 e… inf nan."""
    width = _DIGITS[logical.root]
    convert = canonical_encoder(logical)
    narrow = to_float32 if logical.root is TypeRoot.FLOAT else float
    special = _DESCENDING_SPECIAL if descending else _ASCENDING_SPECIAL
    sign = -1 if descending else 1
    given = {text: float(word) for word, text in special.items()}

    def write(value: object) -> bytes:
        number = convert(value)
        if isinstance(number, str):
            return special[number]
        return _scientific(sign * number, width)

    def read(text: bytes) -> float:
        if text in given:
            return given[text]
        return sign * narrow(_read_scientific(text, width))

    pattern = rb"-?e-?[0-9]{%d}:[0-9]\.[0-9]{%d}|-zero|0" % (_EXPONENT_WIDTH, width - 1)
    names = b"|".join(map(re.escape, special.values()))
    return OrderedText(write, pattern + b"|" + names, read)


def _scientific(number: float, width: int) -> bytes:
    """A finite number of at most so many significant digits."""
    if number == 0:
        return b"-zero" if math.copysign(1, number) < 0 else b"0"
    _, digits, exponent = Decimal(repr(number)).normalize(EXACT).as_tuple()
    assert isinstance(exponent, int)  # the number is finite
    exponent += len(digits) - 1
    significand = int("".join(map(str, digits))) * 10 ** (width - len(digits))
    sign = b""
    if number < 0:
        sign, exponent, significand = b"-", -exponent, 10**width - significand
    text = b"%0*d" % (width, significand)
    return b"%be%b:%b.%b" % (sign, _signed(exponent, _EXPONENT_WIDTH), text[:1], text[1:])


def _read_scientific(text: bytes, width: int) -> float:
    if text in (b"0", b"-zero"):
        return 0.0 if text == b"0" else -0.0
    exponent_text, _, digits = text.removeprefix(b"-")[1:].partition(b":")
    exponent, significand = _read_signed(exponent_text), int(digits.replace(b".", b""))
    if not text.startswith(b"-"):
        return float(f"{significand}e{exponent - width + 1}")
    return -float(f"{10**width - significand}e{-exponent - width + 1}")


_CONTROL = re.compile(rb"[\x00-\x1f]")
_ESCAPED = re.compile(rb"\x1b([@-_])")
_CARET = 0x40
"""Between a control character and its letter in the caret notation."""
_COMPLEMENT = bytes(range(255, -1, -1))
_FROM_NINE = bytes.maketrans(b"0123456789", b"9876543210")


def _utf8(value: object) -> bytes:
    if not isinstance(value, str):
        raise CodecError(None, "STRING", kind_of(value))
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise CodecError(None, "STRING", "half of a surrogate pair") from None


def _text() -> OrderedText:
    def write(value: object) -> bytes:
        escaped = _CONTROL.sub(lambda found: b"\x1b%c" % (found[0][0] + _CARET), _utf8(value))
        return escaped + b"\x01"

    def read(text: bytes) -> str:
        plain = _ESCAPED.sub(lambda found: b"%c" % (found[1][0] - _CARET), text[:-1])
        return plain.decode()

    return OrderedText(write, rb"(?:[^\x00-\x1f]|\x1b[@-_])*\x01", read)


def _text_descending() -> OrderedText:
    bytes_ = _binary(descending=True)
    return OrderedText(
        lambda value: bytes_.write(_utf8(value)),
        bytes_.pattern,
        lambda text: bytes_.read(text).decode(),
    )


def _binary(*, descending: bool) -> OrderedText:
    end = b"~" if descending else b"."

    def write(value: object) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise CodecError(None, "BYTES as base64", kind_of(value))
        plain = bytes(value)
        return (plain.translate(_COMPLEMENT) if descending else plain).hex().encode() + end

    def read(text: bytes) -> bytes:
        plain = bytes.fromhex(text[:-1].decode())
        return plain.translate(_COMPLEMENT) if descending else plain

    return OrderedText(write, b"(?:[0-9a-f]{2})*" + re.escape(end), read)


def _boolean(*, descending: bool) -> OrderedText:
    convert = canonical_encoder(LogicalType(TypeRoot.BOOLEAN))
    texts = {True: b"TRUE" if descending else b"true", False: b"false"}
    values = {text: value for value, text in texts.items()}
    pattern = b"|".join(values)
    return OrderedText(lambda value: texts[convert(value)], pattern, lambda text: values[text])


def _time(logical: LogicalType, whole: int, *, descending: bool) -> OrderedText:
    """Dates and times, whose canonical form has so many characters and then a fraction."""
    digits = logical.precision or 0
    zone = "Z" if logical.root is TypeRoot.TIMESTAMP_LTZ else ""
    convert, decode = canonical_encoder(logical), canonical_decoder(logical)
    assert decode is not None  # of the types that come here

    def write(value: object) -> bytes:
        text = convert(value)
        if digits:
            fraction = text[whole + 1 :].removesuffix("Z")
            text = f"{text[:whole]}.{fraction:0<{digits}}{zone}"
        written: bytes = text.encode()
        return written.translate(_FROM_NINE) if descending else written

    def read(text: bytes) -> Any:
        return decode((text.translate(_FROM_NINE) if descending else text).decode())

    length = whole + (digits + 1 if digits else 0) + len(zone)
    return OrderedText(write, b"[0-9T:.Z-]{%d}" % length, read)
