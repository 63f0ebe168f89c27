"""Value state, and what it shares with reducing and aggregating state: one element a key.

What is stored is one field of the hash that all keys of a state share, so whatever an epoch needs
is one read and whatever it changed is one write. An access that need not know what is there, a
plain update, does not look.

    hash <state>                 key -> element
    sorted set <state>:expiry    key, scored by the element's stamp or an older one; only with TTL

Source: Flink's ValueState and TtlValueState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar

from state.backends.interface import HashGet
from state.primitives.cells import UNKNOWN, Cell, Element
from state.primitives.handle import StateHandle
from state.primitives.many_values import ManyValues
from state.ttl import STAMP_SIZE, stamp_of, stamped, unstamped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.descriptors import (
        StateDescriptor,
        ValueDescriptor,
    )
    from state.execution.requests import Request
    from state.primitives.cells import MaybeKnown, Unknown
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch
    from state.ttl import TtlClock

T = TypeVar("T")

_STAMP_END: Final = STAMP_SIZE - 1
"""Where the space behind a usual stamp is."""
_SPACE: Final = ord(" ")


def _are_all_there(texts: Sequence[bytes | None]) -> TypeGuard[Sequence[bytes]]:
    return None not in texts


class FieldCell(Cell):
    """One element, in the field of its key."""

    __slots__ = ("_handle", "is_put", "plain", "put_element", "stored")

    def __init__(self, handle: FieldHandle, key: bytes, key_group: int) -> None:
        # Not by the class above: an epoch makes one of these for each key that it touches.
        self.key = key
        self.key_group = key_group
        self.is_loaded = self.is_due = self.is_put = False
        self._handle = handle
        self.stored: bytes | Unknown | None = None
        """The text of the field, None if there is none."""
        self.plain: bytes | None = None
        """The JSON that a read takes as it is; None: it must be looked at, or there is none."""
        self.put_element: Element | None = None
        """What was put."""

    @property
    def reads(self) -> Sequence[Read]:
        """The field."""
        return (HashGet(self.key_group, self._handle.state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load, unless it is settled."""
        ((text,),) = replies
        self._handle.load_all((self,), (text,))

    @property
    def element(self) -> Element | None:
        """What it holds now; stored text is taken apart only here, where a rule asks for it."""
        if self.is_put:
            return self.put_element
        text = self.stored
        return unstamped(text) if isinstance(text, bytes) else None

    def put(self, element: Element | None) -> None:
        """Set or remove the element; a cell that was not loaded needs no load any more."""
        if not self.is_loaded:
            self.is_loaded = True
            self.stored = UNKNOWN
        self.is_put = True
        self.put_element = element
        self.plain = None

    def write(self, batch: WriteBatch) -> None:
        """The field, if it differs or if what is stored is not known."""
        self._handle.write_all((self,), batch)

    def oldest_ms(self) -> int | None:
        """The element's stamp."""
        element = self.element
        return element and element[0]

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        stored = self.stored
        return self.oldest_ms(), stamp_of(stored) if isinstance(stored, bytes) else stored

    def empty(self) -> None:
        """Remove the element."""
        self.put(None)

    def judge_again(self) -> None:
        """Whether the element lives must be looked at again."""
        if self._handle.may_have_stamps:
            self.plain = None

    async def clean(self, elements_max: int) -> int:
        """Remove the element if it is expired."""
        if not self.is_loaded:
            await self._handle.answered(self)
        element = self.element
        if element is None or not self._handle.is_expired(element) or not elements_max:
            return 0
        self.put(None)
        return 1


