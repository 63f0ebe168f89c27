"""What another time to live would make of what a key has.

Stored elements carry the time of their last counting access and nothing of a TTL, so what is past
its time under another one is known without waiting for it, and without changing anything: state is
read twice, as of one epoch and one reading of the clock, by the rules in force and by those of an
edited plan. As after a real change, an element that was never stamped begins its life when TTL is
switched on.

What is past its time is gone for operators, though nothing was emitted when it went (but by an
upsert materializer with `emit_expired`): its retraction is an orphan, and the next change of the
key finds what remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.plan import format_duration_ms

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from service.runtime.inspection import ShownEntry, ShownHistory
    from state.primitives.inspection import StateContent


@dataclass(frozen=True, slots=True)
class LiveElement:
    """An element that is live by one of the two rules."""

    identity: Hashable
    """Its place in the state."""
    key: object
    """As `StateElement.key`; the sequence number in a history."""
    value: object
    touched_ms: int | None
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class ElementWhatIf:
    """An element under both rules."""

    now: LiveElement | None
    """None: it is past its time."""
    then: LiveElement | None
    """None: it would be past its time."""

    @property
    def element(self) -> LiveElement:
        """As it is live under either rule."""
        found = self.now or self.then
        assert found is not None
        return found


@dataclass(frozen=True, slots=True)
class StateWhatIf:
    """What a key has in one state, under both rules."""

    name: str
    kind: str
    ttl_ms: tuple[int, int]
    """In force, and then; 0: for ever."""
    elements: tuple[ElementWhatIf, ...]
    """The first ones that are live under either rule."""
    counts: tuple[int, int]
    """Live elements now and then: of a history all, of another state those that are looked at."""
    is_whole: bool
    """Whether all elements of the key are here."""


@dataclass(frozen=True, slots=True)
class CurrentWhatIf:
    """The current row of a history under both rules; None where no row is live."""

    now: ShownEntry | None
    then: ShownEntry | None
    emits_expired: bool
    """Whether the operator emits what expires."""


@dataclass(frozen=True, slots=True)
class KeyWhatIf:
    """What a key has in each state, under both rules."""

    epoch: int
    key: list[Any]
    states: tuple[StateWhatIf, ...]
    current: CurrentWhatIf | None = None
    """Of an upsert materializer."""


def of_history(
    name: str, ttl_ms: tuple[int, int], now: ShownHistory | None, then: ShownHistory | None
) -> StateWhatIf:
    """A history as a state of its key; None where all of its rows are past their time."""
    pages = (now, then)
    return StateWhatIf(
        name=name,
        kind="history",
        ttl_ms=ttl_ms,
        elements=paired(_entries(now), _entries(then), ttl_ms),
        counts=(_size(now), _size(then)),
        is_whole=all(page is None or page.next_after is None for page in pages),
    )


def of_pages(
    name: str,
    kind: str,
    ttl_ms: tuple[int, int],
    pages: tuple[StateContent | None, StateContent | None],
) -> StateWhatIf:
    """What a key has in a state of another kind; None where all of it is past its time."""
    elements = paired(_elements(pages[0]), _elements(pages[1]), ttl_ms)
    return StateWhatIf(
        name=name,
        kind=kind,
        ttl_ms=ttl_ms,
        elements=elements,
        counts=(
            sum(each.now is not None for each in elements),
            sum(each.then is not None for each in elements),
        ),
        is_whole=all(page is None or page.next_after is None for page in pages),
    )


def paired(
    now: Sequence[LiveElement], then: Sequence[LiveElement], ttl_ms: tuple[int, int]
) -> tuple[ElementWhatIf, ...]:
    """Two pages of one state, which begin at one place, element by element.

    What the shorter TTL shows the longer one shows, too, so that one's page is the shorter way:
    what the other page has beyond its end is left out.
    """
    if _lives_longer(*ttl_ms):
        shorter = {each.identity: each for each in then}
        return tuple(ElementWhatIf(each, shorter.get(each.identity)) for each in now)
    shorter = {each.identity: each for each in now}
    return tuple(ElementWhatIf(shorter.get(each.identity), each) for each in then)


def in_words(found: KeyWhatIf) -> str:
    """Some sentences for a person; they name sequence numbers, not values."""
    sentences = [_count(state) for state in found.states]
    if found.current is not None:
        sentences += _current(found.current)
    return " ".join([*sentences, _WHEN])


_WHEN = "A change of TTL counts from the next start of the query on; nothing stored is rewritten."


def _lives_longer(ttl_ms: int, other_ms: int) -> bool:
    return ttl_ms == 0 or (other_ms != 0 and ttl_ms > other_ms)


def _entries(history: ShownHistory | None) -> tuple[LiveElement, ...]:
    if history is None:
        return ()
    return tuple(
        LiveElement(
            identity=each.sequence_number,
            key=each.sequence_number,
            value=each.row,
            touched_ms=each.written_ms,
            expires_ms=each.expires_ms,
        )
        for each in history.entries
    )


def _size(history: ShownHistory | None) -> int:
    return 0 if history is None else history.size


def _elements(content: StateContent | None) -> tuple[LiveElement, ...]:
    if content is None:
        return ()
    return tuple(
        LiveElement(each.place, each.key, each.value, each.stamp_ms, each.expires_ms)
        for each in content.elements
    )


def _count(state: StateWhatIf) -> str:
    """How much of a state would go, come back or stay."""
    now, then = state.counts
    what = "row" if state.kind == "history" else "element"
    live = f"live {what}" if now == 1 else f"{now} live {what}s"
    first = "" if state.is_whole or state.kind == "history" else "first "
    life = f"With {_life(state.ttl_ms[1])} instead of {_life(state.ttl_ms[0])}"
    here = f"of this key in {state.name}"
    if then < now:
        which, their = (
            (f"the {first}", "its") if now == 1 else (f"{now - then} of the {first}", "their")
        )
        return f"{life}, {which}{live} {here} would be past {their} time now."
    if then > now:
        more = then - now
        these, are = (what, "is past its") if more == 1 else (f"{what}s", "are past their")
        return (
            f"{life}, {more} {these} {here} that {are} time and not cleaned up yet would be live "
            f"again, beside {now}."
        )
    return f"{life}, the {first}{live} {here} would be the same now."


def _life(ttl_ms: int) -> str:
    return f"a ttl of {format_duration_ms(ttl_ms)}" if ttl_ms else "no ttl"


def _current(row: CurrentWhatIf) -> list[str]:
    """What would become of the current row."""
    now, then = row.now, row.then
    if then is not None and (now is None or then.sequence_number > now.sequence_number):
        number = then.sequence_number
        return [f"Entry {number} would be live again, and the newest; nothing would be emitted."]
    if now is None:
        return []
    number = now.sequence_number
    if then is not None and then.sequence_number == number:
        return [f"Entry {number} would stay current."]
    if row.emits_expired:
        emitted = "-D" if then is None else f"+U of entry {then.sequence_number}"
        return [f"Entry {number} would be gone, and its expiry be emitted: {emitted}."]
    rest = "no entry is left" if then is None else f"entry {then.sequence_number} is the newest"
    return [
        f"Entry {number} would be gone, so that {rest}; nothing would be emitted: the sink goes on "
        "showing what it shows until the key's next change."
    ]
