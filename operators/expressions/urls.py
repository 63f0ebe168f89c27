"""Texts as parts of addresses, in UTF-8, and the parts of an address.

Source: Java `URLEncoder`, `URLDecoder` and `URL` (17), of which Flink's `UrlEncodeFunction`,
`UrlDecodeFunction` and `SqlFunctionUtils.parseUrl` (2.3) are made, and of the first two Spark's
`url_encode` and `try_url_decode`.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address
from urllib.parse import quote_plus

_ESCAPES = re.compile("(?:%..)+|%", re.DOTALL)
_BYTE = re.compile("[0-9A-Fa-f]{2}|[+][0-9A-Fa-f]|-0")
"""What Java reads as a number of two characters that is not below 0."""
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
"""Half a character, for which Java has one replacement, and Python one for each byte."""
_BLANKS = "".join(map(chr, range(0x21)))
_PROTOCOLS = ("file", "ftp", "http", "https", "mailto")
"""Those that Java reads, but for `jar`, `jmod` and `jrt`, which are for programs of its own."""
_PORT = re.compile("([+-]?)0*([0-9]{1,10})")
"""Its zeros in front are many or none: Python does not read numbers of many thousand digits."""
_PORT_MAX = 2**31 - 1
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_ZEROS = re.compile("(?<![0-9a-f])0+(?=[0-9a-f])", re.IGNORECASE)
"""In front of the digits of a group, where Java takes more than four."""


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


def part_of(text: str, part: str, key: str | None = None) -> str | None:
    """A part of an address, as PARSE_URL names it, or the value of a key in its query.

    None: the text is no address, it has no such part, or there is no part of this name.
    """
    if key is not None:
        query = part_of(text, part) if part == "QUERY" else None
        found = re.search(f"(?:&|^){re.escape(key)}=([^&]*)", query or "")
        return found[1] if found else None
    parts = _parts(text)
    return parts.get(part) if parts is not None else None


def _parts(text: str) -> dict[str, str | None] | None:
    """The parts that an address has; None: Java takes it for none."""
    spec = text.strip(_BLANKS)
    spec = spec[4:] if spec[:4].lower() == "url:" else spec
    protocol, colon, rest = spec.partition(":")
    protocol = protocol.lower()
    if not colon or protocol not in _PROTOCOLS:
        return None
    rest, sharp, after = rest.partition("#")
    if protocol == "mailto":
        path, mark, query = rest.rpartition("?") if "?" in rest else (rest, "", "")
        reference = None
        if not rest.strip():
            return None
    else:
        path, mark, query = rest.partition("?")
        reference = after if sharp else None
    authority = user = None
    host = ""
    if protocol != "mailto" and path.startswith("//") and not path.startswith("////"):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        # Who has two of these signs is nobody's host.
        if authority.count("@") < 2:
            before, sign, behind = authority.rpartition("@")
            user, found = before if sign else None, _host(behind)
            if found is None:
                return None
            host = found
    return {
        "PROTOCOL": protocol,
        "AUTHORITY": authority,
        "USERINFO": user,
        "HOST": host,
        "PATH": path,
        "QUERY": query if mark else None,
        "FILE": path + mark + query,
        "REF": reference,
    }


def _host(text: str) -> str | None:
    """The host of a host and port; None: it is none, or the port is no number."""
    if text.startswith("["):
        address, bracket, port = text.partition("]")
        if not _is_address(address[1:]) or (port and not port.startswith(":")):
            return None
        host, port = address + bracket, port[1:]
    else:
        host, _, port = text.partition(":")
    if _CONTROLS.search(host):
        return None
    if port:
        number = _PORT.fullmatch(port)
        if number is None or not -1 <= int(number[1] + number[2]) <= _PORT_MAX:
            return None
    return host


def _is_address(text: str) -> bool:
    try:
        IPv6Address(_ZEROS.sub("", text))
    except ValueError:
        return False
    return True
