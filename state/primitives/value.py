"""Value state, and what it shares with reducing and aggregating state: one element a key.

What is stored is one field of the hash that all keys of a state share, so whatever an epoch needs
is one read and whatever it changed is one write. An access that need not know what is there, a
plain update, does not look.

    hash <state>                 key -> element
    sorted set <state>:expiry    key, scored by the element's stamp or an older one; only with TTL

Source: Flink's ValueState and TtlValueState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from state.descriptors import encodes_behind
from state.errors import StateCorrupt
from state.primitives.field_cell import ABSENT, Absent, FieldCell, Loads
from state.primitives.handle import StateHandle
from state.primitives.many_values import ManyValues
from state.ttl import STAMP_SIZE, is_usual_stamp, stamp_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state.descriptors import Codec, StateDescriptor, ValueDescriptor
    from state.execution.requests import Request
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch
    from state.ttl import TtlClock

T = TypeVar("T")

_AT_ONCE_MIN: Final = 8
"""From so many on, elements are looked at together."""
_BETWEEN: Final = b",\n"
"""Between the JSON of elements that are decoded at once. A line break ends no string, so that one
that was cut off cannot take its neighbour in."""
_BEFORE_STAMP: Final = b"\x01"
"""Before the stamp of each element that is to be decoded with others. No JSON has it anywhere: it
stays before an element without that stamp, which is so never taken for one with it."""
_OVER_STAMP: Final = _BETWEEN.ljust(len(_BEFORE_STAMP) + STAMP_SIZE)
"""What is between elements, as long as what it takes the place of: so it is one pass."""
_INDENTED: Final = b"[  "
"""Opens an array of elements with that between them: by its two blanks orjson takes the text for
indented, and then passes blanks in pairs."""
_BLANKED_MAX: Final = 256
"""Of longer elements the JSON is copied out: looking for the next stamp would take more time."""


class FieldHandle(StateHandle[FieldCell]):
    """What the states of one element a key share."""

    def __init__(
        self, session: StateSession, descriptor: StateDescriptor, codec: Codec[Any]
    ) -> None:
        self._codec = codec
        self._loads = Loads(codec)
        self.many: ManyValues | None = None
        """Keys that are read and written many at once, without cells."""
        super().__init__(session, descriptor)

    def new_cell(self, key: bytes, key_group: int) -> FieldCell:
        """A cell that knows nothing yet, or what was loaded of many keys at once."""
        cell = FieldCell(self, key, key_group)
        if self.many is not None:
            self.many.hand_over(cell)
        return cell

    def set_clock(self, clock: TtlClock) -> None:
        """Work out anew what accesses compare with and write; cells must be looked at again."""
        if self.many is not None:
            # What was judged by the clock before gets cells.
            for key, key_group in self.many.keys:
                self.cell_of(key, key_group)
        self._loads.set_clock(self.cells.values())
        super().set_clock(clock)
        codec = self._codec
        self._encode_behind = (
            codec.encode_behind if self.has_usual_stamps and encodes_behind(codec) else None
        )
        for cell in self.cells.values():
            cell.judge_again()

    def unknown(self, key_group: int, keys: Iterable[bytes]) -> list[bytes]:
        """See `StateHandle.unknown`; clean-up looks at cells, so keys without one get it."""
        asked = [*keys]
        if self.many is not None:
            for key in asked:
                if key in self.many:
                    self.cell_of(key, key_group)
        return super().unknown(key_group, asked)

    def write_cleaned(self, batch: WriteBatch) -> None:
        """See `StateHandle.write_cleaned`; and what was written without cells."""
        super().write_cleaned(batch)
        if self.many is not None:
            self.many.write(batch)

    def close(self) -> None:
        """Let go of all cells, and of what has none."""
        super().close()
        self._loads.close()
        self.many = None

    def load_all(self, cells: Sequence[FieldCell], texts: list[bytes | None]) -> None:
        """Load many cells, unless they are settled; they are looked at when one of them is read."""
        is_looked_at = self.may_have_stamps or self._loads.decode_all is not None
        if is_looked_at and len(cells) >= _AT_ONCE_MIN:
            self._loads.load(self, cells, texts)
            return
        for cell, text in zip(cells, texts, strict=True):
            if not cell.is_loaded:
                cell.is_loaded = True
                cell.stored = text
                if not self.may_have_stamps:
                    cell.plain = text

    def decoded_alike(self, texts: Sequence[bytes]) -> list[Any] | None:
        """The values of stored elements that have one stamp, or none, all read as they are.

        None where a rule of TTL may concern one of them or stamps differ, and where the codec
        cannot do it, or refuses one of them.
        """
        if self._loads.decode_all is None:
            return None
        if not self.may_have_stamps:
            return self._decoded(_array(_BETWEEN, texts), texts)
        head = texts[0][:STAMP_SIZE]
        if len(texts[0]) > _BLANKED_MAX or not self.is_plain_head(head):
            return None
        joined = _array(_BEFORE_STAMP, texts, opening=_INDENTED, before_last=head)
        return self._decoded(joined.replace(_BEFORE_STAMP + head, _OVER_STAMP), texts)

    def decoded_apart(self, texts: Sequence[bytes]) -> list[Any] | None:
        """The same of elements whose stamps may differ."""
        if self._loads.decode_all is None:
            return None
        jsons = [json for json in self.plain_jsons(texts) if json is not None]
        if len(jsons) < len(texts):
            return None
        return self._decoded(_array(_BETWEEN, jsons), texts)

    def _decoded(self, array: bytes, texts: Sequence[bytes]) -> list[Any] | None:
        """The values of an array that has those of texts between two numbers."""
        if self._loads.decode_all is None:
            return None
        try:
            values = self._loads.decode_all(array)
        except StateCorrupt:
            return None
        return values[1:-1] if len(values) == len(texts) + 2 else None

    def is_no_newer(self, head: bytes) -> bool:
        """Whether what begins with a stamp of `STAMP_SIZE` bytes was written now or before."""
        return is_usual_stamp(head) and head <= self.stamp_text

    def write_all(self, cells: Iterable[FieldCell], batch: WriteBatch) -> None:
        """Give what must be stored of all cells, and what the expiry index must be told.

        Where the stored element had a stamp, its key is in the index by a score that is no newer;
        there it stays, unless the new stamp is older still.
        """
        stamp_text, indexes = self.stamp_text, self.may_have_stamps
        asks_each: bool | None = None if indexes else False
        are_newer = False
        puts: dict[int, list[bytes]] = {}
        for cell in cells:
            if not cell.is_put:
                if cell.is_due:
                    cell.write_index(self.expiry, batch)
                continue
            text = cell.put_text
            if text is None and cell.plain is not None:
                text = stamp_text + cell.plain
            if asks_each is None:
                asks_each = not self._all_stay_indexed()
                are_newer = not asks_each and self._loads.are_older()
            # What is newer than all that was loaded differs from it without a look at that.
            if not are_newer or text is None or cell.loaded is None:
                if (
                    indexes
                    and (asks_each or text is None or cell.loaded is None)
                    and not self._stays_indexed(cell, text)
                ):
                    cell.write_index(self.expiry, batch)
                if text == cell.stored:
                    continue
                if text is None:
                    batch.delete(cell.key_group, self.state, cell.key)
                    continue
            mine = puts.get(cell.key_group)
            if mine is None:
                mine = puts[cell.key_group] = batch.puts_of(cell.key_group, self.state)
            mine += (cell.key, text)

    @property
    def _are_puts_alike(self) -> bool:
        """Whether all that was put has the stamp of now."""
        return self.has_usual_stamps and not self._loads.was_set

    def _all_stay_indexed(self) -> bool:
        """Whether the index knows all that was loaded many at once, unless it was removed.

        Then an epoch that writes again what is there asks no key by itself.
        """
        return self._are_puts_alike and not self.cleaned and self._loads.are_indexed()

    def _stays_indexed(self, cell: FieldCell, text: bytes | None) -> bool:
        """Whether the index need not be told of a cell in which this text was put."""
        if text is None or not self._are_puts_alike:
            return False
        if cell.loaded is not None and cell.loaded.look_at_stamps():
            return not cell.is_due
        return cell.stays_indexed()

    def judged(self, text: bytes) -> tuple[int, int | None] | None:
        """Whether the element is expired; see `StateHandle.judged`."""
        stamp_ms = stamp_of(text)
        if stamp_ms is None:
            return None
        return (1, None) if stamp_ms <= self.expired_until_ms else (0, stamp_ms)

    def settle(
        self,
        key_group: int,
        keys: Sequence[bytes],
        texts: Sequence[bytes | None],
        elements_max: int,
    ) -> int:
        """See `StateHandle.settle`; mostly all keys are expired, and their stamps usual."""
        end = self.expired_before
        gone = {
            key: text
            for key, text in zip(keys, texts, strict=True)
            if text is not None and b"@0" <= text < end and text[14:15] == b" "
        }
        if len(gone) < len(keys) or not elements_max:
            return super().settle(key_group, keys, texts, elements_max)
        self.cleaned[key_group].gone.update(gone)
        return len(gone)

    async def clear(self) -> None:
        """Remove the element. Cost: none; it is removed unseen."""
        self.cell().put(None)

    async def _read(self) -> Any:
        """The element as a read of now shows it, by the rules of TTL; `ABSENT`: there is none."""
        # What is there already is answered without another coroutine.
        cell = self.cells.get(self.session.stored_key)
        if cell is None or not cell.is_loaded:
            cell = await self.loaded()
        elif self.accesses is not None:
            self.count_access()
        if (ready := cell.ready) is not None:
            cell.ready = None
            return ready
        return self._value_of(cell, self._shown)

    def _value_of(self, cell: FieldCell, look: Callable[[FieldCell], bytes | None]) -> Any:
        """The value of a loaded cell; `ABSENT`: there is none.

        Args:
            cell: The cell; it has no value ready.
            look: Gives its JSON where that is not known to be read as it is.
        """
        json = cell.plain
        if json is None:
            if cell.loaded is not None and cell.loaded.read():
                ready, cell.ready = cell.ready, None
                if ready is not None:
                    return ready
            json = cell.plain or look(cell)
            if json is None:
                return ABSENT
        return self._codec.decode(json)

    def _plain(self, cell: FieldCell) -> bytes | None:
        """The element's JSON, if a read takes it as it is."""
        if cell.plain is None and isinstance(text := cell.text, bytes):
            cell.plain = self.plain_json(text)
        return cell.plain

    def _shown(self, cell: FieldCell) -> bytes | None:
        """The element's JSON, where it is not known to be read as it is."""
        if (plain := self._plain(cell)) is not None:
            return plain
        element = cell.element
        if element is None:
            return None
        if not self.rules.is_enabled:
            cell.plain = element[1]
        elif self.is_expired(element):
            cell.put(None)
            return element[1] if self.rules.shows_expired else None
        else:
            again = self.refreshed(element)
            if again is not element:
                cell.put(again)
            cell.plain = None if self._is_timed_by_records else element[1]
        return element[1]

    def _put(self, cell: FieldCell, value: object) -> None:
        """Set the element of a cell by an access of now; with ON_CREATE it is loaded."""
        encode_behind = self._encode_behind
        # What is put again and again is read in between: its stamp comes before it once.
        if encode_behind is not None and not cell.is_put:
            cell.put_now(None, encode_behind(self.stamp_text, value))
        elif self.writes_plain:
            cell.put_now(self._codec.encode(value), None)
        else:
            old = cell.element if self._keeps_creation else None
            cell.put(self.written(self._codec.encode(value), old))

    def _put_json(self, cell: FieldCell, json: bytes) -> None:
        """The same with a value's JSON."""
        if self.writes_plain:
            cell.put_now(json, None)
        else:
            cell.put(self.written(json, cell.element if self._keeps_creation else None))

    def _usable(self, cell: FieldCell) -> bytes | None:
        """The JSON that an addition goes on from: what is expired only where reads show it."""
        if (plain := self._plain(cell)) is not None:
            return plain
        element = cell.element
        if element is None or (self.is_expired(element) and not self.rules.shows_expired):
            return None
        return element[1]


