"""Primitives for people: what HTTP shows of a key in any registered state, from committed state.

Nothing of an operator is needed to read its state: the registry knows kind and TTL, and what is
stored is canonical JSON. Its codecs, where they are at hand, name the columns of rows (`Form`).
Elements that are past their life are not shown, cleaned up or not; a key of which nothing else is
there is `Expired`, which is not the same as unknown.

    value, reducing, aggregating    one element: the value, or the accumulator
    list                            its elements, oldest first; the key of each is its number
    map                             its entries by the bytes of their keys
    sorted_map                      its elements in order; the key is the ordered text
    multiset                        its rows, oldest first; the key of each is its sequence number,
                                    and its time is that of its write, with TTL or without
    timers                          of a key: the namespace and time of each

A page begins after a place, the text that the page before gave. Reading a page of a spread list or
map reads all of its fields' names; of a spread sorted map it is one range, of a spread multiset as
many blocks as the page needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import orjson

from state.backends.interface import HashGet, HashScan, LexRange, SortedRange
from state.descriptors import Shows
from state.errors import StateCorrupt
from state.multiset.segments import block_reads
from state.multiset.spread import BLOCK_ENTRIES, SpreadNames
from state.primitives.layout import own_stamps, read_collection, rows_name
from state.primitives.multiset_text import read_block, read_header, read_lines
from state.primitives.sorted_text import LAST, entry_of_line, entry_of_member
from state.registry import form_of
from state.ttl import TtlRules, stamped, unstamped
from state.values import CodecError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from state.backends.interface import StateView
    from state.descriptors import StateDescriptor
    from state.multiset.text import Header
    from state.registry import RegisteredState
    from state.ttl import TtlClock

Show = Callable[[bytes], Any]
"""Makes a JSON value for people out of stored bytes."""
_NULL = b"null"
_PLAIN = frozenset({"value", "reducing", "aggregating"})
_EVER = float("inf")
_BLOCKS_PER_READ = 64
_CUT_OFF = "it was truncated, or something else wrote to this state"


@dataclass(frozen=True, slots=True)
class StateElement:
    """A live element."""

    place: str
    """Unique in its key's state; a page may begin after it."""
    key: object
    """User key of a map, ordered text of a sorted map, number in a list or multiset; None in a
    value."""
    value: object
    """A JSON value."""
    stamp_ms: int | None
    """Its last counting access; None without TTL, but in a multiset."""
    expires_ms: int | None
    """When it will be past its life if nothing touches it, in the time that the TTL counts."""


@dataclass(frozen=True, slots=True)
class StateContent:
    """What a key has in a state, or a page of it."""

    kind: str
    layout: str
    """packed or spread."""
    elements: tuple[StateElement, ...]
    next_after: str | None
    """To be given as `after` for the next page; None: this was the last one."""


@dataclass(frozen=True, slots=True)
class Expired:
    """A key with elements in state that are all past their life."""

    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class Form:
    """How the keys and values of a state are shown; None: as the JSON, or the text, that is stored.

    What a state holds is known to whoever wrote it: its codecs, where they are `Shows`.
    """

    key: Show | None = None
    value: Show | None = None

    @classmethod
    def of(cls, descriptor: StateDescriptor | None, state: RegisteredState) -> Self:
        """The form of a registered state, if this descriptor is still of what is stored."""
        if descriptor is None or form_of(descriptor) != form_of(state):
            return cls()
        return cls(_show(descriptor, "key_codec"), _show(descriptor, "codec"))


def _show(descriptor: StateDescriptor, name: str) -> Show | None:
    codec = getattr(descriptor, name, None)
    return codec.shown if isinstance(codec, Shows) else None


AS_STORED = Form()
_Stored = tuple[str, int | bytes | None, bytes]
"""Place, stored user key and stored element."""


