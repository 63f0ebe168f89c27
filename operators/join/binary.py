"""What joins of two changelogs share: their spec, their sides, and how pairs are found."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Self

from pydantic import NonNegativeInt, model_validator

from operators.join.bundles import key_text, reduced
from operators.join.columnar_join import ColumnarJoin
from operators.join.condition import compile_condition, unmatchable
from operators.join.side_state import side_state
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import RowText

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.join.columnar_join import Shows
    from operators.join.side_state import SideState, Stored
    from operators.keyed import InputChange, OpenEpoch
    from operators.spec import InputSpec

STATE_NAMES = ("leftState", "rightState")


class BinaryJoinSpec(OperatorSpec):
    """What joins of two inputs have; `inputs` are the left and the right one, by the join's key."""

    unique_keys: tuple[tuple[NonNegativeInt, ...] | None, tuple[NonNegativeInt, ...] | None] = (
        None,
        None,
    )
    """Of each side the columns of a unique key; empty: it has one row at most, as a total has;
    None: none is known."""
    filter_nulls: tuple[bool, ...]
    """For each column of the key whether a null in it has no match (`=`), or matches a null."""
    equalities: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Further columns of the left and the right row that must be equal and not null."""
    null_equalities: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Further columns of both rows that must be equal, or null both."""
    condition: list[Any] | None = None
    """What else must be TRUE, over left and right columns one behind the other; as
    `operators.expressions.rex_to_json` writes it."""

    @model_validator(mode="after")
    def _sides(self) -> Self:
        if len(self.inputs) != 2:
            raise ValueError(f"a join has two inputs, not {len(self.inputs)}")
        left, right = self.inputs
        if not len(left.key) == len(right.key) == len(self.filter_nulls):
            raise ValueError("left key, right key and filter_nulls differ in length")
        for side, unique_key in zip(self.inputs, self.unique_keys, strict=True):
            if any(at >= len(side.types) for at in unique_key or ()):
                raise ValueError(f"unique key {list(unique_key or ())} does not name columns")
        return self

    @property
    @abstractmethod
    def is_outer(self) -> tuple[bool, bool]:
        """Whether associations of the left side's rows are kept, and of the right side's."""

    @property
    def shows(self) -> Shows:
        """What is emitted: pairs, and padded rows of outer sides."""
        return "JOIN"


class Side:
    """One side of a join."""

    def __init__(self, spec: BinaryJoinSpec, number: int) -> None:
        row: InputSpec = spec.inputs[number]
        self.is_outer = spec.is_outer[number]
        self.text = RowText(row)
        name = STATE_NAMES[number]
        self.state: SideState = side_state(
            name,
            row,
            spec.unique_keys[number],
            row.key,
            spec.ttl_of(number),
            spec.past_of(name),
            counts=self.is_outer,
        )
        self._is_left = number == 0
        self._nulls: Row = (None,) * len(spec.inputs[1 - number].types)

    def joined(self, mine: Row, other: Row) -> Row:
        """The output row of a pair."""
        return mine + other if self._is_left else other + mine

    def padded(self, mine: Row) -> Row:
        """The output row of a row without a match."""
        return mine + self._nulls if self._is_left else self._nulls + mine


