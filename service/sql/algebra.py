"""A query as a tree of relational operators: immutable, typed, without a way to be run.

The binder makes it, rules rewrite it, `service.sql.physical` chooses nodes for it. Columns are
known by position; names are kept because a plan shows them. `window_relations` has those of
windows.

    Scan          a table's source                    Aggregate    GROUP BY, DISTINCT
    Values        rows that stand in the statement    Sort         ORDER BY, LIMIT, OFFSET
    Watermark     declares event time                 Union        UNION ALL
    Project       computes columns; OVER functions    Correlate    UNNEST, repeated rows
                  stand here until a rule takes them  KeepAll      INTERSECT ALL, EXCEPT ALL
    Filter        keeps rows                          Expand       repeats rows for grouping sets
    Join          regular, semi and anti joins
    VersionJoin   FOR SYSTEM_TIME AS OF: temporal and lookup joins
    MultiJoin     a chain of joins on one key
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from service.plan.rex import Call, InputRef
from service.sql.deadline import check_time
from service.sql.rex import Expression, OverCall, conjuncts, literal, ref, type_of
from service.sql.terms import Row, aggregate_row, join_row, unique_names
from service.sql.types import BIGINT

if TYPE_CHECKING:
    from service.plan.rex import Literal, Rex
    from service.sql.catalogue import CatalogTable
    from service.sql.terms import AggregateCall, JoinKind, LookupRetries, Ordering
    from service.sql.window_relations import GroupWindows, Over, Rank, WindowTable


@dataclass(frozen=True)
class Scan:
    """A table's source."""

    table: CatalogTable

    @cached_property
    def row(self) -> Row:
        """The physical columns, then metadata."""
        columns = self.table.scanned
        return Row(tuple(each.name for each in columns), tuple(each.type for each in columns))


@dataclass(frozen=True)
class Values:
    """Rows that stand in the statement."""

    rows: tuple[tuple[Literal, ...], ...]
    row: Row


@dataclass(frozen=True)
class Watermark:
    """Declares a column the event time and says how far time has come."""

    input: Relation
    column: int
    expression: Rex

    @cached_property
    def row(self) -> Row:
        """The input's, with a rowtime."""
        types = list(self.input.row.types)
        types[self.column] = replace(types[self.column], time_attribute="ROWTIME")
        return Row(self.input.row.names, tuple(types))


@dataclass(frozen=True)
class Project:
    """Computes columns."""

    input: Relation
    expressions: tuple[Expression, ...]
    names: tuple[str, ...]

    @cached_property
    def row(self) -> Row:
        """What the expressions give."""
        return Row(self.names, tuple(map(type_of, self.expressions)))

    @cached_property
    def scalars(self) -> tuple[Rex, ...]:
        """The expressions of a projection that has no OVER function, or has none any more."""
        found = tuple(each for each in self.expressions if not isinstance(each, OverCall))
        assert len(found) == len(self.expressions), "its OVER functions have been taken out"
        return found


@dataclass(frozen=True)
class Filter:
    """Keeps the rows for which a condition is true."""

    input: Relation
    condition: Rex

    @property
    def row(self) -> Row:
        """The input's."""
        return self.input.row


@dataclass(frozen=True)
class Join:
    """Pairs of rows that meet a condition; SEMI and ANTI: rows of the left."""

    left: Relation
    right: Relation
    kind: JoinKind
    condition: Rex | None
    """Over the left columns, then the right; None: every pair."""
    ttl: tuple[str | None, str | None] = (None, None)
    """What a STATE_TTL hint says of each side."""
    is_multi: bool = False
    """Whether a MULTI_JOIN hint names both sides."""
    is_subquery: bool = False
    """Whether the right side is a subquery that stands in an expression."""

    @cached_property
    def row(self) -> Row:
        """Left, then right; an outer join's other side may be NULL."""
        return join_row(self.left.row, self.right.row, self.kind)


@dataclass(frozen=True)
class VersionJoin:
    """Rows with the version of a table that was valid at a time of theirs."""

    left: Relation
    right: Relation
    kind: JoinKind
    condition: Rex | None
    time: Rex
    """Over the left columns: event time, or processing time."""
    used_right: frozenset[int] = frozenset()
    """The columns of the right side that are read above; known once columns are pruned."""
    retries: LookupRetries | None = None
    """Of a table that is looked up."""

    @cached_property
    def row(self) -> Row:
        """Left, then right."""
        return join_row(self.left.row, self.right.row, self.kind)


