"""Random pipelines: tables, statements in two dialects, and what happens to the tables.

All is drawn from one `random.Random`, so a seed names a case. A statement is a tree of relations,
each with its text for Flink and for the batch engine; a history is a list of operations on tables,
which become lines of a changelog when they are applied. So a part of either is a case again, which
is all that `shrunk` needs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from tests.batch_sql import PLACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from operators.changelog import Row

# What is not right yet is left out until it is mended; then its constant goes, and the branch that
# asks for it.
WITHOUT_NOT_NULL_BESIDE_SPLIT_DISTINCT = True
"""Aggregates that are never null beside a DISTINCT that is split: they are null for a moment, and
operators behind them refuse that."""

COLUMNS = ("id", "g", "v", "s")
TYPES = ("INT", "INT", "BIGINT", "STRING")
BATCH_COLUMNS = "id INTEGER, g INTEGER, v BIGINT, s VARCHAR"
TABLES = ("a", "b", "c", "d", "e")
IDS, GROUPS, VALUES = range(8), (0, 1, 2, 3, None), (*range(6), None)
TEXTS = ("x", "y", "z", "", None)
AGGREGATES = (
    "COUNT({})",
    "SUM({})",
    "MIN({})",
    "MAX({})",
    "COUNT(DISTINCT {})",
    "SUM(DISTINCT {})",
)
OPTIONS = {
    "table.exec.mini-batch.enabled": ("true",),
    "table.optimizer.agg-phase-strategy": ("ONE_PHASE", "TWO_PHASE"),
    "table.optimizer.distinct-agg.split.enabled": ("true",),
    "table.optimizer.multi-join.enabled": ("true",),
    "table.optimizer.reuse-sub-plan-enabled": ("false",),
    "table.exec.sink.upsert-materialize": ("FORCE",),
}
SPLIT = "table.optimizer.distinct-agg.split.enabled"
MINI_BATCH = {
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "100",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A table that is read.

    Its name, its option `changelog-mode`, its format, and whether `id` is its primary key.
    """

    name: str
    mode: str
    form: str
    is_keyed: bool

    @property
    def tells_moves(self) -> bool:
        """Whether a line says under which key an updated row was."""
        return self.is_keyed and (self.form == "debezium-json" or "UB" in self.mode)

    @property
    def ddl(self) -> str:
        """CREATE TABLE."""
        columns = [
            "id INT NOT NULL" if self.is_keyed else "id INT",
            "g INT",
            "v BIGINT",
            "s STRING",
        ]
        columns += ["PRIMARY KEY (id) NOT ENFORCED"] * self.is_keyed
        return (
            f"CREATE TABLE {self.name} ({', '.join(columns)}) WITH ('connector' = 'ingress', "
            f"'format' = '{self.form}', 'changelog-mode' = '{self.mode}');"
        )


class Operation(NamedTuple):
    """What happens to a table: a row is put (in place of that of its key), or goes."""

    table: str
    row: Row
    is_put: bool
    moves: int | None = None
    """The key that the row has been under so far."""


