"""Grouping: one row for each key, with what aggregate functions say of the rows of the key.

What is emitted for a change, or for all changes of a key in a bundle:

    the group before    after       emitted
    not there           rows        +I new
    rows                rows        -U old, +U new; nothing where they are equal and no TTL is set
    rows                no row      -D old; nothing of the group is left in state
    not there           no row      nothing: what is taken back is an orphan

Without grouping columns there is one group, the **total**, which is there from the first epoch on,
with or without rows, as in any batch engine: COUNT is 0 then, and most others are NULL. It is never
`-D`: when its last row goes, `-U` old and `+U` of no rows are emitted.

-U is left out where nobody asks for it. With a TTL an equal result is emitted again, so that what
is kept downstream lives on as long as the group.

In a plan, an aggregation is one node; or, with mini-batches, two (local, global), or three where
DISTINCT is split (local, incremental, global). Here an epoch is a bundle, so a local node does
nothing. The global one aggregates the rows of each bundle in memory and then merges them into the
group, which is what both do in Flink. The incremental one merges only the distinct sets, and sends
on what the bundle adds to the accumulators: a JSON text, which the global one merges into its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.aggregate.aggregates import AccumulatorCodec, Accumulators, Aggregates
from operators.aggregate.call import AggregateCall
from operators.aggregate.columnar_aggregate import ColumnarAggregate
from operators.aggregate.stored import StoredAggregates
from operators.changelog import RowKind
from operators.errors import AggregateFailed
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec
from state.descriptors import JSON, ValueDescriptor
from state.types import FLOAT_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from state.types import LogicalType

ACCUMULATORS = "accumulators"
"""The column in which an incremental aggregation sends accumulators on."""


class GroupAggregateSpec(OperatorSpec):
    """A group aggregation; its input's key is what rows are grouped by."""

    kind: Literal["group-aggregate"] = "group-aggregate"
    calls: tuple[AggregateCall, ...]
    needs_retraction: bool
    """Whether rows may be taken back."""
    generate_update_before: bool
    state: str = "groupAggregateState"
    """Name of the state of accumulators; other states' names begin with it."""
    is_two_phase: bool = False
    """Rows of a bundle are aggregated first, then merged into the group: where the two differ, in
    the order of LISTAGG and in what is taken back before it came, plans of two phases do so."""
    partial_calls: tuple[AggregateCall, ...] = ()
    """Where the input has the accumulators of these calls, from an incremental aggregation, in
    place of rows: key columns, then `accumulators`."""
    merges: tuple[NonNegativeInt, ...] = ()
    """For each call, which one of `partial_calls` it merges."""

    @model_validator(mode="after")
    def _fields(self) -> Self:
        grouping = len(self.inputs[0].key)
        if len(self.output.types) != grouping + len(self.calls):
            raise ValueError(f"{len(self.output.types)} columns for {len(self.calls)} calls")
        if self.partial_calls and len(self.merges) != len(self.calls):
            raise ValueError("not every call has a partial call that it merges")
        if any(at >= len(self.partial_calls) for at in self.merges):
            raise ValueError("a call merges a partial call that is not there")
        return self

    def operator(self) -> GroupAggregate:
        """The operator."""
        return GroupAggregate(self)


