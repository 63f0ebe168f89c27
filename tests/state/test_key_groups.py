"""Key groups equal Spark's, on values that a Spark 4.3 computed.

How the table was made: `SELECT xxhash64(<literals of these types>)` in a local session with the
time zone UTC; TIME has no row, since it is an INT for Spark. How the sums were made: the SQL stands
above each.
"""

from __future__ import annotations

import datetime as dt
import doctest
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import state.key_groups
from state.arrow_values import to_column
from state.key_groups import key_group, key_groups_of_columns
from state.types import LogicalType, TypeRoot, UnsupportedType, parse_type
from tests.state.codec_strategies import types, values


def at(*parts: int, zone: dt.tzinfo | None = None) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC).replace(tzinfo=zone)


INT_1 = -6698625589789238999
INT_0 = 3614696996920510707
LONG_0 = -5252525462095825812
FROM_SPARK: list[tuple[list[str], list[Any], int]] = [
    (["BOOLEAN"], [True], INT_1),
    (["BOOLEAN"], [False], INT_0),
    (["TINYINT"], [0], INT_0),
    (["TINYINT"], [-128], 4160238337661960656),
    (["SMALLINT"], [32767], 8952525448871805501),
    (["INT"], [0], INT_0),
    (["INT"], [1], INT_1),
    (["INT"], [-1], 2017008487422258757),
    (["INT"], [2147483647], 1508894993788531228),
    (["INT"], [-2147483648], 2073849959933241805),
    (["INT"], [None], 42),
    (["BIGINT"], [0], LONG_0),
    (["BIGINT"], [-1], 3858142552250413010),
    (["BIGINT"], [9223372036854775807], -3246596055638297850),
    (["BIGINT"], [-9223372036854775808], -8619748838626508300),
    (["FLOAT"], [1.5], 6163473420726370430),
    (["FLOAT"], [-0.0], INT_0),
    (["FLOAT"], [math.nan], 2692338816207849720),
    (["FLOAT"], [-math.inf], -7580553461823983095),
    (["FLOAT"], [0.10000000149011612], -7604770425485878823),
    (["DOUBLE"], [1.5], 7738255526519901366),
    (["DOUBLE"], [-0.0], LONG_0),
    (["DOUBLE"], [math.nan], -3127944061524951246),
    (["DOUBLE"], [math.inf], 5810986238603807492),
    (["DOUBLE"], [0.1], -4684694357984311926),
    (["DECIMAL(10, 2)"], [Decimal("0.00")], LONG_0),
    (["DECIMAL(10, 2)"], [Decimal("-99999999.99")], 8762893120686426508),
    (["DECIMAL(18, 2)"], [Decimal("1.10")], 214815589036292259),
    (["DECIMAL(19, 2)"], [Decimal("1.10")], -332194713362066473),
    (["DECIMAL(30, 2)"], [Decimal("-1.28")], -7898411661632158123),
    (["DECIMAL(30, 2)"], [Decimal("1.28")], 6715097930120473301),
    (["DECIMAL(38, 10)"], [Decimal("0E-10")], -8959994473701255385),
    (["DECIMAL(30, 4)"], [Decimal("12345678901234567890123456.7890")], 7467050800690399880),
    (["DECIMAL(38, 0)"], [Decimal("-" + "9" * 38)], -2254039905620870768),
    (["STRING"], [""], -7444071767201028348),
    (["STRING"], ["a"], -8582455328737087284),
    (["CHAR(6)"], ["N14228"], 2818031054348419725),
    (["STRING"], ["日本語"], -619341062884681239),
    (["STRING"], ["0123456789" * 4], 5508798028064852934),
    (["STRING"], [None], 42),
    (["BYTES"], [b""], -7444071767201028348),
    (["BYTES"], [b"\x00\x01\x02"], 6019482000716350659),
    (["DATE"], [dt.date(1970, 1, 1)], INT_0),
    (["DATE"], [dt.date(1, 1, 1)], 6773727150484150602),
    (["DATE"], [dt.date(2026, 11, 21)], 6484722619790110920),
    (["TIMESTAMP(6)"], [at(1969, 12, 31, 23, 59, 59, 999999)], 3858142552250413010),
    (["TIMESTAMP(6)"], [at(2026, 11, 21, 1, 2, 3, 4)], 1333900798692829450),
    (["TIMESTAMP_LTZ(3)"], [at(2020, 1, 1, 0, 0, 10, zone=dt.UTC)], 7363384141415676555),
    (["ARRAY<INT>"], [[1, None, 3]], -3383274367486667931),
    (["ARRAY<STRING>"], [["a", "b"]], -7357372313250070212),
    (["ARRAY<ARRAY<BIGINT>>"], [[[1], []]], -7001672635703045582),
    (["ROW<a INT, b STRING>"], [(1, "x")], 8510603489595372987),
    (["ROW<a INT, b ARRAY<INT>>"], [(None, [1])], INT_1),
    (["INT", "STRING"], [1, "a"], 8205864924878002737),
    (["STRING", "INT"], ["a", 1], -4810547614043336770),
    (["INT", "STRING"], [None, "a"], -8582455328737087284),
    (["STRING", "INT", "BIGINT"], ["a", None, 2], -8186034249051070164),
    (
        ["BIGINT", "INT", "DOUBLE", "DATE"],
        [1, 2, 1.5, dt.date(2020, 1, 1)],
        7446979273427025810,
    ),
    (["INT", "STRING"], [None, None], 42),
    (
        ["STRING", "ARRAY<STRING>", "ROW<a INT, b STRING>"],
        ["k", ["x", None], (1, "y")],
        5996861119589639269,
    ),
]


