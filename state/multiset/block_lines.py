"""Lines of one block of a spread history: what an epoch leaves of them, without reading the rows.

A block is written anew where an entry of it goes, comes or has another row. The lines of all others
are taken over as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from state.errors import StateCorrupt
from state.row_pieces import integer_texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class BlockLines(NamedTuple):
    """Lines of a block that stay as they are."""

    lines: list[bytes]
    """Each with the newline before it."""
    numbers: Sequence[int]
    """Their sequence numbers, ascending."""
    oldest_ms: int
    """When the oldest of them was written."""

    def behind(self, header: bytes) -> bytes:
        """A block of these lines."""
        return b"".join((header, *self.lines))

    def with_others(self, header: bytes, others: Iterable[tuple[int, bytes]]) -> bytes:
        """A block of these lines and of others, each with its number, by number."""
        pairs = sorted([*zip(self.numbers, self.lines, strict=True), *others])
        return b"".join((header, *[line for _, line in pairs]))


NO_LINES = BlockLines([], (), 0)
"""Of a block that is not there, or of which nothing stays."""


def lines_of_block(text: bytes, numbers: Sequence[int], count: int) -> BlockLines:
    """The lines of these entries of a block, one at least.

    Args:
        text: The block.
        numbers: Sequence numbers of the entries, ascending.
        count: How many entries the block has.

    Raises:
        StateCorrupt: It does not have them, or has more or fewer.
    """
    wanted = {*integer_texts(numbers)}
    lines, written = list[bytes](), list[int]()
    _, *stored = text.split(b"\n")
    for line in stored:
        fields = line.split(b"\t", 2)
        if fields[0] in wanted:
            lines.append(b"\n" + line)
            written.append(int(fields[1]))
    if len(lines) != len(numbers) or len(stored) != count:
        raise StateCorrupt("blocks of a history have other entries than its index")
    return BlockLines(lines, numbers, min(written))
