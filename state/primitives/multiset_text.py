r"""The stored text of a sequenced multiset, one history at a time.

It is what `state.multiset.text` and `state.multiset.spread` draw, byte for byte: a materializer and
a `MultisetHandle` may read and change each other's histories. There, histories of a whole epoch are
parsed and written in columns; here, it is one history or one block, in plain Python, and what is
stored is not trusted to be a history.

A digest stands for the match columns of an entry (`state.multiset.index`). Texts of more than 32
bytes are in what is digested by digests of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson

from state.errors import StateCorrupt
from state.multiset.index import digest_of
from state.multiset.segments import is_segments, parse_segments
from state.multiset.spread import TEXT_BYTES_MAX, digest
from state.multiset.text import GONE, NEWEST, Header

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.primitives.multiset_history import Stored

_HINT: Final = "it was truncated, is of another kind, or something else wrote to this state"
_QUOTE: Final = b'"'


def read_header(line: bytes) -> Header:
    r"""The first line of a stored history.

    Raises:
        StateCorrupt: It is no such line.

    >>> read_header(b"spread\t100\t108\t4\t=7")
    Header(following=108, written_ms=None, shown=7, size=100, buckets=4, segments=())
    """
    words = line.split(b"\t")
    is_spread = words[0] == b"spread"
    if is_spread:
        del words[0]
    shown = NEWEST
    if words and words[-1][:1] in (b"=", b"!"):
        shown = _shown(words.pop())
    segments: tuple[int, ...] = ()
    if is_spread and words and is_segments(words[-1]):
        segments = _segments(words.pop())
    numbers = [read_number(each, "a header") for each in words]
    if is_spread and len(numbers) == 3 and numbers[0] > 0 and numbers[2] > 0:
        return Header(numbers[1], None, shown, numbers[0], numbers[2], segments)
    if not is_spread and 1 <= len(numbers) <= 2:
        return Header(numbers[0], numbers[1] if len(numbers) > 1 else None, shown)
    raise _corrupt("a header")


def read_lines(lines: Iterable[bytes], following: int) -> dict[int, Stored]:
    r"""Entries by their sequence numbers, as lines of a packed history or of a block hold them.

    Raises:
        StateCorrupt: A line is none, or its number is not between that of the line before and
            the next number of the history.

    >>> read_lines([b"3\t16\t[1]", b"5\t20\t[2]"], 6)
    {3: (16, b'[1]'), 5: (20, b'[2]')}
    """
    entries: dict[int, Stored] = {}
    before = 0
    for line in lines:
        words = line.split(b"\t", 2)
        if len(words) != 3 or not words[2]:
            raise _corrupt("an entry")
        sequence = read_number(words[0], "an entry")
        if not before < sequence < following:
            raise StateCorrupt(
                f"entry {sequence} of a history follows entry {before}, the next one is {following}"
            )
        entries[sequence] = read_number(words[1], "an entry"), words[2]
        before = sequence
    return entries


def write_lines(head: bytes, entries: Iterable[tuple[int, Stored]]) -> bytes:
    r"""A packed history or a block: its first line, then a line for each entry.

    >>> write_lines(b"6", [(3, (16, b"[1]")), (5, (20, b"[2]"))])
    b'6\n3\t16\t[1]\n5\t20\t[2]'
    """
    return b"\n".join((head, *(b"%d\t%d\t%b" % (n, ms, row) for n, (ms, row) in entries)))


def read_block(number: int, text: bytes, following: int) -> dict[int, Stored]:
    """The entries of a stored block.

    Raises:
        StateCorrupt: It is none, or another one.
    """
    head, *lines = text.split(b"\n")
    if head != b"%d" % number or not lines:
        raise _corrupt("a block")
    return read_lines(lines, following)


def match_digest(match: bytes) -> bytes:
    """What stands for match columns in the index.

    Args:
        match: Their canonical bytes: an array of columns, or any other JSON.
    """
    return digest_of(shortened(match))


def shortened(match: bytes) -> bytes:
    r"""Match columns with a digest in the place of each long text.

    >>> shortened(b'[7,"short"]')
    b'[7,"short"]'
    >>> shortened(b'[7,"%b"]' % (b"long" * 9))
    b'[7,"#4b62ac02de03b9bda0815a77acdfaf96bd33c664"]'
    """
    if len(match) > TEXT_BYTES_MAX and match[:1] == b"[":
        columns = [orjson.dumps(each) for each in orjson.loads(match)]
        match = b"[%b]" % b",".join(map(_short, columns))
    return match


def _short(column: bytes) -> bytes:
    """The canonical text of a column; its digest where it is long."""
    inside = column[1:-1] if column[:1] == _QUOTE else column
    return column if len(inside) <= TEXT_BYTES_MAX else b'"%b"' % digest(inside).encode()


def _shown(word: bytes) -> int:
    return GONE if word == b"!" else read_number(word[1:], "a header")


def _segments(word: bytes) -> tuple[int, ...]:
    try:
        return parse_segments(word)
    except ValueError:
        raise _corrupt("a header") from None


def read_number(word: bytes, where: str) -> int:
    """A number; `where` says in what it is.

    Raises:
        StateCorrupt: It is none.
    """
    try:
        return int(word)
    except ValueError:
        raise _corrupt(where) from None


def _corrupt(where: str) -> StateCorrupt:
    return StateCorrupt(f"{where} of a history is not as we write it", hint=_HINT)
