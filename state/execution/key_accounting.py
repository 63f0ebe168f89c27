"""Which record holds which key: one at a time, and only the holder can let go.

Source: Flink `KeyAccountingUnit` (FLIP-425).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import xxhash

from state.errors import InvariantViolation

if TYPE_CHECKING:
    from state.execution.record_context import RecordContext


class KeyAccounting:
    """Holders of keys, told apart by identity: equal records are not the same record."""

    __slots__ = ("holders",)

    def __init__(self) -> None:
        self.holders: dict[bytes, RecordContext] = {}
        """By key. To be read by others, changed here only."""

    def occupy(self, context: RecordContext, key: bytes) -> bool:
        """Take a key for a record if nobody holds it; False also if this record does already."""
        if key in self.holders:
            return False
        self.holders[key] = context
        return True

    def hand_over(self, context: RecordContext, following: RecordContext, key: bytes) -> None:
        """Let go of a key in favour of another record.

        Raises:
            InvariantViolation: The record does not hold it.
        """
        self._require_holder(context, key)
        self.holders[key] = following

    def release(self, context: RecordContext, key: bytes) -> None:
        """Let go of a key.

        Raises:
            InvariantViolation: The record does not hold it.
        """
        self._require_holder(context, key)
        del self.holders[key]

    def _require_holder(self, context: RecordContext, key: bytes) -> None:
        if self.holders.get(key) is not context:
            raise InvariantViolation(f"a record releases key {hashed(key)}, which it does not hold")


def hashed(key: bytes) -> str:
    """A key as errors and logs show it: who knows the key, or tries it out, can tell it by this."""
    return f"#{xxhash.xxh3_64_hexdigest(key)}"
