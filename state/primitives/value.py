"""Value, reducing and aggregating state: one element a key.

What is stored is one field of the hash that all keys of a state share, so whatever an epoch needs
is one read and whatever it changed is one write. An access that need not know what is there, a
plain update, does not look.

    hash <state>                 key -> element
    sorted set <state>:expiry    key, scored by the element's stamp; only with TTL

Source: Flink's ValueState, ReducingState, AggregatingState and their TTL decorators.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from state.backends.interface import HashGet
from state.primitives.cells import UNKNOWN, Cell, Element, StateHandle
from state.ttl import unstamped

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.descriptors import (
        AggregatingDescriptor,
        Codec,
        ReducingDescriptor,
        ValueDescriptor,
    )
    from state.primitives.cells import Unknown, WriteBatch
    from state.primitives.session import StateSession

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class FieldCell(Cell):
    """One element, in the field of its key."""

    __slots__ = ("_handle", "element", "loaded", "stored")

    def __init__(self, handle: FieldHandle, key: bytes, key_group: int) -> None:
        # Not by the class above: an epoch makes one of these for each key that it touches.
        self.key = key
        self.key_group = key_group
        self.is_loaded = False
        self.indexed_ms = None
        self._handle = handle
        self.stored: bytes | Unknown | None = None
        """The text of the field, None if there is none."""
        self.element: Element | None = None
        self.loaded: Element | None = None
        """The element as it was loaded."""

    @property
    def reads(self) -> Sequence[Read]:
        """The field."""
        return (HashGet(self.key_group, self._handle.state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load, unless it is settled."""
        ((text,),) = replies
        self.load(text)

    def load(self, text: bytes | None) -> None:
        """Load from the field, unless it is settled."""
        if self.is_loaded:
            return
        if text is not None:
            element = self.element = self.loaded = unstamped(text)
            self.indexed_ms = element[0]
        self.stored = text
        self.is_loaded = True

    def put(self, element: Element | None) -> None:
        """Set or remove the element; a cell that was not loaded needs no load any more."""
        if not self.is_loaded:
            self.is_loaded = True
            self.stored = self.indexed_ms = UNKNOWN
        self.element = element

    def write(self, batch: WriteBatch) -> None:
        """The field, if it differs or if what is stored is not known."""
        element = self.element
        if element is self.loaded and self.stored is not UNKNOWN:
            return
        text = element and self._handle.text_of(element)
        if text == self.stored:
            return
        if text is None:
            batch.delete(self.key_group, self._handle.state, self.key)
        else:
            batch.put(self.key_group, self._handle.state, self.key, text)

    def oldest_ms(self) -> int | None:
        """The element's stamp."""
        return self.element and self.element[0]

    async def clean(self, elements_max: int) -> int:
        """Remove the element if it is expired."""
        if not self.is_loaded:
            await self._handle.answered(self)
        if self.element is None or not self._handle.is_expired(self.element) or not elements_max:
            return 0
        self.element = None
        return 1


class FieldHandle(StateHandle[FieldCell]):
    """What the states of one element a key share."""

    def new_cell(self, key: bytes, key_group: int) -> FieldCell:
        """A cell that knows nothing yet."""
        return FieldCell(self, key, key_group)

    def write_all(self, cells: Iterable[FieldCell], batch: WriteBatch) -> None:
        """Give what must be stored of all cells, as `FieldCell.write`."""
        if self.may_have_stamps:
            super().write_all(cells, batch)
            return
        # Without stamps an element is its JSON, and all of a key group's go into one list.
        puts: dict[int, list[bytes]] = {}
        for cell in cells:
            element = cell.element
            if element is cell.loaded and cell.stored is not UNKNOWN:
                continue
            text = None if element is None else element[1]
            if text == cell.stored:
                continue
            if text is None:
                batch.delete(cell.key_group, self.state, cell.key)
                continue
            mine = puts.get(cell.key_group)
            if mine is None:
                mine = puts[cell.key_group] = batch.puts_of(cell.key_group, self.state)
            mine += (cell.key, text)

    async def clear(self) -> None:
        """Remove the element. Cost: none; it is removed unseen."""
        self.cell().put(None)

    async def _read(self) -> bytes | None:
        """The element's JSON as a read of now shows it, by the rules of TTL."""
        return self._shown(await self.loaded())

    def _shown(self, cell: FieldCell) -> bytes | None:
        element = cell.element
        if element is None:
            return None
        if not self.rules.is_enabled:
            return element[1]
        if self.is_expired(element):
            cell.put(None)
            return element[1] if self.rules.shows_expired else None
        cell.element = self.refreshed(element)
        return element[1]

    def _usable(self, element: Element | None) -> Element | None:
        """What an addition goes on from: an expired element only where reads would show it."""
        if element is not None and self.is_expired(element) and not self.rules.shows_expired:
            return None
        return element


