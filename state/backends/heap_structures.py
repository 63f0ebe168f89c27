"""Hashes, sorted sets, streams and counters in memory, with Redis's semantics."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeGuard

from state.backends.interface import (
    CounterAdd,
    Drop,
    HashAdd,
    HashDelete,
    HashGet,
    HashKeys,
    HashLength,
    HashPut,
    HashReplace,
    HashScan,
    LexCount,
    LexRange,
    LexRemove,
    ScoreRemove,
    SortedLength,
    SortedPut,
    SortedRange,
    SortedRemove,
    SortedScores,
    SortedTop,
    StreamAppend,
    StreamLength,
    StreamScan,
)
from state.backends.rules import check_lex_bounds
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read, Write

_BULK = 16
"""From one change in so many members on, sorting again beats inserting one by one."""


def _are_members(values: Sequence[float | bytes]) -> TypeGuard[Sequence[bytes]]:
    return {*map(type, values)} <= {bytes}


def _are_scores(values: Sequence[float | bytes]) -> TypeGuard[Sequence[float]]:
    return bytes not in map(type, values)


class SortedMembers:
    """Members by score, then by their bytes."""

    __slots__ = ("_order", "scores")

    def __init__(self) -> None:
        self.scores: dict[bytes, float] = {}
        self._order: list[tuple[float, bytes]] = []
        """The same, sorted."""

    def put(self, pairs: Sequence[float | bytes]) -> None:
        """Set scores: `[score, member, ...]`; O(log n) each, or O(n) for many at once."""
        scores, members = pairs[0::2], pairs[1::2]
        if not (_are_members(members) and _are_scores(scores)):
            raise StateCorrupt("a sorted set takes a score, then a member in bytes")
        fresh = dict(zip(members, map(float, scores), strict=True))
        self._forget([each for each in fresh if each in self.scores])
        self.scores.update(fresh)
        entries = [*zip(fresh.values(), fresh, strict=True)]
        if len(entries) * _BULK > len(self._order):
            self._order += entries
            self._order.sort()
        else:
            for entry in entries:
                insort(self._order, entry)

    def remove(self, members: Iterable[bytes]) -> None:
        """Remove the members that are there."""
        present = [each for each in dict.fromkeys(members) if each in self.scores]
        self._forget(present)
        for member in present:
            del self.scores[member]

    def top(self, limit: int, maximum: float) -> list[tuple[bytes, float]]:
        """The highest ones of those with a score up to a bound, highest first."""
        high = bisect_right(self._order, maximum, key=_score)
        low = max(0, high - max(0, limit))
        return [(member, score) for score, member in reversed(self._order[low:high])]

    def range(self, minimum: float, maximum: float, limit: int | None) -> list[tuple[bytes, float]]:
        """Those with a score within both bounds, lowest first."""
        if not self._order or self._order[0][0] > maximum:
            return []
        low = bisect_left(self._order, minimum, key=_score)
        high = bisect_right(self._order, maximum, key=_score)
        if limit is not None:
            high = min(high, low + limit)
        return [(member, score) for score, member in self._order[low:high]]

    def lex_range(self, read: LexRange) -> list[bytes]:
        """The members between two bounds, from one end."""
        low, high = self._lex_places(read.minimum, read.maximum)
        if read.limit is not None and read.reverse:
            low = max(low, high - max(0, read.limit))
        elif read.limit is not None:
            high = min(high, low + max(0, read.limit))
        members = [member for _, member in self._order[low:high]]
        return members[::-1] if read.reverse else members

    def lex_count(self, minimum: bytes, maximum: bytes) -> int:
        """The number of members between two bounds; O(log n)."""
        low, high = self._lex_places(minimum, maximum)
        return max(0, high - low)

    def lex_remove(self, minimum: bytes, maximum: bytes) -> None:
        """Remove the members between two bounds."""
        low, high = self._lex_places(minimum, maximum)
        for _, member in self._order[low:high]:
            del self.scores[member]
        del self._order[low : max(low, high)]

    def score_remove(self, maximum: float) -> None:
        """Remove the members with a score up to a bound."""
        high = bisect_right(self._order, maximum, key=_score)
        for _, member in self._order[:high]:
            del self.scores[member]
        del self._order[:high]

    def __len__(self) -> int:
        return len(self.scores)

    def _lex_places(self, minimum: bytes, maximum: bytes) -> tuple[int, int]:
        check_lex_bounds(minimum, maximum)
        return self._lex_place(minimum, b"["), self._lex_place(maximum, b"(")

    def _lex_place(self, bound: bytes, before: bytes) -> int:
        """The place of a bound: before its equal if it begins with `before`, else behind it."""
        if bound in (b"-", b"+"):
            return 0 if bound == b"-" else len(self._order)
        find = bisect_left if bound.startswith(before) else bisect_right
        return find(self._order, bound[1:], key=_member)

    def _forget(self, members: Sequence[bytes]) -> None:
        """Take members out of the order; their scores stay."""
        if len(members) == len(self._order):
            self._order = []
            return
        if len(members) * _BULK > len(self._order):
            gone = set(members)
            self._order = [each for each in self._order if each[1] not in gone]
            return
        for member in members:
            del self._order[bisect_left(self._order, (self.scores[member], member))]


def _score(entry: tuple[float, bytes]) -> float:
    return entry[0]


def _member(entry: tuple[float, bytes]) -> bytes:
    return entry[1]


class Stream:
    """Entries with growing ids."""

    __slots__ = ("entries", "last")

    def __init__(self) -> None:
        self.entries: list[tuple[tuple[int, int], list[bytes]]] = []
        self.last = (0, 0)

    def append(self, epoch: int, write: StreamAppend) -> None:
        """Add entries and trim."""
        for entry in write.entries[-write.max_length :]:
            self.last = next_stream_id(self.last, epoch, write.entry_id)
            self.entries.append((self.last, list(entry)))
        del self.entries[: -write.max_length]

    def scan(self, after: bytes | None, limit: int) -> list[tuple[bytes, list[bytes]]]:
        """Entries behind an id, oldest first."""
        from_ = 0
        if after is not None:
            from_ = bisect_right(self.entries, parse_stream_id(after), key=lambda each: each[0])
        return [(b"%d-%d" % id_, list(f)) for id_, f in self.entries[from_ : from_ + limit]]

    def __len__(self) -> int:
        return len(self.entries)


def next_stream_id(last: tuple[int, int], epoch: int, entry_id: bytes | None) -> tuple[int, int]:
    """The id of the next entry.

    Raises:
        StateCorrupt: The stream has an entry of a later epoch, or one with this id.
    """
    if entry_id is None:
        following = (epoch, last[1] + 1 if last[0] == epoch else 0)
    else:
        following = parse_stream_id(entry_id)
    if following <= last:
        raise StateCorrupt("a stream already has an entry with this id or a later one")
    return following


def parse_stream_id(text: bytes) -> tuple[int, int]:
    """The two numbers of `<milliseconds or epoch>-<number>`."""
    first, _, second = text.partition(b"-")
    return int(first), int(second or b"0")


class Counter:
    """A number that is a structure of its own."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Space:
    """The structures of one key group, or of a pipeline's slot, by name."""

    __slots__ = ("structures",)

    def __init__(self) -> None:
        self.structures: dict[bytes, Any] = {}
        """dict, SortedMembers, Stream or Counter; never an empty dict or SortedMembers."""

    def read(self, read: Read) -> Any:
        """What `EpochTransaction.fetch` gives for this read."""
        match read:
            case HashGet(_, name, fields):
                return _values(self._of(name, dict), fields)
            case HashScan(_, name):
                return dict(self._of(name, dict))
            case HashKeys(_, name):
                return list(self._of(name, dict))
            case HashLength(_, name):
                return len(self._of(name, dict))
            case SortedTop(_, name, limit, score_max):
                return self._of(name, SortedMembers).top(limit, score_max)
            case SortedRange(_, name, minimum, maximum, limit_):
                return self._of(name, SortedMembers).range(minimum, maximum, limit_)
            case SortedScores(_, name, members):
                scores = self._of(name, SortedMembers).scores
                return [scores.get(each) for each in members]
            case SortedLength(_, name):
                return len(self._of(name, SortedMembers))
            case LexRange(_, name):
                return self._of(name, SortedMembers).lex_range(read)
            case LexCount(_, name, lowest, highest):
                return self._of(name, SortedMembers).lex_count(lowest, highest)
            case StreamScan(_, name, after, limit):
                return self._of(name, Stream).scan(after, limit)
            case StreamLength(_, name):
                return len(self._of(name, Stream))

    def verify(self, writes: Sequence[Write], epoch: int) -> None:
        """See that all of them can be carried out, before the first one is.

        Raises:
            StateCorrupt: A name holds another type, a number is none, or an id is taken.
        """
        kinds: dict[bytes, type | None] = {}
        last: dict[bytes, tuple[int, int]] = {}
        for write in writes:
            held = self.structures.get(write.name)
            kind = kinds.get(write.name, type(held) if held is not None else None)
            wanted = _KINDS[type(write)]
            if wanted is not None and kind not in (None, wanted):
                raise StateCorrupt(f"{write.name!r} does not hold what is to be written")
            kinds[write.name] = wanted
            if isinstance(write, Drop):
                last[write.name] = (0, 0)
            if isinstance(write, StreamAppend):
                id_ = last.get(write.name, held.last if isinstance(held, Stream) else (0, 0))
                for _ in write.entries[-write.max_length :]:
                    id_ = next_stream_id(id_, epoch, write.entry_id)
                last[write.name] = id_
            if isinstance(write, HashAdd) and isinstance(held, dict):
                _integer(held.get(write.field, b"0"))

    def carry_out(self, writes: Sequence[Write], epoch: int) -> None:
        """Carry out writes that were verified."""
        for write in writes:
            self._carry_out(write, epoch)

    def _carry_out(self, write: Write, epoch: int) -> None:
        match write:
            case HashPut(name, pairs):
                if pairs:
                    held = self.structures.setdefault(name, {})
                    # It takes the entries of a dictionary without a call for each.
                    held.update(dict(zip(pairs[0::2], pairs[1::2], strict=True)))
            case HashReplace(name, pairs):
                self.structures[name] = dict(zip(pairs[0::2], pairs[1::2], strict=True))
                self._let_go(name)
            case HashDelete(name, fields):
                held = self.structures.get(name, {})
                for field in fields:
                    held.pop(field, None)
                self._let_go(name)
            case HashAdd(name, field, by):
                held = self.structures.setdefault(name, {})
                held[field] = b"%d" % (_integer(held.get(field, b"0")) + by)
            case SortedPut(name, scored):
                if scored:
                    self.structures.setdefault(name, SortedMembers()).put(scored)
            case SortedRemove(name, members):
                if name in self.structures:
                    self.structures[name].remove(members)
                self._let_go(name)
            case ScoreRemove(name, score_max):
                if name in self.structures:
                    self.structures[name].score_remove(score_max)
                self._let_go(name)
            case LexRemove(name, minimum, maximum):
                if name in self.structures:
                    self.structures[name].lex_remove(minimum, maximum)
                self._let_go(name)
            case Drop(name):
                self.structures.pop(name, None)
            case StreamAppend(name, entries):
                if entries:
                    self.structures.setdefault(name, Stream()).append(epoch, write)
            case CounterAdd(name, by):
                self.structures.setdefault(name, Counter()).value += by

    def _of(self, name: bytes, kind: type) -> Any:
        held = self.structures.get(name)
        if held is None:
            return kind()
        if type(held) is not kind:
            raise StateCorrupt(f"{name!r} does not hold what is to be read")
        return held

    def _let_go(self, name: bytes) -> None:
        """An empty structure is no structure."""
        if not self.structures.get(name):
            self.structures.pop(name, None)