def read_state(
    view: StateView,
    state: RegisteredState,
    key_group: int,
    stored_key: bytes,
    *,
    clock: TtlClock,
    form: Form = AS_STORED,
    after: str = "",
    limit: int = 1000,
) -> StateContent | Expired | None:
    """What a key has in a state as of the closed epoch that the view shows.

    Args:
        view: Committed state of the node.
        state: As it is registered; `state.registry.registered_states` tells.
        key_group: The key's.
        stored_key: Canonical key, with its namespace if it has one (`stored_key`).
        clock: The times that tell what is past its life.
        form: How keys and values are shown.
        after: Elements behind this place only; "" begins with the first.
        limit: Elements on the page at most.

    Returns:
        None if there is nothing of the key.

    Raises:
        StateCorrupt, FormatVersionMismatch: What is stored cannot be read.
        StateError: As the view raises.
    """
    name = state.name.encode()
    if state.kind == "timers":
        return _timers(view, name, key_group, stored_key, after, limit)
    (text,) = view.fetch([HashGet(key_group, name, [stored_key])])[0]
    if text is None:
        return None
    layout, stored = _stored(view, state.kind, name, key_group, stored_key, text, after)
    rules = TtlRules(state.ttl, state.enabled_ms)
    size, following = 0, None
    live: list[StateElement] = []
    for place, key, element in stored:
        size += 1
        stamp_ms, json = unstamped(element)
        if rules.is_enabled and rules.is_expired(stamp_ms, clock):
            continue
        expires = rules.expires_ms(stamp_ms)
        if len(live) == limit:
            following = live[-1].place
            break
        user_key, value = _readable(form, state.kind, key, json)
        live.append(StateElement(place, user_key, value, stamp_ms, expires))
    if not live and size and not after:
        return Expired(state.kind, size)
    return StateContent(state.kind, layout, tuple(live), following)


def _readable(form: Form, kind: str, key: int | bytes | None, json: bytes) -> tuple[Any, Any]:
    """User key and value of an element as they are shown."""
    try:
        value = _json(json) if form.value is None or json == _NULL else form.value(json)
        if not isinstance(key, bytes):
            return key, value
        if form.key is not None:
            return form.key(key), value
    except CodecError as error:
        raise StateCorrupt("a stored element is not what its codec writes") from error
    return (key.decode() if kind == "sorted_map" else _json(key)), value


def _stored(
    view: StateView,
    kind: str,
    name: bytes,
    key_group: int,
    key: bytes,
    text: bytes,
    after: str,
) -> tuple[str, Iterable[_Stored]]:
    """Layout and stored elements behind a place, in their order."""
    if kind in _PLAIN:
        return "packed", [] if after else [("0", None, text)]
    if kind == "multiset":
        return _history(view, name, key_group, key, text, after)
    header, lines = read_collection(text)
    if not (header.is_spread or lines):
        raise StateCorrupt("a packed collection is empty", hint=_CUT_OFF)
    layout = "spread" if header.is_spread else "packed"
    lines = own_stamps(header, lines, b"\n" if kind == "list" else b"\t")
    if kind == "sorted_map":
        if header.is_spread:
            # A place is how its member begins; nothing of the element sorts behind 0xff.
            minimum = b"(%b\t%b" % (after.encode(), LAST) if after else b"-"
            order = b"%b:%b:order" % (name, key)
            members = view.fetch([LexRange(key_group, order, minimum, b"+")])[0]
            return layout, map(_of_member, members)
        entries = (entry_of_line(line, at) for at, line in enumerate(lines))
        found = (_of_member(b"\t".join(each)) for each in entries)
        return layout, (each for each in found if each[0] > after)
    if header.is_spread:
        rows: dict[bytes, bytes] = view.fetch([HashScan(key_group, rows_name(name, key))])[0]
        pairs = list(rows.items())
    else:
        pairs = list(_packed_pairs(kind, header.next_number, lines))
    of_kind = _of_list(pairs, after) if kind == "list" else _of_map(pairs, after)
    return layout, of_kind


