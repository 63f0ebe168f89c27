r"""One key of sorted map state: what expires of its elements, and what is written of them.

    packed    hash <state>                       key -> header, then lines: ordered key TAB element
    spread    hash <state>                       key -> header
              sorted set <state>:<key>:order     ordered key TAB number TAB element, all of score 0
              sorted set <state>:<key>:stamps    ordered key TAB number, scored by the element's
                                                 stamp; only elements that have one

(`state.primitives.layout` draws headers, `state.ttl` elements.) Sorted sets order members of one
score by their bytes, so a range of user keys with all their values is one ZRANGEBYLEX, and clearing
one is one ZREMRANGEBYLEX. Numbers grow with each addition and have a fixed width: values of one
user key stand in the order they were added in. Lines of a packed map stand in that order as they
are and carry no numbers.

`state.primitives.sorted_known` has what an epoch knows of a map. Here is what expires of it, and
what is written: the difference between what was and what is, or all of it where the layout changes.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING

from state.primitives.intervals import BOTTOM, TOP
from state.primitives.layout import (
    packed_text,
    read_collection,
    shared,
    shared_text,
    spread_text,
)
from state.primitives.sorted_known import KnownOrder
from state.primitives.sorted_requests import Expired, Runs
from state.primitives.sorted_text import LAST, bounds_of, entry_of_line
from state.ttl import oldest_stamp, stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.primitives.cells import MaybeKnown
    from state.primitives.intervals import Cut
    from state.primitives.write_batch import WriteBatch


class SortedCell(KnownOrder):
    """The elements of one key."""

    __slots__ = ()

    @property
    def is_changed(self) -> bool:
        """Whether something must be stored."""
        return self._is_changed

    def pack(self, text: bytes) -> None:
        """Hold what another packed text holds, in place of the one that was loaded."""
        self.wipe()
        self._load(text)

    def oldest_ms(self) -> int | None:
        """The oldest stamp of a packed map, a bound below it of a spread one."""
        if not self._is_changed and self._was_spread:
            return self.indexed_ms if isinstance(self.indexed_ms, int) else None
        return self._floor_ms if self._is_spread_now else self._oldest_known()

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        handle, stored = self._handle, self._stored
        if not self._is_changed or not handle.may_have_stamps:
            return None, None
        if stored is not None and self.indexed_ms is None and not self._was_spread:
            _, lines = read_collection(stored)
            texts = [entry_of_line(line, 0)[2] for line in lines]
            return self.oldest_ms(), oldest_stamp(texts)
        return self.oldest_ms(), self.indexed_ms

    def write(self, batch: WriteBatch) -> None:
        """What changed, in the layout that the size asks for now."""
        if not self._is_changed:
            return
        key_group, state = self.key_group, self._handle.state
        spread = self._spreads()
        if self._was_spread and not (spread and self._is_spread_now):
            batch.drop(key_group, self.order)
            if self._handle.may_have_stamps:
                batch.drop(key_group, self.stamps)
        if not self.size:
            if self._stored is not None:
                batch.delete(key_group, state, self.key)
            return
        if spread:
            self.use_own_stamps()
            self._write_removed(batch)
            self._write_added(batch)
            text = spread_text(self.size, self._next_number, self.oldest_ms())
        else:
            text = self._packed_text()
        if text != self._stored:
            batch.put(key_group, state, self.key, text)

    async def clean(self, elements_max: int) -> int:
        """Remove expired elements; of a spread map without looking at the others."""
        handle, before = self._handle, self.size
        if not self.is_loaded:
            await handle.answered(self)
            before = self.size
        self.use_own_stamps()
        if not self.size or not handle.rules.is_enabled:
            return 0
        if not self.is_complete:
            await self._clean_unseen(elements_max)
        if self._has_unstamped and handle.rules.is_expired(None, handle.session.clock):
            await self.know(BOTTOM, TOP)
        if self.is_complete:
            expired = [e for e in self._in_order() if handle.has_expired(e[2])]
            self.remove(expired[:elements_max])
            self._set_floor(self._oldest_known())
        await self.settle()
        return before - self.size

    def expired_unseen(
        self, oldest: Sequence[tuple[bytes, float]], stamped_count: int, elements_max: int
    ) -> list[tuple[Cut, Cut]]:
        """Remove expired elements of a spread map that are known, and tell where the others are.

        Args:
            oldest: The oldest stored stamps, lowest first: all, or more than `elements_max` of
                elements that were not touched.
            stamped_count: How many stored elements have a stamp.
            elements_max: Remove and tell at most so many.
        """
        handle, floor, known = self._handle, None, self._known
        newest_ms = handle.expired_until_ms
        self._has_unstamped = stamped_count < self._stored_size
        knows_some = not known.is_empty
        unseen: list[tuple[Cut, Cut]] = []
        if not (knows_some or self._entries or self.touched_count):
            return self._oldest_unseen(oldest, elements_max)
        for member, score in oldest:
            low = tuple(member.split(b"\t"))
            high = (*low, LAST)
            if knows_some and known.fills(low, high):
                continue
            if len(unseen) == elements_max or score > newest_ms:
                floor = int(score)
                break
            unseen.append((low, high))
            self._unstamped.append(member)
        expired = [e for e in self._in_order() if handle.has_expired(e[2])]
        self.remove(expired[: elements_max - len(unseen)])
        rest = self._oldest_known()
        self._set_floor(min((each for each in (floor, rest) if each is not None), default=None))
        return sorted(unseen)

    def _oldest_unseen(
        self, oldest: Sequence[tuple[bytes, float]], elements_max: int
    ) -> list[tuple[Cut, Cut]]:
        """The same where nothing is known of any: these are all that clean-up may remove.

        Their stamps go by one cut through the scores, unless the next element has the last one's.
        """
        newest_ms = self._handle.expired_until_ms
        count = min(bisect_right(oldest, newest_ms, key=itemgetter(1)), elements_max)
        floor = int(oldest[count][1]) if count < len(oldest) else None
        # A tab ends the key in a member: they are in the order of what they name.
        members = sorted(member for member, _ in oldest[:count])
        self._unstamped += members
        if members and oldest[count - 1][1] != floor:
            self._cut_ms, self._cut_count = int(oldest[count - 1][1]), count
        self._set_floor(floor)
        lows = [tuple(member.split(b"\t")) for member in members]
        return [(low, (*low, LAST)) for low in lows]

    @property
    def touched_count(self) -> int:
        """How many stored elements the epoch knows, or knows to be gone."""
        known = sum(each[1] < self._first_new for each in self._entries)
        return known + len(self._removed) + len(self._unstamped)

    @property
    def _stored_size(self) -> int:
        return 0 if self._stored is None else read_collection(self._stored)[0].size

    def _spreads(self) -> bool:
        thresholds = self._handle.thresholds
        if self._is_spread_now:
            return self.size > thresholds.low or not self.is_complete
        return self.size >= thresholds.high

    def _oldest_known(self) -> int | None:
        if not self._handle.may_have_stamps:
            return None
        if self.has_shared:
            return self._shared_ms
        return oldest_stamp([text for _, _, text in self._entries])

    def _packed_text(self) -> bytes:
        """All elements in one text."""
        entries, own_count, oldest_ms = self._in_order(), self._own_count, self._shared_ms
        if not self._shared or own_count == self.size:
            texts = [text for _, _, text in entries]
            found = shared(texts) if self._handle.may_have_stamps else None
            if found is None:
                return packed_text(0, [b"%b\t%b" % (key, text) for key, _, text in entries])
            oldest_ms, own_count, without = found
            keyed = zip(entries, without, strict=True)
            lines = [b"%b\t%b" % (each[0], text) for each, text in keyed]
        else:
            lines = [b"%b\t%b" % (key, text) for key, _, text in entries]
        return shared_text(self.size, 0, oldest_ms, own_count, lines)

    def _set_floor(self, floor_ms: int | None) -> None:
        if self._is_spread_now and floor_ms != self._floor_ms:
            self._floor_ms = floor_ms
            self._is_changed = True

    async def _clean_unseen(self, elements_max: int) -> None:
        """Remove expired elements by their stamps, in as few intervals as they fill."""
        handle = self._handle
        expired = Expired(self, elements_max)
        await handle.answered(expired)
        if len(expired.unseen) == self.size:
            self.wipe()
        elif expired.unseen:
            runs = Runs(self, expired.unseen)
            await handle.answered(runs)
            self._known.add_all(runs.intervals)
            self._cleared += runs.intervals
            self._shrink(len(expired.unseen))

    def _write_removed(self, batch: WriteBatch) -> None:
        key_group, order, stamps = self.key_group, self.order, self.stamps
        for low, high in self._cleared:
            minimum, maximum = bounds_of(low, high)
            batch.unscore_between(key_group, order, minimum, maximum)
        for entry in self._removed:
            batch.unscore(key_group, order, b"\t".join(entry))
            if entry[2][:1] == b"@":
                batch.unscore(key_group, stamps, b"\t".join(entry[:2]))
        if self._cut_ms is None:
            batch.unscore_all(key_group, stamps, self._unstamped)
        else:
            batch.unscore_until(key_group, stamps, self._cut_ms)
            batch.unscore_all(key_group, stamps, self._unstamped[self._cut_count :])
        for place, text in self._rewritten.items():
            batch.unscore(key_group, order, b"\t".join((*place, text)))

    def _write_added(self, batch: WriteBatch) -> None:
        first_new, rewritten = self._first_new, self._rewritten
        added = [each for each in self._in_order() if each[1] >= first_new]
        if rewritten:
            added += [each for each in self._entries if each[:2] in rewritten]
        members = [part for each in added for part in (0.0, b"\t".join(each))]
        batch.score_all(self.key_group, self.order, members)
        if not self._handle.may_have_stamps:
            return
        scores: list[float | bytes] = []
        unscored: list[bytes] = []
        for key, number, text in added:
            stamp_ms = stamp_of(text)
            if stamp_ms is not None:
                scores += (stamp_ms, b"%b\t%b" % (key, number))
            elif rewritten.get((key, number), text)[:1] == b"@":
                unscored.append(b"%b\t%b" % (key, number))
        batch.unscore_all(self.key_group, self.stamps, unscored)
        batch.score_all(self.key_group, self.stamps, scores)
