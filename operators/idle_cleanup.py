"""Forgetting keys that nothing came for, by timers: where no element of its own could expire.

Some operators have state that only makes sense as a whole. A key's goes when nothing came for it
for once to one and a half times of the TTL, so that not every change moves a timer:

    TTL 100     change at 0     timer at 150
                change at 40    (140 is before 150: nothing to do)
                change at 60    timer at 210 in its place
                nothing more    forgotten at 210

What is kept of a key says when it is to go and by which TTL that was told, so that it goes later
where the TTL is longer by then. Times are those that TTLs count: lives that are extended move them.
A shorter TTL counts from the next change of a key on.

A TTL that is switched on counts a key that nothing came for since from the epoch that finds it:
`state.primitives.untimed_keys` has the operator look at each key once.

A key has one timer, and what is kept of it tells of that one exactly, whatever TTL and extension
there are now: a run without a TTL fires none, so one that is not found again would stay for ever.

Source: Flink's `CleanupState` and `BaseTwoInputStreamOperatorWithStateRetention`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from state.descriptors import TimersDescriptor
from state.ttl import DISABLED, TtlConfig

if TYPE_CHECKING:
    from collections.abc import Iterable

    from operators.keyed import KeyTimers
    from operators.spec import OperatorSpec

Planned: TypeAlias = "list[int] | int | None"
"""What is kept of a key: when it goes, in ms since 1970, the TTL of then, and the timer's time if
that is another one, as lives were extended. A number alone: by the TTL of now, as earlier versions
wrote it, which kept no timer's time either; None: there is no time yet."""


class IdleCleanup:
    """When keys are forgotten; for one run of an operator.

    Args:
        ttl_ms: The TTL; up to 1: keys are never forgotten.
        extension_ms: By how much all lives were extended.
    """

    def __init__(self, ttl_ms: int, extension_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._extension_ms = extension_ms
        self.is_active = ttl_ms > 1

    def timers(self, spec: OperatorSpec, name: str, forgets: tuple[str, ...]) -> TimersDescriptor:
        """Its timers, by this name; `forgets` names states in one of which each key is."""
        return TimersDescriptor(
            name=name,
            ttl=TtlConfig(self._ttl_ms) if self.is_active else DISABLED,
            enabled_ms=spec.ttl_enabled_ms.get(name),
            forgets=forgets,
        )

    def open(self, timers: KeyTimers, now_ms: int) -> None:
        """An epoch of this processing time begins; the timers are for this alone."""
        self._timers = timers
        self._now_ms = now_ms - self._extension_ms

    def put_off(self, planned: Planned) -> Planned:
        """Something came for the current key: what is kept of it from now on; without a TTL None.

        So a TTL that is switched off and on again does not count a key by what came before.
        """
        if not self.is_active:
            self.cancel(planned)
            return None
        end_ms = self._end_ms(planned)
        if end_ms is not None and self._now_ms + self._ttl_ms <= end_ms:
            return planned
        self.cancel(planned)
        return self._planned(self._now_ms + self._ttl_ms * 3 // 2, self._ttl_ms)

    def planned(self, planned: Planned) -> Planned:
        """The current key is there: what is kept of it from now on; it has a timer then."""
        return self.put_off(None) if planned is None else planned

    def is_due(self, planned: Planned) -> tuple[bool, Planned]:
        """Whether the current key goes, now that a timer of it fires; if later, it has another one.

        A timer that was set before the TTL was switched off, of a key that has no time since, says
        nothing.

        Returns:
            That, and what is kept of the key from now on: it tells of the timer that there is.
        """
        end_ms = self._end_ms(planned)
        if not self.is_active or end_ms is None:
            return False, planned
        if end_ms <= self._now_ms:
            return True, planned
        later = self._planned(
            end_ms, max(self._ttl_ms, planned[1] if isinstance(planned, list) else 0)
        )
        return False, planned if later == planned else later

    def cancel(self, planned: Planned) -> None:
        """The current key goes for another reason, or lives on without a TTL."""
        for timer_ms in self._timers_ms(planned):
            self._timers.remove(timer_ms)

    def _planned(self, end_ms: int, ttl_ms: int) -> list[int]:
        """What is kept of a key that goes then, by a timer that it gets."""
        timer_ms = end_ms + self._extension_ms
        self._timers.register(timer_ms)
        return [end_ms, ttl_ms] if timer_ms == end_ms else [end_ms, ttl_ms, timer_ms]

    def _timers_ms(self, planned: Planned) -> Iterable[int]:
        """Where the timer of a key may be: one place, but for what earlier versions wrote."""
        if planned is None:
            return ()
        end_ms, *more = planned if isinstance(planned, list) else (planned,)
        return more[1:] or {end_ms, end_ms + self._extension_ms}

    def _end_ms(self, planned: Planned) -> int | None:
        """When a key goes by the TTL of now."""
        if not isinstance(planned, list):
            return planned
        end_ms, ttl_ms, *_ = planned
        longer_ms = max(0, self._ttl_ms - ttl_ms)
        return end_ms - ttl_ms * 3 // 2 + (ttl_ms + longer_ms) * 3 // 2
