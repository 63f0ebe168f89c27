"""Keys that no timer lets go: what came for them last, came while there was no TTL.

Where idle keys go by timers, what comes for a key sets its timer, and without a TTL there is none.
So when a TTL is switched on, each key group is walked once: each of its keys is looked at, and gets
a timer if it has none, as if something came for it in the epoch that looks. Like the walk of
`state.primitives.expiry` this takes whole key groups, one at least and no more than the bound on
due keys allows, and what remembers it is of the same form, and part of the epoch's commit:

    <timers>:swept    hash: when the TTL was switched on whose walk is done; it goes with the last
                      key, or with the first epoch of the key group that has no TTL

A savepoint leaves that out, and the walk is made again where it is restored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.backends.interface import Drop, HashGet, HashKeys, HashLength, HashPut
from state.primitives.expiry import SWEPT, swept_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.descriptors import TimersDescriptor
    from state.primitives.write_batch import WriteBatch


class KeysOfGroup:
    """The request for whether one key group is still to be walked."""

    def __init__(self, descriptor: TimersDescriptor, key_group: int) -> None:
        self.key_group = key_group
        self.keys_count = 0
        """At least so many keys; one that is in two states counts twice."""
        self.is_walked = False
        """Whether this epoch walks it."""
        self.states = [each.encode() for each in descriptor.forgets]
        self._name = swept_name(descriptor.name.encode())
        self._enabled = b"%d" % (descriptor.enabled_ms or 0)
        self._swept: bytes | None = None
        lengths = [HashLength(key_group, each) for each in self.states]
        self.reads: Sequence[Read] = [HashGet(key_group, self._name, [SWEPT]), *lengths]

    def take(self, replies: Sequence[Any]) -> None:
        """Know how many keys there are, and whether they were walked."""
        ((self._swept,), *counts) = replies
        self.keys_count = sum(counts)

    @property
    def wants_walk(self) -> bool:
        """Whether keys without a timer may be here."""
        return self.keys_count > 0 and self._swept != self._enabled

    def write(self, batch: WriteBatch) -> None:
        """Remember that the walk was done, and forget it when the last key is gone."""
        if self.is_walked:
            batch.add(self.key_group, HashPut(self._name, [SWEPT, self._enabled]))
        elif self._swept is not None and not self.keys_count:
            batch.add(self.key_group, Drop(self._name))


class Keys:
    """The request for all keys of a key group that is walked."""

    def __init__(self, group: KeysOfGroup) -> None:
        group.is_walked = True
        self.key_group = group.key_group
        self.keys: set[bytes] = set()
        self.reads = [HashKeys(group.key_group, each) for each in group.states]

    def take(self, replies: Sequence[Any]) -> None:
        """Know the keys."""
        self.keys.update(*replies)


def affordable(groups: Iterable[KeysOfGroup], keys_max: int) -> list[Keys]:
    """The walks of this epoch: the first one, and more while they stay within the bound."""
    chosen: list[Keys] = []
    count = 0
    for each in groups:
        if each.wants_walk:
            count += each.keys_count
            if chosen and count > keys_max:
                break
            chosen.append(Keys(each))
    return chosen