class BinaryJoin(KeyedOperator):
    """Sides, prefetch and matching; a subclass says what is emitted."""

    def __init__(self, spec: BinaryJoinSpec) -> None:
        self.spec = spec
        self.sides = (Side(spec, 0), Side(spec, 1))
        self._order = (self.sides, self.sides[::-1])
        self.descriptors = self.prefetched = tuple(each.state.descriptor for each in self.sides)
        self.has_no_match: Callable[[Row], bool] = unmatchable(spec.filter_nulls)
        self._now_ms = 0
        width = sum(len(each.types) for each in spec.inputs)
        condition = compile_condition(spec.condition, width, lambda: self._now_ms)
        self._condition = self._with_equalities(condition)
        self.columnar_sides = self._on_columns = ColumnarJoin.of(spec, self.sides, self._condition)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of both sides."""
        self._now_ms = epoch.times.time_ms
        for side in self.sides:
            side.state.open(epoch.session)
            side.text.begin()
        if self._on_columns is not None:
            self._on_columns.open(epoch.session)

    def of_input(self, number: int) -> tuple[Side, Side]:
        """The side of an input, and the other one."""
        return self._order[number]

    async def matches(self, values: Row, mine: Side, other: Side) -> list[tuple[Stored, Row, Row]]:
        """The other side's rows that a row is joined with: what is stored, the pair, its values."""
        found: list[tuple[Stored, Row, Row]] = []
        condition, decode, joined = self._condition, other.text.decode, mine.joined
        for stored in await other.state.stored():
            of_other = decode(stored.row)
            pair = joined(values, of_other)
            if condition is None or condition(pair):
                found.append((stored, pair, of_other))
        return found

    async def replacements(
        self, values: Row, before: Row, mine: Side, other: Side
    ) -> list[tuple[Stored, Row | None, Row | None, Row]]:
        """The other side's rows that a row, or the one that it replaces, is joined with.

        Returns:
            What is stored, the pair, the pair of the row before (None: they do not match), and the
            values of the other side's row.
        """
        found: list[tuple[Stored, Row | None, Row | None, Row]] = []
        condition, decode, joined = self._condition, other.text.decode, mine.joined
        for stored in await other.state.stored():
            of_other = decode(stored.row)
            pairs = [
                pair if condition is None or condition(pair) else None
                for pair in (joined(values, of_other), joined(before, of_other))
            ]
            if pairs != [None, None]:
                found.append((stored, pairs[0], pairs[1], of_other))
        return found

    async def taken_back(self, change: InputChange, row: bytes, mine: Side) -> Row:
        """Take a row back: the one of its unique key where there is one, whatever else it says.

        Returns:
            That row. If there is none, the change is an orphan, and it is its own: what it would
            take back is taken back all the same, since the state may have expired.
        """
        gone = await mine.state.retract(row, change.row)
        if gone is None:
            change.orphan()
        return change.row if gone is None or gone == row else mine.text.decode(gone)

    async def reduced(self, changes: Sequence[InputChange]) -> tuple[list[list[InputChange]], ...]:
        """What remains of a bundle, see `operators.join.bundles`."""
        rules = []
        for number, side in enumerate(self.sides):
            unique_key = self.spec.unique_keys[number]
            held: set[str] = set()
            # What replaces a row, and is taken back then, takes both with it.
            mine = {each.kind.is_retraction for each in changes if each.input == number}
            if unique_key is not None and len(mine) > 1:
                rows = [side.text.decode(stored.row) for stored in await side.state.stored()]
                held = {key_text(row, unique_key) for row in rows}
            cancels_renewal = not side.state.descriptor.ttl.is_enabled
            rules.append((side.text.encode, unique_key, cancels_renewal, held))
        return reduced(changes, rules)

    def _with_equalities(
        self, condition: Callable[[Row], bool] | None
    ) -> Callable[[Row], bool] | None:
        spec = self.spec
        pairs = [*spec.equalities, *spec.null_equalities]
        if not pairs:
            return condition
        left, right = spec.inputs
        codecs = [
            (left.part((one,)).codec().encode, right.part((other,)).codec().encode)
            for one, other in pairs
        ]
        places = [(one, len(left.types) + other) for one, other in pairs]
        needs_value = [at < len(spec.equalities) for at in range(len(pairs))]

        def holds(pair: Row) -> bool:
            for (of_left, of_right), (one, other), is_filtered in zip(
                codecs, places, needs_value, strict=True
            ):
                if is_filtered and pair[one] is None:
                    return False
                if of_left([pair[one]]) != of_right([pair[other]]):
                    return False
            return condition is None or condition(pair)

        return holds
