"""Bringing into the index of expiry what was written while there was no TTL.

Every entry carries its time, with a TTL and without. Only the index of which keys are old is kept
where there is a TTL. So when one is switched on, each key group is walked once: its keys are looked
at as if they were due, which drops what is past its time and puts the rest into the index. An epoch
walks whole key groups, one at least and no more than the bound on due keys allows: a part of a
Redis hash would depend on how far the server has rehashed it, and an epoch that is run again must
write the same.

    T:history:swept    hash    enabled_ms: when the TTL was switched on whose walk is done; it goes
                               with the last key, or with the next epoch of the key group that
                               has no TTL
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.backends.interface import Drop, HashGet, HashKeys, HashLength, HashPut
from state.multiset.spread import STATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from state.backends.interface import Read, Write

SWEPT = STATE + b":swept"
_ENABLED = b"enabled_ms"


class IndexWalk:
    """The walk as far as one epoch takes it.

    Args:
        key_groups: Those of the epoch.
        enabled_ms: When TTL was switched on for histories that were there; None: it was on when
            the first one was written, and there is nothing to walk.
        keys_max: So many keys may be walked, or those of one key group if it has more. None: the
            TTL is off again, so none is, and what remembers a walk is of no use any more.
    """

    def __init__(
        self, key_groups: Sequence[int], enabled_ms: int | None, keys_max: int | None
    ) -> None:
        self._key_groups = () if enabled_ms is None else tuple(key_groups)
        self._enabled = b"%d" % (enabled_ms or 0)
        self._keys_max = keys_max
        self._walked: list[int] = []
        self._left: list[int] = []
        """Key groups that are to forget the walk: they have no key, or keys of an epoch without
        a TTL."""

    def reads(self) -> list[Read]:
        """What says which key groups are still to be walked."""
        reads: list[Read] = []
        for each in self._key_groups:
            reads += (HashGet(each, SWEPT, [_ENABLED]), HashLength(each, STATE))
        return reads

    def scans(self, replies: Sequence[Any]) -> list[Read]:
        """The reads that walk key groups in this epoch, given the replies to `reads`."""
        pairs = zip(self._key_groups, replies[0::2], replies[1::2], strict=True)
        count = 0
        for key_group, (noted,), keys in pairs:
            if not keys or self._keys_max is None:
                self._left += [key_group] if noted is not None else []
            elif noted == self._enabled:
                continue
            elif not count or count + keys <= self._keys_max:
                self._walked.append(key_group)
                count += keys
        return [HashKeys(each, STATE) for each in self._walked]

    def keys(self, replies: Sequence[list[bytes]]) -> Iterator[tuple[int, list[bytes]]]:
        """The keys that were walked, by key group, given the replies to `scans`."""
        for key_group, held in zip(self._walked, replies, strict=True):
            yield key_group, sorted(held)

    def notes(self) -> Iterator[tuple[int, Write]]:
        """What is to be remembered."""
        for each in self._walked:
            yield each, HashPut(SWEPT, [_ENABLED, self._enabled])
        for each in self._left:
            yield each, Drop(SWEPT)


def walked_groups(notes: Iterable[tuple[int, Write]]) -> set[int]:
    """The key groups that were walked, of which every key must be looked at, given the `notes`."""
    return {each for each, note in notes if isinstance(note, HashPut) and note.name == SWEPT}
