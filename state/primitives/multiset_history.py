"""What an epoch knows of one history, and what it does to it.

The stored form is that of `state.multiset`. Packed, all entries are in the value of the key.
Spread, sixteen sequence numbers share a block, an index tells which entries match, and stamps tell
which blocks hold the oldest (drawn in `state.multiset.spread`). Here a history is in blocks, in
either layout, and digests of match columns say which entries match.

What is hard is that a spread history is known in part only: some blocks, some buckets of the index
and some of the order of blocks, each as it is now and, where the epoch touched it, as it was. What
an operation needs beside, it asks for by a `Look`, once an epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from state.backends.interface import HashGet
from state.errors import StateCorrupt
from state.multiset.index import bucket_of, buckets_for, buckets_of_each, origin_of, parse_bucket
from state.multiset.spread import BLOCK_ENTRIES, SpreadNames
from state.multiset.text import NEWEST
from state.primitives.cells import UNKNOWN, Cell
from state.primitives.multiset_look import Look, WholeHistory
from state.primitives.multiset_order import BlockOrder
from state.primitives.multiset_text import read_block, read_header, read_lines, read_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from state.backends.interface import Read
    from state.primitives.multisets import MultisetHandle

Stored: TypeAlias = tuple[int, bytes]
"""Stamp and canonical row of an entry; an entry of a history always has a stamp."""
Block: TypeAlias = dict[int, Stored]
"""Entries by sequence number, ascending."""


class KnownHistory(Cell):
    """The history of one key: what is known of it, and what operations do to it."""

    __slots__ = (
        "_blocks_before",
        "_buckets_before",
        "_digests",
        "_digests_before",
        "_floor_ms",
        "_handle",
        "_has_all_digests",
        "_is_changed",
        "_is_index_known",
        "_is_index_sure",
        "_is_wiped",
        "_known_buckets",
        "_lacks_stamps",
        "_oldest",
        "_saw_all_stamps",
        "_shown",
        "_stored",
        "_swept_ms",
        "_was_spread",
        "blocks",
        "buckets",
        "following",
        "names",
        "newest_stored",
        "order",
        "segments",
        "size",
    )

    def __init__(self, handle: MultisetHandle[Any], key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self._handle = handle
        self.names = SpreadNames.of(key, handle.state)
        self.size = 0
        """How many entries there are now, known or not."""
        self.following = 1
        """The next sequence number."""
        self.blocks: dict[int, Block] = {}
        """Blocks that are known, as they are now; an empty one is not stored any more, or never."""
        self.newest_stored = -1
        """The highest number that a stored block can have."""
        self.order = BlockOrder(-1)
        self.segments: tuple[int, ...] = ()
        """The first block of each segment of what is stored (`state.multiset.segments`)."""
        self.buckets = 0
        """How many buckets the index has now."""
        self._buckets_before = 0
        """How many are stored."""
        self._known_buckets: set[int] = set()
        """Stored buckets that were read."""
        self._digests: dict[bytes, list[int]] = {}
        """Digests that are known, each with the entries that it stands for now, oldest first."""
        self._has_all_digests = False
        """Whether all of them are; they can be, once all blocks are."""
        self._blocks_before: dict[int, Block] = {}
        """What touched blocks held when the epoch began."""
        self._digests_before: dict[bytes, list[int]] = {}
        """What touched digests stood for then."""
        self._stored: bytes | None = None
        """The stored value: a packed history or a header."""
        self._shown = NEWEST
        """The materializer's, and kept for it: see `state.multiset.text`."""
        self._was_spread = False
        self._is_wiped = False
        """Whether everything that was stored goes."""
        self._is_changed = False
        self._is_index_known = False
        """Whether `indexed_ms` was read."""
        self._is_index_sure = True
        """Whether, if not, it is the oldest stamp of what was stored."""
        self._floor_ms: int | None = None
        """At most the oldest stamp of the blocks that are known."""
        self._oldest: list[tuple[int, int]] | None = None
        """Blocks with the oldest stored stamps, oldest first; None if nobody asked."""
        self._saw_all_stamps = False
        self._lacks_stamps = False
        """Whether blocks were found without a stamp, from a time when there was no TTL."""
        self._swept_ms: int | None = None
        """Blocks with stamps up to this time are known."""

    # Loading.

    @property
    def reads(self) -> Sequence[Read]:
        """The packed history or the header."""
        return (HashGet(self.key_group, self._handle.state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load the packed history or the header."""
        if self.is_loaded:
            return
        ((text,),) = replies
        if text is not None:
            self._load(text)
        self._stored = text
        self.is_loaded = True

    def _load(self, text: bytes) -> None:
        first, *lines = text.split(b"\n")
        header = read_header(first)
        self.following, self._shown = header.following, header.shown
        if header.is_spread != (not lines):
            raise StateCorrupt(
                "a packed history is empty, or lines follow the header of a spread one"
            )
        if header.size is not None:
            self._was_spread, self._is_index_sure = True, False
            self.size = header.size
            self.buckets = self._buckets_before = header.buckets
            self.segments = header.segments
            self.newest_stored = (header.following - 1) // BLOCK_ENTRIES
            self.order = BlockOrder(self.newest_stored)
            return
        entries = read_lines(lines, header.following)
        for sequence, entry in entries.items():
            self.blocks.setdefault(sequence // BLOCK_ENTRIES, {})[sequence] = entry
        self.size = len(entries)
        for number in self.blocks:
            self.order.fill(number)
        self._floor_ms = min(ms for ms, _ in entries.values())
        if self._is_stamped:
            self.indexed_ms = self._floor_ms
        # LEGACY has its own time there, and without a TTL there was none.
        self._is_index_sure = header.written_ms is None and not self.may_lack_stamps

    @property
    def is_complete(self) -> bool:
        """Whether all entries are known."""
        return self.order.is_whole

    @property
    def _is_stamped(self) -> bool:
        """Whether there may be a TTL: then the expiry index is kept, and stamps are looked at."""
        return self._handle.descriptor.may_have_stamps

    @property
    def may_lack_stamps(self) -> bool:
        """Whether there may be blocks without a stamp, from a time when there was no TTL."""
        return self._is_stamped and self._handle.descriptor.enabled_ms is not None

    def learn_block(self, number: int, text: bytes | None) -> None:
        """Take what is stored of a block, unless it is known.

        Raises:
            StateCorrupt: It is none of ours, or another block.
        """
        if number in self.blocks:
            return
        block = {} if text is None else read_block(number, text, self.following)
        self.blocks[number] = block
        if not block:
            self.order.empty(number)
            return
        if next(iter(block)) // BLOCK_ENTRIES != number or max(block) // BLOCK_ENTRIES != number:
            raise StateCorrupt(f"block {number} of a history holds entries of another block")
        self.order.fill(number)
        self._lower_floor(ms for ms, _ in block.values())

    def learn_whole(self, blocks: dict[bytes, bytes]) -> None:
        """Take all blocks, but for those that are known.

        Raises:
            StateCorrupt: There are more or fewer entries than the header says.
        """
        for field, text in blocks.items():
            self.learn_block(read_number(field, "the name of a block"), text)
        self.order.is_whole = True
        found = sum(map(len, self.blocks.values()))
        if found != self.size:
            raise StateCorrupt(f"a history has {found} entries, its header says {self.size}")

    def learn_bucket(self, number: int, text: bytes | None) -> None:
        """Take a stored bucket of the index, unless it is known.

        Raises:
            StateCorrupt: It is none of ours, or has a line of another bucket.
        """
        if number in self._known_buckets or self._has_all_digests:
            return
        self._known_buckets.add(number)
        lines = parse_bucket(text)
        found = buckets_of_each([digest for digest, _ in lines], self._buckets_before)
        if found.count(number) != len(lines):
            raise StateCorrupt("a line of a history's index is in another's bucket")
        for digest, sequence in lines:
            self._digests.setdefault(digest, []).append(sequence)

    def learn_stamps(
        self, oldest: Sequence[tuple[bytes, float]], *, is_all: bool, are_lacking: bool
    ) -> None:
        """Take the oldest stored stamps of blocks."""
        self._oldest = [(int(number), int(ms)) for number, ms in oldest]
        self._saw_all_stamps = is_all
        self._lacks_stamps = self._lacks_stamps or are_lacking

    def learn_index(self, indexed_ms: int | None) -> None:
        """Take what the expiry index says."""
        if not self._is_changed:
            self.indexed_ms = indexed_ms
            self._is_index_known = True

    def unknown_bucket(self, digest: bytes) -> int | None:
        """The bucket that tells which entries a digest stands for; None if that is known."""
        if self.is_complete:
            return None
        number = bucket_of(digest, self._buckets_before)
        return None if number in self._known_buckets else number

    def unknown_origin(self) -> int | None:
        """The bucket to know before an entry is appended, as it is split; None if none is."""
        if self.is_complete or buckets_for(self.size + 1) <= self.buckets:
            return None
        number = origin_of(self.buckets, self._buckets_before)
        return None if number in self._known_buckets else number

    @property
    def wants_stamps(self) -> bool:
        """Whether the oldest stamps are to be read with the next look."""
        return self._is_stamped and self._oldest is None and not self.is_complete

    async def learn(self, look: Look) -> None:
        """Read what a look still needs, in one round trip; nothing if all is known."""
        if look.reads:
            await self._handle.answered(look)

    async def complete(self) -> None:
        """Know all entries; one round trip if they are not known."""
        if not self.is_complete:
            await self._handle.answered(WholeHistory(self))

    # Finding.

    def numbers_of(self, digest: bytes) -> list[int]:
        """The entries that a digest stands for, oldest first; its bucket is known."""
        if self.is_complete and not self._has_all_digests:
            self._index_all()
        return self._digests.setdefault(digest, [])

    async def newest(self) -> int | None:
        """The sequence number of the newest entry; None if there is none."""
        return await self.before(self.following)

    async def before(self, sequence: int) -> int | None:
        """The highest sequence number below this one that has an entry."""
        sequence = min(sequence, self.following)
        number = (sequence - 1) // BLOCK_ENTRIES
        while number >= 0:
            below = self.order.below(number)
            if below is None:
                return None
            look = Look(self)
            if isinstance(below, int):
                look.block(below)
                await self.learn(look)
                found = [each for each in self.blocks[below] if each < sequence]
                if found:
                    return found[-1]
                number = below - 1
            else:
                look.below(number)
                await self.learn(look)
        return None

    async def after(self, sequence: int) -> int | None:
        """The lowest sequence number above this one that has an entry."""
        number = (max(sequence, 0) + 1) // BLOCK_ENTRIES
        while True:
            above = self.order.above(number)
            if above is None:
                return None
            look = Look(self)
            if isinstance(above, int):
                look.block(above)
                await self.learn(look)
                found = next((each for each in self.blocks[above] if each > sequence), None)
                if found is not None:
                    return found
                number = above + 1
            else:
                look.above(number)
                await self.learn(look)

    async def is_newest(self, sequence: int) -> bool:
        """Whether an entry that is there is the newest one; its block is known then."""
        number = sequence // BLOCK_ENTRIES
        while True:
            look = Look(self)
            look.block(number)
            look.below(self.following // BLOCK_ENTRIES)
            if not look.reads:
                break
            await self.learn(look)
        is_last_block = self.order.below(self.following // BLOCK_ENTRIES) == number
        return is_last_block and sequence == max(self.blocks[number])

    def entry(self, sequence: int) -> Stored:
        """An entry whose block is known.

        Raises:
            StateCorrupt: The index names it and it is not there.
        """
        entry = self.blocks[sequence // BLOCK_ENTRIES].get(sequence)
        if entry is None:
            raise StateCorrupt(f"the index of a history names entry {sequence}, which is not there")
        return entry

    def __iter__(self) -> Iterator[tuple[int, Stored]]:
        """All known entries, oldest first."""
        for number in sorted(self.blocks):
            yield from self.blocks[number].items()

    # Changing.

    def append(self, digest: bytes, entry: Stored) -> None:
        """Add an entry behind all others; its bucket and block are known, and what is split."""
        sequence = self.following
        self.following += 1
        self.size += 1
        if self._has_all_digests or not self.is_complete or self._stays_spread:
            numbers = self.numbers_of(digest)
            self._touch_digest(digest)
            numbers.append(sequence)
        if self._stays_spread and buckets_for(self.size) > self.buckets:
            self.buckets += 1
        self.put(sequence, entry)

    def put(self, sequence: int, entry: Stored) -> None:
        """Set an entry whose block is known: a new one, or one in its place."""
        number = sequence // BLOCK_ENTRIES
        self._touch_block(number)[sequence] = entry
        self.order.fill(number)
        self._lower_floor((entry[0],))

    def remove(self, sequence: int, digest: bytes) -> None:
        """Remove an entry; its bucket and block are known.

        Raises:
            StateCorrupt: The index lacks it.
        """
        numbers = self.numbers_of(digest)
        self._touch_digest(digest)
        number = sequence // BLOCK_ENTRIES
        self.entry(sequence)
        try:
            numbers.remove(sequence)
        except ValueError:
            raise StateCorrupt(f"the index of a history lacks entry {sequence}") from None
        block = self._touch_block(number)
        del block[sequence]
        self.size -= 1
        if not self.size:
            self.wipe()
        elif not block:
            self.order.empty(number)

    def wipe(self) -> None:
        """Remove all entries, known or not; the next one has number 1 again."""
        self._change()
        self._is_wiped = self._has_all_digests = True
        self.size, self.following, self._shown = 0, 1, NEWEST
        self.blocks, self._blocks_before = {}, {}
        self._digests, self._digests_before = {}, {}
        self.order = BlockOrder(-1)
        self._floor_ms = None

    @property
    def _stays_spread(self) -> bool:
        """Whether stored blocks and buckets go on to be used, if the history is spread."""
        return self._was_spread and not self._is_wiped

    def _index_all(self) -> None:
        """Know all digests, from the rows."""
        self._has_all_digests = True
        self._digests = {}
        for sequence, (_, row) in self:
            self._digests.setdefault(self._handle.digest_of(row), []).append(sequence)

    def _touch_block(self, number: int) -> Block:
        self._change()
        block = self.blocks.setdefault(number, {})
        if self._stays_spread and number not in self._blocks_before:
            self._blocks_before[number] = dict(block)
        return block

    def _touch_digest(self, digest: bytes) -> None:
        if self._stays_spread and digest not in self._digests_before:
            self._digests_before[digest] = list(self._digests[digest])

    def _lower_floor(self, stamps: Iterable[int]) -> None:
        held = () if self._floor_ms is None else (self._floor_ms,)
        self._floor_ms = min((*held, *stamps), default=None)

    def _change(self) -> None:
        """From now on there is something to write, and to the expiry index if it is not sure."""
        self._is_changed = True
        if self._is_stamped and not self._is_index_sure and not self._is_index_known:
            self.indexed_ms = UNKNOWN
