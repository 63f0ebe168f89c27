"""Aggregate calls over the rows of a key, with what they remember in states of its own.

Accumulators stay small, whatever the group's size. Distinct values are in a map, by arguments:
calls of the same arguments share it, and a row reads and writes one entry of it. Values that
functions remember are in states of `operators.aggregate.stored_functions`.

Source: Flink's `DistinctAggCodeGen` and state data views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.aggregate.aggregates import (
    AccumulatorCodec,
    Accumulators,
    Aggregates,
    Call,
    DistinctColumns,
    apply_all,
    ready,
    remembers,
)
from operators.aggregate.stored_ends import StoredFirst, StoredLast
from operators.aggregate.stored_functions import StoredCollect, StoredExtreme, StoredFunction
from operators.aggregate.stored_sequences import StoredArrayAgg, StoredListAgg
from operators.spec import unique
from operators.stored_rows import StoredValues
from state.descriptors import JsonCodec, MapDescriptor
from state.execution.combined import combine_all

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import Aggregator
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from operators.spec import OperatorSpec
    from state.descriptors import StateDescriptor
    from state.primitives.maps import MapHandle


class StoredAggregates:
    """Calls over the rows of a key, with values and distinct sets in states of their own.

    Args:
        spec: The operator's; for the life of its states.
        calls: What to compute.
        counts_rows: As of `Aggregates`.
        state: What names of states begin with.
        stores_values: False: what functions remember is in their accumulators, in memory; only
            distinct sets are states.
        ages: Whether the node's TTL counts, for each entry; False: they go with the whole.
        keeps_missing: What is taken back before it came is kept, since it may come by a merge.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        calls: Sequence[AggregateCall],
        *,
        counts_rows: bool,
        state: str,
        stores_values: bool = True,
        ages: bool = True,
        keeps_missing: bool = False,
    ) -> None:
        self.memory = Aggregates(calls, counts_rows=counts_rows)
        """The same calls, all in memory."""
        self._counts_rows = counts_rows
        self._ages = ages
        self._stored: list[StoredFunction | None] = []
        for at, call in enumerate(calls):
            made: StoredFunction | None = None
            if stores_values and remembers(call):
                name = f"{state}_values_{at}"
                life = _life(spec, name) if ages else {}
                made = _STORED[call.function](call, name, life, keeps_missing=keeps_missing)
            self._stored.append(made)
        self._sets: list[tuple[DistinctColumns, MapDescriptor[Row, list[int]]]] = []
        for at, columns in enumerate(self.memory.distinct):
            name = f"{state}_distinct_{at}"
            types = calls[columns.calls[0].at].argument_types
            counts = _Counts([calls[each.at].name for each in columns.calls])
            life = _life(spec, name) if ages else {}
            descriptor: MapDescriptor[Row, list[int]] = MapDescriptor(
                name=name, key_codec=StoredValues(types), codec=counts, **life
            )
            self._sets.append((columns, descriptor))
        self._plain: list[Call] = []
        self._remembering: list[tuple[Call, StoredFunction]] = []
        for at, call in enumerate(calls):
            if not call.is_distinct:
                made_ready = ready(at, call, self.memory.functions[at])
                kept = self._stored[at]
                if kept is None:
                    self._plain.append(made_ready)
                else:
                    self._remembering.append((made_ready, kept))
        self._kept = [each for each in self._stored if each is not None]
        self._maps: list[tuple[DistinctColumns, MapHandle[Row, list[int]]]] = []
        owners: Any = [  # a stored function writes and reads JSON as an aggregator, and is none
            stored or function
            for stored, function in zip(self._stored, self.memory.functions, strict=True)
        ]
        self._owners: list[Aggregator[Any]] = owners
        self.codec = AccumulatorCodec(calls, owners, 0)
        """Of the accumulators, without what is in states of its own."""
        self._results = [
            function.value if stored is None else stored.value_at_once()
            for stored, function in zip(self._stored, self.memory.functions, strict=True)
        ]
        self._gives_values = None not in self._results
        self.has_states = bool(self._kept or self._sets)
        """Whether there is anything in states of its own."""

    @property
    def descriptors(self) -> list[StateDescriptor]:
        """The states beside the accumulators."""
        return [*(state for each in self._kept for state in each.descriptors), *self._distinct_sets]

    @property
    def prefetched(self) -> list[StateDescriptor]:
        """Those that nearly every change reads."""
        return [*(state for each in self._kept for state in each.prefetched), *self._distinct_sets]

    @property
    def _distinct_sets(self) -> list[StateDescriptor]:
        return [each for _, each in self._sets]

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of an epoch."""
        for each in self._kept:
            each.open(epoch)
        self._maps = [(columns, epoch.session.map(each)) for columns, each in self._sets]

    def create(self) -> Accumulators:
        """Of no rows."""
        return Accumulators([each.create() for each in self._owners], [])

    def add_plain(self, accumulators: Accumulators, row: Row, *, is_retraction: bool) -> None:
        """Take a row in or back, as far as accumulators alone are concerned."""
        if not self._counts_rows:
            accumulators.rows = 1
        else:
            accumulators.rows += -1 if is_retraction else 1
        apply_all(self._plain, accumulators.own, row, is_retraction=is_retraction)

    async def add_stored(
        self, accumulators: Accumulators, row: Row, *, is_retraction: bool
    ) -> None:
        """Take a row in or back, as far as states of their own are concerned."""
        for call, _ in self._remembering:
            if call.passes(row):
                arguments = call.arguments(row)
                await self._apply(accumulators, call, arguments, comes=not is_retraction)
        for columns, handle in self._maps:
            weights = columns.weights(row, -1 if is_retraction else 1)
            if weights is not None:
                arguments = columns.arguments(row)
                await self._distinct(accumulators, columns, handle, arguments, weights)

    async def load(self, namespaces: Sequence[bytes]) -> None:
        """Read at once what is packed, and the headers of the rest, in these of the current key."""
        handles = [each for kept in self._kept for each in kept.handles]
        handles += [handle for _, handle in self._maps]
        await combine_all(*(each.loaded_namespaces(namespaces) for each in handles))

    async def known(self, rows: Sequence[Row]) -> None:
        """Read at once what adding these rows would read one after the other."""
        reads: list[Coroutine[Any, None, Any]] = []
        for columns, handle in self._maps:
            # What is read does not depend on whether a row comes or goes.
            passing = [row for row in rows if columns.weights(row, 1) is not None]
            if passing:
                reads.append(handle.get_all([columns.arguments(row) for row in passing]))
        for call, stored in self._remembering:
            arguments = [call.arguments(row) for row in rows if call.passes(row)]
            if arguments:
                reads.append(stored.known(arguments))
        await combine_all(*reads)

    async def whole(self, accumulators: Accumulators) -> Accumulators:
        """All of the current key in memory, for `merge`; what is given must not be used any more.

        Cost: all that its states hold, in few round trips.
        """
        own, kept = [*accumulators.own], []
        for at, stored in enumerate(self._stored):
            if stored is not None:
                kept.append((at, stored))
        reads = [
            *(stored.whole(own[at]) for at, stored in kept),
            *(handle.entries() for _, handle in self._maps),
        ]
        found = await combine_all(*reads)
        for (at, _), memory in zip(kept, found, strict=False):
            own[at] = memory
        distinct = [
            {columns.codec.encode(arguments): counts for arguments, counts in entries}
            for (columns, _), entries in zip(self._maps, found[len(kept) :], strict=True)
        ]
        gathered = Accumulators(own, distinct)
        gathered.rows = accumulators.rows
        return gathered

    async def merge(self, accumulators: Accumulators, other: Accumulators) -> None:
        """Take in accumulators in memory, of later rows; they must not be used any more."""
        rows = accumulators.rows
        accumulators.rows = rows + other.rows if self._counts_rows else max(rows, other.rows)
        own = accumulators.own
        if not self._ages:
            # Else the states are prefetched.
            await self._known_of(other)
        for call in self._plain:
            own[call.at] = call.function.merge(own[call.at], other.own[call.at])
        for call, stored in self._remembering:
            own[call.at] = await stored.merge(own[call.at], other.own[call.at])
        for (columns, handle), others in zip(self._maps, other.distinct, strict=True):
            for text, counts in others.items():
                arguments = columns.codec.decode(text)
                await self._distinct(accumulators, columns, handle, arguments, counts)

    async def moved(self, other: Accumulators) -> Accumulators:
        """Accumulators in memory as those of the current key, which has none; use them no more.

        Unlike in a merge, distinct values stay in the order in which they came.
        """
        await self._known_of(other)
        moved = Accumulators([*other.own], [])
        moved.rows = other.rows
        for at, stored in enumerate(self._stored):
            if stored is not None:
                moved.own[at] = await stored.moved(other.own[at])
        for (columns, handle), others in zip(self._maps, other.distinct, strict=True):
            for text, counts in others.items():
                await handle.put(columns.codec.decode(text), counts)
        return moved

    async def _known_of(self, other: Accumulators) -> None:
        """Read at once what merging these would read one after the other."""
        reads: list[Coroutine[Any, None, Any]] = []
        for (columns, handle), others in zip(self._maps, other.distinct, strict=True):
            if others:
                reads.append(handle.get_all([columns.codec.decode(text) for text in others]))
        for stored, own in zip(self._stored, other.own, strict=True):
            if stored is not None and (arguments := stored.arguments_of(own)):
                reads.append(stored.known(arguments))
        await combine_all(*reads)

    def plain_values(self, accumulators: Accumulators) -> Row | None:
        """The value of each call; None where states of their own must be asked."""
        if not self._gives_values:
            return None
        pairs = zip(self._results, accumulators.own, strict=True)
        return tuple([give(own) for give, own in pairs if give is not None])

    async def values(self, accumulators: Accumulators) -> Row:
        """The value of each call."""
        plain = self.plain_values(accumulators)
        if plain is not None:
            return plain
        found: list[Any] = []
        of_calls = zip(self.memory.functions, self._stored, accumulators.own, strict=True)
        for function, stored, own in of_calls:
            found.append(function.value(own) if stored is None else await stored.value(own))
        return tuple(found)

    async def clear(self) -> None:
        """Forget all that the current key has beside its accumulators."""
        for each in self._kept:
            await each.clear()
        for _, handle in self._maps:
            await handle.clear()

    async def _apply(
        self, accumulators: Accumulators, call: Call, arguments: Row, *, comes: bool
    ) -> None:
        own, at = accumulators.own, call.at
        stored = self._stored[at]
        if stored is None:
            do = call.function.accumulate if comes else call.function.retract
            own[at] = do(own[at], arguments)
        elif comes:
            own[at] = await stored.accumulate(own[at], arguments)
        else:
            own[at] = await stored.retract(own[at], arguments)

    async def _distinct(
        self,
        accumulators: Accumulators,
        columns: DistinctColumns,
        handle: MapHandle[Row, list[int]],
        arguments: Row,
        weights: list[int],
    ) -> None:
        change = columns.merged(await handle.get(arguments), weights)
        if change.has_changed:
            if any(change.counts):
                await handle.put(arguments, change.counts)
            else:
                await handle.remove(arguments)
        for call, comes in change.calls:
            await self._apply(accumulators, call, arguments, comes=comes)


class _Counts(JsonCodec):
    """How often distinct arguments are there for each call: `[2,0]`."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Sequence[str]) -> None:
        self._calls = unique(tuple(calls))

    def shown(self, data: bytes) -> Any:
        """The counts by the calls' names; as they are where they are of other calls."""
        counts = self.decode(data)
        if len(counts) != len(self._calls):
            return counts
        return dict(zip(self._calls, counts, strict=True))


def _life(spec: OperatorSpec, name: str) -> dict[str, Any]:
    return {"ttl": spec.ttl_of(0), **spec.past_of(name)}


_STORED: Final[dict[str, type[StoredFunction]]] = {
    "MIN": StoredExtreme,
    "MAX": StoredExtreme,
    "FIRST_VALUE": StoredFirst,
    "LAST_VALUE": StoredLast,
    "LISTAGG": StoredListAgg,
    "ARRAY_AGG": StoredArrayAgg,
    "COLLECT": StoredCollect,
}
"""What keeps the values of a call that remembers them."""
