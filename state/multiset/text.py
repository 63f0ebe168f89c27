r"""The packed layout: many histories parsed and written at once.

A value, lines with a newline between, fields with a tab:

    next [ms] [shown]       header: next sequence number; LEGACY: ms of the last write;
                            `=sequence` or `!` where what the sink shows is not the newest entry
    sequence ms row         an entry, oldest first; row is canonical and holds no tab or newline

`shown`: after a replacement in place the sink shows an entry that need not be the newest
(`=sequence`), and if that one is then retracted, nothing is emitted: the sink shows a row that is
gone (`!`) until the key's next emission. Mostly it is the newest entry: then the field is absent.

A history without entries is not stored. A spread history has in its place

    spread <size> <next> <buckets> [@segments] [shown]

with the number of buckets of its index (see `index`), and its entries in blocks (see `spread`,
`segments`), each written like a packed history, with the number of the block in the header's place.
Numbers are decimal. Costs: parsing and writing take time in proportion to the bytes, without a loop
over entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from state.digits import decimals_in
from state.errors import StateCorrupt
from state.joined_rows import number_texts
from state.multiset.segments import format_segments, is_segments, parse_segments
from state.multiset.vectors import bytes_of, content_of
from state.row_pieces import RowPieces, integer_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.row_pieces import Piece

    Integers = NDArray[np.int64]

GONE = 0
"""As a shown sequence number: the row that the sink shows is gone (or there is none)."""
NEWEST = -1
"""As a shown sequence number read from a header: the newest entry."""

FEW = 64
"""Up to so many entries are handled one by one: starting Arrow's kernels would take longer."""

_SHORT_BYTES = 16 * 1024
"""Text below this is parsed line by line: starting Arrow's kernels would take longer."""
_LONG_BYTES = 4 * 1024
"""Values of more bytes than this, in the mean, are copied once only."""
_SPREAD = b"spread\t"
_GONE = b"%d" % GONE
_NEWLINE, _TAB, _END = 10, 9, ord("]")
"""`]` ends every row."""
_LAST = itemgetter(-1)


@dataclass(frozen=True, slots=True)
class Header:
    """The first line of a history's value."""

    following: int
    written_ms: int | None = None
    """Time of the last write: only LEGACY stores it."""
    shown: int = NEWEST
    size: int | None = None
    """Entries of a spread history; None for a packed one, whose entries follow."""
    buckets: int = 0
    """Buckets of a spread history's index."""
    segments: tuple[int, ...] = ()
    """The first block of each segment of a spread history (`state.multiset.segments`)."""

    @property
    def is_spread(self) -> bool:
        """Whether the entries are kept in names of their own."""
        return self.size is not None

    def format(self) -> bytes:
        """The line."""
        fields = [b"%d" % self.following]
        if self.size is not None:
            fields = [b"spread", b"%d" % self.size, *fields, b"%d" % self.buckets]
        if self.segments:
            fields.append(format_segments(self.segments))
        if self.written_ms is not None:
            fields.append(b"%d" % self.written_ms)
        if self.shown != NEWEST:
            fields.append(b"!" if self.shown == GONE else b"=%d" % self.shown)
        return b"\t".join(fields)


def is_spread(value: bytes) -> bool:
    """Whether a value is the header of a spread history."""
    return value.startswith(_SPREAD)


def are_spread(values: Sequence[bytes | None]) -> NDArray[np.bool_]:
    """Which values, of those that there are, are headers of spread histories."""
    flags = [value is not None and value.startswith(_SPREAD) for value in values]
    return np.array(flags, np.bool_)


def parse_header(value: bytes) -> Header:
    """The header of a value; of a packed one only the first line is looked at.

    Raises:
        StateCorrupt: It is none.
    """
    try:
        return _parse_header(value)
    except (ValueError, IndexError):
        raise _corrupt() from None


def _parse_header(value: bytes) -> Header:
    fields = value.split(b"\n", 1)[0].split(b"\t")
    size, buckets = None, 0
    segments: tuple[int, ...] = ()
    if fields[0] == b"spread":
        size, buckets = int(fields[1]), int(fields[3])
        fields = [fields[2], *fields[4:]]
        if len(fields) > 1 and is_segments(fields[1]):
            segments = parse_segments(fields.pop(1))
    following, shown, written_ms = int(fields[0]), NEWEST, None
    for field in fields[1:]:
        if field == b"!":
            shown = GONE
        elif field.startswith(b"="):
            shown = int(field[1:])
        else:
            written_ms = int(field)
    return Header(following, written_ms, shown, size, buckets, segments)


@dataclass(frozen=True, slots=True)
class TextSpans:
    """Pieces of a text as they lie in it, not taken out."""

    content: NDArray[np.uint8]
    start: Integers
    """Per piece: its first byte."""
    end: Integers
    """Per piece: the byte behind it."""

    def texts(self) -> list[bytes]:
        """The pieces, taken out."""
        spans = zip(self.start.tolist(), self.end.tolist(), strict=True)
        return [self.content[low:high].tobytes() for low, high in spans]


