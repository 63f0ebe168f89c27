"""A request without reads: it is answered as soon as its record holds its key.

In RECORD_ORDER a record holds its key before its process begins, so nothing is gained by it. In
FIRST_REQUEST_ORDER a process begins at once, and what it does before its first request is not
ordered with other records of its key; there it must await `hold_key()` before it first touches
state, since state that the epoch's cache can answer makes no request.

Source: Flink's SYNC_POINT request (FLIP-425).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.execution.requests import wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Read


class SyncPoint:
    """Reads nothing. A controller answers it by itself; an executor may be given it as well."""

    __slots__ = ()
    reads: Sequence[Read] = ()

    def take(self, replies: Sequence[Any]) -> None:
        """There is nothing to take."""


SYNC_POINT = SyncPoint()


async def hold_key() -> None:
    """Go on once this record holds its key; at once if it does already."""
    await wait_for(SYNC_POINT)