@dataclass(frozen=True)
class MultiJoin:
    """Several relations joined on one key, each to those before it."""

    inputs: tuple[Relation, ...]
    kinds: tuple[JoinKind, ...]
    """The first is INNER, and means nothing."""
    conditions: tuple[Rex, ...]
    """Of each input, over it and all before it; the first is TRUE."""
    common_keys: tuple[tuple[int, ...], ...]
    """The columns of each input that are the common key."""
    ttl: tuple[str | None, ...]

    @cached_property
    def row(self) -> Row:
        """All inputs side by side; those of a LEFT join may be NULL."""
        row = self.inputs[0].row
        for each, kind in zip(self.inputs[1:], self.kinds[1:], strict=True):
            row = join_row(row, each.row, kind)
        return row

    def place(self, column: int) -> tuple[int, int]:
        """The input of a column of the row, and its column there.

        Raises:
            IndexError: The row has no such column.
        """
        for index, each in enumerate(self.inputs):
            if column < len(each.row):
                return index, column
            column -= len(each.row)
        raise IndexError("the column is not one of this join")

    def attributes(self) -> tuple[tuple[tuple[int, int, int, int], ...], ...]:
        """For each input, the pairs of columns that its condition says are equal.

        A pair is left input and column, right input and column. The first input has nothing to its
        left: it lists its own columns that others are compared with.
        """
        found: list[list[tuple[int, int, int, int]]] = [[] for _ in self.inputs]
        for index, condition in enumerate(self.conditions):
            for first, second in _equal_pairs(condition):
                left, right = sorted((first, second))
                pair = (*self.place(left), *self.place(right))
                if pair[0] != pair[2] and pair[2] == index:
                    found[index].append(pair)
                    if pair[0] == 0:
                        found[0].append((-1, -1, 0, pair[1]))
        return tuple(map(tuple, found))


def _equal_pairs(condition: Rex) -> list[tuple[int, int]]:
    found = []
    for part in conjuncts(condition):
        if isinstance(part, Call) and part.name == "=":
            first, second = part.operands
            if isinstance(first, InputRef) and isinstance(second, InputRef):
                found.append((first.index, second.index))
    return found


@dataclass(frozen=True)
class Aggregate:
    """A row for each group: the grouping columns, then the calls."""

    input: Relation
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    ttl: str | None = None
    """What a STATE_TTL hint says."""
    sets: tuple[frozenset[int], ...] = ()
    """Of GROUPING SETS: the grouping columns of each; empty: one group for all."""

    @cached_property
    def row(self) -> Row:
        """The grouping columns, then the calls, named as Flink names them.

        What a set lacks is NULL in its rows.
        """
        row = aggregate_row(self.input.row, self.grouping, self.calls)
        if not self.sets:
            return row
        always = frozenset.intersection(*self.sets)
        groups = (
            kind.with_nullable(kind.nullable or column not in always)
            for column, kind in zip(self.grouping, row.types, strict=False)
        )
        return Row(row.names, (*groups, *row.types[len(self.grouping) :]))


@dataclass(frozen=True)
class Sort:
    """Rows in order; the first ones only, where there is a limit."""

    input: Relation
    order: tuple[Ordering, ...]
    offset: int = 0
    fetch: int | None = None

    @property
    def row(self) -> Row:
        """The input's."""
        return self.input.row


@dataclass(frozen=True)
class Union:
    """All rows of all inputs."""

    inputs: tuple[Relation, ...]

    @cached_property
    def row(self) -> Row:
        """The first input's names; NULL where any input may be."""
        types = tuple(
            column[0].with_nullable(any(each.nullable for each in column))
            for column in zip(*(each.row.types for each in self.inputs), strict=True)
        )
        return Row(self.inputs[0].row.names, types)


