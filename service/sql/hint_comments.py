"""Hints as the tokenizer can read them: to sqlglot the first `*/` ends one.

before   /*+ OPTIONS('path' = '/data/*/a' /* of May */) */
after    /*+ OPTIONS('path' = '/data/  a'             ) */

Places stay as they are; what a hint says is read from the script itself.
"""

from __future__ import annotations

import re

_PARTS = re.compile(r"'(?:[^']|'')*'|`[^`]*`|--[^\n]*|/\*(?!\+).*?(?:\*/|\Z)|/\*\+|\*/", re.DOTALL)
"""What is told apart; a comment that nothing ends is looked through once."""
_NO_BREAK = re.compile(r"[^\n]")


def plain_hints(text: str) -> str:
    """The text without comments inside of hints, and with hints that end only where they do."""
    if "/*+" not in text:
        return text
    found: list[str] = []
    at, is_inside = 0, False
    for part in _PARTS.finditer(text):
        word = part[0]
        if word == "/*+":
            is_inside = True
        elif word == "*/":
            is_inside = False
        elif is_inside and word.startswith(("/*", "--")):
            word = _NO_BREAK.sub(" ", word)
        elif is_inside:
            word = word.replace("*/", "  ")
        found += [text[at : part.start()], word]
        at = part.end()
    return "".join([*found, text[at:]])
