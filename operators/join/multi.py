"""Join n changelogs at once: a chain of INNER and LEFT joins without state between them.

    a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k AND a.x = c.x

Input i is joined with the row that inputs 0 to i - 1 make. All inputs are kept by the columns that
the whole chain shares (the key); what else input i is compared by makes a *part* of the key, so
that only rows that can match are read.

A change of input i runs through the inputs in order, as a tree: at each input j every row that
matches the row so far, at input i the change itself. What is emitted at the end of each path has
the change's kind, with two exceptions at a LEFT join's own input i:

    accumulate, and the row so far had no match in i     first -D of all paths with null for i
    retract, and the row so far has no match in i left   then  +I of all paths with null for i

A row in place of another one of its unique key, which nothing took back, is that one's retraction
and its own addition. What is there before and after is not taken back, though: as the input, so the
output names rows by their unique key.

At an input other than i, a LEFT join goes on with null where no row matches; at i, it does not. A
null in a column that is compared by `=` matches nothing. Afterwards the side of i has the row, or
has it no more.

    a JOIN b LEFT JOIN c, all by k; b holds (1, b)
    a  +I (1, a)      +I (1, a, 1, b, null, null)
    c  +I (1, c)      -D (1, a, 1, b, null, null), +I (1, a, 1, b, 1, c)
    b  -U (1, b)      -U (1, a, 1, b, 1, c)
    b  +U (1, bb)     +U (1, a, 1, bb, 1, c)
    c  -D (1, c)      -D (1, a, 1, bb, 1, c), +I (1, a, 1, bb, null, null)

Source: FLIP-516, Flink's `StreamingMultiJoinOperator` (2.3).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.join.condition import compile_condition
from operators.join.side_state import side_state
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import RowText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from operators.changelog import Row
    from operators.join.side_state import Stored
    from operators.keyed import InputChange, OpenEpoch
    from operators.spec import InputSpec

    Emitted = list[tuple[RowKind, Row]]


class Attribute(BaseModel):
    """Two columns that an input and the row before it are compared by."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    before: NonNegativeInt
    """Of the columns of all earlier inputs, one behind the other."""
    column: NonNegativeInt
    """Of the input."""
    filters_null: bool = True
    """Whether null matches nothing (`=`), or null."""


class MultiInput(BaseModel):
    """How an input is joined with those before it; of the first one only the unique key counts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    join_type: Literal["INNER", "LEFT"] = "INNER"
    attributes: tuple[Attribute, ...] = ()
    unique_key: tuple[NonNegativeInt, ...] | None = None
    """Columns of a unique key of its rows; empty: it has one row at most; None: none is known."""
    condition: list[Any] | None = None
    """What else must be TRUE, over the columns up to and with this input."""


class MultiJoinSpec(OperatorSpec):
    """What a join of several inputs is to do; `inputs` are keyed by what all of them share."""

    kind: Literal["multi-join"] = "multi-join"
    joins: tuple[MultiInput, ...]
    """Of each input."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.inputs) < 2 or len(self.joins) != len(self.inputs):
            raise ValueError(f"{len(self.joins)} joins for {len(self.inputs)} inputs")
        before = 0
        for row, join in zip(self.inputs, self.joins, strict=True):
            for each in join.attributes:
                if each.before >= before or each.column >= len(row.types):
                    raise ValueError("an attribute does not name columns")
            before += len(row.types)
        return self

    def operator(self) -> MultiJoin:
        """The operator."""
        return MultiJoin(self)


