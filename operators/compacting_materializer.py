"""Compact the changes of a primary key: ON CONFLICT DO ERROR, DO NOTHING.

The upsert materializer keeps every live row of a key for ever, so that it can bring back the one
before. Where a key is to have one row at most, less will do: changes that reach the sink in another
order than they happened belong together, and between two watermarks they cancel each other. So
changes are kept by the watermark that held when they were made (their *stamp*), and when the
watermark passes it, what is left of them is applied to the row that the sink shows:

    rows left of the shown row and the changes       shown before     emitted
    none                                             a row            -D of it
    none                                             none             nothing
    one                                              none             +I
    one, another row than before                     a row            +U
    one, the same row                                a row            nothing
    several, DO ERROR                                                 `PrimaryKeyConflict`
    several, DO NOTHING                              none             +I of the first
    several, DO NOTHING                              a row            nothing; it stays

Within a stamp an addition and a retraction of equal rows cancel each other, whichever came first;
of several equal rows the oldest one goes. What is left is applied in order: with an upsert key an
addition takes the place of the row that it matches, without one it is appended; a retraction takes
away the first row that it matches (by upsert key, else as a whole).

Worked example, primary key k, upsert key id, watermark 50 before and 100 after:

    +U (id 2, k 1, b)      waits
    +I (id 1, k 1, a)      waits
    -U (id 1, k 1, a)      cancels the line above
    watermark 100          +I (id 2, k 1, b)

Rows that lost under DO NOTHING are forgotten: when the row that won is retracted, the key is gone.
Equality is that of canonical rows: NaN is NaN, 0.0 is not -0.0.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.errors import PrimaryKeyConflict
from operators.keyed import WATERMARK_MAX, WATERMARK_MIN, KeyedOperator
from operators.spec import OperatorSpec, RowSpec
from operators.stored_rows import StoredRows
from state.descriptors import SortedMapDescriptor, TimersDescriptor, ValueDescriptor
from state.lexicographic import lexicographic_codec
from state.ttl import DISABLED, TtlConfig
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch
    from state.codec import RowCodec

_STAMP = parse_type("BIGINT NOT NULL")
_OP = parse_type("STRING NOT NULL")
_BUFFER_OUTLIVES_MS: Final = 5_000
"""So much longer than the shown row do changes wait: the row must not outlive its changes."""


class CompactingSpec(OperatorSpec):
    """What a watermark-compacting materializer is to do.

    The input's key is the sink's primary key. The output has the input's columns, without `stamp`.
    """

    kind: Literal["compacting-materializer"] = "compacting-materializer"
    bundles: bool = True
    """What waits is read and written once a key and epoch."""
    upsert_key: tuple[NonNegativeInt, ...] = ()
    """Columns that say which row a change is about; empty: the whole row does."""
    behavior: Literal["ERROR", "NOTHING"]
    """What happens when several rows of a key are left."""
    stamp: NonNegativeInt | None = None
    """The last column, BIGINT NOT NULL: the watermark, in ms, that held where the change was made.
    None: the watermark of the epoch."""
    net_changes: bool = False
    """Emit at most one change for a key and epoch: what is different at its end."""

    @model_validator(mode="after")
    def _columns(self) -> Self:
        count = len(self.inputs[0].types) if len(self.inputs) == 1 else 0
        if not count or not self.inputs[0].key:
            raise ValueError("a compacting materializer has one input, with a primary key")
        if self.stamp is not None and self.stamp != count - 1:
            raise ValueError("the stamp is the last column")
        width = count if self.stamp is None else self.stamp
        if any(at >= width for at in self.upsert_key) or len(self.output.types) != width:
            raise ValueError("upsert key and output name columns of the input")
        return self

    def operator(self) -> CompactingMaterializer:
        """The operator of it."""
        return CompactingMaterializer(self)


class CompactingMaterializer(KeyedOperator):
    """Emit, when the watermark passes, what became of each primary key.

    Characteristics:
        input       +I -U +U -D, keyed by primary key, in any order between two watermarks
        output      +I +U -D, upsert key = primary key; one for each stamp that the watermark
                    passes, or with `net_changes` one for each epoch
        state       `buffer`: what waits, by stamp; `shown`: the row that the sink has; nothing of a
                    key whose row was retracted
        state cost  a round trip for an epoch's keys, and one where a timer of another epoch fires
        time        event time: a timer at stamp + 1; TTL in processing time, `buffer` 5 s longer
        unseen -D   an orphan, found when its stamp is compacted; it is then without effect

    In Flink a restored job consolidates what waits under one stamp, since its watermark begins
    anew; here the watermark goes on where it was, so there is nothing to consolidate.

    Source: Flink WatermarkCompactingSinkMaterializer (FLIP-558).
    """

    def __init__(self, spec: CompactingSpec) -> None:
        self._spec = spec
        ttl = spec.ttl_of(0)
        rows = spec.output
        self._text: RowCodec = rows.codec()
        self._match = rows.part(spec.upsert_key).codec() if spec.upsert_key else None
        waiting = RowSpec(types=(_OP, *rows.types), names=("op", *rows.names))
        self._buffers: SortedMapDescriptor[tuple[int], tuple[Any, ...]] = SortedMapDescriptor(
            name="buffer",
            key_codec=lexicographic_codec([_STAMP]),
            codec=StoredRows(waiting),
            ttl=TtlConfig(ttl.ttl_ms + _BUFFER_OUTLIVES_MS) if ttl.is_enabled else DISABLED,
            **spec.past_of("buffer"),
        )
        self._shown_rows: ValueDescriptor[tuple[Any, ...]] = ValueDescriptor(
            name="shown", codec=StoredRows(rows), ttl=ttl, **spec.past_of("shown")
        )
        self.descriptors = self.prefetched = (self._buffers, self._shown_rows)
        self.event_timers = TimersDescriptor(name="timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._buffer = epoch.session.sorted_map(self._buffers)
        self._shown = epoch.session.value(self._shown_rows)
        assert self.event_timers is not None
        self._timers = epoch.timers(self.event_timers)
        self._watermark_ms = epoch.times.watermark_ms
        self._next_ms = epoch.times.next_watermark_ms

    async def process(self, change: InputChange) -> None:
        """File one change; its emission comes with the watermark."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """File the changes of a key, and wait for the watermark."""
        by_stamp: dict[int, list[InputChange]] = {}
        for change in changes:
            by_stamp.setdefault(self._stamp(change), []).append(change)
        for stamp, mine in by_stamp.items():
            await self._file(stamp, mine)
            self._timers.register(stamp + 1)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Compact everything of the key that the epoch's watermark passes."""
        due = await self._buffer.read_range_until((self._next_ms,), inclusive_to=True)
        before = shown = await self._shown.value()
        gone: Row | None = None
        place = applied = 0
        changed = False
        while place < len(due) and due[place][0][0] < self._next_ms:
            at_ms = due[place][0][0] + 1
            # Later ones of these timers would find nothing; the one that fires is gone already.
            self._timers.remove(at_ms)
            rows = [] if shown is None else [shown]
            # A timer takes what is stamped with its own time, too.
            while place < len(due) and due[place][0][0] <= at_ms:
                self._apply(*due[place], rows, timer)
                applied, place = due[place][0][0], place + 1
            after = self._outcome(rows, shown)
            changed = changed or not self._same(shown, after)
            if not self._spec.net_changes:
                self._emit(timer, shown, after)
            if after is None:
                gone = shown or gone
            shown = after
        if not place:
            return
        await self._buffer.clear_range_until((applied,), inclusive_to=True)
        if self._spec.net_changes:
            # Of a row that expired the sink was not told: it may have one although none is known.
            forgets = before is None and self._shown_rows.may_have_stamps
            self._emit(timer, gone if forgets and shown is None else before, shown)
        if changed:
            await self._shown.update(shown)

    def _stamp(self, change: InputChange) -> int:
        """What the change is filed under; before the first watermark all are one."""
        stamp = self._watermark_ms
        if self._spec.stamp is not None and stamp != WATERMARK_MIN:
            column: Any = change.row[self._spec.stamp]  # a time in ms, as the spec says of it
            stamp = column
        return min(stamp, WATERMARK_MAX - 1)

    async def _file(self, stamp: int, changes: Sequence[InputChange]) -> None:
        """Add changes to those of a stamp, but for those that cancel each other."""
        stored = await self._buffer.values_at((stamp,)) or []
        waiting = _Waiting()
        for op, *values in stored:
            waiting.put(op, tuple(values), self._text.encode(values))
        width = len(self._spec.output.types)
        for change in changes:
            row = change.row[:width]
            waiting.put(change.kind.short, row, self._text.encode(row))
        if waiting.kept_until < len(stored):
            await self._buffer.put((stamp,), waiting.left())
        else:
            for value in waiting.left()[len(stored) :]:
                await self._buffer.add((stamp,), value)

    def _apply(
        self, stamp: tuple[int], waiting: Iterable[Row], rows: list[Row], timer: FiredTimer
    ) -> None:
        """Apply what waited to the rows of the key."""
        for op, *values in waiting:
            row, kind = tuple(values), RowKind.from_short(str(op))
            place = self._find(rows, row)
            if not kind.is_retraction:
                if place is None or self._match is None:
                    rows.append(row)
                else:
                    rows[place] = row
            elif place is not None:
                del rows[place]
            else:
                timer.orphan(kind, row if self._spec.stamp is None else row + stamp)

    def _find(self, rows: Sequence[Row], row: Row) -> int | None:
        wanted = self._identity(row)
        return next((at for at, each in enumerate(rows) if self._identity(each) == wanted), None)

    def _identity(self, row: Row) -> bytes:
        if self._match is None:
            return self._text.encode(row)
        return self._match.encode([row[at] for at in self._spec.upsert_key])

    def _outcome(self, rows: Sequence[Row], shown: Row | None) -> Row | None:
        """The row that the sink is to show.

        Raises:
            PrimaryKeyConflict: There are several, and that is an error.
        """
        if len(rows) < 2:
            return rows[0] if rows else None
        if self._spec.behavior == "ERROR":
            raise PrimaryKeyConflict(self._spec.inputs[0].key_row.names)
        return rows[0] if shown is None else shown

    def _emit(self, timer: FiredTimer, before: Row | None, after: Row | None) -> None:
        if self._same(before, after):
            return
        if after is not None:
            timer.emit(RowKind.INSERT if before is None else RowKind.UPDATE_AFTER, after)
        elif before is not None:
            timer.emit(RowKind.DELETE, before)

    def _same(self, one: Row | None, other: Row | None) -> bool:
        if one is None or other is None:
            return one is other
        return self._text.encode(one) == self._text.encode(other)


@dataclass(slots=True)
class _Waiting:
    """The changes of one key and stamp, without those that cancel each other."""

    entries: list[Row | None] = field(default_factory=list)
    kept_until: int = 1 << 62
    """Nothing was cancelled before this place."""
    _places: dict[bytes, deque[int]] = field(default_factory=dict)
    """Of each row that waits, oldest first; all of them additions, or all retractions."""

    def put(self, op: str, row: Row, text: bytes) -> None:
        """Have one more change, or one less."""
        places = self._places.setdefault(text, deque())
        other = self.entries[places[0]] if places else None
        if other is None or str(other[0])[0] == op[0]:
            places.append(len(self.entries))
            self.entries.append((op, *row))
            return
        place = places.popleft()
        self.entries[place] = None
        self.kept_until = min(self.kept_until, place)

    def left(self) -> list[Row]:
        """What still waits, in order."""
        return [each for each in self.entries if each is not None]