@dataclass(frozen=True)
class Expand:
    """Each row once for each set, with the number of the repetition."""

    input: Relation
    groups: tuple[int, ...]
    """Columns that are NULL but in the sets that have them."""
    sets: tuple[frozenset[int], ...]
    copies: tuple[int, ...] = ()
    """Columns that come once more, behind all, as they were."""
    number_column: int | None = None
    """Where the number of the repetition stands; None: behind the input's columns."""

    @cached_property
    def row(self) -> Row:
        """The input's, grouped columns nullable, `$e`, and the copies, named as no other is."""
        row = self.input.row
        kinds = [
            kind.with_nullable(True)
            if index in self.groups and not all(index in each for each in self.sets)
            else kind
            for index, kind in enumerate(row.types)
        ]
        at = self.number_at
        names = [*row.names]
        names[at:at] = unique_names(names, ["$e"], "_")
        names += unique_names(names, [row.names[each] for each in self.copies], "_")
        kinds[at:at] = [BIGINT.with_nullable(False)]
        return Row(tuple(names), (*kinds, *(row.types[each] for each in self.copies)))

    @property
    def number_at(self) -> int:
        """The column of the number of the repetition."""
        return len(self.input.row) if self.number_column is None else self.number_column

    def projects(self) -> list[tuple[Rex, ...]]:
        """The row of each repetition; repetitions are numbered as their set leaves columns out."""
        types = self.input.row.types
        made: list[tuple[Rex, ...]] = []
        for number, chosen in zip(self.numbers(), self.sets, strict=True):
            columns: list[Rex] = [
                ref(index, kind)
                if index not in self.groups or index in chosen
                else literal(None, kind.with_nullable(True))
                for index, kind in enumerate(types)
            ]
            columns.insert(self.number_at, literal(number, BIGINT.with_nullable(False)))
            made.append((*columns, *(ref(each, types[each]) for each in self.copies)))
        return made

    def numbers(self) -> list[int]:
        """For each set a bit for each column that it lacks, the first column highest."""
        return [set_number(self.groups, each) for each in self.sets]


@dataclass(frozen=True)
class Correlate:
    """Each row beside the rows that a table function makes of it."""

    input: Relation
    kind: JoinKind
    """INNER, or LEFT, which pads a row of which nothing is made."""
    call: Call
    """The function, over the input's columns."""
    made: Row
    """The columns that it makes; those of LEFT are not padded yet."""
    plan_names: tuple[str, ...]
    """What a plan calls them."""
    condition: Rex | None = None
    """Over the columns that are made."""

    @cached_property
    def row(self) -> Row:
        """The input's columns, then those that are made."""
        return join_row(self.input.row, self.made, self.kind)


@dataclass(frozen=True)
class KeepAll:
    """INTERSECT ALL or EXCEPT ALL: as many of equal rows as both have, or as the left has more."""

    left: Relation
    right: Relation
    is_except: bool

    @cached_property
    def row(self) -> Row:
        """The left's names; NULL where either side may be."""
        pairs = zip(self.left.row.types, self.right.row.types, strict=True)
        types = tuple(one.with_nullable(one.nullable or two.nullable) for one, two in pairs)
        return Row(self.left.row.names, types)


def set_number(groups: tuple[int, ...], chosen: frozenset[int]) -> int:
    """A bit for each of the groups that a set lacks, the first one highest."""
    count = len(groups)
    return sum(1 << (count - 1 - at) for at, column in enumerate(groups) if column not in chosen)


Relation: TypeAlias = (
    "Scan | Values | Watermark | Project | Filter | Join | VersionJoin | MultiJoin | Aggregate "
    "| Sort | Union | Over | Rank | WindowTable | GroupWindows | Expand | Correlate | KeepAll"
)


@dataclass(frozen=True)
class Sink:
    """Writes a query's rows into a table."""

    input: Relation
    table: CatalogTable
    conflict: str | None
    """What ON CONFLICT says; None without the clause."""
    target_columns: tuple[int, ...] | None
    """The columns that the statement named, by position in the table; None: it named none."""


def inputs(relation: Relation) -> tuple[Relation, ...]:
    """The relations that this one is made of, left before right."""
    check_time()  # what goes through a tree of relations asks for this
    match relation:
        case Scan() | Values():
            return ()
        case Join() | VersionJoin() | KeepAll():
            return relation.left, relation.right
        case Union() | MultiJoin():
            return relation.inputs
        case _:
            return (relation.input,)


def with_inputs(relation: Relation, given: tuple[Relation, ...]) -> Relation:
    """The same relation over other inputs; itself if they are the same."""
    if all(old is new for old, new in zip(inputs(relation), given, strict=True)):
        return relation
    match relation:
        case Scan() | Values():
            return relation
        case Join() | VersionJoin() | KeepAll():
            return replace(relation, left=given[0], right=given[1])
        case Union() | MultiJoin():
            return replace(relation, inputs=given)
        case _:
            return replace(relation, input=given[0])
