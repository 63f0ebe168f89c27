"""What the judgement of a changed statement calls kept is what DuckDB gives of all that was read.

A random statement reads random changes, another one takes its place as a restore would have it
(`service.plan.continuation`), and reads more. `measured` also counts what it calls outdated though
nothing was wrong with it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from service.plan import CompiledPlan, load_plan
from service.plan.continuation import Continuation, continuation
from service.plan.nodes import Sink
from service.plan.state_meaning import meaning_from, plan_meaning
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.batch_sql import batch_sql
from tests.oracles.plan_harness import Line, PlanHarness

if TYPE_CHECKING:
    from operators.changelog import Change, Row

OPTIONS = PipelineOptions().resolved(ExecutionSettings())
SOURCE = "WITH ('connector' = 'ingress', 'format' = 'changelog-json')"
COLUMNS = ("k", "x", "y")
BATCH = "k VARCHAR, x INTEGER, y INTEGER"
CONDITIONS = {
    "x > 0": lambda x, y: x is not None and x > 0,
    "x > 1": lambda x, y: x is not None and x > 1,
    "y < 2": lambda x, y: y is not None and y < 2,
    "x > 0 AND y < 2": lambda x, y: None not in (x, y) and x > 0 and y < 2,
    "y < 2 AND x > 0": lambda x, y: None not in (x, y) and x > 0 and y < 2,
    "y IS NOT NULL": lambda x, y: y is not None,
}
QUERIES = {
    "rows": "SELECT k, CAST(x AS BIGINT) FROM a WHERE {0}",
    "other column": "SELECT k, CAST(y AS BIGINT) FROM a WHERE {0}",
    "inner": "SELECT l.k, CAST(l.x - r.y AS BIGINT) FROM (SELECT * FROM a WHERE {0}) AS l "
    "JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k",
    "inner where": "SELECT l.k, CAST(l.x - r.y AS BIGINT) FROM (SELECT * FROM a WHERE {0}) AS l "
    "JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k AND l.x > r.x",
    "left": "SELECT l.k, CAST(r.y AS BIGINT) FROM (SELECT * FROM a WHERE {0}) AS l "
    "LEFT JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k",
    "left where": "SELECT l.k, CAST(r.y AS BIGINT) FROM (SELECT * FROM a WHERE {0}) AS l "
    "LEFT JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k AND l.x > r.x",
    "self, of the left": "SELECT l.k, CAST(l.x AS BIGINT) FROM a AS l "
    "JOIN (SELECT * FROM a WHERE {0}) AS r ON l.k = r.k",
    "self, of the right": "SELECT l.k, CAST(r.x AS BIGINT) FROM a AS l "
    "JOIN (SELECT * FROM a WHERE {0}) AS r ON l.k = r.k",
    "union": "SELECT k, CAST(x AS BIGINT) FROM a WHERE {0} UNION ALL "
    "SELECT k, CAST(y AS BIGINT) FROM b WHERE {1}",
    "union, columns changed": "SELECT k, CAST(y AS BIGINT) FROM a WHERE {0} UNION ALL "
    "SELECT k, CAST(x AS BIGINT) FROM b WHERE {1}",
    "exists": "SELECT k, CAST(x AS BIGINT) FROM a WHERE {0} AND EXISTS "
    "(SELECT 1 FROM b WHERE b.k = a.k AND {1})",
    "not exists": "SELECT k, CAST(x AS BIGINT) FROM a WHERE {0} AND NOT EXISTS "
    "(SELECT 1 FROM b WHERE b.k = a.k AND b.x = a.x AND {1})",
    "full": "SELECT COALESCE(l.k, r.k), CAST(l.x AS BIGINT) FROM "
    "(SELECT * FROM a WHERE {0}) AS l FULL JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k",
    "three": "SELECT l.k, CAST(l.x + z.y AS BIGINT) FROM (SELECT * FROM a WHERE {0}) AS l "
    "JOIN b AS r ON l.k = r.k JOIN (SELECT * FROM a WHERE {1}) AS z ON r.x = z.x",
    "sets": "SELECT k, COUNT(y) FROM a WHERE {0} GROUP BY GROUPING SETS ((k, x), (k))",
    "other sets": "SELECT k, COUNT(x) FROM a WHERE {0} GROUP BY GROUPING SETS ((k, y), (k))",
    "rows once": "SELECT DISTINCT k, CAST(x AS BIGINT) FROM a WHERE {0}",
    "of counts": "SELECT CAST(n AS VARCHAR(9)), COUNT(*) FROM "
    "(SELECT k, COUNT(*) AS n FROM a WHERE {0} GROUP BY k) AS c GROUP BY n",
    "top": "SELECT k, CAST(x AS BIGINT) FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY x DESC, y) AS place FROM a WHERE {0}) AS t WHERE place <= 2",
}
"""Into a log of changes: whatever comes to it."""
KEYED = {
    "sum": "SELECT k, CAST(SUM(x) AS BIGINT) FROM a WHERE {0} GROUP BY k",
    "other sum": "SELECT k, CAST(SUM(y) AS BIGINT) FROM a WHERE {0} GROUP BY k",
    "count": "SELECT k, COUNT(*) FROM a WHERE {0} GROUP BY k",
    "max": "SELECT k, CAST(MAX(x) AS BIGINT) FROM a WHERE {0} GROUP BY k",
    "distinct": "SELECT k, COUNT(DISTINCT y) FROM a WHERE {0} GROUP BY k",
    "count of both": "SELECT k, COUNT(*) FROM (SELECT k, x, y FROM a WHERE {0} UNION ALL "
    "SELECT k, x, y FROM b WHERE {1}) AS u GROUP BY k",
    "left, counted": "SELECT l.k, COUNT(r.y) FROM (SELECT * FROM a WHERE {0}) AS l "
    "LEFT JOIN (SELECT * FROM b WHERE {1}) AS r ON l.k = r.k GROUP BY l.k",
    "having": "SELECT k, COUNT(*) FROM a WHERE {0} GROUP BY k HAVING COUNT(*) > 1",
    "best": "SELECT k, CAST(MAX(s) AS BIGINT) FROM (SELECT k, y, SUM(x) AS s FROM a "
    "WHERE {0} GROUP BY k, y) AS t GROUP BY k",
    "filtered": "SELECT k, COUNT(*) FILTER (WHERE {1}) FROM a WHERE {0} GROUP BY k",
    "last": "SELECT k, CAST(x AS BIGINT) FROM a WHERE {0}",
}
"""Into a table with primary key k; `last` with a materializer."""


@dataclass(frozen=True)
class Insert:
    """One statement of a set."""

    sink: str
    query: str
    conditions: tuple[str, str]

    @property
    def sql(self) -> str:
        text = (QUERIES | KEYED)[self.query].format(*self.conditions)
        more = " ON CONFLICT DO DEDUPLICATE" if self.query == "last" else ""
        return f"INSERT INTO {self.sink} {text}{more};"

    @property
    def table(self) -> str:
        if self.query in KEYED:
            return (
                f"CREATE TABLE {self.sink} (k STRING NOT NULL, v BIGINT, PRIMARY KEY (k) "
                "NOT ENFORCED) WITH ('connector' = 'redis');"
            )
        return f"CREATE TABLE {self.sink} (k STRING, v BIGINT) WITH ('connector' = 'print');"

    def batch(self, tables: Tables) -> Counter[Row]:
        """What its table should hold."""
        if self.query == "last":
            return self._last(tables.changes)
        text = (QUERIES | KEYED)[self.query].format(*self.conditions)
        return Counter(
            batch_sql(text, **{name: (BATCH, rows) for name, rows in tables.rows.items()})
        )

    def _last(self, changes: list[tuple[str, str, Row]]) -> Counter[Row]:
        """The newest row of each key: of equal rows the oldest goes first."""
        held: dict[Any, list[Row]] = {}
        for table, kind, (k, x, y) in changes:
            if table != "a" or not CONDITIONS[self.conditions[0]](x, y):
                continue
            rows = held.setdefault(k, [])
            if kind == "+I":
                rows.append((k, x))
            else:
                rows.remove((k, x))
        return Counter(rows[-1] for rows in held.values() if rows)


@dataclass(frozen=True)
class Script:
    """A statement set over the tables a and b."""

    inserts: tuple[Insert, ...]
    more: str = ""
    """A column that no statement uses: before the others, behind them, or none."""

    @property
    def plan(self) -> CompiledPlan:
        return _planned(self)


@cache
def _planned(script: Script) -> CompiledPlan:
    first = "z STRING, " if script.more == "before" else ""
    last = ", z STRING" if script.more == "behind" else ""
    columns = f"({first}k STRING NOT NULL, x INT, y INT{last})"
    lines = [f"CREATE TABLE {each} {columns} {SOURCE};" for each in ("a", "b")]
    lines += [each.table for each in script.inserts]
    lines += ["EXECUTE STATEMENT SET BEGIN", *(each.sql for each in script.inserts), "END;"]
    return load_plan(compile_script("\n".join(lines))[-1].document)


def drawn(chance: random.Random) -> tuple[Script, Script]:
    """A statement set, and what somebody makes of it."""
    names = iter(["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"])
    before = [_insert(chance, next(names)) for _ in range(chance.randint(1, 3))]
    after = []
    for each in before:
        match chance.choices(
            ["as it was", "conditions", "query", "name", "gone"], [60, 12, 8, 10, 10]
        )[0]:
            case "as it was":
                after.append(each)
            case "conditions":
                after.append(replace(each, conditions=_conditions(chance)))
            case "query":
                kind = KEYED if each.query in KEYED else QUERIES
                after.append(replace(each, query=chance.choice([*kind])))
            case "name":
                after.append(replace(each, sink=next(names)))
    if not after or chance.random() < 0.3:
        after.append(_insert(chance, next(names)))
    if chance.random() < 0.3:
        chance.shuffle(after)
    more = chance.choice(["", "", "", "before", "behind"])
    return Script(tuple(before)), Script(tuple(after), more)


def _insert(chance: random.Random, sink: str) -> Insert:
    kind = chance.choice([QUERIES, KEYED])
    return Insert(sink, chance.choice([*kind]), _conditions(chance))


def _conditions(chance: random.Random) -> tuple[str, str]:
    return chance.choice([*CONDITIONS]), chance.choice([*CONDITIONS])


class Tables:
    """The changes of two tables, and what these hold in order of arrival."""

    def __init__(self, chance: random.Random) -> None:
        self.rows: dict[str, list[Row]] = {"a": [], "b": []}
        self.changes: list[tuple[str, str, Row]] = []
        self._chance = chance
        self._at = 0

    def lines(self, count: int) -> list[Line]:
        """More changes."""
        found = []
        for _ in range(count):
            table = self._chance.choice(["a", "b"])
            held = self.rows[table]
            if held and self._chance.random() < 0.35:
                kind, row = "-D", self._chance.choice(held)
                held.remove(row)
            else:
                value = [None, 0, 1, 2, 3]
                row = (
                    self._chance.choice("pqr"),
                    self._chance.choice(value),
                    self._chance.choice(value),
                )
                kind = "+I"
                held.append(row)
            self._at += 10
            self.changes.append((table, kind, row))
            data = dict(zip(COLUMNS, row, strict=True))
            found.append(Line(self._at, table, {"op": kind, "data": data}))
        return found


@dataclass
class Outcome:
    """What became of one table, and whether it is right."""

    said: str
    is_right: bool
    told: str


def changed(before: Script, after: Script, chance: random.Random) -> list[Outcome]:
    """Run both, one behind the other, over random changes."""
    tables = Tables(chance)
    # A savepoint keeps what the first plan means as JSON.
    meaning = meaning_from(plan_meaning(before.plan).to_json())
    assert meaning is not None
    judged = continuation(meaning, plan_meaning(after.plan))
    first = PlanHarness(before.plan, OPTIONS)
    first.run(tables.lines(chance.randint(1, 40)))
    kept = {
        each.after: first.harnesses[each.before]
        for each in judged.states
        if each.before is not None and each.after is not None
    }
    second = PlanHarness(after.plan, OPTIONS, kept=kept)
    second.run(tables.lines(chance.randint(0, 40)))
    return [
        Outcome(outcome, written == insert.batch(tables), f"{insert}: {reason}")
        for insert, outcome, reason, written in _written(before, after, judged, first, second)
    ]


def _written(
    before: Script, after: Script, judged: Continuation, first: PlanHarness, second: PlanHarness
) -> Any:
    """By statement of the plan after: what becomes of its table, why, and what it holds."""
    by_name = {each.sink: each for each in after.inserts}
    logs = [_logs(before.plan, first), _logs(after.plan, second)]
    for each in judged.tables:
        if each.after is None:
            continue
        insert = by_name[each.after.split("`")[-2]]
        changes = [*(logs[0][each.before] if each.before else ()), *logs[1][each.after]]
        held = _table(changes) if insert.query in KEYED else _counted(changes)
        yield insert, each.outcome, each.reason, held


def _logs(plan: CompiledPlan, harness: PlanHarness) -> dict[str, list[Change]]:
    return {
        node.view.table.identifier: harness.collected[node.id]
        for node in plan.nodes
        if isinstance(node.view, Sink)
    }


def _table(changes: list[Change]) -> Counter[Row]:
    rows: dict[Any, Row] = {}
    for each in changes:
        if each.kind.weight < 0:
            rows.pop(each.row[0], None)
        else:
            rows[each.row[0]] = each.row
    return Counter(rows.values())


def _counted(changes: list[Change]) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for each in changes:
        found[each.row] += each.kind.weight
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_right(seed: int) -> None:
    chance = random.Random(f"statements {seed}")
    before, after = drawn(chance)

    for each in changed(before, after, chance):
        assert each.said != "kept" or each.is_right, each.told
        assert before.inserts != after.inserts or each.said == "kept", each.told


def measured(count: int, changes: int = 4) -> Counter[str]:
    """How often tables were kept, and how often outdated ones were right with all changes tried."""
    found: Counter[str] = Counter()
    for seed in range(count):
        chance = random.Random(f"measured {seed}")
        before, after = drawn(chance)
        tried = [changed(before, after, chance) for _ in range(changes)]
        for several in zip(*tried, strict=True):
            said = several[0].said
            right = "right" if all(each.is_right for each in several) else "wrong"
            found[f"{said}, {right}"] += 1
            if f"{said}, {right}" in ("kept, wrong", "outdated, right"):
                print(f"{said}, {right}: {several[0].told}")
    return found


if __name__ == "__main__":
    import sys

    print(measured(int(sys.argv[1])))
