"""Forgetting a whole partition of an OVER operator that nothing came for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.idle_cleanup import IdleCleanup
from state.descriptors import JSON, ValueDescriptor

if TYPE_CHECKING:
    from operators.keyed import OpenEpoch
    from operators.spec import OperatorSpec


class IdleRows:
    """When the current key's rows go: 1 to 1.5 TTLs after the last change, as in `IdleCleanup`.

    All rows of a key go at once: those that are left would show values of ones that are gone.

    Args:
        spec: Of the operator, with its TTL; disabled: never.
        *forgets: Names of states in one of which each key is.
    """

    def __init__(self, spec: OperatorSpec, *forgets: str) -> None:
        ttl = spec.ttl_of(0)
        self._idle = IdleCleanup(ttl.ttl_ms if ttl.is_enabled else 0, spec.ttl_extension_ms)
        self.planned: ValueDescriptor[Any] = ValueDescriptor(name="cleanup_at", codec=JSON)
        """The state that has when the current key's rows go."""
        self._timers = self._idle.timers(spec, "processing_timers", forgets)
        self.timers = self._timers if self._idle.is_active else None
        """The timers that fire."""
        self.left_timers = None if self._idle.is_active else self._timers
        """Those of a TTL that was switched off."""

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles for an epoch."""
        self._cleanup_at = epoch.session.value(self.planned)
        self._idle.open(epoch.timers(self._timers), epoch.times.time_ms)

    async def keep(self) -> None:
        """Something came for the current key."""
        planned = await self._cleanup_at.value()
        later = self._idle.put_off(planned)
        if later is not planned:
            await self._cleanup_at.update(later)

    async def plan(self) -> None:
        """The current key is there, and may have no time yet at which it goes."""
        before = await self._cleanup_at.value()
        planned = self._idle.planned(before)
        if planned is not before:
            await self._cleanup_at.update(planned)

    async def is_due(self) -> bool:
        """Whether the current key goes, now that a timer fires."""
        planned = await self._cleanup_at.value()
        is_due, later = self._idle.is_due(planned)
        if later is not planned:
            await self._cleanup_at.update(later)
        return is_due

    async def forget(self) -> None:
        """The current key has no rows any more."""
        self._idle.cancel(await self._cleanup_at.value())
        await self._cleanup_at.clear()