class ValueHandle(FieldHandle, Generic[T]):
    """One value a key.

    Characteristics:
        value     one field read, once an epoch and key; nothing written but by TTL
        update    nothing read; with ON_CREATE as `value`
        stored    one field a key, one entry of the expiry index with TTL; that is written for a
                  key that is new or gone, and for an update that did not look
    """

    descriptor: ValueDescriptor[T]

    def __init__(self, session: StateSession, descriptor: ValueDescriptor[T]) -> None:
        super().__init__(session, descriptor, descriptor.codec)

    def loads_at_once(self, keys: Sequence[tuple[bytes, int]]) -> list[Request] | None:
        """See `StateHandle.loads_at_once`; not where reads write, or accesses pay for clean-up."""
        is_known = self.cells or self.cleaned or self.many is not None
        if is_known or self.accesses is not None or not self._has_plain_elements:
            return None
        self.many = ManyValues(self, keys)
        return self.many.loads()

    @property
    def _has_plain_elements(self) -> bool:
        """Whether elements have no stamp and need none, or most may be read as they are."""
        if self.may_have_stamps:
            return self.has_usual_stamps and not self.rules.refreshes_on_read
        return self.rules.enabled_ms is None

    async def value(self) -> T | None:
        """The current value; None if there is none. Cost: one field, the first time."""
        # As `_read`: one coroutine less.
        cell = self.cells.get(self.session.stored_key)
        if cell is None or not cell.is_loaded:
            cell = await self.loaded()
        elif self.accesses is not None:
            self.count_access()
        if (ready := cell.ready) is not None:
            cell.ready = None
        else:
            ready = self._value_of(cell, self._shown)
        value: T | Absent = ready
        return None if value is ABSENT else value

    async def update(self, value: T | None) -> None:
        """Set the value; None removes it. Cost: none, but with ON_CREATE as `value`."""
        if value is None:
            self.cell().put(None)
            return
        self._put((await self.loaded()) if self._keeps_creation else self.cell(), value)

    def read_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """What `value` shows of many stored keys, as JSON; all of them are loaded. Cost: none."""
        if self.many is not None:
            if not self.cells:
                return self.many.read(keys)
            without = [key for key in keys if key not in self.cells]
            jsons = dict(zip(without, self.many.read(without), strict=True))
            beside = [key for key in keys if key in self.cells]
            jsons.update(zip(beside, self._read_cells(beside), strict=True))
            return [jsons[key] for key in keys]
        return self._read_cells(keys)

    def _read_cells(self, keys: Sequence[bytes]) -> list[bytes | None]:
        cells = [self.cells[key] for key in keys]
        self._count(cells)
        return [each.plain or self._shown(each) for each in cells]

    def write_all_json(self, keys: Sequence[bytes], jsons: Iterable[bytes]) -> None:
        """As `update` of each of these stored keys, which are loaded. Cost: none."""
        self._write_all(keys, jsons)

    def clear_all(self, keys: Sequence[bytes]) -> None:
        """As `clear` of each of these stored keys, which are loaded. Cost: none."""
        self._write_all(keys, [None] * len(keys))

    def _write_all(self, keys: Sequence[bytes], jsons: Iterable[bytes | None]) -> None:
        if self.many is not None and not self.cells:
            self.many.put(keys, jsons)
            return
        if self.many is not None:
            pairs = [*zip(keys, jsons, strict=True)]
            without = [(key, json) for key, json in pairs if key not in self.cells]
            self.many.put([key for key, _ in without], [json for _, json in without])
            pairs = [(key, json) for key, json in pairs if key in self.cells]
            keys, jsons = [key for key, _ in pairs], [json for _, json in pairs]
        cells = [self.cells[key] for key in keys]
        self._count(cells)
        for cell, json in zip(cells, jsons, strict=True):
            if json is None:
                cell.put(None)
            else:
                self._put_json(cell, json)

    def _count(self, cells: Sequence[FieldCell]) -> None:
        """Note an access to each."""
        if self.accesses is not None:
            self.accesses.update(each.key_group for each in cells)


def _array(
    between: bytes, texts: Sequence[bytes], *, opening: bytes = b"[", before_last: bytes = b""
) -> bytes:
    """An array of texts between two numbers; no step but the joining meets each of them."""
    joined = between.join(texts)
    return b"".join((opening, b"0", between, joined, between, before_last, b"0]"))
