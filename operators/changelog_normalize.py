"""Turn an upsert stream into a changelog: what an update replaces, and what a delete removes.

    change   the key's row              emitted
    +I +U    none                       +I the row
    +I +U    another                    -U the old row, +U the row
    +I +U    equal, without TTL         nothing
    -U -D    none                       nothing; the retraction is an orphan
    -U -D    some                       -D the row that was kept, whole: the delete may be a key

With a condition, rows that do not satisfy it are as good as none: an update to such a row emits -D
of the old one and forgets it, one from such a row emits +I. Nothing is known of them, so a delete
that finds none is an orphan only if it tells a row that would have been kept; one of a key alone
tells nothing.

A value that a change does not carry is that of the last row. A change that has one, and finds no
row, is set aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from operators.changelog import RowKind
from operators.columnar_normalize import NormalizeColumns
from operators.errors import UnavailableValue
from operators.join.condition import compile_condition
from operators.keyed import KeyedOperator, OpenEpoch
from operators.spec import OperatorSpec
from operators.stored_rows import CanonicalText
from operators.unavailable import Unavailable, filled, unavailable_reason
from state.descriptors import ValueDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange
    from state.primitives.value import ValueHandle


class ChangelogNormalizeSpec(OperatorSpec):
    """Keeps the last row of each key, and emits what changes."""

    kind: Literal["changelog-normalize"] = "changelog-normalize"
    condition: Any = None  # JSON of any shape: its own reader tells what is wrong with it
    """Which rows count, as `operators.expressions.rex_to_json` writes it; None: all."""
    update_before: bool = True
    """Updates are emitted with what they replace."""
    placeholder: str | None = None
    """What stands for a value that did not change (`operators.unavailable`); None: nothing."""
    fails_on_unavailable: bool = False
    """A value that is not known ends the epoch; else its change is set aside."""

    def operator(self) -> KeyedOperator:
        """The operator."""
        return ChangelogNormalize(self)


class ChangelogNormalize(KeyedOperator):
    """Keep the last row of each key; see the table at the top of the module.

    Characteristics:
        input       +I -U +U -D by unique key; deletes may carry their key alone
        output      +I -U +U -D, upsert key = the key
        state       the row of each key, if it satisfies the condition
        state cost  one field read; one written if the row changed
        time        none; TTL of the row, from its last write
        bundle      the last change of a key counts alone
        on columns  a whole epoch at once, but for keys with an orphan; not with a condition
        unseen -D   an orphan, unless the bundle itself put the row, or the condition let none pass

    With a TTL an equal row is emitted all the same, so that it lives on downstream, too.

    Source: Flink's ProcTimeDeduplicateKeepLastRowFunction on a changelog, and its mini-batch twin
    (DeduplicateFunctionHelper.processLastRowOnChangelogWithFilter, 2.3).
    """

    def __init__(self, spec: ChangelogNormalizeSpec) -> None:
        (row,) = spec.inputs
        self._update_before = spec.update_before
        self._has_ttl = spec.ttl_of(0).is_enabled
        codec = row.codec()
        self._decode, self._encode = codec.decode, codec.encode
        self._unavailable = (
            None if spec.placeholder is None else Unavailable(spec.placeholder, row.types, row.key)
        )
        self._fails = spec.fails_on_unavailable
        self._names = row.names
        self._now_ms = 0
        condition = compile_condition(spec.condition, len(row.types), lambda: self._now_ms)
        self._satisfies: Callable[[Row], bool] = condition or (lambda _: True)
        self._has_condition = condition is not None
        self._others = [at for at in range(len(row.types)) if at not in row.key]
        self._rows: ValueDescriptor[bytes] = ValueDescriptor(
            name="row", codec=CanonicalText(row), ttl=spec.ttl_of(0), **spec.past_of("row")
        )
        self.descriptors = self.prefetched = (self._rows,)
        self.columnar = self._on_columns = (
            NormalizeColumns(spec, codec) if spec.condition is None and row.types else None
        )

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle, and the epoch's time."""
        self._now_ms = epoch.times.time_ms
        self._row: ValueHandle[bytes] = epoch.session.value(self._rows)
        if self._on_columns is not None:
            self._on_columns.open(self._row)

    async def process(self, change: InputChange) -> None:
        """Let the row be what the change says."""
        old = await self._row.value()
        if not change.kind.is_retraction:
            known = self._known(change, change.row, None if old is None else self._decode(old))
            if known is not None:
                await self._put(change, known, old)
        elif old is None:
            if self._was_kept(change.row):
                change.orphan()
        else:
            change.emit(RowKind.DELETE, self._decode(old))
            await self._row.clear()

    def _was_kept(self, row: Row) -> bool:
        """Whether a row that goes should be in state."""
        if not self._has_condition:
            return True
        return any(row[at] is not None for at in self._others) and self._satisfies(row)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the row be what the last change says."""
        if self._unavailable is not None:
            await self._process_unavailable(changes)
            return
        last = changes[-1]
        puts_itself = any(not each.kind.is_retraction for each in changes)
        if last.kind.is_retraction and puts_itself and await self._row.value() is None:
            return
        await self.process(last)

    async def _process_unavailable(self, changes: Sequence[InputChange]) -> None:
        """Let the row be what the last change says, with values that only earlier ones carry."""
        old = await self._row.value()
        row = None if old is None else self._decode(old)
        last, puts_itself = changes[-1], False
        for each in changes:
            if each.kind.is_retraction:
                row = None
                last = each
                continue
            known = self._known(each, each.row, row)
            if known is not None:
                row, last, puts_itself = known, each, True
        if row is not None:
            await self._put(last, row, old)
        elif last.kind.is_retraction and not (puts_itself and old is None):
            await self.process(last)

    def _known(self, change: InputChange, row: Row, old: Row | None) -> Row | None:
        """The row with all of its values; None if some are not known, and it is set aside.

        Raises:
            UnavailableValue: They are not, and are to be.
        """
        missing = [] if self._unavailable is None else self._unavailable.in_row(row)
        if not missing:
            return row
        if old is not None:
            return filled(row, missing, old)
        reason = unavailable_reason(self._names[at] for at in missing)
        if self._fails:
            raise UnavailableValue(reason)
        change.set_aside(reason)
        return None

    async def _put(self, change: InputChange, row: Row, old: bytes | None) -> None:
        text = change.text if row is change.row else self._encode(row)
        if not self._has_ttl and old == text:
            return
        if not self._satisfies(row):
            if old is not None:
                change.emit(RowKind.DELETE, self._decode(old))
                await self._row.clear()
            return
        if old is None:
            change.emit(RowKind.INSERT, row)
        else:
            if self._update_before:
                change.emit(RowKind.UPDATE_BEFORE, self._decode(old))
            change.emit(RowKind.UPDATE_AFTER, row)
        await self._row.update(text)
