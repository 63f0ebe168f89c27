"""A spread key as records of a savepoint: its structures, whole or without what is expired.

Segments of a history (`state.multiset.segments`) are put together: in a savepoint, and once it is
restored, its blocks are in one hash. So versions that know no segments restore it as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from state.multiset.index import parse_bucket, write_bucket
from state.multiset.segments import block_hashes
from state.primitives.layout import read_collection, spread_text
from state.primitives.multiset_text import read_header
from state.savepoint.expired import HISTORIES, Lives, shown_after
from state.savepoint.files import Record, text_of
from state.ttl import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from state.multiset.text import Header
    from state.savepoint.pages import Pages

PIECES: Final[Mapping[str, tuple[tuple[bytes, str], ...]]] = {
    "list": ((b"rows", "hash"), (b"stamps", "sorted")),
    "map": ((b"rows", "hash"), (b"stamps", "sorted")),
    "sorted_map": ((b"order", "sorted"), (b"stamps", "sorted")),
    **dict.fromkeys(
        HISTORIES,
        ((b"order", "sorted"), (b"blocks", "hash"), (b"index", "hash"), (b"stamps", "sorted")),
    ),
}
"""The structures of a spread key, by kind of state."""


class SpreadKey:
    """The structures of one spread key."""

    def __init__(self, pages: Pages, key: bytes, kind: str, text: bytes, lives: Lives) -> None:
        self._pages = pages
        self._key = key
        self._kind = kind
        self._text = text
        """The header."""
        self._lives = lives
        self._segments: tuple[int, ...] = ()
        if kind in HISTORIES and (header := read_header(text)).segments:
            self._segments = header.segments
            self._text = replace(header, segments=()).format()
        self.left: tuple[bytes, int | None] | None = None
        """Header and score of what remains, once all records were given."""

    def copied(self, oldest_ms: int | None) -> Iterator[Record]:
        """All of them, as they are."""
        self.left = self._text, oldest_ms
        for piece, form in PIECES[self._kind]:
            if form == "hash":
                for flat in self._hash(piece):
                    yield _hash(piece, flat)
            else:
                for members in self._sorted(piece):
                    yield _sorted(piece, members)

    def filtered(self, oldest_ms: int | None) -> Iterator[Record]:
        """Those of what is not past its life."""
        if self._kind in HISTORIES:
            yield from self._history(read_header(self._text), oldest_ms)
        elif self._kind == "sorted_map":
            yield from self._sorted_map(self._text)
        else:
            yield from self._rows(self._text)

    def _rows(self, text: bytes) -> Iterator[Record]:
        gone: set[bytes] = set()
        for flat in self._hash(b"rows"):
            kept: list[bytes] = []
            for row, element in zip(flat[0::2], flat[1::2], strict=True):
                if self._lives.is_over(stamp_of(element)):
                    gone.add(row)
                else:
                    kept += (row, element)
            if kept:
                yield _hash(b"rows", kept)
        yield from self._collection_stamps(text, gone)

    def _sorted_map(self, text: bytes) -> Iterator[Record]:
        gone: set[bytes] = set()
        for members in self._sorted(b"order"):
            kept = []
            for member, score in members:
                place, _, element = member.rpartition(b"\t")
                if self._lives.is_over(stamp_of(element)):
                    gone.add(place)
                else:
                    kept.append((member, score))
            if kept:
                yield _sorted(b"order", kept)
        yield from self._collection_stamps(text, gone)

    def _collection_stamps(self, text: bytes, gone: set[bytes]) -> Iterator[Record]:
        """Stamps of what remains; then the header is known."""
        oldest: int | None = None
        for members in self._sorted(b"stamps"):
            kept = [each for each in members if each[0] not in gone]
            if kept:
                oldest = int(kept[0][1]) if oldest is None else oldest
                yield _sorted(b"stamps", kept)
        self._lives.expired += len(gone)
        header, _ = read_collection(text)
        if size := header.size - len(gone):
            # The stored bound may be older than what there is, as clean-up would find out, too.
            self.left = spread_text(size, header.next_number, oldest), oldest

    def _history(self, header: Header, oldest_ms: int | None) -> Iterator[Record]:
        size = header.size or 0
        gone: set[int] = set()
        empty: set[bytes] = set()
        oldest: dict[bytes, int] = {}
        newest = 0
        for flat in self._hash(b"blocks"):
            kept: list[bytes] = []
            for number, text in zip(flat[0::2], flat[1::2], strict=True):
                head, *lines = text.split(b"\n")
                left, over, last = self._lives.entries(lines, header.following)
                newest = max(newest, last)
                gone.update(over)
                if not left:
                    empty.add(number)
                    continue
                kept += (number, b"\n".join((head, *left)))
                if over:
                    oldest[number] = min(int(each.split(b"\t", 2)[1]) for each in left)
            if kept:
                yield _hash(b"blocks", kept)
        for members in self._sorted(b"order"):
            if some := [each for each in members if each[0] not in empty]:
                yield _sorted(b"order", some)
        stamps_ms: int | None = None
        for members in self._sorted(b"stamps"):
            if some := [(m, float(oldest.get(m, ms))) for m, ms in members if m not in empty]:
                first = int(min(ms for _, ms in some))
                stamps_ms = first if stamps_ms is None else min(stamps_ms, first)
                yield _sorted(b"stamps", some)
        yield from self._index(gone)
        if len(gone) < size:
            now = shown_after(header, gone, newest).format() if gone else header.format()
            # A score is a bound: where some blocks have no stamp, the old one stays.
            self.left = now, oldest_ms if oldest_ms is None or stamps_ms is None else stamps_ms

    def _index(self, gone: set[int]) -> Iterator[Record]:
        """Buckets of the index, without the lines of entries that are gone."""
        for flat in self._hash(b"index"):
            kept: list[bytes] = []
            for bucket, text in zip(flat[0::2], flat[1::2], strict=True):
                if lines := [each for each in parse_bucket(text) if each[1] not in gone]:
                    kept += (bucket, write_bucket(lines))
            if kept:
                yield _hash(b"index", kept)

    def _hash(self, piece: bytes) -> Iterator[list[bytes]]:
        name = self._key + b":" + piece
        names = block_hashes(name, self._segments) if piece == b"blocks" else (name,)
        for each in names:
            yield from self._pages.fields(each)

    def _sorted(self, piece: bytes) -> Iterator[list[tuple[bytes, float]]]:
        return self._pages.scores(self._key + b":" + piece)


def _hash(piece: bytes, flat: Sequence[bytes]) -> Record:
    return {"piece": piece.decode(), "hash": [text_of(each) for each in flat]}


def _sorted(piece: bytes, members: Iterable[tuple[bytes, float]]) -> Record:
    return {"piece": piece.decode(), "sorted": scored(members)}


def scored(members: Iterable[tuple[bytes, float]]) -> list[Any]:
    """Members and scores, alternating; times and numbers as integers."""
    flat: list[Any] = []
    for member, score in members:
        flat += (text_of(member), int(score) if score.is_integer() else score)
    return flat
