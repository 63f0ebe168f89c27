"""What an epoch knows of one sorted map, and what it does to it.

What is hard is that a spread map is known in part only, that the epoch adds to and clears parts
that it has not seen, and that all of it must read as if it had been stored at once. A cell keeps
the intervals of the order that it knows; whatever lies in one is in `entries` or is not there.
Additions are known wherever they lie. A cleared interval is known from then on, and empty, so what
was not seen before it was cleared need never be read.

The stored form is drawn in `state.primitives.sorted_cell`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from state.errors import StateCorrupt
from state.primitives.intervals import BOTTOM, TOP, Intervals
from state.primitives.known_collection import KnownCollection
from state.primitives.layout import stamps_name
from state.primitives.sorted_requests import Count, Gaps, Probe
from state.primitives.sorted_text import LAST, entry_of_line, entry_of_member, number_text
from state.ttl import STAMP_SIZE, stamped, unstamped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from state.primitives.cells import Element
    from state.primitives.handle import StateHandle
    from state.primitives.intervals import Cut
    from state.primitives.layout import Header
    from state.primitives.sorted_text import Entry

FEW: Final = 8
"""So many elements that are out of order are put into their places one by one: a sort looks at
every element, though an operator may read after each addition. So many parts of an interval are
counted apart."""


LOOK: Final = 8
"""So many elements of one range are read at the cost of a command that reads one (a server
moves some eight times as many by commands of many as by commands of one each)."""
UNASKED_MAX: Final = 65_536
"""So many elements at most are read by one command that were not asked for, so that others who
ask the server need not wait for long."""


class KnownOrder(KnownCollection):
    """The elements of one key: what is known of them, and what operations do to them."""

    __slots__ = (
        "_cleared",
        "_cut_count",
        "_cut_ms",
        "_entries",
        "_first_new",
        "_handle",
        "_is_changed",
        "_known",
        "_next_number",
        "_read_count",
        "_read_until",
        "_removed",
        "_rewritten",
        "_sorted_count",
        "_unstamped",
    )

    def __init__(self, handle: StateHandle[Any], key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self._handle = handle
        self._entries: list[Entry] = []
        """Elements that are known; the first `_sorted_count` of them in order."""
        self._sorted_count = 0
        self._known = Intervals()
        self._next_number = 0
        self._first_new = b""
        """Numbers from here on are of this epoch; below it, elements are stored as spread ones."""
        self._is_changed = False
        self._read_until: Cut | None = None
        """Where the last look at an interval, or at its first elements, ended."""
        self._read_count = 0
        """How many elements it found, or asked for."""
        self._cleared: list[tuple[Cut, Cut]] = []
        """Intervals whose stored elements go."""
        self._removed: list[Entry] = []
        """Stored elements that go one by one."""
        self._rewritten: dict[tuple[bytes, bytes], bytes] = {}
        """What elements were stored as that have another stamp now."""
        self._unstamped: list[bytes] = []
        """Members of the stamps that go with cleared intervals."""
        self._cut_ms: int | None = None
        """All stored stamps up to this one go; the first `_cut_count` of `_unstamped` are these."""
        self._cut_count = 0

    def _is_whole(self) -> bool:
        return self._known.is_all

    def _know_all(self) -> None:
        self._known.add(BOTTOM, TOP)

    def _take_header(self, header: Header) -> None:
        self._next_number = header.next_number
        self._first_new = number_text(header.next_number)

    def _take_lines(self, header: Header, lines: list[bytes]) -> None:
        self._entries = [entry_of_line(line, at) for at, line in enumerate(lines)]
        self._sorted_count = self._next_number = len(lines)
        # A truncated text ends in a truncated element; others are looked at when they are needed.
        if self._entries and self._handle.may_have_stamps:
            unstamped(self._entries[-1][2])

    def _texts(self) -> Collection[bytes]:
        return [text for _, _, text in self._entries]

    @property
    def is_complete(self) -> bool:
        """Whether all elements are known."""
        return self._known.is_all

    def plain_jsons(self, entries: Sequence[Entry]) -> Sequence[bytes] | None:
        """The JSON of known elements, if a read takes them as they are.

        None where a rule of TTL may concern one of them: then each must be looked at.
        """
        handle = self._handle
        if not self._shared:
            return handle.live_jsons([text for _, _, text in entries])
        if not handle.is_plain_head(self._shared):
            return None
        jsons: list[bytes] = []
        for _, _, text in entries:
            json = handle.plain_json(text) if text[:1] == b"@" else text
            if json is None:
                return None
            jsons.append(json)
        return jsons

    def use_own_stamps(self) -> bool:
        """Let each element of a packed map begin with its stamp; whether some did not."""
        if not self._shared:
            return False
        head = self._shared
        self._entries = [
            (key, number, text if text[:1] == b"@" else head + text)
            for key, number, text in self._entries
        ]
        self._shared, self._own_count = b"", 0
        self._start = None
        return True

    @property
    def order(self) -> bytes:
        """The name of the elements' sorted set."""
        return b"%b:%b:order" % (self._handle.state, self.key)

    @property
    def stamps(self) -> bytes:
        """The name of the stamps' sorted set."""
        return stamps_name(self._handle.state, self.key)

    def between(self, low: Cut, high: Cut) -> list[Entry]:
        """The known elements of an interval, in order."""
        entries = self._in_order()
        return entries[bisect_left(entries, low) : bisect_left(entries, high)]

    def first_between(self, low: Cut, high: Cut, count: int | None) -> list[Entry]:
        """The first known elements of an interval, in order; None: all of them."""
        entries = self._in_order()
        start = bisect_left(entries, low)
        end = len(entries) if high == TOP else bisect_left(entries, high)
        return entries[start : end if count is None else min(end, start + count)]

    def count_between(self, low: Cut, high: Cut) -> int:
        """How many known elements an interval has."""
        entries = self._in_order()
        return max(bisect_left(entries, high) - bisect_left(entries, low), 0)

    def append(self, ordered_key: bytes, json: bytes) -> None:
        """Add an element of now behind those of its user key, whether these are known or not."""
        handle = self._handle
        stamp_ms = handle.stamp_ms
        if not handle.has_usual_stamps:
            self.use_own_stamps()
            stamp_ms = handle.written(json, None)[0]
            json = stamped(json, stamp_ms)
        elif self._shared != handle.stamp_text:
            if len(self._shared) > STAMP_SIZE or self._shared > handle.stamp_text:
                # What is shared must be the oldest stamp.
                self.use_own_stamps()
            json = handle.stamp_text + json
            if self._shared:
                self._own_count += 1
                self._start = -1
        self._entries.append((ordered_key, number_text(self._next_number), json))
        self._next_number += 1
        if not handle.writes_plain:
            self._start = -1
        self.size += 1
        self._is_changed = True
        self._lower_floor(stamp_ms)

    def rewrite(self, entry: Entry, element: Element) -> None:
        """Give a known element another stamp."""
        self.use_own_stamps()
        place = entry[:2]
        entries = self._in_order()
        entries[bisect_left(entries, place)] = (*place, stamped(element[1], element[0]))
        if entry[1] < self._first_new:
            self._rewritten.setdefault(place, entry[2])
        self._is_changed = True
        self._start = -1
        # It may be the first stamp of a state that had no TTL.
        self._lower_floor(element[0])

    def _lower_floor(self, stamp_ms: int | None) -> None:
        if stamp_ms is not None and (self._floor_ms is None or stamp_ms < self._floor_ms):
            self._floor_ms = stamp_ms

    def remove(self, entries: Sequence[Entry]) -> None:
        """Remove some known elements."""
        if not entries:
            return
        if len(entries) == 1:
            del self._in_order()[bisect_left(self._entries, entries[0])]
        else:
            gone = set(entries)
            self._entries = [each for each in self._in_order() if each not in gone]
        self._sorted_count = len(self._entries)
        self._forget_own(entries)
        self._removed += [self._as_stored(each) for each in entries if each[1] < self._first_new]
        self._shrink(len(entries))

    def clear_between(self, low: Cut, high: Cut, unseen: int = 0) -> None:
        """Remove the elements of an interval.

        Args:
            low: Where it begins.
            high: Where it ends.
            unseen: How many stored elements lie in it that are not known.
        """
        entries = self._in_order()
        start, end = bisect_left(entries, low), bisect_left(entries, high)
        gone = entries[start:end]
        del entries[start:end]
        self._forget_own(gone)
        self._sorted_count = len(entries)
        self._known.add(low, high)
        stored = [each for each in gone if each[1] < self._first_new]
        if stored or unseen:
            self._cleared.append((low, high))
        if self._handle.may_have_stamps:
            stored = [self._as_stored(each) for each in stored]
            self._unstamped += [b"\t".join(each[:2]) for each in stored if each[2][:1] == b"@"]
        if gone or unseen:
            self._shrink(len(gone) + unseen)

    def wipe(self) -> None:
        """Remove all elements, known or not."""
        self._entries = []
        self._is_wiped = self._is_changed = True
        self.size = self._next_number = self._sorted_count = 0
        self._first_new = b""
        self._known.add(BOTTOM, TOP)
        self._cleared, self._removed, self._rewritten, self._unstamped = [], [], {}, []
        self._cut_ms, self._cut_count = None, 0
        self._floor_ms = None
        self._share_now()
        self._start = self._judged()

    def empty(self) -> None:
        """Remove all elements."""
        self.wipe()

    def judge_again(self) -> None:
        """Whether elements live must be looked at again."""
        self._start = None

    def learn(self, low: Cut, high: Cut, members: Iterable[bytes]) -> None:
        """Take what is stored in an interval, but for the parts of it that are known.

        Raises:
            StateCorrupt: A member is none of ours, or there are more or fewer than the header says.
        """
        found = [entry_of_member(each) for each in members]
        for gap_low, gap_high in list(self._known.gaps(low, high)):
            self._entries += found[bisect_left(found, gap_low) : bisect_left(found, gap_high)]
        self._known.add(low, high)
        self._start = None
        if len(self._entries) > self.size or (self.is_complete and len(self._entries) < self.size):
            raise _wrong_size(len(self._entries), self.size)

    async def know(self, low: Cut, high: Cut) -> None:
        """See that all elements of an interval are known; one command for each gap in it.

        Where it goes on at the end of the one before, one more reads on behind it, twice as far
        each time: so whoever reads one interval after the other looks seldom.
        """
        if self._known.is_all:
            return
        gaps = list(self._known.gaps(low, high))
        if not gaps:
            return
        request = Gaps(self, gaps, self._ahead_of(gaps[0][0]))
        await self._handle.answered(request)
        self._read_until, self._read_count = request.known_until, request.count

    async def know_each(self, intervals: Iterable[tuple[Cut, Cut]]) -> None:
        """The same of several intervals that have nothing in common, in one request."""
        if self._known.is_all:
            return
        gaps = [gap for each in intervals for gap in self._known.gaps(*each)]
        await self.know_for(len(gaps))
        if gaps and not self._known.is_all:
            await self._handle.answered(Gaps(self, gaps))

    async def know_for(self, looks: int) -> None:
        """See that all elements are known if reading them costs less than looks at so many."""
        if self.size <= min(LOOK * looks, UNASKED_MAX):
            await self.know(BOTTOM, TOP)

    async def count_unseen(self, low: Cut, high: Cut) -> int:
        """How many elements of an interval are not known; one command for each gap in it."""
        gaps = list(self._known.gaps(low, high))
        if not gaps:
            return 0
        request = Count(self, gaps)
        await self._handle.answered(request)
        return request.count

    def is_scattered(self, low: Cut, high: Cut) -> bool:
        """Whether what is not known of an interval lies in more than a few parts."""
        gaps = self._known.gaps(low, high)
        return next(islice(gaps, FEW, None), None) is not None

    async def nearest(self, low: Cut, high: Cut, *, reverse: bool = False) -> Entry | None:
        """The first element of an interval, or the last one.

        Cost: where that is not known, one command; more only while it finds removed elements.
        """
        while True:
            entries = self._in_order()
            start, end = bisect_left(entries, low), bisect_left(entries, high)
            found = entries[end - 1 if reverse else start] if start < end else None
            known = self._known
            gap = known.last_gap(low, high) if reverse else next(known.gaps(low, high), None)
            if gap is None or (found and (found >= gap[1] if reverse else found < gap[0])):
                return found
            await self._handle.answered(Probe(self, *gap, reverse=reverse))

    async def know_first(self, low: Cut, high: Cut, count: int) -> Cut:
        """See that the first elements of an interval are known.

        Returns:
            Where they end: behind as many as were asked for, or where the interval ends.

        Cost: where they are not known, one command; more only where the epoch removed some. Each
        look that goes on where the last one ended asks for twice as many: so whoever takes away one
        first element after the other looks seldom, and reads at most twice what goes.
        """
        while count > 0:
            entries = self._in_order()
            start = bisect_left(entries, low)
            gap = next(self._known.gaps(low, high), None)
            end = bisect_left(entries, gap[0] if gap else high)
            if end - start >= count:
                return (*entries[start + count - 1][:2], LAST)
            if gap is None:
                return high
            missing = count - (end - start)
            missing = max(missing, self._ahead_of(gap[0]))
            # Beyond what is known behind the gap, too: between neighbours there is nothing to find.
            request = Probe(self, gap[0], high, reverse=False, count=missing)
            await self._handle.answered(request)
            self._read_until, self._read_count = request.known_until, request.count
        return low

    def _ahead_of(self, low: Cut) -> int:
        """How many elements to read from here on if that goes on where the last look ended; else 0.

        It does if all is known in between.
        """
        end = self._read_until
        if end is None or end > low or not self._known.fills(end, low):
            return 0
        return min(2 * self._read_count, UNASKED_MAX)

    async def settle(self) -> None:
        """After a change: see to it that a map that fell to `low` can be packed."""
        if self._is_changed and self.size <= self._handle.thresholds.low:
            await self.know(BOTTOM, TOP)

    @property
    def _is_spread_now(self) -> bool:
        return self._was_spread and not self._is_wiped

    def _in_order(self) -> list[Entry]:
        entries = self._entries
        out_of_order = len(entries) - self._sorted_count
        if out_of_order > FEW:
            entries.sort()
        elif out_of_order:
            added = entries[-out_of_order:]
            del entries[-out_of_order:]
            for each in added:
                insort(entries, each)
        self._sorted_count = len(entries)
        return entries

    def _forget_own(self, gone: Sequence[Entry]) -> None:
        if self._own_count:
            self._own_count -= sum(each[2][:1] == b"@" for each in gone)

    def _as_stored(self, entry: Entry) -> Entry:
        """A stored element as it is stored; it is no longer one to be rewritten."""
        place = entry[:2]
        return *place, self._rewritten.pop(place, entry[2])

    def _shrink(self, count: int) -> None:
        self._is_changed = True
        self.size -= count
        if self.size < 0:
            raise _wrong_size(count, self.size + count)
        if not self.size:
            self.wipe()


def _wrong_size(found: int, said: int) -> StateCorrupt:
    return StateCorrupt(f"a spread sorted map has {found} elements where its header says {said}")
