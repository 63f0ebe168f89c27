r"""The stored text of collections: packed into one field, or spread with a header there.

    packed    packed 3 <size> <next>                   header line, then a line for each element
    packed    packed 2 <size> <next> <oldest> <own>    the same where each element has a stamp
    packed    packed 1 <next>                          as 3, of versions before: whether it was cut
                                                       off behind a line, it does not tell
    spread    spread 1 <size> <next> <oldest>          the header alone; elements are elsewhere

Words are separated by tabs, numbers are decimal; the first one is the version of the format. `next`
is the next sequence number (0 where elements have keys of their own), `size` counts elements.
`oldest` is their oldest stamp: in a packed collection exactly, and elements that have it are stored
without it, while `own` counts those that begin with another one. So what was written in one epoch
has one stamp together, and is judged by one number. In a spread collection it is at most their
oldest stamp, `-` where none has one; that has

    <state>:<key>:rows      hash         sequence number or user key -> element
    <state>:<key>:stamps    sorted set   the same fields, those with a stamp, scored by it

`oldest` stands in the header so that an access to one element needs no look at the stamps. It is
a bound: when the oldest element is written anew it lags behind, and clean-up corrects it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from state.errors import FormatVersionMismatch, StateCorrupt
from state.ttl import oldest_stamp, stamped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

_BARE: Final = 1
_SHARED: Final = 2
"""The version of packed collections whose elements all have stamps."""
_COUNTED: Final = 3
"""The version of all others."""
_PACKED: Final = b"packed\t"
_PACKED_SHARED: Final = _PACKED + b"%d\t" % _SHARED
_PACKED_COUNTED: Final = _PACKED + b"%d\t" % _COUNTED
_UNCOUNTED: Final = _PACKED + b"%d\t0\n" % _BARE
"""What a packed collection of the version before, whose elements have no numbers, begins with."""
_WORDS: Final = {b"packed": {_BARE: 1, _SHARED: 4, _COUNTED: 2}, b"spread": {_BARE: 3}}
"""How many words stand behind the version, by layout and version."""


@dataclass(frozen=True, slots=True)
class Header:
    """What the header line of a stored collection says."""

    is_spread: bool
    next_number: int
    size: int = 0
    """Elements; 0 for a packed collection of version 1, which does not say it."""
    oldest_ms: int | None = None
    """The stamp of elements of a packed collection that have none of their own, and the oldest of
    all; at most the oldest stamp of a spread one."""
    own_count: int = 0
    """Elements of a packed collection with stamps of their own, where `oldest_ms` is there."""
    shared: bytes = b""
    """What stands for `oldest_ms` before an element, where elements of a packed one share it."""


def rows_name(state: bytes, key: bytes) -> bytes:
    """The name of a spread collection's elements."""
    return b"%b:%b:rows" % (state, key)


def stamps_name(state: bytes, key: bytes) -> bytes:
    """The name of a spread collection's stamps."""
    return b"%b:%b:stamps" % (state, key)


class Shared(NamedTuple):
    """Elements of a packed collection that all have stamps: the oldest one is stored once."""

    oldest_ms: int
    own_count: int
    """How many elements have another stamp."""
    elements: Sequence[bytes]
    """The elements, those of the oldest stamp without it."""


def shared(elements: Sequence[bytes]) -> Shared | None:
    """Elements that begin with their stamps as they are packed; None if one has no stamp.

    >>> shared([b"@6 1", b"@5 2", b"@5 3"])
    Shared(oldest_ms=5, own_count=1, elements=[b'@6 1', b'2', b'3'])
    """
    if not elements or not all(each[:1] == b"@" for each in elements):
        return None
    oldest_ms = oldest_stamp(elements) or 0
    head = stamped(b"", oldest_ms)
    without = [each.removeprefix(head) for each in elements]
    return Shared(oldest_ms, sum(each[:1] == b"@" for each in without), without)


def own_stamps(header: Header, lines: list[bytes], before_element: bytes) -> list[bytes]:
    r"""The lines of a packed collection, each element with the stamp that it has.

    Args:
        header: The collection's.
        lines: As they are stored.
        before_element: What stands before each element: a line feed, or the tab behind a key.

    >>> own_stamps(Header(False, 0, 2, 5, 1), [b"1\t10", b"2\t@6 20"], b"\t")
    [b'1\t@5 10', b'2\t@6 20']
    """
    if header.is_spread or header.oldest_ms is None:
        return lines
    head = stamped(b"", header.oldest_ms)
    if before_element == b"\n":
        return [each if each[:1] == b"@" else head + each for each in lines]
    parts = [each.partition(before_element) for each in lines]
    return [
        b"".join((key, tab, element if element[:1] == b"@" else head + element))
        for key, tab, element in parts
    ]