class ValueHandle(FieldHandle, Generic[T]):
    """One value a key.

    Characteristics:
        value     one field read, once an epoch and key; nothing written but by TTL
        update    nothing read; with ON_CREATE as `value`
        stored    one field a key, one entry of the expiry index with TTL
    """

    descriptor: ValueDescriptor[T]

    def __init__(self, session: StateSession, descriptor: ValueDescriptor[T]) -> None:
        super().__init__(session, descriptor)
        self._codec = descriptor.codec

    async def value(self) -> T | None:
        """The current value; None if there is none. Cost: one field, the first time."""
        # What is there already is answered without another coroutine.
        cell = self.cells.get(self.session.stored_key)
        if cell is None or not cell.is_loaded:
            cell = await self.loaded()
        else:
            self.accesses += 1
        json = self._shown(cell)
        return None if json is None else self._codec.decode(json)

    async def update(self, value: T | None) -> None:
        """Set the value; None removes it. Cost: none, but with ON_CREATE as `value`."""
        if value is None:
            self.cell().put(None)
            return
        json = self._codec.encode(value)
        cell = (await self.loaded()) if self._keeps_creation else self.cell()
        cell.put(self.written(json, cell.element))


class MergingHandle(FieldHandle, Generic[A]):
    """What reducing and aggregating state share: a value that others are folded into."""

    _codec: Codec[A]

    @abstractmethod
    def _combine(self, one: A, other: A) -> A:
        """Two values in one, the older one first."""

    async def merge_namespaces(self, target: bytes, sources: Sequence[bytes]) -> None:
        """Fold the values of source namespaces of the current key into one, and remove them.

        An expired value counts as absent, or as it is where reads show what is expired. The result
        has the stamp of now; the target's own value comes first. Where no source holds anything,
        nothing changes.

        Cost: one round trip, one field for each namespace that was not loaded.

        Source: Flink's InternalMergingState and AbstractHeapMergingState.
        """
        held, *others = await self.loaded_namespaces((target, *sources))
        if all(each.element is None for each in others):
            return
        merged: A | None = None
        for each in (held, *others):
            element = self._usable(each.element)
            if element is not None:
                value = self._codec.decode(element[1])
                merged = value if merged is None else self._combine(merged, value)
        for each in others:
            each.put(None)
        held.put(None if merged is None else self.written(self._codec.encode(merged), None))


class ReducingHandle(MergingHandle[T], Generic[T]):
    """The reduction of all values added, for each key.

    Characteristics:
        get, add    one field read, once an epoch and key; the reduction is stored when it changed
        stored      one field a key, one entry of the expiry index with TTL
    """

    def __init__(self, session: StateSession, descriptor: ReducingDescriptor[T]) -> None:
        super().__init__(session, descriptor)
        self._codec = descriptor.codec
        self._reduce = descriptor.reduce

    async def get(self) -> T | None:
        """The reduction; None if nothing was added. Cost: one field, the first time."""
        json = await self._read()
        return None if json is None else self._codec.decode(json)

    async def add(self, value: T | None) -> None:
        """Fold one more value in; None removes what is there, as in Flink.

        An expired reduction counts as absent, or is gone on from where reads show what is expired.
        Cost: one field, the first time.
        """
        if value is None:
            self.cell().put(None)
            return
        cell = await self.loaded()
        old = self._usable(cell.element)
        reduced = value if old is None else self._reduce(self._codec.decode(old[1]), value)
        cell.put(self.written(self._codec.encode(reduced), cell.element))

    def _combine(self, one: T, other: T) -> T:
        return self._reduce(one, other)


class AggregatingHandle(MergingHandle[A], Generic[T, A, R]):
    """The aggregate of all values added, for each key; an accumulator is what is stored.

    Characteristics:
        get, add    one field read, once an epoch and key; the accumulator is stored when it changed
        stored      one field a key, one entry of the expiry index with TTL
    """

    def __init__(self, session: StateSession, descriptor: AggregatingDescriptor[T, A, R]) -> None:
        super().__init__(session, descriptor)
        self._codec = descriptor.codec
        self._aggregator = descriptor.aggregator

    async def get(self) -> R | None:
        """The result; None if nothing was added. Cost: one field, the first time."""
        json = await self._read()
        if json is None:
            return None
        return self._aggregator.get_result(self._codec.decode(json))

    async def add(self, value: T | None) -> None:
        """Add one more value; None removes what is there, as in Flink.

        An expired accumulator counts as absent, or is gone on from where reads show what is
        expired. Cost: one field, the first time.
        """
        if value is None:
            self.cell().put(None)
            return
        cell = await self.loaded()
        old = self._usable(cell.element)
        aggregator = self._aggregator
        held = aggregator.create_accumulator() if old is None else self._codec.decode(old[1])
        added = aggregator.add(value, held)
        cell.put(self.written(self._codec.encode(added), cell.element))

    def _combine(self, one: A, other: A) -> A:
        return self._aggregator.merge(one, other)