@dataclass(frozen=True)
class PackedHistories:
    """Entries of several packed histories, in the order of the values and of the lines in them."""

    owner: Integers
    """Per entry: index of its value."""
    sequence: Integers
    written: TextSpans | Integers
    """Per entry: when it was written, as text or number."""
    stored: pa.BinaryArray
    """Lines as they are stored, of entries among others, each with the newline before it."""
    line: Integers
    """Per entry: the place of its line in `stored`."""
    following: Integers
    """Per value: the next sequence number."""
    list_written_ms: Integers
    """Per value: time of the last write, -1 where the header has none."""
    shown: Integers
    """Per value: sequence number of what the sink shows, `NEWEST` or `GONE`."""
    row_offset: Integers
    """Per entry: where the row begins in its line."""

    @cached_property
    def written_ms(self) -> Integers:
        """Per entry: when it was written. Few ask, and the numbers are long."""
        if isinstance(self.written, TextSpans):
            return decimals_in(self.written.content, self.written.start, self.written.end)
        return self.written

    def lines(self, entries: Integers) -> pa.BinaryArray:
        """Lines of the entries at these positions, each with the newline before it."""
        return self.stored.take(pa.array(self.line[entries]))

    def rows(self, entries: Integers) -> pa.BinaryArray:
        """Canonical rows of the entries at these positions."""
        if not entries.size:
            return _NO_ROWS
        if entries.size <= FEW:
            starts = self.row_offset[entries].tolist()
            lines = [self.stored[place].as_buffer() for place in self.line[entries].tolist()]
            rows = [line.slice(low).to_pybytes() for line, low in zip(lines, starts, strict=True)]
            return pa.array(rows, pa.binary())
        return _without_prefix(self.lines(entries), self.row_offset[entries])

    def texts(self, entries: Integers) -> TextSpans:
        """Where the canonical rows of these entries lie."""
        _, offsets, data = self.stored.buffers()
        first = self.stored.offset
        ends = np.frombuffer(offsets, np.int32)[first : first + len(self.stored) + 1]
        line = self.line[entries]
        start = ends[line] + self.row_offset[entries]
        return TextSpans(np.frombuffer(data, np.uint8), start, ends[line + 1].astype(np.int64))

    def pieces(self, entries: Integers) -> RowPieces:
        """Lines of the entries at these positions."""
        return RowPieces.whole(bytes_of(self.lines(entries)))


def parse_packed(values: Sequence[bytes]) -> PackedHistories:
    """Parse values of the packed layout.

    Raises:
        StateCorrupt: One has no entry, or a line that is none.
    """
    if sum(map(len, values)) <= _SHORT_BYTES:
        return _parse_short(values)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    text = b"\n".join(values) + b"\n"
    content = np.frombuffer(text, np.uint8)
    # Both kinds of marks in one go, as this takes longest: what ends lines, and fields in them.
    marks = ((content - np.uint8(_TAB)) <= _NEWLINE - _TAB).nonzero()[0]
    ends = (content[marks] == _NEWLINE).nonzero()[0]
    newlines = marks[ends]
    starts = np.empty(newlines.size, np.int64)
    starts[:1] = 0
    starts[1:] = newlines[:-1] + 1
    value_starts = np.cumsum(lengths + 1) - (lengths + 1)
    header_lines = starts.searchsorted(value_starts)
    is_entry = np.ones(starts.size, np.bool_)
    is_entry[header_lines] = False
    entry_lines = is_entry.nonzero()[0]
    # Per line: the mark behind the one that ends the line before.
    first = np.empty(ends.size, np.int64)
    first[:1] = 0
    first[1:] = ends[:-1] + 1
    first_mark = first[entry_lines]
    if (
        (np.diff(header_lines, append=starts.size) < 2).any()
        or (ends[entry_lines] < first_mark + 2).any()
        or (content[newlines[entry_lines] - 1] != _END).any()
    ):
        raise _corrupt()
    low, first_tab, second_tab = starts[entry_lines], marks[first_mark], marks[first_mark + 1]
    heads = _parse_headers(
        content, value_starts, marks, first[header_lines], newlines[header_lines]
    )
    return PackedHistories(
        owner=np.repeat(np.arange(len(values)), np.diff(header_lines, append=starts.size) - 1),
        sequence=decimals_in(content, low, first_tab),
        written=TextSpans(content, first_tab + 1, second_tab),
        stored=_segments(text, newlines),
        line=entry_lines - 1,
        following=heads[0],
        list_written_ms=heads[1],
        shown=heads[2],
        row_offset=second_tab + 2 - low,
    )


def _parse_short(values: Sequence[bytes]) -> PackedHistories:
    """The same line by line: for little text, starting Arrow's kernels would take longer."""
    try:
        return _parse_lines(values)
    except (ValueError, IndexError):
        raise _corrupt() from None


