"""Sorted maps of many keys as the texts that are stored of them, not taken apart.

Most of what an epoch loads at once is packed, and an operator on columns works on all of it as one
block of lines. So a key that is loaded ahead is kept as its text; it becomes a cell when the first
operation asks for it. Where elements may have stamps it becomes one at once: clean-up knows cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.backends.interface import HashGet
from state.primitives.cells import Cell, write_changed
from state.primitives.handle import StateHandle
from state.primitives.layout import packed_text, unstamped_lines
from state.primitives.sorted_cell import SortedCell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.descriptors import StateDescriptor
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch


class LoadedText(Cell):
    """What is stored of one key, and what is to be; nothing in it has a stamp."""

    __slots__ = ("_state", "stored", "text")

    def __init__(self, state: bytes, key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self._state = state
        self.stored: bytes | None = None
        """The stored text: a packed map or a header; None if there is none."""
        self.text: bytes | None = None
        """What is to be stored in its place; None: it stays."""

    @property
    def reads(self) -> Sequence[Read]:
        """The packed text or the header."""
        return (HashGet(self.key_group, self._state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Keep the text."""
        ((text,),) = replies
        self.load(text)

    def load(self, text: bytes | None) -> None:
        """Keep the text, unless there is one."""
        if not self.is_loaded:
            self.stored = text
            self.is_loaded = True

    def write(self, batch: WriteBatch) -> None:
        """The text, if it is another one."""
        if self.text is not None and self.text != self.stored:
            batch.put(self.key_group, self._state, self.key, self.text)

    def oldest_ms(self) -> int | None:
        """Never a stamp."""
        return None

    async def clean(self, elements_max: int) -> int:
        """Nothing expires."""
        return 0


class PackedTexts(StateHandle[SortedCell]):
    """Access to many keys of a sorted map at once, as lines: `ordered key TAB JSON`, in order."""

    def __init__(self, session: StateSession, descriptor: StateDescriptor) -> None:
        super().__init__(session, descriptor)
        self._texts: dict[bytes, LoadedText] = {}
        """By stored key: what was loaded, and has no cell."""

    def new_cell(self, key: bytes, key_group: int) -> SortedCell:
        """A cell that knows what was loaded of its key, or nothing yet."""
        cell = SortedCell(self, key, key_group)
        held = self._texts.pop(key, None)
        if held is not None and held.is_loaded:
            cell.load(held.stored)
            if held.text is not None:
                cell.pack(held.text)
        return cell

    def missing(self, keys: Iterable[tuple[bytes, int]]) -> Sequence[Cell]:
        """See `StateHandle.missing`; texts where there need not be cells."""
        if self.may_have_stamps:
            return super().missing(keys)
        cells, texts, state = self.cells, self._texts, self.state
        missing: list[Cell] = []
        for key, key_group in keys:
            held = cells.get(key) or texts.get(key)
            if held is None:
                held = texts[key] = LoadedText(state, key, key_group)
            if not held.is_loaded:
                missing.append(held)
        return missing

    def packed_lines(self, keys: Iterable[bytes]) -> list[list[bytes] | None]:
        """The lines of maps that were loaded ahead. Cost: none.

        Args:
            keys: Stored keys.

        Returns:
            For each key its lines, none where nothing is stored; None where operations must look:
            it is not packed, was not loaded ahead, or is changed.
        """
        texts = self._texts
        found: list[list[bytes] | None] = []
        for key in keys:
            held = texts.get(key)
            if held is None or not held.is_loaded or held.text is not None:
                found.append(None)
            else:
                found.append([] if held.stored is None else unstamped_lines(held.stored))
        return found

    def pack_lines(self, keys: Iterable[bytes], lines: Iterable[Sequence[bytes]]) -> None:
        """Replace what `packed_lines` gave by other lines. Cost: none.

        Args:
            keys: Stored keys.
            lines: For each key its lines in order: at least one, and too few to spread the map.
        """
        texts = self._texts
        for key, mine in zip(keys, lines, strict=True):
            texts[key].text = packed_text(0, mine)

    def write_all(self, cells: Iterable[SortedCell], batch: WriteBatch) -> None:
        """See `write_changed`; texts go behind, by key."""
        write_changed(self, cells, batch)
        changed = [
            (key, each.key_group, each.text)
            for key, each in self._texts.items()
            if each.text is not None and each.text != each.stored
        ]
        puts: dict[int, list[bytes]] = {}
        for key, key_group, text in sorted(changed):
            mine = puts.get(key_group)
            if mine is None:
                mine = puts[key_group] = batch.puts_of(key_group, self.state)
            mine += (key, text)

    def close(self) -> None:
        """Let go of all cells and texts."""
        super().close()
        self._texts = {}
