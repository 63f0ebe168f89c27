r"""The stored text of collections: packed into one field, or spread with a header there.

    packed    packed <version> <next>                    header line, then a line for each element
    spread    spread <version> <size> <next> <oldest>    the header alone; elements are elsewhere

Words are separated by tabs, numbers are decimal. `next` is the next sequence number (0 where
elements have keys of their own), `size` counts elements, `oldest` is at most their oldest stamp,
`-` where none has one. A spread collection of a state has

    <state>:<key>:rows      hash         sequence number or user key -> element
    <state>:<key>:stamps    sorted set   the same fields, those with a stamp, scored by it

`oldest` stands in the header so that an access to one element needs no look at the stamps. It is
a bound: when the oldest element is written anew it lags behind, and clean-up corrects it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from state.errors import FormatVersionMismatch, StateCorrupt
from state.ttl import STAMP_SIZE, is_usual_stamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

VERSION: Final = 1
_PACKED: Final = b"packed\t%d\t" % VERSION
_WORDS: Final = {b"packed": 3, b"spread": 5}
"""How many words a header of each layout has."""


class Header(NamedTuple):
    """What the header line of a stored collection says."""

    is_spread: bool
    next_number: int
    size: int = 0
    """Elements of a spread collection; 0 for a packed one, whose lines are counted."""
    oldest_ms: int | None = None
    """At most the oldest stamp of a spread collection."""


def rows_name(state: bytes, key: bytes) -> bytes:
    """The name of a spread collection's elements."""
    return b"%b:%b:rows" % (state, key)


def stamps_name(state: bytes, key: bytes) -> bytes:
    """The name of a spread collection's stamps."""
    return b"%b:%b:stamps" % (state, key)


def packed_text(next_number: int, lines: Iterable[bytes]) -> bytes:
    r"""A packed collection.

    >>> packed_text(7, [b"@5 1", b"@6 2"])
    b'packed\t1\t7\n@5 1\n@6 2'
    """
    return b"\n".join((b"packed\t%d\t%d" % (VERSION, next_number), *lines))


def spread_text(size: int, next_number: int, oldest_ms: int | None) -> bytes:
    r"""The header of a spread collection.

    >>> spread_text(100, 107, None)
    b'spread\t1\t100\t107\t-'
    """
    oldest = b"-" if oldest_ms is None else b"%d" % oldest_ms
    return b"spread\t%d\t%d\t%d\t%b" % (VERSION, size, next_number, oldest)


def read_collection(text: bytes) -> tuple[Header, list[bytes]]:
    """Header and element lines of a stored collection; a spread one has no lines here.

    Raises:
        FormatVersionMismatch: It was written in another format version.
        StateCorrupt: It is no stored collection, or not a whole one.
    """
    first, *lines = text.split(b"\n")
    layout, *words = first.split(b"\t")
    numbers = _numbers(words)
    if not numbers or len(words) + 1 != _WORDS.get(layout):
        raise StateCorrupt(
            "a stored collection does not begin with a header of ours",
            hint="it was truncated, is of another kind, or something else wrote to this state",
        )
    version, *numbers = numbers
    if version != VERSION:
        raise FormatVersionMismatch(
            f"a stored collection has format version {version}, this version reads {VERSION}",
            hint="run the version of the software that wrote it, and move by a savepoint",
        )
    if layout == b"packed":
        if not lines:
            raise StateCorrupt("a packed collection is empty")
        (next_number,) = numbers
        return Header(is_spread=False, next_number=next_number or 0), lines
    size, next_number, oldest_ms = numbers
    if lines or not size:
        raise StateCorrupt("the header of a spread collection is followed by lines, or it is empty")
    return Header(True, next_number or 0, size, oldest_ms), lines


def judged_lines(
    text: bytes, before_element: bytes, expired_until_ms: float
) -> tuple[int, int | None] | None:
    r"""What clean-up does to a packed collection whose elements all share one fate.

    Args:
        text: As it is stored.
        before_element: What stands before each element: a line feed, or the tab behind a key.
        expired_until_ms: The newest stamp that is expired.

    Returns:
        As `StateHandle.judged`; None, too, for a spread collection and what is not as we write it.

    >>> judged_lines(packed_text(7, [b"@5 1", b"@6 2"]), b"\n", 6)
    (2, None)
    >>> judged_lines(packed_text(7, [b"@5 1", b"@6 2"]), b"\n", 4)
    (0, 5)
    """
    if not text.startswith(_PACKED):
        return None
    count = text.count(b"\n")
    at = text.find(before_element + b"@") + 1
    head = text[at : at + STAMP_SIZE]
    if at and text.count(before_element + head) == count and is_usual_stamp(head):
        oldest_ms = newest_ms = int(head[1:-1])
    else:
        heads = text.split(before_element + b"@")[1:]
        if len(heads) != count:
            return None
        try:
            stamps = [int(each[: each.index(b" ")]) for each in heads]
        except ValueError:
            return None
        oldest_ms, newest_ms = min(stamps), max(stamps)
    if newest_ms <= expired_until_ms:
        return count, None
    return (0, oldest_ms) if oldest_ms > expired_until_ms else None


def expired_lines(
    keys: Sequence[bytes],
    texts: Sequence[bytes | None],
    before_element: bytes,
    end: bytes,
    elements_max: int,
) -> tuple[dict[bytes, bytes], int]:
    r"""Packed collections all of whose elements have one stamp of the usual length, an expired one.

    It is `judged_lines` of many for what is most common: no call and no number for each.

    Args:
        keys: Of the collections.
        texts: As they are stored.
        before_element: What stands before each element: a line feed, or the tab behind a key.
        end: Stored elements with a stamp of the usual length that are below this are expired.
        elements_max: Only collections of so many elements.

    Returns:
        Their keys and texts, and how many elements they have.

    >>> held = packed_text(7, [b"@1767225600000 1", b"@1767225600000 2"])
    >>> expired_lines([b"k"], [held], b"\n", b"@1767225600000!", 64) == ({b"k": held}, 2)
    True
    """
    found: dict[bytes, bytes] = {}
    count_all = 0
    begin = before_element + b"@"
    for key, text in zip(keys, texts, strict=True):
        if text is None or not text.startswith(_PACKED):
            continue
        at = text.find(begin) + 1
        head = text[at : at + STAMP_SIZE]
        if at and head < end and head[14:] == b" ":
            count = text.count(b"\n")
            if count <= elements_max and (count == 1 or text.count(before_element + head) == count):
                found[key] = text
                count_all += count
    return found, count_all


def _numbers(words: Sequence[bytes]) -> list[int | None]:
    """The numbers of a header; none where a word is no number."""
    try:
        return [None if each == b"-" else int(each) for each in words]
    except ValueError:
        return []