class LiveTable:
    """A table as it is now, and the lines that made it so."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.rows: list[Row] = []
        """In the order of their arrival; one that is updated arrives anew."""

    def apply(self, operation: Operation) -> list[Any]:
        """The lines of a changelog that an operation is; none if there is nothing to do."""
        source, row = self.source, operation.row
        before = self._before(operation)
        if not operation.is_put:
            if before is None or source.mode == "I":
                return []
            self.rows.remove(before)
            return self._lines("d", before, None)
        if before is not None and source.mode == "I":
            return []
        if operation.moves is not None and (
            before is None or any(each[0] == row[0] for each in self.rows if each != before)
        ):
            return []
        if before is not None:
            self.rows.remove(before)
        self.rows.append(row)
        return self._lines("c" if before is None else "u", before, row)

    def _before(self, operation: Operation) -> Row | None:
        if not self.source.is_keyed:
            is_there = not operation.is_put and operation.row in self.rows
            return operation.row if is_there else None
        key = operation.row[0] if operation.moves is None else operation.moves
        return next((each for each in self.rows if each[0] == key), None)

    def _lines(self, op: str, before: Row | None, after: Row | None) -> list[Any]:
        old = None if before is None else dict(zip(COLUMNS, before, strict=True))
        new = None if after is None else dict(zip(COLUMNS, after, strict=True))
        if self.source.form == "debezium-json":
            return [{"op": op, "before": old, "after": new}]
        if op != "u":
            return [{"op": "+I" if op == "c" else "-D", "data": old or new}]
        lines = [{"op": "-U", "data": old}, {"op": "+U", "data": new}]
        return lines if "UB" in self.source.mode else lines[1:]


@dataclass(frozen=True, slots=True)
class Relation:
    """A SELECT; its columns are called c0, c1, .."""

    flink: str
    batch: str
    types: tuple[str, ...]
    key: tuple[int, ...] | None
    """Columns by which rows are told apart, nulls included; None: none are known."""
    changes: bool
    """Whether its rows are ever taken back."""
    parts: tuple[Relation, ...] = ()
    """What it is made of."""
    solid: tuple[int, ...] = ()
    """Columns that the planner knows are never null."""

    def of(self, *types: str) -> list[str]:
        """Columns of these types."""
        return [f"c{at}" for at, each in enumerate(self.types) if each in types]


@dataclass(frozen=True, slots=True)
class Statement:
    """What is inserted into a sink."""

    relation: Relation
    key: tuple[int, ...] | None
    """The sink's; None: it takes retractions."""

    def sink(self, name: str, *, files: bool = False) -> str:
        """CREATE TABLE.

        Args:
            name: Of the table.
            files: Whether its changes go to files, even if it has a key.
        """
        key = self.key or ()
        columns = [
            f"c{at} {kind}{' NOT NULL' if at in key else ''}"
            for at, kind in enumerate(self.relation.types)
        ]
        if self.key is not None:
            names = ", ".join(f"c{at}" for at in key)
            columns.append(f"PRIMARY KEY ({names}) NOT ENFORCED")
        mode = "upsert" if self.key is not None else "retract"
        options = f"'connector' = 'filesystem', 'path' = 'out/{name}', 'format' = 'changelog-json'"
        options += f", 'changelog-mode' = '{mode}'"
        if self.key is not None and not files:
            options = "'connector' = 'redis'"
        return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({options});"

    def insert(self, name: str) -> str:
        """INSERT INTO."""
        conflict = " ON CONFLICT DO DEDUPLICATE" if self.key is not None else ""
        return f"INSERT INTO {name} {self._where(self.relation.flink)}{conflict};"

    @property
    def batch(self) -> str:
        """The same for the batch engine."""
        return self._where(self.relation.batch)

    def _where(self, text: str) -> str:
        asked = [at for at in self.key or () if at not in self.relation.solid]
        if not asked:
            return text
        known = " AND ".join(f"c{at} IS NOT NULL" for at in asked)
        names = ", ".join(f"c{at}" for at in range(len(self.relation.types)))
        return f"SELECT {names} FROM ({text}) AS q WHERE {known}"


class Restart(NamedTuple):
    """What the next run has that the one before had not."""

    partitions: int
    columns_from: int
    ttl_ms: int
    dies_at: int | None
    """After so many stages the epoch's first attempt ends, before the run does."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pipeline and its input."""

    seed: int
    sources: tuple[Source, ...]
    settings: Mapping[str, str]
    strategy: Literal["LEGACY", "VALUE", "MAP", "ADAPTIVE"]
    statements: tuple[Statement, ...]
    epochs: tuple[tuple[Operation, ...], ...]
    restarts: Mapping[int, Restart] = field(default_factory=dict)
    """By epoch that they come before."""

    def script(self, *, files: bool = False) -> str:
        """The pipeline as SQL; its sinks are s0, s1, .."""
        lines = [f"SET '{name}' = '{value}';" for name, value in self.settings.items()]
        lines += [each.ddl for each in self.sources]
        sinks = [(f"s{at}", each) for at, each in enumerate(self.statements)]
        lines += [each.sink(name, files=files) for name, each in sinks]
        inserts = [each.insert(name) for name, each in sinks]
        return "\n".join([*lines, "EXECUTE STATEMENT SET BEGIN", *inserts, "END;"])

    def told(self) -> str:
        """The case in words that replay it."""
        epochs = [f"  {at}: {[*map(tuple, each)]}" for at, each in enumerate(self.epochs, 1)]
        batch = [f"  s{at}: {each.batch}" for at, each in enumerate(self.statements)]
        return "\n".join(
            [
                f"seed {self.seed}, strategy {self.strategy}, restarts {dict(self.restarts)}",
                self.script(),
                "in batch:",
                *batch,
                "epochs:",
                *epochs,
            ]
        )