class GroupAggregate(KeyedOperator):
    """Keep one row of aggregates for each group.

    Characteristics:
        input       +I -U +U -D, keyed by the grouping columns; without any, all rows are one group
        output      +I -U +U -D, upsert key = grouping columns; -U only where it is asked for
        state       the accumulators of a group, a JSON object; beside it a map for each set of
                    distinct arguments, and the values of functions that must remember them
        state cost  one field read and one written for each group and epoch; one entry more for each
                    DISTINCT and each remembering function (`operators.aggregate.stored_functions`)
        time        none; TTL from the last change of the group, or of an entry
        unseen -D   of a group that is not there: an orphan, dropped
        on columns  COUNT, SUM, $SUM0, AVG, MIN, MAX over whole numbers, where none must remember
                    values: a whole epoch at once (`operators.aggregate.columnar_aggregate`)

    Source: Flink's GroupAggFunction, MiniBatchGroupAggFunction, MiniBatchLocalGroupAggFunction and
    MiniBatchGlobalGroupAggFunction. There a total of no rows does not exist. Where more was taken
    back of a group than came, Flink counts below zero and emits it; here the group is gone.
    """

    takes_bundles = True

    def __init__(self, spec: GroupAggregateSpec) -> None:
        self._spec = spec
        self._aggregates = StoredAggregates(
            spec, spec.calls, counts_rows=spec.needs_retraction, state=spec.state
        )
        self._accumulators: ValueDescriptor[Accumulators] = ValueDescriptor(
            name=spec.state,
            codec=self._aggregates.codec,
            ttl=spec.ttl_of(0),
            **spec.past_of(spec.state),
        )
        self.has_total = not spec.inputs[0].key
        self.descriptors = (self._accumulators, *self._aggregates.descriptors)
        self._total_has_begun: ValueDescriptor[Any] | None = None
        if self.has_total and spec.ttl_of(0).is_enabled:
            # Else the accumulators tell.
            name = f"{spec.state}_begun"
            self._total_has_begun = ValueDescriptor(name=name, codec=JSON, **spec.past_of(name))
            self.descriptors = (*self.descriptors, self._total_has_begun)
        self.prefetched = (self._accumulators, *self._aggregates.prefetched)
        if self._total_has_begun is not None:
            self.prefetched = (*self.prefetched, self._total_has_begun)
        self._partial = _partial_codec(spec.partial_calls)
        self._emits_equal = spec.ttl_of(0).is_enabled
        results = spec.output.part(tuple(range(len(spec.inputs[0].key), len(spec.output.types))))
        self._encode = results.codec().encode if _has_floats(results.types) else None
        self.columnar = self._on_columns = ColumnarAggregate.of(spec)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles for an epoch."""
        self._group = epoch.session.value(self._accumulators)
        if self._total_has_begun is not None:
            self._begun = epoch.session.value(self._total_has_begun)
        if self._on_columns is not None:
            self._on_columns.open(self._group)
        self._aggregates.open(epoch)

    async def end_total(self, emit: Callable[[RowKind, Row], None]) -> None:
        """Have the total of no rows where nothing has come yet."""
        held = await self._group.value()
        if held is None:
            begun = await self._begin_total(emit)
            if begun is not None:
                await self._group.update(begun)
        elif self._total_has_begun is not None and await self._begun.value() is None:
            await self._begun.update(True)

    async def _begin_total(self, emit: Callable[[RowKind, Row], None]) -> Accumulators | None:
        """The total of no rows, which is emitted; None: it has begun before, and has expired."""
        if self._total_has_begun is not None:
            if await self._begun.value() is not None:
                return None
            await self._begun.update(True)
        group = self._aggregates.create()
        emit(RowKind.INSERT, await self._aggregates.values(group))
        return group

    async def process(self, change: InputChange) -> None:
        """One change of a group."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """All changes of a group in an epoch; one emission for all where bundles are asked for."""
        held = await self._group.value()
        if held is None and self.has_total:
            held = await self._begin_total(changes[0].emit)
        if self._spec.partial_calls:
            left = await self._merge(held, changes, self._sent(changes))
        elif self._spec.is_two_phase:
            left = await self._merge(held, changes, self._gathered(changes))
        elif self._spec.bundles:
            left = await self._add_all(held, changes)
        else:
            left = await self._add_each(held, changes)
        if left is not None:
            await self._group.update(left)
        elif held is not None:
            await self._group.clear()

    async def _add_each(
        self, group: Accumulators | None, changes: Sequence[InputChange]
    ) -> Accumulators | None:
        """Add change by change, and emit for each; nothing is awaited that need not be."""
        aggregates, before = self._aggregates, None
        has_states, retracts = aggregates.has_states, self._spec.needs_retraction
        if group is not None:
            before = await aggregates.values(group)
        for change in changes:
            is_retraction = change.kind.is_retraction
            if is_retraction and (group is None or not group.rows):
                change.orphan()
                continue
            if group is None:
                group = aggregates.create()
            if is_retraction and not retracts:
                self._check(change)
            aggregates.add_plain(group, change.row, is_retraction=is_retraction)
            if has_states:
                await aggregates.add_stored(group, change.row, is_retraction=is_retraction)
            if group.rows > 0:
                plain = aggregates.plain_values(group)
                after = await aggregates.values(group) if plain is None else plain
                self._emit(change, before, after)
                before = after
            else:
                group = await self._settle(group, before, change)
                before = None if group is None else await aggregates.values(group)
        return group

    async def _add_all(
        self, group: Accumulators | None, changes: Sequence[InputChange]
    ) -> Accumulators | None:
        """Add all changes, and emit once. What is taken back of no group is dropped first."""
        before = None if group is None else await self._aggregates.values(group)
        is_empty = group is not None and not group.rows
        for change in changes:
            if change.kind.is_retraction and (group is None or is_empty):
                change.orphan()
                continue
            if group is None:
                group = self._aggregates.create()
            is_empty = False
            self._add_plain(group, change)
            if self._aggregates.has_states:
                await self._add_stored(group, change)
        return None if group is None else await self._settle(group, before, changes[-1])

    async def _merge(
        self, group: Accumulators | None, changes: Sequence[InputChange], more: Accumulators
    ) -> Accumulators | None:
        """Merge what a bundle adds, and emit once."""
        if group is None:
            group, before = self._aggregates.create(), None
        else:
            before = await self._aggregates.values(group)
        await self._aggregates.merge(group, more)
        for change in _retractions(changes)[: max(-group.rows, 0)]:
            change.orphan()
        return await self._settle(group, before, changes[-1])

    def _gathered(self, changes: Sequence[InputChange]) -> Accumulators:
        """The rows of a bundle, aggregated in memory."""
        memory = self._aggregates.memory
        gathered = memory.create()
        for change in changes:
            self._check(change)
            if change.kind.is_retraction:
                memory.retract(gathered, change.row)
            else:
                memory.accumulate(gathered, change.row)
        return gathered

    def _sent(self, changes: Sequence[InputChange]) -> Accumulators:
        """What incremental aggregations sent, in one."""
        memory = self._aggregates.memory
        gathered = memory.create()
        for change in changes:
            text: Any = change.row[-1]  # a STRING: the column that the local half has written
            sent = self._partial.decode(text.encode())
            own = [sent.own[at] for at in self._spec.merges]
            part = Accumulators(own, [])
            part.rows = sent.rows
            memory.merge(gathered, part)
        return gathered

    def _add_plain(self, group: Accumulators, change: InputChange) -> None:
        self._check(change)
        is_retraction = change.kind.is_retraction
        self._aggregates.add_plain(group, change.row, is_retraction=is_retraction)

    async def _add_stored(self, group: Accumulators, change: InputChange) -> None:
        is_retraction = change.kind.is_retraction
        await self._aggregates.add_stored(group, change.row, is_retraction=is_retraction)

    def _check(self, change: InputChange) -> None:
        if not self._spec.needs_retraction:
            _check_adds(change)

    async def _settle(
        self, group: Accumulators, before: Row | None, change: InputChange
    ) -> Accumulators | None:
        """Emit what became of a group, and give what is left of it."""
        if group.rows > 0:
            self._emit(change, before, await self._aggregates.values(group))
            return group
        await self._aggregates.clear()
        if self.has_total:
            group = self._aggregates.create()
            self._emit(change, before, await self._aggregates.values(group))
            return group
        if before is not None:
            change.emit(RowKind.DELETE, (*change.key, *before))
        return None

    def _emit(self, change: InputChange, before: Row | None, after: Row) -> None:
        """Emit what a group shows now that is there."""
        key = change.key
        if before is None:
            change.emit(RowKind.INSERT, (*key, *after))
        elif self._emits_equal or not self._are_equal(before, after):
            if self._spec.generate_update_before:
                change.emit(RowKind.UPDATE_BEFORE, (*key, *before))
            change.emit(RowKind.UPDATE_AFTER, (*key, *after))

    def _are_equal(self, before: Row, after: Row) -> bool:
        if self._encode is None:
            return before == after
        return self._encode(before) == self._encode(after)


class IncrementalAggregateSpec(OperatorSpec):
    """The middle of a split DISTINCT; its input's key is the finer, partial grouping."""

    kind: Literal["incremental-group-aggregate"] = "incremental-group-aggregate"
    calls: tuple[AggregateCall, ...]
    needs_retraction: bool
    final_key: tuple[NonNegativeInt, ...]
    """Which columns of the key are the final grouping: what is sent on, then `accumulators`."""
    state: str = "incrementalGroupAggregateState"

    @model_validator(mode="after")
    def _fields(self) -> Self:
        if not self.bundles:
            raise ValueError("an incremental aggregation works by bundles")
        if any(at >= len(self.inputs[0].key) for at in self.final_key):
            raise ValueError("the final grouping is not part of the partial one")
        if len(self.output.types) != len(self.final_key) + 1:
            raise ValueError("the output is the final grouping and the accumulators")
        return self

    def operator(self) -> IncrementalAggregate:
        """The operator."""
        return IncrementalAggregate(self)