def _parse_lines(values: Sequence[bytes]) -> PackedHistories:
    heads: list[Header] = []
    owner: list[int] = []
    lines: list[bytes] = []
    fields: list[list[bytes]] = []
    for value in values:
        head, *entries = value.split(b"\n")
        if not entries:
            raise ValueError("a history without entries")
        owner += [len(heads)] * len(entries)
        heads.append(_parse_header(head))
        lines += entries
        fields += [entry.split(b"\t", 2) for entry in entries]
    if not {*map(_LAST, lines)} <= {_END}:
        raise ValueError("an entry that was cut off")
    written = [-1 if head.written_ms is None else head.written_ms for head in heads]
    return PackedHistories(
        owner=np.array(owner, np.int64),
        sequence=np.array([int(each[0]) for each in fields], np.int64),
        written=np.array([int(each[1]) for each in fields], np.int64),
        stored=pa.array([b"\n" + line for line in lines], pa.binary()),
        line=np.arange(len(lines)),
        following=np.array([head.following for head in heads], np.int64),
        list_written_ms=np.array(written, np.int64),
        shown=np.array([head.shown for head in heads], np.int64),
        row_offset=np.array([len(each[0]) + len(each[1]) + 3 for each in fields], np.int64),
    )


def write_packed(headers: Sequence[bytes], owner: Integers, lines: pa.BinaryArray) -> list[bytes]:
    """Values of the packed layout: a header each, and its lines; `owner` never decreases.

    The lines, as in `PackedHistories`, lie one after the other: a value's are one slice.
    """
    data, ends = content_of(lines)
    limits = ends[owner.searchsorted(np.arange(len(headers) + 1))].tolist()
    spans = zip(headers, pairwise(limits), strict=True)
    if len(data) > len(headers) * _LONG_BYTES:
        return [b"".join((header, data[low:high])) for header, (low, high) in spans]
    # Slices of bytes take half the time of views, but a long text is copied twice more.
    text = data.tobytes()
    return [header + text[low:high] for header, (low, high) in spans]


def packed_headers(
    following: Integers, written_ms: int | None, shown: Integers, newest: Integers
) -> list[bytes]:
    """Headers of packed histories; `written_ms` as LEGACY states it, else None."""
    tail = b"" if written_ms is None else b"\t%d" % written_ms
    headers = integer_texts(following)
    if tail:
        headers = [header + tail for header in headers]
    older = (shown != newest).nonzero()[0]
    for place, number in zip(older.tolist(), integer_texts(shown[older]), strict=True):
        headers[place] += b"\t=" + number if number != _GONE else b"\t!"
    return headers


def before_rows(sequence: Integers, written_ms: int) -> list[str | pa.Array]:
    """What a line, as in `PackedHistories`, has before its row."""
    return ["\n", number_texts(pa.array(sequence)), f"\t{written_ms}\t"]


def pieces_before_rows(sequence: Integers, written_ms: int) -> list[Piece]:
    """The same in pieces."""
    return ["\n", integer_texts(sequence), f"\t{written_ms}\t"]


def _parse_headers(
    content: NDArray[np.uint8],
    starts: Integers,
    marks: Integers,
    first_mark: Integers,
    ends: Integers,
) -> tuple[Integers, Integers, Integers]:
    """Next number, time of the last write and number shown of each header.

    Args:
        content: The text.
        starts: Where each header begins.
        marks: Where tabs and newlines are.
        first_mark: Per header, its first mark: the newline at its end if it has no tab.
        ends: That newline.
    """
    first, second = marks[first_mark], np.minimum(marks[first_mark + 1], ends)
    following = decimals_in(content, starts, first)
    written_ms = np.full(starts.size, -1, np.int64)
    shown = np.full(starts.size, NEWEST, np.int64)
    longer = (first < ends).nonzero()[0]
    # The first character of the last field, and that of the one after the first tab.
    last = np.where(second < ends, second, first)[longer] + 1
    saying = (content[last] == ord("=")).nonzero()[0]
    shown[longer[saying]] = decimals_in(content, last[saying] + 1, ends[longer[saying]])
    shown[longer[content[last] == ord("!")]] = GONE
    mark = content[first[longer] + 1]
    timed = longer[(mark != ord("=")) & (mark != ord("!"))]
    written_ms[timed] = decimals_in(content, first[timed] + 1, second[timed])
    return following, written_ms, shown


def _corrupt() -> StateCorrupt:
    return StateCorrupt("a stored history is not as we write it")


def _segments(text: bytes, newlines: Integers) -> pa.BinaryArray:
    """Lines of a text but the first, each with the newline before it; they share its bytes."""
    offsets = pa.py_buffer(newlines.astype(np.int32))
    return pa.Array.from_buffers(
        pa.binary(), newlines.size - 1, [None, offsets, pa.py_buffer(text)]
    )


def _without_prefix(lines: pa.BinaryArray, length: Integers) -> pa.BinaryArray:
    """Each line without its first bytes, a number of them for each."""
    count = len(lines)
    if not count:
        return lines
    ends = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + count + 1]
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0::2] = ends
    offsets[1::2] = ends[:-1] + length
    both = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), lines.buffers()[2]]
    )
    return both.take(pa.array(np.arange(1, 2 * count, 2)))


_NO_ROWS = pa.array([], pa.binary())
NO_HISTORIES = parse_packed([])
"""What parsing nothing gives."""