def drawn(seed: int, *, epochs: int, statements: int = 4) -> Case:
    """The case of a seed."""
    chance = random.Random(seed)
    sources = tuple(_source(chance, name) for name in TABLES[: chance.randint(1, 5)])
    settings = {
        name: chance.choice(values) for name, values in OPTIONS.items() if chance.random() < 0.25
    }
    if "table.exec.mini-batch.enabled" in settings:
        settings |= MINI_BATCH
    makes = _Relations(chance, sources, is_split=SPLIT in settings)
    made = tuple(makes.statement() for _ in range(chance.randint(1, statements)))
    restarts = {at: _restart(chance) for at in range(2, epochs + 1) if chance.random() < 0.1}
    return Case(
        seed=seed,
        sources=sources,
        settings=settings,
        strategy=chance.choice(("LEGACY", "VALUE", "MAP", "ADAPTIVE")),
        statements=made,
        epochs=tuple(_transactions(chance, sources) for _ in range(epochs)),
        restarts=restarts,
    )


def _source(chance: random.Random, name: str) -> Source:
    mode = chance.choice(("I", "I,UB,UA,D", "I,UB,UA,D", "I,UA,D", "I,UA,D"))
    is_keyed = mode == "I,UA,D" or chance.random() < 0.75
    form = "debezium-json" if mode != "I" and chance.random() < 0.3 else "changelog-json"
    return Source(name, mode, form, is_keyed)


def _restart(chance: random.Random) -> Restart:
    return Restart(
        partitions=chance.choice((1, 2, 3)),
        columns_from=chance.choice((1, 64)),
        ttl_ms=chance.choice((0, 0, 86_400_000)),
        dies_at=chance.choice((None, 1, 3, 6)),
    )


def _transactions(chance: random.Random, sources: Sequence[Source]) -> tuple[Operation, ...]:
    """What happens in an epoch: some whole transactions, each over several tables."""
    found = []
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        touched = chance.sample(sources, chance.randint(1, len(sources)))
        found += [_operation(chance, chance.choice(touched)) for _ in range(chance.randint(1, 5))]
    return tuple(found)


def _operation(chance: random.Random, source: Source) -> Operation:
    row = (chance.choice(IDS), chance.choice(GROUPS), chance.choice(VALUES), chance.choice(TEXTS))
    if not source.is_keyed:
        # Few enough that a deletion finds its row.
        row = (row[0] % 2, row[1], None, "x")
    moves = None
    if source.tells_moves and chance.random() < 0.1:
        moves = chance.choice(IDS)
    return Operation(source.name, row, moves is not None or chance.random() < 0.7, moves)


