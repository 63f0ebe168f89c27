"""JSON functions in Calc nodes: Spark's workers give what real Flink gave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.connect import functions as F

from operators.expressions.representation import to_inside
from operators.expressions.rex import Call
from service.plan.rex import parse_rex
from service.runtime.expressions import to_column
from service.sql import compile_script
from state.types import LogicalType, TypeRoot, arrow_type
from tests.integration.pipelines import Pipeline, change, write_lines
from tests.operators.expressions.test_as_flink import Recording

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql import DataFrame, SparkSession

FOUND = Recording("written-json")
MADE = Recording("written-json-made")
CHUNK = 100
"""Expressions of one query."""


def table(spark: SparkSession, recording: Recording) -> DataFrame:
    columns = {
        name: pa.array([as_arrow(row[name], kind) for row in recording.rows], arrow_type(kind))
        for name, kind in recording.types.items()
    }
    return spark.createDataFrame(pa.table(columns))


def as_arrow(value: Any, kind: LogicalType) -> Any:
    """A row's value as pyarrow takes it: rows by name, TIME as milliseconds."""
    if value is None:
        return None
    match kind.root:
        case TypeRoot.TIME:
            convert = to_inside(kind)
            assert convert is not None
            return convert(value)
        case TypeRoot.ARRAY:
            return [as_arrow(each, kind.children[0]) for each in value]
        case TypeRoot.ROW:
            parts = zip(kind.field_names, value, kind.children, strict=True)
            return {name: as_arrow(each, of) for name, each, of in parts}
        case TypeRoot.MAP:
            return [(key, as_arrow(each, kind.children[1])) for key, each in value]
        case _:
            return value


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return table(spark, FOUND)


def column(case: dict[str, Any]) -> Any:
    return to_column(parse_rex(case["rex"], ""), [F.col(name) for name in case["input"]])


@pytest.mark.parametrize(("recording", "least"), [(FOUND, 200), (MADE, 200)])
def test_values_are_those_of_flink(spark: SparkSession, recording: Recording, least: int) -> None:
    frame = table(spark, recording)
    cases = [case for case in recording.cases if "values" in case]
    assert len(cases) > least
    for start in range(0, len(cases), CHUNK):
        chunk = cases[start : start + CHUNK]
        made = [column(case).alias(f"e{number}") for number, case in enumerate(chunk)]
        result = frame.select("id", *made).orderBy("id").toArrow()
        for number, case in enumerate(chunk):
            assert result.column(f"e{number}").to_pylist() == case["values"], case["sql"]


def test_a_failure_ends_the_query_only_where_its_row_is_taken(frame: DataFrame) -> None:
    case = next(each for each in FOUND.cases if "fails" in each)
    failing = column(case)
    taken = frame.where(F.col("id") < 0).select(F.when(F.col("id") > 0, failing))
    assert taken.toArrow().num_rows == 0
    assert frame.select(F.when(F.col("id") < 0, failing)).toArrow().num_rows == len(FOUND.rows)
    with pytest.raises(Exception, match="tailrace:expression"):
        frame.select(failing).toArrow()


def test_it_stands_inside_of_other_functions(frame: DataFrame) -> None:
    case = next(each for each in FOUND.cases if each["sql"] == "JSON_VALUE(js, '$.a')")
    inner = parse_rex(case["rex"], "")
    assert isinstance(inner, Call)
    upper = Call("UPPER", 1, "built-in", (inner,), inner.type, "FUNCTION", None, "")
    made = to_column(upper, [F.col(name) for name in case["input"]])
    found = frame.select("id", made.alias("e")).orderBy("id").toArrow()
    expected = [None if each is None else each.upper() for each in case["values"]]
    assert found.column("e").to_pylist() == expected


PIPELINE = """
CREATE TABLE s (id INT, js STRING) WITH ('connector' = 'filesystem', 'format' = 'changelog-json',
  'path' = 'in', 'changelog-mode' = 'I');
CREATE TABLE t (k STRING, n INT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'redis');
INSERT INTO t SELECT JSON_VALUE(js, '$.k'), SUM(JSON_VALUE(js, 'lax $.n' RETURNING INT
  DEFAULT 10 ON EMPTY)) FROM s WHERE js IS JSON OBJECT AND JSON_EXISTS(js, '$.k')
  GROUP BY JSON_VALUE(js, '$.k');
"""


def test_a_pipeline_groups_by_what_it_finds(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    texts = ['{"k":"a","n":1}', '{"k":"b"}', "[1]", '{"n":5}', None, "{", '{"k":"a","n":4}']
    write_lines(
        tmp_path / "in/a.jsonl",
        [change("+I", id=number, js=text) for number, text in enumerate(texts)],
    )
    document = compile_script(PIPELINE)[-1].document
    with Pipeline(spark, redis_client, tmp_path, document) as pipeline:
        pipeline.wait_for_rows(len(texts))
        found = pipeline.table("t").values()
    assert {row["k"]: row["n"] for row in found} == {"a": 5, "b": 10}
