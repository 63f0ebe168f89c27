"""Texts as bytes of a charset, of hexadecimal digits and of Base64, and addresses of IPv4.

Source: Flink `SqlFunctionUtils`, `BinaryStringData`, `Inet*Function` (2.3), Java's charsets (17).
"""

from __future__ import annotations

import binascii
import re
import struct
from typing import TYPE_CHECKING, Final

from operators.expressions.errors import EvaluationFailed
from operators.expressions.operand_rules import charset
from operators.expressions.site import Site, lifted
from state.types import BINARY_ROOTS, INTEGER_BITS, STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Run

_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_BIG, _LITTLE = b"\xfe\xff", b"\xff\xfe"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half a character, for which Java has one replacement, and Python one for each byte."""
_HEXADECIMAL = re.compile("[0-9A-Fa-f]*")
_BASE64 = re.compile("((?:[A-Za-z0-9+/]{4})*)(?:([A-Za-z0-9+/]{2})(?:==)?|([A-Za-z0-9+/]{3})=?)?")
"""What Java takes for it: the signs at the end may be missing."""
_ADDRESS = re.compile("[0-9]+(?:[.][0-9]+){0,3}")
_OCTET_MAX, _OCTET_DIGITS, _ADDRESS_MAX = 255, 3, 0xFFFFFFFF
_ENCODERS: Final[dict[str, Callable[[str], bytes]]] = {
    "UTF-8": str.encode,
    "US-ASCII": lambda text: text.encode("ascii", errors="replace"),
    "ISO-8859-1": lambda text: text.encode("latin-1", errors="replace"),
    "UTF-16BE": lambda text: text.encode("utf-16-be"),
    "UTF-16LE": lambda text: text.encode("utf-16-le"),
    "UTF-16": lambda text: _BIG + text.encode("utf-16-be") if text else b"",
}
_DECODERS: Final[dict[str, Callable[[bytes], str]]] = {
    "UTF-8": lambda data: _SURROGATE.sub(_UNKNOWN.encode(), data).decode(errors="replace"),
    "US-ASCII": lambda data: data.decode("ascii", errors="replace"),
    "ISO-8859-1": lambda data: data.decode("latin-1"),
    "UTF-16BE": lambda data: _of_units(data, "utf-16-be"),
    "UTF-16LE": lambda data: _of_units(data, "utf-16-le"),
    "UTF-16": lambda data: (
        _of_units(data[2:], "utf-16-le")
        if data.startswith(_LITTLE)
        else _of_units(data.removeprefix(_BIG), "utf-16-be")
    ),
}


def _of_units(data: bytes, charset: str) -> str:
    """The text of UTF-16 units; half a character takes the unit behind it with it."""
    order = "<" if charset == "utf-16-le" else ">"
    letters = struct.unpack(f"{order}{len(data) // 2}H", data[: len(data) & ~1])
    found: list[str] = []
    at = 0
    while at < len(letters):
        unit = letters[at]
        if 0xD800 <= unit < 0xDC00:
            if at + 1 == len(letters):
                return "".join([*found, _UNKNOWN])
            low = letters[at + 1] - 0xDC00
            pair = 0x10000 + ((unit - 0xD800) << 10) + low
            found.append(chr(pair) if 0 <= low < 0x400 else _UNKNOWN)
            at += 2
        else:
            found.append(_UNKNOWN if 0xDC00 <= unit < 0xE000 else chr(unit))
            at += 1
    if len(data) % 2:
        found.append(_UNKNOWN)
    return "".join(found)


def encode(site: Site) -> Run:
    """ENCODE(x, charset): what the charset does not have becomes a question mark."""
    return lifted(_ENCODERS[charset(site)], site.of_type(0, STRING_ROOTS))


def decode(site: Site) -> Run:
    """DECODE(x, charset)."""
    return lifted(_DECODERS[charset(site)], site.of_type(0, BINARY_ROOTS))


def unhex(text: str) -> bytes | None:
    """UNHEX: of an odd number of digits the first one counts as 0; NULL of what are no digits."""
    if not _HEXADECIMAL.fullmatch(text):
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"00{text[1:]}")


def from_base64(text: str) -> str:
    """FROM_BASE64: a text in UTF-8; what is no Base64 ends the query, as in Flink."""
    found = _BASE64.fullmatch(text)
    if found is None:
        raise EvaluationFailed("a text is not Base64")
    letters = found[1] + (found[2] or found[3] or "")
    data = binascii.a2b_base64(letters + "=" * (-len(letters) % 4))
    return _DECODERS["UTF-8"](data)


def inet_aton(text: str) -> int | None:
    """INET_ATON: up to four numbers of 8 bits; what is left out is before the last."""
    if not _ADDRESS.fullmatch(text):
        return None
    # Python makes no number of thousands of digits, zeros or not.
    parts = [part.lstrip("0") or "0" for part in text.split(".")]
    if max(map(len, parts)) > _OCTET_DIGITS:
        return None
    *first, last = map(int, parts)
    if max(*first, last, 0) > _OCTET_MAX:
        return None
    return last + sum(part << (24 - 8 * at) for at, part in enumerate(first))


def inet_ntoa(site: Site) -> Run:
    """INET_NTOA of a whole number."""
    return lifted(_inet_ntoa, site.of_type(0, INTEGER_BITS))


def _inet_ntoa(number: int) -> str | None:
    if not 0 <= number <= _ADDRESS_MAX:
        return None
    return ".".join(map(str, number.to_bytes(4)))
