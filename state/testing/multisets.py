"""Multisets for tests: descriptors, and a look at all that is stored of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from state.backends.interface import HashScan, SortedRange
from state.descriptors import JSON, MatchColumns, MultisetDescriptor
from state.multiset.index import bucket_of, buckets_for, parse_bucket
from state.multiset.segments import block_hash, block_hashes
from state.multiset.spread import BLOCK_ENTRIES
from state.multiset.text import is_spread, parse_header, parse_packed
from state.multiset.vectors import bytes_of
from state.ttl import DISABLED

if TYPE_CHECKING:
    from state.backends.interface import Read
    from state.multiset.text import Header
    from state.ttl import TtlConfig

NAME = "rows"
EVER = float("inf")
ON_KEY: MatchColumns[Any, Any] = MatchColumns(name="key", codec=JSON, of=lambda row: row[:1])
"""Rows are [key, value]; the key is compared."""


def multiset(
    ttl: TtlConfig = DISABLED,
    *,
    match: MatchColumns[Any, Any] | None = ON_KEY,
    name: str = NAME,
    is_stamped: bool = False,
) -> MultisetDescriptor[Any]:
    """A multiset of rows that are JSON arrays."""
    return MultisetDescriptor(name=name, codec=JSON, match=match, ttl=ttl, is_stamped=is_stamped)


class Reader(Protocol):
    """What gives committed state."""

    def fetch(self, *reads: Read) -> list[Any]:
        """What these reads give."""


Line = tuple[int, int, bytes]
"""Sequence number, stamp and row of an entry."""


class Committed:
    """What is stored of a multiset in one key group, parsed by the materializer's parser.

    It holds what must be true of any stored history while it reads it.
    """

    def __init__(
        self, stand: Reader, descriptor: MultisetDescriptor[Any], key_group: int = 0
    ) -> None:
        self._stand, self._descriptor, self._group = stand, descriptor, key_group
        state = descriptor.name.encode()
        self.expiry = dict(self._range(state + b":expiry"))
        self.layouts: dict[bytes, str] = {}
        self.histories: dict[bytes, list[Line]] = {}
        self.following: dict[bytes, int] = {}
        self.names: set[bytes] = {state + b":expiry"} if self.expiry else set()
        for key, value in self._scan(state).items():
            self.names.add(state)
            header = parse_header(value)
            self.following[key] = header.following
            if is_spread(value):
                self.layouts[key] = "spread"
                self.histories[key] = self._spread(state + b":" + key, header)
                assert header.size == len(self.histories[key])
            else:
                self.layouts[key] = "packed"
                self.histories[key] = _lines([value])
            numbers = [sequence for sequence, _, _ in self.histories[key]]
            assert numbers, "a history without entries is stored"
            assert numbers == sorted(set(numbers))
            assert numbers[-1] < header.following

    def _blocks(self, name: bytes, header: Header) -> dict[bytes, bytes]:
        """All blocks, each in the hash where it belongs, and in no other."""
        blocks: dict[bytes, bytes] = {}
        for each in block_hashes(name, header.segments):
            for field, text in self._scan(each).items():
                assert block_hash(name, header.segments, int(field)) == each
                blocks[field] = text
                self.names.add(each)
        return blocks

    def _spread(self, prefix: bytes, header: Header) -> list[Line]:
        """The entries of a spread history, whose structures must agree."""
        blocks = self._blocks(prefix + b":blocks", header)
        numbers = sorted(int(each) for each in blocks)
        lines = {number: _lines([blocks[b"%d" % number]]) for number in numbers}
        for number, held in lines.items():
            assert blocks[b"%d" % number].split(b"\n", 1)[0] == b"%d" % number
            assert held
            assert {each[0] // BLOCK_ENTRIES for each in held} == {number}
        assert self._range(prefix + b":order") == [(b"%d" % n, float(n)) for n in numbers]
        entries = [each for number in numbers for each in lines[number]]
        self._check_index(prefix, entries, header.buckets)
        stamps = dict(self._range(prefix + b":stamps"))
        oldest = {b"%d" % n: float(min(ms for _, ms, _ in held)) for n, held in lines.items()}
        assert stamps.items() <= oldest.items()
        if self._descriptor.may_have_stamps and self._descriptor.enabled_ms is None:
            assert stamps == oldest
        self.names |= {prefix + b":order", prefix + b":index"}
        if stamps:
            self.names.add(prefix + b":stamps")
        return entries

    def _check_index(self, prefix: bytes, entries: list[Line], buckets: int) -> None:
        """Each entry is named once, by the digest of its match columns, oldest first.

        There are as many buckets as the entries need, if not more, and each line is in its own.
        """
        by_digest: dict[bytes, list[int]] = {}
        for field, text in self._scan(prefix + b":index").items():
            pairs = parse_bucket(text)
            assert pairs, "a bucket without lines is stored"
            assert pairs == sorted(pairs, key=lambda each: each[1])
            for digest, sequence in pairs:
                assert bucket_of(digest, buckets) == int(field)
                by_digest.setdefault(digest, []).append(sequence)
        assert buckets >= buckets_for(len(entries))
        found = by_digest.values()
        match = self._descriptor.match
        by_match: dict[str, list[int]] = {}
        for sequence, _, text in entries:
            row = self._descriptor.codec.decode(text)
            by_match.setdefault(repr(row if match is None else match.of(row)), []).append(sequence)
        assert sorted(found) == sorted(by_match.values())

    def _scan(self, name: bytes) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = self._stand.fetch(HashScan(self._group, name))[0]
        return found

    def _range(self, name: bytes) -> list[tuple[bytes, float]]:
        found: list[tuple[bytes, float]] = self._stand.fetch(
            SortedRange(self._group, name, -EVER, EVER)
        )[0]
        return found


def _lines(values: list[bytes]) -> list[Line]:
    packed = parse_packed(values)
    rows = bytes_of(packed.rows(packed.sequence.argsort()))
    return list(zip(packed.sequence.tolist(), packed.written_ms.tolist(), rows, strict=True))
