"""Texts as parts of addresses, in UTF-8.

Source: Java `URLEncoder` and `URLDecoder` (17), of which Flink's `UrlEncodeFunction` and
`UrlDecodeFunction` (2.3) and Spark's `url_encode` and `try_url_decode` are made.
"""

from __future__ import annotations

import re
from urllib.parse import quote_plus

_ESCAPES = re.compile("(?:%..)+|%", re.DOTALL)
_BYTE = re.compile("[0-9A-Fa-f]{2}|[+][0-9A-Fa-f]|-0")
"""What Java reads as a number of two characters that is not below 0."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half a character, for which Java has one replacement, and Python one for each byte."""


def encoded(text: str) -> str:
    """All but letters, digits and `.-*_` as bytes, a blank as a plus."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def decoded(text: str) -> str | None:
    """The text that is encoded; None: a percent sign has no byte behind it."""
    found: list[str] = []
    at = 0
    for part in _ESCAPES.finditer(text):
        pairs = [part[0][place + 1 : place + 3] for place in range(0, len(part[0]), 3)]
        if not all(map(_BYTE.fullmatch, pairs)):
            return None
        given = _SURROGATE.sub(b"\xff", bytes(int(pair, 16) for pair in pairs))
        found += [text[at : part.start()].replace("+", " "), given.decode(errors="replace")]
        at = part.end()
    return "".join([*found, text[at:].replace("+", " ")])