@pytest.mark.parametrize(("texts", "key", "spark_hash"), FROM_SPARK)
def test_a_key_group_is_the_one_that_spark_computes(
    texts: list[str], key: list[Any], spark_hash: int
) -> None:
    logical = [parse_type(each) for each in texts]
    columns = [to_column(t, [v, v]) for t, v in zip(logical, key, strict=True)]

    # A modulus that is prime and large tells more than the usual 128.
    for parallelism in (1, 128, 2_147_483_647):
        expected = spark_hash % parallelism
        assert key_group(logical, key, parallelism) == expected
        assert key_groups_of_columns(logical, columns, parallelism).tolist() == [expected] * 2


def weighted_sum(columns: dict[str, pa.Array], parallelism: int, modulus: int) -> int:
    """SUM(pmod(xxhash64(columns), parallelism) * (id % modulus)) for id from -5000 to 4999."""
    groups = key_groups_of_columns(
        [parse_type(each) for each in columns], list(columns.values()), parallelism
    )
    # Spark's % keeps the sign of the dividend.
    return int((groups.astype(np.int64) * np.fmod(np.arange(-5000, 5000), modulus)).sum())


def test_key_groups_of_generated_columns_add_up_as_in_spark() -> None:
    ids = np.arange(-5000, 5000)
    names = pa.array([f"key-{int(math.fmod(each, 1000))}" for each in ids])

    # xxhash64(id)
    assert weighted_sum({"BIGINT": pa.array(ids)}, 128, 97) == -272890
    # xxhash64(CAST(id AS INT), concat('key-', id % 1000), id * 1.25D)
    columns = {"INT": pa.array(ids, pa.int32()), "STRING": names, "DOUBLE": pa.array(ids * 1.25)}
    assert weighted_sum(columns, 128, 89) == -23434
    # xxhash64(concat('key-', id % 1000), CAST(id AS SMALLINT))
    columns = {"STRING": names, "SMALLINT": pa.array(ids, pa.int16())}
    assert weighted_sum(columns, 77, 83) == -177179


def is_hashable(logical: LogicalType) -> bool:
    if logical.root in (TypeRoot.MAP, TypeRoot.MULTISET):
        return False
    return all(map(is_hashable, logical.children))


@st.composite
def keys(draw: st.DrawFn) -> tuple[list[LogicalType], list[tuple[Any, ...]]]:
    columns = draw(st.lists(types().filter(is_hashable), min_size=1, max_size=3))
    return columns, draw(st.lists(st.tuples(*map(values, columns)), max_size=5))


@given(keys())
@settings(deadline=None)
def test_columns_of_keys_have_the_key_groups_of_each(
    table: tuple[list[LogicalType], list[tuple[Any, ...]]],
) -> None:
    logical, found = table
    data = zip(*found, strict=True) if found else [()] * len(logical)
    columns = [to_column(t, list(v)) for t, v in zip(logical, data, strict=True)]

    groups = key_groups_of_columns(logical, columns, 1009)

    assert groups.tolist() == [key_group(logical, each, 1009) for each in found]


@pytest.mark.parametrize("text", ["MAP<INT, INT>", "ARRAY<MULTISET<INT>>"])
def test_maps_cannot_be_keys(text: str) -> None:
    logical = parse_type(text)

    with pytest.raises(UnsupportedType):
        key_group([logical], [[]], 128)
    with pytest.raises(UnsupportedType):
        key_groups_of_columns([logical], [to_column(logical, [[]])], 128)


def test_the_examples_in_the_documentation_hold() -> None:
    assert doctest.testmod(state.key_groups).failed == 0
