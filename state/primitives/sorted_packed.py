"""Sorted maps of many keys as the texts that are stored of them, not taken apart.

Most of what an epoch loads at once is packed, and an operator on columns works on all of it as one
block of lines. So what is stored of a key is kept as it is, and beside it what is to be stored. The
key gets a cell when an operation asks for it by itself; it is no more here then. Where elements may
have stamps all keys have cells: clean-up knows cells.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from state.backends.interface import HashGet
from state.execution.requests import OneRead
from state.primitives.cells import write_changed
from state.primitives.handle import StateHandle
from state.primitives.layout import packed_text, unstamped_lines
from state.primitives.sorted_cell import SortedCell

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.descriptors import StateDescriptor
    from state.execution.requests import Request
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch


class PackedTexts(StateHandle[SortedCell]):
    """Access to many keys of a sorted map at once, as lines: `ordered key TAB JSON`, in order."""

    def __init__(self, session: StateSession, descriptor: StateDescriptor) -> None:
        super().__init__(session, descriptor)
        self._groups: dict[int, list[bytes]] = {}
        """Stored keys that were loaded at once, by key group."""
        self._stored: dict[bytes, bytes | None] = {}
        """What is stored of those that have no cell; None: nothing."""
        self._packed: dict[bytes, bytes] = {}
        """What is to be stored of them in its place, if it is something else."""

    def new_cell(self, key: bytes, key_group: int) -> SortedCell:
        """A cell that knows nothing yet, or what was loaded of many keys at once."""
        cell = SortedCell(self, key, key_group)
        if key in self._stored:
            cell.load(self._stored.pop(key))
            if key in self._packed:
                cell.pack(self._packed.pop(key))
        return cell

    def loads_at_once(self, keys: Sequence[tuple[bytes, int]]) -> list[Request] | None:
        """See `StateHandle.loads_at_once`."""
        if self.may_have_stamps or self.cells or self._groups:
            return None
        for key, key_group in keys:
            group = self._groups.get(key_group)
            if group is None:
                group = self._groups[key_group] = []
            group.append(key)
        return [
            OneRead(HashGet(each, self.state, mine), partial(self._keep, mine))
            for each, mine in self._groups.items()
        ]

    def _keep(self, keys: Sequence[bytes], texts: Sequence[bytes | None]) -> None:
        self._stored.update(zip(keys, texts, strict=True))

    def packed_lines(self, keys: Iterable[bytes]) -> list[list[bytes] | None]:
        """The lines of maps that were loaded at once. Cost: none.

        Args:
            keys: Stored keys.

        Returns:
            For each key its lines, none where nothing is stored; None where operations must look:
            it is not packed, was not loaded at once, or is changed.
        """
        stored, packed = self._stored, self._packed
        found: list[list[bytes] | None] = []
        for key in keys:
            if key not in stored or key in packed:
                found.append(None)
            else:
                text = stored[key]
                found.append([] if text is None else unstamped_lines(text))
        return found

    def pack_lines(self, keys: Iterable[bytes], lines: Iterable[Sequence[bytes]]) -> None:
        """Replace what `packed_lines` gave by other lines. Cost: none.

        Args:
            keys: Stored keys.
            lines: For each key its lines in order: at least one, and too few to spread the map.
        """
        for key, mine in zip(keys, lines, strict=True):
            text = packed_text(0, mine)
            if text != self._stored[key]:
                self._packed[key] = text

    def write_all(self, cells: Iterable[SortedCell], batch: WriteBatch) -> None:
        """See `write_changed`; texts go behind, in the order in which their keys were given."""
        write_changed(self, cells, batch)
        packed = self._packed
        for key_group, keys in self._groups.items():
            puts: list[bytes] = []
            for key in keys:
                if key in packed:
                    puts += (key, packed[key])
            batch.put_all(key_group, self.state, puts)

    def close(self) -> None:
        """Let go of all cells and texts."""
        super().close()
        self._groups, self._stored, self._packed = {}, {}, {}