class _Input:
    """One input: its rows, and what decides which of them match."""

    def __init__(self, spec: MultiJoinSpec, number: int, now_ms: Callable[[], int]) -> None:
        row, join = spec.inputs[number], spec.joins[number]
        before = sum(len(each.types) for each in spec.inputs[:number])
        self.number = number
        self.columns = slice(before, before + len(row.types))
        """Where its rows stand in what is emitted."""
        self.is_left_join = number > 0 and join.join_type == "LEFT"
        self.nulls: Row = (None,) * len(row.types)
        self.text = RowText(row)
        self._condition = compile_condition(join.condition, before + len(row.types), now_ms)
        places = _key_places(spec.inputs, number)
        self._by_key = [
            (each.before, row.key.index(each.column), each.filters_null)
            for each in join.attributes
            if each.column in row.key and each.before in places[each.column]
        ]
        """Attributes that the key holds already: place before it, in the key, null filter."""
        by_part = [
            each
            for each in join.attributes
            if each.column not in row.key or each.before not in places[each.column]
        ]
        self._part = [(each.before, each.column, each.filters_null) for each in by_part]
        self._part_codec = row.part(tuple(each.column for each in by_part)).codec()
        name = f"input_state_{number}"
        self.state = side_state(
            name,
            row,
            join.unique_key,
            (*row.key, *(each.column for each in by_part)),
            spec.ttl_of(number),
            spec.past_of(name),
            counts=False,
        )

    def part_of(self, row: Row) -> bytes | None:
        """The part of the key that an own row is kept by; None: it matches nothing, ever."""
        for _, column, filters_null in self._part:
            if filters_null and row[column] is None:
                return None
        return self._encoded([row[column] for _, column, _ in self._part])

    def part_before(self, before: Row, key: Row) -> bytes | None:
        """The part of the key that matching rows are kept by; None: there can be none."""
        for place, of_key, filters_null in self._by_key:
            # The key is equal, but for a null that an outer join put there.
            if before[place] is None and (filters_null or key[of_key] is not None):
                return None
        for place, _, filters_null in self._part:
            if filters_null and before[place] is None:
                return None
        return self._encoded([before[place] for place, _, _ in self._part])

    def has_null_key(self, key: Row) -> bool:
        """Whether an own row of this key matches nothing, ever, so that nobody needs it."""
        return any(filters_null and key[of_key] is None for _, of_key, filters_null in self._by_key)

    @property
    def has_part(self) -> bool:
        """Whether rows are kept by more than the key."""
        return bool(self._part)

    def accepts(self, row: Row) -> bool:
        """Whether the rest of the condition is TRUE for a row up to and with this input."""
        return self._condition is None or self._condition(row)

    def _encoded(self, values: Sequence[object]) -> bytes:
        return self._part_codec.encode(values) if values else b""


def _key_places(inputs: Sequence[InputSpec], number: int) -> dict[int, set[int]]:
    """For each key column of an input the places before it that the key makes equal to it."""
    places: dict[int, set[int]] = {column: set() for column in inputs[number].key}
    start = 0
    for row in inputs[:number]:
        for of_key, column in enumerate(row.key):
            places[inputs[number].key[of_key]].add(start + column)
        start += len(row.types)
    return places


