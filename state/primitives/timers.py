r"""Timers of keys, kept as a sorted set in each key group.

    T:<state>    sorted set    `<key> TAB <namespace> TAB <ms>`, scored by ms

A key and namespace may have timers at several times, so the time is part of the member; that it is
the score, too, makes what is due a range. An epoch reads that range once, for all of its key
groups (`load`); what it registers and removes meanwhile is seen at once and stored with its writes.
Removing a timer that was not read needs no look: what is not there cannot be removed.

Source: Flink's InternalTimerService; FLIP-425 keeps registration synchronous.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any

from state.backends.interface import SortedRange
from state.errors import InvariantViolation, StateCorrupt
from state.execution.timers import Timer
from state.primitives.cells import Cell
from state.primitives.handle import StateHandle
from state.primitives.untimed_keys import KeysOfGroup, affordable
from state.ttl import DISABLED, TtlRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.descriptors import TimersDescriptor
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch

_When = tuple[int, bytes]
"""Time in ms and namespace: the order in which the timers of a key fire."""


class TimersCell(Cell):
    """The timers of one key group, as far as an epoch knows them."""

    __slots__ = ("_removed", "_state", "_until_ms", "added", "stored")
    is_one_field = False

    def __init__(self, state: bytes, key_group: int) -> None:
        super().__init__(b"%d" % key_group, key_group)
        self._state = state
        self._until_ms = -math.inf
        self.stored: dict[bytes, set[_When]] = {}
        """By key: what was read and is still to fire."""
        self.added: dict[bytes, set[_When]] = {}
        """By key: what the epoch registered and is still to fire."""
        self._removed: set[bytes] = set()
        """Members that are to be removed, whether they are there or not."""

    def wanted_until(self, until_ms: int) -> bool:
        """Ask for what is due by then; whether that is more than was read.

        Raises:
            InvariantViolation: They were read already.
        """
        if until_ms <= self._until_ms:
            return False
        if self.is_loaded:
            raise InvariantViolation("timers of an epoch are read once")
        self._until_ms = until_ms
        return True

    @property
    def until_ms(self) -> float:
        """What is due up to here is known."""
        return self._until_ms if self.is_loaded else -math.inf

    @property
    def reads(self) -> Sequence[Read]:
        """One range: what is due."""
        return (SortedRange(self.key_group, self._state, -math.inf, self._until_ms),)

    def take(self, replies: Sequence[Any]) -> None:
        """Know the stored timers that are due.

        Raises:
            StateCorrupt: A member is none of ours.
        """
        if self.is_loaded:
            return
        self.is_loaded = True
        for member, _ in replies[0]:
            key, when = _parsed(member)
            if member not in self._removed:
                self.stored.setdefault(key, set()).add(when)

    def register(self, key: bytes, when: _When) -> None:
        """Have a timer, once."""
        self._removed.discard(_member(key, when))
        if when not in self.stored.get(key, ()):
            self.added.setdefault(key, set()).add(when)

    def remove(self, key: bytes, when: _When) -> None:
        """Have it no more."""
        self.added.get(key, set()).discard(when)
        stored = self.stored.get(key, set())
        # Of what was read it is known what is there.
        if when in stored or when[0] > self.until_ms:
            self._removed.add(_member(key, when))
        stored.discard(when)

    def of_key(self, key: bytes) -> set[_When]:
        """The known timers of a key."""
        return self.stored.get(key, set()) | self.added.get(key, set())

    def write(self, batch: WriteBatch) -> None:
        """What was registered and has not fired; what fired or was removed."""
        for key, whens in sorted(self.added.items()):
            for when in sorted(whens):
                batch.score(self.key_group, self._state, _member(key, when), when[0])
        for member in sorted(self._removed):
            batch.unscore(self.key_group, self._state, member)

    def oldest_ms(self) -> int | None:
        """Timers do not expire."""
        return None

    async def clean(self, elements_max: int) -> int:
        """Timers do not expire."""
        return 0


class TimersHandle(StateHandle[TimersCell]):
    """Timers of one domain; a `TimerService`.

    Characteristics:
        cost    `load`: one command for each key group, one round trip for all; else none. Where
                a TTL lets idle keys go that was switched on late, two commands more, and one for a
                second state, also in the epochs behind the walk: a mark goes with the last key
                stored: one member a timer that outlives its epoch, or that fired or was removed
    """

    descriptor: TimersDescriptor

    def __init__(self, session: StateSession, descriptor: TimersDescriptor) -> None:
        super().__init__(session, descriptor)
        self._groups: list[KeysOfGroup] = []
        """Where keys without a timer may be."""
        self.may_have_stamps = False
        if descriptor.ttl.is_enabled:
            # It is no TTL of what is stored here. Once it is off, clean-up forgets the walk.
            self.rules = TtlRules(DISABLED)

    def new_cell(self, key: bytes, key_group: int) -> TimersCell:
        """A cell that knows nothing yet."""
        return TimersCell(self.state, key_group)

    def load(self, key_groups: Iterable[int], until_ms: int) -> None:
        """Read what is due in these key groups: before `due` is called, once an epoch.

        Where these timers let idle keys go, by a TTL that was switched on, `untimed_keys` is to be
        asked before the first of them fires.

        Args:
            key_groups: Those of the transaction.
            until_ms: The latest time, in ms, that the epoch will ask for.

        Raises:
            InvariantViolation: They were read before, up to an earlier time.
            StateError: As `EpochTransaction.fetch` raises.
        """
        cells = [self._group(each) for each in key_groups]
        of = self.descriptor
        if of.ttl.is_enabled and of.enabled_ms is not None:
            self._groups = [KeysOfGroup(of, each) for each in key_groups]
        wanted = [each for each in cells if each.wanted_until(until_ms)]
        if wanted or self._groups:
            self.session.execute([*wanted, *self._groups])

    def untimed_keys(self) -> list[tuple[bytes, int]]:
        """Keys with their key groups that may have no timer, though there is a TTL.

        They are to get one in this epoch, which remembers that they were given. None comes twice.
        Cost: nothing where the TTL was not switched on late, or all were given; else one round trip
        and all keys of some key groups: `state.primitives.untimed_keys`.

        Raises: As `EpochTransaction.fetch`.
        """
        walks = affordable(self._groups, self.descriptor.ttl.cleanup.background_keys_max)
        self.session.execute(walks)
        return [(key, walk.key_group) for walk in walks for key in sorted(walk.keys)]

    def write_all(self, cells: Iterable[TimersCell], batch: WriteBatch) -> None:
        """Give what must be stored of timers, and of what `untimed_keys` gave."""
        super().write_all(cells, batch)
        for each in self._groups:
            each.write(batch)

    def register(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        """Have a timer; one that is registered twice is there once."""
        self._group(key_group).register(key, (time_ms, namespace))

    def remove(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        """Have it no more, if it was there."""
        self._group(key_group).remove(key, (time_ms, namespace))

    def due(self, until_ms: int) -> Sequence[tuple[bytes, int]]:
        """Key and key group of every timer that is due, ordered by time, then key.

        Raises:
            InvariantViolation: A key group was not read up to this time.
        """
        found: list[tuple[int, bytes, int]] = []
        for cell in self.cells.values():
            self._require(cell, until_ms)
            for key in cell.stored.keys() | cell.added.keys():
                whens = cell.of_key(key)
                found += [(time, key, cell.key_group) for time, _ in whens if time <= until_ms]
        return [(key, key_group) for _, key, key_group in sorted(found)]

    def take(self, key: bytes, key_group: int, until_ms: int) -> Timer | None:
        """Remove the first due timer of a key (by time, then namespace) and give it.

        Raises:
            InvariantViolation: The key group was not read up to this time.
        """
        cell = self._group(key_group)
        self._require(cell, until_ms)
        for time_ms, namespace in heapq.nsmallest(1, cell.of_key(key)):
            if time_ms <= until_ms:
                cell.remove(key, (time_ms, namespace))
                return Timer(time_ms, key, key_group, namespace)
        return None

    def _group(self, key_group: int) -> TimersCell:
        return self.cell_of(b"%d" % key_group, key_group)

    @staticmethod
    def _require(cell: TimersCell, until_ms: int) -> None:
        if until_ms > cell.until_ms:
            raise InvariantViolation(
                f"timers of key group {cell.key_group} were not read up to {until_ms} ms"
            )


def _member(key: bytes, when: _When) -> bytes:
    return b"%b\t%b\t%d" % (key, when[1], when[0])


def _parsed(member: bytes) -> tuple[bytes, _When]:
    try:
        key, namespace, time_ms = member.split(b"\t")
        return key, (int(time_ms), namespace)
    except ValueError:
        raise StateCorrupt("a stored timer is none of ours") from None
