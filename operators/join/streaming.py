"""Join two changelogs: INNER, LEFT, RIGHT and FULL, without bounds of time.

What is emitted for a change, in this order ("match": a row of the other side with the same key,
for which the condition is TRUE; n: the match's associations before the change):

    accumulate                                        (kind: that of the change)
      no match, own side outer                        +I row+null
      each match
        other side outer and n = 0                    -D null+match
        neither side outer                            kind row+match
        a side is outer                               +I row+match
        other side outer                              the match's associations become n + 1
      own side                                        has the row, with as many associations
                                                      as there were matches
    accumulate, in place of a row of its unique key ("before") that nothing has taken back
      each match of the row before alone              as for its retraction; kind: -D
      no match before, some now, own side outer       -D before+null
      the rest                                        as for any accumulate; where a match was met
                                                      already, its associations stay as they are
    retract
      own side                                        has the row no more
      no match, own side outer                        -D row+null
      each match
        own side outer                                -D row+match
        own side not outer                            kind row+match
        other side outer and n = 1                    +I null+match
        other side outer                              the match's associations become n - 1

A key with a null in a column that is compared by `=` has no match, now or ever: its rows are
emitted as the table says, and kept nowhere.

-U and +U go through one by one, so that a -U may come without its +U behind it.

A side may bring its updates as +U alone, where it has a unique key: what the row before met, and
does not meet any more, is taken back. Flink counts such a +U as another association of an outer
row, so that the padded row never comes back (FLINK-40681), and leaves joined rows behind where the
join has a condition (FLINK-38579). What both rows meet is not taken back first: as the input, so
the output names rows by their unique key.

A worked example, `l LEFT JOIN r` by key a:

    left   +I (1, a)      +I (1, a, null, null)
    right  +I (a, x)      -D (1, a, null, null), +I (1, a, a, x)
    right  +I (a, y)      +I (1, a, a, y)
    right  -D (a, x)      -D (1, a, a, x)
    left   -U (1, a)      -D (1, a, a, y)
    left   +U (2, a)      +I (2, a, a, y)

Mini-batch: of a key's changes in an epoch `operators.join.bundles` says which remain. The side that
is padded comes last (INNER, FULL: the left one), and a -U and its +U that meet the same rows leave
them as they are: nothing is padded in between.

Source: Flink's `StreamingJoinOperator` and `MiniBatchStreamingJoinOperator` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from operators.changelog import RowKind
from operators.join.binary import BinaryJoin, BinaryJoinSpec
from operators.join.bundles import is_update
from operators.join.side_state import OneRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.join.binary import Side
    from operators.join.side_state import Stored
    from operators.keyed import InputChange

    Alone = dict[bytes, tuple[int, Row]]
    """Rows that a retraction left without a match: how often each one is, and as padded."""

OuterJoinType = Literal["INNER", "LEFT", "RIGHT", "FULL"]


class StreamingJoinSpec(BinaryJoinSpec):
    """What a join is to do."""

    kind: Literal["join"] = "join"
    join_type: OuterJoinType

    @property
    def is_outer(self) -> tuple[bool, bool]:
        """Whether the left side is outer, and whether the right one is."""
        return self.join_type in ("LEFT", "FULL"), self.join_type in ("RIGHT", "FULL")

    def operator(self) -> StreamingJoin:
        """The operator."""
        return StreamingJoin(self)


class StreamingJoin(BinaryJoin):
    """Joins two changelogs.

    Characteristics:
        input       +I -U +U -D of both sides, keyed by the join's columns
        output      INNER: the kinds that come in; else +I and -D only
        state       the rows of each side (`operators.join.side_state`), each side with its own TTL
        state cost  both sides of the epoch's keys are prefetched; O(1) accesses to the own side,
                    O(rows with the key) to the other one
        time        none
        unseen -D   an orphan; what it would take back is taken back all the same, since its state
                    may have expired
    """

    def __init__(self, spec: StreamingJoinSpec) -> None:
        super().__init__(spec)
        # Where each change alters both sides, or a side is one row, there is nothing to save.
        has_one_row = all(isinstance(each.state, OneRow) for each in self.sides)
        self.takes_bundles = True not in spec.is_outer and not has_one_row

    async def process(self, change: InputChange) -> None:
        """Join a change with the rows of the other side."""
        mine, other = self.of_input(change.input)
        if self.has_no_match(change.key):
            if mine.is_outer:
                kind = RowKind.DELETE if change.kind.is_retraction else RowKind.INSERT
                change.emit(kind, mine.padded(change.row))
            return
        row = change.text
        if change.kind.is_retraction:
            await self._retract(change, row, mine, other)
        elif (replaced := await mine.state.replaced_by(change.row)) is not None:
            await self._replace(change, row, replaced, mine, other)
        else:
            await self._accumulate(change, row, mine, other, {})

    async def _accumulate(
        self, change: InputChange, row: bytes, mine: Side, other: Side, left_alone: Alone
    ) -> None:
        emit, values = change.emit, change.row
        matches = await self.matches(values, mine, other)
        count = 0
        if mine.is_outer and not matches:
            emit(RowKind.INSERT, mine.padded(values))
        kind = RowKind.INSERT if mine.is_outer or other.is_outer else change.kind
        for match, joined, of_match in matches:
            is_padded = match.associations == 0 and left_alone.pop(match.row, None) is None
            for _ in range(match.times):
                if other.is_outer and is_padded:
                    emit(RowKind.DELETE, other.padded(of_match))
                emit(kind, joined)
            count += match.times
            if other.is_outer:
                await other.state.associate(match, match.associations + 1)
        await mine.state.add(row, values, count)

    async def _replace(
        self, change: InputChange, row: bytes, replaced: bytes, mine: Side, other: Side
    ) -> None:
        """Accumulate a row in place of another one of its unique key."""
        emit, values = change.emit, change.row
        before = mine.text.decode(replaced)
        matches: list[tuple[Stored, Row, Row, bool]] = []
        count = count_before = 0
        for match, pair, pair_before, of_match in await self.replacements(
            values, before, mine, other
        ):
            if pair_before is not None:
                count_before += match.times
            if pair is not None:
                count += match.times
                matches.append((match, pair, of_match, pair_before is not None))
                continue
            assert pair_before is not None  # one of both
            for _ in range(match.times):
                emit(RowKind.DELETE, pair_before)
                if other.is_outer and match.associations == 1:
                    emit(RowKind.INSERT, other.padded(of_match))
            if other.is_outer:
                await other.state.associate(match, match.associations - 1)
        if mine.is_outer and count and not count_before:
            emit(RowKind.DELETE, mine.padded(before))
        if mine.is_outer and not count:
            emit(RowKind.INSERT, mine.padded(values))
        kind = RowKind.INSERT if mine.is_outer or other.is_outer else change.kind
        for match, pair, of_match, is_met in matches:
            for _ in range(match.times):
                if other.is_outer and match.associations == 0:
                    emit(RowKind.DELETE, other.padded(of_match))
                emit(kind, pair)
            if other.is_outer:
                await other.state.associate(match, match.associations + (not is_met))
        await mine.state.add(row, values, count)

    async def _retract(
        self,
        change: InputChange,
        row: bytes,
        mine: Side,
        other: Side,
        left_alone: Alone | None = None,
    ) -> None:
        emit, values = change.emit, await self.taken_back(change, row, mine)
        matches = await self.matches(values, mine, other)
        if mine.is_outer and not matches:
            emit(RowKind.DELETE, mine.padded(values))
        kind = RowKind.DELETE if mine.is_outer else change.kind
        for match, joined, of_match in matches:
            loses_last = other.is_outer and match.associations == 1
            if loses_last and left_alone is not None:
                left_alone[match.row] = (match.times, other.padded(of_match))
            for _ in range(match.times):
                emit(kind, joined)
                if loses_last and left_alone is None:
                    emit(RowKind.INSERT, other.padded(of_match))
            if other.is_outer:
                await other.state.associate(match, match.associations - 1)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Join what remains of a bundle once what cancels out is left away.

        The side whose rows are padded comes last, so that they meet the other one's.

        Where bundles are not asked for: as `process` of each change.
        """
        if not self.spec.bundles:
            await self._process_each(changes)
            return
        for change in changes:
            change.emit_in_place_of(changes[-1])
        left, right = await self.reduced(changes)
        is_right = self.spec.is_outer == (False, True)
        for kept in (left, right) if is_right else (right, left):
            for group in kept:
                await self._process_group(group)

    async def _process_each(self, changes: Sequence[InputChange]) -> None:
        """Join change by change. Rows of a side are looked at again only once they have changed."""
        if len(changes) == 1:
            for change in changes:
                await self.process(change)
            return
        if self.has_no_match(changes[0].key):
            return
        known: list[list[Row] | None] = [None, None]
        added: tuple[list[tuple[bytes, Row]], ...] = ([], [])
        condition = self._condition
        for change in changes:
            number, kind, row = change.input, change.kind, change.row
            is_retraction = kind.is_retraction
            if is_retraction:
                if added[number]:
                    await self._add(number, added)
                row = await self.taken_back(change, change.text, self.sides[number])
            matches = known[1 - number]
            if matches is None:
                if added[1 - number]:
                    await self._add(1 - number, added)
                matches = known[1 - number] = await self._values_of(self.sides[1 - number])
            pairs = [each + row for each in matches] if number else [row + each for each in matches]
            has_key = self.spec.unique_keys[number] is not None
            if condition is not None and has_key and not is_retraction:
                if added[number]:
                    await self._add(number, added)
                await self._take_back_replaced(change, matches, pairs)
            for pair in pairs if condition is None else filter(condition, pairs):
                change.emit(kind, pair)
            if not is_retraction:
                added[number].append((change.text, row))
            known[number] = None
        for number in (0, 1):
            if added[number]:
                await self._add(number, added)

    async def _take_back_replaced(
        self, change: InputChange, matches: Sequence[Row], pairs: Sequence[Row]
    ) -> None:
        """Take back what the row met that a change replaces, and the change does not meet.

        Args:
            change: It accumulates; there is a condition.
            matches: Rows of the other side.
            pairs: The change's row beside each of them.
        """
        mine, condition = self.sides[change.input], self._condition
        replaced = await mine.state.replaced_by(change.row)
        if replaced is None or condition is None:
            return
        before = mine.text.decode(replaced)
        for match, pair in zip(matches, pairs, strict=True):
            pair_before = mine.joined(before, match)
            if condition(pair_before) and not condition(pair):
                change.emit(RowKind.DELETE, pair_before)

    async def _values_of(self, side: Side) -> list[Row]:
        """The rows of a side, each as often as it is there."""
        found: list[Row] = []
        for stored in await side.state.stored():
            row = side.text.decode(stored.row)
            found += (row,) * stored.times
        return found

    async def _add(self, number: int, added: Sequence[list[tuple[bytes, Row]]]) -> None:
        """Let a side have the rows that wait to be added to it."""
        await self.sides[number].state.add_all(added[number])
        added[number].clear()

    async def _process_group(self, group: Sequence[InputChange]) -> None:
        """The changes of one unique key; of an update, rows are not padded in between."""
        if not is_update(group) or self.has_no_match(group[0].key):
            for change in group:
                await self.process(change)
            return
        before, after = group
        mine, other = self.of_input(before.input)
        left_alone: Alone = {}
        encode = mine.text.encode
        await self._retract(before, encode(before.row), mine, other, left_alone)
        await self._accumulate(after, encode(after.row), mine, other, left_alone)
        for times, padded in left_alone.values():
            for _ in range(times):
                after.emit(RowKind.INSERT, padded)
