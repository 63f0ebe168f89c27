"""The types of what a query computes, as Flink infers them."""

from __future__ import annotations

import pytest

from service.sql import SqlError, compile_script
from service.sql.types import arithmetic_type, common_type
from state.types import parse_type
from tests.service.sql.scripts import WITH

ARITHMETIC = [
    ("INT", "+", "BIGINT", "BIGINT"),
    ("TINYINT NOT NULL", "*", "SMALLINT NOT NULL", "SMALLINT NOT NULL"),
    ("INT", "/", "DOUBLE NOT NULL", "DOUBLE"),
    ("DECIMAL(10, 2)", "+", "DECIMAL(5, 4)", "DECIMAL(13, 4)"),
    ("DECIMAL(10, 2)", "*", "DECIMAL(5, 4)", "DECIMAL(16, 6)"),
    ("DECIMAL(10, 2)", "/", "DECIMAL(5, 4)", "DECIMAL(20, 8)"),
    ("DECIMAL(10, 2)", "%", "DECIMAL(5, 4)", "DECIMAL(5, 4)"),
    ("DECIMAL(38, 10)", "*", "DECIMAL(38, 10)", "DECIMAL(38, 6)"),
    ("DECIMAL(10, 2)", "-", "INT NOT NULL", "DECIMAL(13, 2)"),
    ("DECIMAL(10, 2)", "+", "FLOAT", "DOUBLE"),
]


@pytest.mark.parametrize(("left", "operator", "right", "made"), ARITHMETIC)
def test_arithmetic(left: str, operator: str, right: str, made: str) -> None:
    found = arithmetic_type(operator, parse_type(left), parse_type(right))
    assert str(found) == str(parse_type(made))


def test_text_is_no_number() -> None:
    assert arithmetic_type("+", parse_type("STRING"), parse_type("INT")) is None


COMMON = [
    (("INT NOT NULL", "BIGINT NOT NULL"), "BIGINT NOT NULL"),
    (("INT NOT NULL", "INT"), "INT"),
    (("DECIMAL(10, 2)", "DECIMAL(5, 4)"), "DECIMAL(12, 4)"),
    (("VARCHAR(3)", "VARCHAR(7)"), "VARCHAR(7)"),
    (("TIMESTAMP(3)", "TIMESTAMP(6)"), "TIMESTAMP(6)"),
]


@pytest.mark.parametrize(("types", "made"), COMMON)
def test_common_type(types: tuple[str, ...], made: str) -> None:
    assert str(common_type([parse_type(each) for each in types])) == str(parse_type(made))


def test_no_common_type() -> None:
    assert common_type([parse_type("INT"), parse_type("STRING")]) is None


COMPUTED = [
    ("COUNT(*)", "BIGINT"),
    ("SUM(i)", "INT"),
    ("SUM(d)", "DECIMAL(38, 2)"),
    ("AVG(d)", "DECIMAL(38, 6)"),
    ("AVG(i)", "INT"),
    ("MAX(t)", "TIMESTAMP(3)"),
    ("MIN(x)", "STRING"),
]


@pytest.mark.parametrize(("expression", "made"), COMPUTED)
def test_what_a_query_gives(expression: str, made: str) -> None:
    """The sink takes exactly this type; a type that it cannot hold is refused."""
    source = (
        f"CREATE TABLE s (i INT, d DECIMAL(10, 2), x STRING, t TIMESTAMP(3)) WITH ({WITH} = 'I');"
    )
    script = source + "CREATE TABLE o (a {}) " + f"WITH ({WITH} = 'retract');"
    insert = f"INSERT INTO o SELECT {expression} FROM s"
    [planned] = compile_script(script.format(made) + insert)
    assert [each["type"].rpartition("_")[0] for each in planned.document["nodes"]][-1:] == [
        "stream-exec-sink"
    ]
    with pytest.raises(SqlError, match="Incompatible types for sink column"):
        compile_script(script.format("ROW<q INT>") + insert)