class FieldHandle(StateHandle[FieldCell]):
    """What the states of one element a key share."""

    def __init__(self, session: StateSession, descriptor: StateDescriptor) -> None:
        self._unjudged: list[tuple[Sequence[FieldCell], Sequence[bytes]]] = []
        """Cells that were loaded, and their texts, which were not looked at."""
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
        super().set_clock(clock)
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
        self._unjudged = []
        self.many = None

    def load_all(self, cells: Sequence[FieldCell], texts: Sequence[bytes | None]) -> None:
        """Load many cells, unless they are settled; they are judged when one of them is read."""
        if not self.may_have_stamps:
            for cell, text in zip(cells, texts, strict=True):
                if not cell.is_loaded:
                    cell.is_loaded = True
                    cell.stored = cell.plain = text
            return
        are_new = True
        for cell, text in zip(cells, texts, strict=True):
            if cell.is_loaded:
                are_new = False
            else:
                cell.is_loaded = True
                cell.stored = text
        if are_new and _are_all_there(texts):
            self._unjudged.append((cells, texts))
            return
        held = [
            (cell, text)
            for cell, text in zip(cells, texts, strict=True)
            if text is not None and cell.stored is text
        ]
        self._unjudged.append(([cell for cell, _ in held], [text for _, text in held]))

    def _judge_loaded(self) -> None:
        """Know of what was loaded whether a read takes it as it is: of all that came at once.

        An epoch that only writes never asks.
        """
        unjudged, self._unjudged = self._unjudged, []
        for cells, texts in unjudged:
            for cell, plain in zip(cells, self.plain_jsons(texts), strict=True):
                if not cell.is_put:
                    cell.plain = plain

    def write_all(self, cells: Iterable[FieldCell], batch: WriteBatch) -> None:
        """Give what must be stored of all cells, and what the expiry index must be told.

        Where the stored element had a stamp, its key is in the index by a score that is no newer;
        there it stays, unless the new stamp is older still.
        """
        stamp_ms, stamp_text = self.stamp_ms, self.stamp_text
        # Usual stamps up to that of now are between these, as is whatever stands behind one.
        oldest, newest = (b"@", stamp_text[:-1] + b"!") if self.has_usual_stamps else (b"", b"")
        puts: dict[int, list[bytes]] = {}
        for cell in cells:
            if not cell.is_put:
                if cell.is_due:
                    cell.write_index(self.expiry, batch)
                continue
            element, stored = cell.put_element, cell.stored
            if element is None:
                text, stays_indexed = None, False
            elif element[0] == stamp_ms:
                text = stamp_text + element[1]
                stays_indexed = (
                    isinstance(stored, bytes)
                    and oldest < stored < newest
                    and len(stored) > _STAMP_END
                    and stored[_STAMP_END] == _SPACE
                    and not cell.is_due
                )
            else:
                text, stays_indexed = stamped(element[1], element[0]), False
            if not stays_indexed and self.may_have_stamps:
                cell.write_index(self.expiry, batch)
            if text == stored:
                continue
            if text is None:
                batch.delete(cell.key_group, self.state, cell.key)
                continue
            mine = puts.get(cell.key_group)
            if mine is None:
                mine = puts[cell.key_group] = batch.puts_of(cell.key_group, self.state)
            mine += (cell.key, text)

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
            if text is not None and b"@" < text < end and text[14:15] == b" "
        }
        if len(gone) < len(keys) or not elements_max:
            return super().settle(key_group, keys, texts, elements_max)
        self.cleaned[key_group].gone.update(gone)
        return len(gone)

    async def clear(self) -> None:
        """Remove the element. Cost: none; it is removed unseen."""
        self.cell().put(None)

    async def _read(self) -> bytes | None:
        """The element's JSON as a read of now shows it, by the rules of TTL."""
        cell = self.cells.get(self.session.stored_key)
        if cell is None or not cell.is_loaded:
            cell = await self.loaded()
        elif self.accesses is not None:
            self.count_access()
        return cell.plain or self._shown(cell)

    def _shown(self, cell: FieldCell) -> bytes | None:
        """The element's JSON, where it is not known to be read as it is."""
        if self._unjudged:
            self._judge_loaded()
            if cell.plain is not None:
                return cell.plain
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

    def _put(self, cell: FieldCell, json: bytes) -> None:
        """Set the element of a loaded cell by an access of now."""
        if self._writes_alike:
            cell.put((self.stamp_ms, json))
        else:
            cell.put(self.written(json, cell.element if self._keeps_creation else None))
        if self.writes_plain:
            cell.plain = json

    def _usable(self, cell: FieldCell) -> bytes | None:
        """The JSON that an addition goes on from: what is expired only where reads show it."""
        if self._unjudged:
            self._judge_loaded()
        if cell.plain is not None:
            return cell.plain
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
        super().__init__(session, descriptor)
        self._codec = descriptor.codec

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
        # What is there already is answered without another coroutine.
        cell = self.cells.get(self.session.stored_key)
        if cell is None or not cell.is_loaded:
            cell = await self.loaded()
        elif self.accesses is not None:
            self.count_access()
        json = cell.plain or self._shown(cell)
        return None if json is None else self._codec.decode(json)

    async def update(self, value: T | None) -> None:
        """Set the value; None removes it. Cost: none, but with ON_CREATE as `value`."""
        if value is None:
            self.cell().put(None)
            return
        json = self._codec.encode(value)
        self._put((await self.loaded()) if self._keeps_creation else self.cell(), json)

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
                self._put(cell, json)

    def _count(self, cells: Sequence[FieldCell]) -> None:
        """Note an access to each."""
        if self.accesses is not None:
            self.accesses.update(each.key_group for each in cells)
