"""In every closed epoch a query of changing tables gives what DuckDB gives of the tables.

Tables send all kinds of change, or updates as +U alone, or inserts alone; epochs have changes of
several tables, or none; operators run in two tasks, on columns and change by change, in bundles or
not, and the materializer in front of the sink is one of them.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.plan import load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.batch_sql import batch_sql
from tests.oracles.epoch_harness import EpochHarness

if TYPE_CHECKING:
    from operators.changelog import Row
    from service.plan import CompiledPlan

Mode = Literal["I", "I,UA,D", "I,UB,UA,D", "bag"]
"""The kinds of change that a table sends; those of a bag have no primary key."""
Drawn = list[list[tuple[int, int, tuple[int | None, int | None], bool]]]
"""Epochs of changes: a table, an id, values, and whether a row that is there goes."""

TABLES: Final = ("a", "b", "c")
COLUMNS: Final = ("id", "k", "v")
BATCH: Final = "id INTEGER, k INTEGER, v INTEGER"
MODES: Final[tuple[Mode, ...]] = ("I,UB,UA,D", "I,UA,D", "I,UB,UA,D", "I,UA,D", "I", "bag")
KEYED: Final = MODES[:-1]
MINI_BATCH: Final = (
    ("table.exec.mini-batch.enabled", "true"),
    ("table.exec.mini-batch.allow-latency", "1 s"),
    ("table.exec.mini-batch.size", "1000"),
)
SETTINGS: Final = {
    "plain": (),
    "bundles": MINI_BATCH,
    "several joins at once": (("table.optimizer.multi-join.enabled", "true"),),
    "split": (*MINI_BATCH, ("table.optimizer.distinct-agg.split.enabled", "true")),
}


class Asked(NamedTuple):
    """A query, the columns of its sink, and which of them is its primary key."""

    query: str
    columns: str
    key: str = ""


def joins(kind: str, condition: str) -> list[Asked]:
    """A join of a and b, into a sink without a key and, where a column is one, with it."""
    query = f"SELECT a.id, a.k, a.v, b.id, b.k, b.v FROM a {kind} JOIN b ON {condition}"
    found = [Asked(query, "i INT, x INT, y INT, j INT, z INT, w INT")]
    if kind in ("INNER", "LEFT") and "b.id" in condition:
        found.append(Asked(query, "i INT NOT NULL, x INT, y INT, j INT, z INT, w INT", "i"))
    if kind in ("INNER", "RIGHT") and "a.id" in condition:
        found.append(Asked(query, "i INT, x INT, y INT, j INT NOT NULL, z INT, w INT", "j"))
    return found


CONDITIONS: Final = (
    "a.id = b.id",
    "a.k = b.id",
    "a.id = b.k",
    "a.k = b.k",
    "a.id = b.id AND a.v <= b.v",
    "a.id = b.id AND a.v = b.v",
)
KINDS: Final = ("INNER", "LEFT", "RIGHT", "FULL")
OF_TWO: Final = {
    kind: [asked for condition in CONDITIONS for asked in joins(kind, condition)] for kind in KINDS
}
OF_TWO["FULL"].append(
    Asked(
        "SELECT COALESCE(a.id, b.id), a.k, a.v, b.k, b.v FROM a FULL JOIN b ON a.id = b.id",
        "i INT NOT NULL, x INT, y INT, z INT, w INT",
        "i",
    )
)
for name in ("EXISTS", "NOT EXISTS"):
    OF_TWO[name] = [
        Asked(
            f"SELECT a.id, a.k, a.v FROM a WHERE {name} (SELECT 1 FROM b WHERE {condition})",
            f"i INT{' NOT NULL' if key else ''}, x INT, y INT",
            key,
        )
        for condition in CONDITIONS
        for key in ("", "i")
    ]
COUNTED: Final = "(SELECT k, COUNT(*) AS n FROM b GROUP BY k) t"
TOTAL: Final = "(SELECT COUNT(*) AS n FROM b) t"
OF_MORE: Final = {
    "three tables": [
        Asked(
            f"SELECT a.id, a.v, b.v, c.v FROM a {one} JOIN b ON {first} {other} JOIN c ON {second}",
            "i INT NOT NULL, x INT, y INT, z INT",
            "i",
        )
        for one in ("INNER", "LEFT")
        for other in ("INNER", "LEFT")
        for first in ("a.id = b.id", "a.k = b.id")
        for second in ("a.id = c.id", "b.id = c.id", "a.id = c.id AND a.v = c.v")
    ],
    "a table with itself": [
        Asked(
            f"SELECT x.id, x.v, y.v FROM a x LEFT JOIN a y ON {condition}",
            "i INT NOT NULL, x INT, y INT",
            "i",
        )
        for condition in ("x.k = y.id", "x.id = y.id AND x.v <= y.k")
    ],
    "counts": [
        Asked(f"SELECT a.id, a.v, t.n FROM a LEFT JOIN {COUNTED} ON {condition}", columns, "i")
        for columns in ("i INT NOT NULL, x INT, n BIGINT",)
        for condition in ("a.id = t.k", "a.k = t.k", "a.id = t.k AND a.v <= t.n")
    ],
    "counts of a join": [
        Asked(
            "SELECT k, COUNT(*), SUM(v) FROM (SELECT a.id, a.k, b.v FROM a LEFT JOIN b "
            "ON a.id = b.id) q WHERE k IS NOT NULL GROUP BY k",
            "k INT NOT NULL, n BIGINT, s INT",
            "k",
        )
    ],
    "totals": [
        Asked(
            "SELECT COUNT(*), SUM(v), MAX(v), COUNT(DISTINCT v), COUNT(*) FILTER (WHERE k = 1) "
            "FROM b",
            "n BIGINT, s INT, m INT, d BIGINT, f BIGINT",
        ),
        Asked("SELECT COUNT(*) FROM b HAVING COUNT(*) > 1 OR COUNT(*) = 0", "n BIGINT"),
        Asked("SELECT SUM(v) FROM b WHERE v < CAST(NULL AS INT)", "s INT"),
    ],
    "joined totals": [
        Asked(f"SELECT a.id, a.v, t.n FROM a, {TOTAL}", "i INT NOT NULL, x INT, n BIGINT", "i"),
        Asked(f"SELECT a.id, a.v, t.n FROM a, {TOTAL}", "i INT, x INT, n BIGINT"),
        Asked(
            f"SELECT a.id, t.n + u.n FROM a, {TOTAL}, (SELECT SUM(v) AS n FROM c) u",
            "i INT NOT NULL, n BIGINT",
            "i",
        ),
        Asked(
            "SELECT a.id, a.v, t.n FROM a LEFT JOIN (SELECT MAX(v) AS n FROM b) t ON a.v <= t.n",
            "i INT NOT NULL, x INT, n INT",
            "i",
        ),
        Asked(
            "SELECT a.id, a.v FROM a WHERE a.v > (SELECT COUNT(*) FROM b)",
            "i INT NOT NULL, x INT",
            "i",
        ),
    ],
}
VALUES: Final = st.sampled_from([1, 2, 2, None])
EPOCHS: Final = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, len(TABLES) - 1),
            st.integers(1, 3),
            st.tuples(VALUES, VALUES),
            st.booleans(),
        ),
        max_size=7,
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("name", OF_TWO)
@settings(max_examples=max(6, settings().max_examples // 10))
@given(data=st.data())
def test_joins_of_two_tables(name: str, data: st.DataObject) -> None:
    holds(data, OF_TWO[name], ("plain", "plain", "bundles"))


@pytest.mark.parametrize("options", ["plain", "split", "split, one row at a time"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [("FIRST_VALUE(c)", "x"), ("LAST_VALUE(c)", "z"), ("LISTAGG(c)", "x,y,z")],
)
def test_what_goes_by_order_beside_a_distinct_is_of_all_rows(
    options: str, function: str, expected: str
) -> None:
    """1 and 1025 share a bucket of 1,024, which 2 is not in."""
    split = SETTINGS["split"]
    chosen = {**SETTINGS, "split, one row at a time": split[len(MINI_BATCH) :]}[options]
    script = [f"SET '{name}' = '{value}';" for name, value in chosen]
    written = "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'changelog-json', "
    written += "'changelog-mode' = '{}');"
    script += [
        f"CREATE TABLE t (a INT, b INT, c STRING) {written.format('I,UB,UA,D')}",
        f"CREATE TABLE snk (a INT, n BIGINT, c STRING) {written.format('retract')}",
        f"COMPILE PLAN 'p' FOR INSERT INTO snk SELECT a, COUNT(DISTINCT b), {function} FROM t "
        "GROUP BY a;",
    ]
    plan = load_plan(compile_script("\n".join(script))[-1].document)
    rows = [(1, None), (1, "x"), (2, "y"), (1025, "z"), (2, None)]
    changes = [("t", "+I", {"a": 1, "b": b, "c": c}) for b, c in rows]
    for size in (1, 2, 5):
        harness = EpochHarness(plan, PipelineOptions().resolved(ExecutionSettings()))
        for first in range(0, len(changes), size):
            harness.run_epoch(changes[first : first + size])
        assert [*harness.rows.values()] == [[(1, 3, expected)]]


@pytest.mark.parametrize("name", OF_MORE)
@settings(max_examples=max(4, settings().max_examples // 20))
@given(data=st.data())
def test_joins_of_more_and_of_aggregates(name: str, data: st.DataObject) -> None:
    holds(data, OF_MORE[name], tuple(SETTINGS))


def holds(data: st.DataObject, queries: list[Asked], chosen: tuple[str, ...]) -> None:
    """Draw a query, tables and epochs, and compare after each of them."""
    asked = data.draw(st.sampled_from(queries), label="query")
    given_settings = SETTINGS[data.draw(st.sampled_from(chosen), label="settings")]
    mode = st.sampled_from(KEYED if asked.key else MODES)
    modes = data.draw(st.tuples(mode, mode, mode), label="modes")
    harness = EpochHarness(
        planned(asked, modes, given_settings),
        PipelineOptions().resolved(ExecutionSettings()),
        columns_from=data.draw(st.sampled_from([1, 1 << 30]), label="columns from"),
    )
    drawn = data.draw(EPOCHS, label="epochs")
    live: dict[str, list[Row]] = {each: [] for each in TABLES}
    for epoch in drawn:
        harness.run_epoch(played(epoch, modes, live))
        (rows,) = harness.rows.values()
        tables: dict[str, Any] = {each: (BATCH, live[each]) for each in TABLES}
        assert Counter(rows) == Counter(batch_sql(asked.query, **tables))


def played(
    epoch: list[tuple[int, int, tuple[int | None, int | None], bool]],
    modes: tuple[Mode, ...],
    live: dict[str, list[Row]],
) -> list[tuple[str, str, dict[str, Any]]]:
    """The changes of an epoch as their tables send them; `live` is brought forward."""
    said: list[tuple[str, str, dict[str, Any]]] = []
    for number, identity, values, goes in epoch:
        name, mode, row = TABLES[number], modes[number], (identity, *values)
        rows = live[name]
        held = next((each for each in rows if each[0] == identity), None)
        kinds: list[tuple[str, Row]] = []
        if held is None or (mode == "bag" and not goes):
            kinds.append(("+I", row))
        elif mode != "I" and goes:
            kinds.append(("-D", held))
        elif mode != "I":
            kinds += [("-U", held)] if "UB" in mode else []
            kinds.append(("+U", row))
        if held is not None and mode != "I" and (goes or mode != "bag"):
            rows.remove(held)
        if kinds and kinds[-1][0] != "-D":
            rows.append(row)
        said += [(name, kind, dict(zip(COLUMNS, each, strict=True))) for kind, each in kinds]
    return said


@cache
def planned(
    asked: Asked, modes: tuple[Mode, ...], options: tuple[tuple[str, str], ...]
) -> CompiledPlan:
    """The plan of a query over tables that send these changes."""
    written = "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'changelog-json', "
    written += "'changelog-mode' = '{}');"
    script = [f"SET '{name}' = '{value}';" for name, value in options]
    script.append("SET 'table.exec.sink.require-on-conflict' = 'false';")
    for name, mode in zip(TABLES, modes, strict=True):
        kinds = "I,UB,UA,D" if mode == "bag" else mode
        key = "" if mode == "bag" else " NOT NULL PRIMARY KEY NOT ENFORCED"
        script.append(
            f"CREATE TABLE {name} (id INT{key}, k INT, v INT) {written.format(name, kinds)}"
        )
    key = f", PRIMARY KEY ({asked.key}) NOT ENFORCED" if asked.key else ""
    into = written.format("snk", "upsert" if asked.key else "retract")
    script.append(f"CREATE TABLE snk ({asked.columns}{key}) {into}")
    script.append(f"COMPILE PLAN 'p' FOR INSERT INTO snk {asked.query};")
    return load_plan(compile_script("\n".join(script))[-1].document)