def _history(
    view: StateView, name: bytes, key_group: int, key: bytes, text: bytes, after: str
) -> tuple[str, Iterable[_Stored]]:
    """Layout and rows of a multiset behind a place."""
    first, *lines = text.split(b"\n")
    header = read_header(first)
    if header.is_spread == bool(lines):
        raise StateCorrupt(
            "a packed history is empty, or lines follow the header of a spread one", hint=_CUT_OFF
        )
    if after and not after.isdecimal():
        return "spread" if header.is_spread else "packed", ()
    last = int(after) if after else 0
    if not header.is_spread:
        entries = iter(read_lines(lines, header.following).items())
        return "packed", _of_history(entries, last)
    names = SpreadNames.of(key, name)
    blocks = _spread_entries(view, names, key_group, header, last // BLOCK_ENTRIES)
    return "spread", _of_history(blocks, last)


def _of_history(entries: Iterator[tuple[int, tuple[int, bytes]]], last: int) -> Iterator[_Stored]:
    for number, (ms, row) in entries:
        if number > last:
            yield str(number), number, stamped(row, ms)


def _spread_entries(
    view: StateView, names: SpreadNames, key_group: int, header: Header, block: int
) -> Iterator[tuple[int, tuple[int, bytes]]]:
    """Entries of a spread history from a block on, some blocks in memory at a time."""
    while True:
        order = SortedRange(key_group, names.order, block, _EVER, _BLOCKS_PER_READ)
        fields = [member for member, _ in view.fetch([order])[0]]
        if not fields:
            return
        numbers = [int(field) for field in fields]
        reads = block_reads(key_group, names.blocks, header.segments, numbers)
        texts = [text for some in view.fetch(reads) for text in some]
        for number, text in zip(numbers, texts, strict=True):
            if text is None:
                raise StateCorrupt("a block of a spread history is missing")
            yield from read_block(number, text, header.following).items()
        block = numbers[-1] + 1


def _packed_pairs(
    kind: str, next_number: int, lines: Sequence[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Fields and elements of packed lines."""
    if kind == "list":
        first = next_number - len(lines)
        yield from ((b"%d" % (first + at), line) for at, line in enumerate(lines))
        return
    for line in lines:
        field, tab, element = line.partition(b"\t")
        if not tab:
            raise StateCorrupt("a line of a packed map has no key")
        yield field, element


def _of_list(pairs: list[tuple[bytes, bytes]], after: str) -> Iterator[_Stored]:
    if after and not after.isdecimal():
        return iter(())
    numbers = sorted((int(field), element) for field, element in pairs)
    last = int(after) if after else -1
    return ((str(number), number, each) for number, each in numbers if number > last)


def _of_map(pairs: list[tuple[bytes, bytes]], after: str) -> Iterator[_Stored]:
    for field, element in sorted(pairs):
        if (place := field.decode()) > after:
            yield place, field, element


def _of_member(member: bytes) -> _Stored:
    key, number, element = entry_of_member(member)
    return f"{key.decode()}\t{number.decode()}", key, element


def _timers(
    view: StateView, name: bytes, key_group: int, key: bytes, after: str, limit: int
) -> StateContent | None:
    """The timers of a key. They are ordered by time, so those of the key group are looked at."""
    members = view.fetch([SortedRange(key_group, name, -_EVER, _EVER)])[0]
    mine = []
    for member, score in members:
        owner, namespace, time_ms = member.split(b"\t")
        place = f"{int(score):020d}\t{namespace.decode()}"
        if owner == key and place > after:
            mine.append(StateElement(place, namespace.decode(), int(time_ms), None, None))
    if not mine:
        return None
    mine.sort(key=lambda each: each.place)
    following = mine[limit - 1].place if len(mine) > limit else None
    return StateContent("timers", "packed", tuple(mine[:limit]), following)


def _json(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise StateCorrupt("a stored element is not JSON") from error
