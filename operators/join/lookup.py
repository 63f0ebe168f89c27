"""Join each row with what a table holds now: `FOR SYSTEM_TIME AS OF proctime`.

    change                                   emitted (rows: those of the table with the key, after
                                             its filter, for which the condition is TRUE)
    without materialization
      any kind                               kind row+each; none: LEFT kind row+null, INNER nothing
    with materialization, by the input's upsert key
      accumulate                             the same; its rows are kept in place of older ones
      retract, rows are kept                 -D row+each of them; they go
      retract, none are kept                 LEFT -D row+null; INNER nothing

A key with a null is not asked for, nor is one for which the *pre-filter*, a condition of the row
alone, is not TRUE. Materialization makes updates right where the table may have changed meanwhile:
what is taken back is what was emitted.

Look-ups are asynchronous: the controller keeps many changes in flight, those of one key in order,
and what they ask for is fetched from the table together. Output is in the order of the input, as
with Flink's ORDERED and key-ordered modes; a key is asked for once an epoch.

    d holds (1, one), (2, two), (2, deux); INNER, with materialization
    +I (1)      +I (1, 1, one)
    -U (1)      -D (1, 1, one)
    +U (2)      +U (2, 2, two), +U (2, 2, deux)

Source: Flink's `LookupJoinRunner`, `KeyedLookupJoinWrapper` (2.3) and FLIP-519.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import orjson
from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.join.condition import compile_condition, compile_projection
from operators.join.lookup_table import LookupCache, LookupRetry, TableSource, open_table
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec, RowSpec
from operators.stored_rows import RowText
from state.descriptors import ValueDescriptor
from state.errors import StateCorrupt
from state.execution.requests import wait_for
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.join.lookup_table import LookupTable
    from operators.keyed import InputChange, OpenEpoch


class LookupKey(BaseModel):
    """A column of the table, and what it is to be equal to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: NonNegativeInt
    """Of the table."""
    field: NonNegativeInt | None = None
    """A column of the input; None: a constant."""
    constant: str | None = None
    """Canonical row of one column."""


class LookupJoinSpec(OperatorSpec):
    """What a look-up join is to do.

    With `materializes`, the input is keyed by its upsert key (without one, by all columns); else by
    the columns that the table is asked by.
    """

    kind: Literal["lookup-join"] = "lookup-join"
    join_type: Literal["INNER", "LEFT"]
    table: TableSource
    table_row: RowSpec
    """The table's columns."""
    keys: tuple[LookupKey, ...]
    cache: LookupCache | None = None
    retry: LookupRetry | None = None
    pre_filter: list[Any] | None = None
    """A condition over the input's columns."""
    filter: list[Any] | None = None
    """A condition over the table's columns."""
    projection: tuple[list[Any], ...] | None = None
    """Expressions over the table's columns that take their place; None: they are joined as they
    are."""
    projected: RowSpec
    """The columns that are joined."""
    condition: list[Any] | None = None
    """A condition over the input's columns and the joined ones, one behind the other."""
    materializes: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.inputs) != 1 or not self.keys:
            raise ValueError("a look-up join has one input and a key")
        for each in self.keys:
            if each.column >= len(self.table_row.types):
                raise ValueError("a look-up key does not name a column of the table")
            if (each.field is None) is (each.constant is None):
                raise ValueError("a look-up key is a column of the input, or a constant")
            if each.field is not None and each.field >= len(self.inputs[0].types):
                raise ValueError("a look-up key does not name a column of the input")
        return self

    def operator(self) -> LookupJoin:
        """The operator."""
        return LookupJoin(self)


class RowsText:
    """A codec of several canonical rows: an array of them."""

    def __init__(self, row: RowSpec) -> None:
        self.name = f"rows {', '.join(map(format_type, row.types))}"

    def encode(self, value: Sequence[bytes]) -> bytes:
        """The rows in one array."""
        return b"[%b]" % b",".join(value)

    def decode(self, data: bytes) -> list[bytes]:
        """The rows.

        Raises:
            StateCorrupt: It is no array of them.
        """
        try:
            return [orjson.dumps(each) for each in orjson.loads(data)]
        except (orjson.JSONDecodeError, TypeError):
            raise StateCorrupt("stored rows are not an array") from None


class _Asked:
    """What changes of an epoch ask a table for: fetched together, each key once."""

    def __init__(self, table: LookupTable) -> None:
        self._table = table
        self._waiting: dict[bytes, None] = {}
        self._known: dict[bytes, Sequence[Row]] = {}

    async def rows(self, key: bytes) -> Sequence[Row]:
        """The rows of a key; suspends until what is in flight is fetched."""
        known = self._known.get(key)
        if known is not None:
            return known
        self._waiting[key] = None
        await wait_for(_Answer(self))
        return self._known[key]

    def settle(self) -> None:
        """Fetch what is waited for."""
        if self._waiting:
            keys = list(self._waiting)
            self._waiting.clear()
            self._known.update(zip(keys, self._table.fetch(keys), strict=True))


