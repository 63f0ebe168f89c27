"""Deduplication by arrival, of input that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from operators.changelog import RowKind
from operators.deduplicate.columnar import FirstRowColumns, LastRowColumns
from operators.keyed import KeyedOperator, OpenEpoch
from operators.processing_time import blanked
from operators.spec import RowSpec
from operators.stored_rows import CanonicalText, StoredRows
from state.descriptors import JSON, ValueDescriptor
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.deduplicate.spec import DeduplicateSpec
    from operators.keyed import InputChange
    from state.primitives.value import ValueHandle

_SHORT: Final = {each: each.short.encode() for each in RowKind}
_KIND: Final = parse_type("STRING NOT NULL")


class FirstRow(KeyedOperator):
    """Emit the first row of each key.

    Characteristics:
        input       +I
        output      +I, one a key
        state       that a row was seen
        state cost  one field read; one written for the first row
        time        none; TTL from the first row: others do not prolong it, and after it the next
                    row is a first one again
        on columns  a whole epoch at once, but for keys with a retraction
        unseen -D   any retraction: an orphan

    Source: Flink's ProcTimeDeduplicateKeepFirstRowFunction.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        self._descriptor: ValueDescriptor[bool] = ValueDescriptor(
            name="seen", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("seen")
        )
        self.descriptors = self.prefetched = (self._descriptor,)
        self._on_columns = FirstRowColumns(spec)
        self.columnar = self._on_columns if spec.inputs[0].types else None

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        self._seen: ValueHandle[bool] = epoch.session.value(self._descriptor)
        self._on_columns.open(self._seen)

    async def process(self, change: InputChange) -> None:
        """Emit the row if none was seen."""
        if change.kind.is_retraction:
            change.orphan()
        elif await self._seen.value() is None:
            await self._seen.update(True)
            change.emit(RowKind.INSERT, change.row)


class LastRow(KeyedOperator):
    """Emit each row as what replaces the one before it.

        change   the key's row                    emitted
        +I       none                             +I the row
        +I       another                          -U the old row, +U the row
        +I       equal, emitted as +I, no TTL     nothing
        +I       equal, emitted as +U             -U the old row, +U the row

    The last two lines are what Flink does on its heap backend, and what was recorded of it: it
    compares kinds, too, and the kind of the row that it keeps is that of its emission.

    Characteristics:
        input       +I
        output      +I -U +U, upsert key = the key
        state       the row of each key and how it was emitted; none, if all is emitted as +U
        state cost  one field read, one written
        time        none; TTL of the row, from its arrival
        bundle      the last row of a key counts alone
        on columns  a whole epoch at once, but for keys with a retraction
        unseen -D   any retraction: an orphan

    Source: Flink's ProcTimeDeduplicateKeepLastRowFunction and its mini-batch twin.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        (row,) = spec.inputs
        self._update_before = spec.update_before
        self._is_stateless = not (spec.update_before or spec.tells_inserts)
        self._has_ttl = spec.ttl_of(0).is_enabled
        self._proctime = frozenset(spec.proctime)
        self._codec = StoredRows(row)
        told = RowSpec(types=(*row.types, _KIND), names=(*row.names, "kind"))
        codec = told.codec()
        self._decode = codec.decode
        self._rows: ValueDescriptor[bytes] = ValueDescriptor(
            name="row", codec=CanonicalText(told), ttl=spec.ttl_of(0), **spec.past_of("row")
        )
        self.descriptors = (self._rows,)
        self.prefetched = () if self._is_stateless else self.descriptors
        self._on_columns = LastRowColumns(spec, codec)
        self.columnar = self._on_columns if row.types else None

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        self._row: ValueHandle[bytes] = epoch.session.value(self._rows)
        self._on_columns.open(self._row)

    async def process(self, change: InputChange) -> None:
        """Let the row be this one."""
        row = change.row
        if change.kind.is_retraction:
            change.orphan()
        elif self._is_stateless:
            change.emit(RowKind.UPDATE_AFTER, row)
        elif (told := await self._row.value()) is None:
            await self._tell(change, RowKind.INSERT)
        else:
            *values, kind = self._decode(told)
            old = tuple(values)
            if kind == RowKind.INSERT.short and not self._has_ttl and self._equal(old, row):
                return
            if self._update_before:
                change.emit(RowKind.UPDATE_BEFORE, old)
            await self._tell(change, RowKind.UPDATE_AFTER)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the row be the last one."""
        for change in changes:
            if change.kind.is_retraction:
                change.orphan()
        rows = [each for each in changes if not each.kind.is_retraction]
        if rows:
            await self.process(rows[-1])

    async def _tell(self, change: InputChange, kind: RowKind) -> None:
        change.emit(kind, change.row)
        # The row's text with one column more.
        await self._row.update(b'%b,"%b"]' % (change.text[:-1], _SHORT[kind]))

    def _equal(self, one: Row, other: Row) -> bool:
        blank = self._proctime
        return self._codec.encode(blanked(one, blank)) == self._codec.encode(blanked(other, blank))