class _Relations:
    """Makes statements; a relation may come several times."""

    def __init__(self, chance: random.Random, sources: Sequence[Source], *, is_split: bool) -> None:
        self._chance = chance
        self._sources = sources
        self._is_split = is_split
        self._made: list[Relation] = []

    def statement(self) -> Statement:
        """A sink and what goes there."""
        relation = self._relation(self._chance.choice((1, 2, 2, 3, 3)))
        key = relation.key if self._chance.random() < 0.75 else None
        return Statement(relation, key or None)

    def _relation(self, depth: int) -> Relation:
        chance = self._chance
        if depth > 0 and self._made and chance.random() < 0.3:
            return chance.choice(self._made)
        if depth == 0:
            return self._scan()
        ways: list[tuple[int, Callable[[int], Relation]]] = [
            (1, lambda _: self._scan()),
            (2, self._computed),
            (4, self._aggregate),
            (1, self._total),
            (1, self._distinct),
            (6, self._join),
            (2, self._exists),
            (3, self._set),
            (3, self._rank),
            (3, self._beside_total),
            (1, self._first),
        ]
        make = chance.choices([each for _, each in ways], [weight for weight, _ in ways])[0]
        made = make(depth - 1)
        self._made.append(made)
        return made

    def _scan(self) -> Relation:
        source = self._chance.choice(self._sources)
        where = self._chance.choice(
            ["", "", "", " WHERE g IS NOT NULL", " WHERE v > 1", " WHERE s <> 'x' OR g = 1"]
        )
        names = ", ".join(f"{name} AS c{at}" for at, name in enumerate(COLUMNS))
        text = f"SELECT {names} FROM {source.name}{where}"
        return Relation(text, text, TYPES, (0,) if source.is_keyed else None, source.mode != "I")

    def _computed(self, depth: int) -> Relation:
        of = self._relation(depth)
        places = [*range(len(of.types))]
        self._chance.shuffle(places)
        kept = sorted(places[: self._chance.randint(1, len(places))])
        items, types = [f"c{at}" for at in kept], [of.types[at] for at in kept]
        if numbers := of.of("INT", "BIGINT"):
            name = self._chance.choice(numbers)
            items.append(
                self._chance.choice(
                    [
                        f"{name} + 1",
                        f"COALESCE({name}, -1)",
                        f"CASE WHEN {name} > 2 THEN 1 ELSE 0 END",
                    ]
                )
            )
            types.append("INT" if items[-1].startswith("CASE") else of.types[int(name[1:])])
        named = ", ".join(f"{each} AS c{at}" for at, each in enumerate(items))
        key = None
        if of.key is not None and set(of.key) <= set(kept):
            key = tuple(kept.index(at) for at in of.key)
        return self._over(of, f"SELECT {named} FROM ({{0}}) AS q", types, key)

    def _aggregate(self, depth: int) -> Relation:
        of = self._relation(depth)
        count = self._chance.choice((1, 1, 2))
        groups = sorted(self._chance.sample(range(len(of.types)), min(count, len(of.types))))
        items = [f"c{at}" for at in groups]
        calls, types = self._calls(of)
        named = ", ".join(f"{each} AS c{at}" for at, each in enumerate([*items, *calls]))
        having = self._chance.choice(["", "", "", " HAVING COUNT(*) > 1"])
        text = f"SELECT {named} FROM ({{0}}) AS q GROUP BY {', '.join(items)}{having}"
        all_types = [*(of.types[at] for at in groups), *types]
        # A name of the output is not meant by GROUP BY.
        text = text.replace(" c", " q.c").replace("(c", "(q.c").replace(" AS q.c", " AS c")
        return self._over(of, text, all_types, tuple(range(len(groups))), changes=True)

    def _calls(self, of: Relation) -> tuple[list[str], list[str]]:
        calls, types = ["COUNT(*)"], ["BIGINT"]
        for _ in range(self._chance.randint(0, 3)):
            at = self._chance.randrange(len(of.types))
            call = self._chance.choice(AGGREGATES)
            if call.startswith("SUM") and of.types[at] == "STRING":
                call = "MAX({})"
            calls.append(call.format(f"c{at}"))
            if self._chance.random() < 0.2:
                calls[-1] += f" FILTER (WHERE c{self._chance.randrange(len(of.types))} IS NOT NULL)"
            types.append("BIGINT" if call.startswith("COUNT") else of.types[at])
        if self._is_split and WITHOUT_NOT_NULL_BESIDE_SPLIT_DISTINCT and "DISTINCT" in str(calls):
            kept = [at for at, each in enumerate(calls) if each.startswith("COUNT")]
            return [calls[at] for at in kept], [types[at] for at in kept]
        return calls, types

    def _total(self, depth: int) -> Relation:
        of = self._relation(depth)
        calls, types = self._calls(of)
        named = ", ".join(f"{each} AS c{at}" for at, each in enumerate(calls))
        text = f"SELECT {named} FROM ({{0}}) AS q".replace("(c", "(q.c").replace(" c", " q.c")
        text = text.replace(" AS q.c", " AS c")
        return self._over(of, text, types, (), changes=True)

    def _first(self, depth: int) -> Relation:
        """By arrival, which a table of inserts alone keeps."""
        growing = [each for each in self._sources if each.mode == "I"]
        if not growing:
            return self._aggregate(depth)
        name = self._chance.choice(growing).name
        of = self._chance.choice(["s", "v"])
        first, order = self._chance.choice(("FIRST", "LAST")), PLACE
        text = "SELECT g AS c0, COUNT(DISTINCT v) AS c1, {} AS c2 FROM {} GROUP BY g"
        batch = f"{first}({of} ORDER BY {order}) FILTER (WHERE {of} IS NOT NULL)"
        kind = "STRING" if of == "s" else "BIGINT"
        return Relation(
            text.format(f"{first}_VALUE({of})", name),
            text.format(batch, name),
            ("INT", "BIGINT", kind),
            (0,),
            changes=True,
        )

    def _distinct(self, depth: int) -> Relation:
        of = self._relation(depth)
        count = self._chance.randint(1, min(3, len(of.types)))
        kept = self._chance.sample(range(len(of.types)), count)
        named = ", ".join(f"c{each} AS c{at}" for at, each in enumerate(kept))
        types = [of.types[each] for each in kept]
        text = f"SELECT DISTINCT {named} FROM ({{0}}) AS q"
        return self._over(of, text, types, tuple(range(count)))

    def _join(self, depth: int) -> Relation:
        left, right = self._relation(depth), self._relation(self._chance.randint(0, depth))
        pair = self._pair(left, right)
        if pair is None:
            return self._computed(depth)
        kind = self._chance.choice(("", "", "LEFT ", "RIGHT ", "FULL "))
        width = len(left.types)
        named = ", ".join(
            [f"l.c{at} AS c{at}" for at in range(width)]
            + [f"r.c{at} AS c{width + at}" for at in range(len(right.types))]
        )
        on = f"l.{pair[0]} = r.{pair[1]}"
        numbers = [side.of("BIGINT") for side in (left, right)]
        if all(numbers) and self._chance.random() < 0.2:
            on += f" AND l.{self._chance.choice(numbers[0])} <= r.{self._chance.choice(numbers[1])}"
        key = None
        if left.key is not None and right.key is not None:
            key = (*left.key, *(width + at for at in right.key))
            if right.key == (int(pair[1][1:]),) and kind in ("", "LEFT "):
                key = left.key
        text = f"SELECT {named} FROM ({{0}}) AS l {kind}JOIN ({{1}}) AS r ON {on}"
        changes = left.changes or right.changes or bool(kind)
        return self._of((left, right), text, [*left.types, *right.types], key, changes=changes)

    def _exists(self, depth: int) -> Relation:
        left, right = self._relation(depth), self._relation(self._chance.randint(0, depth))
        pair = self._pair(left, right)
        if pair is None:
            return self._rank(depth)
        named = ", ".join(f"l.c{at} AS c{at}" for at in range(len(left.types)))
        x, y = pair
        ask = self._chance.choice(
            [
                f"EXISTS (SELECT 1 FROM ({{1}}) AS r WHERE r.{y} = l.{x})",
                f"NOT EXISTS (SELECT 1 FROM ({{1}}) AS r WHERE r.{y} = l.{x})",
                f"l.{x} IN (SELECT r.{y} FROM ({{1}}) AS r)",
            ]
        )
        text = f"SELECT {named} FROM ({{0}}) AS l WHERE {ask}"
        return self._of((left, right), text, left.types, left.key, changes=True)

    def _beside_total(self, depth: int) -> Relation:
        left, right = self._relation(depth), self._relation(self._chance.randint(0, depth))
        total = "SELECT COUNT(*) AS n FROM ({1}) AS r"
        width = len(left.types)
        named = ", ".join(f"l.c{at} AS c{at}" for at in range(width))
        if self._chance.random() < 0.5 or not left.of("BIGINT"):
            text = f"SELECT {named}, t.n AS c{width} FROM ({{0}}) AS l, ({total}) AS t"
            types = [*left.types, "BIGINT"]
        else:
            name = self._chance.choice(left.of("BIGINT"))
            text = f"SELECT {named} FROM ({{0}}) AS l WHERE l.{name} < ({total})"
            types = [*left.types]
        return Relation(
            text.format(left.flink, right.flink),
            text.format(left.batch, right.batch),
            tuple(types),
            left.key,
            changes=True,
            parts=(left, right),
        )

    def _set(self, depth: int) -> Relation:
        kind = self._chance.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        sides = [self._relation(depth), self._relation(self._chance.randint(0, depth))]
        changes = any(each.changes for each in sides)
        if kind == "UNION ALL" and self._chance.random() < 0.3:
            sides.append(self._scan())
        chosen: list[list[str]] = []
        types: list[str] = []
        for kind_of_column in ("BIGINT", "STRING", "INT"):
            columns = [each.of(kind_of_column) for each in sides]
            if all(columns):
                types.append(kind_of_column)
                chosen.append([self._chance.choice(each) for each in columns])
        if not types:
            return self._distinct(depth)
        selects = [
            "SELECT "
            + ", ".join(f"{each[number]} AS c{at}" for at, each in enumerate(chosen))
            + f" FROM ({{{number}}}) AS q{number}"
            for number in range(len(sides))
        ]
        key = None if kind == "UNION ALL" else tuple(range(len(types)))
        changes = kind in ("INTERSECT", "EXCEPT") or any(each.changes for each in sides)
        return self._of(sides, f" {kind} ".join(selects), types, key, changes=changes)

    def _rank(self, depth: int) -> Relation:
        of = self._relation(depth)
        width = len(of.types)
        by = self._chance.sample(range(width), width)
        order = ", ".join(f"c{at}{self._chance.choice([' DESC', ' ASC'])}" for at in by)
        partition = self._chance.choice([[], [by[-1]], [by[-1]]])
        split = f"PARTITION BY {', '.join(f'c{at}' for at in partition)} " if partition else ""
        named = ", ".join(f"c{at}" for at in range(width))
        shows = self._chance.random() < 0.4
        text = (
            f"SELECT {named}{f', rn AS c{width}' if shows else ''} FROM (SELECT *, ROW_NUMBER() "
            f"OVER ({split}ORDER BY {order}) AS rn FROM ({{0}}) AS q) AS o "
            f"WHERE rn <= {self._chance.choice([1, 1, 2, 3])}"
        )
        types = [*of.types, *["BIGINT"] * shows]
        key = of.key
        if shows and (key is None or self._chance.random() < 0.5):
            key = (*partition, width)
        made = self._over(of, text, types, key, changes=True)
        return replace(made, solid=(width,) if shows else ())

    def _pair(self, left: Relation, right: Relation) -> tuple[str, str] | None:
        """A column of each side that can be compared."""
        pairs = [
            (x, y)
            for kind in ("INT", "BIGINT", "STRING")
            for x in left.of(kind)
            for y in right.of(kind)
        ]
        return self._chance.choice(pairs) if pairs else None

    def _over(
        self,
        of: Relation,
        text: str,
        types: Sequence[str],
        key: tuple[int, ...] | None,
        *,
        changes: bool = False,
    ) -> Relation:
        return self._of((of,), text, types, key, changes=changes or of.changes)

    def _of(
        self,
        parts: Sequence[Relation],
        text: str,
        types: Sequence[str],
        key: tuple[int, ...] | None,
        *,
        changes: bool,
    ) -> Relation:
        flink = text.format(*(each.flink for each in parts))
        batch = text.format(*(each.batch for each in parts))
        return Relation(flink, batch, tuple(types), key, changes, tuple(parts))


def smaller(case: Case) -> Iterator[Case]:
    """Cases that leave something out, those that leave out most first."""
    if len(case.statements) > 1:
        for each in case.statements:
            yield replace(case, statements=(each,))
        for at in range(len(case.statements)):
            yield replace(case, statements=(*case.statements[:at], *case.statements[at + 1 :]))
    for at, statement in enumerate(case.statements):
        for part in statement.relation.parts:
            for key in {part.key or None, None}:
                shorter = (*case.statements[:at], Statement(part, key), *case.statements[at + 1 :])
                yield replace(case, statements=shorter)
    if case.settings:
        yield replace(case, settings={})
    if case.restarts:
        yield replace(case, restarts={})
    size = len(case.epochs)
    for length in (size // 2, size // 4, 1):
        for at in range(0, size, length or 1):
            left = (*case.epochs[:at], *case.epochs[at + (length or 1) :])
            yield replace(case, epochs=left)
    for at, epoch in enumerate(case.epochs):
        for place in range(len(epoch)):
            left_in = (*epoch[:place], *epoch[place + 1 :])
            yield replace(case, epochs=(*case.epochs[:at], left_in, *case.epochs[at + 1 :]))
