"""The maps of many keys in one go, by what is stored of each: no cell, no handle's call a key.

For operators that know at once which keys they look at and what becomes of their entries. Where an
operation on a cell takes a map apart, entry by entry, and puts it together again, this looks for
fields in the stored text and lays new lines between those that stand there. What is stored then is
what the operations of `MapHandle` leave. Only for states without stamps: a TTL is about each entry.

    maps = ManyMaps(handle, keys, key_groups)
    session.execute(maps.first_loads())
    session.execute(maps.more(whole=(3,), fields={5: [b"[7]"]}))
    maps.change(5, maps.held(5, [b"[7]"]), {b"[7]": b"1"})
"""

from __future__ import annotations

from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Any, NamedTuple

from state.backends.interface import HashGet, HashScan
from state.errors import InvariantViolation, StateCorrupt
from state.execution.requests import OneRead
from state.primitives.layout import (
    Header,
    packed_header,
    packed_text,
    read_collection,
    rows_name,
    spread_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.execution.requests import Request
    from state.primitives.maps import MapHandle
    from state.primitives.write_batch import WriteBatch


class Entries(NamedTuple):
    """All entries of some maps, one map behind the other; those of a map by their fields' bytes."""

    fields: list[bytes]
    """User keys."""
    values: list[bytes]
    """As they are stored."""
    counts: list[int]
    """How many each map has."""


class ManyMaps:
    """Maps of one state, by the numbers of their keys.

    Characteristics:
        first_loads   one field a key; shares a round trip with whatever is executed with it
        more          of spread maps only: the fields that are asked for, or all
        held          a search of a packed map's text for each field
        change        a packed map is written as a whole, of a spread one what changes
    """

    def __init__(
        self, handle: MapHandle[Any, Any], keys: Sequence[bytes], key_groups: Sequence[int]
    ) -> None:
        """Begin; the handle writes what is changed here together with its cells.

        Args:
            handle: Of the state; none of these keys has a cell.
            keys: Stored keys, each once.
            key_groups: Of each.
        """
        if handle.may_have_stamps:
            raise InvariantViolation(f"{handle.descriptor.name} may have stamps")
        self._handle = handle
        self._keys = keys
        self._key_groups = key_groups
        self._stored: list[bytes | None] = [None] * len(keys)
        self._spread: dict[int, Header] = {}
        self._known: dict[int, dict[bytes, bytes | None]] = {}
        """Of spread maps: what was read of them."""
        self._texts: dict[int, bytes | None] = {}
        """What becomes of the keys' fields; None: they go."""
        self._rows: dict[int, tuple[list[bytes], list[bytes]]] = {}
        """What is put into spread maps, `[field, value, ...]`, and what goes from them."""
        handle.many.append(self)

    @property
    def refused(self) -> set[int]:
        """Maps that cannot be looked at or changed here, once all are loaded."""
        return set()

    def first_loads(self) -> list[Request]:
        """Requests for the packed texts and headers: one a key group."""
        groups: dict[int, list[int]] = {}
        for number, key_group in enumerate(self._key_groups):
            groups.setdefault(key_group, []).append(number)
        state, keys = self._handle.state, self._keys
        return [
            OneRead(
                HashGet(key_group, state, [keys[each] for each in numbers]),
                partial(self.take, numbers),
            )
            for key_group, numbers in groups.items()
        ]

    def take(self, numbers: Sequence[int], texts: Sequence[bytes | None]) -> None:
        """Have the stored texts of some keys.

        Raises:
            StateCorrupt, FormatVersionMismatch: One cannot be read.
        """
        for number, text in zip(numbers, texts, strict=True):
            self._stored[number] = text
            packed = None if text is None else packed_header(text)
            if text is None or (packed is not None and packed.oldest_ms is None):
                continue
            header, _ = read_collection(text)
            if not header.is_spread:
                raise StateCorrupt("a map of a state without TTL has a stamp")
            self._spread[number] = header

    def more(self, whole: Iterable[int], fields: Mapping[int, Sequence[bytes]]) -> list[Request]:
        """Requests for entries of spread maps; of a packed one, all are known.

        Args:
            whole: Maps of which all entries are wanted.
            fields: By map, the fields that `held` is to be asked for; not of those in `whole`.
        """
        if not self._spread:
            return []
        state, keys, groups = self._handle.state, self._keys, self._key_groups
        found: list[Request] = [
            OneRead(
                HashScan(groups[each], rows_name(state, keys[each])), partial(self._know_all, each)
            )
            for each in whole
            if each in self._spread
        ]
        found += [
            OneRead(
                HashGet(groups[each], rows_name(state, keys[each]), wanted),
                partial(self._know, each, wanted),
            )
            for each, wanted in fields.items()
            if each in self._spread
        ]
        return found

    def _know_all(self, number: int, entries: Mapping[bytes, bytes]) -> None:
        """Have all entries of a spread map; refuse more or fewer than its header says."""
        size = self._spread[number].size
        if len(entries) != size:
            raise StateCorrupt(
                f"a spread collection has {len(entries)} elements, its header says {size}"
            )
        self._known.setdefault(number, {}).update(entries)

    def _know(self, number: int, fields: Sequence[bytes], texts: Sequence[bytes | None]) -> None:
        """Have some entries of a spread map."""
        self._known.setdefault(number, {}).update(zip(fields, texts, strict=True))

    def size_if_spread(self, number: int) -> int | None:
        """How many entries a spread map has; None: it is packed."""
        header = self._spread.get(number)
        return None if header is None else header.size

    @property
    def packs_at(self) -> int:
        """A spread map with so many entries, or fewer, is packed: that is not done here."""
        return self._handle.thresholds.low

    def entries(self, numbers: Iterable[int]) -> Entries:
        """All entries of these maps.

        Raises:
            StateCorrupt: What is stored is no map.
        """
        bodies: list[bytes] = []
        counts: list[int] = []
        for number in numbers:
            lines = self._lines(number)
            counts.append(len(lines))
            bodies += lines
        if not bodies:
            return Entries([], [], counts)
        words = _words(bodies)
        fields, values = words[0::2], words[1::2]
        if any(map(eq, fields, fields[1:])):
            _check_once(fields, counts)
        return Entries(fields, values, counts)

    def held(self, number: int, fields: Sequence[bytes]) -> list[bytes | None]:
        """The values of fields, in order; of a spread map they were asked for by `more`."""
        if number in self._spread:
            known = self._known[number]
            return [known.get(each) for each in fields]
        text = self._stored[number]
        if text is None:
            return [None] * len(fields)
        sought = [b"\n%b\t" % each for each in fields]
        if not any(map(text.__contains__, sought)):
            return [None] * len(fields)
        return [_value_at(text, text.find(each), len(each)) for each in sought]

    def change(
        self, number: int, held: Mapping[bytes, bytes], values: Mapping[bytes, bytes | None]
    ) -> None:
        """Set and remove entries of a map, once.

        Args:
            number: Which map.
            held: Those of the fields that have values now, with these.
            values: What the fields are to have; None: they go.

        Raises:
            StateCorrupt: It is to be spread, and what is stored is no map.
        """
        if number in self._spread:
            self._change_spread(number, held, values)
            return
        text = self._stored[number]
        lines = [] if text is None else text.split(b"\n")[1:]
        if held:
            gone = {b"%b\t%b" % each for each in held.items()}
            lines = [each for each in lines if each not in gone]
        lines += [b"%b\t%b" % (field, new) for field, new in values.items() if new is not None]
        lines.sort()
        if not lines:
            self._texts[number] = None
        elif len(lines) < self._handle.thresholds.high:
            self._texts[number] = packed_text(0, lines)
        else:
            words = _words(lines)
            self._rows[number] = words, []
            self._texts[number] = spread_text(len(lines), 0, None)

    def give_back(self, number: int) -> None:
        """Let a key have a cell, for operations of the handle."""
        cell = self._handle.cell_of(self._keys[number], self._key_groups[number])
        cell.load(self._stored[number])

    def write(self, batch: WriteBatch) -> None:
        """Give what must be stored: only what differs from what is."""
        state, keys = self._handle.state, self._keys
        for number in sorted(self._texts, key=keys.__getitem__):
            key, key_group, text = keys[number], self._key_groups[number], self._texts[number]
            if number in self._rows:
                puts, gone = self._rows[number]
                name = rows_name(state, key)
                batch.put_all(key_group, name, puts)
                batch.delete_all(key_group, name, gone)
            if text == self._stored[number]:
                continue
            if text is None:
                batch.delete(key_group, state, key)
            else:
                batch.put(key_group, state, key, text)

    def _lines(self, number: int) -> list[bytes]:
        """The entries of a map as lines, by their fields."""
        if number in self._spread:
            known = self._known[number]
            found = [(field, value) for field, value in known.items() if value is not None]
            return [b"%b\t%b" % each for each in sorted(found)]
        text = self._stored[number]
        if text is None:
            return []
        lines = text.split(b"\n")
        del lines[0]
        if len(lines) > 1:
            # They stand in order already, so this costs a comparison each.
            lines.sort()
        return lines

    def _change_spread(
        self, number: int, held: Mapping[bytes, bytes], values: Mapping[bytes, bytes | None]
    ) -> None:
        puts: list[bytes] = []
        gone: list[bytes] = []
        size = self._spread[number].size
        for field in sorted(values):
            value, old = values[field], held.get(field)
            if value == old:
                continue
            if value is None:
                gone.append(field)
                size -= 1
            else:
                puts += (field, value)
                size += old is None
        if size <= self.packs_at:
            raise InvariantViolation("a spread map is to be packed, which operations of a key do")
        self._rows[number] = puts, gone
        self._texts[number] = spread_text(size, self._spread[number].next_number, None)


def _words(lines: Sequence[bytes]) -> list[bytes]:
    """The user keys and values of some lines, `[field, value, ...]`.

    Raises:
        StateCorrupt: One has another number of them.
    """
    words = b"\n".join(lines).replace(b"\t", b"\n").split(b"\n")
    if len(words) != 2 * len(lines):
        raise StateCorrupt("a line of a packed map has no user key")
    return words


def _check_once(fields: Sequence[bytes], counts: Sequence[int]) -> None:
    """See that no map has a field twice; maps may share some.

    Raises:
        StateCorrupt: One has.
    """
    start = 0
    for count in counts:
        if len({*fields[start : start + count]}) < count:
            raise StateCorrupt("a packed collection has a field twice")
        start += count


def _value_at(text: bytes, start: int, length: int) -> bytes | None:
    """What stands behind a field that was found at a place, up to the end of its line."""
    if start < 0:
        return None
    end = text.find(b"\n", start + length)
    return text[start + length : end if end >= 0 else len(text)]
