"""Which input an epoch was written of, where that comes before its close: noted in Redis.

A table or topic that has an epoch keeps it when the epoch runs again. That is right as long as it
has the same input. Spark's record of it may be lost, with a machine that stops, and made anew with
what came since; then state would take in what the table has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.runtime.ledgers import transport_of
from service.runtime.slot_keys import WRITTEN_NAME, slot_key
from state.backends.transport import checked
from state.errors import StateLost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.runtime.sinks.spec import WriterSpec
    from state.backends.transport import Command


@dataclass(frozen=True, slots=True)
class EpochInput:
    """An epoch that is about to be closed, and where it has read its sources to."""

    spec: WriterSpec
    epoch: int
    offsets: bytes

    def note(self, sinks: Iterable[str], *others: Command) -> None:
        """Say that sinks are being written, before it can be seen; other commands go along.

        Only who has just found that nobody else may write them says so.
        """
        noted = [each for sink in sinks for each in (sink, self._text)]
        checked(
            transport_of(self.spec).exchange(
                [*others, ("HSET", self._key, *noted)], is_repeatable=True
            )
        )

    def require_same(self, sink: str, place: str) -> None:
        """See that what a sink's place has of the epoch is of this input.

        Raises:
            StateLost: It is of another one.
        """
        command: Command = ("HGET", self._key, sink)
        (held,) = checked(transport_of(self.spec).exchange([command], is_repeatable=True))
        # A note of an earlier epoch tells nothing: Redis may have lost the last one.
        if held and held.partition(b" ")[0] == b"%d" % self.epoch and held != self._text:
            raise StateLost(f"{place} has epoch {self.epoch}, which was written with other offsets")

    @property
    def _key(self) -> str:
        return slot_key(self.spec.pipeline, WRITTEN_NAME)

    @property
    def _text(self) -> bytes:
        return b"%d %s" % (self.epoch, self.offsets)
