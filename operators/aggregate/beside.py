"""Accumulators whose growing parts lie in states of their own, and those that have all in them.

They are written as `{"beside":{...}}`. What versions before wrote is whole: it is read, and moves
when it is changed or merged. Those versions refuse what is written here: it is no accumulator of
theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.aggregate.aggregates import AccumulatorCodec, Accumulators
from state.descriptors import JSON

if TYPE_CHECKING:
    from operators.aggregate.stored import StoredAggregates
    from state.descriptors import Codec

_HEAD: Final = b'{"beside":'


class WholeAccumulators(Accumulators):
    """Accumulators with everything in memory, of calls that keep some of it in states."""

    __slots__ = ()

    @classmethod
    def of(cls, held: Accumulators) -> WholeAccumulators:
        """The same, marked as whole."""
        whole = cls(held.own, held.distinct)
        whole.rows = held.rows
        return whole


def beside_codec(stored: StoredAggregates) -> Codec[Accumulators]:
    """Of the accumulators of these calls; without a mark where nothing lies beside them."""
    memory = stored.memory
    whole = AccumulatorCodec(memory.calls, memory.functions, len(memory.distinct))
    return _BesideCodec(stored.codec, whole) if stored.has_states else whole


class _BesideCodec:
    """Small accumulators with a mark; whole ones, of versions before, have none."""

    __slots__ = ("_small", "_whole", "name")

    def __init__(self, small: AccumulatorCodec, whole: AccumulatorCodec) -> None:
        self._small = small
        self._whole = whole
        self.name = whole.name

    def encode(self, value: Accumulators) -> bytes:
        """The JSON object."""
        assert not isinstance(value, WholeAccumulators)
        return b"%b%b}" % (_HEAD, self._small.encode(value))

    def decode(self, data: bytes) -> Accumulators:
        """The accumulators of such bytes.

        Raises:
            StateCorrupt: They are none.
        """
        if data.startswith(_HEAD):
            return self._small.decode(data[len(_HEAD) : -1])
        return WholeAccumulators.of(self._whole.decode(data))

    def shown(self, data: bytes) -> Any:
        """The accumulators, without the mark."""
        return shown_accumulators(JSON.decode(data))


def shown_accumulators(stored: object) -> Any:
    """Stored accumulators as people see them."""
    return stored["beside"] if isinstance(stored, dict) and "beside" in stored else stored