def packed_text(next_number: int, lines: Collection[bytes]) -> bytes:
    r"""A packed collection in which not every element has a stamp.

    >>> packed_text(7, [b"1", b"@6 2"])
    b'packed\t3\t2\t7\n1\n@6 2'
    """
    return b"\n".join((_counted_header(len(lines), next_number), *lines))


@lru_cache(maxsize=1024)
def _counted_header(size: int, next_number: int) -> bytes:
    """The first line of it; of the keys of an epoch many have the same."""
    return _PACKED_COUNTED + b"%d\t%d" % (size, next_number)


def unstamped_lines(text: bytes) -> list[bytes] | None:
    r"""The lines of a packed sorted map whose elements have no stamps.

    None if it is another text, or not a whole one.

    >>> unstamped_lines(packed_text(0, [b"a\t1", b"b\t2"]))
    [b'a\t1', b'b\t2']
    >>> unstamped_lines(packed_text(0, [b"a\t@6 1"])), unstamped_lines(spread_text(9, 9, None))
    (None, None)
    """
    if b"\t@" in text:
        return None
    first, *lines = text.split(b"\n")
    is_whole = first == _counted_header(len(lines), 0) or text.startswith(_UNCOUNTED)
    return lines if is_whole else None


def shared_text(
    size: int, next_number: int, oldest_ms: int, own_count: int, lines: Iterable[bytes]
) -> bytes:
    r"""A packed collection in which every element has a stamp; see `shared`.

    >>> shared_text(2, 7, 5, 1, [b"1", b"@6 2"])
    b'packed\t2\t2\t7\t5\t1\n1\n@6 2'
    """
    return b"\n".join((_shared_header(size, next_number, oldest_ms, own_count), *lines))


@lru_cache(maxsize=1024)
def _shared_header(size: int, next_number: int, oldest_ms: int, own_count: int) -> bytes:
    """The first line of it; of the keys of an epoch many have the same."""
    return _PACKED_SHARED + b"%d\t%d\t%d\t%d" % (size, next_number, oldest_ms, own_count)


def spread_text(size: int, next_number: int, oldest_ms: int | None) -> bytes:
    r"""The header of a spread collection.

    >>> spread_text(100, 107, None)
    b'spread\t1\t100\t107\t-'
    """
    oldest = b"-" if oldest_ms is None else b"%d" % oldest_ms
    return b"spread\t%d\t%d\t%d\t%b" % (_BARE, size, next_number, oldest)


def read_collection(text: bytes) -> tuple[Header, list[bytes]]:
    """Header and element lines of a stored collection; a spread one has no lines here.

    Raises:
        FormatVersionMismatch: It was written in another format version.
        StateCorrupt: It is no stored collection, or not a whole one.
    """
    first, *lines = text.split(b"\n")
    header = _read_header(first)
    if header.is_spread:
        if lines:
            raise StateCorrupt("the header of a spread collection is followed by lines")
    elif not lines:
        raise StateCorrupt("a packed collection is empty")
    elif header.size not in (0, len(lines)):
        raise StateCorrupt(
            f"a packed collection has {len(lines)} elements, its header says {header.size}",
            hint="it was truncated, or something else wrote to this state",
        )
    return header, lines


@lru_cache(maxsize=1024)
def _read_header(first: bytes) -> Header:
    """What a first line says; of the keys of an epoch many have the same."""
    layout, *words = first.split(b"\t")
    numbers, versions = _numbers(words), _WORDS.get(layout)
    if not numbers or versions is None:
        raise _no_header()
    version, *numbers = numbers
    if version not in versions:
        known = ", ".join(map(str, versions))
        raise FormatVersionMismatch(
            f"a stored collection has format version {version}, this version reads {known}",
            hint="run the version of the software that wrote it, and move by a savepoint",
        )
    if len(numbers) != versions[version]:
        raise _no_header()
    if layout == b"spread":
        size, next_number, oldest_ms = numbers
        if not size:
            raise StateCorrupt("a spread collection is empty")
        return Header(True, next_number or 0, size, oldest_ms)
    if version == _BARE:
        return Header(is_spread=False, next_number=numbers[0] or 0)
    if version == _COUNTED:
        size, next_number = numbers
        if not size:
            raise _no_header()
        return Header(False, next_number or 0, size)
    size, next_number, oldest_ms, own_count = numbers
    if not size or oldest_ms is None or own_count is None or own_count > size:
        raise _no_header()
    return Header(False, next_number or 0, size, oldest_ms, own_count, stamped(b"", oldest_ms))


