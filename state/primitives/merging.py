"""Reducing and aggregating state: one element a key, into which each added one is folded.

They are stored as value state is; see `state.primitives.value`.

Source: Flink's ReducingState, AggregatingState and their TTL decorators.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from state.primitives.field_cell import ABSENT, Absent
from state.primitives.value import FieldHandle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.descriptors import AggregatingDescriptor, ReducingDescriptor
    from state.primitives.session import StateSession

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class MergingHandle(FieldHandle, Generic[A]):
    """What reducing and aggregating state share: a value that others are folded into."""

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
            json = self._usable(each)
            if json is not None:
                value = self._codec.decode(json)
                merged = value if merged is None else self._combine(merged, value)
        for each in others:
            each.put(None)
        held.put(None if merged is None else self.written(self._codec.encode(merged), None))


class ReducingHandle(MergingHandle[T], Generic[T]):
    """The reduction of all values added, for each key.

    Characteristics:
        get, add    one field read, once an epoch and key; the reduction is stored when it changed
        stored      one field a key, one entry of the expiry index with TTL; that is written for
                    a key that is new or gone
    """

    def __init__(self, session: StateSession, descriptor: ReducingDescriptor[T]) -> None:
        super().__init__(session, descriptor, descriptor.codec)
        self._reduce = descriptor.reduce

    async def get(self) -> T | None:
        """The reduction; None if nothing was added. Cost: one field, the first time."""
        value: T | Absent = await self._read()
        return None if value is ABSENT else value

    async def add(self, value: T | None) -> None:
        """Fold one more value in; None removes what is there, as in Flink.

        An expired reduction counts as absent, or is gone on from where reads show what is expired.
        Cost: one field, the first time.
        """
        if value is None:
            self.cell().put(None)
            return
        cell = await self.loaded()
        old: T | Absent = cell.ready
        if old is None:
            old = self._value_of(cell, self._usable)
        else:
            cell.ready = None
        reduced = value if old is ABSENT else self._reduce(old, value)
        self._put(cell, reduced)

    def _combine(self, one: T, other: T) -> T:
        return self._reduce(one, other)


class AggregatingHandle(MergingHandle[A], Generic[T, A, R]):
    """The aggregate of all values added, for each key; an accumulator is what is stored.

    Characteristics:
        get, add    one field read, once an epoch and key; the accumulator is stored when it changed
        stored      one field a key, one entry of the expiry index with TTL; that is written for
                    a key that is new or gone
    """

    def __init__(self, session: StateSession, descriptor: AggregatingDescriptor[T, A, R]) -> None:
        super().__init__(session, descriptor, descriptor.codec)
        self._aggregator = descriptor.aggregator

    async def get(self) -> R | None:
        """The result; None if nothing was added. Cost: one field, the first time."""
        accumulator: A | Absent = await self._read()
        return None if accumulator is ABSENT else self._aggregator.get_result(accumulator)

    async def add(self, value: T | None) -> None:
        """Add one more value; None removes what is there, as in Flink.

        An expired accumulator counts as absent, or is gone on from where reads show what is
        expired. Cost: one field, the first time.
        """
        if value is None:
            self.cell().put(None)
            return
        cell = await self.loaded()
        old: A | Absent = cell.ready
        if old is None:
            old = self._value_of(cell, self._usable)
        else:
            cell.ready = None
        aggregator = self._aggregator
        held = aggregator.create_accumulator() if old is ABSENT else old
        added = aggregator.add(value, held)
        self._put(cell, added)

    def _combine(self, one: A, other: A) -> A:
        return self._aggregator.merge(one, other)
