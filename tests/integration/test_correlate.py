"""Places of rows that correlates make, on Spark: behind whatever, in the order of their causes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from operators.wire import KIND, NOTE, ORDER, PLACE_BITS, SEQUENCE, TICK, TIME
from service.plan import load_plan
from service.plan.nodes import Correlate
from service.runtime.correlate import correlated
from service.runtime.wire_columns import wire_struct
from service.sql import compile_script
from tests.integration.pipelines import Pipeline, change, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.session import SparkSession

TABLES = """
CREATE TABLE s (id INT, v INT) WITH
  ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in', 'changelog-mode' = 'I');
CREATE TABLE arrays (id INT, a ARRAY<INT>) WITH ('connector' = 'ingress');
CREATE TABLE t (id INT, v INT) WITH ('connector' = 'print');
"""
INSERT, BEFORE, AFTER = 0, 1, 2


def unnest_of(join: str) -> Any:
    """The correlate node of a query that unnests `arrays.a`."""
    document = compile_script(f"{TABLES} INSERT INTO t SELECT id, v FROM arrays {join};")
    plan = load_plan(document[-1].document)
    (node,) = (each for each in plan.nodes if isinstance(each.view, Correlate))
    return node


def rows_of(
    spark: SparkSession, node: Any, *rows: tuple[int, int, int | None, list[int] | None]
) -> DataFrame:
    """Kind, order, place and array of each row, as the wire has them."""
    types = node.output_type.children[:2]
    data = [(1, a, kind, order, None, 5, place) for kind, order, place, a in rows]
    return spark.createDataFrame(data, wire_struct(types, [KIND, ORDER, NOTE, TIME, SEQUENCE]))


def made(frame: DataFrame, node: Any, bits: int = 20, followers: int = 1) -> list[tuple[Any, ...]]:
    """Kind, element and place of what comes out, in the order that the next stage gives it."""
    found = correlated(frame, node.view, node.output_type.children, bits, followers).collect()
    shown = [(r[KIND], r["f2"], r[SEQUENCE], r[ORDER]) for r in found]
    ordered = sorted((r for r in shown if r[0] < TICK), key=lambda r: (r[3], r[2]))
    return [r[:3] for r in [*ordered, *(r for r in shown if r[0] >= TICK)]]


def test_a_padded_row_comes_behind_the_rows_that_it_replaces(spark: SparkSession) -> None:
    """An operator says that an array became empty, or was: -U and +U have one cause."""
    node = unnest_of("LEFT JOIN UNNEST(a) AS u (v) ON TRUE")

    emptied = rows_of(spark, node, (BEFORE, 7, 0, [4, 5, 6]), (AFTER, 7, 1, []))
    filled = rows_of(
        spark, node, (BEFORE, 7, 4, None), (AFTER, 7, 5, [4, 5]), (TICK, 0, None, None)
    )

    assert [r[:2] for r in made(emptied, node)] == [
        (BEFORE, 4),
        (BEFORE, 5),
        (BEFORE, 6),
        (AFTER, None),
    ]
    assert made(filled, node)[-1] == (TICK, None, None)
    assert [r[:2] for r in made(filled, node)[:-1]] == [(BEFORE, None), (AFTER, 4), (AFTER, 5)]


def test_a_condition_of_elements_may_need_python(spark: SparkSession) -> None:
    inner = unnest_of("CROSS JOIN UNNEST(a) AS u (v) WHERE REGEXP(CAST(v AS STRING), '(?<n>5)|7')")
    asked = "WHERE REGEXP_EXTRACT(CAST(v AS STRING), '(5)|7', 1) IS NOT NULL"
    in_python = unnest_of(f"CROSS JOIN UNNEST(a) AS u (v) {asked}")

    for node in (inner, in_python):
        assert node.view.condition is not None
    frame = rows_of(
        spark, in_python, (INSERT, 1, 0, [4, 5]), (INSERT, 1, 1, None), (TICK, 0, None, None)
    )
    assert [r[:2] for r in made(frame, in_python)] == [(INSERT, 5), (TICK, None)]
    assert [r[:2] for r in made(frame, inner)] == [(INSERT, 5), (TICK, None)]


@pytest.mark.parametrize(("bits", "own"), [(20, 42), (18, 44), (4, 58)])
def test_any_place_that_leaves_room_is_taken(spark: SparkSession, bits: int, own: int) -> None:
    """With a cause or without: those come behind all that have one."""
    node = unnest_of("CROSS JOIN UNNEST(a) AS u (v)")
    places = [0, 1, (1 << own) - 1]
    places += [each + (1 << PLACE_BITS) for each in places]
    rows = rows_of(spark, node, *((INSERT, 7, each, [at, at]) for at, each in enumerate(places)))

    found = made(rows, node, bits)

    assert [r[1] for r in found] == [at for at in range(len(places)) for _ in range(2)]
    assert len({r[2] for r in found}) == len(found)


def test_too_many_rows_are_told_as_what_they_are(spark: SparkSession) -> None:
    node = unnest_of("CROSS JOIN UNNEST(a) AS u (v)")
    rows = rows_of(spark, node, (INSERT, 7, 0, [*range(17)]))

    with pytest.raises(Exception, match="more than 16 rows are made of one row, all that") as told:
        made(rows, node, 4, 15)
    assert "15 such calls follow each other" in str(told.value)
    with pytest.raises(Exception, match="more than 16 rows are made of one row") as told:
        made(rows, node, 4)
    assert "follow" not in str(told.value)
    assert len(made(rows, node, 5)) == 17


def test_a_function_of_tables_behind_five_operators(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """Each emits two changes for one, so that places grow as fast as they can."""
    query = "SELECT MOD(id, 7) AS k, SUM(v) AS x FROM s GROUP BY MOD(id, 7)"
    for modulus in (6, 5, 4, 3):
        key = f"MOD(k, {modulus})"
        query = f"SELECT {key} AS k, SUM(x) AS x FROM ({query}) GROUP BY {key}"
    sql = f"""{TABLES} INSERT INTO t
        SELECT k, v FROM ({query}) CROSS JOIN UNNEST(ARRAY[x, x + 1000]) AS u (v);"""
    pipeline = Pipeline(spark, redis_client, tmp_path, compile_script(sql)[-1].document)
    write_lines(tmp_path / "in/a.jsonl", [change("+I", id=n, v=n) for n in range(12)])

    with pipeline:
        pipeline.wait_for_rows(12)

    sums: Counter[int] = Counter()
    for n in range(12):
        sums[n % 7 % 6 % 5 % 4 % 3] += n
    held: Counter[tuple[int, int]] = Counter()
    for op, row in pipeline.printed("t"):
        held[row["id"], row["v"]] += 1 if op.startswith("+") else -1
        assert held[row["id"], row["v"]] >= 0, "a retraction came before its row"
    assert +held == Counter((k, x + more) for k, x in sums.items() for more in (0, 1_000))
