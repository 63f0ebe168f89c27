"""One key of list or map state: what expires of its elements, and what is written of them.

`state.primitives.collection_known` has what an epoch knows of a collection. Here is the rest: a
bound for the oldest stamp of the elements that it has not seen, kept truthful, and all writes, in
one pass at the end of the epoch.

The stored form is drawn in `state.primitives.layout`.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from state.primitives.collection_known import KnownElements
from state.primitives.collection_requests import Expired, WholeCollection
from state.primitives.layout import (
    packed_text,
    read_collection,
    shared,
    shared_text,
    spread_text,
)
from state.ttl import oldest_stamp, stamp_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.primitives.cells import MaybeKnown
    from state.primitives.write_batch import WriteBatch

_STAMPED: Final = b"@0 \n"
"""Stands for an element that was not read, of which only is known that it has a stamp."""


class CollectionCell(KnownElements):
    """The elements of one key, by their fields: sequence numbers or user keys."""

    __slots__ = ()

    def oldest_ms(self) -> int | None:
        """The oldest stamp, or a bound below it where not all stamps are known."""
        if not self._handle.may_have_stamps:
            return None
        if not self.is_changed and self._was_spread:
            return self.indexed_ms if isinstance(self.indexed_ms, int) else None
        if self.has_shared:
            return self._shared_ms
        known = oldest_stamp(
            self.elements.values()
            if self.is_complete
            else [self.elements[each] for each in self._before if each in self.elements]
        )
        floor_ms = None if self._lost_all_stamps else self._floor_ms
        if known is None or floor_ms is None:
            return floor_ms if known is None else known
        return min(known, floor_ms)

    @property
    def wants_stamp_count(self) -> bool:
        """Whether stamps may go from a spread collection one by one, as nothing expires by them."""
        return self._floor_ms is not None and not self._handle.rules.is_enabled

    @property
    def _lost_all_stamps(self) -> bool:
        """Whether the epoch has removed or overwritten each stored element that had a stamp."""
        if self.stamp_count is None:
            return False
        held = [field for field, old in self._before.items() if old is not None and old[:1] == b"@"]
        return sum(self.elements.get(each, b"")[:1] != b"@" for each in held) == self.stamp_count

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        handle, stored = self._handle, self._stored
        if not self.is_changed or not handle.may_have_stamps:
            return None, None
        if stored is not None and self.indexed_ms is None and not self._was_spread:
            _, lines = read_collection(stored)
            return self.oldest_ms(), oldest_stamp(handle.parse(0, lines).values())
        return self.oldest_ms(), self.indexed_ms

    def write(self, batch: WriteBatch) -> None:
        """What changed, in the layout that the size asks for now."""
        if not self.is_changed:
            return
        key_group, state = self.key_group, self._handle.state
        is_spread_now = self._was_spread and not self._is_wiped
        spread = self._spreads(is_spread_now)
        if self._was_spread and not (spread and is_spread_now):
            self._drop(batch)
        if not self.size:
            if self._stored is not None:
                batch.delete(key_group, state, self.key)
            return
        if spread:
            self.use_own_stamps()
            self._write_rows(batch, self._before if is_spread_now else dict.fromkeys(self.elements))
            text = spread_text(self.size, self.next_number, self.oldest_ms())
        else:
            text = self._packed_text()
        if text != self._stored:
            batch.put(key_group, state, self.key, text)

    async def clean(self, elements_max: int) -> int:
        """Remove expired elements; of a spread collection without looking at the others."""
        handle = self._handle
        if not self.is_loaded:
            await handle.answered(self)
        if not self.size or not handle.rules.is_enabled:
            return 0
        before = self.size
        self.use_own_stamps()
        if not self.is_complete:
            await handle.answered(Expired(self, elements_max))
        if self._has_unstamped and handle.rules.is_expired(None, handle.session.clock):
            await self._load_unstamped()
        # Elements that the epoch has touched stand in no index as they are now.
        self._remove_expired(elements_max)
        if self.should_complete:
            await handle.answered(WholeCollection(self))
        if self.is_complete and self._was_spread and not self.is_changed:
            # The bound in the header may lag behind; the index must not be ahead of it.
            self._moved_floor = oldest_stamp(self.elements.values()) != self.indexed_ms
        return before - self.size

    def take_expired(
        self, oldest: Sequence[tuple[bytes, float]], stamped_count: int, elements_max: int
    ) -> None:
        """Remove the oldest elements of a spread collection as far as they are expired.

        Args:
            oldest: Fields with the oldest stored stamps, lowest first; all, or more than
                `elements_max` that were not touched.
            stamped_count: How many stored elements have a stamp.
            elements_max: Remove at most so many.
        """
        before = self._before
        untouched = [e for e in oldest if e[0] not in before] if before else oldest
        count = bisect_right(untouched, self._handle.expired_until_ms, key=itemgetter(1))
        expired = untouched[: min(count, elements_max)]
        self._has_unstamped = stamped_count < self._stored_size
        if not self._has_unstamped and not self._before and len(expired) == self.size:
            self.wipe()
            return
        self._remove_unseen([each for each, _ in expired])
        rest = untouched[len(expired) :]
        # Where nothing follows what was expired, no stamp is left that was not touched.
        floor = int(rest[0][1]) if rest else None
        self._moved_floor = self._moved_floor or floor != self._floor_ms
        self._floor_ms = floor

    def _packed_text(self) -> bytes:
        """All elements in one text."""
        handle, elements, number = self._handle, self.elements, self.next_number
        own_count = self._own_count
        if self._shared and own_count < self.size:
            lines = handle.lines(elements)
            return shared_text(self.size, number, self._shared_ms, own_count, lines)
        found = shared([*elements.values()]) if handle.may_have_stamps else None
        if found is None:
            return packed_text(number, handle.lines(elements))
        lines = handle.lines(dict(zip(elements, found.elements, strict=True)))
        return shared_text(self.size, number, found.oldest_ms, found.own_count, lines)

    def _remove_unseen(self, fields: Sequence[bytes]) -> None:
        """Remove stored elements that have a stamp and were not touched."""
        if len(fields) == self.size:
            self.wipe()
            return
        self._before.update(dict.fromkeys(fields, _STAMPED))
        self._absent.update(fields)
        self.size -= len(fields)
        for field in fields:
            self.elements.pop(field, None)

    async def _load_unstamped(self) -> None:
        """Know all elements, since those without a stamp are expired, too, and in no index."""
        if not self.is_complete:
            await self._handle.answered(WholeCollection(self))

    def _spreads(self, is_spread_now: bool) -> bool:
        thresholds = self._handle.thresholds
        if not self.is_complete:
            return True
        return self.size > thresholds.low if is_spread_now else self.size >= thresholds.high

    def _drop(self, batch: WriteBatch) -> None:
        batch.drop(self.key_group, self.rows)
        if self._handle.may_have_stamps:
            batch.drop(self.key_group, self.stamps)

    def _write_rows(self, batch: WriteBatch, before: Mapping[bytes, bytes | None]) -> None:
        """The difference between what fields held and what they hold."""
        gone: list[bytes] = []
        puts: list[bytes] = []
        scores: list[float | bytes] = []
        unscored: list[bytes] = []
        for field, old in before.items():
            new = self.elements.get(field)
            if new == old:
                continue
            old_ms = None if old is None else stamp_of(old)
            new_ms = None if new is None else stamp_of(new)
            if new is None:
                gone.append(field)
            else:
                puts += (field, new)
            if new_ms is None:
                if old_ms is not None:
                    unscored.append(field)
            elif new_ms != old_ms:
                scores += (new_ms, field)
        batch.put_all(self.key_group, self.rows, puts)
        batch.delete_all(self.key_group, self.rows, gone)
        batch.score_all(self.key_group, self.stamps, scores)
        batch.unscore_all(self.key_group, self.stamps, unscored)

    def _remove_expired(self, elements_max: int) -> None:
        has_expired = self._handle.has_expired
        expired = [field for field, each in self.elements.items() if has_expired(each)]
        for field in expired[:elements_max]:
            self.remove(field)
