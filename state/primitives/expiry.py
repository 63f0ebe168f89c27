"""Clean-up: what is expired leaves, though nothing touches it.

An access removes what it finds expired; the rest is found by the expiry index of each state, a
sorted set of its keys scored by the oldest stamp in each, or an older one: what is written again
leaves its score as it was. Keys whose score plus the TTL has passed are *due*. A due key that lives
gets its true score: a timer that fires too early and is set anew, as FLIP-25 has it, so that a key
costs the index one write a TTL and not one a change. An epoch removes some of them at its end,
before its writes are made:

    incremental     so many keys for each access of the epoch, and if asked for each record, in the
                    key group of its key: what a key group loses is its own epoch's doing
    background      so many keys in each key group, also of an epoch that has no record
    by timer        all of them

and none twice. It takes one round trip to see what is due, or none where the epoch's prefetch has
asked for it, and two to three more if something is, however many states, key groups and keys. Most
keys are settled by the one field that is stored of them (`StateHandle.settle`), and leave the index
by one cut through its scores. A key's spread collection is cleaned by its oldest stamps, without a
look at what lives.

What is hard is an element without a stamp, from the time before TTL was switched on: no index has
it. All such elements expire at one moment, `enabled_ms + ttl`. After it each key group is walked
once, a bounded number of keys an epoch but at least one key group, and remembers that it was.
The walk takes whole key groups, since a page of a Redis hash depends on how far the server has
rehashed it, and an epoch that is run again must write the same.

    <state>:swept    hash: when the TTL was switched on whose walk is done; gone with the last key

Source: Flink's TtlIncrementalCleanup and RocksDB compaction filter do the same without an index,
by walking everything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from state.backends.interface import (
    Drop,
    HashGet,
    HashLength,
    HashPut,
    HashScan,
    SortedRange,
)
from state.execution.sync import run_together

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Sequence

    from state.backends.interface import Read, Write
    from state.execution.requests import Request
    from state.primitives.cells import Cell
    from state.primitives.handle import StateHandle
    from state.primitives.session import StateSession

_ELEMENTS_MIN: Final = 64
"""Elements that a visit to a key may remove at least: a packed collection is rewritten anyway."""
_ELEMENTS_ALL: Final = 1 << 31
_SCORE_MAX: Final = 1 << 53
"""The watermark of an input that has ended is beyond what a score can say."""
SWEPT: Final = b"enabled_ms"
"""The field of what remembers a walk."""


class CleanUp(NamedTuple):
    """What a clean-up did."""

    removed: int
    """Elements that it removed."""
    notes: list[tuple[int, Write]]
    """What is to be remembered, with its key group."""


def looks_ahead(handles: Iterable[StateHandle[Any]], key_groups: Sequence[int]) -> list[Look]:
    """Requests for what `clean_up` will ask first, to share a round trip with what is prefetched.

    Not where accesses pay: they are counted only at the end. What is stored is the same until then.
    """
    return _looks([each for each in handles if each.accesses is None], key_groups)


def clean_up(
    session: StateSession,
    handles: Iterable[StateHandle[Any]],
    key_groups: Sequence[int],
    ahead: Sequence[Look],
) -> CleanUp:
    """Remove some of what is expired in these states and key groups.

    Args:
        session: Of the epoch.
        handles: Of its states.
        key_groups: Where to look.
        ahead: `looks_ahead` of them, answered, at the times that the session has; or of none.

    Raises: As `EpochTransaction.fetch`, and what is wrong with what is stored.
    """
    looks = _looks(handles, key_groups, ahead)
    session.execute([each for each in looks if each.reads and not each.is_taken])
    walks = _affordable([_Walk(each) for each in looks if each.wants_walk])
    if walks:
        session.execute(walks)
    removed: list[int] = []
    session.execute([_Judgement(each, removed) for each in looks if each.due])
    visits: dict[int, Coroutine[Request, None, None]] = {}
    for cell, elements_max in _visited(looks, walks):
        if id(cell) not in visits:
            visits[id(cell)] = _visit(cell, elements_max, removed)
    run_together(visits.values(), session)
    notes = [(look.key_group, note) for look in looks for note in look.notes()]
    notes += [(walk.key_group, note) for walk in walks for note in walk.notes()]
    return CleanUp(sum(removed), notes)


def _looks(
    handles: Iterable[StateHandle[Any]], key_groups: Sequence[int], ahead: Sequence[Look] = ()
) -> list[Look]:
    """A look for each state and key group: the one that was made ahead, or a new one."""
    made = {(each.handle.state, each.key_group): each for each in ahead}
    return [
        made.get((handle.state, key_group)) or Look(handle, key_group)
        for handle in handles
        if handle.rules.is_enabled or handle.rules.enabled_ms is not None
        for key_group in key_groups
    ]


class Look:
    """The request for what is due in one key group of one state."""

    def __init__(self, handle: StateHandle[Any], key_group: int) -> None:
        self.handle = handle
        self.key_group = key_group
        self.limit = _limit(handle, key_group)
        self.due: list[bytes] = []
        self.cut_ms = 0
        """The index has no other keys with scores up to this one."""
        self.beyond: list[bytes] = []
        """Those of them that have a higher score."""
        self.elements_max = _ELEMENTS_ALL
        """Elements that a visit to a key may remove."""
        self.keys_count = 0
        """Keys of the state, where a walk may be needed."""
        self.is_taken = False
        self._swept_ms: int | None = None
        self.reads = [*self._due_reads(), *self._walk_reads()]

    def take(self, replies: Sequence[Any]) -> None:
        """Keep what is due, and whether the walk was done."""
        self.is_taken = True
        for read, reply in zip(self.reads, replies, strict=True):
            match read:
                case SortedRange():
                    self._take_due(reply, math.floor(read.maximum))
                case HashLength():
                    self.keys_count = reply
                case _:
                    self._swept_ms = None if reply[0] is None else int(reply[0])

    def _take_due(self, due: Sequence[tuple[bytes, float]], newest_ms: int) -> None:
        self.due = [key for key, _ in due]
        self.cut_ms = min(newest_ms, _SCORE_MAX)
        if self.limit is not None:
            self.elements_max = max(self.limit // max(len(due), 1), _ELEMENTS_MIN)
            if len(due) == self.limit:
                # More keys may have the last score than were given.
                self.cut_ms = int(due[-1][1]) - 1
                self.beyond = [key for key, score in due if score > self.cut_ms]

    def _due_reads(self) -> Iterable[Read]:
        rules = self.handle.rules
        if rules.is_enabled and self.limit != 0:
            newest_ms = rules.config.newest_expired_ms(self.handle.session.clock.now(rules.config))
            name = self.handle.expiry
            yield SortedRange(self.key_group, name, -math.inf, newest_ms, self.limit)

    def _walk_reads(self) -> Iterable[Read]:
        handle, rules = self.handle, self.handle.rules
        if rules.is_expired(None, handle.session.clock) and self.limit != 0:
            yield HashLength(self.key_group, handle.state)
        elif rules.is_enabled:
            return
        # Where TTL was switched off again, what remembers a walk is of no use any more.
        yield HashGet(self.key_group, swept_name(handle.state), [SWEPT])

    @property
    def wants_walk(self) -> bool:
        """Whether elements without a stamp may be here and past their life."""
        return self.keys_count > 0 and self._swept_ms != self.handle.rules.enabled_ms

    def notes(self) -> Iterable[Write]:
        """Forget that the walk was done, when the last key is gone."""
        if self._swept_ms is not None and not self.keys_count:
            yield Drop(swept_name(self.handle.state))


class _Judgement:
    """The request for the stored texts of due keys that the epoch has not touched.

    Most of them tell by themselves that all of their key is expired, or that it was written again
    and lives: such a key needs no cell. What is left in `due` needs one, and a visit.
    """

    __slots__ = ("_look", "_removed", "_untouched", "reads")

    def __init__(self, look: Look, removed: list[int]) -> None:
        self._look = look
        self._removed = removed
        self._untouched = look.handle.unknown(look.key_group, look.due)
        self.reads = (HashGet(look.key_group, look.handle.state, self._untouched),)

    def take(self, replies: Sequence[Any]) -> None:
        """Settle what can be settled; the others are loaded, and left in `due`."""
        look, texts = self._look, replies[0]
        handle = look.handle
        settled = handle.settle(look.key_group, self._untouched, texts, look.elements_max)
        self._removed.append(settled)
        cleaned = handle.cleaned[look.key_group]
        cleaned.cut_ms, cleaned.beyond = look.cut_ms, look.beyond
        look.due = [each for each in look.due if each in handle.cells]


class _Walk:
    """The request for all keys of one state in one key group."""

    def __init__(self, look: Look) -> None:
        self.look = look
        self.key_group = look.key_group
        self.reads = (HashScan(look.key_group, look.handle.state),)
        self.cells: list[Cell] = []

    def take(self, replies: Sequence[Any]) -> None:
        """Load every key."""
        for key, text in sorted(replies[0].items()):
            cell = self.look.handle.cell_of(key, self.key_group)
            cell.take([[text]])
            self.cells.append(cell)

    def notes(self) -> Iterable[Write]:
        """Remember that the walk was done, unless it left nothing: what is left has stamps."""
        handle = self.look.handle
        if all(each.oldest_ms() is None for each in self.cells):
            return
        yield HashPut(swept_name(handle.state), [SWEPT, b"%d" % (handle.rules.enabled_ms or 0)])


def swept_name(state: bytes) -> bytes:
    """The name of what remembers a walk."""
    return state + b":swept"


def _limit(handle: StateHandle[Any], key_group: int) -> int | None:
    """Keys of a key group that may be visited; None is all."""
    cleanup = handle.rules.config.cleanup
    if cleanup.by_timer:
        return None
    background = cleanup.background_keys_max if cleanup.background else 0
    return background + handle.paid_keys(key_group)


def _affordable(walks: Sequence[_Walk]) -> list[_Walk]:
    """The walks of this epoch: the first one, and more while they stay within the bound."""
    chosen: list[_Walk] = []
    count = 0
    for each in walks:
        look = each.look
        count += look.keys_count
        if chosen and look.limit is not None and count > look.limit:
            break
        chosen.append(each)
    return chosen


def _visited(looks: Sequence[Look], walks: Sequence[_Walk]) -> Iterable[tuple[Cell, int]]:
    """The cells to clean, each with how many elements it may lose."""
    for look in looks:
        elements_max = look.elements_max
        for key in look.due:
            cell = look.handle.cell_of(key, look.key_group)
            cell.is_due = True
            yield cell, elements_max
        if look.limit is None:
            # The index tells what was due before the epoch: an exact clean-up looks at it, too.
            for cell in look.handle.cells.values():
                if cell.key_group == look.key_group and cell.is_loaded:
                    yield cell, elements_max
    for walk in walks:
        for cell in walk.cells:
            yield cell, _ELEMENTS_ALL


async def _visit(cell: Cell, elements_max: int, removed: list[int]) -> None:
    removed.append(await cell.clean(elements_max))
