"""An element of sorted map state as a member of a sorted set, and cuts of the order as its bounds.

A member is `ordered key TAB number TAB element`. Members sort by their bytes, entries as tuples of
the same parts, and both alike: numbers have a fixed width, and no part holds a tab or what sorts
below one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from state.errors import StateCorrupt
from state.primitives.intervals import BOTTOM, TOP

if TYPE_CHECKING:
    from state.primitives.intervals import Cut

Entry: TypeAlias = tuple[bytes, bytes, bytes]
"""Ordered key, number and stored element."""

LAST: Final = b"\xff"
"""Behind every number and every element, as UTF-8 has no such byte."""


_FIRST_NUMBERS: Final = [b"%012d" % each for each in range(1_024)]
"""Of packed maps, which are numbered anew at each load."""


def cuts_of(ordered_key: bytes) -> tuple[Cut, Cut]:
    """Before and behind all elements of a user key."""
    return (ordered_key,), (ordered_key, LAST)


def bounds_of(low: Cut, high: Cut) -> tuple[bytes, bytes]:
    r"""An interval as the bounds of a `LexRange`.

    >>> bounds_of((b"a",), (b"a", LAST))
    (b'[a\t', b'(a\t\xff')
    """
    return (
        b"-" if low == BOTTOM else b"[" + _text(low),
        b"+" if high == TOP else b"(" + _text(high),
    )


def number_text(number: int) -> bytes:
    """A number of an element: so many digits that an addition a microsecond lasts eleven days."""
    return _FIRST_NUMBERS[number] if number < len(_FIRST_NUMBERS) else b"%012d" % number


def entry_of_member(member: bytes) -> Entry:
    """The parts of a stored member.

    Raises:
        StateCorrupt: It has no three parts.
    """
    try:
        key, number, text = member.split(b"\t", 2)
    except ValueError:
        raise _no_element() from None
    return key, number, text


def entry_of_line(line: bytes, at: int) -> Entry:
    """The parts of a line of a packed map, numbered by its place.

    Raises:
        StateCorrupt: It has no two parts.
    """
    key, tab, text = line.partition(b"\t")
    if not tab:
        raise _no_element()
    return key, number_text(at), text


def _text(cut: Cut) -> bytes:
    """What members are compared with. One key may begin another: its tab ends it."""
    return cut[0] + b"\t" if len(cut) == 1 else b"\t".join(cut)


def _no_element() -> StateCorrupt:
    return StateCorrupt(
        "a stored element of a sorted map has no ordered key",
        hint="it was truncated, is of another kind, or something else wrote to this state",
    )
