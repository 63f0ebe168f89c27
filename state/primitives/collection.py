"""Many elements a key: what list and map state share, packed and spread.

A short collection is packed: it lies in one field of the state's hash, so all keys of an epoch are
one read. A long one is spread over a hash of its own, so that an access to one element costs the
same however many there are. It is spread when it reaches `high` elements and packed again when it
falls to `low`; the gap keeps one that stands at the border from changing all the time.

`state.primitives.collection_cell` has what an epoch knows of a key.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from state.primitives.cells import Together, write_changed
from state.primitives.collection_cell import CollectionCell
from state.primitives.collection_requests import WholeCollection
from state.primitives.handle import StateHandle
from state.primitives.layout import expired_lines, judged_lines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from state.primitives.write_batch import WriteBatch
    from state.ttl import TtlClock


class CollectionHandle(StateHandle[CollectionCell]):
    """What list and map state share."""

    before_element: ClassVar[bytes]
    """What stands before each element of a packed collection."""

    def new_cell(self, key: bytes, key_group: int) -> CollectionCell:
        """A cell that knows nothing yet."""
        return CollectionCell(self, key, key_group)

    def set_clock(self, clock: TtlClock) -> None:
        """Work out anew what accesses compare with and write; cells must be looked at again."""
        super().set_clock(clock)
        for cell in self.cells.values():
            cell.judge_again()

    def judged(self, text: bytes) -> tuple[int, int | None] | None:
        """Whether all of a packed collection is expired, or nothing; see `StateHandle.judged`."""
        return judged_lines(text, self.before_element, self.expired_until_ms)

    def settle(
        self,
        key_group: int,
        keys: Sequence[bytes],
        texts: Sequence[bytes | None],
        elements_max: int,
    ) -> int:
        """See `StateHandle.settle`; mostly all keys are packed and wholly expired."""
        gone, removed = expired_lines(keys, texts, self.expired_until_ms, elements_max)
        if len(gone) < len(keys):
            return super().settle(key_group, keys, texts, elements_max)
        self.cleaned[key_group].gone.update(gone)
        return removed

    def write_all(self, cells: Iterable[CollectionCell], batch: WriteBatch) -> None:
        """See `write_changed`."""
        write_changed(self, cells, batch)

    @abstractmethod
    def parse(self, next_number: int, lines: Sequence[bytes]) -> dict[bytes, bytes]:
        """The elements of packed lines, as they stand there, by their fields.

        Raises:
            StateCorrupt: A line is none of this kind.
        """

    @abstractmethod
    def lines(self, elements: dict[bytes, bytes]) -> Collection[bytes]:
        """The packed lines of elements."""

    @abstractmethod
    def ordered(self, elements: dict[bytes, bytes]) -> list[bytes]:
        """The fields of elements, in the order of the state."""

    async def is_empty(self) -> bool:
        """Whether nothing is stored: expired elements that were not removed count, as in Flink.

        Cost: one field, the first time.
        """
        return not (await self.loaded()).size

    async def clear(self) -> None:
        """Remove all elements. Cost: one field, the first time, whatever the size."""
        (await self.loaded()).wipe()

    async def whole(self) -> CollectionCell:
        """The cell of the current key with all elements known.

        Cost: one field the first time; all elements in one more round trip where it is spread.
        """
        cell = await self.loaded()
        if not cell.is_complete:
            await self.answered(WholeCollection(cell))
        return cell

    async def completed(self, cells: Iterable[CollectionCell]) -> None:
        """Let loaded cells know all their elements; at most one request."""
        if missing := [WholeCollection(each) for each in cells if not each.is_complete]:
            await self.answered(Together(missing))

    async def settled(self, cell: CollectionCell) -> None:
        """After a removal: see to it that a collection that fell to `low` can be packed."""
        if cell.should_complete:
            await self.answered(WholeCollection(cell))