class IncrementalAggregate(KeyedOperator):
    """Send on what the rows of a bundle add to the accumulators of a coarser group.

    Rows of one value of a DISTINCT column all have one key here, so this is the place to know which
    values are new: the distinct sets are the only state. All else is of the bundle.

    Characteristics:
        input       +I -U +U -D, keyed by the partial grouping
        output      +I: one row for each partial key and bundle
        state       a map for each set of distinct arguments; empty once all rows are taken back
        state cost  one entry read and written for each distinct value of the bundle
        time        none; TTL for each distinct value, from when it was last written
        unseen -D   counts below zero, and cancels what comes later

    Source: Flink's MiniBatchIncrementalGroupAggFunction, which also merges the partial keys that
    are in one task; here the global node does.
    """

    def __init__(self, spec: IncrementalAggregateSpec) -> None:
        self._spec = spec
        self._aggregates = StoredAggregates(
            spec,
            spec.calls,
            counts_rows=spec.needs_retraction,
            state=spec.state,
            stores_values=False,
        )
        self.descriptors = self.prefetched = tuple(self._aggregates.descriptors)
        self._codec = _partial_codec(spec.calls)
        self._needs_retraction = spec.needs_retraction

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles for an epoch."""
        self._aggregates.open(epoch)

    async def process(self, change: InputChange) -> None:
        """One change; it is a bundle of its own."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """All changes of a partial key in an epoch."""
        memory = self._aggregates.memory
        gathered = memory.create()
        for change in changes:
            if not self._needs_retraction:
                _check_adds(change)
            if change.kind.is_retraction:
                memory.retract(gathered, change.row)
            else:
                memory.accumulate(gathered, change.row)
        added = self._aggregates.create()
        await self._aggregates.merge(added, gathered)
        key = changes[-1].key
        text = self._codec.encode(added).decode()
        final = (key[at] for at in self._spec.final_key)
        changes[-1].emit(RowKind.INSERT, (*final, text))


def _check_adds(change: InputChange) -> None:
    if change.kind.is_retraction:
        raise AggregateFailed("a row is taken back where the plan says that none is")


def _retractions(changes: Sequence[InputChange]) -> list[InputChange]:
    return [each for each in changes if each.kind.is_retraction]


def _partial_codec(calls: Sequence[AggregateCall]) -> AccumulatorCodec:
    """Of accumulators on their way: all in memory, without distinct sets."""
    return AccumulatorCodec(calls, Aggregates(calls).functions, 0)


def _has_floats(types: Sequence[LogicalType]) -> bool:
    """Whether equality of Python values is not that of canonical rows."""
    return any(each.root in FLOAT_ROOTS or _has_floats(each.children) for each in types)
