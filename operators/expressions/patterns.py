"""LIKE, SIMILAR TO and the functions of regular expressions.

A pattern is Java's; where Python's engine is not sure to mean the same it is refused
(`java_patterns`). LIKE is string comparison where the pattern allows, else a regular expression:
its `_` does not match a line break, `%` does.

Source: Flink `SqlLikeUtils`, `LikeCallGen`, `SqlFunctionUtils` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from operators.expressions.errors import NoPattern
from operators.expressions.java_patterns import JavaPattern, NotJava, PatternDiffers, translated
from operators.expressions.like_patterns import ANY_TEXT, Wildcard, like_parts
from operators.expressions.similar_patterns import similar_pattern
from operators.expressions.site import Site, Value, lifted
from operators.expressions.units import from_units, split_at, to_units
from state.types import STRING_ROOTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from operators.expressions.representation import Run

_ONE = "[^\\n\\r\\u0085\\u2028\\u2029]"
"""What `_` matches: any character but the ends of lines that Java knows."""


def _subject(site: Site) -> Value:
    return site.of_type(0, STRING_ROOTS)


def like(site: Site) -> Run:
    """LIKE with an optional escape character."""
    parts = like_parts(site)
    subject = _subject(site)
    match parts:
        case []:
            return lifted(lambda x: x == "", subject)
        case [str(text)]:
            return lifted(lambda x: x == text, subject)
        case [str(text), Wildcard(many=True)]:
            return lifted(lambda x: x.startswith(text), subject)
        case [Wildcard(many=True), str(text)]:
            return lifted(lambda x: x.endswith(text), subject)
        case [Wildcard(many=True), str(text), Wildcard(many=True)]:
            return lifted(lambda x: text in x, subject)
        case _:
            pass
    found = re.compile("".join(map(_expression, parts)))
    return lifted(lambda x: found.fullmatch(x) is not None, subject)


def _expression(part: str | Wildcard) -> str:
    if isinstance(part, str):
        return re.escape(part)
    return ANY_TEXT if part.many else _ONE


def similar(site: Site) -> Run:
    """SIMILAR TO with an optional escape character."""
    found = similar_pattern(site).python
    return lifted(lambda x: found.fullmatch(x) is not None, _subject(site))


def _pattern(site: Site) -> re.Pattern[str]:
    return _translated(site).python


def _translated(site: Site, at: int = 1, what: str = "the pattern") -> JavaPattern:
    try:
        return translated(site.text(at, what))
    except NotJava as error:
        message = f"{site.name} is not supported: the pattern is none in Java: {error}"
        raise NoPattern(message, function=site.name, path=site.path) from error
    except PatternDiffers as error:
        site.refuse(f"the pattern may find something else in Python than in Java: {error}")


def _found(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches as Java goes through them: after an empty one it looks from the next UTF-16 unit.

    Python would look once more from the same place, for a match that is not empty. A character of
    two units is then two characters of the match's `string`; all before it stay where they are.
    """
    start = 0
    while start <= len(text):
        found = pattern.search(text, start)
        if found is None:
            return
        yield found
        start = found.end()
        if start == found.start():
            text = split_at(text, start)
            start += 1


def regexp(site: Site) -> Run:
    """REGEXP: whether the pattern is found anywhere; an empty one never is."""
    subject = _subject(site)
    if not site.text(1, "the pattern"):
        return lifted(lambda _: False, subject)
    pattern = _pattern(site)
    return lifted(lambda x: pattern.search(x) is not None, subject)


def regexp_replace(site: Site) -> Run:
    """REGEXP_REPLACE: every match becomes the replacement, which is taken literally."""
    pattern, by = _pattern(site), site.text(2, "the replacement")

    def replaced(text: str) -> str:
        pieces: list[str] = []
        end = 0
        for found in _found(pattern, text):
            pieces += [found.string[end : found.start()], by]
            end, text = found.end(), found.string
        return from_units("".join([*pieces, text[end:]]))

    return lifted(replaced, _subject(site))


def regexp_extract(site: Site) -> Run:
    """REGEXP_EXTRACT(x, pattern[, group]): NULL where nothing is found."""
    java = _translated(site)
    pattern = java.python
    index = site.whole(2, "the number of the group") if len(site) > 2 else 0
    if not 0 <= index <= pattern.groups:
        return lambda _: None
    _check_group(site, java, index)

    def extracted(text: str) -> str | None:
        found = pattern.search(text)
        return None if found is None else found[index]

    return lifted(extracted, _subject(site))


def _check_group(site: Site, java: JavaPattern, index: int) -> None:
    if index in java.unsure:
        site.refuse("the group stands in a look around, (?> or a possessive repetition")


def regexp_extract_all(site: Site) -> Run:
    """REGEXP_EXTRACT_ALL(x, pattern[, group]): of each match the group, which is 1 by default."""
    java = _translated(site)
    index = site.whole(2, "the number of the group") if len(site) > 2 else 1
    if not 0 <= index <= java.python.groups:
        return lambda _: None
    _check_group(site, java, index)

    def extracted(text: str) -> list[str | None]:
        groups = [found[index] for found in _found(java.python, text)]
        return [None if group is None else from_units(group) for group in groups]

    return lifted(extracted, _subject(site))


def regexp_instr(site: Site) -> Run:
    """REGEXP_INSTR: where the first match begins, in UTF-16 units from 1; 0 if there is none."""
    pattern = _pattern(site)

    def place(text: str) -> int:
        found = pattern.search(text)
        return 0 if found is None else len(to_units(text[: found.start()])) + 1

    return lifted(place, _subject(site))


def str_to_map(site: Site) -> Run:
    """STR_TO_MAP(x[, between pairs[, between key and value]]): of a key, the last value."""
    signs = [translated(sign).python for sign in ",="]
    for at in range(1, len(site)):
        signs[at - 1] = _translated(site, at, "a delimiter").python
    between_pairs, within_pair = signs

    def read(text: str) -> list[tuple[str, str | None]]:
        if not text:
            return []
        pairs = [_split(within_pair, pair, 2) for pair in _split(between_pairs, text)]
        named = {pair[0]: pair[1] if len(pair) > 1 else None for pair in pairs}
        return list(named.items())

    return lifted(read, _subject(site))


def _split(pattern: re.Pattern[str], text: str, most: int | None = None) -> list[str]:
    """Java's `String.split`: no empty parts at the end, unless `most` are asked for."""
    parts: list[str] = []
    end = 0
    for found in _found(pattern, text):
        text = found.string
        if found.end() and (most is None or len(parts) < most - 1):
            parts.append(from_units(text[end : found.start()]))
            end = found.end()
    parts.append(from_units(text[end:]))
    while most is None and parts and not parts[-1]:
        parts.pop()
    return parts


def regexp_count(site: Site) -> Run:
    """REGEXP_COUNT: the number of matches."""
    pattern = _pattern(site)
    return lifted(lambda x: sum(1 for _ in _found(pattern, x)), _subject(site))


def regexp_substr(site: Site) -> Run:
    """REGEXP_SUBSTR: the first match, or NULL."""
    pattern = _pattern(site)

    def substring(text: str) -> str | None:
        found = pattern.search(text)
        return None if found is None else found[0]

    return lifted(substring, _subject(site))