def glob(pattern: bytes) -> re.Pattern[bytes]:
    r"""Redis's glob patterns: `*`, `?`, `[ab]`, `[^a-b]`, and `\` before what stands for itself.

    >>> bool(glob(rb"a\*[b-d]*").fullmatch(b"a*cx"))
    True
    """
    parts = re.findall(rb"\\.|\[(?:\\.|[^\]\\])*\]|.", pattern, re.DOTALL)
    return re.compile(b"".join(map(_glob_part, parts)), re.DOTALL)


def _glob_part(part: bytes) -> bytes:
    if part == b"*":
        return b".*"
    if part == b"?":
        return b"."
    if part.startswith(b"[") and len(part) > 1:
        return b"[" + part[1:-1].replace(b"[", rb"\[") + b"]"
    return re.escape(part[-1:])


_KINDS: dict[type, type | None] = {
    HashPut: dict,
    HashReplace: dict,
    HashDelete: dict,
    HashAdd: dict,
    SortedPut: SortedMembers,
    SortedRemove: SortedMembers,
    ScoreRemove: SortedMembers,
    LexRemove: SortedMembers,
    StreamAppend: Stream,
    CounterAdd: Counter,
    Drop: None,
}


def _values(held: dict[bytes, bytes], fields: Sequence[bytes]) -> list[bytes | None]:
    """The values of fields; None for one that is not there."""
    if len(fields) > 1 and held:
        # One call that looks up all: less is done between one look-up and the next, so the
        # processor waits for the memory of several fields at once. Of a million keys, a third less.
        try:
            return [*itemgetter(*fields)(held)]
        except KeyError:
            pass
    return [*map(held.get, fields)]


def _integer(text: bytes) -> int:
    if not text.removeprefix(b"-").isdigit() or len(text) > 16:
        raise StateCorrupt("a field that is to be counted in does not hold a whole number")
    return int(text)
