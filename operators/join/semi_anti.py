"""Show the rows of one changelog that have (SEMI), or have not (ANTI), a match in another one.

    left change                                      emitted
      SEMI, a match is there; ANTI, there is none    the change
      else                                           nothing
      accumulate: the left side has the row, with as many associations as there are matches;
      if the row that it replaces, of its unique key, was shown and the new one is not: -D of it
      retract: it has it no more

    right accumulate: the right side has the row; for each match on the left, n its associations
      n = 0, SEMI                                    kind match (that of the change)
      n = 0, ANTI                                    -D match
      the match's associations become n + 1
      where it replaces a row of its unique key: of rows on the left that both rows match nothing
      changes, those that only the row before matched are treated as by its retraction, kind -D
    right retract: the right side has the row no more; for each match on the left
      n = 1, SEMI                                    kind match
      n = 1, ANTI                                    +I match
      the match's associations become n - 1

A left key with a null in a column that is compared by `=` has no match, now or ever: ANTI shows its
rows, SEMI does not, and they are kept nowhere. A right one matters to nobody.

    left   +I (1, a)      SEMI nothing       ANTI +I (1, a)
    right  +I (a)         SEMI +I (1, a)     ANTI -D (1, a)
    right  +I (a)         nothing
    right  -D (a)         nothing
    right  -D (a)         SEMI -D (1, a)     ANTI +I (1, a)

Source: Flink's `StreamingSemiAntiJoinOperator` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from operators.changelog import RowKind
from operators.join.binary import BinaryJoin, BinaryJoinSpec

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.join.binary import Side
    from operators.join.columnar_join import Shows
    from operators.join.side_state import Stored
    from operators.keyed import InputChange


class SemiAntiJoinSpec(BinaryJoinSpec):
    """What a semi or anti join is to do; its output has the left columns."""

    kind: Literal["semi-anti-join"] = "semi-anti-join"
    join_type: Literal["SEMI", "ANTI"]

    @property
    def is_outer(self) -> tuple[bool, bool]:
        """Associations are kept of left rows."""
        return True, False

    @property
    def shows(self) -> Shows:
        """Left rows, by whether they have a match."""
        return self.join_type

    def operator(self) -> SemiAntiJoin:
        """The operator."""
        return SemiAntiJoin(self)


class SemiAntiJoin(BinaryJoin):
    """Filters one changelog by another one.

    Characteristics:
        input       +I -U +U -D of both sides, keyed by the join's columns
        output      the left changes, and +I -U +U -D as the first match comes and the last one goes
        state       the rows of each side (`operators.join.side_state`), each side with its own TTL
        state cost  as `StreamingJoin`
        time        none
        unseen -D   an orphan; of the left side it is shown if it has (SEMI) or has not a match
    """

    def __init__(self, spec: SemiAntiJoinSpec) -> None:
        super().__init__(spec)
        self._is_anti = spec.join_type == "ANTI"

    async def process(self, change: InputChange) -> None:
        """Show a left change, or what a right one means for left rows."""
        mine, other = self.of_input(change.input)
        if self.has_no_match(change.key):
            if self._is_anti and mine.is_outer:
                change.emit(change.kind, change.row)
            return
        row = change.text
        if change.input == 0:
            await self._left(change, row, mine, other)
        else:
            await self._right(change, row, mine, other)

    async def _left(self, change: InputChange, row: bytes, mine: Side, other: Side) -> None:
        values = change.row
        if change.kind.is_retraction:
            values = await self.taken_back(change, row, mine)
        matches = await self.matches(values, mine, other)
        is_shown = bool(matches) is not self._is_anti
        if not change.kind.is_retraction:
            replaced = None if is_shown else await mine.state.replaced_by(values)
            if replaced is not None:
                before = mine.text.decode(replaced)
                if bool(await self.matches(before, mine, other)) is not self._is_anti:
                    change.emit(RowKind.DELETE, before)
            await mine.state.add(row, values, sum(match.times for match, _, _ in matches))
        if is_shown:
            change.emit(change.kind, values)

    async def _right(self, change: InputChange, row: bytes, mine: Side, other: Side) -> None:
        if change.kind.is_retraction:
            gone = await self.taken_back(change, row, mine)
            for match, _, values in await self.matches(gone, mine, other):
                await self._step(change, -1, change.kind, match, values, other)
            return
        replaced = await mine.state.replaced_by(change.row)
        await mine.state.add(row, change.row)
        if replaced is None:
            for match, _, values in await self.matches(change.row, mine, other):
                await self._step(change, 1, change.kind, match, values, other)
            return
        before = mine.text.decode(replaced)
        found = await self.replacements(change.row, before, mine, other)
        for match, pair, _, values in found:
            if pair is None:
                await self._step(change, -1, RowKind.DELETE, match, values, other)
        for match, pair, pair_before, values in found:
            if pair_before is None:
                await self._step(change, 1, change.kind, match, values, other)
            elif pair is not None:
                await other.state.associate(match, match.associations)

    async def _step(
        self,
        change: InputChange,
        step: int,
        kind: RowKind,
        match: Stored,
        values: Row,
        left: Side,
    ) -> None:
        """Have a left row one match more, or one less; SEMI shows that with this kind."""
        if match.associations == (0 if step > 0 else 1):
            of_anti = RowKind.DELETE if step > 0 else RowKind.INSERT
            for _ in range(match.times):
                change.emit(of_anti if self._is_anti else kind, values)
        await left.state.associate(match, match.associations + step)