class _Answer:
    """A request without reads of state: the first of a batch fetches for all that wait."""

    __slots__ = ("_asked",)
    reads = ()

    def __init__(self, asked: _Asked) -> None:
        self._asked = asked

    def take(self, replies: Sequence[Any]) -> None:
        """Be answered."""
        self._asked.settle()


class LookupJoin(KeyedOperator):
    """Joins each row with what a table holds.

    Characteristics:
        input       any kinds
        output      the kinds that come in; with materialization -D for what is taken back
        state       lookupJoinState: with materialization the joined rows of each upsert key
        state cost  none, or one prefetched field a key
        time        that of the epoch, for the cache
        unseen -D   with materialization an orphan
    """

    def __init__(self, spec: LookupJoinSpec) -> None:
        (row,) = spec.inputs
        self._spec = spec
        self._table: LookupTable | None = None
        key_row = spec.table_row.part(tuple(each.column for each in spec.keys))
        self._key_codec = key_row.codec()
        self._key_of = self._key_reader(key_row)
        self._nulls: Row = (None,) * len(spec.projected.types)
        self._text = RowText(spec.projected)
        self._now_ms = 0

        def now_ms() -> int:
            return self._now_ms

        of_table, of_input = len(spec.table_row.types), len(row.types)
        self._pre_filter = compile_condition(spec.pre_filter, of_input, now_ms)
        self._filter = compile_condition(spec.filter, of_table, now_ms)
        self._project = compile_projection(spec.projection, of_table, now_ms)
        width = of_input + len(spec.projected.types)
        self._condition = compile_condition(spec.condition, width, now_ms)
        self._kept = ValueDescriptor(
            name="lookupJoinState",
            codec=RowsText(spec.projected),
            ttl=spec.ttl_of(0),
            **spec.past_of("lookupJoinState"),
        )
        if spec.materializes:
            self.descriptors = self.prefetched = (self._kept,)

    def _key_reader(self, key_row: RowSpec) -> Callable[[Row], Row]:
        """What gives the values that the table is asked for."""
        parts: list[tuple[int | None, object]] = []
        for at, each in enumerate(self._spec.keys):
            constant = None
            if each.constant is not None:
                (constant,) = key_row.part((at,)).codec().decode(each.constant.encode())
            parts.append((each.field, constant))
        return lambda row: tuple(
            constant if field is None else row[field] for field, constant in parts
        )

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle; the table is asked anew."""
        self._now_ms = epoch.times.time_ms
        self._text.begin()
        table = self._open_table()
        table.begin(self._now_ms)
        self._asked = _Asked(table)
        if self._spec.materializes:
            self._rows = epoch.session.value(self._kept)

    def _open_table(self) -> LookupTable:
        """The table, opened by the first epoch: whoever registers states has no need of it."""
        if self._table is None:
            spec = self._spec
            key = tuple(each.column for each in spec.keys)
            self._table = open_table(spec.table, spec.table_row, key, spec.cache, spec.retry)
        return self._table

    async def process(self, change: InputChange) -> None:
        """Join a row, or take back what it was joined with."""
        materializes = self._spec.materializes
        if materializes and change.kind.is_retraction:
            await self._take_back(change)
            return
        passes = self._pre_filter is None or self._pre_filter(change.row)
        joined = await self._look_up(change.row) if passes else []
        for row in joined:
            change.emit(change.kind, change.row + row)
        if not joined and self._spec.join_type == "LEFT":
            change.emit(change.kind, change.row + self._nulls)
        if materializes:
            # What the row before was joined with is no more, though this one is not looked up.
            await self._rows.update([self._text.encode(row) for row in joined] if passes else None)

    async def _look_up(self, row: Row) -> list[Row]:
        key = self._key_of(row)
        if None in key:
            return []
        found = []
        for of_table in await self._asked.rows(self._key_codec.encode(key)):
            if self._filter is not None and not self._filter(of_table):
                continue
            projected = of_table if self._project is None else self._project(of_table)
            if self._condition is None or self._condition(row + projected):
                found.append(projected)
        return found

    async def _take_back(self, change: InputChange) -> None:
        passes = self._pre_filter is None or self._pre_filter(change.row)
        kept: Sequence[bytes] = ()
        if passes:
            rows = await self._rows.value()
            if rows is None:
                change.orphan()
            else:
                kept = rows
                await self._rows.clear()
        for row in kept:
            change.emit(RowKind.DELETE, change.row + self._text.decode(row))
        if not kept and self._spec.join_type == "LEFT":
            change.emit(RowKind.DELETE, change.row + self._nulls)