class MultiJoin(KeyedOperator):
    """Joins several changelogs.

    Characteristics:
        input       +I -U +U -D of all inputs, keyed by the columns that all share
        output      the kinds that come in; -D and +I of padded rows
        state       the rows of each input (`operators.join.side_state`), each with its own TTL
        state cost  inputs that are kept by the key alone are prefetched; a change reads the rows
                    that match, and O(1) of its own input
        time        none
        unseen -D   an orphan; what it would take back is taken back all the same
    """

    def __init__(self, spec: MultiJoinSpec) -> None:
        self._now_ms = 0
        numbers = range(len(spec.inputs))
        self._inputs = [_Input(spec, each, lambda: self._now_ms) for each in numbers]
        self.descriptors = tuple(each.state.descriptor for each in self._inputs)
        self.prefetched = tuple(each.state.descriptor for each in self._inputs if not each.has_part)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of all inputs."""
        self._now_ms = epoch.times.time_ms
        self._set_namespace = epoch.session.set_namespace
        for each in self._inputs:
            each.state.open(epoch.session)
            each.text.begin()

    async def process(self, change: InputChange) -> None:
        """Emit what a change means for the whole chain, then keep it."""
        mine = self._inputs[change.input]
        part = mine.part_of(change.row)
        if part is None or mine.has_null_key(change.key):
            return
        self._set_namespace(part)
        held = await mine.state.replaced_by(change.row)
        if change.kind.is_retraction:
            # A unique key decides, whatever else the change says.
            gone = change.row if held is None else mine.text.decode(held)
            await self._walk(change, gone, change.kind, change.emit)
            self._set_namespace(part)
            if await mine.state.retract(change.text, change.row) is None:
                change.orphan()
            return
        if held is None:
            await self._walk(change, change.row, change.kind, change.emit)
        else:
            await self._replace(change, mine, part, mine.text.decode(held))
        self._set_namespace(part)
        await mine.state.add(change.text, change.row)

    async def _replace(self, change: InputChange, mine: _Input, part: bytes, before: Row) -> None:
        """Emit what a change means that takes the place of a row that nothing took back."""
        taken: Emitted = []
        given: Emitted = []
        await self._walk(
            change, before, RowKind.DELETE, lambda kind, row: taken.append((kind, row))
        )
        self._set_namespace(part)
        await mine.state.retract(mine.text.encode(before), before)
        await self._walk(
            change, change.row, change.kind, lambda kind, row: given.append((kind, row))
        )
        for kind, row in _net(taken, given, mine.columns):
            change.emit(kind, row)

    async def _walk(
        self, change: InputChange, row: Row, kind: RowKind, emit: Callable[[RowKind, Row], None]
    ) -> None:
        await _Walk(self._inputs, change, row, emit, self._set_namespace).go(0, (), kind)


def _net(taken: Emitted, given: Emitted, own: slice) -> Emitted:
    """What a row's retraction and the addition of one in its place emit together.

    A row that comes again, with the new row in place of the other, is not taken back. What is
    padded in between, and taken back, is left away.

    Args:
        taken: By the retraction: -D of rows, +I of padded ones.
        given: By the addition: -D of padded rows, then what comes.
        own: The columns of the input.
    """

    def beside(row: Row) -> Row:
        return row[: own.start] + row[own.stop :]

    again = Counter(beside(row) for kind, row in given if not kind.is_retraction)
    padded = Counter(row for kind, row in taken if not kind.is_retraction)
    padded &= Counter(row for kind, row in given if kind.is_retraction)
    padded_again = padded.copy()
    found: Emitted = []
    for kind, row in taken:
        left, name = (again, beside(row)) if kind.is_retraction else (padded, row)
        if left[name]:
            left[name] -= 1
        else:
            found.append((kind, row))
    for kind, row in given:
        if kind.is_retraction and padded_again[row]:
            padded_again[row] -= 1
        else:
            found.append((kind, row))
    return found


class _Walk:
    """A row of a change on its way through the inputs."""

    def __init__(
        self,
        inputs: Sequence[_Input],
        change: InputChange,
        row: Row,
        emit: Callable[[RowKind, Row], None],
        set_namespace: Callable[[bytes], None],
    ) -> None:
        self._inputs = inputs
        self._change = change
        self._row = row
        self._emit = emit
        self._set_namespace = set_namespace

    async def go(self, depth: int, before: Row, kind: RowKind) -> None:
        """Go on from a row of the inputs before this one.

        Args:
            depth: The input.
            before: The row so far.
            kind: What is to be emitted.
        """
        if depth == len(self._inputs):
            self._emit(kind, before)
            return
        at = self._inputs[depth]
        if depth == self._change.input:
            await self._at_change(at, before, kind)
            return
        is_matched = False
        for row in await self._matching(at, before):
            is_matched = True
            await self.go(depth + 1, row, kind)
        if at.is_left_join and not is_matched:
            await self.go(depth + 1, before + at.nulls, kind)

    async def _at_change(self, at: _Input, before: Row, kind: RowKind) -> None:
        row = before + self._row
        part = at.part_before(before, self._change.key) if at.number else b""
        if part is None or (at.number and part != at.part_of(self._row)):
            return
        if not at.accepts(row):
            return
        # How many matches there are need only be known where it decides about a padded row.
        others = len(await self._matching(at, before)) if at.is_left_join else 0
        following = at.number + 1
        if at.is_left_join and not kind.is_retraction and not others:
            await self.go(following, before + at.nulls, RowKind.DELETE)
        await self.go(following, row, kind)
        if at.is_left_join and kind.is_retraction and others == 1:
            await self.go(following, before + at.nulls, RowKind.INSERT)

    async def _matching(self, at: _Input, before: Row) -> list[Row]:
        """The rows so far with each row of an input that matches."""
        part = at.part_before(before, self._change.key) if at.number else b""
        if part is None:
            return []
        self._set_namespace(part)
        return [row for row in self._joined(at, before, await at.state.stored()) if at.accepts(row)]

    @staticmethod
    def _joined(at: _Input, before: Row, stored: Iterable[Stored]) -> Iterator[Row]:
        for each in stored:
            row = before + at.text.decode(each.row)
            for _ in range(each.times):
                yield row