def _no_header() -> StateCorrupt:
    return StateCorrupt(
        "a stored collection does not begin with a header of ours",
        hint="it was truncated, is of another kind, or something else wrote to this state",
    )


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

    Raises:
        StateCorrupt: The header is none of ours.

    >>> text = shared_text(2, 7, 5, 1, [b"1", b"@6 2"])
    >>> judged_lines(text, b"\n", 6), judged_lines(text, b"\n", 4)
    ((2, None), (0, 5))
    """
    header = packed_header(text)
    if header is None:
        return None
    size, oldest_ms = header.size or text.count(b"\n"), header.oldest_ms
    own_count = size if oldest_ms is None else header.own_count
    if oldest_ms is not None and oldest_ms > expired_until_ms:
        return 0, oldest_ms
    heads = text.split(before_element + b"@")[1:] if own_count else ()
    if len(heads) != own_count:
        return None
    try:
        stamps = [int(each[: each.index(b" ")]) for each in heads]
    except ValueError:
        return None
    if oldest_ms is not None:
        stamps.append(oldest_ms)
    if max(stamps) <= expired_until_ms:
        return size, None
    return (0, min(stamps)) if min(stamps) > expired_until_ms else None


def expired_lines(
    keys: Sequence[bytes],
    texts: Sequence[bytes | None],
    expired_until_ms: float,
    elements_max: int,
) -> tuple[dict[bytes, bytes], int]:
    r"""Packed collections all of whose elements have one stamp, an expired one.

    It is `judged_lines` of many for what is most common.

    Args:
        keys: Of the collections.
        texts: As they are stored.
        expired_until_ms: The newest stamp that is expired.
        elements_max: Only collections of so many elements.

    Returns:
        Their keys and texts, and how many elements they have.

    >>> held = shared_text(2, 2, 5, 0, [b"1", b"2"])
    >>> expired_lines([b"k"], [held], 5, 64) == ({b"k": held}, 2)
    True
    """
    held = [each for each in texts if each is not None]
    if len(held) == len(keys) and (sizes := _expired_alike(held, expired_until_ms, elements_max)):
        return dict(zip(keys, held, strict=True)), sum(sizes)
    found: dict[bytes, bytes] = {}
    count = 0
    for key, text in zip(keys, texts, strict=True):
        header = None if text is None else packed_header(text)
        if text is None or header is None:
            continue
        size = _expired_size(header, expired_until_ms)
        if size and size <= elements_max:
            found[key] = text
            count += size
    return found, count


def _expired_alike(
    texts: Sequence[bytes], expired_until_ms: float, elements_max: int
) -> list[int] | None:
    r"""The sizes of packed collections that are all expired as a whole, with headers of one length.

    None where one of them is not, or may not be. Few headers are met, each many times, so no step
    of Python is taken for each text.

    >>> held = shared_text(2, 2, 5, 0, [b"1", b"2"])
    >>> _expired_alike([held, held], 5, 64), _expired_alike([held, held[:-2]], 5, 64)
    ([2, 2], None)
    """
    end = texts[0].find(b"\n") + 1 if texts else 0
    heads = [*map(itemgetter(slice(end)), texts)]
    sizes: dict[bytes, int] = {}
    for head in {*heads}:
        if not head.startswith(_PACKED_SHARED) or head.find(b"\n") != end - 1:
            return None
        size = _expired_size(_read_header(head[:-1]), expired_until_ms)
        if not size or size > elements_max:
            return None
        sizes[head] = size
    wanted = [*map(sizes.__getitem__, heads)]
    return wanted if [*map(bytes.count, texts, repeat(b"\n"))] == wanted else None


def _expired_size(header: Header, expired_until_ms: float) -> int:
    """How many elements a packed collection has, if it is known that all are expired; else 0."""
    oldest_ms = header.oldest_ms
    if oldest_ms is None or oldest_ms > expired_until_ms or header.own_count:
        return 0
    return header.size


def packed_header(text: bytes) -> Header | None:
    """The header of a packed collection.

    None where the text is none, or has other lines than its header says.

    Raises:
        FormatVersionMismatch, StateCorrupt: The header cannot be read.
    """
    end = text.find(b"\n")
    if end < 0 or not text.startswith(_PACKED):
        return None
    header = _read_header(text[:end])
    return header if header.size in (0, text.count(b"\n")) else None


def _numbers(words: Sequence[bytes]) -> list[int | None]:
    """The numbers of a header; none where a word is no number."""
    try:
        return [None if each == b"-" else int(each) for each in words]
    except ValueError:
        return []
