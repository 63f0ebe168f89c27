"""Why a key's row is what it is, and what would become of it.

The upsert materializer emits the row of the change that comes in, and, when the newest entry is
retracted, the row of the one before. So the row that the sink shows is mostly the newest entry; it
is another one after a replacement in place of an older entry, and none of the live ones where the
entry that was shown last has been retracted without being the newest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from service.runtime.inspection import ShownEntry, ShownHistory


@dataclass(frozen=True, slots=True)
class Explanation:
    """One key, explained."""

    text: str
    """Some sentences for a person; they name sequence numbers, not values."""
    on_retraction: Literal["update", "delete"]
    """What a retraction of the current entry makes the operator emit."""


def explain(history: ShownHistory) -> Explanation:
    """Explain the current row of a key."""
    sentences = [
        _why(history.current, history.size),
        _behind(history.size - 1),
        _fallback(history.current, history.fallback),
        *_difference(history.current, history.shown),
    ]
    return Explanation(" ".join(sentences), "delete" if history.fallback is None else "update")


def _why(current: ShownEntry, count: int) -> str:
    number = current.sequence_number
    if count == 1:
        return f"Entry {number} is current because it is the only live row of this key."
    return (
        f"Entry {number} is current because it has the highest sequence number of the {count} live "
        "rows of this key."
    )


def _behind(count: int) -> str:
    if count == 0:
        return "No row waits behind it."
    return f"{count} older {'row waits' if count == 1 else 'rows wait'} behind it."


def _fallback(current: ShownEntry, fallback: ShownEntry | None) -> str:
    number = current.sequence_number
    if fallback is None:
        return f"If entry {number} is retracted, the row is deleted from the sink (-D)."
    return (
        f"If entry {number} is retracted, the sink falls back to entry "
        f"{fallback.sequence_number} (+U); a retraction of any other entry changes nothing there."
    )


def _difference(current: ShownEntry, shown: int | None) -> list[str]:
    if shown is None:
        return [
            "The row that the sink shows was retracted, or has expired, while it was not the "
            "newest; the sink shows it until the next emission for this key."
        ]
    if shown != current.sequence_number:
        return [
            f"The sink shows entry {shown}, which was replaced in place after entry "
            f"{current.sequence_number} had come."
        ]
    return []
