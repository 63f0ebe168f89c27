"""What windows mean, as plain functions of all rows that were not late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.windows.shapes import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def windows_of(at_ms: int, size_ms: int, every_ms: int, *, cumulates: bool) -> list[Span]:
    """All windows of a time, found by trying every window near it.

    Args:
        at_ms: The time.
        size_ms: Of a window; the greatest, where they cumulate.
        every_ms: The slide, or the step; the size for tumbling windows.
        cumulates: Whether windows grow step by step from the same start.
    """
    found: list[Span] = []
    for step in range((at_ms - size_ms) // every_ms - 1, (at_ms + size_ms) // every_ms + 2):
        start = step * every_ms
        end = start + size_ms
        if cumulates:
            start, end = start // size_ms * size_ms, start + every_ms
        if start <= at_ms < end:
            found.append(Span(start=start, end=end))
    return found


def sessions_of(times_ms: Iterable[int], gap_ms: int) -> list[tuple[Span, Sequence[int]]]:
    """The sessions of a key, each with the times in it."""
    found: list[tuple[Span, list[int]]] = []
    for at_ms in sorted(times_ms):
        if found and at_ms <= found[-1][0].end:
            span, mine = found.pop()
            found.append((Span(start=span.start, end=at_ms + gap_ms), [*mine, at_ms]))
        else:
            found.append((Span(start=at_ms, end=at_ms + gap_ms), [at_ms]))
    return [(span, mine) for span, mine in found]
